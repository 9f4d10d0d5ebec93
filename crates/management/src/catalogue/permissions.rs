//! Permissions of users in virtual hosts, and those for topics.

use super::{Answer, delete, found, list, list_by, put};
use crate::http::reply::ApiError;
use crate::http::router::Call;
use crate::queues::exchange_name;
use leveret_metadata::{Command, PermissionDefinition, TopicPermissionDefinition};
use serde_json::{Value, json};

fn permission_json(p: &PermissionDefinition) -> Value {
    json!({"user": p.user, "vhost": p.vhost, "configure": p.configure, "write": p.write, "read": p.read})
}

fn topic_json(p: &TopicPermissionDefinition) -> Value {
    json!({"user": p.user, "vhost": p.vhost, "exchange": p.exchange, "write": p.write, "read": p.read})
}

/// `GET /api/permissions`
pub fn permissions(call: &Call<'_>) -> Answer {
    permissions_where(call, |_| true, "user")
}

fn permissions_where(
    call: &Call<'_>,
    keep: impl Fn(&PermissionDefinition) -> bool,
    filtered_by: &str,
) -> Answer {
    let all = call.app.node().permissions();
    let rows = all.iter().filter(|p| keep(p)).map(permission_json);
    list_by(call, rows, filtered_by)
}

/// `GET /api/vhosts/{vhost}/permissions`
pub fn permissions_of_vhost(call: &Call<'_>) -> Answer {
    permissions_where(call, |p| p.vhost == call.param(0), "user")
}

/// The user of this name must be there.
fn known_user(call: &Call<'_>) -> Result<(), ApiError> {
    let user = call.app.node().user(call.param(0));
    user.map(|_| ()).ok_or(ApiError::NotFound)
}

/// `GET /api/users/{user}/permissions`
pub fn permissions_of_user(call: &Call<'_>) -> Answer {
    known_user(call)?;
    permissions_where(call, |p| p.user == call.param(0), "vhost")
}

/// `GET /api/permissions/{vhost}/{user}`
pub fn permission(call: &Call<'_>) -> Answer {
    let found = call.app.node().permission(call.param(1), call.param(0));
    self::found(call, found, permission_json)
}

/// `PUT /api/permissions/{vhost}/{user}`
pub fn put_permission(call: &Call<'_>) -> Answer {
    let body = call.body()?;
    let (vhost, user) = (call.param(0).to_owned(), call.param(1).to_owned());
    let existed = call.app.node().permission(&user, &vhost).is_some();
    let (configure, write, read) = (
        body.text("configure")?.to_owned(),
        body.text("write")?.to_owned(),
        body.text("read")?.to_owned(),
    );
    let node = call.app.node();
    if node.user(&user).is_none() || node.vhost(&vhost).is_none() {
        return Err(ApiError::BadRequest("vhost_or_user_not_found".to_owned()));
    }
    let command = Command::PermissionSet {
        vhost,
        user,
        configure,
        write,
        read,
    };
    put(call, existed, command)
}

/// `DELETE /api/permissions/{vhost}/{user}`
pub fn delete_permission(call: &Call<'_>) -> Answer {
    let (vhost, user) = (call.param(0).to_owned(), call.param(1).to_owned());
    delete(call, Command::PermissionClear { vhost, user })
}

fn topics_where(
    call: &Call<'_>,
    keep: impl Fn(&TopicPermissionDefinition) -> bool,
    filtered_by: &str,
) -> Answer {
    let all = call.app.node().topic_permissions();
    let rows = all.iter().filter(|p| keep(p)).map(topic_json);
    list_by(call, rows, filtered_by)
}

/// `GET /api/topic-permissions`
pub fn topic_permissions(call: &Call<'_>) -> Answer {
    topics_where(call, |_| true, "user")
}

/// `GET /api/vhosts/{vhost}/topic-permissions`
pub fn topic_permissions_of_vhost(call: &Call<'_>) -> Answer {
    topics_where(call, |p| p.vhost == call.param(0), "user")
}

/// `GET /api/users/{user}/topic-permissions`
pub fn topic_permissions_of_user(call: &Call<'_>) -> Answer {
    known_user(call)?;
    topics_where(call, |p| p.user == call.param(0), "vhost")
}

/// `GET /api/topic-permissions/{vhost}/{user}`
pub fn topic_permission(call: &Call<'_>) -> Answer {
    let is_it =
        |p: &&TopicPermissionDefinition| p.vhost == call.param(0) && p.user == call.param(1);
    let all = call.app.node().topic_permissions();
    let items: Vec<_> = all.iter().filter(is_it).map(topic_json).collect();
    match items.is_empty() {
        true => Err(ApiError::NotFound),
        false => list(call, items),
    }
}

/// `GET /api/topic-permissions/{vhost}/{user}/{exchange}`
pub fn topic_permission_of_exchange(call: &Call<'_>) -> Answer {
    let all = call.app.node().topic_permissions().into_iter();
    let mut of_user = all.filter(|p| p.vhost == call.param(0) && p.user == call.param(1));
    let found = of_user.find(|p| p.exchange == exchange_name(call.param(2)));
    self::found(call, found, topic_json)
}

/// `PUT /api/topic-permissions/{vhost}/{user}`, and `/{exchange}` where the path names it
pub fn put_topic_permission(call: &Call<'_>) -> Answer {
    let body = call.body()?;
    let exchange = match call.params.get(2) {
        Some(exchange) => exchange_name(exchange),
        None => body.text("exchange")?,
    };
    let (vhost, user) = (call.param(0), call.param(1));
    let command = Command::TopicPermissionSet {
        vhost: vhost.to_owned(),
        user: user.to_owned(),
        exchange: exchange.to_owned(),
        write: body.text("write")?.to_owned(),
        read: body.text("read")?.to_owned(),
    };
    let is_it = |p: &TopicPermissionDefinition| {
        (&*p.user, &*p.vhost, &*p.exchange) == (user, vhost, exchange)
    };
    let existed = call.app.node().topic_permissions().iter().any(is_it);
    put(call, existed, command)
}

/// `DELETE /api/topic-permissions/{vhost}/{user}` and `/{exchange}`
pub fn delete_topic_permission(call: &Call<'_>) -> Answer {
    let command = Command::TopicPermissionClear {
        vhost: call.param(0).to_owned(),
        user: call.param(1).to_owned(),
        exchange: call
            .params
            .get(2)
            .map(|name| exchange_name(name).to_owned()),
    };
    delete(call, command)
}
