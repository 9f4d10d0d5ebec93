//! The house rules that a compiler does not check.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{graph, places, run, track_record, unit, words};

const LINE_CHARS_MAX: usize = 100;
const FILE_LINES_MAX: usize = 1_100;
/// Lines of a function that say something: see [`says_something`].
const FUNCTION_LINES_MAX: usize = 75;

/// Crates without a clock, a socket, a file, a thread or an environment.
const CORE_CRATES: &[&str] = &[
    "amqp",
    "auth",
    "client",
    "cluster",
    "metadata",
    "node",
    "queue",
    "queue-host",
    "replication",
    "routing",
    "session",
    "storage",
    "stream",
    "stream-host",
    "stream-protocol",
    "stream-session",
    "types",
];

/// What no committed source may hold. Spelled in two parts, so that this file passes too.
const BANNED: &[(&str, &str)] = &[
    (concat!("db", "g!("), "left from debugging"),
    (concat!("FIX", "ME"), "fix it instead"),
    (concat!("TO", "DO"), "do it, or write an issue"),
    (concat!("XX", "X"), "say what it is"),
];

/// What the core crates may not hold outside their tests.
const BANNED_IN_CORE: &[(&str, &str)] = &[
    (
        concat!(".unw", "rap()"),
        "input must not end the process: an error, or an assertion in words",
    ),
    (concat!("Instant::", "now"), "time arrives as `Now`"),
    (concat!("SystemTime::", "now"), "time arrives as `Now`"),
    (concat!("std::", "fs"), "files are the shell's"),
    (concat!("std::", "net::Tcp"), "sockets are the shell's"),
    (concat!("std::", "thread"), "threads are the shell's"),
    (concat!("std::", "env"), "the environment is the shell's"),
];

/// Prints each place that breaks a rule; whether there was none.
pub fn run() -> Result<bool> {
    let root = run::root();
    let mut wrong = Vec::new();
    let mut sources = Vec::new();
    collect(&root.join("crates"), "rs", &mut sources)?;
    collect(&root.join("fuzz"), "rs", &mut sources)?;
    for path in &sources {
        let text = fs::read_to_string(path)?;
        let name = path.strip_prefix(&root)?.display().to_string();
        wrong.extend(source_faults(&name, &text));
    }
    wrong.extend(unused_limits(&root, &sources)?);
    wrong.extend(missing_invariants(&root)?);
    wrong.extend(unexplained_dependencies(&root)?);
    wrong.extend(words::faults(&root, &sources)?);
    wrong.extend(places::faults(&root)?);
    let mut with_tests = sources;
    collect(&root.join("tests"), "py", &mut with_tests)?;
    wrong.extend(track_record::faults(&root, &with_tests)?);
    wrong.extend(unit::faults(&root)?);
    for line in &wrong {
        println!("{line}");
    }
    Ok(wrong.is_empty())
}

fn collect(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) -> Result<()> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(());
    };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            if path
                .file_name()
                .is_some_and(|name| name != "target" && name != "corpus")
            {
                collect(&path, extension, found)?;
            }
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(())
}

/// What is wrong with one source file.
fn source_faults(name: &str, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let generated = text.lines().take(5).any(|line| line.contains("@generated"));
    let is_test = name.contains("/tests/") || name.ends_with("tests.rs");
    let crate_name = name.split('/').nth(1).unwrap_or_default();
    let outside = name.contains("/benches/") || name.contains("/examples/");
    let core = CORE_CRATES.contains(&crate_name) && !outside;
    let count = text.lines().count();
    if count > FILE_LINES_MAX && !generated {
        wrong.push(format!(
            "{name}: {count} lines; a file much over 1,000 wants to be two"
        ));
    }
    let mut in_tests = is_test;
    let mut in_drawing = false;
    for (at, line) in text.lines().enumerate() {
        let place = format!("{name}:{}", at + 1);
        // Tests stand at the end of a file.
        in_tests |= line.trim_start().starts_with("#[cfg(test)]");
        let comment = line.trim_start().starts_with("//");
        if comment && line.contains("```") {
            in_drawing = !in_drawing && line.ends_with("```text");
        }
        if counted_chars(line, comment) > LINE_CHARS_MAX && !generated && !in_drawing {
            wrong.push(format!("{place}: over {LINE_CHARS_MAX} characters"));
        }
        for (word, why) in BANNED {
            if line.contains(word) {
                wrong.push(format!("{place}: `{word}`: {why}"));
            }
        }
        for (word, why) in BANNED_IN_CORE {
            if core && !in_tests && !comment && line.contains(word) {
                wrong.push(format!("{place}: `{word}`: {why}"));
            }
        }
    }
    if !generated && !is_test {
        wrong.extend(long_functions(name, text));
    }
    wrong
}

/// Characters of a line that count towards its bound. What stands between quotes in code does not:
/// rustfmt leaves it whole, a message in pieces cannot be searched for, and a row of a table of
/// texts reads best as a row.
fn counted_chars(line: &str, comment: bool) -> usize {
    if comment {
        return line.chars().count();
    }
    if let Some((before, rest)) = line.split_once("r#\"")
        && let Some((_, after)) = rest.rsplit_once("\"#")
    {
        return before.chars().count() + after.chars().count();
    }
    let mut count = 0;
    let mut quoted = false;
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        if char == '"' {
            quoted = !quoted;
        } else if quoted && char == '\\' {
            chars.next();
        }
        count += usize::from(!quoted);
    }
    count
}

/// Functions that are too long, by rustfmt's indentation: from `fn` to the brace below it.
fn long_functions(name: &str, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut open: Option<(usize, usize, String)> = None;
    let mut length = 0;
    for (at, line) in text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        if let Some((start, depth, function)) = &open {
            length += usize::from(says_something(line.trim()));
            if line.trim_start().starts_with('}') && indent == *depth {
                if length > FUNCTION_LINES_MAX {
                    let place = format!("{name}:{}", start + 1);
                    wrong.push(format!("{place}: `{function}` has {length} lines"));
                }
                open = None;
            }
        } else if let Some(function) = function_name(line)
            && !line.trim_end().ends_with(['}', ';'])
        {
            open = Some((at, indent, function));
            length = 1;
        }
    }
    wrong
}

/// Whether a line counts: one that only names a field or closes a bracket is rustfmt's doing, and
/// a `match` over a closed enum would be long for its patterns alone.
fn says_something(line: &str) -> bool {
    let name = |char: char| char.is_alphanumeric() || char == '_' || char == '.';
    let bracket = |char: char| "()[]{}.,;? ".contains(char);
    let field = line.strip_suffix(',').unwrap_or(line).chars().all(name);
    !field && !line.chars().all(bracket)
}

fn function_name(line: &str) -> Option<String> {
    let (before, after) = line.split_once("fn ")?;
    let qualifiers = ["pub", "const", "async", "unsafe", "extern", "\"C\""];
    let plain = |word: &str| {
        qualifiers.contains(&word) || word.starts_with("pub(") || word == "super)" || word == "in"
    };
    if !before.split_whitespace().all(plain) {
        return None;
    }
    let name: String = after
        .chars()
        .take_while(|&char| char.is_alphanumeric() || char == '_')
        .collect();
    (!name.is_empty()).then_some(name)
}

/// A limit that nothing enforces is a promise that nobody keeps.
fn unused_limits(root: &Path, sources: &[PathBuf]) -> Result<Vec<String>> {
    let limits = root.join("crates/types/src/limits.rs");
    let text = fs::read_to_string(&limits)?;
    let declared = text.lines().filter_map(|line| {
        let (name, _) = line.strip_prefix("pub const ")?.split_once(':')?;
        Some(name)
    });
    let mut unused: Vec<&str> = declared.collect();
    for path in sources.iter().filter(|path| **path != limits) {
        let text = fs::read_to_string(path)?;
        unused.retain(|name| !text.contains(name));
    }
    let fault = |name| format!("crates/types/src/limits.rs: nothing enforces `{name}`");
    Ok(unused.into_iter().map(fault).collect())
}

/// Every crate says first what it never does.
fn missing_invariants(root: &Path) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for entry in fs::read_dir(root.join("crates"))? {
        let folder = entry?.path();
        let files = ["src/lib.rs", "src/main.rs"].map(|file| folder.join(file));
        let mut texts = files
            .iter()
            .filter_map(|file| fs::read_to_string(file).ok());
        if !texts.any(|text| text.contains("//! Invariant:")) {
            wrong.push(format!("{}: says no `//! Invariant:`", folder.display()));
        }
    }
    Ok(wrong)
}

/// Every direct dependency stands in docs/dependencies.md with its reason.
fn unexplained_dependencies(root: &Path) -> Result<Vec<String>> {
    let document = root.join("docs/dependencies.md");
    let text =
        fs::read_to_string(&document).with_context(|| format!("read {}", document.display()))?;
    let explained: Vec<String> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix('|')?.split('|').next())
        .flat_map(|cell| cell.split(','))
        .map(|name| name.trim().trim_matches('`').to_owned())
        .collect();
    let metadata = graph::metadata(&["--no-deps"])?;
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let name = dependency["name"].as_str().unwrap_or_default();
            let user = package["name"].as_str().unwrap_or_default();
            let ours = dependency["path"].is_string();
            if !ours && !explained.iter().any(|explained| explained == name) {
                wrong.push(format!(
                    "{user}: `{name}` has no line in docs/dependencies.md"
                ));
            }
        }
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(name: &str, text: &str) -> usize {
        source_faults(name, text).len()
    }

    #[test]
    fn lines_and_files() {
        assert_eq!(
            faults("crates/x/src/lib.rs", &"é".repeat(LINE_CHARS_MAX)),
            0
        );
        assert_eq!(
            faults("crates/x/src/lib.rs", &"é".repeat(LINE_CHARS_MAX + 1)),
            1
        );
        assert_eq!(
            faults("crates/x/src/lib.rs", &"a\n".repeat(FILE_LINES_MAX)),
            0
        );
        assert_eq!(
            faults("crates/x/src/lib.rs", &"a\n".repeat(FILE_LINES_MAX + 1)),
            1
        );
    }

    #[test]
    fn texts_and_drawings_may_be_wide() {
        let wide = "x".repeat(LINE_CHARS_MAX);
        let lib = "crates/x/src/lib.rs";
        assert_eq!(faults(lib, &format!("key(\"a \\\" {wide}\", 1),")), 0);
        assert_eq!(faults(lib, &format!("key(\"a\", {wide}),")), 1);
        assert_eq!(faults(lib, &format!("key(r#\"a \"b\" {wide}\"#),")), 0);
        assert_eq!(faults(lib, &format!("key(r#\"a \"b\"\"#, {wide}),")), 1);
        assert_eq!(faults(lib, &format!("// a \"{wide}\"")), 1);
        assert_eq!(faults(lib, &format!("//! ```text\n//! {wide}\n//! ```")), 0);
        assert_eq!(faults(lib, &format!("//! ```text\n//! ```\n//! {wide}")), 1);
        assert_eq!(faults(lib, &format!("//! ```\n//! {wide}\n//! ```")), 1);
    }

    #[test]
    fn core_crates_have_no_clock_and_no_surprises() {
        let call = concat!("x.unw", "rap();\n");
        assert_eq!(faults("crates/queue/src/a.rs", call), 1);
        assert_eq!(faults("crates/shell/src/a.rs", call), 0);
        assert_eq!(faults("crates/queue/src/tests.rs", call), 0);
        assert_eq!(
            faults("crates/queue/src/a.rs", &format!("#[cfg(test)]\n{call}")),
            0
        );
        assert_eq!(
            faults(
                "crates/queue/src/a.rs",
                concat!("let t = Instant::", "now();")
            ),
            1
        );
    }

    #[test]
    fn long_functions_are_found() {
        let function = |lines: usize| {
            format!(
                "    pub(crate) fn f(\n        a: u8,\n    ) {{\n{}    }}\n",
                "        a = match b {\n            field,\n        };\n".repeat(lines)
            )
        };
        let inner = FUNCTION_LINES_MAX - 2;
        assert_eq!(faults("crates/x/src/a.rs", &function(inner)), 0);
        assert_eq!(faults("crates/x/src/a.rs", &function(inner + 1)), 1);
    }
}
