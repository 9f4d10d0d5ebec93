//! Parameters of components and global ones; the cluster's name is one of these.

use super::{Answer, delete, found, list_one_by_one, put};
use crate::http::input::{Body, json_of, table_of};
use crate::http::reply::ApiError;
use crate::http::router::Call;
use crate::row_lists::{self, Found};
use leveret_metadata::{Command, GlobalParameterDefinition, ParameterDefinition};
use leveret_types::{FieldTable, FieldValue};
use serde_json::{Map, Value, json};
use std::sync::Arc;

fn value_json(value: &FieldValue) -> Value {
    let table: FieldTable = [("value", value.clone())].into();
    json_of(&table)["value"].take()
}

fn field_value(body: &Body) -> Result<FieldValue, ApiError> {
    let fields: Map<String, Value> = [("value".to_owned(), body.required("value")?.clone())]
        .into_iter()
        .collect();
    Ok(table_of(&fields)?
        .remove("value")
        .unwrap_or(FieldValue::Void))
}

fn parameter_json(p: &ParameterDefinition) -> Value {
    json!({"component": p.component, "vhost": p.vhost, "name": p.name, "value": value_json(&p.value.0)})
}

/// Those that are meant, by their virtual host and component.
fn parameters_where(call: &Call<'_>, is_meant: impl Fn(&str, &str) -> bool) -> Answer {
    let mut found = Found::new(&call.query)?;
    let visible = row_lists::visible_vhosts(call, None);
    let (mut within, mut part_of): (Arc<str>, Arc<str>) = ("".into(), "".into());
    let mut name_bytes = 0;
    call.app
        .node()
        .each_parameter(&mut |vhost, component, name| {
            let is_seen = visible.as_ref().is_none_or(|seen| seen.contains(vhost));
            if is_seen && is_meant(vhost, component) {
                found.add(Some(name), || {
                    name_bytes += name.len();
                    let vhost = row_lists::shared(&mut within, vhost);
                    let component = row_lists::shared(&mut part_of, component);
                    (vhost, component, Box::<str>::from(name))
                });
            }
        });
    let app = Arc::clone(call.app);
    let row = move |(vhost, component, name): &(Arc<str>, Arc<str>, Box<str>)| {
        let parameter = app.node().parameter(vhost, component, name)?;
        Some(parameter_json(&parameter))
    };
    list_one_by_one(call, found, name_bytes, row)
}

/// `GET /api/parameters`
pub fn parameters(call: &Call<'_>) -> Answer {
    parameters_where(call, |_, _| true)
}

/// `GET /api/parameters/{component}`
pub fn parameters_of_component(call: &Call<'_>) -> Answer {
    parameters_where(call, |_, component| component == call.param(0))
}

/// `GET /api/parameters/{component}/{vhost}`
pub fn parameters_of_vhost(call: &Call<'_>) -> Answer {
    parameters_where(call, |vhost, component| {
        component == call.param(0) && vhost == call.param(1)
    })
}

fn find_parameter(call: &Call<'_>) -> Option<ParameterDefinition> {
    let (component, vhost, name) = (call.param(0), call.param(1), call.param(2));
    call.app.node().parameter(vhost, component, name)
}

/// `GET /api/parameters/{component}/{vhost}/{name}`
pub fn parameter(call: &Call<'_>) -> Answer {
    found(call, find_parameter(call), parameter_json)
}

/// `PUT /api/parameters/{component}/{vhost}/{name}`: no component reads any, and those of earlier
/// versions can be deleted alone.
pub fn put_parameter(call: &Call<'_>) -> Answer {
    let error = leveret_metadata::refuse_component(call.param(0));
    Err(ApiError::BadRequest(error.to_string()))
}

/// `DELETE /api/parameters/{component}/{vhost}/{name}`
pub fn delete_parameter(call: &Call<'_>) -> Answer {
    let command = Command::ParameterClear {
        vhost: call.param(1).to_owned(),
        component: call.param(0).to_owned(),
        name: call.param(2).to_owned(),
    };
    delete(call, command)
}

fn global_json(p: &GlobalParameterDefinition) -> Value {
    json!({"name": p.name, "value": value_json(&p.value.0)})
}

/// `GET /api/global-parameters`
pub fn global_parameters(call: &Call<'_>) -> Answer {
    let mut found = Found::new(&call.query)?;
    let mut name_bytes = 0;
    call.app.node().each_global_parameter(&mut |name| {
        found.add(Some(name), || {
            name_bytes += name.len();
            Arc::<str>::from(name)
        });
    });
    let app = Arc::clone(call.app);
    let row = move |name: &Arc<str>| Some(global_json(&app.node().global_parameter(name)?));
    list_one_by_one(call, found, name_bytes, row)
}

fn find_global(call: &Call<'_>) -> Option<GlobalParameterDefinition> {
    call.app.node().global_parameter(call.param(0))
}

/// `GET /api/global-parameters/{name}`
pub fn global_parameter(call: &Call<'_>) -> Answer {
    found(call, find_global(call), global_json)
}

/// `PUT /api/global-parameters/{name}`
pub fn put_global_parameter(call: &Call<'_>) -> Answer {
    let command = Command::GlobalParameterSet {
        name: call.param(0).to_owned(),
        value: field_value(&call.body()?)?,
    };
    put(call, find_global(call).is_some(), command)
}

/// `DELETE /api/global-parameters/{name}`
pub fn delete_global_parameter(call: &Call<'_>) -> Answer {
    let name = call.param(0).to_owned();
    delete(call, Command::GlobalParameterClear { name })
}

/// `PUT /api/cluster-name`: `{"name": "rabbit"}`
pub fn put_cluster_name(call: &Call<'_>) -> Answer {
    let command = Command::GlobalParameterSet {
        name: "cluster_name".to_owned(),
        value: FieldValue::text(call.body()?.text("name")?),
    };
    delete(call, command)
}
