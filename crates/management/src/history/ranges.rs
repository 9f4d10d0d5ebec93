//! Over which time an answer is to show figures, as a query says it.

use crate::history::samples::Range;
use crate::http::input::Query;
use crate::http::reply::ApiError;
use leveret_types::limits::SAMPLES_SHOWN_MAX;
use serde::{Deserialize, Serialize};

/// A part of an answer that is asked for over time by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// What happened to messages.
    Messages,
    /// How many messages there are.
    Lengths,
    /// Bytes of connections.
    Data,
    /// How the node is.
    Node,
    /// What came and went at the node.
    Churn,
    /// Messages through an exchange.
    Exchange,
}

/// Over which time an answer is to show figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ranges {
    messages: Option<(u64, u64)>,
    lengths: Option<(u64, u64)>,
    data: Option<(u64, u64)>,
    node: Option<(u64, u64)>,
}

impl Ranges {
    /// What a query asks for.
    ///
    /// # Errors
    /// If an age or a distance makes no sense, or there would be more than [`SAMPLES_SHOWN_MAX`].
    pub fn of(query: &Query) -> Result<Self, ApiError> {
        Ok(Self {
            messages: range(query, "msg_rates")?,
            lengths: range(query, "lengths")?,
            data: range(query, "data_rates")?,
            node: range(query, "node_stats")?,
        })
    }

    /// Whether anything is asked for over time.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn of_part(&self, part: Part) -> Option<Range> {
        let (age_s, step_s) = match part {
            Part::Messages | Part::Exchange | Part::Churn => self.messages,
            Part::Lengths => self.lengths,
            Part::Data => self.data,
            Part::Node => self.node,
        }?;
        Some(Range {
            age_ms: age_s * 1_000,
            step_ms: step_s * 1_000,
        })
    }
}

fn range(query: &Query, prefix: &str) -> Result<Option<(u64, u64)>, ApiError> {
    let number = |what: &str| query.get(&format!("{prefix}_{what}"));
    let (Some(age), Some(incr)) = (number("age"), number("incr")) else {
        return Ok(None);
    };
    // As RabbitMQ: what is no number asks for nothing.
    let (Ok(age_s), Ok(step_s)) = (age.parse::<i64>(), incr.parse::<i64>()) else {
        return Ok(None);
    };
    let both = (u64::try_from(age_s).ok(), u64::try_from(step_s).ok());
    match both {
        (Some(age), Some(step))
            if age > 0
                && (1..=u64::from(u32::MAX)).contains(&step)
                && age <= u64::from(u32::MAX)
                && age / step <= SAMPLES_SHOWN_MAX =>
        {
            Ok(Some((age, step)))
        }
        _ => Err(ApiError::BadRequest(format!(
            "Invalid range parameters: age {age_s}, incr {step_s}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(query: &str) -> Result<Ranges, ApiError> {
        Ranges::of(&Query::parse(query).expect("a query"))
    }

    #[test]
    fn ranges_are_bounded_and_both_numbers_are_needed() {
        let most = format!("msg_rates_age={SAMPLES_SHOWN_MAX}&msg_rates_incr=1");
        assert!(ranges(&most).is_ok_and(|ranges| !ranges.is_none()));
        for refused in [
            format!("msg_rates_age={}&msg_rates_incr=1", SAMPLES_SHOWN_MAX + 1),
            "lengths_age=60&lengths_incr=0".to_owned(),
            "data_rates_age=0&data_rates_incr=5".to_owned(),
            "node_stats_age=-60&node_stats_incr=5".to_owned(),
            "node_stats_age=99999999999999&node_stats_incr=99999999999999".to_owned(),
        ] {
            assert!(
                matches!(ranges(&refused), Err(ApiError::BadRequest(_))),
                "{refused}"
            );
        }
        for nothing in [
            "",
            "lengths_age=60",
            "lengths_incr=5",
            "lengths_age=x&lengths_incr=5",
        ] {
            assert!(ranges(nothing).is_ok_and(|ranges| ranges.is_none()));
        }
    }
}
