//! What an operator turns while the node runs: its listeners, its log, its end.

use super::{Context, Failure, Output, code};
use crate::cli::target::CallError;
use serde_json::json;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Failure>;

fn listen(context: &Context<'_>, doing: &str, listen: bool) -> Result<Output> {
    context.banner(format!(
        "Will {doing} client connection listeners on node {} ...",
        context.target.name()?
    ));
    let body = json!({"listening": listen});
    let path = "/api/leveret/listening";
    context.target.call("PUT", path, Some(&body))?;
    Ok(Output::Done)
}

pub fn suspend_listeners(context: &Context<'_>) -> Result<Output> {
    listen(context, "suspend", false)
}

pub fn resume_listeners(context: &Context<'_>) -> Result<Output> {
    listen(context, "resume", true)
}

pub fn rotate_logs(context: &Context<'_>) -> Result<Output> {
    context.banner(format!(
        "Rotating logs for node {} ...",
        context.target.name()?
    ));
    let path = "/api/leveret/rotate-logs";
    context.target.call("POST", path, None)?;
    Ok(Output::Done)
}

pub fn set_log_level(context: &Context<'_>) -> Result<Output> {
    let [level] = context.arguments else {
        let text = "lines have no categories here: give the level alone, which is that of all";
        return Err(Failure::new(code::DATA, text));
    };
    context.banner(format!("Setting log level to \"{level}\" ..."));
    let body = json!({"level": level});
    let path = "/api/leveret/log-level";
    context.target.call("PUT", path, Some(&body))?;
    Ok(Output::Done)
}

pub fn stop(context: &Context<'_>) -> Result<Output> {
    context.banner(format!(
        "Stopping and halting node {} ...",
        context.target.name()?
    ));
    match context.target.call("POST", "/api/leveret/stop", None) {
        // It may be gone before its answer has left.
        Err(CallError::Unreachable(_)) => await_end(context),
        answer => {
            answer?;
            Ok(Output::Done)
        }
    }
}

/// The same, and waits until the node has gone.
pub fn shutdown(context: &Context<'_>) -> Result<Output> {
    stop(context)?;
    await_end(context)
}

fn await_end(context: &Context<'_>) -> Result<Output> {
    let deadline = Instant::now() + context.options.address.timeout;
    while Instant::now() < deadline {
        if let Err(CallError::Unreachable(_)) = context.target.get("/api/overview") {
            return Ok(Output::Done);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let text = "the node was told to stop, and still answers: see its log";
    Err(Failure::new(code::TEMPORARY, text))
}
