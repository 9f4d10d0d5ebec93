//! What clients send: JSON bodies, query strings, percent-encoded paths. Bounded and judged before
//! it is used.

use crate::http::reply::ApiError;
use crate::openapi::bodies;
use crate::query_parameters::is_known;
use leveret_types::limits::{DEFINITIONS_DEPTH_MAX, HTTP_FILTER_MAX, JSON_DEPTH_MAX};
use leveret_types::{FieldTable, FieldValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};
use serde_json::{Map, Number, Value};
use std::borrow::Cow;

/// A JSON object; an empty body stands for an empty one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body {
    fields: Map<String, Value>,
    /// The method and the pattern of the resource that reads it.
    of: Option<(&'static str, &'static str)>,
}

impl Body {
    /// Parses a body.
    pub fn parse(bytes: &[u8]) -> Result<Self, ApiError> {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self::default());
        }
        match parse_json(bytes)? {
            Value::Object(fields) => Ok(Self { fields, of: None }),
            _ => Err(bad("the body must be a JSON object")),
        }
    }

    /// The same as a method of a resource reads it.
    pub(crate) fn read_by(self, of: (&'static str, &'static str)) -> Self {
        Self {
            of: Some(of),
            ..self
        }
    }

    /// The field of this name, where it is there and not null.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        debug_assert!(
            self.of.is_none_or(|of| bodies::is_known(of, name)),
            "the table of bodies has no {name:?} of {:?}",
            self.of
        );
        self.fields.get(name).filter(|value| !value.is_null())
    }

    /// A field that must be there.
    pub fn required(&self, name: &str) -> Result<&Value, ApiError> {
        self.get(name)
            .ok_or_else(|| bad(format!("the field \"{name}\" is missing")))
    }

    /// A string that must be there.
    pub fn text(&self, name: &str) -> Result<&str, ApiError> {
        let value = self.required(name)?;
        value
            .as_str()
            .ok_or_else(|| bad(format!("the field \"{name}\" must be a string")))
    }

    /// A string, or `default`.
    pub fn text_or<'a>(&'a self, name: &str, default: &'a str) -> Result<&'a str, ApiError> {
        match self.get(name) {
            Some(_) => self.text(name),
            None => Ok(default),
        }
    }

    /// A truth value (a string of one is taken too, as RabbitMQ does), or `default`.
    pub fn flag_or(&self, name: &str, default: bool) -> Result<bool, ApiError> {
        match self.get(name) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::String(text)) if text == "true" => Ok(true),
            Some(Value::String(text)) if text == "false" => Ok(false),
            Some(_) => Err(bad(format!("the field \"{name}\" must be true or false"))),
        }
    }

    /// A whole number (a string of one is taken too), or `default`.
    pub fn integer_or(&self, name: &str, default: i64) -> Result<i64, ApiError> {
        let wrong = || bad(format!("the field \"{name}\" must be a whole number"));
        match self.get(name) {
            None => Ok(default),
            Some(Value::String(text)) => text.parse().map_err(|_| wrong()),
            Some(value) => value.as_i64().ok_or_else(wrong),
        }
    }

    /// An object as a field table; an absent one, and an empty list (as PHP's and Erlang's clients
    /// write it), are empty.
    pub fn table(&self, name: &str) -> Result<FieldTable, ApiError> {
        match self.get(name) {
            None => Ok(FieldTable::new()),
            Some(Value::Array(items)) if items.is_empty() => Ok(FieldTable::new()),
            Some(Value::Object(fields)) => table_of(fields),
            Some(_) => Err(bad(format!("the field \"{name}\" must be an object"))),
        }
    }
}

/// Parses JSON whose depth is bounded before the parser sees it.
pub fn parse_json(bytes: &[u8]) -> Result<Value, ApiError> {
    parse_json_within(JSON_DEPTH_MAX, bytes)
}

/// Parses definitions, which nest deeper: a client's tables are in them.
pub fn parse_definitions(bytes: &[u8]) -> Result<Value, ApiError> {
    parse_json_within(DEFINITIONS_DEPTH_MAX, bytes)
}

fn parse_json_within(most: usize, bytes: &[u8]) -> Result<Value, ApiError> {
    if depth_of(bytes) > most {
        return Err(bad(format!("JSON is nested deeper than {most} levels")));
    }
    serde_json::from_slice(bytes).map_err(|error| bad(format!("this is not valid JSON: {error}")))
}

/// How deep arrays and objects nest.
fn depth_of(bytes: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_text, mut escaped) = (false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

fn bad(text: impl Into<String>) -> ApiError {
    ApiError::BadRequest(text.into())
}

/// JSON fields as a field table.
pub fn table_of(fields: &Map<String, Value>) -> Result<FieldTable, ApiError> {
    let pair = |(name, value): (&String, &Value)| {
        if name.len() > leveret_types::limits::SHORT_STRING_BYTES_MAX {
            return Err(bad(format!("the name \"{name}\" is longer than 255 bytes")));
        }
        Ok((name.clone(), field_of(value)?))
    };
    fields.iter().map(pair).collect()
}

fn field_of(value: &Value) -> Result<FieldValue, ApiError> {
    Ok(match value {
        Value::Null => FieldValue::Void,
        Value::Bool(flag) => FieldValue::Bool(*flag),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => FieldValue::I64(integer),
            // Beyond 64 bits with a sign: no field of AMQP holds it.
            (None, _) if number.is_u64() => {
                return Err(bad(format!("the number {number} is too large")));
            }
            (None, float) => FieldValue::F64(float.unwrap_or_default()),
        },
        Value::String(text) => FieldValue::text(text),
        Value::Array(items) => {
            FieldValue::Array(items.iter().map(field_of).collect::<Result<_, _>>()?)
        }
        Value::Object(fields) => FieldValue::Table(table_of(fields)?),
    })
}

/// A field table as JSON.
#[must_use]
pub fn json_of(table: &FieldTable) -> Value {
    let pairs = table.iter().map(|(k, v)| (k.to_owned(), json_of_field(v)));
    Value::Object(pairs.collect())
}

fn json_of_field(value: &FieldValue) -> Value {
    match value {
        FieldValue::Bool(flag) => Value::Bool(*flag),
        FieldValue::F32(float) => number(f64::from(*float)),
        FieldValue::F64(float) => number(*float),
        FieldValue::Decimal { scale, value } => {
            number(f64::from(*value) / 10_f64.powi(i32::from(*scale)))
        }
        FieldValue::LongString(bytes) | FieldValue::Bytes(bytes) => {
            Value::String(String::from_utf8_lossy(bytes).into_owned())
        }
        FieldValue::Array(items) => items.iter().map(json_of_field).collect(),
        FieldValue::Timestamp(seconds) => Value::from(*seconds),
        FieldValue::Table(table) => json_of(table),
        FieldValue::Void => Value::Null,
        integer => integer.as_integer().map_or(Value::Null, Value::from),
    }
}

/// JSON has no infinity and no NaN: they are null.
fn number(float: f64) -> Value {
    Number::from_f64(float).map_or(Value::Null, Value::Number)
}

/// The query of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses a query string; what is not UTF-8 is refused.
    pub fn parse(query: &str) -> Result<Self, ApiError> {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode(&value.replace('+', " "));
            match (percent_decode(name), value) {
                (Some(name), Some(value)) if value.len() <= HTTP_FILTER_MAX => Ok((name, value)),
                (Some(name), Some(_)) => Err(bad(format!(
                    "the parameter \"{name}\" is longer than {HTTP_FILTER_MAX} bytes"
                ))),
                _ => Err(bad("the query is not percent-encoded UTF-8")),
            }
        };
        pairs.map(pair).collect::<Result<_, _>>().map(Self)
    }

    /// The parameter of this name; none where it is absent or empty.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        debug_assert!(is_known(name), "no table of parameters has {name:?}");
        let found = self.0.iter().find(|(n, _)| n == name);
        found.map(|(_, v)| v.as_str()).filter(|v| !v.is_empty())
    }

    /// Every parameter of this name that is not empty, in their order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let found = self.0.iter().filter(move |(n, _)| n == name);
        found.map(|(_, v)| v.as_str()).filter(|v| !v.is_empty())
    }

    /// Whether the parameter is `true`.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }
}

/// The bytes that a percent-encoded text stands for, as UTF-8; none where they are not, or an
/// escape is broken.
#[must_use]
pub fn percent_decode(text: &str) -> Option<String> {
    // The library leaves a broken escape as it is.
    let is_whole = |behind: &str| {
        let digits = behind.as_bytes().first_chunk::<2>();
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    let are_whole = text.split('%').skip(1).all(is_whole);
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
    decoded.ok().filter(|_| are_whole).map(Cow::into_owned)
}

/// What stands for itself in one segment of a path and in a value of a query.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// A text as one segment of a path or a value of a query.
#[must_use]
pub fn percent_encode(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, PLAIN).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_types::limits::TABLE_DEPTH_MAX;
    use serde_json::json;

    #[test]
    fn definitions_nest_as_deep_as_what_clients_declare() {
        let inner = Value::Object(Map::new());
        let deepest = (1..TABLE_DEPTH_MAX).fold(inner, |inner, _| json!({ "a": inner }));
        let exported = json!({"queues": [{"name": "q", "arguments": deepest}]}).to_string();
        assert!(parse_definitions(exported.as_bytes()).is_ok());
        assert!(parse_json(exported.as_bytes()).is_err());
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse_definitions(nested(DEFINITIONS_DEPTH_MAX).as_bytes()).is_ok());
        assert!(parse_definitions(nested(DEFINITIONS_DEPTH_MAX + 1).as_bytes()).is_err());
    }

    #[test]
    fn json_is_as_deep_as_the_limit_and_no_deeper() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse_json(nested(JSON_DEPTH_MAX).as_bytes()).is_ok());
        assert!(parse_json(nested(JSON_DEPTH_MAX + 1).as_bytes()).is_err());
        assert!(parse_json("[".repeat(1_000_000).as_bytes()).is_err());
        // Brackets within a string are text.
        let text = format!("\"{}\\\"[\"", "[".repeat(100));
        assert!(parse_json(text.as_bytes()).is_ok());
    }

    #[test]
    fn bodies_that_are_no_objects_are_refused() {
        for (body, good) in [
            ("", true),
            (" \n", true),
            ("{}", true),
            ("{\"a\":1e400}", false),
            ("{\"a\":NaN}", false),
            ("{\"a\":\"\\ud800\"}", false),
            ("[]", false),
            ("7", false),
            ("{\"a\":1}x", false),
            ("{a:1}", false),
        ] {
            assert_eq!(Body::parse(body.as_bytes()).is_ok(), good, "{body}");
        }
        assert!(Body::parse(&[b'"', 0xFF, b'"']).is_err());
    }

    #[test]
    fn tables_come_back_as_they_went() {
        let text = r#"{"x-max-length":5,"f":1.5,"s":"ü","t":{"a":[1,true,null]},"b":false}"#;
        let body = Body::parse(format!("{{\"arguments\":{text}}}").as_bytes()).unwrap();
        let table = body.table("arguments").unwrap();
        assert_eq!(table.get("x-max-length"), Some(&FieldValue::I64(5)));
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(json_of(&table), expected);
        assert!(
            Body::parse(b"{\"a\":[]}")
                .unwrap()
                .table("a")
                .unwrap()
                .is_empty()
        );
        assert!(Body::parse(b"{\"a\":[1]}").unwrap().table("a").is_err());
        let large = Body::parse(b"{\"a\":{\"b\":18446744073709551615}}").unwrap();
        assert!(large.table("a").is_err());
        let long = format!("{{\"a\":{{\"{}\":1}}}}", "k".repeat(256));
        assert!(Body::parse(long.as_bytes()).unwrap().table("a").is_err());
    }

    #[test]
    fn queries_and_paths_are_decoded_once() {
        let query = Query::parse("name=a%20b+c&use_regex=true&sort=&page").unwrap();
        assert_eq!(query.get("name"), Some("a b c"));
        assert!(query.flag("use_regex"));
        assert_eq!(query.get("sort"), None);
        assert_eq!(query.get("page"), None);
        assert!(Query::parse("name=%zz").is_err());
        assert!(Query::parse("name=%ff").is_err());
        assert!(Query::parse(&format!("name={}", "a".repeat(HTTP_FILTER_MAX))).is_ok());
        assert!(Query::parse(&format!("name={}", "a".repeat(HTTP_FILTER_MAX + 1))).is_err());
        assert_eq!(percent_decode("%252F").as_deref(), Some("%2F"));
        assert_eq!(percent_decode("%+1"), None);
        assert_eq!(percent_encode("a/ü~"), "a%2F%C3%BC%7E");
    }
}
