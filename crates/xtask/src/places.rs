//! The table of `docs/ARCHITECTURE.md` that says where to look for what, held to the code.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The table's head.
const HEAD: &str = "| what | file | function |";

/// Each row whose file or function is not there.
pub fn faults(root: &Path) -> Result<Vec<String>> {
    let page = root.join("docs/ARCHITECTURE.md");
    let text = fs::read_to_string(&page).with_context(|| format!("read {}", page.display()))?;
    let read = |file: &str| fs::read_to_string(root.join(file)).ok();
    Ok(missing(&text, read))
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
        let name = format!("fn {function}");
        let defines = |text: &String| {
            let after = text.split(&name).skip(1);
            after.into_iter().any(|rest| rest.starts_with(['(', '<']))
        };
        match read(file) {
            None => wrong.push(format!("docs/ARCHITECTURE.md: {what}: there is no {file}")),
            Some(text) if !defines(&text) => wrong.push(format!(
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
