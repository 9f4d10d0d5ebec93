//! Objects of JSON that are written field by field: rows of long lists cost the text that they are,
//! not values as well, which are many small pieces of memory.

use crate::http::chunked_body::write_json;
use crate::list_query;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt;

/// An object whose text is being written. Its fields' names are ours, and need no escapes.
pub(crate) struct Object<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl<'o> Object<'o> {
    /// Begins to write one behind what is there.
    pub(crate) fn open(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        let is_empty = true;
        Self { out, is_empty }
    }

    pub(crate) fn close(self) {
        self.out.push(b'}');
    }

    /// Writes a field that has not been written before.
    pub(crate) fn field(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        self.name(&[name]);
        write_json(self.out, value);
    }

    /// The same, with what is said of a figure beside it: its `…_details`.
    pub(crate) fn figure(&mut self, name: &str, count: u64, details: &impl Serialize) {
        self.field(name, &count);
        self.name(&[name, "_details"]);
        write_json(self.out, details);
    }

    /// A field whose value's text is there.
    pub(crate) fn raw(&mut self, name: &str, value: &RawValue) {
        self.name(&[name]);
        self.out.extend_from_slice(value.get().as_bytes());
    }

    /// A field whose text is there, with its name: `"name":value`.
    pub(crate) fn whole(&mut self, field: &[u8]) {
        self.comma();
        self.out.extend_from_slice(field);
    }

    /// A field that is an object.
    pub(crate) fn object(&mut self, name: &str) -> Object<'_> {
        self.name(&[name]);
        Object::open(self.out)
    }

    fn comma(&mut self) {
        if !std::mem::take(&mut self.is_empty) {
            self.out.push(b',');
        }
    }

    fn name(&mut self, parts: &[&str]) {
        self.comma();
        self.out.push(b'"');
        for part in parts {
            self.out.extend_from_slice(part.as_bytes());
        }
        self.out.extend_from_slice(b"\":");
    }
}

/// The fields of an object in its text, in their order.
#[derive(Debug, Default)]
pub(crate) struct Fields<'t>(Vec<(&'t str, &'t RawValue)>);

impl<'t> Fields<'t> {
    /// Those of this object; nothing where it is none, or a name in it has escapes.
    pub(crate) fn of(text: &'t [u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }

    /// The text of the field of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&'t RawValue> {
        let mut fields = self.iter();
        fields.find_map(|(known, value)| (known == name).then_some(value))
    }

    /// What stands at a dotted path; null where there is nothing.
    pub(crate) fn at(&self, path: &str) -> Value {
        let (name, within) = path.split_once('.').unwrap_or((path, ""));
        let text = self.get(name).map_or("null", RawValue::get);
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        match within {
            "" => value,
            within => list_query::at(&value, within).clone(),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'t str, &'t RawValue)> {
        self.0.iter().copied()
    }
}

impl<'de: 't, 't> Deserialize<'de> for Fields<'t> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Fields(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_written_is_an_object_of_these_fields() {
        let mut out = b"[".to_vec();
        Object::open(&mut out).close();
        out.push(b',');
        let mut object = Object::open(&mut out);
        object.field("text", "a \"b\"\n");
        object.figure("publish", 3, &json!({"rate": 0.5}));
        object.whole(b"\"whole\":[1]");
        let mut inner = object.object("inner");
        inner.field("none", &None::<u64>);
        inner.close();
        object.close();
        out.push(b']');
        let written: Value = serde_json::from_slice(&out).expect("JSON");
        let expected = json!([{}, {
            "text": "a \"b\"\n",
            "publish": 3,
            "publish_details": {"rate": 0.5},
            "whole": [1],
            "inner": {"none": null},
        }]);
        assert_eq!(written, expected);
    }

    #[test]
    fn fields_are_found_in_text() {
        let text = br#" {"a": {"b": [1, "}"]}, "c": null} "#;
        let fields = Fields::of(text).expect("an object");
        let names: Vec<&str> = fields.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "c"]);
        let inner = fields.get("a").expect("a field").get();
        assert_eq!(inner, r#"{"b": [1, "}"]}"#);
        assert!(fields.get("b").is_none());
        assert_eq!(fields.at("a"), json!({"b": [1, "}"]}));
        assert_eq!(fields.at("a.b"), json!([1, "}"]));
        assert_eq!(fields.at("b.a"), Value::Null);
        let mut out = Vec::new();
        let mut object = Object::open(&mut out);
        for (name, value) in fields.iter() {
            object.raw(name, value);
        }
        object.close();
        assert_eq!(out, br#"{"a":{"b": [1, "}"]},"c":null}"#);
        for none in [&b"[1]"[..], b"{\"a\\u0020\": 1}", b"{", b""] {
            assert!(Fields::of(none).is_none(), "{none:?}");
        }
    }
}
