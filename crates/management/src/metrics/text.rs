//! The text format of Prometheus: a page, its metrics, their labels. Apart because it knows no
//! metric.

use crate::http::chunked_body::Pieces;
use bytes::Bytes;
use leveret_types::limits::HTTP_PIECE_BYTES;
use leveret_types::{LATENCY_SLOTS_MS, LatencyCounts};
use std::collections::VecDeque;
use std::fmt::{Display, Write};
use std::sync::{Arc, Weak};

/// A page of metrics being written. Its lines of single objects are not: they are made when they
/// are read.
pub(super) struct Page {
    /// What stands before `text`.
    before: VecDeque<Part>,
    text: String,
    pub(super) prefix: &'static str,
    held_bytes: usize,
    /// Where the last table is whose bytes are among them.
    counted: Option<usize>,
}

/// A part of a page.
enum Part {
    Text(String),
    Lines(Box<dyn Iterator<Item = String> + Send>),
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Gauge,
    Counter,
    Untyped,
}
pub(super) use Kind::{Counter, Gauge, Untyped};

impl Kind {
    const fn word(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Untyped => "untyped",
        }
    }
}

/// What is known of some objects: their labels, and `N` numbers of each.
#[derive(Clone, Debug)]
pub(crate) struct Table<const N: usize> {
    rows: Arc<[Row<N>]>,
}

type Row<const N: usize> = (Box<str>, [f64; N]);

/// A table that others may have, as long as somebody has it.
pub(super) type WeakTable<const N: usize> = Weak<[Row<N>]>;

impl<const N: usize> Table<N> {
    pub(super) fn new(rows: impl IntoIterator<Item = (String, [f64; N])>) -> Self {
        let rows = rows.into_iter();
        let rows = rows.map(|(labels, numbers)| (labels.into_boxed_str(), numbers));
        Self {
            rows: rows.collect(),
        }
    }

    pub(super) fn weak(&self) -> WeakTable<N> {
        Arc::downgrade(&self.rows)
    }

    pub(super) fn of_weak(weak: &WeakTable<N>) -> Option<Self> {
        weak.upgrade().map(|rows| Self { rows })
    }

    fn bytes(&self) -> usize {
        let row = |row: &Row<N>| row.0.len() + size_of_val(row);
        self.rows.iter().map(row).sum()
    }
}

impl Page {
    pub(super) fn new(prefix: &'static str) -> Self {
        Self {
            before: VecDeque::new(),
            text: String::new(),
            prefix,
            held_bytes: 0,
            counted: None,
        }
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let prefix = self.prefix;
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.text,
            "# TYPE {prefix}{name} {kind}\n# HELP {prefix}{name} {help}"
        );
    }

    /// A metric with the values of all its series, which are few.
    pub(super) fn metric<V: Display>(
        &mut self,
        name: &str,
        kind: Kind,
        help: &str,
        series: impl IntoIterator<Item = (String, V)>,
    ) {
        let mut series = series.into_iter().peekable();
        if series.peek().is_none() {
            return;
        }
        self.head(name, kind.word(), help);
        for (labels, value) in series {
            self.text.push_str(&line(self.prefix, name, &labels, value));
        }
    }

    /// Metrics of the objects of a table, by their numbers from `first` on. A number that is none
    /// has no line.
    pub(super) fn table<const N: usize>(
        &mut self,
        table: &Table<N>,
        first: usize,
        metrics: &[(&'static str, Kind, &str)],
    ) {
        let address = Arc::as_ptr(&table.rows).cast::<()>().addr();
        if self.counted.replace(address) != Some(address) {
            self.held_bytes += table.bytes();
        }
        for (at, (name, kind, help)) in metrics.iter().enumerate() {
            let at = first + at;
            if table.rows.iter().all(|(_, numbers)| numbers[at].is_nan()) {
                continue;
            }
            self.head(name, kind.word(), help);
            let (prefix, name, rows) = (self.prefix, *name, Arc::clone(&table.rows));
            let lines = (0..rows.len()).filter_map(move |row| {
                let (labels, numbers) = &rows[row];
                let shown = !numbers[at].is_nan();
                shown.then(|| line(prefix, name, labels, numbers[at]))
            });
            let text = std::mem::take(&mut self.text);
            self.before.push_back(Part::Text(text));
            self.before.push_back(Part::Lines(Box::new(lines)));
        }
    }

    /// The whole page.
    pub(super) fn pieces(self) -> Pieces {
        let mut parts = self.before;
        let held_bytes = self.held_bytes + self.text.len();
        parts.push_back(Part::Text(self.text));
        let make = move || {
            let mut out = String::with_capacity(HTTP_PIECE_BYTES);
            while out.len() < HTTP_PIECE_BYTES
                && let Some(part) = parts.front_mut()
            {
                let line = match part {
                    Part::Text(text) => Some(std::mem::take(text)).filter(|text| !text.is_empty()),
                    Part::Lines(lines) => lines.next(),
                };
                match line {
                    Some(line) => out.push_str(&line),
                    None => drop(parts.pop_front()),
                }
            }
            Some(Bytes::from(out)).filter(|out| !out.is_empty())
        };
        Pieces::new(std::iter::from_fn(make), held_bytes)
    }

    /// A histogram: its buckets, cumulative, by their label; how many there were; their sum in
    /// microseconds.
    pub(super) fn histogram(
        &mut self,
        name: &str,
        help: &str,
        buckets: Vec<(String, String)>,
        count: u64,
        sum_us: u64,
    ) {
        self.histogram_of((name, help), "", buckets, (count, sum_us as f64 / 1e6));
    }

    /// A histogram of name, help and labels; its buckets' labels have those too. Of how many, and
    /// what they come to.
    pub(super) fn histogram_of(
        &mut self,
        (name, help): (&str, &str),
        labels: &str,
        buckets: Vec<(String, String)>,
        whole: (u64, f64),
    ) {
        self.head(name, "histogram", help);
        self.histogram_lines(name, labels, buckets, whole);
    }

    fn histogram_lines(
        &mut self,
        name: &str,
        labels: &str,
        buckets: Vec<(String, String)>,
        (count, sum): (u64, f64),
    ) {
        let (prefix, text) = (self.prefix, &mut self.text);
        let (comma, braced) = match labels {
            "" => ("", String::new()),
            labels => (",", format!("{{{labels}}}")),
        };
        let all = (format!("{labels}{comma}le=\"+Inf\""), count.to_string());
        for (label, value) in buckets.into_iter().chain([all]) {
            let _ = writeln!(text, "{prefix}{name}_bucket{{{label}}} {value}");
        }
        let _ = writeln!(
            text,
            "{prefix}{name}_sum{braced} {sum}\n{prefix}{name}_count{braced} {count}",
        );
    }

    /// Times in seconds, as histograms by their labels.
    pub(super) fn latencies(
        &mut self,
        (name, help): (&str, &str),
        series: &[(String, LatencyCounts)],
    ) {
        self.head(name, "histogram", help);
        for (labels, of) in series {
            let mut within = 0;
            let slots = LATENCY_SLOTS_MS.iter().zip(of.slots);
            let buckets = slots.map(|(most_ms, count)| {
                within += count;
                let most = *most_ms as f64 / 1e3;
                (format!("{labels},le=\"{most}\""), within.to_string())
            });
            let buckets = buckets.collect();
            let whole = (of.count, of.total_ms as f64 / 1e3);
            self.histogram_lines(name, labels, buckets, whole);
        }
    }

    /// A metric of one value.
    pub(super) fn one<V: Display>(&mut self, name: &str, kind: Kind, help: &str, value: V) {
        self.metric(name, kind, help, [(String::new(), value)]);
    }
}

/// One line of a metric.
fn line(prefix: &str, name: &str, labels: &str, value: impl Display) -> String {
    match labels.is_empty() {
        true => format!("{prefix}{name} {value}\n"),
        false => format!("{prefix}{name}{{{labels}}} {value}\n"),
    }
}

/// Labels in the text format.
pub(super) fn labels(pairs: &[(&str, &str)]) -> String {
    let escape = |value: &str| {
        value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    };
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escape(value)))
        .collect();
    pairs.join(",")
}

#[cfg(test)]
mod tests {
    #[test]
    fn labels_are_escaped() {
        let got = super::labels(&[("queue", "a\"b\\c\nd"), ("vhost", "/")]);
        assert_eq!(got, "queue=\"a\\\"b\\\\c\\nd\",vhost=\"/\"");
    }
}
