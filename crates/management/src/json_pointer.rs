//! A place in a JSON text, looked up without making a tree of the text: what is beside the place is
//! passed over, and costs no memory.

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// The value that a pointer refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReferencedValue {
    /// A text, number, flag or null, as somebody writes it: texts without quotation marks.
    Plain(String),
    /// A list or an object.
    Several,
}

/// A JSON pointer (RFC 6901).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pointer(Vec<String>);

impl Pointer {
    /// None where the text is no pointer to something within a list or an object.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let steps = text.strip_prefix('/')?.split('/');
        let steps = steps.map(|step| step.replace("~1", "/").replace("~0", "~"));
        Some(Self(steps.collect()))
    }

    /// What stands there; none where nothing does, or the text is no JSON.
    pub(crate) fn look_up(&self, json: &[u8]) -> Option<ReferencedValue> {
        let mut text = serde_json::Deserializer::from_slice(json);
        let found = Steps(&self.0).deserialize(&mut text).ok()?;
        text.end().ok()?;
        found
    }
}

/// The way that is left to go.
struct Steps<'a>(&'a [String]);

impl<'de> DeserializeSeed<'de> for Steps<'_> {
    type Value = Option<ReferencedValue>;

    fn deserialize<D: Deserializer<'de>>(self, text: D) -> Result<Self::Value, D::Error> {
        text.deserialize_any(self)
    }
}

impl Steps<'_> {
    /// A value that has no parts: it is the place, or the way leads nowhere.
    fn plain<E>(&self, value: impl fmt::Display) -> Result<Option<ReferencedValue>, E> {
        Ok(self
            .0
            .is_empty()
            .then(|| ReferencedValue::Plain(value.to_string())))
    }
}

impl<'de> Visitor<'de> for Steps<'_> {
    type Value = Option<ReferencedValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        self.plain("null")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        self.plain(value)
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        self.plain(value)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        self.plain(value)
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        self.plain(serde_json::Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        self.plain(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let Some((step, rest)) = self.0.split_first() else {
            while items.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(Some(ReferencedValue::Several));
        };
        // A number as it is written: no sign, and no zeros before it.
        let number = step.parse::<usize>().ok();
        let number = number.filter(|number| number.to_string() == *step);
        let mut found = None;
        for at in 0_usize.. {
            let is_there = if number == Some(at) {
                let item = items.next_element_seed(Steps(rest))?;
                item.map(|item| found = item).is_some()
            } else {
                items.next_element::<IgnoredAny>()?.is_some()
            };
            if !is_there {
                break;
            }
        }
        Ok(found)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let way = self.0.split_first();
        let mut found = way.is_none().then_some(ReferencedValue::Several);
        while let Some(name) = fields.next_key::<String>()? {
            match way {
                // Of two of a name the last one counts.
                Some((step, rest)) if name == *step => {
                    found = fields.next_value_seed(Steps(rest))?;
                }
                _ => {
                    fields.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(pointer: &str, json: &str) -> Option<ReferencedValue> {
        Pointer::of(pointer)
            .expect("a pointer")
            .look_up(json.as_bytes())
    }

    /// What a tree of the text says, which is held in memory for that.
    fn in_tree(pointer: &str, json: &str) -> Option<ReferencedValue> {
        let tree: serde_json::Value = serde_json::from_str(json).ok()?;
        let found = tree.pointer(pointer)?;
        Some(match found {
            serde_json::Value::String(text) => ReferencedValue::Plain(text.clone()),
            found if found.is_object() || found.is_array() => ReferencedValue::Several,
            found => ReferencedValue::Plain(found.to_string()),
        })
    }

    #[test]
    fn a_place_is_found_as_in_a_tree_of_the_text() {
        let texts = [
            r#"{"a": {"b": [1, {"c": "x"}, -2.50, 1e3, null, true]}, "a/b": 1, "~": 2, "": 3}"#,
            r#"[{"a": 1}, [2, 3], "x", 18446744073709551615, -9]"#,
            r#"{"a": 1, "a": {"b": 2}, "\u0061b": "\u00e9\n"}"#,
            r#"{"a": {"b": 1}, "a": 2}"#,
            r#""text""#,
            r#"{"a": 1} x"#,
            r#"{"a": 1"#,
            "no JSON",
            "",
        ];
        let pointers = [
            "/a", "/a/b", "/a/b/0", "/a/b/1/c", "/a/b/2", "/a/b/3", "/a/b/4", "/a/b/5", "/a/b/6",
            "/a/b/01", "/a/b/-", "/a~1b", "/~0", "/", "//", "/0", "/0/a", "/1", "/1/1", "/2",
            "/2/0", "/3", "/4", "/+0", "/ab",
        ];
        let mut found = 0;
        for text in texts {
            for pointer in pointers {
                let is = at(pointer, text);
                assert_eq!(is, in_tree(pointer, text), "{pointer} in {text}");
                found += usize::from(is.is_some());
            }
        }
        assert!(found > 20, "{found}");
        assert_eq!(Pointer::of("a"), None);
        assert_eq!(Pointer::of(""), None);
    }

    #[test]
    fn what_is_nested_deeper_than_anybody_means_is_found_or_not_but_does_no_harm() {
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(at("/0", &deep(100_000)), Some(ReferencedValue::Several));
        let pointer = "/0".repeat(100_000);
        assert_eq!(at(&pointer, &deep(100_001)), None, "that deep nobody looks");
    }
}
