//! How values are written: short, with a unit, and alike in tables, axes and the terminal.

/// What a number measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A plain count.
    Count,
    /// Messages a second.
    MessagesPerSecond,
    /// A time in microseconds.
    Micros,
    /// A time in seconds, of the run's clock.
    Seconds,
    /// Bytes.
    Bytes,
    /// Bytes a second.
    BytesPerSecond,
    /// Events a second, of whatever the axis names.
    PerSecond,
    /// Processor cores in use: CPU seconds a second.
    Cores,
    /// Per cent, 0 to 100.
    Percent,
    /// Percentile, 0 to 100.
    Percentile,
}

impl Unit {
    /// The value in at most three significant digits, with its unit.
    #[must_use]
    pub fn write(self, value: f64) -> String {
        if !value.is_finite() {
            return "–".to_owned();
        }
        match self {
            Self::Count | Self::PerSecond => short(value),
            Self::MessagesPerSecond => format!("{}/s", short(value)),
            Self::Micros => time(value),
            Self::Seconds => format!("{} s", digits(value)),
            Self::Bytes => bytes(value),
            Self::BytesPerSecond => format!("{}/s", bytes(value)),
            Self::Cores => digits(value),
            Self::Percent => format!("{} %", digits(value)),
            Self::Percentile => format!("p{}", digits_fine(value)),
        }
    }

    /// The value as an axis writes it beside a tick.
    #[must_use]
    pub fn tick(self, value: f64) -> String {
        match self {
            Self::Micros if value == 0.0 => "0".to_owned(),
            Self::Bytes | Self::BytesPerSecond if value == 0.0 => "0".to_owned(),
            Self::MessagesPerSecond => short(value),
            Self::Seconds => clock(value),
            Self::Percentile => format!("{} %", digits_fine(value)),
            _ => self.write(value),
        }
    }
}

fn short(value: f64) -> String {
    scaled(value, 1_000.0, &["", "k", "M", "G", "T"])
}

fn bytes(value: f64) -> String {
    scaled(value, 1_000.0, &[" B", " kB", " MB", " GB", " TB"])
}

fn time(micros: f64) -> String {
    if micros.abs() < 60_000_000.0 {
        return scaled(micros, 1_000.0, &[" µs", " ms", " s"]);
    }
    format!("{} min", digits(micros / 60_000_000.0))
}

fn scaled(value: f64, step: f64, suffixes: &[&str]) -> String {
    let mut value = value;
    let mut at = 0;
    // 999.6 would be written as 1000: it belongs to the next step.
    while value.abs() >= step - 0.5 && at + 1 < suffixes.len() {
        value /= step;
        at += 1;
    }
    format!("{}{}", digits(value), suffixes.get(at).unwrap_or(&""))
}

/// Three significant digits, without zeros behind the point.
fn digits(value: f64) -> String {
    let size = value.abs();
    let places = match size {
        _ if size >= 99.95 => 0,
        _ if size >= 9.995 => 1,
        _ => 2,
    };
    trimmed(format!("{value:.places$}"))
}

fn digits_fine(value: f64) -> String {
    trimmed(format!("{value:.4}"))
}

fn trimmed(text: String) -> String {
    if !text.contains('.') {
        return text;
    }
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

/// Seconds of a run: plain up to two minutes, then as minutes and seconds.
fn clock(seconds: f64) -> String {
    if seconds.abs() <= 120.0 {
        return digits(seconds);
    }
    let whole = seconds.round() as i64;
    format!("{}:{:02}", whole / 60, whole % 60)
}
