//! Words that the project does not use any more, held to the table of `docs/glossary.md`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::run;

/// Characters of a commit's title.
const TITLE_CHARS_MAX: usize = 72;
/// Words of an identifier that is a name; longer ones are sentences, as the names of tests are.
const NAME_WORDS_MAX: usize = 3;
/// Commits before this one have longer titles.
const FIRST_TITLE_CHECKED: &str = "Name things by the field's standard words throughout the code";

/// A row of the table: words, and where they are refused.
struct Retired {
    words: Vec<String>,
    say: String,
    /// Empty: all crates.
    crates: Vec<String>,
    in_documents: bool,
    /// Its words stand in backticks: they are plain English in sentences, but name nothing.
    in_names_only: bool,
}

impl Retired {
    /// Whether this identifier may not have the word: a long one is a sentence.
    fn concerns(&self, identifier: &[String]) -> bool {
        !self.in_names_only || identifier.len() <= NAME_WORDS_MAX
    }

    /// Whether this is one of the words, alone or with an `s` at its end.
    fn retires(&self, word: &str) -> bool {
        let is_listed = |word: &str| self.words.iter().any(|listed| listed == word);
        is_listed(word) || word.strip_suffix('s').is_some_and(is_listed)
    }
}

/// Each retired word in identifiers and comments of `sources` and in documents, and each title of a
/// commit that is too long.
pub fn faults(root: &Path, sources: &[PathBuf]) -> Result<Vec<String>> {
    let glossary =
        fs::read_to_string(root.join("docs/glossary.md")).context("read the glossary")?;
    let retired = table(&glossary)?;
    let mut wrong = Vec::new();
    for path in sources {
        let name = path.strip_prefix(root)?.display().to_string();
        let crate_name = name.split('/').nth(1).unwrap_or_default().to_owned();
        let text = fs::read_to_string(path)?;
        let here = |row: &&Retired| row.crates.is_empty() || row.crates.contains(&crate_name);
        let rows: Vec<&Retired> = retired.iter().filter(here).collect();
        wrong.extend(code_faults(&name, &text, &rows));
        wrong.extend(retired_in_comments(&name, &text, &rows));
        wrong.extend(comment_faults(&name, &text));
    }
    for path in documents(root)? {
        let name = path.strip_prefix(root)?.display().to_string();
        let text = fs::read_to_string(&path)?;
        wrong.extend(document_faults(&name, &text, &retired));
    }
    wrong.extend(title_faults(&titles()));
    Ok(wrong)
}

/// The rows behind the heading of the table of retired words.
fn table(glossary: &str) -> Result<Vec<Retired>> {
    let (_, text) = glossary
        .split_once("| retired |")
        .context("docs/glossary.md has no table of retired words")?;
    let mut rows = Vec::new();
    for line in text.lines().skip(2) {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').collect();
        let [words, say, crates, documents] = cells.as_slice() else {
            break;
        };
        rows.push(Retired {
            words: listed(words),
            say: say.trim().to_owned(),
            crates: listed(crates),
            in_documents: documents.trim() == "yes",
            in_names_only: words.trim().starts_with('`'),
        });
    }
    ensure!(!rows.is_empty(), "docs/glossary.md retires no words");
    Ok(rows)
}

/// Words between commas; none for `*`.
fn listed(cell: &str) -> Vec<String> {
    let words = cell.split(',').map(|word| word.trim().trim_matches('`'));
    words
        .filter(|word| *word != "*")
        .map(str::to_owned)
        .collect()
}

fn documents(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in [
        "docs",
        "docs/adr",
        "docs/experiments",
        "docs/lab",
        "packaging",
        ".",
    ] {
        let Ok(entries) = fs::read_dir(root.join(folder)) else {
            continue;
        };
        for entry in entries {
            let path = entry?.path();
            let is_page = path.extension().is_some_and(|found| found == "md");
            // The glossary itself names the words.
            if is_page && !path.ends_with("glossary.md") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Retired words that are a part of an identifier, outside comments and texts.
fn code_faults(name: &str, text: &str, rows: &[&Retired]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let code = without_texts(line);
        let identifiers = code.split(|char: char| !char.is_alphanumeric() && char != '_');
        for identifier in identifiers.map(parts) {
            for part in &identifier {
                let mut rows = rows.iter().filter(|row| row.concerns(&identifier));
                if let Some(row) = rows.find(|row| row.retires(part)) {
                    let place = format!("{name}:{}", at + 1);
                    wrong.push(format!("{place}: `{part}`: say \"{}\"", row.say));
                }
            }
        }
    }
    wrong
}

/// Retired words of comments that have lines of their own, outside backticks and brackets.
fn retired_in_comments(name: &str, text: &str, rows: &[&Retired]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let Some(sentence) = line.trim_start().strip_prefix("//") else {
            continue;
        };
        let pieces = words_of_prose(sentence);
        for word in pieces.flat_map(|piece| piece.split(|char: char| !char.is_alphanumeric())) {
            let word = word.to_lowercase();
            let mut rows = rows.iter().filter(|row| !row.in_names_only);
            if let Some(row) = rows.find(|row| row.retires(&word)) {
                let place = format!("{name}:{}", at + 1);
                wrong.push(format!("{place}: `{word}`: say \"{}\"", row.say));
            }
        }
    }
    wrong
}

/// Names of the code that stand in a comment's sentences as if they were words: they want
/// backticks, or the words that they are made of. Drawings, tables and examples are left alone,
/// and what the command line prints as its help.
fn comment_faults(name: &str, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut is_example = false;
    for (at, line) in text.lines().enumerate() {
        let comment = line.trim_start();
        let Some(sentence) = comment.strip_prefix("//") else {
            is_example = false;
            continue;
        };
        let sentence = sentence.trim_start_matches(['/', '!']).trim();
        let is_table = sentence.contains("  ") || sentence.contains('|');
        if sentence.contains("```") {
            is_example = !is_example;
        } else if !is_example && !is_table && !name.starts_with("crates/leveret/src/cli/") {
            let found = words_of_prose(sentence).find(|word| is_name_of_code(word));
            wrong.extend(found.map(|word| {
                format!(
                    "{name}:{}: `{word}` in a sentence wants backticks, or words",
                    at + 1
                )
            }));
        }
    }
    wrong
}

/// The words of a sentence, without what is in backticks, brackets or parentheses.
fn words_of_prose(sentence: &str) -> impl Iterator<Item = &str> {
    let mut within = None;
    let is_outside = move |piece: &&str| {
        let was_outside = within.is_none();
        within = match (within, piece.chars().next_back()) {
            (None, Some('`')) => Some('`'),
            (None, Some('[')) => Some(']'),
            (None, Some('(')) => Some(')'),
            (Some(end), Some(char)) if end == char => None,
            (within, _) => within,
        };
        was_outside
    };
    let pieces = sentence.split_inclusive(['`', '[', ']', '(', ')']);
    let pieces = pieces.filter(is_outside);
    pieces.flat_map(str::split_whitespace)
}

/// Whether a word is small letters with `_` between them.
fn is_name_of_code(word: &str) -> bool {
    let word = word.trim_end_matches(['.', ',', ';', ':']);
    let is_letter = |char: char| char.is_ascii_lowercase() || char == '_';
    word.trim_matches('_').contains('_') && word.chars().all(is_letter)
}

fn document_faults(name: &str, text: &str, retired: &[Retired]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let words = line.split(|char: char| !char.is_alphanumeric() && char != '_' && char != '-');
        for word in words.map(str::to_lowercase) {
            let mut rows = retired.iter().filter(|row| row.in_documents);
            if let Some(row) = rows.find(|row| row.words.contains(&word)) {
                let place = format!("{name}:{}", at + 1);
                wrong.push(format!("{place}: `{word}`: say \"{}\"", row.say));
            }
        }
    }
    wrong
}

/// The code of a line: nothing between quotes, nothing behind `//`.
fn without_texts(line: &str) -> String {
    let mut code = String::new();
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '"' => quoted = !quoted,
            '\\' if quoted => drop(chars.next()),
            '/' if !quoted && chars.peek() == Some(&'/') => break,
            char if !quoted => code.push(char),
            _ => {}
        }
    }
    code
}

/// The words of an identifier, in small letters: `PriorityLogState` and `lane_state` have two each.
fn parts(identifier: &str) -> Vec<String> {
    let mut found = Vec::new();
    for piece in identifier.split('_') {
        let mut word = String::new();
        let mut was_small = false;
        for char in piece.chars() {
            if char.is_uppercase() && was_small {
                found.push(std::mem::take(&mut word));
            }
            was_small = char.is_lowercase();
            word.extend(char.to_lowercase());
        }
        found.push(word);
    }
    found.retain(|word| !word.is_empty());
    found
}

/// Titles of the commits that are checked; none where the history is not there or is cut short.
fn titles() -> Vec<String> {
    let mut log = Command::new("git");
    log.current_dir(run::root()).args(["log", "--format=%s"]);
    let text = run::output(&mut log).unwrap_or_default();
    let checked = text.split_once(&format!("{FIRST_TITLE_CHECKED}\n"));
    let (checked, _) = checked.unwrap_or_default();
    checked.lines().map(str::to_owned).collect()
}

fn title_faults(titles: &[String]) -> Vec<String> {
    let long = titles
        .iter()
        .filter(|title| title.chars().count() > TITLE_CHARS_MAX);
    long.map(|title| format!("a commit's title is over {TITLE_CHARS_MAX} characters: {title}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLOSSARY: &str = "words\n\n| retired | say | crates | documents |\n|---|---|---|---|\n\
        | lane, lanes | priority log | queue | |\n| rot | corruption | * | yes |\n\nmore\n";

    #[test]
    fn a_word_is_found_as_a_part_of_an_identifier_and_nowhere_else() {
        let rows = table(GLOSSARY).expect("a table");
        let rows: Vec<&Retired> = rows.iter().collect();
        let count = |text: &str| code_faults("a.rs", text, &rows).len();
        assert_eq!(count("let lane_of = LaneState::of(LANES_MAX);"), 3);
        assert_eq!(count("let planes = \"a lane\"; // a lane"), 0);
        assert_eq!(count("let a = \"\\\"\"; lane"), 1);
        assert_eq!(count("mod rots; struct HeldRots; // rots"), 2);
    }

    #[test]
    fn a_word_is_found_in_a_comment_that_has_a_line_of_its_own() {
        let rows = table(GLOSSARY).expect("a table");
        let rows: Vec<&Retired> = rows.iter().collect();
        let count = |text: &str| retired_in_comments("a.rs", text, &rows).len();
        assert_eq!(count("/// A lane's end.\n    // Rots, and a lane_of."), 3);
        assert_eq!(
            count("/// Planes, a `lane` and [`lane_of`].\nlet lane = 1;"),
            0
        );
    }

    #[test]
    fn a_word_in_backticks_is_refused_in_names_and_not_in_sentences() {
        let rows = table("| retired |\n|---|\n| `asked` | pending request | queue | |\n");
        let rows = rows.expect("a table");
        let rows: Vec<&Retired> = rows.iter().collect();
        let code = |text: &str| code_faults("a.rs", text, &rows).len();
        assert_eq!(code("fn is_asked(asked: Asked) {}"), 3);
        assert_eq!(code("fn who_is_asked_answers() {}"), 0);
        assert!(retired_in_comments("a.rs", "/// It is asked.", &rows).is_empty());
    }

    #[test]
    fn a_name_of_the_code_is_no_word_of_a_comment() {
        let faults = |text: &str| comment_faults("x.rs", text).len();
        assert_eq!(faults("/// Of a remote_queue."), 1);
        assert_eq!(faults("// It is `a_b`, [`c_d`], (e_f) and g_h, of all."), 1);
        for fine in [
            "/// Of a `remote_queue`.",
            "//! record  a_b",
            "//! a_b u8 | c_d u8",
            "//! ```text\n//! a_b\n//! ```",
            "let a_b = 1;",
        ] {
            assert_eq!(faults(fine), 0, "{fine}");
        }
    }

    #[test]
    fn documents_are_held_to_the_words_that_say_so() {
        let rows = table(GLOSSARY).expect("a table");
        let count = |text: &str| document_faults("a.md", text, &rows).len();
        assert_eq!((count("Rot in a lane"), count("a rotation")), (1, 0));
    }

    #[test]
    fn a_title_of_72_characters_passes_and_one_more_does_not() {
        let title = |chars| vec!["é".repeat(chars)];
        assert!(title_faults(&title(TITLE_CHARS_MAX)).is_empty());
        assert_eq!(title_faults(&title(TITLE_CHARS_MAX + 1)).len(), 1);
    }

    #[test]
    fn a_glossary_without_its_table_is_an_error() {
        assert!(table("words").is_err());
        assert!(table("| retired | say |\n|---|---|\n").is_err());
    }
}
