//! Scripts: what a client says and what the streams say, and what comes of it. Lines that begin
//! with `>` go to the client, those with `!` to the streams.

use crate::port::{LoginOutcome, Opening, Port, Reached};
use crate::session::Session;
use crate::settings::Settings;
use leveret_auth::Access;
use leveret_stream::{
    Command, Event, Generation, MemberId, OffsetSpec as From, PublisherId, ReaderId, Reference,
    Refusal, RequestId, SharedChunk, StoredBy, StreamSettings, StreamStats,
};
use leveret_stream_protocol::frame::put_frame;
use leveret_stream_protocol::publish::{put_filtered, put_message};
use leveret_stream_protocol::wire::Opaque;
use leveret_stream_protocol::{
    Answer, ClientCommand, Key, OffsetSpec, Optional, Request, ResponseCode, ServerCommand,
    next_frame,
};
use leveret_types::limits::{
    CLOSE_MS_MAX, HANDSHAKE_MS_MAX, OUTBOX_BYTES_MAX, STREAM_ACTIVE_REMEMBERED_MAX,
    STREAM_CHUNKS_UNDER_WAY_MAX, STREAM_CHUNKS_UNDER_WAY_PER_CONNECTION_MAX,
    STREAM_CONSUMER_UPDATE_MS_MAX, STREAM_IN_HAND_MS, STREAM_JOIN_AGAIN_MS, STREAM_OUTPUT_BYTES,
    STREAM_PARTITIONS_MAX, STREAM_UNCONFIRMED_ENTRIES_MAX,
};
use leveret_types::{Now, QueueId};
use std::sync::Arc;

mod credit;
mod ends;
mod in_hand;
mod latencies;
mod lost_leader;
mod single_active;
mod streams;
mod turns;
mod unfinished;

/// A node: what the client may do, and a log of what is asked of it.
#[derive(Default)]
struct Node {
    refuses: Vec<&'static str>,
    alarm: bool,
    super_streams: Vec<(String, Vec<String>)>,
    /// Exchanges that are no super streams.
    exchanges: Vec<&'static str>,
    refuses_super_streams: bool,
    /// What became of a super stream that was to be changed.
    changed: Option<(RequestId, Result<(), ResponseCode>)>,
    /// What this node does not know may have been made at another one.
    may_be_behind: bool,
    /// It will be so again for what is asked behind a second look.
    falls_behind: bool,
    drained: Vec<&'static str>,
    /// The leaders of streams that are led elsewhere.
    leaders: Vec<(&'static str, Reached)>,
    /// The other replicas of each stream.
    replicas: Vec<Reached>,
    /// The arguments of the super stream that was made last.
    given: Vec<(String, String)>,
    said: Vec<String>,
    published: Vec<(PublisherId, Vec<u64>)>,
    requests: Vec<RequestId>,
    publishers: Vec<PublisherId>,
    readers: Vec<ReaderId>,
    members: Vec<MemberId>,
    credited: Vec<(ReaderId, u32)>,
    /// Work that each question for partitions takes, and what of it was not told yet, in frames.
    work_of_partitions: usize,
    work: usize,
}

impl Port for Node {
    fn log_in(&mut self, mechanism: &str, response: &[u8]) {
        let response = String::from_utf8_lossy(response).replace('\0', "|");
        self.said.push(format!("! log in {mechanism} {response}"));
    }

    fn open_vhost(&mut self, vhost: &str) -> Opening {
        match (self.refuses.contains(&vhost), self.may_be_behind) {
            (false, _) => Opening::Opened,
            (true, true) => Opening::Later,
            (true, false) => Opening::Refused,
        }
    }

    fn may_be_behind(&mut self) -> bool {
        self.may_be_behind
    }

    fn retried(&mut self) {
        self.may_be_behind |= self.falls_behind;
    }

    fn permits_stream(&mut self, access: Access, stream: &str) -> bool {
        let wanted = format!("{access} {stream}");
        !self.refuses.contains(&&*wanted)
    }

    fn permits_super_stream(&mut self, name: &str, _: &[String]) -> bool {
        !self.refuses.contains(&name)
    }

    fn holds_publishers(&self) -> bool {
        self.alarm
    }

    fn has_exchange(&mut self, name: &str) -> bool {
        self.exchanges.contains(&name) || self.super_streams.iter().any(|(of, _)| of == name)
    }

    fn partitions(&mut self, super_stream: &str) -> Option<Vec<String>> {
        self.work += self.work_of_partitions;
        let mut all = self.super_streams.iter();
        all.find(|(name, _)| name == super_stream)
            .map(|(_, partitions)| partitions.clone())
    }

    fn route(&mut self, super_stream: &str, routing_key: &str) -> Option<Vec<String>> {
        let ends = format!("-{routing_key}");
        let partitions = self.partitions(super_stream)?;
        Some(
            partitions
                .into_iter()
                .filter(|p| p.ends_with(&ends))
                .collect(),
        )
    }

    fn is_drained(&mut self, stream: &str) -> bool {
        self.drained.contains(&stream)
    }

    fn leader(&mut self, stream: &str) -> Reached {
        let mut leaders = self.leaders.iter();
        let leader = leaders.find(|(name, _)| *name == stream);
        leader.map_or(Reached::Here, |(_, leader)| leader.clone())
    }

    fn replicas(&mut self, _: &str) -> Vec<Reached> {
        self.replicas.clone()
    }

    fn make_super_stream(
        &mut self,
        request: RequestId,
        name: &str,
        partitions: &[(String, String)],
        arguments: &[(String, String)],
    ) {
        self.given = arguments.to_vec();
        let result = match self.refuses_super_streams {
            true => Err(ResponseCode::INTERNAL_ERROR),
            false => {
                let names = partitions.iter().map(|(name, _)| name.clone()).collect();
                self.super_streams.push((name.to_owned(), names));
                Ok(())
            }
        };
        self.changed = Some((request, result));
    }

    fn remove_super_stream(&mut self, request: RequestId, name: &str) {
        let result = match self.refuses_super_streams {
            true => Err(ResponseCode::STREAM_NOT_AVAILABLE),
            false => {
                self.super_streams.retain(|(of, _)| of != name);
                Ok(())
            }
        };
        self.changed = Some((request, result));
    }

    fn take_work(&mut self) -> usize {
        std::mem::take(&mut self.work)
    }

    fn send(&mut self, command: Command) {
        let line = self.line(command);
        self.said.push(format!("! {line}"));
    }
}

impl Node {
    fn line(&mut self, command: Command) -> String {
        let mut push_request = |request| self.requests.push(request);
        match command {
            Command::Declare {
                request,
                name,
                arguments,
                ..
            } => {
                push_request(request);
                let pairs = arguments.iter().map(|(k, v)| (k.as_str(), v.as_str()));
                let settings = StreamSettings::from_arguments(pairs).expect("checked");
                format!("declare {name} {:?}", settings.age_ms_max)
            }
            Command::Delete { request, name, .. } => {
                push_request(request);
                format!("delete {name}")
            }
            Command::LookUp {
                request,
                name,
                vhost,
            } => {
                push_request(request);
                format!("look up {vhost} {name}")
            }
            Command::DeclarePublisher {
                request,
                stream,
                publisher,
                reference,
            } => {
                push_request(request);
                self.publishers.push(publisher);
                let reference = reference.as_ref().map(text);
                format!("publisher of {} {reference:?}", stream.0)
            }
            Command::DeletePublisher { stream, .. } => format!("no publisher of {}", stream.0),
            Command::Publish {
                stream,
                publisher,
                batch,
            } => {
                self.published.push((publisher, batch.ids()));
                let filters: Vec<_> = batch.iter().map(|p| p.filter.map(<[u8]>::len)).collect();
                format!("publish {} {:?} {filters:?}", stream.0, batch.ids())
            }
            Command::QuerySequence {
                request, stream, ..
            } => {
                push_request(request);
                format!("sequence of {}", stream.0)
            }
            Command::Subscribe {
                request,
                stream,
                reader,
                offset,
                credit,
                filter,
            } => {
                push_request(request);
                self.readers.push(reader);
                let filter = filter.map(|f| match f.messages {
                    true => (f.values.len(), "of messages"),
                    false if f.match_unfiltered => (f.values.len(), "or none"),
                    false => (f.values.len(), "of chunks"),
                });
                format!("read {} {offset:?} {credit} {filter:?}", stream.0)
            }
            Command::Credit {
                stream,
                reader,
                chunks,
            } => {
                self.credited.push((reader, chunks));
                format!("credit {} {chunks}", stream.0)
            }
            Command::Unsubscribe { stream, .. } => format!("no reader of {}", stream.0),
            Command::StoreOffset {
                stream, offset, by, ..
            } => match by {
                StoredBy::Anyone => format!("store {} {offset}", stream.0),
                by => format!("store {} {offset} {by:?}", stream.0),
            },
            Command::JoinGroup {
                request,
                stream,
                group,
                partition,
                member,
            } => {
                push_request(request);
                self.members.push(member);
                format!("join {} {} {partition}", stream.0, text(&group))
            }
            Command::LeaveGroup { stream, group, .. } => {
                format!("leave {} {}", stream.0, text(&group))
            }
            Command::SteppedDown { stream, group, .. } => {
                format!("down {} {}", stream.0, text(&group))
            }
            Command::QueryOffset {
                request, stream, ..
            } => {
                push_request(request);
                format!("offset of {}", stream.0)
            }
            Command::ResolveOffset {
                request,
                stream,
                offset,
            } => {
                push_request(request);
                format!("resolve {} {offset:?}", stream.0)
            }
            Command::Stats { request, stream } => {
                push_request(request);
                format!("stats of {}", stream.0)
            }
            Command::Leave => "leave".to_owned(),
        }
    }
}

fn text(reference: &Reference) -> String {
    reference.as_bytes().escape_ascii().to_string()
}

/// A connection between a client and a node.
struct Play {
    session: Session,
    node: Node,
    now: Now,
}

impl Play {
    fn new() -> Self {
        let now = Now::both(1_000);
        let settings = Arc::new(Settings::new("here", 5552));
        Self {
            session: Session::new(settings, now),
            node: Node::default(),
            now,
        }
    }

    /// A connection that is served.
    fn open() -> Self {
        Self::new().opened()
    }

    fn opened(mut self) -> Self {
        for step in handshake() {
            self.say(&step);
            self.log_in("guest");
        }
        assert!(self.session.is_open());
        self.lines();
        self
    }

    /// One with a publisher 1, with a reference, and a reader 1 of a stream 7.
    fn with_stream() -> Self {
        let mut play = Self::open();
        play.say(&declare(1, "ref", "s"));
        play.answer(|request| Event::Found {
            request,
            result: Ok(QueueId(7)),
        });
        play.answer(|request| Event::PublisherDeclared {
            request,
            result: Ok(()),
        });
        play.say(&subscribe(1, "s", 10));
        play.answer(|request| Event::Subscribed {
            request,
            result: Ok(()),
        });
        play.lines();
        play
    }

    fn say(&mut self, command: &ClientCommand<'_>) {
        let mut bytes = Vec::new();
        command.encode(&mut bytes);
        self.bytes(bytes);
    }

    fn ask(&mut self, request: Request<'_>) {
        self.say(&ClientCommand::Request {
            correlation_id: 9,
            request,
        });
    }

    fn bytes(&mut self, bytes: Vec<u8>) {
        self.session.receive(self.now, bytes.into(), &mut self.node);
        self.tell_changed();
    }

    fn log_in(&mut self, user: &str) {
        let user = user.to_owned();
        self.session
            .logged_in(LoginOutcome::Accepted { user }, &mut self.node);
    }

    /// The streams answer what they were asked first of what is open.
    fn answer(&mut self, event: impl FnOnce(RequestId) -> Event) {
        let request = self.node.requests.remove(0);
        self.hear(event(request));
    }

    fn hear(&mut self, event: Event) {
        self.session.event(self.now, event, &mut self.node);
        self.tell_changed();
    }

    /// The node knows now what the others had agreed on.
    fn retry(&mut self) {
        self.session.retry(self.now, &mut self.node);
        self.tell_changed();
    }

    /// The node tells what became of a super stream.
    fn tell_changed(&mut self) {
        if let Some((request, result)) = self.node.changed.take() {
            self.session
                .super_stream_changed(request, result, &mut self.node);
        }
    }

    fn tick(&mut self, after_ms: u64) {
        self.now = Now::both(self.now.monotonic_ms + after_ms);
        self.session.tick(self.now, &mut self.node);
    }

    /// What has come of it: what the streams were told, then what the client was.
    fn lines(&mut self) -> Vec<String> {
        let mut lines = std::mem::take(&mut self.node.said);
        let out = self.session.output();
        let bytes = out.to_vec();
        out.advance(bytes.len());
        let mut rest = &bytes[..];
        while let Ok(Some(frame)) = next_frame(rest, u32::MAX) {
            let command = ServerCommand::decode(frame).expect("a command");
            lines.push(format!("> {}", brief(&command)));
            rest = &rest[frame.wire_len()..];
        }
        assert!(rest.is_empty());
        lines
    }

    fn expect(&mut self, lines: &[&str]) {
        assert_eq!(self.lines(), lines);
    }
}

fn brief(command: &ServerCommand<'_>) -> String {
    match command {
        ServerCommand::Response { code, answer, .. } => {
            let content = match answer {
                Answer::QueryPublisherSequence { sequence } => format!(" {sequence}"),
                Answer::QueryOffset { offset } => format!(" {offset}"),
                Answer::ResolveOffsetSpec {
                    offset_type,
                    offset,
                } => format!(" {offset_type} {offset}"),
                Answer::Partitions { streams } | Answer::Route { streams } => {
                    format!(" {streams:?}")
                }
                Answer::StreamStats { statistics } => format!(" {statistics:?}"),
                Answer::ExchangeCommandVersions { versions } => format!(" {}", versions.len()),
                Answer::SaslHandshake { mechanisms } => format!(" {mechanisms:?}"),
                Answer::Open { properties } => format!(" {}", properties.0.len()),
                _ => String::new(),
            };
            format!("{:?} {}{content}", answer.key(), code.name())
        }
        ServerCommand::Metadata { nodes, streams, .. } => {
            let led: Vec<_> = streams
                .iter()
                .map(|s| (s.stream, s.code.0, s.leader))
                .collect();
            let replicas: Vec<_> = streams.iter().map(|s| &s.replicas).collect();
            match replicas.iter().all(|replicas| replicas.is_empty()) {
                true => format!("metadata {nodes:?} {led:?}"),
                false => format!("metadata {nodes:?} {led:?} replicas {replicas:?}"),
            }
        }
        ServerCommand::PublishConfirm {
            publisher_id,
            publishing_ids,
        } => {
            format!(
                "confirm {publisher_id} {:?}",
                publishing_ids.iter().collect::<Vec<_>>()
            )
        }
        ServerCommand::PublishError {
            publisher_id,
            errors,
        } => {
            let errors: Vec<_> = errors.iter().map(|(id, code)| (id, code.name())).collect();
            format!("error {publisher_id} {errors:?}")
        }
        ServerCommand::Deliver {
            subscription_id,
            committed_chunk,
            chunk,
        } => {
            format!(
                "deliver {subscription_id} {committed_chunk:?} {}",
                chunk.len()
            )
        }
        ServerCommand::CreditFailed {
            code,
            subscription_id,
        } => {
            format!("credit {subscription_id} {}", code.name())
        }
        ServerCommand::MetadataUpdate { code, stream } => format!("gone {stream} {}", code.name()),
        ServerCommand::Tune {
            frame_max,
            heartbeat,
        } => format!("tune {frame_max} {heartbeat}"),
        ServerCommand::Close { code, .. } => format!("close {}", code.name()),
        ServerCommand::Heartbeat => "heartbeat".to_owned(),
        ServerCommand::ConsumerUpdate { active, .. } => format!("update {active}"),
    }
}

fn request(request: Request<'_>) -> ClientCommand<'_> {
    ClientCommand::Request {
        correlation_id: 1,
        request,
    }
}

fn plain() -> ClientCommand<'static> {
    request(Request::SaslAuthenticate {
        mechanism: "PLAIN",
        response: Opaque(b"\0guest\0guest"),
    })
}

const fn tune(frame_max: u32, heartbeat: u32) -> ClientCommand<'static> {
    ClientCommand::Tune {
        frame_max,
        heartbeat,
    }
}

fn handshake() -> Vec<ClientCommand<'static>> {
    vec![
        request(Request::PeerProperties {
            properties: vec![("product", "test")],
        }),
        request(Request::SaslHandshake {}),
        plain(),
        tune(0, 60),
        request(Request::Open { vhost: "/" }),
    ]
}

fn declare<'a>(id: u8, reference: &'a str, stream: &'a str) -> ClientCommand<'a> {
    request(Request::DeclarePublisher {
        publisher_id: id,
        reference,
        stream,
    })
}

fn subscribe(id: u8, stream: &str, credit: u16) -> ClientCommand<'_> {
    request(Request::Subscribe {
        subscription_id: id,
        stream,
        offset: OffsetSpec::First,
        credit,
        properties: Optional::default(),
    })
}

/// `Publish` with these ids.
fn publish(publisher: u8, ids: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    put_frame(&mut out, Key::Publish.number(), 1, |out| {
        out.push(publisher);
        out.extend_from_slice(&(ids.len() as u32).to_be_bytes());
        ids.iter().for_each(|id| put_message(out, *id, b"body"));
    });
    out
}

fn chunk(bytes: usize) -> SharedChunk {
    in_hand::chunk_at(0, bytes)
}

#[test]
fn the_handshake_leads_to_an_open_virtual_host() {
    let mut play = Play::new();
    let expected: [&[&str]; 5] = [
        &["> PeerProperties OK"],
        &[r#"> SaslHandshake OK ["PLAIN", "AMQPLAIN"]"#],
        &[
            "! log in PLAIN |guest|guest",
            "> SaslAuthenticate OK",
            "> tune 1048576 60",
        ],
        &[],
        &["> Open OK 2"],
    ];
    for (step, lines) in handshake().iter().zip(expected) {
        play.say(step);
        play.log_in("guest");
        play.expect(lines);
    }
    let status = play.session.status();
    assert_eq!(
        (&*status.user, &*status.vhost, status.frame_max),
        ("guest", "/", 1_048_576)
    );
}

#[test]
fn what_comes_out_of_turn_ends_the_connection() {
    let steps = handshake();
    for (turn, expected) in steps.iter().enumerate() {
        for (other, wrong) in steps.iter().enumerate() {
            let mut play = Play::new();
            for step in &steps[..turn] {
                play.say(step);
                play.log_in("guest");
            }
            play.say(wrong);
            let in_turn = turn == other || wrong == expected;
            assert_eq!(play.session.is_over(), !in_turn, "{wrong:?} at {turn}");
        }
    }
    // Nothing else is served before either.
    let mut play = Play::new();
    play.say(&declare(1, "", "s"));
    assert!(play.session.is_over());
    play.expect(&[]);
}

#[test]
fn a_login_is_refused_with_its_code() {
    for (mechanism, outcome, expected) in [
        (
            "PLAIN",
            ResponseCode::AUTHENTICATION_FAILURE,
            "AUTHENTICATION_FAILURE",
        ),
        ("PLAIN", ResponseCode::SASL_ERROR, "SASL_ERROR"),
        (
            "PLAIN",
            ResponseCode::AUTHENTICATION_FAILURE_LOOPBACK,
            "AUTHENTICATION_FAILURE_LOOPBACK",
        ),
        ("OTHER", ResponseCode::OK, "SASL_MECHANISM_NOT_SUPPORTED"),
    ] {
        let mut play = Play::new();
        handshake()[..2].iter().for_each(|step| play.say(step));
        play.lines();
        let response = Opaque(b"x");
        play.ask(Request::SaslAuthenticate {
            mechanism,
            response,
        });
        play.session
            .logged_in(LoginOutcome::Refused(outcome), &mut play.node);
        let lines = play.lines();
        assert_eq!(
            lines.last(),
            Some(&format!("> SaslAuthenticate {expected}"))
        );
        assert!(play.session.is_over());
    }
}

#[test]
fn a_challenge_is_answered_and_a_virtual_host_may_be_refused() {
    let mut play = Play::new();
    play.node.refuses.push("/");
    let steps = handshake();
    steps[..3].iter().for_each(|step| play.say(step));
    play.session
        .logged_in(LoginOutcome::Challenge(b"say".to_vec()), &mut play.node);
    assert_eq!(
        play.lines().last().map(|l| &**l),
        Some("> SaslAuthenticate SASL_CHALLENGE")
    );
    play.say(&plain());
    play.log_in("guest");
    play.node.may_be_behind = true;
    steps[3..].iter().for_each(|step| play.say(step));
    let last = |lines: Vec<String>| lines.last().cloned().unwrap_or_default();
    assert!(last(play.lines()).starts_with("> tune"));
    play.node.may_be_behind = false;
    play.retry();
    assert_eq!(last(play.lines()), "> Open VIRTUAL_HOST_ACCESS_FAILURE 0");
    assert!(play.session.is_over());
}

#[test]
fn a_secret_is_renewed_by_the_same_user_and_mechanism() {
    let mut play = Play::open();
    play.say(&plain());
    play.log_in("guest");
    play.expect(&["! log in PLAIN |guest|guest", "> SaslAuthenticate OK"]);
    play.say(&plain());
    play.log_in("other");
    play.expect(&[
        "! log in PLAIN |guest|guest",
        "! leave",
        "> SaslAuthenticate SASL_CANNOT_CHANGE_USERNAME",
    ]);
    let mut play = Play::open();
    play.ask(Request::SaslAuthenticate {
        mechanism: "AMQPLAIN",
        response: Opaque(b""),
    });
    play.expect(&["! leave", "> SaslAuthenticate SASL_CANNOT_CHANGE_MECHANISM"]);
}

#[test]
fn messages_are_published_and_confirmed_however_the_bytes_are_split() {
    let mut play = Play::open();
    play.say(&declare(1, "ref", "s"));
    play.expect(&["! look up / s"]);
    play.answer(|request| Event::Found {
        request,
        result: Ok(QueueId(7)),
    });
    play.expect(&[r#"! publisher of 7 Some("ref")"#]);
    play.answer(|request| Event::PublisherDeclared {
        request,
        result: Ok(()),
    });
    play.expect(&["> DeclarePublisher OK"]);
    for byte in publish(1, &[5, 6]) {
        play.bytes(vec![byte]);
    }
    play.expect(&["! publish 7 [5, 6] [None, None]"]);
    let publisher = play.node.publishers[0];
    play.hear(Event::Confirmed {
        publisher,
        ids: vec![5],
    });
    let refusal = Refusal::Precondition("full".to_owned());
    play.hear(Event::Refused {
        publisher,
        ids: vec![6],
        refusal,
    });
    play.expect(&[
        "> confirm 1 [5]",
        r#"> error 1 [(6, "PRECONDITION_FAILED")]"#,
    ]);
    let mut filtered = Vec::new();
    put_frame(&mut filtered, Key::Publish.number(), 2, |out| {
        out.extend_from_slice(&[1, 0, 0, 0, 1]);
        put_filtered(out, 7, Some("red"), b"body");
    });
    play.bytes(filtered);
    play.expect(&["! publish 7 [7] [Some(3)]"]);
    play.ask(Request::DeletePublisher { publisher_id: 1 });
    play.expect(&["! no publisher of 7", "> DeletePublisher OK"]);
    // What is confirmed behind that is nobody's.
    play.hear(Event::Confirmed {
        publisher,
        ids: vec![7],
    });
    play.expect(&[]);
}

#[test]
fn a_publisher_is_refused_for_its_reason() {
    let mut play = Play::with_stream();
    let long = "r".repeat(256);
    for (id, reference, code) in [
        (1, "", "PRECONDITION_FAILED"),
        (2, "ref", "PRECONDITION_FAILED"),
        (2, &*long, "PRECONDITION_FAILED"),
    ] {
        play.say(&declare(id, reference, "s"));
        play.expect(&[&*format!("> DeclarePublisher {code}")]);
    }
    play.node.refuses.push("write x");
    play.say(&declare(2, "", "x"));
    play.expect(&["> DeclarePublisher ACCESS_REFUSED"]);
    play.say(&declare(2, &long[1..], "none"));
    play.answer(|request| Event::Found {
        request,
        result: Err(Refusal::NotFound),
    });
    play.expect(&[
        "! look up / none",
        "> DeclarePublisher STREAM_DOES_NOT_EXIST",
    ]);
    play.node.alarm = true;
    play.say(&declare(2, "", "s"));
    play.expect(&["> DeclarePublisher PRECONDITION_FAILED"]);
    play.bytes(publish(9, &[1, 2]));
    play.expect(&[
        r#"> error 9 [(1, "PUBLISHER_DOES_NOT_EXIST"), (2, "PUBLISHER_DOES_NOT_EXIST")]"#,
    ]);
    play.ask(Request::DeletePublisher { publisher_id: 9 });
    play.expect(&["> DeletePublisher PUBLISHER_DOES_NOT_EXIST"]);
}

#[test]
fn a_connection_has_256_publishers_and_not_one_more() {
    let mut play = Play::with_stream();
    for id in (0..=255).filter(|id| *id != 1) {
        play.say(&declare(id, "", "s"));
        play.answer(|request| Event::PublisherDeclared {
            request,
            result: Ok(()),
        });
        assert_eq!(
            play.lines().last().map(|l| &**l),
            Some("> DeclarePublisher OK")
        );
    }
    assert_eq!(play.session.status().publishers.len(), 256);
    play.say(&declare(0, "", "s"));
    play.expect(&["> DeclarePublisher PRECONDITION_FAILED"]);
}

#[test]
fn a_publisher_ahead_of_its_confirms_is_not_read() {
    let mut play = Play::with_stream();
    let publisher = play.node.publishers[0];
    let ids: Vec<u64> = (0..STREAM_UNCONFIRMED_ENTRIES_MAX as u64).collect();
    play.bytes(publish(1, &ids[1..]));
    assert!(play.session.reading());
    play.bytes(publish(1, &ids[..1]));
    assert!(!play.session.reading());
    play.lines();
    play.bytes(publish(1, &[99]));
    play.expect(&[]);
    let three_quarters = STREAM_UNCONFIRMED_ENTRIES_MAX / 4 * 3;
    play.hear(Event::Confirmed {
        publisher,
        ids: ids[..three_quarters].to_vec(),
    });
    assert!(!play.session.reading());
    play.hear(Event::Confirmed {
        publisher,
        ids: ids[..1].to_vec(),
    });
    assert!(play.session.reading());
    assert_eq!(play.lines()[0], "! publish 7 [99] [None]");
}

#[test]
fn confirms_are_in_frames_that_the_client_takes() {
    const FRAME_MAX: u32 = 8_192;
    let mut play = Play::new();
    for step in handshake() {
        match step {
            ClientCommand::Tune { .. } => play.say(&tune(FRAME_MAX, 60)),
            step => play.say(&step),
        }
        play.log_in("guest");
    }
    play.say(&declare(1, "", "s"));
    play.answer(|request| Event::Found {
        request,
        result: Ok(QueueId(7)),
    });
    play.answer(|request| Event::PublisherDeclared {
        request,
        result: Ok(()),
    });
    play.lines();
    let publisher = play.node.publishers[0];
    // So many are published in several frames, and answered together.
    let ids: Vec<u64> = (0..3_000).collect();
    play.hear(Event::Confirmed {
        publisher,
        ids: ids.clone(),
    });
    play.hear(Event::Refused {
        publisher,
        ids: ids.clone(),
        refusal: Refusal::NotFound,
    });
    let bytes = play.session.output().to_vec();
    let (mut rest, mut confirmed, mut refused) = (&bytes[..], Vec::new(), Vec::new());
    while let Some(frame) = next_frame(rest, FRAME_MAX).expect("no frame is too large") {
        match ServerCommand::decode(frame).expect("a command") {
            ServerCommand::PublishConfirm { publishing_ids, .. } => {
                confirmed.extend(publishing_ids.iter());
            }
            ServerCommand::PublishError { errors, .. } => {
                refused.extend(errors.iter().map(|(id, _)| *id));
            }
            other => panic!("{other:?}"),
        }
        rest = &rest[frame.wire_len()..];
    }
    assert_eq!((&confirmed, &refused), (&ids, &ids));
}

#[test]
fn nothing_is_read_while_an_answer_is_owed() {
    let mut play = Play::with_stream();
    play.ask(Request::QueryOffset {
        reference: "app",
        stream: "s",
    });
    assert!(!play.session.reading());
    play.bytes(publish(1, &[1]));
    play.ask(Request::QueryPublisherSequence {
        reference: "ref",
        stream: "s",
    });
    play.expect(&["! offset of 7"]);
    play.answer(|request| Event::StoredOffset {
        request,
        result: Ok(Some(42)),
    });
    play.expect(&[
        "! publish 7 [1] [None]",
        "! sequence of 7",
        "> QueryOffset OK 42",
    ]);
    play.answer(|request| Event::Sequence {
        request,
        result: Ok(None),
    });
    play.expect(&["> QueryPublisherSequence OK 0"]);
}

#[test]
fn a_subscription_says_where_it_begins_and_what_it_filters() {
    for (offset, expected) in [
        (OffsetSpec::First, From::First),
        (OffsetSpec::Last, From::Last),
        (OffsetSpec::Next, From::Next),
        (OffsetSpec::Offset(42), From::Offset(42)),
        (OffsetSpec::Timestamp(-1), From::TimestampMs(-1)),
    ] {
        let mut play = Play::with_stream();
        let properties = vec![
            ("filter.0", "red"),
            ("filter.1", "blue"),
            ("match-unfiltered", "true"),
            ("name", "app"),
        ];
        play.ask(Request::Subscribe {
            subscription_id: 2,
            stream: "s",
            offset,
            credit: 1,
            properties: Optional(properties),
        });
        play.expect(&[&*format!("! read 7 {expected:?} 1 Some((2, \"or none\"))")]);
    }
}

#[test]
fn a_subscription_asks_for_single_messages_beside_its_filter() {
    for (push_request, expected) in [("true", "of messages"), ("false", "of chunks")] {
        let mut play = Play::with_stream();
        play.ask(Request::Subscribe {
            subscription_id: 2,
            stream: "s",
            offset: OffsetSpec::First,
            credit: 1,
            properties: Optional(vec![("filter.0", "red"), ("filter-messages", push_request)]),
        });
        play.expect(&[&*format!("! read 7 First 1 Some((1, {expected:?}))")]);
    }
}

#[test]
fn a_subscription_is_refused_for_its_reason() {
    let mut play = Play::with_stream();
    play.say(&subscribe(1, "s", 1));
    play.expect(&["> Subscribe SUBSCRIPTION_ID_ALREADY_EXISTS"]);
    play.node.refuses.push("read x");
    play.say(&subscribe(2, "x", 1));
    play.expect(&["> Subscribe ACCESS_REFUSED"]);
    play.say(&subscribe(2, "s", 1));
    let result = Err(Refusal::NotAvailable("away".to_owned()));
    play.answer(|request| Event::Subscribed { request, result });
    play.expect(&["! read 7 First 1 None", "> Subscribe STREAM_NOT_AVAILABLE"]);
    assert_eq!(play.session.status().subscriptions.len(), 1);
    let long = "n".repeat(256);
    let names: Vec<String> = (0..256).map(|number| format!("filter.{number}")).collect();
    let filter = |count: usize, value: &'static str| -> Vec<(&str, &str)> {
        names[..count].iter().map(|name| (&**name, value)).collect()
    };
    let large: &str = "v".repeat(255).leak();
    for properties in [
        vec![("name", &*long)],
        vec![("super-stream", &*long)],
        vec![("filter.0", &*long)],
        filter(256, "v"),
        filter(65, large),
        vec![("name", "")],
        vec![("filter-messages", "true")],
        vec![("filter.0", "red"), ("filter-messages", "yes")],
    ] {
        play.ask(Request::Subscribe {
            subscription_id: 2,
            stream: "s",
            offset: OffsetSpec::Next,
            credit: 1,
            properties: Optional(properties),
        });
        play.expect(&["> Subscribe PRECONDITION_FAILED"]);
    }
}

#[test]
fn frames_that_cannot_be_read_close_with_their_code() {
    let too_large = |size: u32| size.to_be_bytes().to_vec();
    let unknown = |key: u16| {
        let mut out = Vec::new();
        put_frame(&mut out, key, 1, |_| {});
        out
    };
    for (bytes, code) in [
        (too_large(1_048_577), "FRAME_TOO_LARGE"),
        (too_large(3), "UNKNOWN_FRAME"),
        (unknown(0x7F), "UNKNOWN_FRAME"),
        (unknown(0x01), "UNKNOWN_FRAME"),
        (unknown(0x8014), "UNKNOWN_FRAME"),
    ] {
        let mut play = Play::open();
        for byte in bytes {
            play.bytes(vec![byte]);
        }
        play.expect(&["! leave", &*format!("> close {code}")]);
        // Nothing is served any more, whatever comes.
        play.bytes(publish(1, &[1]));
        play.expect(&[]);
        assert!(!play.session.is_over());
        play.tick(CLOSE_MS_MAX);
        assert!(play.session.is_over());
        play.expect(&[]);
    }
    for (size, is_over) in [(8_192, false), (8_193, true)] {
        let mut play = Play::new();
        play.bytes(too_large(size));
        assert_eq!(play.session.is_over(), is_over, "{size} before login");
        play.expect(&[]);
    }
}

#[test]
fn a_frame_has_as_many_octets_as_were_agreed_and_not_one_more() {
    for (push_request, in_force) in [(0, 1_048_576), (10_000, 10_000), (u32::MAX, 1_048_576)] {
        for (size, closed) in [(in_force, false), (in_force + 1, true)] {
            let mut play = Play::new();
            for step in handshake() {
                let step = match step {
                    ClientCommand::Tune { .. } => tune(push_request, 0),
                    step => step,
                };
                play.say(&step);
                play.log_in("guest");
            }
            play.lines();
            let size: u32 = size;
            play.bytes(size.to_be_bytes().to_vec());
            assert_eq!(play.lines().is_empty(), !closed, "{push_request} {size}");
        }
    }
}

#[test]
fn whatever_is_sent_breaks_nothing() {
    let seeds = leveret_stream_protocol::fuzz::seeds();
    let mut state = 7_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..2_000 {
        let mut play = if round % 3 == 0 {
            Play::new()
        } else {
            Play::with_stream()
        };
        for _ in 0..6 {
            let mut bytes = seeds[random() as usize % seeds.len()][1..].to_vec();
            for _ in 0..random() % 3 {
                let at = random() as usize % bytes.len();
                bytes[at] = random() as u8;
            }
            play.bytes(bytes);
            while !play.node.requests.is_empty() {
                let result = match random() % 2 {
                    0 => Err(Refusal::NotFound),
                    _ => Ok(QueueId(7)),
                };
                play.answer(|request| Event::Found { request, result });
            }
        }
        play.lines();
        play.session.teardown(&mut play.node);
        play.expect(&if play.node.said.is_empty() {
            vec![]
        } else {
            vec!["! leave"]
        });
    }
}
