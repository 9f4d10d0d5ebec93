//! What a benchmark is asked for, what it gives, and where its tables go.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
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

/// Where a benchmark's tables go if it says nothing else.
pub fn docs() -> PathBuf {
    run::root().join("docs")
}

fn marks(part: &str) -> (String, String) {
    (
        format!("<!-- bench {part} -->\n"),
        format!("<!-- end {part} -->\n"),
    )
}

/// The page of a folder that has the marks of a part's table. To be asked before the part is
/// measured: what was measured for minutes must have a place to go.
///
/// # Errors
/// If no page has them.
pub fn page_of(pages: &Path, part: &str) -> Result<PathBuf> {
    let (open, close) = marks(part);
    for entry in fs::read_dir(pages)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "md") {
            let document = fs::read_to_string(&path)?;
            if document.contains(&open) && document.contains(&close) {
                return Ok(path);
            }
        }
    }
    let (open, close) = (open.trim_end(), close.trim_end());
    bail!(
        "no page in {} has the lines {open} and {close}: put them where the table is to stand, or \
         leave --write out",
        pages.display()
    )
}

/// Puts a table between its marks in the page that has them, in place of the one before.
///
/// # Errors
/// If no page has them.
pub fn write_into_page(pages: &Path, part: &str, text: &str) -> Result<()> {
    let path = page_of(pages, part)?;
    let document = fs::read_to_string(&path)?;
    let section = with_section(&document, part, text).context("the marks are in disorder")?;
    fs::write(&path, section)?;
    Ok(())
}

/// The document with a table between its two marks, if it has them.
fn with_section(document: &str, part: &str, text: &str) -> Option<String> {
    let (open, close) = marks(part);
    let (before, rest) = document.split_once(&open)?;
    let (_, after) = rest.split_once(&close)?;
    Some(format!("{before}{open}{text}\n{close}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_replaces_the_one_before_and_goes_nowhere_without_marks() {
        let document = "# P\n<!-- bench amqp -->\none\n<!-- end amqp -->\n\nafter\n";
        let replaced = with_section(document, "amqp", "two\n");
        let expected = "# P\n<!-- bench amqp -->\ntwo\n\n<!-- end amqp -->\n\nafter\n";
        assert_eq!(replaced.as_deref(), Some(expected));
        assert_eq!(with_section(document, "idle", "two\n"), None);
    }

    #[test]
    fn a_table_without_a_place_is_refused_by_the_marks_that_it_wants() {
        let refused = write_into_page(&docs(), "nobody", "text").expect_err("no marks");
        let refused = refused.to_string();
        assert!(refused.contains("<!-- bench nobody -->"), "{refused}");
        assert!(refused.contains("<!-- end nobody -->"), "{refused}");
    }
}
