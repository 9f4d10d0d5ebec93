//! Lists: filter, sort, page, columns, as RabbitMQ's API has them.

use crate::http::chunked_body::{ListFrame, Pieces, write_json};
use crate::http::input::Query;
use crate::http::reply::{ApiError, Reply};
use leveret_auth::Pattern;
use leveret_types::limits::HTTP_PAGE_MAX;
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

    /// What stands around the rows of this page: of `filtered` items, of `total`. How many rows
    /// there are is said behind them, where it is known.
    ///
    /// # Errors
    /// If there is no such page.
    pub(crate) fn frame(self, filtered: usize, total: usize) -> Result<ListFrame, ApiError> {
        let pages = self.count(filtered)?;
        let close = move |rows: usize| {
            let Self { number, size } = self;
            let text = format!(
                "],\"item_count\":{rows},\"page\":{number},\"page_count\":{pages},\
                 \"page_size\":{size},\"total_count\":{total}}}"
            );
            text.into_bytes()
        };
        Ok(ListFrame {
            open: format!("{{\"filtered_count\":{filtered},\"items\":[").into_bytes(),
            close: Box::new(close),
        })
    }
}

/// A list of these rows as the query asks for it: the whole of it, or one page. `name` is what the
/// filter looks at.
pub fn list(
    mut rows: Vec<Value>,
    query: &Query,
    name: impl Fn(&Value) -> Option<&str>,
) -> Result<Reply, ApiError> {
    let total = rows.len();
    if let Some(keep) = Filter::of(query)? {
        rows.retain(|row| name(row).is_some_and(|name| keep.takes(name)));
    }
    match query.get("sort") {
        None => {}
        Some("name") => rows.sort_by(|a, b| name(a).cmp(&name(b))),
        Some(field) => rows.sort_by(|a, b| compare(at(a, field), at(b, field))),
    }
    if query.flag("sort_reverse") {
        rows.reverse();
    }
    let filtered = rows.len();
    match Page::of(query)? {
        None => Ok(texts_in(ListFrame::list(), rows, query)),
        Some(page) => {
            let frame = page.frame(filtered, total)?;
            Ok(texts_in(frame, page.cut(rows, filtered)?, query))
        }
    }
}

/// These rows within what stands around them. Their text takes a part of what they do: each is
/// dropped when it is written.
fn texts_in(frame: ListFrame, rows: Vec<Value>, query: &Query) -> Reply {
    let count = rows.len();
    let mut texts = vec![frame.open];
    for (at, row) in rows.into_iter().enumerate() {
        let mut text = if at == 0 { Vec::new() } else { b",".to_vec() };
        write_json(&mut text, &one(row, query));
        texts.push(text);
    }
    texts.push((frame.close)(count));
    Reply::Pieces("application/json", Pieces::of_texts(texts))
}

/// The same of rows that are filtered by their field `name`.
pub fn list_of(rows: Vec<Value>, query: &Query) -> Result<Reply, ApiError> {
    list(rows, query, |row| row["name"].as_str())
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
pub fn pattern(text: &str) -> Result<Pattern, ApiError> {
    Pattern::of_filter(text).map_err(|error| ApiError::BadRequest(error.to_string()))
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
    Pattern(Pattern),
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
            Self::Pattern(pattern) => pattern.matches(name),
        }
    }
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

    fn row(n: usize) -> Value {
        json!({"name": NAMES[n], "messages": n * 7 % 10, "a": {"b": n, "c": 1}})
    }

    fn ask(count: usize, query: &str) -> Result<Value, ApiError> {
        let rows = (0..count).map(row).collect();
        let reply = list_of(rows, &Query::parse(query)?)?;
        let Reply::Pieces(_, pieces) = reply else {
            panic!("{reply:?}");
        };
        let text: Vec<u8> = pieces.flatten().collect();
        Ok(serde_json::from_slice(&text).expect("JSON"))
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
    fn an_expression_that_costs_too_much_for_each_name_is_refused_by_name() {
        let costly = ["(?:[ab]?){6000}[^ab0-9]", "[ab]*a[ab]{150}[^ab0-9]"];
        for pattern in costly {
            let query = format!("use_regex=true&name={pattern}");
            let Err(ApiError::BadRequest(text)) = ask(1, &query) else {
                panic!("{pattern} is taken");
            };
            assert!(
                text.contains(pattern) && text.contains("too much work"),
                "{text}"
            );
        }
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
            format!("name={}&use_regex=true", "a".repeat(2_000)),
        ] {
            let refused = ask(1, &query).map_err(|error| error.status());
            assert_eq!(refused, Err(400), "{query}");
        }
        assert!(ask(0, "page=1").is_ok());
    }
}
