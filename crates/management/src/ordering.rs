//! Lists that are put in order by what stands in their rows: a bounded number of things is looked
//! at in one turn of a worker, however many there are, so that no list keeps a worker from others.

use crate::cluster_lists::{Order, Part};
use crate::http::reply::{ApiError, Reply, Unfinished};
use crate::row_lists::{BATCH, Found, Keyed, Source};
use serde_json::Value;

/// Things in their usual order, which are to be put in another one.
pub(crate) struct Unordered<K> {
    /// How they are wanted.
    order: Order,
    total: usize,
    filtered: usize,
    /// Those that have been looked at, each with what stands in its field.
    known: Keyed<K>,
    rest: std::vec::IntoIter<K>,
}

impl<K> Unordered<K> {
    /// These things, of so many before the filter.
    pub(crate) fn new(keys: Vec<K>, total: usize, order: &Order) -> Self {
        Self {
            order: order.clone(),
            total,
            filtered: keys.len(),
            known: Vec::with_capacity(keys.len()),
            rest: keys.into_iter(),
        }
    }

    /// The field that they are put in order by.
    pub(crate) fn field(&self) -> &str {
        self.order.field.as_deref().unwrap_or_default()
    }

    /// How they are wanted.
    pub(crate) const fn order(&self) -> &Order {
        &self.order
    }

    /// Those that have not been looked at.
    pub(crate) fn take_rest(&mut self) -> Vec<K> {
        std::mem::take(&mut self.rest).collect()
    }

    /// Looks at some of those that have not been looked at: a batch, or as many as are usually in
    /// one. True when there are no more.
    pub(crate) fn look_at_batch<S: Source<Key = K> + ?Sized>(&mut self, source: &mut S) -> bool {
        let before = self.rest.len();
        while self.rest.len() > 0 && before - self.rest.len() < BATCH {
            let count = source.batch(self.rest.as_slice());
            let keys: Vec<K> = self.rest.by_ref().take(count).collect();
            let fields = source.fields(&keys, self.field()).into_iter();
            self.known.extend(fields.zip(keys));
        }
        self.rest.as_slice().is_empty()
    }

    /// Notes things that have been looked at. They come in their usual order.
    pub(crate) fn know(&mut self, known: impl IntoIterator<Item = (Value, K)>) {
        self.known.extend(known);
    }

    /// What is wanted of them, once all have been looked at.
    pub(crate) fn part(self) -> Part<K> {
        Part {
            total: self.total,
            filtered: self.filtered,
            first: self.order.first_of(self.known),
        }
    }
}

/// What a list begins with.
pub(crate) enum Begun<K> {
    /// What is wanted of it, in order.
    Ordered(Part<K>),
    /// Things that must be looked at for that.
    Unordered(Unordered<K>),
}

/// What is answered when the order is known.
type Then<S> = Box<dyn FnOnce(Part<<S as Source>::Key>, S) -> Result<Reply, ApiError> + Send>;

/// Answers by `then` as soon as it is known which of these things are wanted, in order: at once, or
/// turn by turn.
///
/// # Errors
/// Those of `then`.
pub(crate) fn in_order<S: Source>(
    found: Found<S::Key>,
    source: S,
    order: &Order,
    then: impl FnOnce(Part<S::Key>, S) -> Result<Reply, ApiError> + Send + 'static,
) -> Result<Reply, ApiError> {
    match found.begin(order) {
        Begun::Ordered(part) => then(part, source),
        Begun::Unordered(unordered) => go_on(unordered, source, Box::new(then)),
    }
}

/// One turn.
fn go_on<S: Source>(
    mut unordered: Unordered<S::Key>,
    mut source: S,
    then: Then<S>,
) -> Result<Reply, ApiError> {
    if source.look_on(&mut unordered) {
        return then(unordered.part(), source);
    }
    let next = move || go_on(unordered, source, then);
    Ok(Reply::Unfinished(Unfinished::new(next)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::input::Query;
    use crate::row_lists::list;
    use serde_json::json;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// Things that are sorted by a row's field, with a count of rows.
    struct Rows(Arc<AtomicUsize>);

    impl Source for Rows {
        type Key = usize;
        type Row = Value;

        fn rows(&mut self, keys: &[usize]) -> Vec<Option<Value>> {
            self.0.fetch_add(keys.len(), Relaxed);
            let rows = keys.iter().map(|n| json!({"n": n, "rest": n % 10}));
            rows.map(Some).collect()
        }
    }

    /// Has a list made, turn by turn; its numbers, and the most rows that were made in one turn.
    fn numbers(count: usize, query: &str) -> (Value, usize) {
        let query = Query::parse(query).expect("a query");
        let (made, mut most) = (Arc::new(AtomicUsize::new(0)), 0);
        let mut found = Found::new(&query).expect("a filter");
        (0..count).for_each(|n| found.add(None, || n));
        let mut reply = list(found, Rows(Arc::clone(&made)), &query).expect("a list");
        while let Reply::Unfinished(rest) = reply {
            most = most.max(made.swap(0, Relaxed));
            reply = rest.go_on().expect("a list");
        }
        most = most.max(made.swap(0, Relaxed));
        let Reply::Pieces(_, pieces) = reply else {
            panic!("{reply:?}");
        };
        let text: Vec<u8> = pieces.flatten().collect();
        let list: Value = serde_json::from_slice(&text).expect("JSON");
        let rows = list.as_array().or_else(|| list["items"].as_array());
        let numbers = rows.expect("rows").iter().map(|row| row["n"].clone());
        (numbers.collect(), most)
    }

    #[test]
    fn a_list_is_put_in_order_a_bounded_number_of_things_at_a_time() {
        let (sorted, most) = numbers(20_000, "sort=rest");
        assert_eq!(most, BATCH);
        let expected: Value = (0..10)
            .flat_map(|rest| (rest..20_000).step_by(10))
            .collect();
        assert_eq!(sorted, expected);
    }

    #[test]
    fn a_page_is_of_the_whole_list_in_order() {
        for (query, expected) in [
            ("page=1&page_size=3&sort=rest", json!([0, 10, 20])),
            ("page=101&page_size=20&sort=rest", json!(step(1, 20))),
            (
                "page=1&page_size=3&sort=rest&sort_reverse=true",
                json!([19_999, 19_989, 19_979]),
            ),
        ] {
            let (page, most) = numbers(20_000, query);
            assert_eq!(page, expected, "{query}");
            // The rows of the page are made in the turn of the last look.
            assert!(most <= BATCH + 20, "{query}: {most}");
        }
    }

    fn step(from: usize, count: usize) -> Vec<usize> {
        (from..).step_by(10).take(count).collect()
    }
}
