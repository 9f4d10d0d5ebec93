//! What a benchmark is asked for, what it gives, and where its tables go.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::broker::{Broker, Kind};
use crate::{http, run};

/// What is asked of a benchmark.
#[derive(clap::Args)]
pub struct Options {
    /// Short runs and small sizes: to see that it works, not to quote
    #[arg(long)]
    pub fast: bool,
    /// Also put the tables into docs/
    #[arg(long)]
    pub write: bool,
    /// One broker alone
    #[arg(long, value_name = "KIND", value_enum)]
    pub only: Option<Kind>,
    /// Only parts, or loads, whose names contain this
    #[arg(
        long,
        value_name = "PART",
        default_value = "",
        hide_default_value = true
    )]
    pub part: String,
}

impl Options {
    /// Whether a part of that name is asked for.
    pub fn wants(&self, part: &str) -> bool {
        part.contains(&self.part)
    }

    /// The same of a part that is not among what is run where none is named.
    pub fn names(&self, part: &str) -> bool {
        !self.part.is_empty() && self.wants(part)
    }

    /// The brokers to measure.
    pub fn kinds(&self) -> Vec<Kind> {
        match self.only {
            Some(kind) => vec![kind],
            None => vec![Kind::RabbitMq, Kind::Leveret],
        }
    }
}

/// A finished measurement.
pub struct Measured {
    /// The figures for people, in Markdown.
    pub text: String,
    /// The same for programs.
    pub json: Value,
}

/// One of Leveret's metrics, by its name; without labels.
pub fn metric(broker: &Broker, name: &str) -> Result<f64> {
    let page = http::get_text(broker.metrics, "/metrics")?;
    let value = page.lines().find_map(|line| {
        let (found, value) = line.split_once(' ')?;
        (found == name).then_some(value)
    });
    let value = value.with_context(|| format!("{name} is not among the metrics"))?;
    Ok(value.parse()?)
}

/// Puts a report between its two marks in docs/performance.md, in place of the one before.
pub fn write_section(name: &str, text: &str) -> Result<()> {
    let path = run::root().join("docs/performance.md");
    let document = fs::read_to_string(&path).unwrap_or_else(|_| "# Performance\n".to_owned());
    fs::write(&path, with_section(&document, name, text))?;
    Ok(())
}

/// The document with a report between its two marks.
pub fn with_section(document: &str, name: &str, text: &str) -> String {
    let (open, close) = (
        format!("<!-- bench {name} -->\n"),
        format!("<!-- end {name} -->\n"),
    );
    let section = format!("{open}{text}\n{close}");
    match (document.split_once(&open), document.split_once(&close)) {
        (Some((before, _)), Some((_, after))) => format!("{before}{section}{after}"),
        _ => format!("{}\n\n{section}", document.trim_end()),
    }
}

/// Puts a table between its marks in whichever page has them.
pub fn write_into_page(pages: &Path, part: &str, text: &str) -> Result<()> {
    let mark = format!("<!-- bench {part} -->\n");
    for entry in fs::read_dir(pages)? {
        let path = entry?.path();
        let is_page = path.extension().is_some_and(|e| e == "md");
        if is_page && fs::read_to_string(&path)?.contains(&mark) {
            let document = fs::read_to_string(&path)?;
            fs::write(&path, with_section(&document, part, text))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_replaces_the_one_before() {
        let first = with_section("# P\n", "amqp", "one\n");
        let second = with_section(&first, "idle", "two\n");
        let third = with_section(&second, "amqp", "three\n");
        assert!(third.contains("three") && third.contains("two") && !third.contains("one"));
        assert_eq!(third.matches("bench amqp").count(), 1);
    }
}
