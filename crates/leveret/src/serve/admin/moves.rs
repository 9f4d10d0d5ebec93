//! Messages that an operator moves from a queue elsewhere, and looks at: each move is a thread of
//! its own, and there are few at a time.
//!
//! A message is put into its new queue and confirmed before it is settled where it was: it lives in
//! one of the two at every moment, and in both only if the node or the move ends between. What
//! stays is held back until the end, so that nothing is looked at twice, and then put back to its
//! place.

mod running;
mod table;

pub use table::Moves;

use super::Admin;
use super::operations::READ_WAIT;
use crate::serve::messages;
use leveret_management::api::{Actor, LookedAt, Move, MoveMessages};
use leveret_node::dead_letter::first_death;
use leveret_node::{Question, QueueAnswer};
use leveret_queue_host::quorum::protocol::Fetched;
use leveret_types::limits::QUEUE_PEEK_BYTES;
use leveret_types::{Message, ProtocolError, ReplyCode};
use running::Running;
use std::sync::Arc;
use std::time::Instant;

/// What tells a message from others: FNV-1a over its parts and their lengths. Not proof against
/// whoever makes two messages alike on purpose, which then go together.
pub(super) fn fingerprint(message: &Message) -> u64 {
    let parts = [
        message.exchange(),
        message.routing_key(),
        message.properties(),
        message.body(),
    ];
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    parts.iter().fold(0xcbf2_9ce4_8422_2325, |hash, part| {
        let length = (part.len() as u64).to_le_bytes();
        part.iter().fold(length.iter().fold(hash, fold), fold)
    })
}

/// The queue that takes a message, or why it stays where it is.
fn destination(wanted: &MoveMessages, queue: &str, message: &Message) -> Result<String, String> {
    let is_chosen = |chosen: &Vec<u64>| chosen.contains(&fingerprint(message));
    if wanted
        .chosen
        .as_ref()
        .is_some_and(|chosen| !is_chosen(chosen))
    {
        return Err("not chosen".to_owned());
    }
    let (died_in, reason) = first_death(message);
    let is_of = |wanted: &Option<String>, is: &Option<String>| wanted.is_none() || wanted == is;
    if !is_of(&wanted.from, &died_in) {
        return Err("from another queue".to_owned());
    }
    if !is_of(&wanted.reason, &reason) {
        return Err("died for another reason".to_owned());
    }
    match wanted.to.clone().or(died_in) {
        None => Err("it is not a dead letter (no x-death header): name its target".to_owned()),
        Some(to) if to == queue => Err("would come back to this queue".to_owned()),
        Some(to) => Ok(to),
    }
}

pub(super) fn refused(text: impl Into<String>) -> ProtocolError {
    ProtocolError::channel(ReplyCode::PreconditionFailed, text.into())
}

impl Admin {
    pub(super) fn start_move(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        queue: &str,
        wanted: MoveMessages,
    ) -> Result<Move, ProtocolError> {
        let caller = self.caller(actor, vhost);
        let source = caller.gettable_queue(queue, &*self.broker)?;
        // Where each goes is known later; that anything may be written is needed for all.
        let to = wanted.to.as_deref().unwrap_or(queue);
        caller.queue_to_put_into(to, &*self.broker)?;
        if wanted.to.as_deref() == Some(queue) {
            return Err(refused("messages cannot go to the queue that they are in"));
        }
        let waiting = match self.ask(source, Question::Count) {
            QueueAnswer::Counted(counts) => counts.ready,
            _ => {
                let text = format!("queue '{queue}' in vhost '{vhost}' has no leader that answers");
                return Err(refused(text));
            }
        };
        let user = match actor {
            Actor::Operator => "(operator)".to_owned(),
            Actor::User(user) => user.to_owned(),
        };
        let told = Move {
            vhost: vhost.to_owned(),
            queue: queue.to_owned(),
            user,
            messages: wanted.limit.map_or(waiting, |limit| limit.min(waiting)),
            wanted,
            begun_ms: self.broker.now().wall_ms,
            ..Move::default()
        };
        let begun = self.moves.begin(told);
        let begun = begun.map_err(|text| ProtocolError::channel(ReplyCode::ResourceError, text))?;
        let told = begun.told().clone();
        let is_operator = actor == Actor::Operator;
        let running = Running::new(&self.broker, source, Arc::clone(&begun), is_operator);
        let thread = std::thread::Builder::new().name("move".to_owned());
        if let Err(error) = thread.spawn(move || running.run()) {
            begun.fail(told.begun_ms, format!("cannot start a thread: {error}"));
        }
        Ok(told)
    }

    pub(super) fn look_into(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        queue: &str,
        before: u64,
        count: usize,
    ) -> Result<Vec<LookedAt>, ProtocolError> {
        let caller = self.caller(actor, vhost);
        let id = caller.readable_queue(queue, &*self.broker)?;
        let (mut found, mut bytes) = (Vec::new(), 0);
        let deadline = Instant::now() + READ_WAIT;
        for before in (before..).take(count) {
            match self.ask(id, Question::Peek(before)) {
                QueueAnswer::Peeked(Fetched::Message(message)) => {
                    let shown = messages::to_operator(&message, false, before);
                    bytes += shown.shown_bytes();
                    found.push(LookedAt {
                        fingerprint: fingerprint(&message),
                        taken_ms: message.summary.published_ms,
                        message: shown,
                    });
                }
                QueueAnswer::Peeked(Fetched::Gone) => break,
                _ if !found.is_empty() => break,
                QueueAnswer::Peeked(Fetched::Unreadable) => {
                    return Err(refused(format!("a message of '{queue}' cannot be read")));
                }
                _ => {
                    let text = format!("queue '{queue}' in '{vhost}' has no leader that answers");
                    return Err(ProtocolError::channel(ReplyCode::ResourceError, text));
                }
            }
            if bytes >= QUEUE_PEEK_BYTES || Instant::now() >= deadline {
                break;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_management::api::Publish;
    use leveret_types::{FieldTable, FieldValue, Now};

    fn message(headers: FieldTable, payload: &str) -> Message {
        let publish = Publish {
            exchange: String::new(),
            routing_key: "dead".to_owned(),
            properties: FieldTable::from([("headers", FieldValue::Table(headers))]),
            payload: payload.as_bytes().to_vec(),
        };
        messages::from_operator(&publish, Now::default()).expect("a message")
    }

    #[test]
    fn messages_go_where_they_came_from_or_where_somebody_says() {
        let dead = message(
            FieldTable::from([
                ("x-first-death-queue", FieldValue::text("orders")),
                ("x-first-death-reason", FieldValue::text("rejected")),
            ]),
            "x",
        );
        let alive = message(FieldTable::new(), "x");
        let text = |text: &str| Some(text.to_owned());
        let all = MoveMessages::default();
        let to = |wanted: &MoveMessages, message| destination(wanted, "dead", message);
        let orders = Ok("orders".to_owned());
        assert_eq!(to(&all, &dead), orders);
        let fits = MoveMessages {
            from: text("orders"),
            reason: text("rejected"),
            chosen: Some(vec![1, fingerprint(&dead)]),
            ..all.clone()
        };
        assert_eq!(to(&fits, &dead), orders);
        let other = MoveMessages {
            to: text("other"),
            ..all.clone()
        };
        assert_eq!(to(&other, &alive), Ok("other".to_owned()));
        let (mut from, mut reason, mut chosen) = (all.clone(), all.clone(), all.clone());
        let mut back = all.clone();
        from.from = text("invoices");
        reason.reason = text("expired");
        chosen.chosen = Some(vec![fingerprint(&alive)]);
        back.to = text("dead");
        for (wanted, message, why) in [
            (&from, &dead, "from another queue"),
            (&reason, &dead, "died for another reason"),
            (&chosen, &dead, "not chosen"),
            (&back, &dead, "would come back to this queue"),
            (
                &all,
                &alive,
                "it is not a dead letter (no x-death header): name its target",
            ),
        ] {
            assert_eq!(to(wanted, message), Err(why.to_owned()));
        }
    }

    #[test]
    fn a_fingerprint_is_of_all_parts() {
        let one = message(FieldTable::new(), "x");
        assert_eq!(
            fingerprint(&one),
            fingerprint(&message(FieldTable::new(), "x"))
        );
        let headers = FieldTable::from([("a", FieldValue::Bool(true))]);
        for other in [message(FieldTable::new(), "y"), message(headers, "x")] {
            assert_ne!(fingerprint(&one), fingerprint(&other));
        }
    }
}
