//! Users and their passwords and tags.

use super::{Answer, alter, delete, found, limits_json, list, put, tags};
use crate::directory::{Alteration, Secret, User};
use crate::http::reply::{ApiError, Reply};
use crate::http::router::Call;
use leveret_metadata::Command;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Users that are deleted before the next ones are looked at: that they are on disk is waited for
/// once for all of these.
const USERS_DELETED_AT_ONCE: usize = 256;

fn user_json(user: &User) -> Value {
    json!({
        "name": user.name,
        "password_hash": user.password_hash,
        "hashing_algorithm": user.hashing_algorithm,
        "tags": user.tags,
        "limits": limits_json(&user.limits),
    })
}

/// `GET /api/users`
pub fn users(call: &Call<'_>) -> Answer {
    list(call, call.app.node().users().iter().map(user_json))
}

/// `GET /api/users/without-permissions`
pub fn users_without_permissions(call: &Call<'_>) -> Answer {
    let permissions = call.app.node().permissions();
    let mut users = call.app.node().users();
    users.retain(|user| permissions.iter().all(|p| p.user != user.name));
    list(call, users.iter().map(user_json))
}

/// `GET /api/users/{user}`
pub fn user(call: &Call<'_>) -> Answer {
    found(call, call.app.node().user(call.param(0)), user_json)
}

/// `PUT /api/users/{user}`
pub fn put_user(call: &Call<'_>) -> Answer {
    let body = call.body()?;
    let name = call.param(0).to_owned();
    let existed = call.app.node().user(&name).is_some();
    let secret = match (body.get("password"), body.get("password_hash")) {
        (Some(_), Some(_)) => {
            let text = "both_password_and_password_hash_are_provided".to_owned();
            return Err(ApiError::BadRequest(text));
        }
        (Some(_), None) => Secret::Password(body.text("password")?.to_owned()),
        (None, Some(_)) => Secret::Hash {
            hash: body.text("password_hash")?.to_owned(),
            algorithm: match body.get("hashing_algorithm") {
                Some(_) => Some(body.text("hashing_algorithm")?.to_owned()),
                None => None,
            },
        },
        // No password fits then, also that of a user who had one.
        (None, None) => Secret::Hash {
            hash: String::new(),
            algorithm: None,
        },
    };
    let missing = || ApiError::BadRequest("tags_not_present".to_owned());
    let tags = tags(body.get("tags").ok_or_else(missing)?)?;
    put(call, existed, Alteration::PutUser { name, tags, secret })
}

/// `DELETE /api/users/{user}`
pub fn delete_user(call: &Call<'_>) -> Answer {
    let user = call.param(0).to_owned();
    delete(call, Command::UserDelete { user })
}

/// `POST /api/users/bulk-delete`: `{"users": ["a", "b"]}`
pub fn delete_users(call: &Call<'_>) -> Answer {
    let body = call.body()?;
    let bad = || ApiError::BadRequest("\"users\" must be a list of names".to_owned());
    let names = body.required("users")?.as_array().ok_or_else(bad)?;
    let names: BTreeSet<&str> = names
        .iter()
        .map(|n| n.as_str().ok_or_else(bad))
        .collect::<Result<_, _>>()?;
    let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    // One that was made at another node a moment ago goes as well.
    call.app.node().pass_read_barrier();
    for some in names.chunks(USERS_DELETED_AT_ONCE) {
        alter(call, Alteration::DeleteUsers(some.to_vec()))?;
    }
    Ok(Reply::Done)
}
