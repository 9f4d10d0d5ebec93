//! What publishers send while their stream gets another leader.

use super::{Play, declare, publish};
use leveret_stream::{Event, Refusal};
use leveret_types::QueueId;
use leveret_types::limits::STREAM_LOST_PUBLISHER_MS;

#[test]
fn what_was_sent_before_a_client_knew_that_a_leader_was_lost_is_not_refused() {
    let mut play = Play::with_stream();
    play.bytes(publish(1, &[5]));
    play.expect(&["! publish 7 [5] [None]"]);
    play.hear(Event::Lost { stream: QueueId(7) });
    play.expect(&["! no reader of 7", "> gone s STREAM_NOT_AVAILABLE"]);
    // Under its own id it would be refused, what is behind it stored, and it taken for a duplicate.
    play.bytes(publish(1, &[6, 7]));
    play.expect(&[]);
    // A publisher that was never there is told so all the same.
    play.bytes(publish(2, &[1]));
    play.expect(&[r#"> error 2 [(1, "PUBLISHER_DOES_NOT_EXIST")]"#]);
    play.say(&declare(1, "", "s"));
    play.answer(|request| Event::Found {
        request,
        result: Ok(QueueId(7)),
    });
    play.answer(|request| Event::PublisherDeclared {
        request,
        result: Ok(()),
    });
    play.expect(&[
        "! look up / s",
        "! publisher of 7 None",
        "> DeclarePublisher OK",
    ]);
    play.bytes(publish(1, &[5]));
    play.expect(&["! publish 7 [5] [None]"]);
}

#[test]
fn what_reaches_a_leader_that_has_just_gone_is_left_unanswered() {
    let mut play = Play::with_stream();
    play.bytes(publish(1, &[5, 6]));
    play.expect(&["! publish 7 [5, 6] [None, None]"]);
    let publisher = play.node.publishers[0];
    play.hear(Event::Refused {
        publisher,
        ids: vec![5, 6],
        refusal: Refusal::Id,
    });
    play.expect(&[]);
    play.hear(Event::Lost { stream: QueueId(7) });
    play.expect(&["! no reader of 7", "> gone s STREAM_NOT_AVAILABLE"]);
}

#[test]
fn who_publishes_on_long_after_a_leader_was_lost_is_refused() {
    let mut play = Play::with_stream();
    play.hear(Event::Lost { stream: QueueId(7) });
    play.expect(&["! no reader of 7", "> gone s STREAM_NOT_AVAILABLE"]);
    play.tick(STREAM_LOST_PUBLISHER_MS - 1);
    play.bytes(publish(1, &[5]));
    play.expect(&[]);
    play.tick(1);
    play.bytes(publish(1, &[6]));
    play.expect(&[r#"> error 1 [(6, "PUBLISHER_DOES_NOT_EXIST")]"#]);
}

#[test]
fn what_is_published_to_a_stream_that_was_deleted_is_refused_at_once() {
    let mut play = Play::with_stream();
    play.hear(Event::Gone { stream: QueueId(7) });
    play.expect(&["> gone s STREAM_NOT_AVAILABLE"]);
    play.bytes(publish(1, &[5]));
    play.expect(&[r#"> error 1 [(5, "PUBLISHER_DOES_NOT_EXIST")]"#]);
}
