//! The page's own scripts and styles as they are sent: without comments and white space that mean
//! nothing to a browser.
//!
//! This is no parser of the languages: it knows where texts, templates and regular expressions
//! begin and end, and leaves those as they are. Comments stand on lines of their own. A parser
//! could shorten names besides; most of the page is templates, into which such programs do not
//! look, and all is compressed on its way.

/// A style without comments, and without white space beside braces, colons and semicolons.
pub(crate) fn style(text: &str) -> String {
    let lines = text.lines().map(str::trim);
    let is_remark = |line: &&str| line.starts_with("/*") && line.ends_with("*/");
    let lines: String = lines.filter(|line| !is_remark(line)).collect();
    [
        (": ", ":"),
        ("; ", ";"),
        (" {", "{"),
        ("{ ", "{"),
        (";}", "}"),
    ]
    .iter()
    .fold(lines, |text, (long, short)| text.replace(long, short))
}

/// Where a script is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Within {
    /// Code, so many braces deep.
    Code(usize),
    /// A text that ends with this quotation mark.
    Text(u8),
    /// A template.
    Template,
    /// A regular expression, and whether within a class of it.
    Pattern(bool),
}

/// A script without lines of comments, and without white space between what is no word.
pub(crate) fn script(text: &str) -> String {
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    let mut within = vec![Within::Code(0)];
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let next = bytes.get(at + 1).copied();
        match within.last().copied().unwrap_or(Within::Code(0)) {
            Within::Code(_) if byte.is_ascii_whitespace() => {
                at = blank(bytes, at, &mut out);
                continue;
            }
            Within::Code(_) if byte == b'/' && next == Some(b'/') => {
                at = end_of_line(bytes, at);
                continue;
            }
            _ if byte == b'\\' => {
                out.extend(bytes[at..].iter().take(2));
                at += 2;
                continue;
            }
            Within::Code(depth) => code(byte, depth, &out, &mut within),
            Within::Text(end) if byte == end => _ = within.pop(),
            Within::Text(_) => {}
            Within::Template if byte == b'`' => _ = within.pop(),
            Within::Template if byte == b'$' && next == Some(b'{') => {
                out.extend(b"${");
                within.push(Within::Code(0));
                at += 2;
                continue;
            }
            Within::Template if byte == b'\n' => {
                at = template_line(bytes, at, &mut out);
                continue;
            }
            Within::Template => {}
            Within::Pattern(is_class) => pattern(byte, is_class, &mut within),
        }
        out.push(byte);
        at += 1;
    }
    // Only ASCII was left out.
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

/// A character of code: what begins or ends with it.
fn code(byte: u8, depth: usize, before: &[u8], within: &mut Vec<Within>) {
    let in_template = within.len() > 1;
    let begins = match byte {
        b'\'' | b'"' => Within::Text(byte),
        b'`' => Within::Template,
        b'/' if !follows_value(before) => Within::Pattern(false),
        b'}' if depth == 0 && in_template => {
            within.pop();
            return;
        }
        b'{' | b'}' => {
            let depth = match byte {
                b'{' => depth + 1,
                _ => depth.saturating_sub(1),
            };
            within.pop();
            Within::Code(depth)
        }
        _ => return,
    };
    within.push(begins);
}

/// A character of a regular expression.
fn pattern(byte: u8, is_class: bool, within: &mut Vec<Within>) {
    within.pop();
    match byte {
        b'/' if !is_class => {}
        b'[' => within.push(Within::Pattern(true)),
        b']' => within.push(Within::Pattern(false)),
        _ => within.push(Within::Pattern(is_class)),
    }
}

/// Whether a stroke divides what stands before it; else it begins a regular expression.
fn follows_value(before: &[u8]) -> bool {
    before
        .last()
        .is_some_and(|&last| is_word(last) || matches!(last, b')' | b']' | b'}' | b'`'))
}

/// Whether this is part of a name or number.
const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || !byte.is_ascii()
}

/// White space of code from here on: as much of it as means something. Says where it ends.
fn blank(bytes: &[u8], from: usize, out: &mut Vec<u8>) -> usize {
    let rest = &bytes[from..];
    let length = rest.iter().take_while(|byte| byte.is_ascii_whitespace());
    let end = from + length.count();
    let has_line = bytes[from..end].contains(&b'\n');
    let (Some(&before), Some(&after)) = (out.last(), bytes.get(end)) else {
        return end;
    };
    let is_joined = match has_line {
        // A statement may end here, but not behind one of these nor before one of those.
        true => {
            matches!(before, b'{' | b'(' | b'[' | b',' | b';' | b'\n')
                || matches!(after, b'}' | b')' | b']' | b'.' | b'?' | b':')
        }
        false => {
            let is_sign = matches!(before, b'+' | b'-') && before == after;
            let is_in_words = is_word(before) && is_word(after);
            !(is_sign || is_in_words)
        }
    };
    if !is_joined {
        out.push(if has_line { b'\n' } else { b' ' });
    }
    end
}

/// The end of a line of a template, and what the next one begins with: a template's reader takes
/// neither for text.
fn template_line(bytes: &[u8], from: usize, out: &mut Vec<u8>) -> usize {
    out.push(b'\n');
    let rest = &bytes[from..];
    from + rest
        .iter()
        .take_while(|byte| byte.is_ascii_whitespace())
        .count()
}

fn end_of_line(bytes: &[u8], from: usize) -> usize {
    let rest = bytes[from..].iter();
    from + rest.take_while(|byte| **byte != b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_stays() {
        for (long, short) in [
            ("// Why.\nconst a = 1\nb(a)\n", "const a=1\nb(a)"),
            (
                "if (a) {\n  b()\n} else {\n  c()\n}\n",
                "if(a){b()}else{c()}",
            ),
            ("a = [\n  1, 2\n]\n  .map(f)", "a=[1,2].map(f)"),
            (
                "return 'a  b // c' + \"d  e\"",
                "return'a  b // c'+\"d  e\"",
            ),
            ("x = a - -b + +c / 2", "x=a- -b+ +c/2"),
            (
                "t = h`a  ${ { b: 1 } }  c\n    d`",
                "t=h`a  ${{b:1}}  c\nd`",
            ),
            ("t = h`a ${x ? h`b  c` : ''} d`", "t=h`a ${x?h`b  c`:''} d`"),
            (
                "s.replace(/[/\"' ]+ \\/ x/g, '')",
                "s.replace(/[/\"' ]+ \\/ x/g,'')",
            ),
            ("s = 'it\\'s  so' ", "s='it\\'s  so'"),
            ("for (const a of b) c in d", "for(const a of b)c in d"),
            ("f('ü  ü') || ü", "f('ü  ü')||ü"),
        ] {
            assert_eq!(script(long), short, "{long}");
        }
    }

    #[test]
    fn a_style_keeps_its_selectors() {
        let long = "/* Why. */\na:hover .b > c { color: red; margin: 0 1px; }\n@media (x: 1px) {\n  d { e: f; }\n}\n";
        let short = "a:hover .b > c{color:red;margin:0 1px}@media (x:1px){d{e:f}}";
        assert_eq!(style(long), short);
    }
}
