//! Definitions: the catalogue as a file, out and in.

use super::Answer;
use crate::definitions_text;
use crate::directory::AlterError;
use crate::foreign_definitions::{Unsupported, without_effect};
use crate::http::input::parse_definitions;
use crate::http::multipart;
use crate::http::reply::{ApiError, Reply};
use crate::http::router::Call;
use crate::overview::RABBITMQ_VERSION;
use leveret_metadata::{CatalogueError, Definitions};
use leveret_types::limits::IMPORT_JSON_FACTOR;
use serde_json::json;

fn definitions(call: &Call<'_>, vhost: Option<&str>) -> Answer {
    let cluster = || call.app.node().node_stats().cluster_name;
    let (explanation, original_cluster_name) = match vhost {
        Some(vhost) => (format!("Definitions of virtual host '{vhost}'"), None),
        None => {
            let name = cluster();
            (format!("Definitions of cluster '{name}'"), Some(name))
        }
    };
    let definitions = Definitions {
        explanation: Some(explanation),
        original_cluster_name,
        rabbit_version: Some(RABBITMQ_VERSION.to_owned()),
        rabbitmq_version: Some(RABBITMQ_VERSION.to_owned()),
        product_name: Some("Leveret".to_owned()),
        product_version: Some(crate::overview::VERSION.to_owned()),
        ..call.app.node().export(vhost)
    };
    Ok(definitions_text::reply(definitions))
}

/// `GET /api/definitions`
pub fn export(call: &Call<'_>) -> Answer {
    definitions(call, None)
}

/// `GET /api/definitions/{vhost}`
pub fn export_vhost(call: &Call<'_>) -> Answer {
    known_vhost(call)?;
    definitions(call, Some(call.param(0)))
}

/// As RabbitMQ says it, of a resource that is there for any name.
fn known_vhost(call: &Call<'_>) -> Result<(), ApiError> {
    match call.app.node().vhost(call.param(0)) {
        Some(_) => Ok(()),
        None => Err(ApiError::BadRequest("vhost_not_found".to_owned())),
    }
}

/// The file of an upload form, or the whole body where it is none.
fn uploaded<'a>(call: &'a Call<'_>) -> Result<&'a [u8], ApiError> {
    if !multipart::is_form(&call.content_type) {
        return Ok(call.bytes);
    }
    multipart::part(&call.content_type, call.bytes, "file").ok_or_else(|| {
        ApiError::BadRequest("the form has no part named \"file\", or is cut short".to_owned())
    })
}

fn take(call: &Call<'_>, vhost: Option<&str>) -> Answer {
    let text = uploaded(call)?;
    let needed = text.len() as u64 * IMPORT_JSON_FACTOR;
    let left = |wanted| call.app.node().memory_left(wanted);
    CatalogueError::refuse_import(needed, left)
        .map_err(|refused| AlterError::Unavailable(refused.to_string()))?;
    let mut definitions = parse_definitions(text)?;
    if !definitions.is_object() {
        return Err(ApiError::BadRequest(
            "definitions are a JSON object".to_owned(),
        ));
    }
    let mut unsupported = Unsupported::default();
    unsupported.take(&mut definitions);
    let node = call.app.node();
    if !unsupported.lines.is_empty() && !call.query.flag("skip_unsupported") {
        let besides = node.check_import(vhost, &definitions).err();
        let besides = besides.map(|error| error.to_string());
        let refusal = unsupported.refusal(besides.as_deref()).unwrap_or_default();
        return Err(ApiError::BadRequest(refusal));
    }
    let imported = node.import(call.who.name(), vhost, &definitions);
    if imported.is_ok() {
        node.note_left_out(call.who.name(), &unsupported.lines);
    }
    match imported {
        // Clients of RabbitMQ's want no content, whoever asks for more gets it.
        Ok(lines) if call.query.flag("passed_over") => Ok(Reply::Json(json!({
            "passed_over": lines,
            "left_out": unsupported.lines,
            "without_effect": without_effect(&definitions),
        }))),
        Ok(_) => Ok(Reply::Done),
        Err(AlterError::NotFound(text)) => Err(ApiError::BadRequest(text)),
        Err(other) => Err(other.into()),
    }
}

/// `POST /api/definitions`
pub fn import(call: &Call<'_>) -> Answer {
    take(call, None)
}

/// `POST /api/definitions/{vhost}`
pub fn import_vhost(call: &Call<'_>) -> Answer {
    known_vhost(call)?;
    take(call, Some(call.param(0)))
}
