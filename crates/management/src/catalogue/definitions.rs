//! Definitions: the catalogue as a file, out and in.

use super::Answer;
use crate::directory::AlterError;
use crate::input::parse_json;
use crate::multipart;
use crate::overview::RABBITMQ_VERSION;
use crate::reply::{ApiError, Reply};
use crate::route::Call;
use leveret_metadata::CatalogueError;
use leveret_types::limits::IMPORT_JSON_FACTOR;

fn definitions(call: &Call<'_>, vhost: Option<&str>) -> Answer {
    let mut definitions = call.app.node().export(vhost);
    definitions["rabbit_version"] = RABBITMQ_VERSION.into();
    definitions["rabbitmq_version"] = RABBITMQ_VERSION.into();
    definitions["product_name"] = "Leveret".into();
    definitions["product_version"] = crate::overview::VERSION.into();
    Ok(Reply::tagged(&definitions))
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
    let definitions = parse_json(text)?;
    if !definitions.is_object() {
        return Err(ApiError::BadRequest(
            "definitions are a JSON object".to_owned(),
        ));
    }
    let taken = call.app.node().import(call.who.name(), vhost, &definitions);
    match taken {
        Ok(()) => Ok(Reply::Done),
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
