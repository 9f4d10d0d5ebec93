//! Parameters of components and global ones; the cluster's name is one of these.

use super::{Answer, delete, found, list, put};
use crate::directory::{Alteration, Parameter};
use crate::input::{Body, json_of, table_of};
use crate::reply::ApiError;
use crate::route::Call;
use leveret_types::{FieldTable, FieldValue};
use serde_json::{Map, Value, json};

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

fn parameter_json(p: &Parameter) -> Value {
    json!({"component": p.component, "vhost": p.vhost, "name": p.name, "value": value_json(&p.value)})
}

fn parameters_where(call: &Call<'_>, keep: impl Fn(&Parameter) -> bool) -> Answer {
    let all = call.app.node().parameters();
    let kept = all
        .iter()
        .filter(|p| keep(p) && call.app.sees(call.who, &p.vhost));
    list(call, kept.map(parameter_json))
}

/// `GET /api/parameters`
pub fn parameters(call: &Call<'_>) -> Answer {
    parameters_where(call, |_| true)
}

/// `GET /api/parameters/{component}`
pub fn parameters_of_component(call: &Call<'_>) -> Answer {
    parameters_where(call, |p| p.component == call.param(0))
}

/// `GET /api/parameters/{component}/{vhost}`
pub fn parameters_of_vhost(call: &Call<'_>) -> Answer {
    parameters_where(call, |p| {
        p.component == call.param(0) && p.vhost == call.param(1)
    })
}

fn find_parameter(call: &Call<'_>) -> Option<Parameter> {
    let (component, vhost, name) = (call.param(0), call.param(1), call.param(2));
    let all = call.app.node().parameters();
    all.into_iter()
        .find(|p| p.component == component && p.vhost == vhost && p.name == name)
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
    let alteration = Alteration::DeleteParameter {
        component: call.param(0).to_owned(),
        vhost: call.param(1).to_owned(),
        name: call.param(2).to_owned(),
    };
    delete(call, alteration)
}

fn global_json(p: &Parameter) -> Value {
    json!({"name": p.name, "value": value_json(&p.value)})
}

/// `GET /api/global-parameters`
pub fn global_parameters(call: &Call<'_>) -> Answer {
    list(
        call,
        call.app.node().global_parameters().iter().map(global_json),
    )
}

fn find_global(call: &Call<'_>) -> Option<Parameter> {
    let all = call.app.node().global_parameters();
    all.into_iter().find(|p| p.name == call.param(0))
}

/// `GET /api/global-parameters/{name}`
pub fn global_parameter(call: &Call<'_>) -> Answer {
    found(call, find_global(call), global_json)
}

/// `PUT /api/global-parameters/{name}`
pub fn put_global_parameter(call: &Call<'_>) -> Answer {
    let parameter = Parameter {
        component: String::new(),
        vhost: String::new(),
        name: call.param(0).to_owned(),
        value: field_value(&call.body()?)?,
    };
    put(
        call,
        find_global(call).is_some(),
        Alteration::PutParameter(parameter),
    )
}

/// `DELETE /api/global-parameters/{name}`
pub fn delete_global_parameter(call: &Call<'_>) -> Answer {
    let alteration = Alteration::DeleteParameter {
        component: String::new(),
        vhost: String::new(),
        name: call.param(0).to_owned(),
    };
    delete(call, alteration)
}

/// `PUT /api/cluster-name`: `{"name": "rabbit"}`
pub fn put_cluster_name(call: &Call<'_>) -> Answer {
    let name = call.body()?.text("name")?.to_owned();
    delete(call, Alteration::SetClusterName { name })
}
