//! The settings that a stream's arguments name.

use crate::host::{OffsetSpec, Reference};
use bytes::Bytes;
use leveret_types::FieldValue;
use leveret_types::limits::{
    STREAM_FILTER_BYTES, STREAM_FILTER_BYTES_MAX, STREAM_RETENTION_ALARM_BYTES,
    STREAM_RETENTION_GROUPS_MAX, STREAM_SEGMENT_BYTES, STREAM_SEGMENT_BYTES_MAX,
    STREAM_SEGMENT_BYTES_MIN,
};

/// When what was published is confirmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flush {
    /// After an fdatasync that covers it: neither a crash nor a power cut loses it.
    #[default]
    Sync,
    /// After the write; the file is synced every so many milliseconds. A power cut loses what was
    /// confirmed since the last sync.
    Interval(u64),
    /// After the write; the system decides when it goes to the disk. A power cut loses what it has
    /// not decided about, which may be the last half minute.
    Os,
}

/// Milliseconds between two syncs of `flush=interval` where nothing else is said.
const FLUSH_INTERVAL_MS: u64 = 100;

/// The settings of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSettings {
    /// Bytes beyond which the oldest segments go.
    pub bytes_max: Option<u64>,
    /// Milliseconds after which a segment goes.
    pub age_ms_max: Option<u64>,
    /// Consumers' names: what one of them has not stored an offset behind does not go, whatever
    /// size and age say.
    pub retention_groups: Vec<Reference>,
    /// Bytes beyond size and age that these may hold before an operator is told.
    pub retention_alarm_bytes: u64,
    /// Bytes of one segment file.
    pub segment_bytes: u64,
    /// Bytes of a chunk's filter.
    pub filter_bytes: u8,
    /// When what was published is confirmed.
    pub flush: Flush,
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self {
            bytes_max: None,
            age_ms_max: None,
            retention_groups: Vec::new(),
            retention_alarm_bytes: STREAM_RETENTION_ALARM_BYTES,
            segment_bytes: STREAM_SEGMENT_BYTES,
            filter_bytes: STREAM_FILTER_BYTES,
            flush: Flush::default(),
        }
    }
}

/// An argument whose value cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid value '{value}' of stream argument '{key}': {expected}")]
pub struct SettingsError {
    /// The argument.
    pub key: String,
    /// What was given.
    pub value: String,
    /// What may be given.
    pub expected: &'static str,
}

impl StreamSettings {
    /// Reads the arguments of the stream protocol's Create. Those that are not known are ignored,
    /// as RabbitMQ does.
    ///
    /// # Errors
    /// The first argument whose value cannot be.
    pub fn from_arguments<'a>(
        arguments: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, SettingsError> {
        let (mut settings, mut level, mut interval_ms) = (Self::default(), None, None);
        for (key, value) in arguments {
            let wrong = |expected| SettingsError {
                key: key.to_owned(),
                value: value.to_owned(),
                expected,
            };
            match key {
                "max-length-bytes" => {
                    let bytes = number(value, 1..=u64::MAX >> 1);
                    settings.bytes_max = Some(bytes.ok_or_else(|| wrong(NUMBER))?);
                }
                "max-age" => settings.age_ms_max = Some(age_ms(value).ok_or_else(|| wrong(AGE))?),
                "retention-groups" => {
                    let groups = retention_groups(value);
                    settings.retention_groups = groups.ok_or_else(|| wrong(GROUPS))?;
                }
                "retention-groups-alarm-bytes" => {
                    let bytes = number(value, 1..=u64::MAX >> 1);
                    settings.retention_alarm_bytes = bytes.ok_or_else(|| wrong(NUMBER))?;
                }
                "stream-max-segment-size-bytes" => {
                    let bytes = number(value, 1..=STREAM_SEGMENT_BYTES_MAX);
                    let bytes = bytes.ok_or_else(|| wrong(SEGMENT))?;
                    settings.segment_bytes = bytes.max(STREAM_SEGMENT_BYTES_MIN);
                }
                "stream-filter-size-bytes" => {
                    let bytes = number(value, 16..=u64::from(STREAM_FILTER_BYTES_MAX));
                    let bytes = bytes.and_then(|bytes| u8::try_from(bytes).ok());
                    settings.filter_bytes = bytes.ok_or_else(|| wrong(FILTER))?;
                }
                "flush" => match value {
                    "sync" | "interval" | "os" => level = Some(value),
                    _ => return Err(wrong(FLUSH)),
                },
                "flush-interval-ms" => {
                    interval_ms = Some(number(value, 1..=60_000).ok_or_else(|| wrong(INTERVAL))?);
                }
                _ => {}
            }
        }
        settings.flush = match level {
            Some("interval") => Flush::Interval(interval_ms.unwrap_or(FLUSH_INTERVAL_MS)),
            Some("os") => Flush::Os,
            _ => Flush::Sync,
        };
        Ok(settings)
    }
}

const NUMBER: &str = "expected a whole number above 0";
const SEGMENT: &str = "expected a whole number from 1 to 3000000000";
const FILTER: &str = "expected a whole number from 16 to 255";
const AGE: &str = "expected a whole number and a unit out of Y, M, D, h, m and s";
const GROUPS: &str = "expected 1 to 16 names with commas between them, each of 1 to 255 bytes";
const FLUSH: &str = "expected sync, interval or os";
const INTERVAL: &str = "expected a whole number from 1 to 60000";

fn number(text: &str, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
    text.parse().ok().filter(|number| range.contains(number))
}

/// The names in a list such as `billing,search`, each once. `None` if one is empty or too long, or
/// if there are more than [`STREAM_RETENTION_GROUPS_MAX`].
#[must_use]
pub fn retention_groups(text: &str) -> Option<Vec<Reference>> {
    let mut groups: Vec<Reference> = Vec::new();
    for name in text.split(',') {
        let name = Reference::new(Bytes::copy_from_slice(name.trim().as_bytes()))?;
        if !groups.contains(&name) {
            groups.push(name);
        }
        if groups.len() > STREAM_RETENTION_GROUPS_MAX {
            return None;
        }
    }
    Some(groups)
}

/// Milliseconds of an age such as `7D`, as RabbitMQ counts them: a year has 365 days, a month 30.
#[must_use]
pub fn age_ms(text: &str) -> Option<u64> {
    const DAY_SECONDS: u64 = 24 * 60 * 60;
    let (at, unit) = text.char_indices().next_back()?;
    let seconds = match unit {
        'Y' => 365 * DAY_SECONDS,
        'M' => 30 * DAY_SECONDS,
        'D' => DAY_SECONDS,
        'h' => 60 * 60,
        'm' => 60,
        's' => 1,
        _ => return None,
    };
    let number: u64 = text[..at].parse().ok()?;
    number.checked_mul(seconds)?.checked_mul(1_000)
}

/// Where an `x-stream-offset` begins: a word, an offset, a time, or an interval before `now_ms`, in
/// milliseconds since the Unix epoch. `None` if it is none of these.
#[must_use]
pub fn offset_spec(value: &FieldValue, now_ms: u64) -> Option<OffsetSpec> {
    let milliseconds = |ms: u64| OffsetSpec::TimestampMs(i64::try_from(ms).unwrap_or(i64::MAX));
    Some(match value {
        FieldValue::Timestamp(seconds) => milliseconds(seconds.saturating_mul(1_000)),
        FieldValue::LongString(_) => match value.as_text()? {
            "first" => OffsetSpec::First,
            "last" => OffsetSpec::Last,
            "next" => OffsetSpec::Next,
            interval => milliseconds(now_ms.saturating_sub(age_ms(interval)?)),
        },
        // What lies before the first offset is the first, as in RabbitMQ.
        _ => OffsetSpec::Offset(u64::try_from(value.as_integer()?).unwrap_or(0)),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::*;

    #[test]
    fn arguments_are_those_of_rabbitmq_and_of_the_flush_level() {
        let settings = StreamSettings::from_arguments([
            ("max-length-bytes", "1000000"),
            ("max-age", "7D"),
            ("stream-max-segment-size-bytes", "3000000000"),
            ("stream-filter-size-bytes", "255"),
            ("queue-leader-locator", "client-local"),
            ("initial-cluster-size", "3"),
            ("flush-interval-ms", "50"),
            ("retention-groups", "billing, search,billing"),
            ("retention-groups-alarm-bytes", "7000"),
            ("flush", "interval"),
        ]);
        let expected = StreamSettings {
            bytes_max: Some(1_000_000),
            age_ms_max: Some(7 * 24 * 60 * 60 * 1_000),
            retention_groups: retention_groups("billing,search").unwrap(),
            retention_alarm_bytes: 7_000,
            segment_bytes: 3_000_000_000,
            filter_bytes: 255,
            flush: Flush::Interval(50),
        };
        assert_eq!(settings.unwrap(), expected);
        let none = StreamSettings::from_arguments([]).unwrap();
        assert_eq!((none.flush, none.segment_bytes), (Flush::Sync, 500_000_000));
        let plain = StreamSettings::from_arguments([("flush", "interval")]).unwrap();
        assert_eq!(plain.flush, Flush::Interval(100));
    }

    #[test]
    fn segments_are_no_smaller_than_the_floor() {
        let floor = STREAM_SEGMENT_BYTES_MIN;
        for (given, is) in [(1, floor), (floor, floor), (floor + 1, floor + 1)] {
            let given = given.to_string();
            let argument = ("stream-max-segment-size-bytes", &given[..]);
            let settings = StreamSettings::from_arguments([argument]).unwrap();
            assert_eq!(settings.segment_bytes, is);
        }
    }

    #[test]
    fn values_that_cannot_be_are_refused_by_name() {
        for (key, value) in [
            ("max-length-bytes", "0"),
            ("max-length-bytes", "-1"),
            ("max-length-bytes", "1G"),
            ("max-age", "7"),
            ("max-age", "D"),
            ("max-age", "7d"),
            ("max-age", ""),
            ("max-age", "7ü"),
            ("max-age", "99999999999999999999s"),
            ("max-age", "9999999999999999Y"),
            ("retention-groups", ""),
            ("retention-groups", "billing,,search"),
            ("retention-groups", " , "),
            ("retention-groups-alarm-bytes", "0"),
            ("stream-max-segment-size-bytes", "3000000001"),
            ("stream-filter-size-bytes", "15"),
            ("stream-filter-size-bytes", "256"),
            ("flush", "never"),
            ("flush-interval-ms", "60001"),
        ] {
            let error = StreamSettings::from_arguments([(key, value)]).unwrap_err();
            assert_eq!((&error.key[..], &error.value[..]), (key, value));
        }
    }

    #[test]
    fn as_many_groups_as_may_be_are_taken_and_one_more_is_refused() {
        let names = |count: usize| {
            let names: Vec<String> = (0..count).map(|n| n.to_string()).collect();
            retention_groups(&names.join(",")).map(|groups| groups.len())
        };
        let most = STREAM_RETENTION_GROUPS_MAX;
        assert_eq!(names(most), Some(most));
        assert_eq!(names(most + 1), None);
    }

    #[test]
    fn ages_have_the_units_of_rabbitmq() {
        let day = 24 * 60 * 60 * 1_000;
        for (text, ms) in [
            ("1Y", 365 * day),
            ("2M", 60 * day),
            ("1D", day),
            ("1h", 3_600_000),
            ("1m", 60_000),
            ("0s", 0),
        ] {
            assert_eq!(age_ms(text), Some(ms), "{text}");
        }
    }
}
