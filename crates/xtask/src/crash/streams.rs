//! The load of streams while something happens to brokers, and the audit that reads them whole.
//!
//! Each publisher has a name of its own and publishes a few messages at a time. Where its
//! connection ends, its stream goes elsewhere or no confirm comes for a while, it connects to the
//! next node and publishes again what was not confirmed: the stream must keep each message once.
//! At each node each stream is read from its beginning on, over all faults.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::ledger::Ledger;
use super::stream_ledger::{Position, STREAM_PUBLISHERS, STREAMS, stream_body};
use crate::broker::{self, Broker};
use crate::cluster::Cluster;
use crate::numbers::Random;
use crate::stream_client::{
    self, Event, PRECONDITION_FAILED, PUBLISHER_DOES_NOT_EXIST, STREAM_DOES_NOT_EXIST,
    STREAM_NOT_AVAILABLE, StreamClient,
};

/// Unconfirmed messages that a publisher may have.
const WINDOW: usize = 256;
/// Messages that a publisher sends at once, and its greatest pause after them, to several nodes and
/// to one alone, whose lives are short. That is about 250 a second and 1,200, so that all that a
/// run has sent can be read again and again, and fits on a small disk.
const BURST: std::ops::Range<u64> = 1..50;
const PAUSE_MS: u64 = 200;
const PAUSE_OF_ONE_MS: u64 = 40;
/// A publisher that has had no confirm for so long tries another node.
const UNCONFIRMED_FOR: Duration = Duration::from_secs(3);
/// How long nothing may come while what was sent is confirmed, or read, without a fault.
const STALL_MAX: Duration = Duration::from_secs(60);
/// How long a reader waits for a chunk before it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);
/// Pause before whoever lost its connection tries again.
const RETRY: Duration = Duration::from_millis(100);
/// Segments are small, so that faults find streams of several.
const ARGUMENTS: &[(&str, &str)] = &[("stream-max-segment-size-bytes", "100000")];

/// Where a node speaks AMQP, by which the ledger knows it, and the stream protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamNode {
    amqp: SocketAddr,
    stream: SocketAddr,
}

impl StreamNode {
    /// Of a broker.
    pub fn of(broker: &Broker) -> StreamNode {
        StreamNode {
            amqp: broker.amqp,
            stream: broker.stream,
        }
    }
}

/// The nodes of a cluster.
pub fn nodes_of(cluster: &Cluster) -> Vec<StreamNode> {
    cluster.nodes.iter().map(StreamNode::of).collect()
}

/// The name of a stream.
pub fn stream_name(stream: usize) -> String {
    format!("crash-stream-{stream}")
}

fn reference(publisher: usize) -> String {
    format!("crash-publisher-{publisher}")
}

/// Creates the streams, each at another node, and waits until every node takes publishers of each.
pub fn create(nodes: &[StreamNode]) -> Result<()> {
    if nodes.is_empty() {
        return Ok(());
    }
    for stream in 0..STREAMS {
        let node = nodes[stream % nodes.len()];
        StreamClient::connect(node.stream)?.create(&stream_name(stream), ARGUMENTS)?;
        for node in nodes {
            let began = Instant::now();
            let declare = || {
                let mut client = StreamClient::connect(node.stream)?;
                client.declare_publisher("crash-create", &stream_name(stream))
            };
            while let Err(error) = declare() {
                let soon = [STREAM_DOES_NOT_EXIST, STREAM_NOT_AVAILABLE];
                let is_soon = stream_client::refusal(&error).is_some_and(|c| soon.contains(&c));
                if !is_soon || began.elapsed() > STALL_MAX {
                    return Err(error.context(format!("{} at {node:?}", stream_name(stream))));
                }
                thread::sleep(RETRY);
            }
        }
    }
    Ok(())
}

/// Starts the publishers, and readers at each node, until the flag falls.
pub fn spawn<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    nodes: &'env [StreamNode],
    ledger: &'env Ledger,
    on: &'env AtomicBool,
) {
    if nodes.is_empty() {
        return;
    }
    for publisher in 0..STREAM_PUBLISHERS {
        scope.spawn(move || {
            let mut random = Random::new(ledger.streams().sent(publisher) << 8 | publisher as u64);
            let pause_ms = match nodes.len() {
                1 => PAUSE_OF_ONE_MS,
                _ => PAUSE_MS,
            };
            for attempt in publisher.. {
                if !on.load(Ordering::Relaxed) {
                    return;
                }
                let node = nodes[attempt % nodes.len()];
                let until = Until::Off { on, pause_ms };
                let result = publish(node, publisher, ledger, &mut random, &until);
                hear_end(ledger, "stream publisher", node, result.map(drop));
                thread::sleep(RETRY);
            }
        });
    }
    for (node, stream) in places(nodes) {
        scope.spawn(move || {
            while on.load(Ordering::Relaxed) {
                let done = |_: &Position| !on.load(Ordering::Relaxed);
                let result = read_on(nodes, (node, stream), ledger, done);
                hear_end(ledger, "stream reader", nodes[node], result);
                thread::sleep(RETRY);
            }
        });
    }
}

/// Each node with each stream.
fn places(nodes: &[StreamNode]) -> impl Iterator<Item = (usize, usize)> {
    let nodes = 0..nodes.len();
    nodes.flat_map(|node| (0..STREAMS).map(move |stream| (node, stream)))
}

/// A socket that breaks is the test, and so is a stream that has no leader, or a node that lets no
/// publisher in during an alarm; any other refusal is not.
fn hear_end(ledger: &Ledger, who: &str, node: StreamNode, result: Result<()>) {
    let Err(error) = result else { return };
    match stream_client::refusal(&error) {
        Some(STREAM_NOT_AVAILABLE | PRECONDITION_FAILED) => {}
        Some(_) => ledger.accuse(format!("{who}: {error:#}")),
        None => ledger.hear_end_of(who, node.amqp, Err(error)),
    }
}

/// When a publisher ends by itself.
enum Until<'a> {
    /// When the flag falls; up to then it pauses for so long at most.
    Off { on: &'a AtomicBool, pause_ms: u64 },
    /// When all that was ever sent is confirmed; nothing more is.
    AllConfirmed,
}

/// Publishes what is not confirmed yet, and more; whether it has ended by itself.
fn publish(
    node: StreamNode,
    publisher: usize,
    ledger: &Ledger,
    random: &mut Random,
    until: &Until<'_>,
) -> Result<bool> {
    let books = ledger.streams();
    let mut client = StreamClient::connect(node.stream)?;
    client.declare_publisher(&reference(publisher), &stream_name(publisher % STREAMS))?;
    let again = books.unconfirmed(publisher);
    let mut open: BTreeSet<u64> = again.iter().copied().collect();
    client.publish(&messages(publisher, again));
    let mut heard = Instant::now();
    loop {
        let pause = match until {
            Until::Off { on, .. } if !on.load(Ordering::Relaxed) => return Ok(true),
            Until::AllConfirmed if open.is_empty() => return Ok(true),
            Until::AllConfirmed => LOOK,
            Until::Off { pause_ms, .. } => {
                let burst = random.between(BURST.start, BURST.end);
                if open.len() + burst as usize <= WINDOW {
                    let ids: Vec<u64> = books.begin(publisher, burst).collect();
                    open.extend(&ids);
                    client.publish(&messages(publisher, ids));
                }
                Duration::from_millis(random.between(0, *pause_ms))
            }
        };
        client.flush()?;
        let ends = Instant::now() + pause;
        loop {
            let left = ends.saturating_duration_since(Instant::now());
            match client.next(left)? {
                Some(Event::Confirmed(ids)) => {
                    heard = Instant::now();
                    hear_confirms(ledger, publisher, &ids, &mut open);
                }
                Some(Event::NotStored(errors)) => {
                    hear_refusals(ledger, publisher, &errors);
                    return Ok(false);
                }
                Some(Event::Gone) => return Ok(false),
                Some(Event::Delivered(_)) => bail!("a publisher is sent messages"),
                None => break,
            }
        }
        if open.is_empty() {
            heard = Instant::now();
        }
        if heard.elapsed() > UNCONFIRMED_FOR {
            return Ok(false);
        }
    }
}

fn messages(publisher: usize, ids: Vec<u64>) -> Vec<(u64, Vec<u8>)> {
    let made = ids.into_iter().map(|id| (id, stream_body(publisher, id)));
    made.collect()
}

fn hear_confirms(ledger: &Ledger, publisher: usize, ids: &[u64], open: &mut BTreeSet<u64>) {
    for id in ids {
        let heard = match open.remove(id) {
            true => ledger.streams().hear_confirm(publisher, *id),
            false => Err(format!(
                "stream publisher {publisher}: {id} confirmed twice, or not published"
            )),
        };
        heard.unwrap_or_else(|wrong| ledger.accuse(wrong));
    }
}

fn hear_refusals(ledger: &Ledger, publisher: usize, errors: &[(u64, u16)]) {
    let expected = [STREAM_NOT_AVAILABLE, PUBLISHER_DOES_NOT_EXIST];
    if let Some((id, code)) = errors.iter().find(|(_, code)| !expected.contains(code)) {
        ledger.accuse(format!(
            "stream publisher {publisher}: {id} is not stored, with code {code}"
        ));
    }
}

/// Reads on where the last reader of this stream at this node has ended.
fn read_on(
    nodes: &[StreamNode],
    (node, stream): (usize, usize),
    ledger: &Ledger,
    done: impl FnMut(&Position) -> bool,
) -> Result<()> {
    let mut position = ledger.streams().position(node, stream);
    let result = read(nodes[node], (node, stream), ledger, &mut position, done);
    ledger.streams().keep_position(node, stream, position);
    result
}

/// Reads from a position on until the stream goes elsewhere, or `done` says that it is enough.
fn read(
    at: StreamNode,
    (node, stream): (usize, usize),
    ledger: &Ledger,
    position: &mut Position,
    mut done: impl FnMut(&Position) -> bool,
) -> Result<()> {
    let mut client = StreamClient::connect(at.stream)?;
    client.subscribe(&stream_name(stream), position.next_offset)?;
    // The chunk that has this offset begins before it.
    let from = position.next_offset;
    while !done(position) {
        match client.next(LOOK)? {
            Some(Event::Delivered(messages)) => {
                for (offset, body) in messages.iter().filter(|(offset, _)| *offset >= from) {
                    let books = ledger.streams();
                    let heard = books.hear_message((node, stream), *offset, body, position);
                    heard.unwrap_or_else(|wrong| ledger.accuse(wrong));
                }
            }
            Some(Event::Gone) => return Ok(()),
            Some(other) => bail!("a reader is sent {other:?}"),
            None => {}
        }
    }
    Ok(())
}

/// Reads a stream at a node from its beginning up to where somebody has read by now.
pub fn read_again(nodes: &[StreamNode], place: (usize, usize), ledger: &Ledger) -> Result<()> {
    let wanted = ledger.streams().read_up_to(place.1);
    let is_there = |position: &Position| position.next_offset >= wanted;
    read_until(nodes, place, ledger, Position::default(), is_there).map(drop)
}

/// Has all that was sent confirmed, and reads all of it at each node: what has come since the last
/// time, or from the beginning.
pub fn audit(nodes: &[StreamNode], ledger: &Ledger, from_the_beginning: bool) -> Result<()> {
    if nodes.is_empty() {
        return Ok(());
    }
    thread::scope(|scope| {
        let publishers = (0..STREAM_PUBLISHERS)
            .map(|publisher| scope.spawn(move || settle(nodes, publisher, ledger)));
        let publishers: Vec<_> = publishers.collect();
        let mut all = publishers.into_iter();
        all.try_for_each(|one| one.join().expect("a publisher does not panic"))
    })?;
    thread::scope(|scope| {
        let readers = places(nodes).map(|place| {
            scope.spawn(move || {
                let kept = ledger.streams().position(place.0, place.1);
                let end = read_to_the_end(nodes, place, ledger, kept)?;
                ledger.streams().keep_position(place.0, place.1, end);
                match from_the_beginning {
                    true => read_to_the_end(nodes, place, ledger, Position::default()).map(drop),
                    false => Ok(()),
                }
            })
        });
        let readers: Vec<_> = readers.collect();
        let mut all = readers.into_iter();
        all.try_for_each(|one| one.join().expect("a reader does not panic"))
    })
}

/// Publishes again what was not confirmed, until it is; then every node knows the last id.
fn settle(nodes: &[StreamNode], publisher: usize, ledger: &Ledger) -> Result<()> {
    let began = Instant::now();
    let mut random = Random::new(0);
    for attempt in publisher.. {
        let node = nodes[attempt % nodes.len()];
        let settled = publish(node, publisher, ledger, &mut random, &Until::AllConfirmed);
        if matches!(settled, Ok(true)) {
            break;
        }
        if began.elapsed() > STALL_MAX {
            broker::keep_data();
            let open = ledger.streams().unconfirmed(publisher).len();
            let what = format!("{open} messages of stream publisher {publisher} are not confirmed");
            return settled.context(what.clone()).and_then(|_| bail!(what));
        }
        thread::sleep(RETRY);
    }
    let wanted = ledger.streams().sent(publisher);
    let stream = stream_name(publisher % STREAMS);
    for node in nodes {
        let ask = || {
            let mut client = StreamClient::connect(node.stream)?;
            client.sequence(&reference(publisher), &stream)
        };
        // Its leader may just be another one.
        let mut answer = ask();
        while answer.is_err() && began.elapsed() < STALL_MAX {
            thread::sleep(RETRY);
            answer = ask();
        }
        let known = answer.with_context(|| format!("the last id that {stream} has"))?;
        if known != wanted {
            ledger.accuse(format!(
                "{stream}: the last id of publisher {publisher} is {wanted}, and {known} at {node:?}"
            ));
        }
    }
    Ok(())
}

/// Reads until all that was sent has come; where the reader is then.
fn read_to_the_end(
    nodes: &[StreamNode],
    place: (usize, usize),
    ledger: &Ledger,
    from: Position,
) -> Result<Position> {
    let is_there = |position: &Position| ledger.streams().missing(place.1, position) == 0;
    read_until(nodes, place, ledger, from, is_there)
}

/// Reads until the reader is where it is to be; where that is.
fn read_until(
    nodes: &[StreamNode],
    (node, stream): (usize, usize),
    ledger: &Ledger,
    mut position: Position,
    is_there: impl Fn(&Position) -> bool,
) -> Result<Position> {
    let (mut moved, mut before) = (Instant::now(), position.next_offset);
    let mut stalled = false;
    while !stalled && !is_there(&position) {
        let done = |position: &Position| {
            if position.next_offset > before {
                (moved, before) = (Instant::now(), position.next_offset);
            }
            stalled = moved.elapsed() > STALL_MAX;
            stalled || is_there(position)
        };
        let result = read(nodes[node], (node, stream), ledger, &mut position, done);
        hear_end(ledger, "stream reader", nodes[node], result);
        if !is_there(&position) {
            thread::sleep(RETRY);
        }
        stalled |= moved.elapsed() > STALL_MAX;
    }
    if stalled {
        broker::keep_data();
        bail!(
            "{} at node {node}: {} messages have not come, and none has for {} s",
            stream_name(stream),
            ledger.streams().missing(stream, &position),
            STALL_MAX.as_secs()
        );
    }
    Ok(position)
}
