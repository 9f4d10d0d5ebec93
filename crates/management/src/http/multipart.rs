//! `multipart/form-data`, as far as an upload form needs it: finding the part of one name.

/// The content of the first part named `name` in a body with this `Content-Type`; none where the
/// body is no such form, is cut short, or has no such part.
#[must_use]
pub fn part<'a>(content_type: &str, body: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let delimiter = format!("--{}", boundary(content_type)?);
    let delimiter = delimiter.as_bytes();
    let mut rest = &body[find(body, delimiter)? + delimiter.len()..];
    loop {
        // Two dashes end the form; anything else but a line's end is no delimiter.
        let part = rest.strip_prefix(b"\r\n")?;
        let head_end = find(part, b"\r\n\r\n")?;
        let content = &part[head_end + 4..];
        let end = find_delimiter(content, delimiter)?;
        if is_named(&part[..head_end], name) {
            return Some(&content[..end]);
        }
        rest = &content[end + 2 + delimiter.len()..];
    }
}

/// Whether this is a form with parts.
#[must_use]
pub fn is_form(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("multipart/form-data")
}

fn boundary(content_type: &str) -> Option<&str> {
    if !is_form(content_type) {
        return None;
    }
    let found = parameter(content_type, "boundary")?;
    // RFC 2046 bounds it; an empty one would fit everywhere.
    (1..=70).contains(&found.len()).then_some(found)
}

/// A parameter of a header's value.
fn parameter<'a>(value: &'a str, name: &str) -> Option<&'a str> {
    value.split(';').skip(1).find_map(|parameter| {
        let (key, value) = parameter.split_once('=')?;
        let known = key.trim().eq_ignore_ascii_case(name);
        known.then(|| value.trim().trim_matches('"'))
    })
}

fn is_named(head: &[u8], name: &str) -> bool {
    let Ok(head) = std::str::from_utf8(head) else {
        return false;
    };
    head.split("\r\n").any(|line| {
        let Some((header, value)) = line.split_once(':') else {
            return false;
        };
        header.trim().eq_ignore_ascii_case("content-disposition")
            && parameter(value, "name") == Some(name)
    })
}

/// Where content ends: before the line's end that a delimiter follows.
fn find_delimiter(content: &[u8], delimiter: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + find(&content[from..], b"\r\n")?;
        if content[at + 2..].starts_with(delimiter) {
            return Some(at);
        }
        from = at + 2;
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|w| w == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: &str = "multipart/form-data; boundary=\"xx\"";

    #[test]
    fn the_part_of_a_name_is_found_byte_for_byte() {
        let body =
            b"preamble\r\n--xx\r\nContent-Disposition: form-data; name=\"redirect\"\r\n\r\n/\r\n\
            --xx\r\nContent-Type: application/json\r\ncontent-disposition: form-data; name=file; \
            filename=\"d.json\"\r\n\r\n{\"a\":\r\n-1\r\n}\r\n--xx--\r\n";
        assert_eq!(part(KIND, body, "file"), Some(&b"{\"a\":\r\n-1\r\n}"[..]));
        assert_eq!(part(KIND, body, "redirect"), Some(&b"/"[..]));
        assert_eq!(part(KIND, body, "other"), None);
        assert_eq!(part("application/json; boundary=xx", body, "file"), None);
        // Cut anywhere, it is refused or found, and never more than that.
        for length in 0..body.len() {
            let cut = part(KIND, &body[..length], "file");
            assert!(cut.is_none_or(|found| found.starts_with(b"{")), "{length}");
        }
    }

    #[test]
    fn what_is_no_form_has_no_parts() {
        for kind in [
            "multipart/form-data",
            "multipart/form-data; boundary=",
            "text/plain; boundary=xx",
            "",
        ] {
            assert_eq!(
                part(kind, b"--xx\r\n\r\n\r\n--xx--", "file"),
                None,
                "{kind}"
            );
        }
        let long = format!("multipart/form-data; boundary={}", "x".repeat(71));
        assert_eq!(part(&long, b"", "file"), None);
    }
}
