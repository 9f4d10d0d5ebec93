//! The text format of Prometheus: a page, its metrics, their labels. Apart because it knows no
//! metric.

use std::fmt::{Display, Write};

/// A page of metrics being written.
pub(super) struct Page {
    pub(super) text: String,
    pub(super) prefix: &'static str,
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Gauge,
    Counter,
}
pub(super) use Kind::{Counter, Gauge};

impl Page {
    /// A metric with the values of all its series.
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
        let kind = match kind {
            Gauge => "gauge",
            Counter => "counter",
        };
        let prefix = self.prefix;
        let text = &mut self.text;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "# TYPE {prefix}{name} {kind}\n# HELP {prefix}{name} {help}"
        );
        for (labels, value) in series {
            let _ = match labels.is_empty() {
                true => writeln!(text, "{prefix}{name} {value}"),
                false => writeln!(text, "{prefix}{name}{{{labels}}} {value}"),
            };
        }
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
        let prefix = self.prefix;
        let text = &mut self.text;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "# TYPE {prefix}{name} histogram\n# HELP {prefix}{name} {help}"
        );
        let all = ("le=\"+Inf\"".to_owned(), count.to_string());
        for (label, value) in buckets.into_iter().chain([all]) {
            let _ = writeln!(text, "{prefix}{name}_bucket{{{label}}} {value}");
        }
        let _ = writeln!(
            text,
            "{prefix}{name}_sum {}\n{prefix}{name}_count {count}",
            sum_us as f64 / 1e6
        );
    }

    /// A metric of one value.
    pub(super) fn one<V: Display>(&mut self, name: &str, kind: Kind, help: &str, value: V) {
        self.metric(name, kind, help, [(String::new(), value)]);
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
