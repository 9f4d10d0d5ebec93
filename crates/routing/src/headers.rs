//! The headers exchange's comparison of a binding's arguments with a message's headers.

use crate::BindError;
use crate::arguments::firsts_of_names;
use crate::work;
use leveret_types::{FieldTable, FieldValue};
use smallvec::SmallVec;

/// `x-match`: how many of the arguments must match, and whether those whose names begin with `x-`
/// count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchMode {
    /// All of them, leaving out names with `x-`. The mode where `x-match` is absent.
    All,
    /// At least one, leaving out names with `x-`.
    Any,
    /// All of them but `x-match` itself.
    AllWithX,
    /// At least one of them, `x-match` itself left out.
    AnyWithX,
}

/// What a binding to a headers exchange asks of a message.
#[derive(Clone, Debug)]
pub struct HeadersMatcher {
    mode: MatchMode,
    /// What a comparison costs at most.
    work: usize,
    /// The binding's, shared with it.
    arguments: FieldTable,
    /// Which of them count, by their places.
    wanted: SmallVec<[u32; 4]>,
}

impl HeadersMatcher {
    /// Reads a binding's arguments.
    ///
    /// # Errors
    /// If `x-match` is no long string or names no mode.
    pub fn parse(arguments: &FieldTable) -> Result<Self, BindError> {
        let mode = match arguments.get("x-match") {
            None => MatchMode::All,
            Some(FieldValue::LongString(text)) => match text.as_slice() {
                b"all" => MatchMode::All,
                b"any" => MatchMode::Any,
                b"all-with-x" => MatchMode::AllWithX,
                b"any-with-x" => MatchMode::AnyWithX,
                other => {
                    return Err(BindError::MatchValue(
                        String::from_utf8_lossy(other).into_owned(),
                    ));
                }
            },
            Some(other) => {
                return Err(BindError::MatchType {
                    type_name: other.type_name(),
                    value: other.to_string(),
                });
            }
        };
        let with_x = matches!(mode, MatchMode::AllWithX | MatchMode::AnyWithX);
        let counts = |name: &str| name != "x-match" && (with_x || !name.starts_with("x-"));
        let places = (0..).zip(arguments.iter());
        let places = places.filter(|(_, (name, _))| counts(name));
        let mut matcher = Self {
            mode,
            work: 0,
            arguments: arguments.clone(),
            wanted: places.map(|(place, _)| place).collect(),
        };
        matcher.work = matcher.wanted().map(|(_, value)| work_of(value)).sum();
        Ok(matcher)
    }

    /// What a comparison costs at most, in units.
    pub(crate) const fn work(&self) -> usize {
        1 + self.work
    }

    /// Whether every header that the binding wants must match, and not just one of them.
    pub(crate) const fn wants_all(&self) -> bool {
        matches!(self.mode, MatchMode::All | MatchMode::AllWithX)
    }

    /// The headers that count, with the values that they are to have.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = (&str, &FieldValue)> {
        let places = self.wanted.iter();
        places.filter_map(|place| self.arguments.entry(*place as usize))
    }

    /// Whether a message with these headers is meant. A binding without arguments to compare
    /// matches everything in the `all` modes and nothing in the `any` modes.
    #[must_use]
    pub fn matches(&self, headers: Option<&FieldTable>) -> bool {
        self.matches_those(&Headers::new(headers))
    }

    /// The same of headers that many bindings are compared with.
    pub(crate) fn matches_those(&self, headers: &Headers<'_>) -> bool {
        let mut wanted = self.wanted();
        let found = |(name, value): (&str, &FieldValue)| {
            let header = headers.get(name);
            header.is_some_and(|header| value_matches(value, header))
        };
        if self.wants_all() {
            wanted.all(found)
        } else {
            wanted.any(found)
        }
    }
}

/// A message's headers, the first of each name, so that each is found without a look at the others.
#[derive(Debug)]
pub(crate) struct Headers<'a>(SmallVec<[(&'a str, &'a FieldValue); 16]>);

impl<'a> Headers<'a> {
    pub(crate) fn new(headers: Option<&'a FieldTable>) -> Self {
        let all = headers.into_iter().flat_map(FieldTable::iter).collect();
        Self(firsts_of_names(all))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a FieldValue> {
        let found = self.0.binary_search_by(|(other, _)| (*other).cmp(name));
        found.ok().map(|at| self.0[at].1)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'a str, &'a FieldValue)> {
        self.0.iter().copied()
    }

    /// What it costs to look them all up, in units.
    pub(crate) fn work(&self) -> usize {
        self.iter().map(|(_, value)| work_of(value)).sum()
    }
}

/// What it costs to look a header up, or to compare it, in units.
pub(crate) fn work_of(value: &FieldValue) -> usize {
    let below = match value {
        FieldValue::LongString(bytes) | FieldValue::Bytes(bytes) => work::of_bytes(bytes.len()),
        FieldValue::Array(items) => items.iter().map(work_of).sum(),
        FieldValue::Table(table) => table.iter().map(|(_, value)| work_of(value)).sum(),
        _ => 0,
    };
    work::HEADER + below
}

/// Whether a header has the value that a binding wants. A wanted value of type void asks for
/// presence alone. Numbers are compared by value whatever their width, strings by their bytes; all
/// else must be of the same type.
fn value_matches(wanted: &FieldValue, header: &FieldValue) -> bool {
    if matches!(wanted, FieldValue::Void) {
        return true;
    }
    if let (Some(wanted), Some(header)) = (integer(wanted), integer(header)) {
        return wanted == header;
    }
    if let (Some(wanted), Some(header)) = (float(wanted), float(header)) {
        return wanted == header;
    }
    match (wanted, header) {
        (
            FieldValue::LongString(wanted) | FieldValue::Bytes(wanted),
            FieldValue::LongString(header) | FieldValue::Bytes(header),
        ) => wanted == header,
        _ => wanted == header,
    }
}

fn integer(value: &FieldValue) -> Option<i128> {
    match value {
        FieldValue::Timestamp(seconds) => Some(i128::from(*seconds)),
        _ => value.as_integer().map(i128::from),
    }
}

/// A number's value as a 64-bit float: two numbers that match have the same one.
pub(crate) fn float(value: &FieldValue) -> Option<f64> {
    match value {
        FieldValue::F32(v) => Some(f64::from(*v)),
        FieldValue::F64(v) => Some(*v),
        _ => integer(value).map(|v| v as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_types::FieldValue as V;
    use std::cell::Cell;
    use std::cmp::Ordering;
    use std::slice::from_ref;

    fn table(entries: &[(&str, V)]) -> FieldTable {
        entries
            .iter()
            .map(|(k, v)| ((*k).to_owned(), v.clone()))
            .collect()
    }

    fn check(arguments: &[(&str, V)], headers: &[(&str, V)], expected: bool) {
        let matcher = HeadersMatcher::parse(&table(arguments)).expect("valid arguments");
        assert_eq!(
            matcher.matches(Some(&table(headers))),
            expected,
            "{arguments:?} against {headers:?}"
        );
    }

    #[test]
    fn the_four_modes() {
        let mode = |name: &str| ("x-match", V::text(name));
        let a = ("a", V::I32(1));
        let b = ("b", V::text("two"));
        let x = ("x-c", V::Bool(true));
        check(&[], &[], true);
        check(&[mode("any")], from_ref(&a), false);
        check(&[mode("all")], from_ref(&a), true);
        check(&[a.clone(), b.clone()], &[a.clone(), b.clone()], true);
        check(&[a.clone(), b.clone()], from_ref(&a), false);
        check(&[mode("any"), a.clone(), b.clone()], from_ref(&b), true);
        check(&[mode("any"), a.clone(), b.clone()], from_ref(&x), false);
        check(&[mode("all"), a.clone(), x.clone()], from_ref(&a), true);
        check(&[mode("any"), x.clone()], from_ref(&x), false);
        check(
            &[mode("all-with-x"), a.clone(), x.clone()],
            from_ref(&a),
            false,
        );
        check(
            &[mode("all-with-x"), a.clone(), x.clone()],
            &[a.clone(), x.clone()],
            true,
        );
        check(
            &[mode("any-with-x"), a.clone(), x.clone()],
            from_ref(&x),
            true,
        );
        check(&[mode("any-with-x")], from_ref(&x), false);
    }

    #[test]
    fn values_are_compared_by_class() {
        let same: [(V, V); 8] = [
            (V::I8(10), V::I64(10)),
            (V::U32(10), V::I16(10)),
            (V::I32(10), V::F64(10.0)),
            (V::F32(0.5), V::F64(0.5)),
            (V::Timestamp(7), V::I64(7)),
            (V::text("s"), V::Bytes(b"s".to_vec())),
            (V::Void, V::text("anything")),
            (V::Void, V::Void),
        ];
        for (wanted, header) in same {
            check(&[("h", wanted)], &[("h", header)], true);
        }
        let different: [(V, V); 7] = [
            (V::I8(10), V::I64(11)),
            (V::text("10"), V::I64(10)),
            (V::I32(1), V::Bool(true)),
            (V::text("s"), V::text("S")),
            (V::text(""), V::Void),
            (V::F64(f64::NAN), V::F64(f64::NAN)),
            (V::I64(i64::MAX), V::I64(i64::MAX - 1)),
        ];
        for (wanted, header) in different {
            check(&[("h", wanted)], &[("h", header)], false);
        }
    }

    #[test]
    fn a_wrong_mode_is_refused() {
        let error = HeadersMatcher::parse(&table(&[("x-match", V::text("most"))])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Invalid x-match field value <<\"most\">>; expected all, any, all-with-x, or any-with-x"
        );
        let error = HeadersMatcher::parse(&table(&[("x-match", V::I32(1))])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Invalid x-match field type signedint (value 1); expected longstr"
        );
    }

    /// A name that counts how often it is compared with another one.
    #[derive(Debug)]
    struct Counted<'a>(u32, &'a Cell<u64>);

    impl PartialEq for Counted<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.cmp(other).is_eq()
        }
    }
    impl Eq for Counted<'_> {}
    impl PartialOrd for Counted<'_> {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }
    impl Ord for Counted<'_> {
        fn cmp(&self, other: &Self) -> Ordering {
            self.1.set(self.1.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    #[test]
    fn many_entries_are_brought_into_order_without_comparing_each_with_each() {
        let compared = Cell::new(0);
        let number = |n: u32| n.wrapping_mul(0x9E37_79B1) >> 21;
        let entries = (0..4096).map(|n| (Counted(number(n), &compared), n));
        let firsts = firsts_of_names(entries.collect());
        assert!(compared.get() < 20 * 4096, "{}", compared.get());
        assert!(firsts.is_sorted_by(|a, b| a.0.0 < b.0.0));
        for (name, n) in firsts {
            assert!((0..n).all(|before| number(before) != name.0));
        }
    }

    #[test]
    fn of_headers_of_one_name_the_first_counts() {
        let headers = table(&[("b", V::I32(1)), ("a", V::I32(2)), ("b", V::I32(3))]);
        let headers = Headers::new(Some(&headers));
        assert_eq!(headers.get("b"), Some(&V::I32(1)));
        assert_eq!(headers.get("c"), None);
        assert_eq!(headers.iter().count(), 2);
        assert_eq!(Headers::new(None).iter().count(), 0);
    }
}
