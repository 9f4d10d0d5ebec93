//! `/api/auth/attempts`: logins that succeeded and failed, by protocol, and by where they come from
//! while an operator wants that.
//!
//! Counters of metrics by protocol never go back: what is forgotten here is counted from then on,
//! beside them.

use crate::app::{App, Attempts};
use crate::http::reply::{ApiError, Reply};
use crate::http::router::Call;
use crate::overview::knows_node;
use crate::peers;
use crate::question::Question;
use leveret_auth::LoginCounts;
use serde_json::{Value, json};
use std::sync::{MutexGuard, PoisonError};

type Answer = Result<Reply, ApiError>;

/// Protocols whose logins are counted, in RabbitMQ's words.
const PROTOCOLS: [&str; 3] = ["amqp091", "stream", "http"];

fn since_start(app: &App) -> Attempts {
    let broker = app.node().broker_stats();
    [broker.logins.amqp, broker.logins.stream, app.http_logins()]
}

fn forgotten(app: &App) -> MutexGuard<'_, Attempts> {
    let forgotten = app.attempts_forgotten.lock();
    forgotten.unwrap_or_else(PoisonError::into_inner)
}

/// This node's, since somebody last had them forgotten.
pub(crate) fn own(app: &App) -> Value {
    let before = *forgotten(app);
    let rows = since_start(app).into_iter().zip(before).zip(PROTOCOLS);
    rows.map(|((now, before), protocol)| {
        let succeeded = now.0.saturating_sub(before.0);
        let failed = now.1.saturating_sub(before.1);
        json!({
            "protocol": protocol,
            "auth_attempts": succeeded + failed,
            "auth_attempts_failed": failed,
            "auth_attempts_succeeded": succeeded,
        })
    })
    .collect()
}

/// Counts this node's anew, by source too.
pub(crate) fn forget_own(app: &App) {
    *forgotten(app) = since_start(app);
    app.node().login_sources().forget();
}

/// This node's by protocol, address and user.
pub(crate) fn own_sources(app: &App) -> Value {
    let rows = app.node().login_sources().rows().into_iter();
    rows.map(|(source, LoginCounts { succeeded, failed })| {
        let address = source.address.map(|address| address.to_string());
        json!({
            "remote_address": address.unwrap_or_default(),
            "username": source.user,
            "protocol": source.protocol.name(),
            "auth_attempts": succeeded + failed,
            "auth_attempts_failed": failed,
            "auth_attempts_succeeded": succeeded,
        })
    })
    .collect()
}

/// What the node that the path names answers: this one by `own`, another one to `question`.
pub(crate) fn at(call: &Call<'_>, own: impl FnOnce(&App) -> Value, question: &Question) -> Answer {
    let (app, name) = (call.app, call.param(0));
    if !knows_node(app, name) {
        return Err(ApiError::NotFound);
    }
    if app.node().name() == name {
        return Ok(Reply::Json(own(app)));
    }
    let view = app.node().cluster().unwrap_or_default();
    let number = view.nodes.iter().find(|node| node.name == name);
    let number = number.map(|node| node.number);
    let mut told = peers::ask(app, question).into_iter();
    let told = told.find(|(from, told)| Some(from.0) == number && !told.is_null());
    let silent = || ApiError::Unavailable(format!("node {name} does not answer"));
    told.map(|(_, told)| Reply::Json(told)).ok_or_else(silent)
}

/// `GET /api/auth/attempts/{node}`
pub fn attempts(call: &Call<'_>) -> Answer {
    let question = Question::AuthAttempts { forget: None };
    rows(at(call, own, &question)?)
}

/// Rows with all their counts: zeros may be left out on the way from another node.
fn rows(told: Reply) -> Answer {
    let Reply::Json(told) = told else {
        return Err(ApiError::NotFound);
    };
    let rows = told.as_array().cloned().unwrap_or_default().into_iter();
    let shape = json!({
        "auth_attempts": 0,
        "auth_attempts_failed": 0,
        "auth_attempts_succeeded": 0,
    });
    let rows = rows.map(|row| peers::shaped(&shape, row));
    Ok(Reply::Json(rows.collect()))
}

/// `DELETE /api/auth/attempts/{node}` and `DELETE /api/auth/attempts/{node}/source`: they are
/// counted anew, by protocol and by source, as in RabbitMQ.
pub fn forget(call: &Call<'_>) -> Answer {
    let own = |app: &App| {
        forget_own(app);
        Value::Bool(true)
    };
    let question = Question::AuthAttempts {
        forget: Some(call.param(0).to_owned()),
    };
    at(call, own, &question).map(|_| Reply::Done)
}

/// `GET /api/auth/attempts/{node}/source`: by protocol, address and user, as far as somebody
/// wanted them counted so.
pub fn by_source(call: &Call<'_>) -> Answer {
    rows(at(call, own_sources, &Question::AuthSources)?)
}

/// `PUT /api/auth/attempts/{node}/source`, `{"tracked": true}`: they are counted by source from now
/// on, or no more.
pub fn track_sources(call: &Call<'_>) -> Answer {
    call.body()?.required("tracked")?;
    let tracked = call.body()?.flag_or("tracked", true)?;
    let own = |app: &App| {
        app.node().login_sources().track(tracked);
        Value::Bool(true)
    };
    let question = Question::TrackAuthSources {
        node: call.param(0).to_owned(),
        tracked,
    };
    at(call, own, &question).map(|_| Reply::Done)
}
