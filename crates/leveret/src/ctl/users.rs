//! Users, permissions, virtual hosts, policies, limits, parameters.

use super::{Context, Failure, Output, code};
use crate::cli::http::segment;
use crate::cli::password::Silent;
use crate::cli::table::Rows;
use crate::cli::target::{CallError, Target};
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Failure>;

pub fn no_user(name: &str) -> Failure {
    Failure::new(code::NO_USER, format!("User \"{name}\" does not exist"))
}

pub fn no_vhost(name: &str) -> Failure {
    Failure {
        code: code::DATA,
        text: format!("Virtual host '{name}' does not exist"),
    }
}

/// Turns a 404 into `absent`; any other failure stays what it is.
fn or_absent<T>(
    result: std::result::Result<T, CallError>,
    absent: impl FnOnce() -> Failure,
) -> Result<T> {
    result.map_err(|error| match error {
        CallError::Refused(404, _) => absent(),
        other => other.into(),
    })
}

fn user(target: &Target, name: &str) -> Result<Value> {
    or_absent(target.get(&user_path(name)), || no_user(name))
}

fn vhost(target: &Target, name: &str) -> Result<Value> {
    or_absent(target.get(&vhost_path(name)), || no_vhost(name))
}

fn user_path(name: &str) -> String {
    format!("/api/users/{}", segment(name))
}

fn vhost_path(name: &str) -> String {
    format!("/api/vhosts/{}", segment(name))
}

/// An argument that must be JSON.
fn json_argument(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| {
        Failure::new(
            code::DATA,
            format!("\"{text}\" is not valid JSON ({error})"),
        )
    })
}

/// A list of what is at `path`, in these columns.
fn list(context: &Context<'_>, path: &str, columns: &[(&str, &str)]) -> Result<Output> {
    let found = context.target.get(path)?;
    let objects = found.as_array().map_or(&[][..], Vec::as_slice);
    Ok(Output::Rows(Rows::pick(objects, columns)))
}

/// Argument 1, or a line of standard input: a password need not stand on the command line.
fn password(context: &Context<'_>, index: usize) -> Result<String> {
    if let Some(given) = context.arguments.get(index) {
        return Ok(given.clone());
    }
    let mut line = String::new();
    let read = {
        let _silent = Silent::begin(std::io::stdin());
        eprintln!("Password:");
        std::io::stdin().read_line(&mut line)
    };
    let line = line.trim_end_matches(['\r', '\n']);
    if read.is_err() || line.is_empty() {
        return Err(Failure::usage(
            "password is not provided via command line argument or stdin",
        ));
    }
    Ok(line.to_owned())
}

pub fn add_user(context: &Context<'_>) -> Result<Output> {
    let name = context.argument(0);
    let password = password(context, 1)?;
    context.banner(format!("Adding user \"{name}\" ..."));
    if user(context.target, name).is_ok() {
        let text = format!("User \"{name}\" already exists");
        return Err(Failure::new(code::SOFTWARE, text));
    }
    let field = if context.options.has("--pre-hashed-password") {
        "password_hash"
    } else {
        "password"
    };
    let body = json!({field: password, "tags": ""});
    context.target.call("PUT", &user_path(name), Some(&body))?;
    Ok(match context.options.layout.is_quiet() {
        true => Output::Done,
        false => Output::Text(
            "Done. Don't forget to grant the user permissions to some virtual hosts! See 'rabbitmqctl help set_permissions' to learn more."
                .to_owned(),
        ),
    })
}

pub fn authenticate_user(context: &Context<'_>) -> Result<Output> {
    let name = context.argument(0);
    let password = password(context, 1)?;
    context.banner(format!("Authenticating user \"{name}\" ..."));
    let body = json!({"username": name, "password": password});
    let path = "/api/leveret/authenticate";
    let refused = || Failure {
        code: code::DATA,
        text: format!(
            "Error: failed to authenticate user \"{name}\"\nuser '{name}' - invalid credentials"
        ),
    };
    let answer = context.target.call("POST", path, Some(&body))?;
    match answer["ok"].as_bool() {
        Some(true) => Ok(Output::Text("Success".to_owned())),
        _ => Err(refused()),
    }
}

/// Writes a user again with its tags as they are.
fn keep_tags(context: &Context<'_>, name: &str, mut body: Value) -> Result<Output> {
    body["tags"] = user(context.target, name)?["tags"].take();
    context.target.call("PUT", &user_path(name), Some(&body))?;
    Ok(Output::Done)
}

pub fn change_password(context: &Context<'_>) -> Result<Output> {
    let name = context.argument(0);
    let password = password(context, 1)?;
    context.banner(format!("Changing password for user \"{name}\" ..."));
    keep_tags(context, name, json!({"password": password}))
}

pub fn clear_password(context: &Context<'_>) -> Result<Output> {
    let name = context.argument(0);
    context.banner(format!("Clearing password for user \"{name}\" ..."));
    keep_tags(context, name, json!({"password_hash": ""}))
}

pub fn delete_user(context: &Context<'_>) -> Result<Output> {
    let name = context.argument(0);
    context.banner(format!("Deleting user \"{name}\" ..."));
    let deleted = context.target.call("DELETE", &user_path(name), None);
    or_absent(deleted, || no_user(name))?;
    Ok(Output::Done)
}

pub fn hash_password(context: &Context<'_>) -> Result<Output> {
    let password = password(context, 0)?;
    context.banner("Will hash password ...");
    let path = format!("/api/auth/hash_password/{}", segment(&password));
    let answer = context.target.get(&path)?;
    let hash = answer["ok"].as_str().unwrap_or_default();
    Ok(Output::Text(hash.to_owned()))
}

pub fn list_users(context: &Context<'_>) -> Result<Output> {
    context.banner("Listing users ...");
    list(context, "/api/users", &[("user", "name"), ("tags", "tags")])
}

pub fn set_user_tags(context: &Context<'_>) -> Result<Output> {
    let name = context.argument(0);
    // An empty one stands for none: it takes all away.
    let tags = context.arguments[1..].iter();
    let tags: Vec<_> = tags.filter(|tag| !tag.is_empty()).cloned().collect();
    context.banner(format!(
        "Setting tags for user \"{name}\" to [{}] ...",
        tags.join(", ")
    ));
    let mut body = user(context.target, name)?;
    let body = json!({
        "password_hash": body["password_hash"].take(),
        "hashing_algorithm": body["hashing_algorithm"].take(),
        "tags": tags,
    });
    context.target.call("PUT", &user_path(name), Some(&body))?;
    Ok(Output::Done)
}

pub fn set_permissions(context: &Context<'_>) -> Result<Output> {
    let (name, host) = (context.argument(0), context.vhost());
    context.banner(format!(
        "Setting permissions for user \"{name}\" in vhost \"{host}\" ..."
    ));
    user(context.target, name)?;
    vhost(context.target, host)?;
    let body = json!({
        "configure": context.argument(1),
        "write": context.argument(2),
        "read": context.argument(3),
    });
    let path = format!("/api/permissions/{}/{}", segment(host), segment(name));
    context.target.call("PUT", &path, Some(&body))?;
    Ok(Output::Done)
}

pub fn clear_permissions(context: &Context<'_>) -> Result<Output> {
    let (name, host) = (context.argument(0), context.vhost());
    context.banner(format!(
        "Clearing permissions for user \"{name}\" in vhost \"{host}\" ..."
    ));
    user(context.target, name)?;
    vhost(context.target, host)?;
    let path = format!("/api/permissions/{}/{}", segment(host), segment(name));
    // What was never granted is as cleared as it can be.
    match context.target.call("DELETE", &path, None) {
        Ok(_) | Err(CallError::Refused(404, _)) => Ok(Output::Done),
        Err(other) => Err(other.into()),
    }
}

const PERMISSION: [(&str, &str); 3] = [
    ("configure", "configure"),
    ("write", "write"),
    ("read", "read"),
];
const TOPIC_PERMISSION: [(&str, &str); 3] = [
    ("exchange", "exchange"),
    ("write", "write"),
    ("read", "read"),
];

fn with_first(
    first: (&'static str, &'static str),
    rest: [(&'static str, &'static str); 3],
) -> Vec<(&'static str, &'static str)> {
    std::iter::once(first).chain(rest).collect()
}

pub fn list_permissions(context: &Context<'_>) -> Result<Output> {
    let host = context.vhost();
    context.banner(format!("Listing permissions for vhost \"{host}\" ..."));
    vhost(context.target, host)?;
    let path = format!("{}/permissions", vhost_path(host));
    list(context, &path, &with_first(("user", "user"), PERMISSION))
}

pub fn list_user_permissions(context: &Context<'_>) -> Result<Output> {
    let name = context.argument(0);
    context.banner(format!("Listing permissions for user \"{name}\" ..."));
    user(context.target, name)?;
    let path = format!("{}/permissions", user_path(name));
    list(context, &path, &with_first(("vhost", "vhost"), PERMISSION))
}

pub fn set_topic_permissions(context: &Context<'_>) -> Result<Output> {
    let (name, exchange, host) = (context.argument(0), context.argument(1), context.vhost());
    context.banner(format!(
        "Setting topic permissions on \"{exchange}\" for user \"{name}\" in vhost \"{host}\" ..."
    ));
    user(context.target, name)?;
    vhost(context.target, host)?;
    let body = json!({
        "exchange": exchange,
        "write": context.argument(2),
        "read": context.argument(3),
    });
    let path = format!("/api/topic-permissions/{}/{}", segment(host), segment(name));
    context.target.call("PUT", &path, Some(&body))?;
    Ok(Output::Done)
}

pub fn clear_topic_permissions(context: &Context<'_>) -> Result<Output> {
    let (name, host) = (context.argument(0), context.vhost());
    let mut path = format!("/api/topic-permissions/{}/{}", segment(host), segment(name));
    match context.arguments.get(1) {
        Some(exchange) => {
            context.banner(format!(
                "Clearing topic permissions on \"{exchange}\" for user \"{name}\" in vhost \"{host}\" ..."
            ));
            path = format!("{path}/{}", segment(exchange));
        }
        None => context.banner(format!(
            "Clearing topic permissions for user \"{name}\" in vhost \"{host}\" ..."
        )),
    }
    user(context.target, name)?;
    vhost(context.target, host)?;
    match context.target.call("DELETE", &path, None) {
        Ok(_) | Err(CallError::Refused(404, _)) => Ok(Output::Done),
        Err(other) => Err(other.into()),
    }
}

pub fn list_topic_permissions(context: &Context<'_>) -> Result<Output> {
    let host = context.vhost();
    context.banner(format!(
        "Listing topic permissions for vhost \"{host}\" ..."
    ));
    vhost(context.target, host)?;
    let path = format!("{}/topic-permissions", vhost_path(host));
    list(
        context,
        &path,
        &with_first(("user", "user"), TOPIC_PERMISSION),
    )
}

pub fn list_user_topic_permissions(context: &Context<'_>) -> Result<Output> {
    let name = context.argument(0);
    context.banner(format!("Listing topic permissions for user \"{name}\" ..."));
    user(context.target, name)?;
    let path = format!("{}/topic-permissions", user_path(name));
    list(
        context,
        &path,
        &with_first(("vhost", "vhost"), TOPIC_PERMISSION),
    )
}

fn vhost_body(context: &Context<'_>) -> Value {
    let options = context.options;
    let mut body = json!({});
    if let Some(description) = options.named("--description") {
        body["description"] = json!(description);
    }
    if let Some(tags) = options.named("--tags") {
        body["tags"] = json!(tags);
    }
    if let Some(kind) = options.named("--default-queue-type") {
        body["default_queue_type"] = json!(kind);
    }
    body
}

pub fn add_vhost(context: &Context<'_>) -> Result<Output> {
    let name = context.argument(0);
    context.banner(format!("Adding vhost \"{name}\" ..."));
    let body = vhost_body(context);
    context.target.call("PUT", &vhost_path(name), Some(&body))?;
    Ok(Output::Done)
}

pub fn update_vhost(context: &Context<'_>) -> Result<Output> {
    let name = context.argument(0);
    context.banner(format!("Updating metadata of vhost \"{name}\" ..."));
    vhost(context.target, name)?;
    let body = vhost_body(context);
    context.target.call("PUT", &vhost_path(name), Some(&body))?;
    Ok(Output::Done)
}

pub fn set_vhost_tags(context: &Context<'_>) -> Result<Output> {
    let name = context.argument(0);
    let tags = &context.arguments[1..];
    context.banner(format!(
        "Setting tags for virtual host \"{name}\" to [{}] ...",
        tags.join(", ")
    ));
    vhost(context.target, name)?;
    let body = json!({"tags": tags});
    context.target.call("PUT", &vhost_path(name), Some(&body))?;
    Ok(Output::Done)
}

fn deletion_protection(context: &Context<'_>, method: &str) -> Result<Output> {
    let name = context.argument(0);
    let path = format!("{}/deletion/protection", vhost_path(name));
    or_absent(context.target.call(method, &path, None), || no_vhost(name))?;
    Ok(Output::Done)
}

pub fn protect_vhost(context: &Context<'_>) -> Result<Output> {
    let name = context.argument(0);
    context.banner(format!("Protecting virtual host '{name}' from removal..."));
    deletion_protection(context, "POST")
}

pub fn unprotect_vhost(context: &Context<'_>) -> Result<Output> {
    let name = context.argument(0);
    context.banner(format!(
        "Lifting deletion protection for virtual host '{name}'..."
    ));
    deletion_protection(context, "DELETE")
}

pub fn delete_vhost(context: &Context<'_>) -> Result<Output> {
    let name = context.argument(0);
    context.banner(format!("Deleting vhost \"{name}\" ..."));
    let deleted = context.target.call("DELETE", &vhost_path(name), None);
    or_absent(deleted, || no_vhost(name))?;
    Ok(Output::Done)
}

fn trace(context: &Context<'_>, on: bool) -> Result<Output> {
    let host = context.vhost();
    vhost(context.target, host)?;
    let body = json!({"tracing": on});
    context.target.call("PUT", &vhost_path(host), Some(&body))?;
    let state = if on { "enabled" } else { "disabled" };
    Ok(Output::Text(format!("Trace {state} for vhost {host}")))
}

pub fn trace_on(context: &Context<'_>) -> Result<Output> {
    context.banner(format!(
        "Starting tracing for vhost \"{}\" ...",
        context.vhost()
    ));
    trace(context, true)
}

pub fn trace_off(context: &Context<'_>) -> Result<Output> {
    context.banner(format!(
        "Stopping tracing for vhost \"{}\" ...",
        context.vhost()
    ));
    trace(context, false)
}

fn set_a_policy(context: &Context<'_>, kind: &str) -> Result<Output> {
    let host = context.vhost();
    vhost(context.target, host)?;
    let body = json!({
        "pattern": context.argument(1),
        "definition": json_argument(context.argument(2))?,
        "priority": context.options.numbers.priority,
        "apply-to": context.options.named("--apply-to").unwrap_or("all"),
    });
    let path = format!(
        "/api/{kind}/{}/{}",
        segment(host),
        segment(context.argument(0))
    );
    context.target.call("PUT", &path, Some(&body))?;
    Ok(Output::Done)
}

fn describe_policy(context: &Context<'_>, what: &str) -> String {
    format!(
        "Setting {what} \"{}\" for pattern \"{}\" to \"{}\" with priority \"{}\" for vhost \"{}\" ...",
        context.argument(0),
        context.argument(1),
        context.argument(2),
        context.options.numbers.priority,
        context.vhost()
    )
}

fn clear_a_policy(context: &Context<'_>, kind: &str) -> Result<Output> {
    let (name, host) = (context.argument(0), context.vhost());
    vhost(context.target, host)?;
    let path = format!("/api/{kind}/{}/{}", segment(host), segment(name));
    let absent = || Failure::new(code::DATA, "Parameter does not exist");
    or_absent(context.target.call("DELETE", &path, None), absent)?;
    Ok(Output::Done)
}

fn list_the_policies(context: &Context<'_>, kind: &str) -> Result<Output> {
    let host = context.vhost();
    vhost(context.target, host)?;
    let mut found = context
        .target
        .get(&format!("/api/{kind}/{}", segment(host)))?;
    as_text(&mut found, "definition");
    let columns = [
        ("vhost", "vhost"),
        ("name", "name"),
        ("pattern", "pattern"),
        ("apply-to", "apply-to"),
        ("definition", "definition"),
        ("priority", "priority"),
    ];
    let objects = found.as_array().map_or(&[][..], Vec::as_slice);
    Ok(Output::Rows(Rows::pick(objects, &columns)))
}

/// Shows a field of each object as JSON text, as rabbitmqctl does.
fn as_text(objects: &mut Value, field: &str) {
    for object in objects.as_array_mut().into_iter().flatten() {
        object[field] = Value::String(object[field].to_string());
    }
}

pub fn set_policy(context: &Context<'_>) -> Result<Output> {
    context.banner(describe_policy(context, "policy"));
    set_a_policy(context, "policies")
}

pub fn clear_policy(context: &Context<'_>) -> Result<Output> {
    context.banner(format!(
        "Clearing policy \"{}\" on vhost \"{}\" ...",
        context.argument(0),
        context.vhost()
    ));
    clear_a_policy(context, "policies")
}

pub fn list_policies(context: &Context<'_>) -> Result<Output> {
    context.banner(format!(
        "Listing policies for vhost \"{}\" ...",
        context.vhost()
    ));
    list_the_policies(context, "policies")
}

pub fn set_operator_policy(context: &Context<'_>) -> Result<Output> {
    context.banner(describe_policy(context, "operator policy override"));
    set_a_policy(context, "operator-policies")
}

pub fn clear_operator_policy(context: &Context<'_>) -> Result<Output> {
    context.banner(format!(
        "Clearing operator policy override \"{}\" on vhost \"{}\" ...",
        context.argument(0),
        context.vhost()
    ));
    clear_a_policy(context, "operator-policies")
}

pub fn list_operator_policies(context: &Context<'_>) -> Result<Output> {
    context.banner(format!(
        "Listing operator policy overrides for vhost \"{}\" ...",
        context.vhost()
    ));
    list_the_policies(context, "operator-policies")
}

/// Sets each limit of a JSON object such as `{"max-connections": 10}`; -1 takes one away.
fn set_limits(context: &Context<'_>, base: &str, definition: &str) -> Result<Output> {
    let definition = json_argument(definition)?;
    let limits = definition.as_object().ok_or_else(|| {
        let text = "limits are a JSON object such as {\"max-connections\": 10}";
        Failure::new(code::DATA, text)
    })?;
    for (name, value) in limits {
        let body = json!({"value": value});
        context
            .target
            .call("PUT", &format!("{base}/{}", segment(name)), Some(&body))?;
    }
    Ok(Output::Done)
}

fn clear_limits(context: &Context<'_>, base: &str, names: &[&str]) -> Result<Output> {
    for name in names {
        match context
            .target
            .call("DELETE", &format!("{base}/{}", segment(name)), None)
        {
            Ok(_) | Err(CallError::Refused(404, _)) => {}
            Err(other) => return Err(other.into()),
        }
    }
    Ok(Output::Done)
}

fn list_limits(context: &Context<'_>, path: &str, owner: Option<&str>) -> Result<Output> {
    let mut found = context.target.get(path)?;
    for limits in found.as_array_mut().into_iter().flatten() {
        limits["limits"] = Value::String(limits["value"].to_string());
    }
    let columns = match owner {
        Some(owner) => vec![(owner, owner), ("limits", "limits")],
        None => vec![("limits", "limits")],
    };
    let objects = found.as_array().map_or(&[][..], Vec::as_slice);
    Ok(Output::Rows(Rows::pick(objects, &columns)))
}

pub fn set_vhost_limits(context: &Context<'_>) -> Result<Output> {
    let host = context.vhost();
    context.banner(format!(
        "Setting vhost limits to \"{}\" for vhost \"{host}\" ...",
        context.argument(0)
    ));
    vhost(context.target, host)?;
    let base = format!("/api/vhost-limits/{}", segment(host));
    set_limits(context, &base, context.argument(0))
}

pub fn clear_vhost_limits(context: &Context<'_>) -> Result<Output> {
    let host = context.vhost();
    context.banner(format!("Clearing vhost \"{host}\" limits ..."));
    vhost(context.target, host)?;
    let base = format!("/api/vhost-limits/{}", segment(host));
    clear_limits(context, &base, &["max-connections", "max-queues"])
}

pub fn list_vhost_limits(context: &Context<'_>) -> Result<Output> {
    if context.options.vhost_given && !context.options.has("--global") {
        let host = context.vhost();
        context.banner(format!("Listing limits for vhost \"{host}\" ..."));
        vhost(context.target, host)?;
        let path = format!("/api/vhost-limits/{}", segment(host));
        list_limits(context, &path, None)
    } else {
        context.banner("Listing limits for all vhosts ...");
        list_limits(context, "/api/vhost-limits", Some("vhost"))
    }
}

pub fn set_user_limits(context: &Context<'_>) -> Result<Output> {
    let (name, definition) = (context.argument(0), context.argument(1));
    context.banner(format!(
        "Setting user limits to \"{definition}\" for user \"{name}\" ..."
    ));
    user(context.target, name)?;
    let base = format!("/api/user-limits/{}", segment(name));
    set_limits(context, &base, definition)
}

pub fn clear_user_limits(context: &Context<'_>) -> Result<Output> {
    let (name, limit) = (context.argument(0), context.argument(1));
    context.banner(format!("Clearing user \"{name}\" limits ..."));
    user(context.target, name)?;
    let base = format!("/api/user-limits/{}", segment(name));
    match limit {
        "all" => clear_limits(context, &base, &["max-connections", "max-channels"]),
        one => clear_limits(context, &base, &[one]),
    }
}

pub fn list_user_limits(context: &Context<'_>) -> Result<Output> {
    let options = context.options;
    let given = context.arguments.first();
    match given.or(options.limits_of.as_ref()) {
        Some(name) if !options.has("--global") => {
            context.banner(format!("Listing limits for user \"{name}\" ..."));
            user(context.target, name)?;
            let path = format!("/api/user-limits/{}", segment(name));
            list_limits(context, &path, None)
        }
        _ => {
            context.banner("Listing limits for all users ...");
            list_limits(context, "/api/user-limits", Some("user"))
        }
    }
}

fn parameter_path(context: &Context<'_>) -> String {
    format!(
        "/api/parameters/{}/{}/{}",
        segment(context.argument(0)),
        segment(context.vhost()),
        segment(context.argument(1))
    )
}

pub fn set_parameter(context: &Context<'_>) -> Result<Output> {
    context.banner(format!(
        "Setting runtime parameter \"{}\" for component \"{}\" to \"{}\" in vhost \"{}\" ...",
        context.argument(1),
        context.argument(0),
        context.argument(2),
        context.vhost()
    ));
    vhost(context.target, context.vhost())?;
    let body = json!({"value": json_argument(context.argument(2))?});
    let path = parameter_path(context);
    context.target.call("PUT", &path, Some(&body))?;
    Ok(Output::Done)
}

pub fn clear_parameter(context: &Context<'_>) -> Result<Output> {
    context.banner(format!(
        "Clearing runtime parameter \"{}\" for component \"{}\" on vhost \"{}\" ...",
        context.argument(1),
        context.argument(0),
        context.vhost()
    ));
    let absent = || Failure::new(code::DATA, "Parameter does not exist");
    let path = parameter_path(context);
    or_absent(context.target.call("DELETE", &path, None), absent)?;
    Ok(Output::Done)
}

pub fn list_parameters(context: &Context<'_>) -> Result<Output> {
    let host = context.vhost();
    context.banner(format!(
        "Listing runtime parameters for vhost \"{host}\" ..."
    ));
    let mut found = context.target.get("/api/parameters")?;
    if let Some(all) = found.as_array_mut() {
        all.retain(|parameter| parameter["vhost"] == host);
    }
    as_text(&mut found, "value");
    let columns = [
        ("component", "component"),
        ("name", "name"),
        ("value", "value"),
    ];
    let objects = found.as_array().map_or(&[][..], Vec::as_slice);
    Ok(Output::Rows(Rows::pick(objects, &columns)))
}

pub fn set_global_parameter(context: &Context<'_>) -> Result<Output> {
    let (name, value) = (context.argument(0), context.argument(1));
    context.banner(format!(
        "Setting global runtime parameter \"{name}\" to \"{value}\" ..."
    ));
    let body = json!({"value": json_argument(value)?});
    let path = format!("/api/global-parameters/{}", segment(name));
    context.target.call("PUT", &path, Some(&body))?;
    Ok(Output::Done)
}

pub fn clear_global_parameter(context: &Context<'_>) -> Result<Output> {
    let name = context.argument(0);
    context.banner(format!("Clearing global runtime parameter \"{name}\" ..."));
    let path = format!("/api/global-parameters/{}", segment(name));
    let absent = || Failure::new(code::DATA, "Parameter does not exist");
    or_absent(context.target.call("DELETE", &path, None), absent)?;
    Ok(Output::Done)
}

pub fn list_global_parameters(context: &Context<'_>) -> Result<Output> {
    context.banner("Listing global runtime parameters ...");
    let mut found = context.target.get("/api/global-parameters")?;
    as_text(&mut found, "value");
    let objects = found.as_array().map_or(&[][..], Vec::as_slice);
    Ok(Output::Rows(Rows::pick(
        objects,
        &[("name", "name"), ("value", "value")],
    )))
}

pub fn set_cluster_name(context: &Context<'_>) -> Result<Output> {
    let name = context.argument(0);
    context.banner(format!("Setting cluster name to {name} ..."));
    let body = json!({"name": name});
    context
        .target
        .call("PUT", "/api/cluster-name", Some(&body))?;
    Ok(Output::Done)
}
