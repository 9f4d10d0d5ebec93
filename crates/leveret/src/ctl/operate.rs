//! What an operator turns while the node runs: its listeners, its log.

use super::{Context, Failure, Output, code};
use serde_json::json;

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
