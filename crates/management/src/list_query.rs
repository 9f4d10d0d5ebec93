//! Lists: filter, sort, page, columns, as RabbitMQ's API has them.

use crate::input::Query;
use crate::pieces::{Pieces, write_json};
use crate::reply::{ApiError, Reply};
use leveret_types::limits::{HTTP_PAGE_MAX, REGEX_BYTES_MAX};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::cmp::Ordering;

/// Items of a page where the client does not say.
const PAGE_DEFAULT: usize = 100;

/// Which part of a list is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    number: usize,
    size: usize,
}

impl Page {
    /// The page that the query asks for; none where it asks for the whole list.
    pub fn of(query: &Query) -> Result<Option<Self>, ApiError> {
        if query.get("page").is_none() {
            return Ok(None);
        }
        let number = whole(query, "page", 1)?;
        let size = whole(query, "page_size", PAGE_DEFAULT)?;
        if number == 0 || !(1..=HTTP_PAGE_MAX).contains(&size) {
            // RabbitMQ's words, which its page looks at.
            let size = query.get("page_size").unwrap_or("undefined");
            let text =
                format!("Invalid pagination parameters: page number {number}, page size {size}");
            return Err(ApiError::Wrong("invalid_pagination_parameters", text));
        }
        Ok(Some(Self { number, size }))
    }

    /// How many pages so many items come to; an error where this page is none of them.
    fn count(self, items: usize) -> Result<usize, ApiError> {
        let Self { number, size } = self;
        let pages = items.div_ceil(size).max(1);
        if number > pages {
            let text = format!("Page out of range, page: {number} page size: {size}, len: {items}");
            return Err(ApiError::Wrong("page_out_of_range", text));
        }
        Ok(pages)
    }

    /// How many items there are up to its end.
    #[must_use]
    pub const fn end(self) -> usize {
        self.number.saturating_mul(self.size)
    }

    /// The items of this page, of so many; `items` are the first of them, up to its end.
    pub fn cut<T>(self, items: Vec<T>, count: usize) -> Result<Vec<T>, ApiError> {
        self.count(count)?;
        let before = self.end().saturating_sub(self.size);
        Ok(items.into_iter().skip(before).take(self.size).collect())
    }

    /// This page with its rows, which have their columns already: of `filtered` items, of `total`.
    pub fn reply(self, rows: Vec<Value>, filtered: usize, total: usize) -> Result<Reply, ApiError> {
        Ok(Reply::Json(json!({
            "total_count": total,
            "filtered_count": filtered,
            "item_count": rows.len(),
            "page": self.number,
            "page_size": self.size,
            "page_count": self.count(filtered)?,
            "items": rows,
        })))
    }
}

/// A list as the query asks for it: the whole of it, or one page. `name` is what the filter looks
/// at; `make` makes the row of an item, of those alone that are shown or sorted by what is in it.
pub fn list<T>(
    mut items: Vec<T>,
    query: &Query,
    name: impl Fn(&T) -> Option<&str>,
    make: impl Fn(&T) -> Value,
) -> Result<Reply, ApiError> {
    let total = items.len();
    if let Some(keep) = Filter::of(query)? {
        items.retain(|item| name(item).is_some_and(|name| keep.takes(name)));
    }
    match query.get("sort") {
        None => {}
        Some("name") => items.sort_by(|a, b| name(a).cmp(&name(b))),
        Some(field) => {
            let key = |item: T| (at(&make(&item), field).clone(), item);
            items = sorted(items.into_iter().map(key).collect());
        }
    }
    if query.flag("sort_reverse") {
        items.reverse();
    }
    let filtered = items.len();
    match Page::of(query)? {
        None => {
            // The text takes a part of what the items do: each is dropped when it is written.
            let mut texts = vec![b"[".to_vec()];
            for (at, item) in items.into_iter().enumerate() {
                let mut text = if at == 0 { Vec::new() } else { b",".to_vec() };
                write_json(&mut text, &one(make(&item), query));
                texts.push(text);
            }
            texts.push(b"]".to_vec());
            Ok(Reply::Pieces("application/json", Pieces::of_texts(texts)))
        }
        Some(page) => {
            let items = page.cut(items, filtered)?;
            let rows = items.iter().map(|item| one(make(item), query)).collect();
            page.reply(rows, filtered, total)
        }
    }
}

/// A list whose rows are made already.
pub fn list_of(rows: Vec<Value>, query: &Query) -> Result<Reply, ApiError> {
    list(rows, query, |row| row["name"].as_str(), Value::clone)
}

fn whole(query: &Query, name: &str, default: usize) -> Result<usize, ApiError> {
    match query.get(name) {
        None => Ok(default),
        Some(text) => {
            let invalid = || ApiError::BadRequest("Pagination parameters are invalid".to_owned());
            text.parse().map_err(|_| invalid())
        }
    }
}

/// A regular expression of a client, bounded in what it may cost. As in RabbitMQ's lists, the case
/// of letters does not count.
pub fn pattern(text: &str) -> Result<regex::Regex, ApiError> {
    if text.len() > REGEX_BYTES_MAX {
        let reason = format!("a regular expression is at most {REGEX_BYTES_MAX} bytes long");
        return Err(ApiError::BadRequest(reason));
    }
    regex::RegexBuilder::new(text)
        .case_insensitive(true)
        .size_limit(1 << 20)
        .build()
        .map_err(|_| ApiError::BadRequest("this is not a valid regular expression".to_owned()))
}

/// A filter of names, as a query says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameFilter {
    text: String,
    is_pattern: bool,
}

impl NameFilter {
    /// The filter that a query asks for.
    #[must_use]
    pub fn of(query: &Query) -> Option<Self> {
        query.get("name").map(|text| Self {
            text: text.to_owned(),
            is_pattern: query.flag("use_regex"),
        })
    }

    /// What filters.
    ///
    /// # Errors
    /// If it is no pattern, or too long for one.
    pub fn filter(&self) -> Result<Filter, ApiError> {
        Ok(match self.is_pattern {
            true => Filter::Pattern(pattern(&self.text)?),
            false => Filter::Text(self.text.to_lowercase()),
        })
    }
}

/// A filter of names.
pub enum Filter {
    /// They contain this text, which is in lower case, whatever the case of their letters.
    Text(String),
    /// They match this expression.
    Pattern(regex::Regex),
}

impl Filter {
    /// The filter that the query asks for.
    pub fn of(query: &Query) -> Result<Option<Self>, ApiError> {
        let filter = NameFilter::of(query);
        filter.as_ref().map(NameFilter::filter).transpose()
    }

    /// Whether it lets a name through.
    #[must_use]
    pub fn takes(&self, name: &str) -> bool {
        match self {
            Self::Text(text) => name.to_lowercase().contains(text),
            Self::Pattern(pattern) => pattern.is_match(name),
        }
    }
}

/// Items by the keys that they come with; those of equal keys stay as they are.
#[must_use]
pub fn sorted<T>(mut items: Vec<(Value, T)>) -> Vec<T> {
    items.sort_by(|a, b| compare(&a.0, &b.0));
    items.into_iter().map(|(_, item)| item).collect()
}

/// The field at a dotted path.
pub fn at<'a>(item: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(item, |item, part| &item[part])
}

/// Which of two values comes first.
#[must_use]
pub fn compare(a: &Value, b: &Value) -> Ordering {
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

    const NAMES: [&str; 6] = ["q0", "q1", "q2", "q3", "q4", "q5"];

    fn row(n: &usize) -> Value {
        json!({"name": NAMES[*n], "messages": n * 7 % 10, "a": {"b": n, "c": 1}})
    }

    fn ask(count: usize, query: &str) -> Result<Value, ApiError> {
        Ok(
            match list(
                (0..count).collect(),
                &Query::parse(query)?,
                |n| Some(NAMES[*n]),
                row,
            )? {
                Reply::Json(json) => json,
                Reply::Pieces(_, pieces) => {
                    let text: Vec<u8> = pieces.flatten().collect();
                    serde_json::from_slice(&text).expect("JSON")
                }
                other => panic!("{other:?}"),
            },
        )
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
            ("sort=name&sort_reverse=true", "q5 q4 q3 q2 q1 q0"),
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
            let refused = ask(1, &query).map_err(|error| error.status());
            assert_eq!(refused, Err(400), "{query}");
        }
        assert!(ask(0, "page=1").is_ok());
    }
}
