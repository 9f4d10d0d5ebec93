//! Regular expressions that operators give: in permissions and policies.
//!
//! They were written for PCRE, which backtracks. Here they are matched in linear time, so
//! lookaround and backreferences do not exist, with one exception that operators use all the time:
//! a pattern that begins with `^(?!...)`, "all but these". That is two expressions, each linear:
//! none of the first kind may match, the second must.

use crate::pattern_cost;
use leveret_types::limits::{
    REGEX_BYTES_MAX, REGEX_PROGRAM_BYTES_MAX, REGEX_REQUEST_PROGRAM_BYTES_MAX,
};
use regex::bytes::{Regex, RegexBuilder};
use regex_automata::util::syntax;
use std::fmt;

/// Why a pattern is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Longer than [`REGEX_BYTES_MAX`].
    #[error("regular expression of {0} bytes, at most {REGEX_BYTES_MAX} are allowed")]
    TooLong(usize),
    /// Not a regular expression, or one that needs lookaround, backreferences or too much memory.
    #[error("invalid regular expression '{pattern}': {reason}")]
    Invalid {
        /// The pattern.
        pattern: String,
        /// What is wrong with it, in one line.
        reason: String,
    },
    /// One that a request brings, and whose matching might take long.
    #[error(
        "regular expression '{0}' takes too much work for each name: repeat less, or fewer things \
         that match the same, or say what it begins with"
    )]
    TooCostly(String),
}

/// What a pattern is compiled for.
#[derive(Clone, Copy)]
struct Use {
    /// The case of the letters of ASCII does not count.
    is_caseless: bool,
    /// It comes with a request, and may cost one step a byte and no more.
    is_bounded: bool,
}

/// A compiled pattern. It is not anchored: `a` matches every name with an `a` in it. The empty
/// pattern matches only the empty name. As in RabbitMQ it is matched byte by byte: `.` is one byte,
/// `\d` one of ten digits, and `(?i)` knows the letters of ASCII.
#[derive(Clone)]
pub struct Pattern {
    text: Box<str>,
    matcher: Matcher,
}

#[derive(Clone)]
enum Matcher {
    /// `.*` and its like: no need to run anything.
    Everything,
    /// The empty pattern, which RabbitMQ reads as `^$`.
    Empty,
    Regex(Regex),
    /// One that would take too long, and matches nothing.
    TooCostly,
    /// `^(?!a)(?!b)c`: neither `^a` nor `^b` matches, but `^c` does.
    AllBut {
        none_of: Box<[Regex]>,
        rest: Regex,
    },
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// If it is too long or no regular expression that can be matched in linear time.
    pub fn new(text: &str) -> Result<Self, PatternError> {
        Self::compiled(
            text,
            Use {
                is_caseless: false,
                is_bounded: false,
            },
        )
    }

    /// Compiles a pattern that a request brings: it is matched against many names, and is refused
    /// where a name may cost more than one step a byte. What was stored under wider rules is
    /// compiled by [`Self::of_policy`].
    ///
    /// # Errors
    /// The same, or if it might cost too much.
    pub fn of_request(text: &str) -> Result<Self, PatternError> {
        Self::compiled(
            text,
            Use {
                is_caseless: false,
                is_bounded: true,
            },
        )
    }

    /// Compiles the pattern of a policy that is stored, or comes with definitions: it is matched
    /// against many names while everybody waits. One that [`Self::of_request`] refuses for what it
    /// costs is kept and matches nothing, as one for which PCRE runs into its limit.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_policy(text: &str) -> Result<Self, PatternError> {
        match Self::of_request(text) {
            Err(PatternError::TooCostly(_)) => Ok(Self {
                matcher: Matcher::TooCostly,
                ..Self::new(text)?
            }),
            compiled => compiled,
        }
    }

    /// The same of one that filters a list, for which the case of letters does not count, and of
    /// which nothing lets everything through.
    ///
    /// # Errors
    /// The same.
    pub fn of_filter(text: &str) -> Result<Self, PatternError> {
        if text.is_empty() {
            return Self::of_request(".*");
        }
        Self::compiled(
            text,
            Use {
                is_caseless: true,
                is_bounded: true,
            },
        )
    }

    fn compiled(text: &str, for_use: Use) -> Result<Self, PatternError> {
        if text.len() > REGEX_BYTES_MAX {
            return Err(PatternError::TooLong(text.len()));
        }
        let matcher = match text {
            "" => Matcher::Empty,
            ".*" | "^.*" | "^.*$" | ".*$" => Matcher::Everything,
            _ => match split_lookaheads(text) {
                Some((exceptions, rest)) => Matcher::AllBut {
                    none_of: exceptions
                        .iter()
                        .map(|exception| compile(&format!("^(?:{exception})"), text, for_use))
                        .collect::<Result<_, _>>()?,
                    rest: compile(&format!("^(?:{rest})"), text, for_use)?,
                },
                None => Matcher::Regex(compile(text, text, for_use)?),
            },
        };
        Ok(Self {
            text: text.into(),
            matcher,
        })
    }

    /// The pattern as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it would take too long, and matches nothing: see [`Self::of_policy`].
    #[must_use]
    pub const fn is_too_costly(&self) -> bool {
        matches!(self.matcher, Matcher::TooCostly)
    }

    /// Whether the pattern is found in `name`.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        self.matches_bytes(name.as_bytes())
    }

    /// Whether the pattern is found in a name that may be no text.
    #[must_use]
    pub fn matches_bytes(&self, name: &[u8]) -> bool {
        match &self.matcher {
            Matcher::Everything => true,
            Matcher::Empty => name.is_empty(),
            Matcher::TooCostly => false,
            Matcher::Regex(regex) => regex.is_match(name),
            Matcher::AllBut { none_of, rest } => {
                none_of.iter().all(|regex| !regex.is_match(name)) && rest.is_match(name)
            }
        }
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// An expression over bytes. Only what means more than bytes in it, such as a letter beyond ASCII
/// in a class or `\p{L}`, is matched by characters.
fn compile(expression: &str, shown: &str, for_use: Use) -> Result<Regex, PatternError> {
    let expression = &with_plain_classes(expression);
    let size_max = match for_use.is_bounded {
        true => REGEX_REQUEST_PROGRAM_BYTES_MAX,
        false => REGEX_PROGRAM_BYTES_MAX,
    };
    let build = |unicode: bool| {
        RegexBuilder::new(expression)
            .unicode(unicode)
            .case_insensitive(for_use.is_caseless)
            .size_limit(size_max)
            .dfa_size_limit(REGEX_PROGRAM_BYTES_MAX)
            .build()
    };
    let (built, is_unicode) = match build(false) {
        Ok(built) => (Ok(built), false),
        Err(_) => (build(true), true),
    };
    let syntax = syntax::Config::new()
        .unicode(is_unicode)
        .case_insensitive(for_use.is_caseless);
    let too_costly = || PatternError::TooCostly(shown.to_owned());
    match built {
        Err(regex::Error::CompiledTooBig(_)) if for_use.is_bounded => Err(too_costly()),
        Ok(_) if for_use.is_bounded && !pattern_cost::is_bounded(expression, syntax) => {
            Err(too_costly())
        }
        built => built.map_err(|error| PatternError::Invalid {
            pattern: shown.to_owned(),
            // The library draws a picture of several lines; the sentence is the last of them.
            reason: error
                .to_string()
                .lines()
                .last()
                .unwrap_or_default()
                .trim_start_matches("error: ")
                .to_owned(),
        }),
    }
}

/// What one step through a character class finds.
enum ClassItem {
    /// A character, as it is written where it stands for nothing else.
    One(String),
    /// Several at once, such as `\w` or `[:alpha:]`.
    Set(String),
}

/// The expression with each character class such that it means here what it means in PCRE: there
/// `[`, `&&`, `--` and `~~` are characters and ranges inside of one, here they would begin a class
/// or take one away from another. What means more than bytes is marked, so that nothing else is
/// matched by characters.
fn with_plain_classes(expression: &str) -> String {
    let mut out = String::with_capacity(expression.len() + 8);
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        match first {
            '[' => rest = plain_class(rest, &mut out),
            '\\' if rest[1..].starts_with(['p', 'P']) => {
                let (ClassItem::One(named) | ClassItem::Set(named), behind) = class_item(rest);
                out.push_str(&format!("(?u:{named})"));
                rest = behind;
            }
            '\\' => {
                let len = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
                out.push_str(&rest[..len]);
                rest = &rest[len..];
            }
            _ => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}

/// Writes the class that `text` begins with; what is behind it.
fn plain_class<'a>(text: &'a str, out: &mut String) -> &'a str {
    let mut class = Class::default();
    let mut rest = &text[1..];
    if let Some(negated) = rest.strip_prefix('^') {
        class.is_negated = true;
        rest = negated;
    }
    let mut is_first = true;
    while !rest.is_empty() {
        if !is_first && let Some(behind) = rest.strip_prefix(']') {
            class.write(out);
            return behind;
        }
        is_first = false;
        let (item, behind) = class_item(rest);
        rest = behind;
        let upper = behind.strip_prefix('-').filter(|to| !to.starts_with(']'));
        match (item, upper.map(|to| (class_item(to), to))) {
            (ClassItem::One(from), Some(((ClassItem::One(to), behind), _))) => {
                class.add(&format!("{from}-{to}"));
                rest = behind;
            }
            (ClassItem::One(one), Some((_, to))) => {
                class.add(&format!("{one}\\-"));
                rest = to;
            }
            (ClassItem::One(one), None) => class.add(&one),
            (ClassItem::Set(set), Some((_, to))) => {
                class.add(&set);
                class.add("\\-");
                rest = to;
            }
            (ClassItem::Set(set), None) => class.add(&set),
        }
    }
    // It does not end: refused by whoever reads it.
    out.push_str(text);
    rest
}

/// What a character class has in it.
#[derive(Default)]
struct Class {
    is_negated: bool,
    bytes: String,
    /// What is more than a byte: letters beyond ASCII, and what `\p` names.
    characters: String,
}

impl Class {
    fn add(&mut self, item: &str) {
        match item.is_ascii() && !item.starts_with("\\p") && !item.starts_with("\\P") {
            true => self.bytes.push_str(item),
            false => self.characters.push_str(item),
        }
    }

    fn write(&self, out: &mut String) {
        let Self {
            bytes, characters, ..
        } = self;
        let class = match (self.is_negated, bytes.is_empty(), characters.is_empty()) {
            (false, _, true) => format!("[{bytes}]"),
            (true, _, true) => format!("[^{bytes}]"),
            (false, true, false) => format!("(?u:[{characters}])"),
            (false, false, false) => format!("(?:[{bytes}]|(?u:[{characters}]))"),
            (true, ..) => {
                let digits = bytes.replace("\\d", "0-9");
                let words = digits.replace("\\w", "0-9A-Za-z_");
                format!("(?u:[^{words}{characters}])")
            }
        };
        out.push_str(&class);
    }
}

/// What a class goes on with, and what is behind that.
fn class_item(rest: &str) -> (ClassItem, &str) {
    let at = |len: usize| rest.split_at_checked(len).unwrap_or((rest, ""));
    let is_posix = |name: &str| {
        name.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'^')
    };
    if let Some(name) = rest.strip_prefix("[:")
        && let Some(end) = name.find(":]").filter(|end| is_posix(&name[..*end]))
    {
        let (set, behind) = at(2 + end + 2);
        return (ClassItem::Set(set.to_owned()), behind);
    }
    let mut chars = rest.chars();
    let first = chars.next().unwrap_or_default();
    if first != '\\' {
        let one = match first {
            '[' | ']' | '&' | '~' | '-' | '^' => format!("\\{first}"),
            _ => first.to_string(),
        };
        return (ClassItem::One(one), at(first.len_utf8()).1);
    }
    let escaped = chars.next().unwrap_or_default();
    let braced = || rest[2..].starts_with('{').then(|| rest.find('}')).flatten();
    match escaped {
        'd' | 'D' | 'w' | 'W' | 's' | 'S' | 'h' | 'H' | 'v' | 'V' => {
            let (set, behind) = at(2);
            (ClassItem::Set(set.to_owned()), behind)
        }
        'p' | 'P' => {
            let (set, behind) = at(braced().map_or(3, |end| end + 1));
            (ClassItem::Set(set.to_owned()), behind)
        }
        'x' => {
            let digits = rest[2..].bytes().take(2).take_while(u8::is_ascii_hexdigit);
            let len = braced().map_or(2 + digits.count(), |end| end + 1);
            let (one, behind) = at(len);
            (ClassItem::One(one.to_owned()), behind)
        }
        _ => {
            let (one, behind) = at(1 + escaped.len_utf8());
            (ClassItem::One(one.to_owned()), behind)
        }
    }
}

/// Splits `^(?!a)(?!b)rest` into its exceptions and the rest. Nothing if the pattern does not begin
/// like that, or if an alternative at the top level of the rest would change what the `^` covers.
fn split_lookaheads(pattern: &str) -> Option<(Vec<&str>, &str)> {
    let mut rest = pattern.strip_prefix('^')?;
    let mut exceptions = Vec::new();
    while let Some(body) = rest.strip_prefix("(?!") {
        let end = scan(body, |depth, byte| depth == 0 && byte == b')')?;
        exceptions.push(&body[..end]);
        rest = &body[end + 1..];
    }
    let alternative = scan(rest, |depth, byte| depth == 0 && byte == b'|');
    (!exceptions.is_empty() && alternative.is_none()).then_some((exceptions, rest))
}

/// The first place, outside of escapes and character classes, where `wanted` holds for the depth of
/// parentheses and the byte.
fn scan(text: &str, wanted: impl Fn(usize, u8) -> bool) -> Option<usize> {
    let (mut depth, mut in_class, mut escaped) = (0_usize, false, false);
    for (index, byte) in text.bytes().enumerate() {
        if escaped {
            escaped = false;
            continue;
        }
        if !in_class && wanted(depth, byte) {
            return Some(index);
        }
        match byte {
            b'\\' => escaped = true,
            b'[' => in_class = true,
            b']' => in_class = false,
            b'(' if !in_class => depth += 1,
            b')' if !in_class => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        let compiled = Pattern::new(pattern).expect("a pattern");
        for name in matching {
            assert!(compiled.matches(name), "{pattern} should match {name:?}");
        }
        for name in others {
            assert!(
                !compiled.matches(name),
                "{pattern} should not match {name:?}"
            );
        }
    }

    #[test]
    fn patterns_are_searched_for() {
        check("", &[""], &["a"]);
        check(".*", &["", "a", "amq.direct"], &[]);
        check("a", &["a", "bab"], &["b", ""]);
        check("^amq\\.", &["amq.gen-1"], &["amqp", "x.amq."]);
        check("^(a|b)$", &["a", "b"], &["ab"]);
        check("^$", &[""], &["a"]);
    }

    #[test]
    fn patterns_match_bytes() {
        check(r"^\d+$", &["7"], &["\u{663}"]);
        check(r"^\w+$", &["a_1"], &["é", "\u{663}"]);
        check("(?i)^key$", &["key", "KEY"], &["\u{212A}ey"]);
        check("^.$", &["a"], &["é"]);
        check("^..$", &["ab", "é"], &["a"]);
        check("^é", &["é", "éa"], &["e", "è"]);
        check(r"^(?!\d).+$", &["a", "\u{663}"], &["7"]);
        // What cannot be said in bytes is matched by characters.
        check("^[é]$", &["é"], &["e", "è"]);
        check(r"^\p{Lu}$", &["É"], &["é"]);
        // It lets nothing else be more than bytes.
        let others = ["\u{663}", "\u{212A}", "\u{663}é", "\u{17F}"];
        check(r"(?i)^(\d+|k)[é]?$", &["7", "K", "ké", "7É"], &others);
        check(r"(?i)^[\dkéß]$", &["7", "K", "É", "ß"], &others);
        check(r"^[^\dé]$", &["x", "è", "\u{663}"], &["7", "é"]);
        check(r"^[^\wé]$", &["-", "è"], &["7", "é", "x", "_"]);
        check(r"^\d\p{Lu}\d$", &["7É7"], &["\u{663}É7", "7é7"]);
        check(r"^[\d\p{Lu}]$", &["7", "É"], &["\u{663}", "é"]);
        check(r"^\pL\d$", &["é7"], &["é\u{663}"]);
        assert!(
            Pattern::new("^.$")
                .expect("a pattern")
                .matches_bytes(b"\xFF")
        );
    }

    #[test]
    fn all_but_these() {
        check("^(?!amq\\.).*", &["", "orders", "a.amq."], &["amq.gen-1"]);
        check(
            "^(?!amq\\.)(?!tmp)[a-z]+$",
            &["orders"],
            &["amq.x", "tmp1", "tmp", "Z"],
        );
        check("^(?!(a|b)\\)).+", &["a", "c)"], &["a)x", "b)"]);
        check("^(?![)a]).*", &["b"], &[")", "a"]);
        check("^(?!a|b)", &["", "c"], &["a", "bc"]);
        // Parentheses and bars in a class, or escaped, are characters.
        check("^(?![(]x).*", &["x", "(y"], &["(x"]);
        check("^(?!([)]))b?$", &["b", ""], &[")"]);
        check(r"^(?!\(x).*", &["x", "(y"], &["(x"]);
        check("^(?!x)[a|b]$", &["a", "|", "b"], &["x", "c"]);
        check(r"^(?!x)a\|b$", &["a|b"], &["a", "b"]);
        // What follows the exceptions begins where they do, and may have alternatives in a group.
        check("^(?!x)a", &["a", "ab"], &["ba", "xa"]);
        check("^(?!tmp)(a|tm[a-z])$", &["a", "tmx"], &["tmp", "b", "ba"]);
    }

    /// As PCRE reads them, whose users wrote them.
    #[test]
    fn classes_have_no_operations_on_sets() {
        check("^[^a-z--x]$", &["{", "+"], &["x", "-", "a", "."]);
        check("^[^&&]$", &["a"], &["&"]);
        check("^[a-z--x]+$", &["x-", "A"], &["{"]);
        check("^[a-c~~]$", &["~", "b"], &["d"]);
        check(r"^[\w-.]+$", &["a-b.c"], &["a b"]);
        check("^[[:alpha:]-_]$", &["a", "-", "_"], &["1", "."]);
        // A range that does not end with one character is none.
        check(r"^[a-\d]$", &["a", "-", "7"], &["b", "d"]);
        check("^[a-[:digit:]]$", &["a", "-", "7"], &["b", ":"]);
        check("^[[:^digit:]]$", &["a", "^"], &["7"]);
        check("^[^[]b$", &["ab"], &["[b"]);
        check("^[[a]b$", &["[b", "ab"], &["cb"]);
        check("^[]a]$", &["]", "a"], &["b"]);
        check("^[^]a]$", &["b"], &["]", "a"]);
        check("^[]&&a]$", &["]", "&", "a"], &["b"]);
        check("^[-a]$", &["-", "a"], &["b"]);
        check("^[a-]$", &["-", "a"], &["b"]);
        check(r"^[\x41-\x43\]]$", &["A", "C", "]"], &["D"]);
        check(r"^[a\-z]$", &["a", "-", "z"], &["b"]);
        check(r"^\[[x]\]$", &["[x]"], &["x"]);
        check(r"^[\x{41}-\x{43}]$", &["A", "B", "C"], &["D", "4", "{"]);
        check(r"^[\x41x]$", &["A", "x"], &["4", "1"]);
        check(r"^[\p{Lu}_]$", &["É", "_"], &["é", "p"]);
        check(r"^[\pL_]$", &["é", "p", "_"], &["1", "."]);
        for (set, one, other) in [
            (r"\s", " ", "a"),
            (r"\S", "a", " "),
            (r"\D", "a", "7"),
            (r"\W", "+", "a"),
        ] {
            check(&format!("^[{set}-.]$"), &[one, "-", "."], &[other]);
        }
        for unended in ["[", "[^", "[a-", "[\\", "[[:alpha:"] {
            assert!(Pattern::new(unended).is_err(), "{unended}");
        }
    }

    #[test]
    fn what_is_not_linear_is_refused() {
        for pattern in [
            "(?=a)b",
            "x(?!a)b",
            "(a)\\1",
            "^(?!a)b|c",
            "(",
            "^(?!a",
            "a{1000}{1000}",
        ] {
            let error = Pattern::new(pattern).expect_err(pattern);
            assert!(error.to_string().contains(pattern), "{error}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }

    #[test]
    fn patterns_are_equal_by_their_text() {
        let of = |text| Pattern::new(text).expect("it compiles");
        assert_eq!(of("^a"), of("^a"));
        assert_ne!(of("^a"), of("^b"));
        // That both match the same does not make them the same.
        assert_ne!(of(".*"), of("^.*"));
    }

    #[test]
    fn what_a_pattern_compiles_to_is_bounded() {
        check("^a{1000}$", &[&"a".repeat(1_000)], &["a"]);
        for pattern in ["a{1000}{90}", "^(?!a{1000}{90})b", "^(?!b)a{1000}{90}"] {
            let error = Pattern::new(pattern).expect_err(pattern);
            assert!(error.to_string().contains("size limit"), "{error}");
        }
    }

    /// What a user repeats so often that each byte of a name has thousands of states to go through,
    /// or mixes such that the automaton has more states than a name has bytes, in whichever
    /// direction it reads. As a policy or a filter over a hundred names it took seconds.
    #[test]
    fn a_pattern_of_a_request_costs_one_step_a_byte() {
        for costly in [
            "(?:[ab]?){6000}[^ab0-9]",
            "(?:[ab]?){300}[^ab0-9]",
            "[ab]*a[ab]{150}[^ab0-9]",
            "x[ab]{20}a[ab]*z",
            "(?:a[ab]{50}|b[ab]{37}|a[ab]{23}|ab[ab]{11}){1,60}[^ab0-9]",
            "(?:a.{3}|b.{5}|a.{7}|b.{11}|a.{13}){1,150}(?:x|y.z)",
            "^(?!(?:[ab]?){6000}c)a",
            r"\p{L}{1,20}",
        ] {
            let refused = PatternError::TooCostly(costly.to_owned());
            assert_eq!(
                Pattern::of_request(costly),
                Err(refused.clone()),
                "{costly}"
            );
            assert_eq!(Pattern::of_filter(costly), Err(refused), "{costly}");
            // A store has it from an earlier version.
            assert!(Pattern::new(costly).is_ok(), "{costly}");
            let stored = Pattern::of_policy(costly).expect("it is kept");
            assert!(stored.is_too_costly(), "{costly}");
            assert_eq!(stored.as_str(), costly);
            assert!(!stored.matches(&"ab".repeat(100)), "{costly}");
        }
        for usual in [
            "",
            ".*",
            "^amq\\.",
            "^(?!amq\\.).*",
            ".*-dlq$",
            "foo.*bar.*baz",
            "^(dev|test|prod)\\.orders\\.[a-z]{2,10}\\.v[0-9]+(\\.dlq|\\.retry)?$",
            "^[a-zA-Z0-9_.-]{1,255}$",
            "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            "^.{0,64}-dlq$",
            r"^\w+\.\d+$",
            r"\bfoo\b",
            r"^\p{Lu}+$",
            "^[é]$",
        ] {
            assert!(Pattern::of_request(usual).is_ok(), "{usual}");
            assert!(Pattern::of_filter(usual).is_ok(), "{usual}");
            let stored = Pattern::of_policy(usual).expect(usual);
            assert!(!stored.is_too_costly(), "{usual}");
        }
        // What is wrong with an expression comes before what it costs.
        let wrong = Pattern::of_request("(").map_err(|error| error.to_string());
        assert_eq!(wrong, Pattern::new("(").map_err(|error| error.to_string()));
        // So does what it compiles to.
        let large = "a{1000}{1000}";
        assert_eq!(Pattern::of_policy(large), Pattern::new(large));
        assert!(Pattern::of_policy("^q").expect("one").matches("queue"));
    }

    #[test]
    fn a_filter_of_a_list_knows_no_case_and_nothing_lets_all_through() {
        let takes = |filter: &str, name| Pattern::of_filter(filter).expect("one").matches(name);
        assert!(takes("", "a"));
        assert!(takes("^ORDERS", "orders-é"));
        assert!(takes("^(?!AMQ)", "orders"));
        assert!(!takes("^(?!AMQ)", "amq.gen"));
        assert!(!takes("^q$", "qq"));
    }

    #[test]
    fn length_is_bounded() {
        assert!(Pattern::new(&"a".repeat(REGEX_BYTES_MAX)).is_ok());
        let error = Pattern::new(&"a".repeat(REGEX_BYTES_MAX + 1));
        assert_eq!(error, Err(PatternError::TooLong(REGEX_BYTES_MAX + 1)));
    }
}
