//! The table of `docs/ARCHITECTURE.md` that says where to look for what, its lists of the functions
//! that a publish passes, and the table of `docs/security.md` that says which tests prove what,
//! held to the code.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The first table's head.
const HEAD: &str = "| what | file | function |";
/// The second one's.
const PROOFS: &str = "| promise | kept in | proved by |";
/// Heads of the lists of functions, and in how many files these may be.
const WAYS: [(&str, usize); 4] = [
    ("### The same by function, for a classic queue", 30),
    ("### A settle by function", 30),
    ("### The same by function, from a follower's node", 50),
    ("### The same by function, for a stream on its own node", 30),
];

/// Each row whose file or function is not there.
pub fn faults(root: &Path) -> Result<Vec<String>> {
    let page = root.join("docs/ARCHITECTURE.md");
    let text = fs::read_to_string(&page).with_context(|| format!("read {}", page.display()))?;
    let read = |file: &str| fs::read_to_string(root.join(file)).ok();
    let mut wrong = missing(&text, read);
    for (head, files_max) in WAYS {
        wrong.extend(astray(&text, head, files_max, read));
    }
    let page = root.join("docs/security.md");
    let text = fs::read_to_string(&page).with_context(|| format!("read {}", page.display()))?;
    wrong.extend(unproved(&text, read));
    Ok(wrong)
}

/// What is wrong with a list of functions: one that is not in the file named before it, or other
/// files than its head counts, or more than may be. A file `a/b.rs` is `crates/a/src/b.rs`.
fn astray(
    page: &str,
    head: &str,
    files_max: usize,
    read: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let Some((_, section)) = page.split_once(head) else {
        return vec![format!("docs/ARCHITECTURE.md has no \"{head}\"")];
    };
    let section = section.split("\n#").next().unwrap_or_default();
    let mut wrong = Vec::new();
    let mut files = BTreeSet::new();
    for paragraph in section.split("\n\n") {
        let mut source: Option<(&str, String)> = None;
        for name in paragraph.split('`').skip(1).step_by(2) {
            if let Some((of, file)) = name.split_once('/').filter(|_| name.ends_with(".rs")) {
                let text = read(&format!("crates/{of}/src/{file}"));
                if text.is_none() {
                    wrong.push(format!("docs/ARCHITECTURE.md: there is no {name}"));
                }
                source = text.map(|text| (name, text));
                if paragraph.starts_with("1. ") {
                    files.insert(name);
                }
            } else if let Some((file, text)) = &source
                && name.chars().all(|c| c == '_' || c.is_ascii_lowercase())
                && !defines(text, name)
            {
                wrong.push(format!("docs/ARCHITECTURE.md: no `{name}` in {file}"));
            }
        }
    }
    let count = files.len();
    if !section.contains(&format!(" {count} files")) {
        wrong.push(format!(
            "docs/ARCHITECTURE.md: the list below \"{head}\" names {count} files, and its head \
             says another number"
        ));
    }
    if count > files_max {
        wrong.push(format!(
            "docs/ARCHITECTURE.md: {count} files below \"{head}\", at most {files_max} are allowed"
        ));
    }
    wrong
}

/// What the table of proofs names that is not there: files, and functions of the file before them.
fn unproved(page: &str, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let Some((_, table)) = page.split_once(PROOFS) else {
        return vec!["docs/security.md does not say what proves its promises".to_owned()];
    };
    let mut wrong = Vec::new();
    for row in table.lines().skip(2).take_while(|row| row.starts_with('|')) {
        let (_, cells) = row
            .trim_start_matches('|')
            .split_once('|')
            .unwrap_or_default();
        let mut source = None;
        let mut proofs = 0;
        for name in cells.split('`').skip(1).step_by(2) {
            if name.contains(['/', '.']) {
                source = read(name);
                if source.is_none() {
                    wrong.push(format!("docs/security.md: there is no {name}"));
                }
            } else if let Some(text) = source.as_ref().filter(|_| name.contains('_')) {
                proofs += usize::from(defines(text, name));
                if !defines(text, name) && !text.contains(&format!("\"{name}\"")) {
                    wrong.push(format!(
                        "docs/security.md: no `{name}` in the file named before it"
                    ));
                }
            }
        }
        if proofs == 0 && !row.contains("`run`") {
            wrong.push(format!("docs/security.md: nothing proves {row}"));
        }
    }
    wrong
}

/// Whether a source has a function of this name, in Rust or Python.
fn defines(text: &str, function: &str) -> bool {
    ["fn ", "def "].iter().any(|word| {
        let name = format!("{word}{function}");
        text.split(&name)
            .skip(1)
            .any(|rest| rest.starts_with(['(', '<']))
    })
}

fn missing(page: &str, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let Some((_, table)) = page.split_once(HEAD) else {
        return vec!["docs/ARCHITECTURE.md does not say where to look for what".to_owned()];
    };
    let mut wrong = Vec::new();
    for row in table.lines().skip(2).take_while(|row| row.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [what, file, function] = cells.as_slice() else {
            wrong.push(format!(
                "docs/ARCHITECTURE.md: a row of three cells, not {row}"
            ));
            continue;
        };
        let (file, function) = (file.trim_matches('`'), function.trim_matches('`'));
        match read(file) {
            None => wrong.push(format!("docs/ARCHITECTURE.md: {what}: there is no {file}")),
            Some(text) if !defines(&text, function) => wrong.push(format!(
                "docs/ARCHITECTURE.md: {what}: no `{function}` in {file}"
            )),
            Some(_) => {}
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_proved_by_tests_that_are_there() {
        let page = |proof: &str| {
            format!("{PROOFS}\n|---|---|---|\n| a `b_c` | `a.rs` `kept_so` | {proof} |\n")
        };
        let read = |file: &str| match file {
            "a.rs" => Some("fn kept_so() {}".to_owned()),
            "t/b.py" => Some("def test_it():".to_owned()),
            _ => None,
        };
        assert!(unproved(&page("`t/b.py` `test_it`"), read).is_empty());
        assert_eq!(unproved(&page("`t/b.py` `test_i`"), read).len(), 1);
        assert_eq!(unproved(&page("`t/c.py`"), read).len(), 1);
        assert_eq!(unproved("no table", read).len(), 1);
    }

    #[test]
    fn a_list_of_functions_holds_while_each_is_in_its_file_and_the_files_are_counted() {
        let page = |counted: &str, list: &str| {
            format!("# A\n\n## way\n\n{counted}\n\n1. {list}\n\n`a/c.rs` `found` besides\n\n## b\n")
        };
        let read = |file: &str| match file {
            "crates/a/src/b.rs" => Some("fn found() {}".to_owned()),
            "crates/a/src/c.rs" => Some("fn found<T>() {}".to_owned()),
            _ => None,
        };
        let faults = |counted, list| astray(&page(counted, list), "## way", 1, read).len();
        assert_eq!(
            faults("These are 1 files", "`a/b.rs` `found`, `Other::name`"),
            0
        );
        assert_eq!(faults("These are 1 files", "`a/b.rs` `lost`"), 1);
        assert_eq!(faults("These are 1 files", "`a/d.rs` `found`"), 1);
        assert_eq!(faults("These are 2 files", "`a/b.rs` `found`"), 1);
        let more = "`a/b.rs` `found`; `a/c.rs` `found`";
        assert_eq!(faults("These are 2 files", more), 1, "more than allowed");
        assert_eq!(astray("no list", "## way", 1, read).len(), 1);
    }

    #[test]
    fn a_row_holds_while_its_file_has_its_function() {
        let page = |file: &str, function: &str| {
            format!("text\n\n{HEAD}\n|---|---|---|\n| a | `{file}` | `{function}` |\n\n| b | c |")
        };
        let read = |file: &str| (file == "a.rs").then(|| "pub fn found<T>(x: T) {}".to_owned());
        assert!(missing(&page("a.rs", "found"), read).is_empty());
        assert_eq!(missing(&page("a.rs", "foun"), read).len(), 1);
        assert_eq!(missing(&page("b.rs", "found"), read).len(), 1);
        assert_eq!(missing("no table", read).len(), 1);
    }
}
