//! What `basic.consume` says of where and what to read, and what it may not say of a stream.

use bytes::Bytes;
use leveret_client::{Consume, Flow};
use leveret_stream::{Filter, OffsetSpec, offset_spec};
use leveret_types::limits::{
    SHORT_STRING_BYTES_MAX, STREAM_FILTER_VALUES_BYTES_MAX, STREAM_FILTER_VALUES_MAX,
};
use leveret_types::{FieldTable, FieldValue, Now, ProtocolError, ReplyCode};

/// Where and what a consumer reads.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StreamArguments {
    /// Where the stream begins to send chunks.
    pub(super) offset: OffsetSpec,
    /// The first offset that is delivered; of the first chunk, what lies before is not.
    pub(super) first: u64,
    /// Which chunks, and with `x-stream-filter-messages` which of their messages.
    pub(super) filter: Option<Filter>,
}

impl StreamArguments {
    /// Reads the arguments of a consumer of the queue that is called `resource` in texts.
    ///
    /// # Errors
    /// As RabbitMQ has them: without a prefetch, without acknowledgements, with a priority, with an
    /// offset that is none.
    pub(super) fn read(consume: &Consume, resource: &str, now: Now) -> Result<Self, ProtocolError> {
        let refuse =
            |text: String| Err(ProtocolError::channel(ReplyCode::PreconditionFailed, text));
        if consume.flow == Flow::Prefetch(0) {
            return refuse(format!(
                "consumer prefetch count is not set for stream {resource}"
            ));
        }
        if consume.no_ack {
            return Err(ProtocolError::connection(
                ReplyCode::NotImplemented,
                format!("automatic acknowledgement not supported by stream {resource}"),
            ));
        }
        if consume.arguments.get("x-priority").is_some() {
            return refuse(format!(
                "invalid arg 'x-priority' for {resource} of queue type rabbit_stream_queue"
            ));
        }
        let argument = consume.arguments.get("x-stream-offset");
        let Some(offset) = offset(argument, now) else {
            return refuse(format!(
                "invalid arg 'x-stream-offset' for {resource}: it is first, last, next, an \
                 offset, a timestamp, or an interval such as 1h"
            ));
        };
        let Ok(mut filter) = filter(&consume.arguments) else {
            return refuse(format!(
                "invalid arg 'x-stream-filter' for {resource}: at most {STREAM_FILTER_VALUES_MAX} \
                 values of {SHORT_STRING_BYTES_MAX} bytes each, {STREAM_FILTER_VALUES_BYTES_MAX} \
                 in all"
            ));
        };
        match (
            consume.arguments.get("x-stream-filter-messages"),
            &mut filter,
        ) {
            (None, _) => {}
            (Some(FieldValue::Bool(wanted)), Some(filter)) => filter.messages = *wanted,
            (Some(_), _) => {
                return refuse(format!(
                    "invalid arg 'x-stream-filter-messages' for {resource}: it is true or false, \
                     together with 'x-stream-filter'"
                ));
            }
        }
        let first = match offset {
            OffsetSpec::Offset(first) => first,
            _ => 0,
        };
        Ok(Self {
            offset,
            first,
            filter,
        })
    }
}

fn offset(argument: Option<&FieldValue>, now: Now) -> Option<OffsetSpec> {
    argument.map_or(Some(OffsetSpec::Next), |value| {
        offset_spec(value, now.wall_ms)
    })
}

/// What is asked for has more values than are kept, or a longer one.
struct TooMuch;

/// Values that are no text are passed over, as in RabbitMQ.
fn filter(arguments: &FieldTable) -> Result<Option<Filter>, TooMuch> {
    let text = |value: &FieldValue| match value {
        FieldValue::LongString(text) => Some(Bytes::copy_from_slice(text)),
        _ => None,
    };
    let values: Vec<Bytes> = match arguments.get("x-stream-filter") {
        Some(FieldValue::Array(values)) => values.iter().filter_map(text).collect(),
        Some(value @ FieldValue::LongString(_)) => text(value).into_iter().collect(),
        _ => return Ok(None),
    };
    let matches = arguments.get("x-stream-match-unfiltered");
    let filter = Filter {
        values,
        match_unfiltered: matches.and_then(FieldValue::as_bool).unwrap_or(false),
        messages: false,
    };
    match filter.is_within_bounds() {
        true => Ok(Some(filter)),
        false => Err(TooMuch),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::*;
    use leveret_types::ChannelId;

    const NOW_MS: u64 = 10_000_000;

    fn consume(arguments: &[(&str, FieldValue)]) -> Consume {
        let mut table = FieldTable::new();
        for (name, value) in arguments {
            table.set(name, value.clone());
        }
        Consume {
            channel: ChannelId(1),
            queue: "s".to_owned(),
            tag: "t".to_owned(),
            no_ack: false,
            exclusive: false,
            flow: Flow::Prefetch(10),
            arguments: table,
        }
    }

    fn read(consume: &Consume) -> Result<StreamArguments, String> {
        let read = StreamArguments::read(consume, "queue 's' in vhost '/'", Now::both(NOW_MS));
        read.map_err(|error| format!("{} {}", error.code.code(), error.text))
    }

    #[test]
    fn an_offset_is_a_word_a_number_a_time_or_an_interval() {
        let cases = [
            (Some(FieldValue::text("first")), OffsetSpec::First),
            (Some(FieldValue::text("last")), OffsetSpec::Last),
            (Some(FieldValue::text("next")), OffsetSpec::Next),
            (None, OffsetSpec::Next),
            (Some(FieldValue::I64(7)), OffsetSpec::Offset(7)),
            (Some(FieldValue::U8(7)), OffsetSpec::Offset(7)),
            (Some(FieldValue::I32(-1)), OffsetSpec::Offset(0)),
            (
                Some(FieldValue::Timestamp(9)),
                OffsetSpec::TimestampMs(9_000),
            ),
            (
                Some(FieldValue::Timestamp(u64::MAX)),
                OffsetSpec::TimestampMs(i64::MAX),
            ),
            (
                Some(FieldValue::text("5m")),
                OffsetSpec::TimestampMs(NOW_MS as i64 - 300_000),
            ),
            (Some(FieldValue::text("1Y")), OffsetSpec::TimestampMs(0)),
        ];
        for (argument, expected) in cases {
            let arguments: Vec<_> = argument
                .map(|a| ("x-stream-offset", a))
                .into_iter()
                .collect();
            let read = read(&consume(&arguments)).unwrap();
            assert_eq!(read.offset, expected);
            assert_eq!(
                read.first,
                if expected == OffsetSpec::Offset(7) {
                    7
                } else {
                    0
                }
            );
        }
        for bad in [
            FieldValue::text("bogus"),
            FieldValue::text(""),
            FieldValue::text("5x"),
            FieldValue::Bool(true),
            FieldValue::LongString(vec![0xFF]),
        ] {
            let refused = read(&consume(&[("x-stream-offset", bad)])).unwrap_err();
            assert!(
                refused.starts_with("406 invalid arg 'x-stream-offset'"),
                "{refused}"
            );
        }
    }

    #[test]
    fn what_a_stream_cannot_do_is_refused_in_rabbitmqs_words() {
        let mut without_prefetch = consume(&[]);
        without_prefetch.flow = Flow::Prefetch(0);
        let mut without_acks = consume(&[]);
        without_acks.no_ack = true;
        let with_priority = consume(&[("x-priority", FieldValue::I32(1))]);
        let cases = [
            (
                without_prefetch,
                "406 consumer prefetch count is not set for stream queue 's' in vhost '/'",
            ),
            (
                without_acks,
                "540 automatic acknowledgement not supported by stream queue 's' in vhost '/'",
            ),
            (
                with_priority,
                "406 invalid arg 'x-priority' for queue 's' in vhost '/' of queue type \
                 rabbit_stream_queue",
            ),
        ];
        for (consume, expected) in cases {
            assert_eq!(read(&consume), Err(expected.to_owned()));
        }
    }

    #[test]
    fn messages_are_filtered_where_that_is_asked_for_with_a_filter() {
        let name = "x-stream-filter-messages";
        let asked = |arguments: &[(&str, FieldValue)]| {
            let read = read(&consume(arguments));
            read.map(|arguments| arguments.filter.is_some_and(|filter| filter.messages))
        };
        let red = ("x-stream-filter", FieldValue::text("red"));
        assert_eq!(asked(std::slice::from_ref(&red)), Ok(false));
        for wanted in [true, false] {
            let arguments = [red.clone(), (name, FieldValue::Bool(wanted))];
            assert_eq!(asked(&arguments), Ok(wanted));
        }
        let without_filter = [(name, FieldValue::Bool(true))];
        let no_bool = [red, (name, FieldValue::text("true"))];
        for arguments in [&without_filter[..], &no_bool] {
            let refused = asked(arguments).unwrap_err();
            assert!(refused.starts_with("406 invalid arg 'x-stream-filter-messages'"));
        }
    }

    #[test]
    fn a_filter_is_a_text_or_several_and_bounded() {
        let filter = |value| {
            let arguments = [
                ("x-stream-filter", value),
                ("x-stream-match-unfiltered", FieldValue::Bool(true)),
            ];
            read(&consume(&arguments)).map(|arguments| arguments.filter)
        };
        let values = |values: &[&'static str]| {
            Ok(Some(Filter {
                values: values.iter().map(|v| Bytes::from(*v)).collect(),
                match_unfiltered: true,
                messages: false,
            }))
        };
        assert_eq!(filter(FieldValue::text("a")), values(&["a"]));
        let both = vec![
            FieldValue::text("a"),
            FieldValue::I8(1),
            FieldValue::text("b"),
        ];
        assert_eq!(filter(FieldValue::Array(both)), values(&["a", "b"]));
        assert_eq!(filter(FieldValue::I8(1)), Ok(None));
        let many = |count| FieldValue::Array(vec![FieldValue::text("a"); count]);
        assert!(filter(many(STREAM_FILTER_VALUES_MAX)).is_ok());
        assert!(filter(many(STREAM_FILTER_VALUES_MAX + 1)).is_err());
        assert!(filter(FieldValue::LongString(vec![b'a'; SHORT_STRING_BYTES_MAX])).is_ok());
        assert!(
            filter(FieldValue::LongString(vec![
                b'a';
                SHORT_STRING_BYTES_MAX + 1
            ]))
            .is_err()
        );
    }
}
