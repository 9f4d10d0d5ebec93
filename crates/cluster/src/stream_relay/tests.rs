//! Two nodes whose sessions use each other's streams.

use super::frame::Frame;
use super::fuzz::{
    PUBLISHER, SESSION, STREAM, bytes_of, chunk_event, commands, declare, every_frame,
    frame as fuzz, publish,
};
use super::*;
use leveret_stream::{Event, ReaderId, Refusal, RequestId};
use leveret_types::ConnectionId;
use std::cell::RefCell;

const HERE: NodeId = NodeId(1);
const THERE: NodeId = NodeId(2);

/// A publish that counts so many bytes.
fn publish_of(bytes: usize) -> Command {
    let least = command_bytes(&publish(0));
    let publish = publish(bytes - least);
    assert_eq!(command_bytes(&publish), bytes);
    publish
}

#[test]
fn every_frame_is_decoded_to_what_it_was_and_no_part_of_it_is_one() {
    for frame in every_frame() {
        let bytes = bytes_of(&frame.encode());
        let decoded = Frame::decode(Bytes::from(bytes.clone())).expect("a frame");
        assert_eq!(format!("{decoded:?}"), format!("{frame:?}"));
        fuzz(&bytes);
        for end in 0..bytes.len() {
            // The list of numbers ends with its frame: a shorter one is a frame too.
            fuzz(&bytes[..end]);
        }
        for bit in 0..bytes.len().min(64) * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            fuzz(&bad);
        }
    }
}

/// Two nodes; the stream is on the second one.
struct Two {
    here: StreamRelay,
    there: StreamRelay,
    /// What was posted, and by which node.
    wire: RefCell<Vec<(NodeId, PeerFrame)>>,
}

impl Two {
    fn new() -> Self {
        let two = Self {
            here: StreamRelay::default(),
            there: StreamRelay::default(),
            wire: RefCell::default(),
        };
        let (leader, is_here) = (THERE, false);
        two.here
            .set_location(STREAM, Some(StreamLocation { leader, is_here }));
        let clients = ClientAddresses::default();
        two.here.peer_up(THERE, &clients, &two.post());
        two.there.peer_up(HERE, &clients, &two.post());
        two.carry();
        two
    }

    fn post(&self) -> impl Fn(NodeId, PeerFrame) {
        |to, frame| self.wire.borrow_mut().push((to, frame))
    }

    /// Brings all that was posted to its node; what is to be done there: at the first, at the
    /// second node.
    fn carry(&self) -> (Vec<Effect>, Vec<Effect>) {
        let (mut here, mut there) = (Vec::new(), Vec::new());
        loop {
            let frames = std::mem::take(&mut *self.wire.borrow_mut());
            if frames.is_empty() {
                return (here, there);
            }
            for (to, frame) in frames {
                assert_eq!(frame.queue, STREAM_LINK);
                let bytes = Bytes::from(bytes_of(&frame));
                match to {
                    HERE => here.extend(self.here.receive(THERE, bytes, &self.post())),
                    _ => there.extend(self.there.receive(HERE, bytes, &self.post())),
                }
            }
        }
    }

    fn say(&self, command: Command) -> Said {
        self.here.say(SESSION, command, &self.post())
    }

    /// What the second node is told by its sessions of the first one.
    fn said(&self) -> Vec<Command> {
        let said = |effect| match effect {
            Effect::Say(_, SESSION, command) => command,
            other => panic!("{other:?}"),
        };
        self.carry().1.into_iter().map(said).collect()
    }

    fn link(&self) -> PeerLink {
        let link = self.there.state().peers[&HERE].link;
        PeerLink { node: HERE, link }
    }

    fn hear(&self, event: Event) {
        self.there.hear(self.link(), SESSION, event, &self.post());
    }

    /// What the first node's session hears.
    fn events(&self) -> Vec<Event> {
        let events = |effect| match effect {
            Effect::Hear(SESSION, event) => event,
            other => panic!("{other:?}"),
        };
        self.carry().0.into_iter().map(events).collect()
    }
}

#[test]
fn what_is_for_a_stream_of_this_node_or_of_nobody_comes_back() {
    let two = Two::new();
    two.here.set_location(STREAM, None);
    assert!(matches!(two.say(declare(1)), Said::Here(_)));
    assert!(two.said().is_empty());
}

#[test]
fn commands_arrive_in_their_order_and_their_answers_come_back() {
    let two = Two::new();
    for command in [declare(1), publish(10)] {
        assert!(matches!(two.say(command), Said::Sent));
    }
    assert!(matches!(
        two.said()[..],
        [Command::DeclarePublisher { .. }, Command::Publish { .. }]
    ));
    two.hear(Event::PublisherDeclared {
        request: RequestId(1),
        result: Ok(()),
    });
    let ids = vec![3];
    let publisher = PUBLISHER;
    two.hear(Event::Confirmed { publisher, ids });
    assert!(matches!(
        two.events()[..],
        [Event::PublisherDeclared { .. }, Event::Confirmed { .. }]
    ));
}

#[test]
fn a_lost_link_answers_what_was_asked_and_confirms_nothing() {
    let two = Two::new();
    two.say(declare(1));
    two.hear(Event::PublisherDeclared {
        request: RequestId(1),
        result: Ok(()),
    });
    two.carry();
    two.say(publish(10));
    let stats = Command::Stats {
        request: RequestId(1),
        stream: STREAM,
    };
    two.say(stats);
    let effects = two.here.peer_down(THERE);
    assert!(
        matches!(
            &effects[..],
            [
                Effect::Hear(
                    SESSION,
                    Event::Stats {
                        result: Err(Refusal::NotAvailable(_)),
                        ..
                    }
                ),
                Effect::Hear(SESSION, Event::Lost { stream: STREAM }),
                Effect::Left(_)
            ]
        ),
        "{effects:?}"
    );
    let refused = two.say(publish(10));
    assert!(matches!(
        refused,
        Said::Refused(Some(Event::Refused {
            refusal: Refusal::NotAvailable(_),
            ..
        }))
    ));
    assert!(two.here.peer_down(THERE).len() == 1, "told once");
}

/// Its publisher was declared while the node was not reached: the node does not know it.
#[test]
fn who_has_only_published_over_a_link_hears_that_it_is_lost() {
    let two = Two::new();
    two.here.peer_down(THERE);
    assert!(matches!(two.say(declare(1)), Said::Refused(_)));
    two.here
        .peer_up(THERE, &ClientAddresses::default(), &two.post());
    assert!(matches!(two.say(publish(10)), Said::Sent));
    let effects = two.here.peer_down(THERE);
    let is_news = |effect: &Effect| {
        matches!(
            effect,
            Effect::Hear(SESSION, Event::Lost { stream: STREAM })
        )
    };
    assert!(effects.iter().any(is_news), "{effects:?}");
}

#[test]
fn a_node_whose_link_is_lost_lets_its_sessions_go_and_tells_them_nothing_more() {
    let two = Two::new();
    two.say(declare(1));
    two.said();
    let before = two.link();
    let left = two.there.peer_down(HERE);
    assert!(matches!(left[..], [Effect::Left(link)] if link == before));
    two.there
        .peer_up(HERE, &ClientAddresses::default(), &two.post());
    two.carry();
    let event = Event::Gone { stream: STREAM };
    two.there.hear(before, SESSION, event, &two.post());
    assert!(two.events().is_empty());
}

#[test]
fn publishes_on_their_way_are_bounded_and_who_waits_hears_of_room() {
    let two = Two::new();
    let half = STREAM_RELAY_BYTES_MAX / 2;
    assert!(matches!(two.say(publish_of(half)), Said::Sent));
    assert!(matches!(two.say(publish_of(half + 1)), Said::NoRoom(_)));
    assert!(matches!(two.say(publish_of(half)), Said::Sent));
    assert!(matches!(two.say(publish_of(300)), Said::NoRoom(_)));
    // Who reads waits for no publisher.
    assert!(matches!(two.say(subscribe(1)), Said::Sent));
    two.said();
    let half = half as u64;
    two.there.taken(two.link(), half - 1, 0, &two.post());
    assert!(two.carry().0.is_empty());
    two.there.taken(two.link(), 1, 0, &two.post());
    assert!(matches!(two.carry().0[..], [Effect::Room(SESSION)]));
    assert!(matches!(two.say(publish_of(300)), Said::Sent));
}

#[test]
fn one_publish_may_be_larger_than_the_room() {
    let two = Two::new();
    let large = publish_of(2 * STREAM_RELAY_BYTES_MAX);
    assert!(matches!(two.say(large), Said::Sent));
    assert!(matches!(two.say(publish_of(300)), Said::NoRoom(_)));
}

#[test]
fn chunks_that_have_no_room_wait_in_their_order_and_confirms_pass_them() {
    let two = Two::new();
    two.say(declare(1));
    two.said();
    let size = STREAM_RELAY_BYTES_MAX / 8;
    for _ in 0..20 {
        two.hear(chunk_event(size));
    }
    let (reader, refusal) = (ReaderId(4), Refusal::NotFound);
    two.hear(Event::ReaderEnded { reader, refusal });
    let (publisher, ids) = (PUBLISHER, vec![1]);
    two.hear(Event::Confirmed { publisher, ids });
    let on_the_way: usize = two.wire.borrow().iter().map(|(_, frame)| frame.len()).sum();
    assert!(on_the_way <= STREAM_RELAY_BYTES_MAX + 1024, "{on_the_way}");
    let events = two.events();
    let place = |wanted: fn(&Event) -> bool| events.iter().position(wanted);
    let confirmed = place(|event| matches!(event, Event::Confirmed { .. }));
    assert!(confirmed < Some(10), "{confirmed:?}");
    let ended = place(|event| matches!(event, Event::ReaderEnded { .. }));
    assert_eq!(ended, Some(events.len() - 1));
    assert_eq!(events.len(), 22, "all of them in the end");
}

#[test]
fn a_frame_that_makes_no_sense_ends_what_the_nodes_have_with_each_others_streams() {
    let two = Two::new();
    two.say(declare(1));
    two.said();
    let before = two.link();
    let bad = Bytes::from_static(&[1, 2, 3]);
    let effects = two.there.receive(HERE, bad, &two.post());
    assert!(matches!(effects[..], [Effect::Left(link)] if link == before));
    let (here, _) = two.carry();
    assert!(
        matches!(
            &here[..],
            [
                Effect::Hear(_, Event::PublisherDeclared { result: Err(_), .. }),
                Effect::Hear(_, Event::Lost { .. }),
                Effect::Left(_)
            ]
        ),
        "{here:?}"
    );
    assert!(matches!(two.say(declare(2)), Said::Sent), "it goes on");
    let (_, there) = two.carry();
    assert!(matches!(there[..], [Effect::Say(link, ..)] if link != before));
}

#[test]
fn a_session_that_leaves_says_what_waited_and_hears_nothing_more() {
    let two = Two::new();
    two.say(declare(1));
    two.said();
    let own = Command::Stats {
        request: RequestId(1),
        stream: QueueId(0x800).of_stream(),
    };
    let here = two.here.leave(SESSION, [publish(10), own], &two.post());
    assert!(matches!(here[..], [Command::Stats { .. }]));
    assert!(matches!(
        two.said()[..],
        [Command::Publish { .. }, Command::Leave]
    ));
    two.hear(Event::Gone { stream: STREAM });
    assert!(two.events().is_empty());
    assert!(two.here.leave(SESSION, [], &two.post()).is_empty());
    assert!(two.said().is_empty(), "it has nothing there");
}

#[test]
fn a_node_says_where_its_clients_reach_it_and_is_remembered_while_it_is_down() {
    let two = Two::new();
    let address = ClientAddresses {
        plain: Some(("broker-2".to_owned(), 5552)),
        tls: None,
    };
    two.there.peer_up(HERE, &address, &two.post());
    two.carry();
    two.here.peer_down(THERE);
    assert_eq!(two.here.clients(THERE), Some(address));
}

#[test]
fn readers_read_the_replica_of_their_own_node_and_publishers_reach_the_leader() {
    let two = Two::new();
    let (leader, is_here) = (THERE, true);
    two.here
        .set_location(STREAM, Some(StreamLocation { leader, is_here }));
    for command in commands() {
        let of_reader = matches!(
            command,
            Command::Credit { .. } | Command::Unsubscribe { .. } | Command::Leave
        );
        let reads = reads(&command) || of_reader;
        let said = two.say(command);
        assert_eq!(matches!(said, Said::Here(_)), reads, "{said:?}");
    }
}

fn subscribe(reader: u32) -> Command {
    Command::Subscribe {
        request: RequestId(reader.into()),
        stream: STREAM,
        reader: ReaderId(reader),
        offset: leveret_stream::OffsetSpec::First,
        credit: 1,
        filter: None,
    }
}

fn credit(reader: u32) -> Command {
    Command::Credit {
        stream: STREAM,
        reader: ReaderId(reader),
        chunks: 1,
    }
}

#[test]
fn what_is_said_of_a_reader_goes_where_it_was_opened() {
    let two = Two::new();
    two.say(subscribe(1));
    let elsewhere = NodeId(3);
    for (leader, is_here) in [(THERE, true), (elsewhere, false)] {
        two.here
            .set_location(STREAM, Some(StreamLocation { leader, is_here }));
        assert!(matches!(two.say(credit(1)), Said::Sent), "{leader}");
    }
    assert_eq!(two.said().len(), 3);

    let (leader, is_here) = (elsewhere, true);
    two.here
        .set_location(STREAM, Some(StreamLocation { leader, is_here }));
    assert!(matches!(two.say(subscribe(2)), Said::Here(_)));
    let (leader, is_here) = (THERE, false);
    two.here
        .set_location(STREAM, Some(StreamLocation { leader, is_here }));
    assert!(matches!(two.say(credit(2)), Said::Here(_)));

    let unsubscribe = || Command::Unsubscribe {
        stream: STREAM,
        reader: ReaderId(1),
    };
    let (session, unsaid) = (SESSION, [unsubscribe()]);
    assert!(two.here.leave(session, unsaid, &two.post()).is_empty());
    assert!(matches!(
        two.said()[..],
        [Command::Unsubscribe { .. }, Command::Leave]
    ));
    assert!(matches!(two.say(unsubscribe()), Said::Here(_)));
}

/// Nodes of older versions know sessions by the same numbers.
#[test]
fn connections_and_queues_keep_their_numbers_between_nodes() {
    let connection = SessionId::Connection(ConnectionId(0x0102));
    let queue = SessionId::Queue(QueueId(0x0304));
    for (session, number) in [(connection, 0x0102u64), (queue, 0x0003_04FF)] {
        let bytes = bytes_of(&Frame::Command(session, Command::Leave).encode());
        assert_eq!(bytes[1..9], number.to_le_bytes(), "{session:?}");
        let decoded = Frame::decode(Bytes::from(bytes)).expect("a frame");
        assert!(
            matches!(decoded, Frame::Command(told, Command::Leave) if told == session),
            "{decoded:?}"
        );
    }
}

#[test]
fn a_reader_that_has_ended_elsewhere_is_there_no_more() {
    let refusal = || Refusal::NotAvailable(String::new());
    let ends = [
        Event::Subscribed {
            request: RequestId(1),
            result: Err(refusal()),
        },
        Event::ReaderEnded {
            reader: ReaderId(1),
            refusal: refusal(),
        },
        Event::Lost { stream: STREAM },
        Event::Gone { stream: STREAM },
    ];
    for end in ends {
        let two = Two::new();
        two.say(subscribe(1));
        two.say(subscribe(2));
        two.carry();
        two.hear(Event::Subscribed {
            request: RequestId(2),
            result: Ok(()),
        });
        two.hear(end.clone());
        two.carry();
        assert!(matches!(two.say(credit(1)), Said::Here(_)), "{end:?}");
        let ends_all = matches!(end, Event::Lost { .. } | Event::Gone { .. });
        let said = two.say(credit(2));
        assert_eq!(matches!(said, Said::Here(_)), ends_all, "{end:?}");
    }
    let two = Two::new();
    two.say(subscribe(1));
    two.here.peer_down(THERE);
    assert!(matches!(two.say(credit(1)), Said::Here(_)));
}
