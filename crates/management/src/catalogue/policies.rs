//! Policies, and operators' policies: the same paths twice.

use super::{Answer, delete, found, list_one_by_one, put};
use crate::http::input::json_of;
use crate::http::router::Call;
use crate::row_lists::{self, Found};
use leveret_metadata::{Command, PolicyDefinition};
use serde_json::{Value, json};
use std::sync::Arc;

/// A policy in the API's words.
pub(crate) fn policy_json(p: &PolicyDefinition) -> Value {
    json!({
        "vhost": p.vhost,
        "name": p.name,
        "pattern": p.pattern,
        "apply-to": p.apply_to,
        "definition": p.definition.as_table().map(json_of),
        "priority": p.priority,
    })
}

fn list_policies(call: &Call<'_>, operator: bool, vhost: Option<&str>) -> Answer {
    let mut found = Found::new(&call.query)?;
    let visible = row_lists::visible_vhosts(call, vhost);
    let mut within: Arc<str> = "".into();
    let mut name_bytes = 0;
    call.app.node().each_policy(operator, &mut |of, name| {
        let is_meant = vhost.is_none_or(|vhost| vhost == of);
        if is_meant && visible.as_ref().is_none_or(|seen| seen.contains(of)) {
            found.add(Some(name), || {
                name_bytes += name.len();
                (row_lists::shared(&mut within, of), Box::<str>::from(name))
            });
        }
    });
    let app = Arc::clone(call.app);
    let row = move |(vhost, name): &(Arc<str>, Box<str>)| {
        let policy = app.node().policy(operator, vhost, name)?;
        Some(policy_json(&policy))
    };
    list_one_by_one(call, found, name_bytes, row)
}

fn find_policy(call: &Call<'_>, operator: bool) -> Option<PolicyDefinition> {
    let (vhost, name) = (call.param(0), call.param(1));
    call.app.node().policy(operator, vhost, name)
}

fn set_policy(call: &Call<'_>, operator: bool) -> Answer {
    let body = call.body()?;
    body.required("definition")?;
    let default = if operator { "queues" } else { "all" };
    let command = Command::PolicySet {
        vhost: call.param(0).to_owned(),
        name: call.param(1).to_owned(),
        operator,
        pattern: body.text("pattern")?.to_owned(),
        apply_to: body.text_or("apply-to", default)?.to_owned(),
        priority: body.integer_or("priority", 0)?,
        definition: body.table("definition")?,
    };
    let existed = find_policy(call, operator).is_some();
    put(call, existed, command)
}

fn clear_policy(call: &Call<'_>, operator: bool) -> Answer {
    let (vhost, name) = (call.param(0).to_owned(), call.param(1).to_owned());
    let command = Command::PolicyClear {
        vhost,
        name,
        operator,
    };
    delete(call, command)
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
