//! The tests of foreign suites that are left out. The list is the table in `docs/interop.md`, so
//! that what is left out and what is documented cannot differ.

use std::fs;

use anyhow::{Context, Result};

use crate::run;

/// One test that is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The suite's name in `cargo xtask test --list`.
    pub suite: String,
    /// The test's name as the suite itself writes it.
    pub test: String,
    /// Why.
    pub reason: String,
}

impl LeftOut {
    /// Whether a test is this one, or in this file or class.
    pub fn covers(&self, test: &str) -> bool {
        test.strip_prefix(&self.test)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    }
}

/// The rows of the table for one suite.
pub fn of_suite(suite: &str) -> Result<Vec<LeftOut>> {
    let path = run::root().join("docs/interop.md");
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    Ok(rows(&text)
        .into_iter()
        .filter(|row| row.suite == suite)
        .collect())
}

/// The rows of the table whose head is `| suite | left out | reason |`.
fn rows(text: &str) -> Vec<LeftOut> {
    let mut rows = Vec::new();
    let mut within = false;
    for line in text.lines() {
        let cells: Vec<&str> = line
            .trim()
            .trim_matches('|')
            .split('|')
            .map(str::trim)
            .collect();
        within = match cells.as_slice() {
            ["suite", "left out", "reason"] => true,
            [suite, test, reason] if within && line.starts_with('|') => {
                if !suite.starts_with('-') {
                    rows.push(LeftOut {
                        suite: (*suite).to_owned(),
                        test: test.trim_matches('`').to_owned(),
                        reason: (*reason).to_owned(),
                    });
                }
                true
            }
            _ => false,
        };
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_table_counts() {
        let text = "| a | b | c |\n\n| suite | left out | reason |\n|---|---|---|\n\
                    | go | `TestX` | wants the moon |\n\n| go | `TestY` | elsewhere |\n";
        let expected = LeftOut {
            suite: "go".to_owned(),
            test: "TestX".to_owned(),
            reason: "wants the moon".to_owned(),
        };
        assert_eq!(rows(text), [expected]);
    }
}
