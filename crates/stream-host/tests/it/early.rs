//! What comes for a stream before its node has heard of it, or has been told to lead it: it waits
//! for that, for a while, where that may come at any moment.

use crate::common::{declare, end_turn, give, host, publish, subscribe_first};
use leveret_storage::MemoryDisk;
use leveret_stream::{
    BatchBuilder, Command, Epoch, Event, Events, MemberId, OffsetSpec, PublisherId, ReaderId,
    Reference, Refusal, ReplicaOrder, ReplicaOrigin, RequestId, SessionId, StoredBy,
    StreamSettings,
};
use leveret_stream_host::StreamHost;
use leveret_types::limits::{
    STREAM_EARLY_PUBLISHES_BYTES_MAX, STREAM_EARLY_READER_MS, STREAM_EARLY_READERS_MAX,
    STREAM_UNKNOWN_WAITING_MAX,
};
use leveret_types::{NodeId, Now, QueueId};

const STREAM: QueueId = QueueId(7);
const ME: NodeId = NodeId(1);
const AT: u64 = 10;

fn name() -> Reference {
    Reference::new((&b"name"[..]).into()).unwrap()
}

fn declaration(number: u32) -> Command {
    Command::DeclarePublisher {
        request: RequestId(1),
        stream: STREAM,
        publisher: PublisherId(number),
        reference: None,
    }
}

fn joining(member: u32) -> Command {
    Command::JoinGroup {
        request: RequestId(2),
        stream: STREAM,
        group: name(),
        partition: 0,
        member: MemberId(member),
    }
}

fn query_offset(stream: QueueId) -> Command {
    Command::QueryOffset {
        request: RequestId(3),
        stream,
        reference: name(),
    }
}

fn store_offset() -> Command {
    Command::StoreOffset {
        stream: STREAM,
        reference: name(),
        offset: 5,
        by: StoredBy::Anyone,
    }
}

fn query_sequence() -> Command {
    Command::QuerySequence {
        request: RequestId(4),
        stream: STREAM,
        reference: name(),
    }
}

/// What the leader of a stream alone can answer.
fn for_a_leader() -> [Command; 5] {
    [
        declaration(1),
        store_offset(),
        query_offset(STREAM),
        query_sequence(),
        joining(1),
    ]
}

fn stats() -> Command {
    Command::Stats {
        request: RequestId(5),
        stream: STREAM,
    }
}

fn resolve() -> Command {
    Command::ResolveOffset {
        request: RequestId(6),
        stream: STREAM,
        offset: OffsetSpec::First,
    }
}

/// Gives all of it; what is heard at once.
fn give_all(
    host: &mut StreamHost<MemoryDisk>,
    commands: impl IntoIterator<Item = Command>,
) -> Vec<Event> {
    let given = commands.into_iter();
    given
        .flat_map(|command| give(host, Now::both(AT), command))
        .collect()
}

/// How each event ends: what it answers, and whether it refuses.
fn told(events: &[Event]) -> Vec<String> {
    let refused = |is_refused| if is_refused { "refused" } else { "ok" };
    let told = |event: &Event| match event {
        Event::PublisherDeclared { result, .. } => format!("declare {}", refused(result.is_err())),
        Event::StoredOffset { result, .. } => match result {
            Ok(offset) => format!("offset {offset:?}"),
            Err(_) => "offset refused".to_owned(),
        },
        Event::Sequence { result, .. } => format!("sequence {}", refused(result.is_err())),
        Event::Joined { result, .. } => format!("join {}", refused(result.is_err())),
        Event::Activity { .. } => "active".to_owned(),
        Event::Subscribed { result, .. } => format!("subscribe {}", refused(result.is_err())),
        Event::Stats { result, .. } => format!("stats {}", refused(result.is_err())),
        Event::ResolvedOffset { result, .. } => format!("resolve {}", refused(result.is_err())),
        Event::Refused { .. } => "publish refused".to_owned(),
        other => format!("{other:?}"),
    };
    events.iter().map(told).collect()
}

const LED: [&str; 5] = [
    "declare ok",
    "offset Some(5)",
    "sequence ok",
    "join ok",
    "active",
];
const REFUSED: [&str; 4] = [
    "declare refused",
    "offset refused",
    "sequence refused",
    "join refused",
];

fn begin_replica(host: &mut StreamHost<MemoryDisk>) {
    let settings = StreamSettings::default();
    host.begin_replica(STREAM, settings, ME, ReplicaOrigin::NewStream)
        .unwrap();
}

fn order(host: &mut StreamHost<MemoryDisk>, order: ReplicaOrder) -> Vec<Event> {
    let mut events = Events::new();
    host.order(STREAM, order, &mut events);
    events.into_iter().map(|(_, event)| event).collect()
}

fn lead() -> ReplicaOrder {
    ReplicaOrder::Lead {
        epoch: Epoch(1),
        members: vec![ME],
    }
}

fn follow() -> ReplicaOrder {
    ReplicaOrder::Follow {
        epoch: Epoch(1),
        leader: NodeId(2),
    }
}

#[test]
fn what_comes_before_a_node_has_heard_of_a_stream_is_answered_in_its_order_once_it_has() {
    let mut host = host(&MemoryDisk::new());
    let others = [stats(), subscribe_first(STREAM, 1), resolve()];
    assert!(give_all(&mut host, for_a_leader().into_iter().chain(others)).is_empty());
    assert!(end_turn(&mut host, Now::both(AT)).is_empty());
    host.begin(STREAM, StreamSettings::default()).unwrap();
    assert_eq!(host.due_ms(), Some(0));
    let heard = told(&end_turn(&mut host, Now::both(AT)));
    assert_eq!(heard[..5], LED);
    assert_eq!(heard[5..], ["stats ok", "subscribe ok", "resolve ok"]);
    // The publisher is there.
    assert!(give(&mut host, Now::both(AT), publish(STREAM, 1..2)).is_empty());
}

#[test]
fn what_comes_behind_what_waits_does_not_overtake_it() {
    let mut host = host(&MemoryDisk::new());
    assert!(give(&mut host, Now::both(AT), store_offset()).is_empty());
    host.begin(STREAM, StreamSettings::default()).unwrap();
    let heard = give(&mut host, Now::both(AT), query_offset(STREAM));
    assert_eq!(told(&heard), ["offset Some(5)"]);
}

#[test]
fn what_comes_before_a_replica_is_told_to_lead_waits_for_that() {
    for is_heard_of in [false, true] {
        let mut host = host(&MemoryDisk::new());
        if is_heard_of {
            begin_replica(&mut host);
        }
        assert!(give_all(&mut host, for_a_leader()).is_empty());
        if !is_heard_of {
            begin_replica(&mut host);
        }
        assert!(end_turn(&mut host, Now::both(AT)).is_empty());
        assert_eq!(told(&order(&mut host, lead())), LED);
    }
}

#[test]
fn nobody_waits_at_a_replica_for_what_another_one_leads() {
    let mut host = host(&MemoryDisk::new());
    begin_replica(&mut host);
    assert!(give_all(&mut host, for_a_leader()).is_empty());
    assert_eq!(told(&order(&mut host, follow())), REFUSED);
    assert_eq!(told(&give_all(&mut host, for_a_leader())), REFUSED);
}

#[test]
fn nobody_waits_for_a_stream_that_is_deleted_or_elsewhere_or_cannot_begin() {
    let mut deleted = host(&MemoryDisk::new());
    deleted.begin(STREAM, StreamSettings::default()).unwrap();
    deleted.delete(STREAM, &mut Events::new()).unwrap();
    let mut elsewhere = host(&MemoryDisk::new());
    elsewhere.hear_of(STREAM);
    let mut later = host(&MemoryDisk::new());
    later.hear_of(QueueId(STREAM.0 + 1));
    for mut host in [deleted, elsewhere, later] {
        assert_eq!(told(&give_all(&mut host, for_a_leader())), REFUSED);
        assert_eq!(
            told(&give(&mut host, Now::both(AT), stats())),
            ["stats refused"]
        );
    }
}

#[test]
fn who_waits_is_refused_when_the_stream_turns_out_to_be_elsewhere_or_is_deleted() {
    let mut elsewhere = host(&MemoryDisk::new());
    assert!(give_all(&mut elsewhere, for_a_leader()).is_empty());
    elsewhere.hear_of(STREAM);
    assert_eq!(told(&end_turn(&mut elsewhere, Now::both(AT))), REFUSED);
    for is_begun in [false, true] {
        let mut host = host(&MemoryDisk::new());
        if is_begun {
            begin_replica(&mut host);
        }
        assert!(give_all(&mut host, for_a_leader()).is_empty());
        let mut events = Events::new();
        host.delete(STREAM, &mut events).unwrap();
        let events: Vec<Event> = events.into_iter().map(|(_, event)| event).collect();
        assert_eq!(told(&events), REFUSED);
    }
}

#[test]
fn what_operators_ask_waits_for_no_stream_and_nor_do_publishes_of_who_is_not_declared() {
    for is_heard_of in [false, true] {
        let mut host = host(&MemoryDisk::new());
        if is_heard_of {
            begin_replica(&mut host);
        }
        let published = give(&mut host, Now::both(AT), publish(STREAM, 1..2));
        assert_eq!(told(&published), ["publish refused"]);
        let mut events = Events::new();
        let operator = SessionId::Operator(1);
        host.handle(Now::both(AT), operator, query_offset(STREAM), &mut events);
        assert_eq!(events.len(), 1);
    }
}

#[test]
fn what_has_waited_in_vain_is_refused_and_no_answer_is_left_out() {
    for is_heard_of in [false, true] {
        let mut host = host(&MemoryDisk::new());
        if is_heard_of {
            begin_replica(&mut host);
            end_turn(&mut host, Now::both(AT));
        }
        assert!(give_all(&mut host, for_a_leader()).is_empty());
        let due = AT + STREAM_EARLY_READER_MS;
        assert!(end_turn(&mut host, Now::both(due - 1)).is_empty());
        assert_eq!(host.due_ms(), Some(due));
        assert_eq!(told(&end_turn(&mut host, Now::both(due))), REFUSED);
    }
}

#[test]
fn who_takes_back_what_waits_or_leaves_hears_nothing_more_of_it() {
    let delete = || Command::DeletePublisher {
        stream: STREAM,
        publisher: PublisherId(1),
    };
    let leave_group = || Command::LeaveGroup {
        stream: STREAM,
        group: name(),
        member: MemberId(1),
    };
    let unsubscribe = || Command::Unsubscribe {
        stream: STREAM,
        reader: ReaderId(1),
    };
    for is_heard_of in [false, true] {
        let waiting = |host: &mut StreamHost<MemoryDisk>| {
            if is_heard_of {
                begin_replica(host);
            }
            let subscribe = subscribe_first(STREAM, 1);
            let all = [declaration(1), joining(1), subscribe];
            assert!(give_all(host, all).is_empty());
        };
        let begin = |host: &mut StreamHost<MemoryDisk>| match is_heard_of {
            true => order(host, lead()),
            false => {
                host.begin(STREAM, StreamSettings::default()).unwrap();
                Vec::new()
            }
        };
        let mut one_by_one = host(&MemoryDisk::new());
        waiting(&mut one_by_one);
        let ends = [delete(), leave_group(), unsubscribe()];
        assert!(give_all(&mut one_by_one, ends).is_empty());
        let mut at_once = host(&MemoryDisk::new());
        waiting(&mut at_once);
        assert!(give(&mut at_once, Now::both(AT), Command::Leave).is_empty());
        for mut host in [one_by_one, at_once] {
            assert!(begin(&mut host).is_empty());
            for _ in 0..3 {
                assert!(end_turn(&mut host, Now::both(AT)).is_empty());
            }
            declare(&mut host, STREAM);
        }
    }
}

#[test]
fn as_many_wait_for_one_stream_and_for_all_that_are_not_heard_of_as_may() {
    let is_refused = |events: &[Event]| {
        let refused = |event: &&Event| {
            let Event::StoredOffset { result, .. } = event else {
                return false;
            };
            matches!(result, Err(Refusal::NotAvailable(_)))
        };
        events.iter().filter(refused).count()
    };
    let mut host = host(&MemoryDisk::new());
    let mut left = STREAM_UNKNOWN_WAITING_MAX;
    for stream in (1..).map(QueueId) {
        let count = left.min(STREAM_EARLY_READERS_MAX);
        for _ in 0..count {
            assert!(give(&mut host, Now::both(AT), query_offset(stream)).is_empty());
        }
        left -= count;
        let one_more = give(&mut host, Now::both(AT), query_offset(stream));
        assert_eq!(is_refused(&one_more), 1);
        if left == 0 {
            break;
        }
    }
    let elsewhere = QueueId(1_000_000);
    let one_more = give(&mut host, Now::both(AT), query_offset(elsewhere));
    assert_eq!(is_refused(&one_more), 1);
    // Whoever has gone makes room.
    assert!(give(&mut host, Now::both(AT), Command::Leave).is_empty());
    assert!(give(&mut host, Now::both(AT), query_offset(elsewhere)).is_empty());
    let mut replica = crate::common::host(&MemoryDisk::new());
    begin_replica(&mut replica);
    for _ in 0..STREAM_EARLY_READERS_MAX {
        assert!(give(&mut replica, Now::both(AT), query_offset(STREAM)).is_empty());
    }
    let one_more = give(&mut replica, Now::both(AT), query_offset(STREAM));
    assert_eq!(is_refused(&one_more), 1);
}

/// A replica that is not told to lead yet, or nothing that was heard of.
fn early_host(is_heard_of: bool) -> StreamHost<MemoryDisk> {
    let mut host = host(&MemoryDisk::new());
    if is_heard_of {
        begin_replica(&mut host);
    }
    host
}

/// The stream is led here.
fn lead_here(host: &mut StreamHost<MemoryDisk>, is_heard_of: bool) -> Vec<Event> {
    if !is_heard_of {
        begin_replica(host);
    }
    order(host, lead())
}

/// A publish of one entry of so many bytes.
fn publish_bytes(id: u64, bytes: usize) -> Command {
    let mut batch = BatchBuilder::new();
    assert!(batch.push(id, None, &vec![0; bytes]));
    Command::Publish {
        stream: STREAM,
        publisher: PublisherId(1),
        batch: batch.take(),
    }
}

#[test]
fn what_is_published_right_behind_a_declaration_that_waits_waits_with_it_and_is_confirmed() {
    for is_heard_of in [false, true] {
        let mut host = early_host(is_heard_of);
        let all = [
            declaration(1),
            publish(STREAM, 1..3),
            declaration(2),
            publish(STREAM, 3..4),
        ];
        assert!(give_all(&mut host, all).is_empty());
        let led = lead_here(&mut host, is_heard_of);
        assert_eq!(told(&led), ["declare ok"; 2]);
        let confirmed: Vec<u64> = (0..3)
            .flat_map(|_| end_turn(&mut host, Now::both(AT)))
            .flat_map(|event| match event {
                Event::Confirmed { ids, .. } => ids,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(confirmed, [1, 2, 3]);
    }
}

#[test]
fn what_was_published_behind_a_declaration_is_refused_with_it_and_each_has_its_answer() {
    for is_heard_of in [false, true] {
        let mut late = early_host(is_heard_of);
        assert!(give_all(&mut late, [declaration(1)]).is_empty());
        let later = Now::both(AT + 1);
        assert!(give(&mut late, later, publish(STREAM, 1..2)).is_empty());
        let due = Now::both(AT + STREAM_EARLY_READER_MS);
        let refused = ["declare refused", "publish refused"];
        assert_eq!(told(&end_turn(&mut late, due)), refused);
        let mut elsewhere = early_host(is_heard_of);
        let all = [declaration(1), publish(STREAM, 1..2)];
        assert!(give_all(&mut elsewhere, all).is_empty());
        let heard = match is_heard_of {
            true => order(&mut elsewhere, follow()),
            false => {
                elsewhere.hear_of(STREAM);
                end_turn(&mut elsewhere, Now::both(AT))
            }
        };
        assert_eq!(told(&heard), refused);
    }
}

#[test]
fn who_publishes_more_than_may_wait_is_refused_with_all_that_waits_of_it_and_nobody_else_is() {
    let half = STREAM_EARLY_PUBLISHES_BYTES_MAX / 2;
    // An entry of a batch and the command that brings it have some bytes beside their own.
    let almost_half = half - 1_024;
    for is_heard_of in [false, true] {
        let mut host = early_host(is_heard_of);
        let all = [
            declaration(1),
            declaration(2),
            publish_bytes(1, almost_half),
            publish_bytes(2, almost_half),
        ];
        assert!(give_all(&mut host, all).is_empty());
        let refused = give(&mut host, Now::both(AT), publish_bytes(3, 2_048));
        let all = ["declare refused", "publish refused"];
        assert_eq!(told(&refused)[..2], all);
        assert_eq!(told(&refused)[2..], ["publish refused"; 2]);
        // There is room again, and one always may, however large.
        let large = publish_bytes(4, STREAM_EARLY_PUBLISHES_BYTES_MAX + 1);
        assert!(give_all(&mut host, [declaration(1), large]).is_empty());
        let one_more = give(&mut host, Now::both(AT), publish_bytes(5, 1));
        assert_eq!(one_more.len(), 3);
        assert_eq!(
            told(&lead_here(&mut host, is_heard_of)),
            ["declare ok"],
            "the other publisher"
        );
    }
}

#[test]
fn what_waits_is_counted_for_all_streams_and_no_more_once_its_session_has_gone() {
    let mut host = early_host(true);
    let most = publish_bytes(1, STREAM_EARLY_PUBLISHES_BYTES_MAX - 1_024);
    assert!(give_all(&mut host, [declaration(1), most]).is_empty());
    let unheard = QueueId(STREAM.0 + 1);
    let of_another = || {
        let declaration = Command::DeclarePublisher {
            request: RequestId(1),
            stream: unheard,
            publisher: PublisherId(1),
            reference: None,
        };
        let Command::Publish {
            batch, publisher, ..
        } = publish_bytes(1, 2_048)
        else {
            unreachable!();
        };
        let publish = Command::Publish {
            stream: unheard,
            publisher,
            batch,
        };
        [declaration, publish]
    };
    assert_eq!(
        told(&give_all(&mut host, of_another())),
        ["declare refused", "publish refused"]
    );
    assert!(give_all(&mut host, [Command::Leave]).is_empty());
    assert!(give_all(&mut host, of_another()).is_empty());
}
