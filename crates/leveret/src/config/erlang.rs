//! Erlang's terms, as far as RabbitMQ's `advanced.config`, `rabbitmq.config` and `enabled_plugins`
//! have them.
//!
//! Invariant: no text makes the parser recurse deeper than [`DEPTH_MAX`].

/// How deep lists and tuples may lie within each other.
pub const DEPTH_MAX: usize = 64;

/// A term, and the line (from 1) on which it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// The line.
    pub line: usize,
    /// What it is.
    pub is: Is,
}

/// What a term is.
#[derive(Clone, Debug, PartialEq)]
pub enum Is {
    /// An atom, with or without quotes.
    Atom(String),
    /// A string or a binary.
    Text(String),
    /// A number as it was written.
    Number(String),
    /// A list.
    List(Vec<Term>),
    /// A tuple.
    Tuple(Vec<Term>),
}

impl Term {
    /// An atom, a text or a number as a value is written in `rabbitmq.conf`; none for what holds
    /// others.
    #[must_use]
    pub fn scalar(&self) -> Option<&str> {
        match &self.is {
            Is::Atom(text) | Is::Text(text) | Is::Number(text) => Some(text),
            Is::List(_) | Is::Tuple(_) => None,
        }
    }

    /// The terms of a list; none for what is no list.
    #[must_use]
    pub fn list(&self) -> Option<&[Term]> {
        match &self.is {
            Is::List(items) => Some(items),
            _ => None,
        }
    }

    /// The name and the value of a pair such as `{heartbeat, 60}`.
    #[must_use]
    pub fn pair(&self) -> Option<(&str, &Term)> {
        match &self.is {
            Is::Tuple(parts) => match &parts[..] {
                [name, value] => match &name.is {
                    Is::Atom(name) => Some((name, value)),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
    line: usize,
}

/// The one term of a file, which ends with a full stop.
///
/// # Errors
/// The line (from 1) at which it is no term, and what is wrong there.
pub fn parse(text: &str) -> Result<Term, (usize, String)> {
    let mut parser = Parser {
        rest: text,
        line: 1,
    };
    let term = parser.term(0)?;
    parser.expect(".")?;
    parser.skip_space();
    match parser.rest.is_empty() {
        true => Ok(term),
        false => Err(parser.error("nothing may follow the full stop")),
    }
}

impl Parser<'_> {
    fn error(&self, what: &str) -> (usize, String) {
        (self.line, what.to_owned())
    }

    fn advance(&mut self, bytes: usize) {
        let (gone, rest) = self.rest.split_at(bytes);
        self.line += gone.bytes().filter(|byte| *byte == b'\n').count();
        self.rest = rest;
    }

    /// Goes over spaces, and comments from `%` to the end of their line.
    fn skip_space(&mut self) {
        loop {
            let space = self.rest.len() - self.rest.trim_start().len();
            self.advance(space);
            if !self.rest.starts_with('%') {
                return;
            }
            self.advance(self.rest.find('\n').unwrap_or(self.rest.len()));
        }
    }

    fn takes(&mut self, token: &str) -> bool {
        self.skip_space();
        let is_there = self.rest.starts_with(token);
        if is_there {
            self.advance(token.len());
        }
        is_there
    }

    fn expect(&mut self, token: &str) -> Result<(), (usize, String)> {
        match self.takes(token) {
            true => Ok(()),
            false => Err(self.error(&format!("`{token}` is missing here"))),
        }
    }

    fn term(&mut self, depth: usize) -> Result<Term, (usize, String)> {
        self.skip_space();
        let line = self.line;
        let is = self.value(depth)?;
        Ok(Term { line, is })
    }

    fn value(&mut self, depth: usize) -> Result<Is, (usize, String)> {
        if depth > DEPTH_MAX {
            return Err(self.error("lists lie too deep within each other"));
        }
        if self.takes("[") {
            return Ok(Is::List(self.items("]", depth)?));
        }
        if self.takes("{") {
            return Ok(Is::Tuple(self.items("}", depth)?));
        }
        if self.takes("<<") {
            if self.takes(">>") {
                return Ok(Is::Text(String::new()));
            }
            self.skip_space();
            let text = match self.rest.starts_with('"') {
                true => self.quoted('"')?,
                false => return Err(self.error("a binary must be a text in quotes here")),
            };
            self.expect(">>")?;
            return Ok(Is::Text(text));
        }
        match self.rest.chars().next() {
            Some('"') => Ok(Is::Text(self.quoted('"')?)),
            Some('\'') => Ok(Is::Atom(self.quoted('\'')?)),
            Some(first) if first.is_ascii_lowercase() => {
                let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '@';
                Ok(Is::Atom(self.word(is_part)))
            }
            Some(first) if first.is_ascii_digit() || first == '-' => Ok(Is::Number(self.number())),
            _ => Err(self.error("an atom, a text, a number, a list or a tuple is missing here")),
        }
    }

    fn items(&mut self, end: &str, depth: usize) -> Result<Vec<Term>, (usize, String)> {
        let mut items = Vec::new();
        if self.takes(end) {
            return Ok(items);
        }
        loop {
            items.push(self.term(depth + 1)?);
            if self.takes(end) {
                return Ok(items);
            }
            self.expect(",")?;
        }
    }

    fn word(&mut self, is_part: impl Fn(char) -> bool) -> String {
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let word = self.rest[..end].to_owned();
        self.advance(end);
        word
    }

    /// A number. A full stop belongs to it only if a digit follows.
    fn number(&mut self) -> String {
        let bytes = self.rest.as_bytes();
        let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        let mut end = 1;
        while is_digit(end) || (bytes.get(end) == Some(&b'_') && is_digit(end + 1)) {
            end += 1;
        }
        if bytes.get(end) == Some(&b'.') && is_digit(end + 1) {
            end += 1;
            while is_digit(end) {
                end += 1;
            }
        }
        let number = self.rest[..end].replace('_', "");
        self.advance(end);
        number
    }

    /// A text or an atom in quotes; a backslash takes the next character as it is.
    fn quoted(&mut self, quote: char) -> Result<String, (usize, String)> {
        let mut text = String::new();
        let mut is_escaped = false;
        for (at, c) in self.rest.char_indices().skip(1) {
            if is_escaped {
                text.push(match c {
                    'n' => '\n',
                    't' => '\t',
                    other => other,
                });
                is_escaped = false;
            } else if c == '\\' {
                is_escaped = true;
            } else if c == quote {
                self.advance(at + c.len_utf8());
                return Ok(text);
            } else {
                text.push(c);
            }
        }
        Err(self.error("a quote is not closed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_read_with_their_lines() {
        let text = "%% comment\n[\n {rabbit, [{heartbeat, 60}, % rest\n  {loopback_users, []},\n  \
                    {name, <<\"a\\\"b\">>}, {'q.x', \"p\"}, {f, 0.4}]}\n].\n";
        let term = parse(text).expect("a term");
        let (app, entries) = term.list().expect("a list")[0].pair().expect("a pair");
        assert_eq!((app, term.line), ("rabbit", 2));
        let entries = entries.list().expect("entries");
        let read: Vec<_> = entries
            .iter()
            .map(|entry| {
                let (name, value) = entry.pair().expect("a pair");
                (entry.line, name, value.scalar())
            })
            .collect();
        assert_eq!(
            read,
            [
                (3, "heartbeat", Some("60")),
                (4, "loopback_users", None),
                (5, "name", Some("a\"b")),
                (5, "q.x", Some("p")),
                (5, "f", Some("0.4")),
            ]
        );
    }

    #[test]
    fn what_is_no_term_is_refused_with_its_line() {
        for (text, line, what) in [
            ("[a,\nB].", 2, "an atom, a text"),
            ("[a]", 1, "`.` is missing"),
            ("[a].\nb.", 2, "nothing may follow"),
            ("[\"a].", 1, "a quote is not closed"),
            ("[a b].", 1, "`,` is missing"),
            ("<<1,2>>.", 1, "a binary must be"),
            ("", 1, "an atom, a text"),
        ] {
            let (found, said) = parse(text).expect_err(text);
            assert!(
                found == line && said.starts_with(what),
                "{text}: {found} {said}"
            );
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| format!("{}{}.", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(&nested(DEPTH_MAX + 1)).is_ok());
        assert!(parse(&nested(DEPTH_MAX + 2)).is_err());
        assert!(parse(&"[".repeat(1_000_000)).is_err());
    }
}
