//! How quick the operators' page is in a browser, with many queues, half of which get messages.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::report::{Measured, Options};
use crate::broker::{Broker, Kind};
use crate::numbers::table;
use crate::suite::install_scripts;
use crate::tools::Tool;
use crate::{run, tools};

/// Runs it.
pub fn run(options: &Options) -> Result<Measured> {
    let (queues, seconds) = match options.fast {
        true => (1_000, 2),
        false => (20_000, 10),
    };
    for tool in [Tool::Node, Tool::Chromium] {
        tools::ensure(tool)?;
    }
    let folder = run::target_folder("interop/browser")?;
    install_scripts("browser", &folder)?;
    let mut broker = Broker::start(Kind::Leveret, "page", &[])?;
    let mut script = Command::new("node");
    script
        .arg("figures.mjs")
        .current_dir(&folder)
        .env("HTTP_URL", format!("http://{}", broker.http))
        .env("AMQP_URL", broker.url())
        .env("CHROMIUM", "/usr/bin/chromium")
        .env("QUEUES", queues.to_string())
        .env("SECONDS", seconds.to_string());
    let told = run::output(&mut script)?;
    broker.stop()?;
    let last = told.lines().last().context("the script told nothing")?;
    let figures: Value = serde_json::from_str(last).context("what the script told is no JSON")?;
    Ok(Measured {
        text: table(&["the operators' page", "figure", "aim"], &rows(&figures)),
        json: figures,
    })
}

fn rows(figures: &Value) -> Vec<Vec<String>> {
    let number = |of: &Value| of.as_f64().unwrap_or(f64::NAN);
    let ms = |name: &str| format!("{:.0} ms", number(&figures[name]));
    let frames = |name: &str| {
        let of = &figures[name];
        let [rate, p99, worst] = ["rate", "p99", "worst"].map(|name| number(&of[name]));
        format!("{rate:.0} a second; {p99:.0} ms; {worst:.0} ms")
    };
    let kilobytes = |name: &str| format!("{:.0} kB", number(&figures[name]) / 1_000.0);
    let queues = number(&figures["queues"]);
    let row = |what: String, figure: String, aim: &str| vec![what, figure, aim.to_owned()];
    let shown = "frames; time between two at p99; the longest";
    vec![
        row("first paint".into(), ms("first_paint_ms"), "300 ms"),
        row(
            "script and styles".into(),
            kilobytes("script_and_style_bytes"),
            "250 kB",
        ),
        row(
            format!("{queues} queues: the list, from the click to its rows"),
            ms("list_ms"),
            "",
        ),
        row("the same, searched by name".into(), ms("search_ms"), ""),
        row(
            format!("the list while nothing happens: {shown}"),
            frames("frames_idle"),
            "60 a second",
        ),
        row(
            format!("the list while messages come to {}: {shown}", queues / 2.0),
            frames("frames_updating"),
            "60 a second",
        ),
        row(
            format!("the overview then: {shown}"),
            frames("frames_overview"),
            "60 a second",
        ),
    ]
}
