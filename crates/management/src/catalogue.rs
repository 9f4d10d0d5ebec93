//! Virtual hosts, users, permissions, limits, policies, parameters, definitions.

use crate::access::Who;
use crate::app::App;
use crate::directory::{
    AlterError, Alteration, Parameter, Permission, Policy, Secret, TopicPermission, User, Vhost,
};
use crate::input::{Body, json_of, parse_json, table_of};
use crate::multipart;
use crate::overview::RABBITMQ_VERSION;
use crate::page;
use crate::reply::{ApiError, Reply};
use crate::route::Call;
use leveret_types::limits::USER_TAGS_MAX;
use leveret_types::{FieldTable, FieldValue};
use serde_json::{Map, Value, json};

type Answer = Result<Reply, ApiError>;

impl From<AlterError> for ApiError {
    fn from(error: AlterError) -> Self {
        match error {
            AlterError::NotFound(_) => Self::NotFound,
            AlterError::Invalid(text) => Self::BadRequest(text),
            AlterError::Failed(text) => Self::Failed(text),
        }
    }
}

fn alter(call: &Call<'_>, alteration: Alteration) -> Result<(), ApiError> {
    Ok(call.app.node().alter(call.who.name(), alteration)?)
}

/// Creates (201) or changes (204).
fn put(call: &Call<'_>, existed: bool, alteration: Alteration) -> Answer {
    // What the change refers to and is not there is the client's mistake, not a missing resource.
    match alter(call, alteration) {
        Err(ApiError::NotFound) => Err(ApiError::BadRequest(
            "the change refers to something that does not exist".to_owned(),
        )),
        Err(other) => Err(other),
        Ok(()) if existed => Ok(Reply::Done),
        Ok(()) => Ok(Reply::Created(None)),
    }
}

fn delete(call: &Call<'_>, alteration: Alteration) -> Answer {
    alter(call, alteration).map(|()| Reply::Done)
}

fn list(call: &Call<'_>, items: impl IntoIterator<Item = Value>) -> Answer {
    page::list(items.into_iter().collect(), &call.query).map(Reply::Json)
}

fn found<T>(thing: Option<T>, json: impl FnOnce(&T) -> Value) -> Answer {
    thing
        .map(|t| Reply::Json(json(&t)))
        .ok_or(ApiError::NotFound)
}

/// Tags: a list of strings, or one string with commas.
fn tags(value: &Value) -> Result<Vec<String>, ApiError> {
    let bad = || ApiError::BadRequest("tags must be strings".to_owned());
    let tags: Vec<String> = match value {
        Value::String(text) => text
            .split(',')
            .map(|tag| tag.trim().to_owned())
            .filter(|tag| !tag.is_empty())
            .collect(),
        Value::Array(items) => items
            .iter()
            .map(|tag| tag.as_str().map(str::to_owned).ok_or_else(bad))
            .collect::<Result<_, _>>()?,
        _ => return Err(bad()),
    };
    if tags.len() > USER_TAGS_MAX {
        return Err(ApiError::BadRequest(format!(
            "at most {USER_TAGS_MAX} tags"
        )));
    }
    Ok(tags)
}

fn limits_json(limits: &[(String, i64)]) -> Value {
    let pair = |(name, value): &(String, i64)| (name.clone(), Value::from(*value));
    Value::Object(limits.iter().map(pair).collect())
}

// Virtual hosts.

fn vhost_json(app: &App, vhost: &Vhost) -> Value {
    let node = app.node().node_stats().name;
    json!({
        "name": vhost.name,
        "description": vhost.description,
        "tags": vhost.tags,
        "default_queue_type": vhost.default_queue_type,
        "metadata": {
            "description": vhost.description,
            "tags": vhost.tags,
            "default_queue_type": vhost.default_queue_type,
        },
        "protected_from_deletion": vhost.protected,
        "tracing": vhost.tracing,
        "cluster_state": {node: "running"},
    })
}

/// `GET /api/vhosts`
pub fn vhosts(call: &Call<'_>) -> Answer {
    let mut vhosts = call.app.node().vhosts();
    vhosts.retain(|vhost| call.app.sees(call.who, &vhost.name));
    list(call, vhosts.iter().map(|vhost| vhost_json(call.app, vhost)))
}

/// `GET /api/vhosts/{vhost}`
pub fn vhost(call: &Call<'_>) -> Answer {
    let vhost = call.app.node().vhost(call.param(0));
    found(vhost, |vhost| vhost_json(call.app, vhost))
}

/// `PUT /api/vhosts/{name}`
pub fn put_vhost(call: &Call<'_>) -> Answer {
    let body = call.body()?;
    let name = call.param(0).to_owned();
    let existed = call.app.node().vhost(&name).is_some();
    let text = |field| match body.get(field) {
        Some(_) => body.text(field).map(|text| Some(text.to_owned())),
        None => Ok(None),
    };
    let kind = text("default_queue_type")?;
    let alteration = Alteration::PutVhost {
        name,
        description: text("description")?,
        tags: body.get("tags").map(tags).transpose()?,
        default_queue_type: kind.filter(|kind| kind != "undefined"),
        tracing: match body.get("tracing") {
            Some(_) => Some(body.flag_or("tracing", false)?),
            None => None,
        },
    };
    let reply = put(call, existed, alteration)?;
    // As in RabbitMQ, whoever made it may use it.
    if let (Reply::Created(_), Who::User { name, .. }) = (&reply, call.who) {
        let everything = || ".*".to_owned();
        let permission = Permission {
            user: name.clone(),
            vhost: call.param(0).to_owned(),
            configure: everything(),
            write: everything(),
            read: everything(),
        };
        alter(call, Alteration::PutPermission(permission))?;
    }
    Ok(reply)
}

/// `DELETE /api/vhosts/{vhost}`
pub fn delete_vhost(call: &Call<'_>) -> Answer {
    let name = call.param(0).to_owned();
    delete(call, Alteration::DeleteVhost { name })
}

/// `POST` and `DELETE /api/vhosts/{vhost}/deletion/protection`
pub fn protect_vhost(call: &Call<'_>) -> Answer {
    set_protection(call, true)
}

/// See [`protect_vhost`].
pub fn unprotect_vhost(call: &Call<'_>) -> Answer {
    set_protection(call, false)
}

fn set_protection(call: &Call<'_>, protected: bool) -> Answer {
    let name = call.param(0).to_owned();
    delete(call, Alteration::ProtectVhost { name, protected })
}

// Users.

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
    found(call.app.node().user(call.param(0)), user_json)
}

/// `PUT /api/users/{user}`
pub fn put_user(call: &Call<'_>) -> Answer {
    let body = call.body()?;
    let name = call.param(0).to_owned();
    let existed = call.app.node().user(&name).is_some();
    let secret = match (body.get("password"), body.get("password_hash")) {
        (Some(_), _) => Secret::Password(body.text("password")?.to_owned()),
        (None, Some(_)) => Secret::Hash {
            hash: body.text("password_hash")?.to_owned(),
            algorithm: match body.get("hashing_algorithm") {
                Some(_) => Some(body.text("hashing_algorithm")?.to_owned()),
                None => None,
            },
        },
        (None, None) if existed => Secret::Keep,
        (None, None) => Secret::Hash {
            hash: String::new(),
            algorithm: None,
        },
    };
    let tags = tags(body.get("tags").unwrap_or(&json!("")))?;
    put(call, existed, Alteration::PutUser { name, tags, secret })
}

/// `DELETE /api/users/{user}`
pub fn delete_user(call: &Call<'_>) -> Answer {
    let name = call.param(0).to_owned();
    delete(call, Alteration::DeleteUser { name })
}

/// `POST /api/users/bulk-delete`: `{"users": ["a", "b"]}`
pub fn delete_users(call: &Call<'_>) -> Answer {
    let body = call.body()?;
    let bad = || ApiError::BadRequest("\"users\" must be a list of names".to_owned());
    let names = body.required("users")?.as_array().ok_or_else(bad)?;
    let names: Vec<_> = names
        .iter()
        .map(|n| n.as_str().ok_or_else(bad))
        .collect::<Result<_, _>>()?;
    for name in names {
        match alter(
            call,
            Alteration::DeleteUser {
                name: name.to_owned(),
            },
        ) {
            Ok(()) | Err(ApiError::NotFound) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(Reply::Done)
}

// Permissions.

fn permission_json(p: &Permission) -> Value {
    json!({"user": p.user, "vhost": p.vhost, "configure": p.configure, "write": p.write, "read": p.read})
}

fn topic_json(p: &TopicPermission) -> Value {
    json!({"user": p.user, "vhost": p.vhost, "exchange": p.exchange, "write": p.write, "read": p.read})
}

/// `GET /api/permissions`
pub fn permissions(call: &Call<'_>) -> Answer {
    list(
        call,
        call.app.node().permissions().iter().map(permission_json),
    )
}

fn permissions_where(call: &Call<'_>, keep: impl Fn(&Permission) -> bool) -> Answer {
    let all = call.app.node().permissions();
    list(call, all.iter().filter(|p| keep(p)).map(permission_json))
}

/// `GET /api/vhosts/{vhost}/permissions`
pub fn permissions_of_vhost(call: &Call<'_>) -> Answer {
    permissions_where(call, |p| p.vhost == call.param(0))
}

/// The user of this name must be there.
fn known_user(call: &Call<'_>) -> Result<(), ApiError> {
    let user = call.app.node().user(call.param(0));
    user.map(|_| ()).ok_or(ApiError::NotFound)
}

/// `GET /api/users/{user}/permissions`
pub fn permissions_of_user(call: &Call<'_>) -> Answer {
    known_user(call)?;
    permissions_where(call, |p| p.user == call.param(0))
}

/// `GET /api/permissions/{vhost}/{user}`
pub fn permission(call: &Call<'_>) -> Answer {
    let found = call.app.node().permission(call.param(1), call.param(0));
    self::found(found, permission_json)
}

/// `PUT /api/permissions/{vhost}/{user}`
pub fn put_permission(call: &Call<'_>) -> Answer {
    let body = call.body()?;
    let (vhost, user) = (call.param(0).to_owned(), call.param(1).to_owned());
    let existed = call.app.node().permission(&user, &vhost).is_some();
    let permission = Permission {
        user,
        vhost,
        configure: body.text("configure")?.to_owned(),
        write: body.text("write")?.to_owned(),
        read: body.text("read")?.to_owned(),
    };
    put(call, existed, Alteration::PutPermission(permission))
}

/// `DELETE /api/permissions/{vhost}/{user}`
pub fn delete_permission(call: &Call<'_>) -> Answer {
    let (vhost, user) = (call.param(0).to_owned(), call.param(1).to_owned());
    delete(call, Alteration::DeletePermission { user, vhost })
}

fn topics_where(call: &Call<'_>, keep: impl Fn(&TopicPermission) -> bool) -> Answer {
    let all = call.app.node().topic_permissions();
    list(call, all.iter().filter(|p| keep(p)).map(topic_json))
}

/// `GET /api/topic-permissions`
pub fn topic_permissions(call: &Call<'_>) -> Answer {
    topics_where(call, |_| true)
}

/// `GET /api/vhosts/{vhost}/topic-permissions`
pub fn topic_permissions_of_vhost(call: &Call<'_>) -> Answer {
    topics_where(call, |p| p.vhost == call.param(0))
}

/// `GET /api/users/{user}/topic-permissions`
pub fn topic_permissions_of_user(call: &Call<'_>) -> Answer {
    known_user(call)?;
    topics_where(call, |p| p.user == call.param(0))
}

/// `GET /api/topic-permissions/{vhost}/{user}`
pub fn topic_permission(call: &Call<'_>) -> Answer {
    let is_it = |p: &&TopicPermission| p.vhost == call.param(0) && p.user == call.param(1);
    let all = call.app.node().topic_permissions();
    let items: Vec<_> = all.iter().filter(is_it).map(topic_json).collect();
    match items.is_empty() {
        true => Err(ApiError::NotFound),
        false => list(call, items),
    }
}

/// `PUT /api/topic-permissions/{vhost}/{user}`
pub fn put_topic_permission(call: &Call<'_>) -> Answer {
    let body = call.body()?;
    let permission = TopicPermission {
        user: call.param(1).to_owned(),
        vhost: call.param(0).to_owned(),
        exchange: body.text("exchange")?.to_owned(),
        write: body.text("write")?.to_owned(),
        read: body.text("read")?.to_owned(),
    };
    let is_it = |p: &TopicPermission| {
        (&p.user, &p.vhost, &p.exchange)
            == (&permission.user, &permission.vhost, &permission.exchange)
    };
    let existed = call.app.node().topic_permissions().iter().any(is_it);
    put(call, existed, Alteration::PutTopicPermission(permission))
}

/// `DELETE /api/topic-permissions/{vhost}/{user}` and `/{exchange}`
pub fn delete_topic_permission(call: &Call<'_>) -> Answer {
    let alteration = Alteration::DeleteTopicPermission {
        user: call.param(1).to_owned(),
        vhost: call.param(0).to_owned(),
        exchange: call.params.get(2).cloned(),
    };
    delete(call, alteration)
}

// Limits.

/// `GET /api/vhost-limits`
pub fn vhost_limits(call: &Call<'_>) -> Answer {
    let vhosts = call.app.node().vhosts();
    let limited = vhosts
        .iter()
        .filter(|v| !v.limits.is_empty() && call.app.sees(call.who, &v.name));
    list(
        call,
        limited.map(|v| json!({"vhost": v.name, "value": limits_json(&v.limits)})),
    )
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
fn limit(body: &Body) -> Result<Option<i64>, ApiError> {
    body.required("value")?;
    body.integer_or("value", -1).map(Some)
}

/// `PUT /api/vhost-limits/{vhost}/{name}`
pub fn put_vhost_limit(call: &Call<'_>) -> Answer {
    let alteration = Alteration::SetVhostLimit {
        vhost: call.param(0).to_owned(),
        name: call.param(1).to_owned(),
        value: limit(&call.body()?)?,
    };
    put(call, true, alteration)
}

/// `DELETE /api/vhost-limits/{vhost}/{name}`
pub fn delete_vhost_limit(call: &Call<'_>) -> Answer {
    let alteration = Alteration::SetVhostLimit {
        vhost: call.param(0).to_owned(),
        name: call.param(1).to_owned(),
        value: None,
    };
    delete(call, alteration)
}

/// `GET /api/user-limits`
pub fn user_limits(call: &Call<'_>) -> Answer {
    let users = call.app.node().users();
    let limited = users.iter().filter(|u| !u.limits.is_empty());
    list(
        call,
        limited.map(|u| json!({"user": u.name, "value": limits_json(&u.limits)})),
    )
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
    let alteration = Alteration::SetUserLimit {
        user: call.param(0).to_owned(),
        name: call.param(1).to_owned(),
        value: limit(&call.body()?)?,
    };
    put(call, true, alteration)
}

/// `DELETE /api/user-limits/{user}/{name}`
pub fn delete_user_limit(call: &Call<'_>) -> Answer {
    let alteration = Alteration::SetUserLimit {
        user: call.param(0).to_owned(),
        name: call.param(1).to_owned(),
        value: None,
    };
    delete(call, alteration)
}

// Policies.

fn policy_json(p: &Policy) -> Value {
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
    found(find_policy(call, false), policy_json)
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
    found(find_policy(call, true), policy_json)
}

/// `PUT /api/operator-policies/{vhost}/{name}`
pub fn put_operator_policy(call: &Call<'_>) -> Answer {
    set_policy(call, true)
}

/// `DELETE /api/operator-policies/{vhost}/{name}`
pub fn delete_operator_policy(call: &Call<'_>) -> Answer {
    clear_policy(call, true)
}

// Parameters.

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
    found(find_parameter(call), parameter_json)
}

/// `PUT /api/parameters/{component}/{vhost}/{name}`
pub fn put_parameter(call: &Call<'_>) -> Answer {
    let parameter = Parameter {
        component: call.param(0).to_owned(),
        vhost: call.param(1).to_owned(),
        name: call.param(2).to_owned(),
        value: field_value(&call.body()?)?,
    };
    put(
        call,
        find_parameter(call).is_some(),
        Alteration::PutParameter(parameter),
    )
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
    found(find_global(call), global_json)
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

// Definitions.

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
    definitions(call, Some(call.param(0)))
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
    let definitions = parse_json(uploaded(call)?)?;
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
    take(call, Some(call.param(0)))
}
