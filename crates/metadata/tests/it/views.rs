//! Views of streams: what may be one, what may be done to it, and what ends it.

use crate::world::check;

const STREAM: &str = "queue s durable x-queue-type=stream";

fn after_stream(script: &str, answers: &str) {
    check(&format!("{STREAM}; {script}"), &format!("new\n {answers}"));
}

#[test]
fn a_classic_queue_with_a_source_is_a_view_of_that_stream() {
    after_stream(
        "queue v durable x-stream-source=s; queue v durable x-stream-source=s; queue w x-stream-source=s; queues",
        "new\n ok\n new\n s v w",
    );
    check(
        "queue v durable x-stream-source=s",
        "404 no queue 's' in vhost '/'",
    );
    check(
        "queue q durable; queue v durable x-stream-source=q",
        "new\n 406 queue 'q' in vhost '/', of which queue 'v' in vhost '/' is to be a view, is no stream",
    );
    after_stream(
        "queue v durable x-queue-type=stream x-stream-source=s",
        "406 invalid arg 'x-stream-source' for queue 'v' in vhost '/': \"a stream is no view of another one\"",
    );
}

#[test]
fn a_queue_and_a_view_of_one_name_are_not_the_same() {
    let none = "406 inequivalent arg 'x-stream-source' for queue 'v' in vhost '/': received";
    after_stream(
        "queue v durable; queue v durable x-stream-source=s",
        &format!("new\n {none} the value 's' of type 'longstr' but current is none"),
    );
    after_stream(
        "queue v durable x-stream-source=s; queue v durable",
        &format!("new\n {none} none but current is the value 's' of type 'longstr'"),
    );
}

#[test]
fn a_quorum_queue_is_a_view_too_and_keeps_what_is_said_of_its_group() {
    after_stream(
        "queue v durable x-queue-type=quorum x-stream-source=s; \
         queue v durable x-queue-type=quorum x-stream-source=s; \
         queue w durable x-queue-type=quorum x-stream-source=s x-quorum-initial-group-size=3 \
         x-dead-letter-strategy=at-least-once; \
         delete-queue s; queues",
        "new\n ok\n new\n ok\n none",
    );
    for argument in [
        "x-message-ttl=1",
        "x-max-length=1",
        "x-overflow=reject-publish",
    ] {
        let name = argument.split('=').next().expect("a name");
        after_stream(
            &format!("queue v durable x-queue-type=quorum x-stream-source=s {argument}"),
            &format!(
                "406 invalid arg '{name}' for queue 'v' in vhost '/', which is a view of a stream: \
                 a view does not take this argument; set it on the stream, or leave it out"
            ),
        );
    }
}

#[test]
fn what_only_a_stream_can_say_is_refused() {
    for argument in [
        "x-message-ttl=1",
        "x-max-length=1",
        "x-max-priority=1",
        "x-max-age=1D",
    ] {
        let name = argument.split('=').next().expect("a name");
        after_stream(
            &format!("queue v durable x-stream-source=s {argument}"),
            &format!(
                "406 invalid arg '{name}' for queue 'v' in vhost '/', which is a view of a stream: \
                 a view does not take this argument; set it on the stream, or leave it out"
            ),
        );
    }
    after_stream(
        "queue v durable x-stream-source=s x-delivery-limit=3 x-expires=1000 x-stream-offset=next",
        "new",
    );
    after_stream(
        "queue v durable x-stream-source=s x-stream-offset=soon",
        "406 invalid arg 'x-stream-offset' for queue 'v' in vhost '/': invalid_stream_offset",
    );
}

#[test]
fn a_view_goes_with_its_stream_and_is_not_bound() {
    after_stream(
        "queue v durable x-stream-source=s; queue w durable x-stream-source=s; queue q durable; delete-queue s; queues",
        "new\n new\n new\n ok\n q",
    );
    after_stream(
        "queue v durable x-stream-source=s; bind amq.topic v k",
        "new\n 406 queue 'v' in vhost '/' is a view of the stream 's': nothing is bound to a view, bind the stream",
    );
}

#[test]
fn a_stream_that_goes_takes_its_own_views_alone() {
    after_stream(
        "queue t durable x-queue-type=stream; queue v durable x-stream-source=s; \
         queue w durable x-stream-source=t; queue u x-stream-source=s; queue q durable; \
         delete-queue v; delete-queue s; queues; delete-queue t; queues",
        "new\n new\n new\n new\n new\n ok\n ok\n q t w\n ok\n q",
    );
}
