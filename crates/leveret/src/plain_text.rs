//! Text of others as it may be shown: names, headers and error texts are whatever strangers have
//! written, and neither a terminal nor a log is to take orders from them.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character does something to the text around it: it speaks to a terminal, ends a line,
/// or turns the direction in which others are shown.
#[must_use]
pub fn is_order(character: char) -> bool {
    let turns = matches!(
        character,
        '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{feff}'
    );
    character.is_control() || turns
}

/// Appends text as a part of one line: whatever is an order is escaped, line breaks and tabs as
/// well. The form is JSON's, in which it stays what it is.
pub fn push(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // They are all below U+10000, which four digits hold.
            _ if is_order(character) => drop(write!(out, "\\u{:04x}", u32::from(character))),
            _ => out.push(character),
        }
    }
}

/// Text of several lines and columns: all but its line breaks and tabs is as in [`push`]. JSON
/// still says the same.
#[must_use]
pub fn lines(text: &str) -> Cow<'_, str> {
    let is_layout = |character: char| matches!(character, '\n' | '\t');
    let is_hostile = |character: char| is_order(character) && !is_layout(character);
    if !text.contains(is_hostile) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for part in text.split_inclusive(is_layout) {
        let end = part.strip_suffix(is_layout).unwrap_or(part).len();
        push(&mut out, &part[..end]);
        out.push_str(&part[end..]);
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_turns_or_speaks_is_escaped_and_letters_of_any_script_are_not() {
        let mut out = String::new();
        push(&mut out, "a\u{1b}[31m\u{9b}\u{202e}b\r\n\t\u{61c}\u{feff}");
        assert_eq!(out, "a\\u001b[31m\\u009b\\u202eb\\r\\n\\t\\u061c\\ufeff");
        let letters = "ünï مرحبا שלום 兎 🐇 a\u{301}";
        assert_eq!(lines(letters), letters);
    }

    #[test]
    fn lines_and_columns_stay_and_json_says_the_same() {
        assert_eq!(lines("a\tb\nc\u{202e}\r\n"), "a\tb\nc\\u202e\\r\n");
        assert_eq!(lines("\u{202e}"), "\\u202e");
        let hostile = serde_json::json!({"name": "q\u{202e}\u{9b}\\\u{2066}", "\u{202e}": 1});
        for text in [hostile.to_string(), format!("{hostile:#}\n")] {
            let shown = lines(&text);
            let is_plain = |character: char| !is_order(character) || character == '\n';
            assert!(shown.chars().all(is_plain), "{shown:?}");
            let said: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
            assert_eq!(said, hostile);
        }
    }
}
