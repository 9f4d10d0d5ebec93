//! Lists: filter, sort, page, columns, as RabbitMQ's API has them.

use crate::input::Query;
use crate::reply::ApiError;
use leveret_types::limits::{HTTP_PAGE_MAX, REGEX_BYTES_MAX};
use serde_json::{Map, Value, json};
use std::cmp::Ordering;

/// Items of a page where the client does not say.
const PAGE_DEFAULT: usize = 100;

/// A list as the query asks for it: the whole of it, or one page.
pub fn list(mut items: Vec<Value>, query: &Query) -> Result<Value, ApiError> {
    let total = items.len();
    if let Some(name) = query.get("name") {
        let keep = filter(name, query.flag("use_regex"))?;
        items.retain(|item| item["name"].as_str().is_some_and(&keep));
    }
    sort(&mut items, query);
    let filtered = items.len();
    let page = match query.get("page") {
        None => None,
        Some(_) => Some((
            whole(query, "page", 1)?,
            whole(query, "page_size", PAGE_DEFAULT)?,
        )),
    };
    let Some((page, size)) = page else {
        return Ok(Value::Array(columns(items, query)));
    };
    if page == 0 {
        return Err(ApiError::BadRequest("page must be at least 1".to_owned()));
    }
    if !(1..=HTTP_PAGE_MAX).contains(&size) {
        let text = format!("page_size must be from 1 to {HTTP_PAGE_MAX}");
        return Err(ApiError::BadRequest(text));
    }
    let pages = filtered.div_ceil(size).max(1);
    if page > pages {
        let text = format!("page_out_of_range: there are {pages} pages of {size} items");
        return Err(ApiError::BadRequest(text));
    }
    let items: Vec<_> = items
        .into_iter()
        .skip((page - 1) * size)
        .take(size)
        .collect();
    Ok(json!({
        "total_count": total,
        "filtered_count": filtered,
        "item_count": items.len(),
        "page": page,
        "page_size": size,
        "page_count": pages,
        "items": columns(items, query),
    }))
}

fn whole(query: &Query, name: &str, default: usize) -> Result<usize, ApiError> {
    match query.get(name) {
        None => Ok(default),
        Some(text) => text
            .parse()
            .map_err(|_| ApiError::BadRequest(format!("{name} must be a whole number"))),
    }
}

type Filter = Box<dyn Fn(&str) -> bool>;

/// A regular expression of a client, bounded in what it may cost.
pub fn pattern(text: &str) -> Result<regex::Regex, ApiError> {
    if text.len() > REGEX_BYTES_MAX {
        let reason = format!("a regular expression is at most {REGEX_BYTES_MAX} bytes long");
        return Err(ApiError::BadRequest(reason));
    }
    regex::RegexBuilder::new(text)
        .size_limit(1 << 20)
        .build()
        .map_err(|_| ApiError::BadRequest("this is not a valid regular expression".to_owned()))
}

/// A filter of names: text that they contain, or a regular expression.
fn filter(name: &str, is_regex: bool) -> Result<Filter, ApiError> {
    if !is_regex {
        let name = name.to_owned();
        return Ok(Box::new(move |candidate| candidate.contains(&name)));
    }
    let regex = pattern(name)?;
    Ok(Box::new(move |candidate| regex.is_match(candidate)))
}

fn sort(items: &mut [Value], query: &Query) {
    if let Some(field) = query.get("sort") {
        items.sort_by(|a, b| compare(at(a, field), at(b, field)));
    }
    if query.flag("sort_reverse") {
        items.reverse();
    }
}

/// The field at a dotted path.
fn at<'a>(item: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(item, |item, part| &item[part])
}

fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap_or(0.0), b.as_f64().unwrap_or(0.0));
            a.total_cmp(&b)
        }
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (a, b) => rank(a).cmp(&rank(b)),
    }
}

const fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

/// Keeps only the columns that the query names; a dotted one keeps that part of an object.
fn columns(items: Vec<Value>, query: &Query) -> Vec<Value> {
    match query.get("columns") {
        None => items,
        Some(columns) => items.iter().map(|item| pick(item, columns)).collect(),
    }
}

/// One object with only the columns that the query names.
#[must_use]
pub fn one(item: Value, query: &Query) -> Value {
    match query.get("columns") {
        None => item,
        Some(columns) => pick(&item, columns),
    }
}

fn pick(item: &Value, columns: &str) -> Value {
    let mut out = Map::new();
    for column in columns.split(',').map(str::trim) {
        let found = column
            .split('.')
            .try_fold(item, |item, part| item.get(part));
        let Some(found) = found else { continue };
        insert(&mut out, column, found.clone());
    }
    Value::Object(out)
}

fn insert(out: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            out.insert(path.to_owned(), value);
        }
        Some((head, rest)) => {
            let inner = out.entry(head).or_insert_with(|| json!({}));
            if let Value::Object(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(count: usize) -> Vec<Value> {
        let item = |n: usize| json!({"name": format!("q{n}"), "messages": n * 7 % 10, "a": {"b": n, "c": 1}});
        (0..count).map(item).collect()
    }

    fn ask(count: usize, query: &str) -> Result<Value, ApiError> {
        list(items(count), &Query::parse(query)?)
    }

    fn names(value: &Value) -> String {
        let items = value.as_array().or_else(|| value["items"].as_array());
        let names = items
            .expect("a list")
            .iter()
            .map(|i| i["name"].as_str().unwrap_or("-"));
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn lists_are_filtered_sorted_and_paged() {
        for (query, expected) in [
            ("", "q0 q1 q2 q3 q4 q5"),
            ("name=3", "q3"),
            ("name=q[0-2]", ""),
            ("name=q[0-2]&use_regex=true", "q0 q1 q2"),
            ("sort=messages", "q0 q3 q2 q5 q1 q4"),
            ("sort=a.b&sort_reverse=true", "q5 q4 q3 q2 q1 q0"),
            ("page=2&page_size=4", "q4 q5"),
            ("page=1&page_size=2&name=q&sort=messages", "q0 q3"),
        ] {
            assert_eq!(names(&ask(6, query).expect(query)), expected, "{query}");
        }
        let page = ask(6, "page=1&page_size=4&name=q[12]&use_regex=true").expect("a page");
        assert_eq!(page["total_count"], 6);
        assert_eq!(page["filtered_count"], 2);
        assert_eq!(page["item_count"], 2);
        assert_eq!(page["page_count"], 1);
    }

    #[test]
    fn columns_are_picked_with_their_parents() {
        let picked = ask(1, "columns=name,a.b,none").expect("a list");
        assert_eq!(picked, json!([{"name": "q0", "a": {"b": 0}}]));
    }

    #[test]
    fn pages_have_bounds() {
        assert!(ask(1, &format!("page=1&page_size={HTTP_PAGE_MAX}")).is_ok());
        for query in [
            format!("page=1&page_size={}", HTTP_PAGE_MAX + 1),
            "page=1&page_size=0".to_owned(),
            "page=0".to_owned(),
            "page=2&page_size=1".to_owned(),
            "page=x".to_owned(),
            "name=(&use_regex=true".to_owned(),
        ] {
            assert!(
                matches!(ask(1, &query), Err(ApiError::BadRequest(_))),
                "{query}"
            );
        }
        assert!(ask(0, "page=1").is_ok());
    }
}
