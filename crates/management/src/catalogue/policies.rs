//! Policies, and operators' policies: the same paths twice.

use super::{Answer, delete, found, list, put};
use crate::directory::{Alteration, Policy};
use crate::input::json_of;
use crate::route::Call;
use serde_json::{Value, json};

/// A policy in the API's words.
pub(crate) fn policy_json(p: &Policy) -> Value {
    json!({
        "vhost": p.vhost,
        "name": p.name,
        "pattern": p.pattern,
        "apply-to": p.apply_to,
        "definition": json_of(&p.definition),
        "priority": p.priority,
    })
}

fn list_policies(call: &Call<'_>, operator: bool, vhost: Option<&str>) -> Answer {
    let mut all = call.app.node().policies(operator);
    match vhost {
        Some(vhost) => all.retain(|p| p.vhost == vhost),
        None => all.retain(|p| call.app.sees(call.who, &p.vhost)),
    }
    list(call, all.iter().map(policy_json))
}

fn find_policy(call: &Call<'_>, operator: bool) -> Option<Policy> {
    let all = call.app.node().policies(operator);
    all.into_iter()
        .find(|p| p.vhost == call.param(0) && p.name == call.param(1))
}

fn set_policy(call: &Call<'_>, operator: bool) -> Answer {
    let body = call.body()?;
    body.required("definition")?;
    let default = if operator { "queues" } else { "all" };
    let policy = Policy {
        vhost: call.param(0).to_owned(),
        name: call.param(1).to_owned(),
        pattern: body.text("pattern")?.to_owned(),
        apply_to: body.text_or("apply-to", default)?.to_owned(),
        priority: body.integer_or("priority", 0)?,
        definition: body.table("definition")?,
    };
    let existed = find_policy(call, operator).is_some();
    put(call, existed, Alteration::PutPolicy { operator, policy })
}

fn clear_policy(call: &Call<'_>, operator: bool) -> Answer {
    let (vhost, name) = (call.param(0).to_owned(), call.param(1).to_owned());
    delete(
        call,
        Alteration::DeletePolicy {
            operator,
            vhost,
            name,
        },
    )
}

/// `GET /api/policies`
pub fn policies(call: &Call<'_>) -> Answer {
    list_policies(call, false, None)
}

/// `GET /api/policies/{vhost}`
pub fn policies_of_vhost(call: &Call<'_>) -> Answer {
    list_policies(call, false, Some(call.param(0)))
}

/// `GET /api/policies/{vhost}/{name}`
pub fn policy(call: &Call<'_>) -> Answer {
    found(call, find_policy(call, false), policy_json)
}

/// `PUT /api/policies/{vhost}/{name}`
pub fn put_policy(call: &Call<'_>) -> Answer {
    set_policy(call, false)
}

/// `DELETE /api/policies/{vhost}/{name}`
pub fn delete_policy(call: &Call<'_>) -> Answer {
    clear_policy(call, false)
}

/// `GET /api/operator-policies`
pub fn operator_policies(call: &Call<'_>) -> Answer {
    list_policies(call, true, None)
}

/// `GET /api/operator-policies/{vhost}`
pub fn operator_policies_of_vhost(call: &Call<'_>) -> Answer {
    list_policies(call, true, Some(call.param(0)))
}

/// `GET /api/operator-policies/{vhost}/{name}`
pub fn operator_policy(call: &Call<'_>) -> Answer {
    found(call, find_policy(call, true), policy_json)
}

/// `PUT /api/operator-policies/{vhost}/{name}`
pub fn put_operator_policy(call: &Call<'_>) -> Answer {
    set_policy(call, true)
}

/// `DELETE /api/operator-policies/{vhost}/{name}`
pub fn delete_operator_policy(call: &Call<'_>) -> Answer {
    clear_policy(call, true)
}
