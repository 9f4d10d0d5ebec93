//! A file with some changes in it, each behind its switch: the program asks at run time whether it
//! is to be the changed one.

use std::ops::Range;

use super::find::{Candidate, Change};

/// A change with its switch's number.
#[derive(Clone, Debug)]
pub struct Switched {
    /// What the switch is asked by.
    pub number: u32,
    /// What is changed where.
    pub candidate: Candidate,
}

/// A file as it is compiled.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rewritten {
    /// The new text.
    pub text: String,
    /// Where each change is in the new text: a change inside a comparison that is changed itself
    /// is there twice.
    pub places: Vec<(u32, Range<usize>)>,
}

/// What a switch is asked with, in the crate that it is in.
const ASK: &str = "crate::__mutants::is";

/// Puts changes into a file.
pub fn rewrite(text: &str, changes: &[Switched]) -> Rewritten {
    let mut sorted: Vec<&Switched> = changes.iter().collect();
    sorted.sort_by_key(|change| {
        let place = &change.candidate.place;
        (place.start, std::cmp::Reverse(place.end), change.number)
    });
    let mut rewritten = Rewritten::default();
    rewritten.emit(text, 0..text.len(), &sorted);
    rewritten
}

impl Rewritten {
    /// Writes a range of the old text with the changes in it: outer ones first in the slice.
    fn emit(&mut self, text: &str, range: Range<usize>, changes: &[&Switched]) {
        let mut at = range.start;
        let mut rest = changes;
        while let Some((&outer, behind)) = rest.split_first() {
            let place = outer.candidate.place.clone();
            let inside = behind
                .iter()
                .take_while(|inner| is_inside(&inner.candidate.place, &place))
                .count();
            let (inner, after) = behind.split_at(inside);
            self.text.push_str(&text[at..place.start]);
            let start = self.text.len();
            self.change(text, outer, inner);
            self.places.push((outer.number, start..self.text.len()));
            at = place.end;
            rest = after;
        }
        self.text.push_str(&text[at..range.end]);
    }

    fn change(&mut self, text: &str, outer: &Switched, inner: &[&Switched]) {
        let Switched { number, candidate } = outer;
        let place = candidate.place.clone();
        let around = |rewritten: &mut Self, before: &str, after: &str| {
            rewritten.text.push_str(before);
            rewritten.emit(text, place.clone(), inner);
            rewritten.text.push_str(after);
        };
        match &candidate.change {
            Change::Negate => around(self, &format!("({ASK}({number}) ^ ("), "))"),
            Change::DropAnd => around(self, &format!("({ASK}({number}) || ("), "))"),
            Change::DropOr => around(self, &format!("(!{ASK}({number}) && ("), "))"),
            Change::Delete => around(self, &format!("if !{ASK}({number}) {{ "), " }"),
            Change::Return(value) => {
                let early = format!(" if {ASK}({number}) {{ return {value}; }}");
                around(self, &early, "");
            }
            Change::Compare {
                left,
                right,
                operator,
            } => {
                self.text.push_str(&format!("(if {ASK}({number}) {{ "));
                self.emit(text, left.clone(), &within(inner, left));
                self.text.push_str(&format!(" {operator} "));
                self.emit(text, right.clone(), &within(inner, right));
                around(self, " } else { ", " })");
            }
        }
    }
}

/// Whether a place lies inside another one, the whole of it included. An insertion at the end of a
/// range does not.
fn is_inside(inner: &Range<usize>, outer: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end && inner.start < outer.end
}

fn within<'a>(changes: &[&'a Switched], range: &Range<usize>) -> Vec<&'a Switched> {
    let inside = changes
        .iter()
        .filter(|change| is_inside(&change.candidate.place, range));
    inside.copied().collect()
}

/// The module that answers, appended to a crate's root. Which change is on comes from the
/// environment, read once; where that asks for it, each change that is reached is noted with the
/// name of the thread, which is the test's.
pub const SWITCHES: &str = r#"

#[doc(hidden)]
#[allow(missing_docs)]
pub mod __mutants {
    use std::cell::RefCell;
    use std::collections::HashSet;
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::sync::OnceLock;

    fn chosen() -> u32 {
        static CHOSEN: OnceLock<u32> = OnceLock::new();
        *CHOSEN.get_or_init(|| {
            let named = std::env::var("XTASK_MUTANT").ok();
            named.and_then(|name| name.parse().ok()).unwrap_or(0)
        })
    }

    fn notes() -> Option<&'static String> {
        static NOTES: OnceLock<Option<String>> = OnceLock::new();
        NOTES.get_or_init(|| std::env::var("XTASK_MUTANTS_REACHED").ok()).as_ref()
    }

    thread_local! {
        static NOTED: RefCell<HashSet<u32>> = RefCell::new(HashSet::new());
    }

    pub fn is(number: u32) -> bool {
        if let Some(path) = notes() {
            let first = NOTED.try_with(|noted| noted.borrow_mut().insert(number));
            if first.unwrap_or(true) {
                let thread = std::thread::current();
                let line = format!("{number} {}\n", thread.name().unwrap_or("?"));
                let file = OpenOptions::new().append(true).create(true).open(path);
                let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
            }
        }
        chosen() == number
    }
}
"#;

#[cfg(test)]
mod tests {
    use super::super::find::candidates;
    use super::*;

    fn rewritten(text: &str, numbers: &[usize]) -> String {
        let found = candidates(text).expect("it is Rust");
        let chosen = numbers.iter().map(|&number| Switched {
            number: number as u32,
            candidate: found[number].clone(),
        });
        let new = rewrite(text, &chosen.collect::<Vec<_>>());
        syn::parse_file(&new.text).expect("still Rust");
        new.text.replace(ASK, "is")
    }

    const TEXT: &str = "fn f(a: u64, b: bool) -> bool { if b || a < 3 { log(a); } b }";

    #[test]
    fn changes_stand_behind_their_switches() {
        for (number, expected) in [
            (
                0,
                "fn f(a: u64, b: bool) -> bool { if is(0) { return true; } if b || a < 3 { log(a); } b }",
            ),
            (
                2,
                "fn f(a: u64, b: bool) -> bool { if (!is(2) && (b)) || a < 3 { log(a); } b }",
            ),
            (
                3,
                "fn f(a: u64, b: bool) -> bool { if (is(3) ^ (b || a < 3)) { log(a); } b }",
            ),
            (
                5,
                "fn f(a: u64, b: bool) -> bool { if b || (if is(5) { a <= 3 } else { a < 3 }) { log(a); } b }",
            ),
            (
                7,
                "fn f(a: u64, b: bool) -> bool { if b || a < 3 { if !is(7) { log(a); } } b }",
            ),
        ] {
            assert_eq!(rewritten(TEXT, &[number]), expected);
        }
    }

    #[test]
    fn changes_lie_inside_each_other() {
        let text = rewritten(TEXT, &[0, 1, 2, 3, 4, 5, 6, 7]);
        for number in 0..8 {
            assert!(text.contains(&format!("is({number})")), "{number}: {text}");
        }
        assert!(text.contains("{ if is(0) { return true; } if is(1) { return false; } if"));
    }
}
