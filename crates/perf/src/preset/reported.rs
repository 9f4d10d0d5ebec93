//! The documents' own figures, to stand beside ours.

use std::sync::OnceLock;

use serde::Deserialize;

use crate::plot::Unit;
use crate::result::LoadResult;

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Messages a second that consumers took.
    ConsumeRate,
    /// Messages a second that publishers sent.
    PublishRate,
    /// Bytes a second that publishers sent.
    PublishBytesPerS,
    /// 75th percentile from publisher to consumer.
    P75Us,
    /// 99.9th percentile from publisher to consumer.
    #[serde(rename = "p99_9_us")]
    P999Us,
}

/// One figure of a document.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reported {
    /// The machines or drives that it is from.
    pub setup: String,
    /// What was measured.
    pub measure: Measure,
    /// The figure, in the measure's unit.
    pub value: f64,
}

impl Measure {
    /// How its values are written.
    #[must_use]
    pub fn unit(self) -> Unit {
        match self {
            Self::ConsumeRate | Self::PublishRate => Unit::MessagesPerSecond,
            Self::PublishBytesPerS => Unit::BytesPerSecond,
            Self::P75Us | Self::P999Us => Unit::Micros,
        }
    }

    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ConsumeRate => "consumed",
            Self::PublishRate => "published",
            Self::PublishBytesPerS => "written",
            Self::P75Us => "end-to-end p75",
            Self::P999Us => "end-to-end p99.9",
        }
    }

    /// The same of a load that we measured; none where nobody consumed.
    #[must_use]
    pub fn of(self, load: &LoadResult) -> Option<f64> {
        let end_to_end = load.end_to_end.as_ref().map(|latency| latency.percentiles);
        match self {
            Self::ConsumeRate => Some(load.totals.consume_rate),
            Self::PublishRate => Some(load.totals.publish_rate),
            Self::PublishBytesPerS => Some(load.totals.publish_bytes_per_s),
            Self::P75Us => end_to_end.map(|latency| latency.p75_us as f64),
            Self::P999Us => end_to_end.map(|latency| latency.p99_9_us as f64),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    reported: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    preset: String,
    figures: Vec<Reported>,
}

/// What the documents report of a preset; empty where they give no figures.
///
/// # Panics
/// If the embedded file is not as it was when the program's tests ran.
#[must_use]
pub fn reported(preset: &str) -> &'static [Reported] {
    static FILE: OnceLock<File> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        toml::from_str(include_str!("reported.toml")).expect("the embedded file is TOML")
    });
    let entry = file.reported.iter().find(|entry| entry.preset == preset);
    entry.map_or(&[], |entry| &entry.figures)
}

#[cfg(test)]
pub(super) fn names() -> Vec<String> {
    let file: File = toml::from_str(include_str!("reported.toml")).unwrap();
    file.reported
        .into_iter()
        .map(|entry| entry.preset)
        .collect()
}
