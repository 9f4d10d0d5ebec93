//! The figures of a run, read from its result and written as the documents have them.

use serde_json::Value;

pub(super) fn figure(run: &Value, pointer: &str) -> f64 {
    let value = run.pointer(pointer).and_then(Value::as_f64);
    value.unwrap_or_default()
}

pub(super) fn rate(run: &Value, which: &str) -> f64 {
    figure(run, &format!("/loads/0/totals/{which}"))
}

pub(super) fn milliseconds(run: &Value, latency: &str, percentile: &str) -> String {
    let pointer = format!("/loads/0/{latency}/percentiles/{percentile}");
    match figure(run, &pointer) / 1e3 {
        ms if ms >= 1e3 => format!("{} s", short(ms / 1e3)),
        ms => format!("{} ms", short(ms)),
    }
}

pub(super) fn sum(items: &Value, key: &str) -> f64 {
    let items = items.as_array().into_iter().flatten();
    items.filter_map(|item| item[key].as_f64()).sum()
}

/// Three digits, with a k for thousands.
pub(super) fn short(value: f64) -> String {
    let (value, unit) = if value >= 1000.0 {
        (value / 1000.0, "k")
    } else {
        (value, "")
    };
    let decimals = if value >= 100.0 || value == 0.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.decimals$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let shown: Vec<String> = [0.0, 0.5, 12.34, 999.0, 1000.0, 51_140.0, 147_200.0]
            .map(short)
            .to_vec();
        assert_eq!(
            shown,
            ["0", "0.50", "12.3", "999", "1.00k", "51.1k", "147k"]
        );
    }
}
