//! How long a text is once it is written as JSON, where some characters take several.

/// Bytes that a character takes within quotation marks.
const fn of_char(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => "\\u0000".len(),
        other => other.len_utf8(),
    }
}

/// Bytes that a text takes within quotation marks.
pub(crate) fn written_bytes(text: &str) -> usize {
    text.chars().map(of_char).sum()
}

/// The beginning of a text that takes no more bytes than these within quotation marks, and how many
/// it takes.
pub(crate) fn fitting(text: &str, bytes: usize) -> (&str, usize) {
    let mut written = 0_usize;
    for (at, character) in text.char_indices() {
        let more = written.saturating_add(of_char(character));
        if more > bytes {
            return (&text[..at], written);
        }
        written = more;
    }
    (text, written)
}

/// Bytes that so many take in base64.
pub(crate) const fn base64_bytes(bytes: usize) -> usize {
    bytes.div_ceil(3).saturating_mul(4)
}

/// How many bytes take no more than these in base64.
pub(crate) const fn fitting_base64(bytes: usize) -> usize {
    bytes / 4 * 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_as_long_as_it_is_written() {
        let ascii: String = (0..=127_u8).map(char::from).collect();
        for text in ["", "plain", &ascii, "\u{80}\u{fc}\u{20ac}\u{1f407}"] {
            let written = serde_json::to_string(text).expect("a text");
            assert_eq!(written_bytes(text), written.len() - 2, "{text:?}");
        }
    }

    #[test]
    fn as_much_of_a_text_fits_as_is_written_within_so_many_bytes() {
        let text = "a\u{1}\u{fc}";
        for (bytes, expected) in [
            (0, ""),
            (1, "a"),
            (6, "a"),
            (7, "a\u{1}"),
            (8, "a\u{1}"),
            (9, text),
            (usize::MAX, text),
        ] {
            assert_eq!(fitting(text, bytes), (expected, written_bytes(expected)));
        }
        for bytes in 0..20 {
            let most = fitting_base64(bytes);
            assert!(base64_bytes(most) <= bytes && base64_bytes(most + 1) > bytes);
        }
    }
}
