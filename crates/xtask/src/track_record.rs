//! The tests that `docs/track-record.md` names, held to the code.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Each test that the page says finds a bug now, and which is not there. `sources` are the files
/// of Rust and Python that tests stand in.
pub fn faults(root: &Path, sources: &[PathBuf]) -> Result<Vec<String>> {
    let page = root.join("docs/track-record.md");
    let text = fs::read_to_string(&page).with_context(|| format!("read {}", page.display()))?;
    let mut there = HashSet::new();
    for path in sources {
        there.extend(functions(&fs::read_to_string(path)?));
    }
    Ok(missing(&text, &there))
}

/// The names of a source's functions.
fn functions(text: &str) -> Vec<String> {
    let is_letter = |char: char| char.is_alphanumeric() || char == '_';
    let name = |line: &str| {
        let (_, rest) = line.split_once("fn ").or_else(|| line.split_once("def "))?;
        let end = rest.find(|char| !is_letter(char))?;
        Some(rest[..end].to_owned())
    };
    text.lines().filter_map(name).collect()
}

/// Names in the last cell of a row that are spelled as a test's is and that none has.
fn missing(page: &str, there: &HashSet<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (at, line) in page.lines().enumerate() {
        let row = line.trim_end().strip_suffix('|').unwrap_or_default();
        let cell = row.rsplit('|').next().unwrap_or_default();
        for name in cell.split('`').skip(1).step_by(2) {
            if is_name_of_test(name) && !there.contains(name) {
                wrong.push(format!(
                    "docs/track-record.md:{}: there is no test `{name}`",
                    at + 1
                ));
            }
        }
    }
    wrong
}

/// Whether these are at least three words of small letters with `_` between them.
fn is_name_of_test(name: &str) -> bool {
    let is_letter = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_';
    name.chars().all(is_letter) && name.matches('_').count() >= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_names_tests_that_are_there() {
        let sources = "    fn it_is_kept() {\nasync def test_it_comes(a):\n// it_is_gone\n";
        let there: HashSet<String> = functions(sources).into_iter().collect();
        let faults = |cell: &str| missing(&format!("| a | `b_c_d` | e | {cell} |\n"), &there);
        assert!(faults("`it_is_kept`; `test_it_comes`, the suite `x`, `a/b_c_d.rs`").is_empty());
        assert_eq!(
            faults("`it_is_kept`; `it_is_gone`"),
            ["docs/track-record.md:1: there is no test `it_is_gone`"]
        );
        assert_eq!(faults("`it_is_kep`, `it_is_kept_too`").len(), 2);
    }
}
