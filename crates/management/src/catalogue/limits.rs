//! Limits of virtual hosts and of users.

use super::{Answer, delete, limits_json, list, list_by, put};
use crate::directory::{User, Vhost};
use crate::http::input::Body;
use crate::http::reply::ApiError;
use crate::http::router::Call;
use leveret_metadata::Command;
use serde_json::json;

/// `GET /api/vhost-limits`
pub fn vhost_limits(call: &Call<'_>) -> Answer {
    let vhosts = call.app.node().vhosts();
    let limited = vhosts
        .iter()
        .filter(|v| !v.limits.is_empty() && call.app.sees(call.who, &v.name));
    let row = |v: &Vhost| json!({"vhost": v.name, "value": limits_json(&v.limits)});
    list_by(call, limited.map(row), "vhost")
}

/// `GET /api/vhost-limits/{vhost}`
pub fn limits_of_vhost(call: &Call<'_>) -> Answer {
    let vhost = call
        .app
        .node()
        .vhost(call.param(0))
        .ok_or(ApiError::NotFound)?;
    let limits = match vhost.limits.is_empty() {
        true => None,
        false => Some(json!({"vhost": vhost.name, "value": limits_json(&vhost.limits)})),
    };
    list(call, limits)
}

/// The value of a limit: `{"value": 10}`.
fn limit(body: &Body) -> Result<i64, ApiError> {
    body.required("value")?;
    body.integer_or("value", -1)
}

/// `PUT /api/vhost-limits/{vhost}/{name}`
pub fn put_vhost_limit(call: &Call<'_>) -> Answer {
    let command = Command::VhostLimitSet {
        vhost: call.param(0).to_owned(),
        limit: call.param(1).to_owned(),
        value: limit(&call.body()?)?,
    };
    put(call, true, command)
}

/// `DELETE /api/vhost-limits/{vhost}/{name}`
pub fn delete_vhost_limit(call: &Call<'_>) -> Answer {
    let command = Command::VhostLimitClear {
        vhost: call.param(0).to_owned(),
        limit: Some(call.param(1).to_owned()),
    };
    delete(call, command)
}

/// `GET /api/user-limits`
pub fn user_limits(call: &Call<'_>) -> Answer {
    let users = call.app.node().users();
    let limited = users.iter().filter(|u| !u.limits.is_empty());
    let row = |u: &User| json!({"user": u.name, "value": limits_json(&u.limits)});
    list_by(call, limited.map(row), "user")
}

/// `GET /api/user-limits/{user}`
pub fn limits_of_user(call: &Call<'_>) -> Answer {
    let user = call
        .app
        .node()
        .user(call.param(0))
        .ok_or(ApiError::NotFound)?;
    let limits = match user.limits.is_empty() {
        true => None,
        false => Some(json!({"user": user.name, "value": limits_json(&user.limits)})),
    };
    list(call, limits)
}

/// `PUT /api/user-limits/{user}/{name}`
pub fn put_user_limit(call: &Call<'_>) -> Answer {
    let command = Command::UserLimitSet {
        user: call.param(0).to_owned(),
        limit: call.param(1).to_owned(),
        value: limit(&call.body()?)?,
    };
    put(call, true, command)
}

/// `DELETE /api/user-limits/{user}/{name}`
pub fn delete_user_limit(call: &Call<'_>) -> Answer {
    let command = Command::UserLimitClear {
        user: call.param(0).to_owned(),
        limit: Some(call.param(1).to_owned()),
    };
    delete(call, command)
}
