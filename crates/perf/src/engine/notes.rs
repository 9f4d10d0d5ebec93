//! What a reader must know of a load that did not go as it was meant to.

use crate::result::Second;
use crate::spec::Load;
use crate::stamp::{AGE_US_MAX, SEQUENCE_MAX};

/// The notes on a load whose publishers sent so many messages each, to so many queues each.
pub fn notes(load: &Load, published: &[u64], copies: u64, seconds: &[Second]) -> Vec<String> {
    let said = [
        short_of_count(load, published),
        out_of_sequences(load, published),
        // Ages are known where all that was sent comes.
        (load.verify && load.consumers >= load.queues)
            .then(|| too_old(seconds, copies))
            .flatten(),
    ];
    let said = said.into_iter().flatten();
    said.map(|note| format!("load `{}`: {note}", load.name))
        .collect()
}

fn short_of_count(load: &Load, published: &[u64]) -> Option<String> {
    let count = load.count?;
    let sent: u64 = published.iter().sum();
    published.iter().any(|sent| *sent < count).then(|| {
        let wanted = count.saturating_mul(published.len() as u64);
        format!("the time was over before its count was reached: {sent} of {wanted} messages sent")
    })
}

fn out_of_sequences(load: &Load, published: &[u64]) -> Option<String> {
    let last = u64::from(SEQUENCE_MAX);
    let ended = published.iter().filter(|sent| **sent >= last).count();
    (ended > 0 && load.count != Some(last))
        .then(|| format!("{ended} publishers ended at {last} messages, the most that one can send"))
}

/// Whether messages waited for longer than their stamps can say, if they came in the order in which
/// they were sent.
fn too_old(seconds: &[Second], copies: u64) -> Option<String> {
    let mut sent = seconds.iter();
    let mut published = 0;
    let mut consumed = 0;
    let mut sent_at_s = 0.0;
    let mut age_s_max = 0.0_f64;
    for second in seconds {
        let first_time = second.consumed.saturating_sub(second.redelivered);
        consumed += first_time;
        if first_time == 0 {
            continue;
        }
        while published < consumed / copies.max(1)
            && let Some(earlier) = sent.next()
        {
            published += earlier.published;
            sent_at_s = earlier.at_s;
        }
        age_s_max = age_s_max.max(second.at_s - sent_at_s);
    }
    (age_s_max > AGE_US_MAX as f64 / 1e6).then(|| {
        let minutes = AGE_US_MAX / 60_000_000;
        format!(
            "messages waited for {:.0} minutes: those that waited for more than {minutes} count \
             with an end-to-end latency that is too small",
            age_s_max / 60.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(count: Option<u64>) -> Load {
        Load {
            count,
            ..Load::default()
        }
    }

    #[test]
    fn a_count_that_was_not_reached_is_noted() {
        let expected = "load `load`: the time was over before its count was reached: 7 of 10 \
                        messages sent";
        assert_eq!(notes(&load(Some(5)), &[5, 2], 1, &[]), [expected]);
        assert_eq!(notes(&load(Some(5)), &[5, 5], 1, &[]), [""; 0]);
        assert_eq!(notes(&load(None), &[5, 2], 1, &[]), [""; 0]);
    }

    #[test]
    fn a_publisher_without_further_sequences_is_noted() {
        let last = u64::from(SEQUENCE_MAX);
        let found = notes(&load(None), &[last, 7], 1, &[]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("1 publishers ended at 4294967295"));
        assert_eq!(notes(&load(Some(last)), &[last], 1, &[]), [""; 0]);
    }

    #[test]
    fn messages_older_than_a_stamp_can_say_are_noted() {
        // A hundred messages in the first minute, and then nothing until they are consumed.
        let run = |load: &Load, minutes: u32, copies: u64| {
            let second = |at: u32| Second {
                at_s: f64::from(at) * 60.0,
                published: if at == 1 { 100 } else { 0 },
                consumed: if at == minutes { 100 * copies } else { 0 },
                ..Second::default()
            };
            let seconds: Vec<Second> = (1..=minutes).map(second).collect();
            notes(load, &[100], copies, &seconds)
        };
        let all = load(None);
        assert_eq!(run(&all, 70, 1), [""; 0]);
        for copies in [1, 3] {
            let found = run(&all, 90, copies);
            assert_eq!(found.len(), 1);
            assert!(
                found[0].contains("messages waited for 89 minutes"),
                "{found:?}"
            );
        }
        // Where messages are dropped, or not all queues are consumed, nobody knows how old one is.
        let dropping = Load {
            verify: false,
            ..load(None)
        };
        let partly = Load {
            queues: 2,
            ..load(None)
        };
        for load in [dropping, partly] {
            assert_eq!(run(&load, 90, 1), [""; 0]);
        }
    }
}
