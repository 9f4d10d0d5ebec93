//! Publishes that arrive while their stream gets another leader.

use super::{Play, declare, publish};
use leveret_stream::{Event, Refusal};
use leveret_types::QueueId;
use leveret_types::limits::{STREAM_LOSS_NOTICE_MS, STREAM_LOST_PUBLISHER_MS};

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

/// What a node says that does not know the publisher, and one that does not lead its stream.
fn losses() -> [Refusal; 2] {
    let reason = "this node has no leader of it".to_owned();
    [Refusal::Id, Refusal::NotAvailable(reason)]
}

/// Publishes 5 and 6, which meet no leader that knows their publisher.
fn publish_in_vain(play: &mut Play, refusal: Refusal) {
    play.bytes(publish(1, &[5, 6]));
    play.expect(&["! publish 7 [5, 6] [None, None]"]);
    let publisher = play.node.publishers[0];
    play.hear(Event::Refused {
        publisher,
        ids: vec![5, 6],
        refusal,
    });
    play.expect(&[]);
}

#[test]
fn what_reaches_a_leader_that_has_just_gone_or_one_that_does_not_lead_yet_is_left_unanswered() {
    for refusal in losses() {
        let mut play = Play::with_stream();
        publish_in_vain(&mut play, refusal);
        play.hear(Event::Lost { stream: QueueId(7) });
        play.expect(&["! no reader of 7", "> gone s STREAM_NOT_AVAILABLE"]);
        play.tick(STREAM_LOSS_NOTICE_MS);
        play.expect(&[]);
    }
}

#[test]
fn who_publishes_in_vain_hears_once_that_the_stream_is_lost_though_its_old_leader_never_says_so() {
    for refusal in losses() {
        let mut play = Play::with_stream();
        publish_in_vain(&mut play, refusal.clone());
        play.tick(STREAM_LOSS_NOTICE_MS - 1);
        play.expect(&[]);
        publish_in_vain(&mut play, refusal);
        play.tick(1);
        play.expect(&["! no reader of 7", "> gone s STREAM_NOT_AVAILABLE"]);
        play.tick(STREAM_LOSS_NOTICE_MS);
        play.hear(Event::Lost { stream: QueueId(7) });
        play.expect(&[]);
    }
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
