//! What tests run against: a broker in memory that does as it should, a proxy before it that does
//! not, and a sink that reads frames and nothing else. All on real sockets.

#![allow(dead_code)] // Each test uses its own part.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use leveret_amqp::{
    ContentHeader, Frame, FrameKind, Method, RawTable, basic, channel, confirm, connection, encode,
    exchange, next_frame, queue,
};
use leveret_perf::spec::Spec;

const FRAME_MAX: u32 = 131_072;

/// A specification with `load` as its only load, against `address`, short and without warm-up.
pub fn spec(address: SocketAddr, load: &str) -> Spec {
    let text = format!(
        "name = \"test\"\nduration_s = 1.0\nwarm_up_s = 0.0\ndrain_s = 1.0\nthreads = 1\n\
         uris = [\"amqp://guest:guest@{address}/\"]\n[[load]]\n{load}\n"
    );
    Spec::parse(&text).unwrap()
}

/// Reads whole frames off a socket.
pub struct Frames {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Frames {
    fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            input: Vec::new(),
        }
    }

    /// The next frame with its ends; none when the stream is over.
    fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let found = next_frame(&self.input, FRAME_MAX).ok()?;
            if let Some(frame) = found {
                return Some(self.input.drain(..frame.wire_len()).collect());
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Option<()> {
        let mut buffer = [0; 65_536];
        let count = self
            .stream
            .read(&mut buffer)
            .ok()
            .filter(|count| *count > 0)?;
        self.input.extend_from_slice(&buffer[..count]);
        Some(())
    }

    fn expect(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.input.len() < count {
            self.fill()?;
        }
        Some(self.input.drain(..count).collect())
    }
}

fn parsed(frame: &[u8]) -> Frame<'_> {
    next_frame(frame, FRAME_MAX).unwrap().unwrap()
}

/// A message: exchange, routing key, and the frames of header and body.
type Stored = (String, String, Vec<Vec<u8>>);

#[derive(Default)]
struct Queue {
    ready: VecDeque<Stored>,
    consumers: Vec<(Arc<Mutex<Peer>>, u16, String)>,
    next: usize,
}

#[derive(Default)]
struct State {
    queues: HashMap<String, Queue>,
    exchanges: HashSet<String>,
    bindings: Vec<(String, String, String)>,
}

struct Peer {
    stream: TcpStream,
    tags: HashMap<u16, u64>,
    confirms: HashMap<u16, u64>,
}

impl Peer {
    fn new(stream: &TcpStream) -> Self {
        Self {
            stream: stream.try_clone().unwrap(),
            tags: HashMap::new(),
            confirms: HashMap::new(),
        }
    }
}

/// A broker in memory: queues, bindings of equal keys and of fanout exchanges, confirms, consumers
/// in turn. It keeps no account of acknowledgements.
pub struct Broker {
    /// Where it listens.
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Broker {
    /// Starts it.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let own = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&state);
                thread::spawn(move || {
                    let peer = Arc::new(Mutex::new(Peer::new(&stream)));
                    serve(stream, &state, &peer);
                    state.lock().unwrap().forget(&peer);
                });
            }
        });
        Self {
            address,
            state: own,
        }
    }

    /// Declares an exchange.
    pub fn declare_exchange(&self, name: &str) {
        self.state.lock().unwrap().exchanges.insert(name.to_owned());
    }

    /// Binds a queue of somebody else's.
    pub fn bind(&self, exchange: &str, queue: &str) {
        let binding = [exchange, "theirs", queue].map(str::to_owned);
        self.state.lock().unwrap().bindings.push(binding.into());
    }

    /// The names of all queues and exchanges.
    pub fn names(&self) -> Vec<String> {
        let state = self.state.lock().unwrap();
        let mut names: Vec<String> = state.queues.keys().cloned().collect();
        names.extend(state.exchanges.iter().cloned());
        names.sort();
        names
    }
}

fn handshake(frames: &mut Frames) -> Option<()> {
    frames.expect(8)?;
    let mut out = Vec::new();
    let start = connection::Start {
        version_major: 0,
        version_minor: 9,
        server_properties: RawTable::EMPTY,
        mechanisms: b"PLAIN",
        locales: b"en_US",
    };
    encode::method(&mut out, 0, &start);
    frames.stream.write_all(&out).ok()?;
    frames.next()?;
    let tune = connection::Tune {
        channel_max: 2_047,
        frame_max: FRAME_MAX,
        heartbeat: 0,
    };
    out.clear();
    encode::method(&mut out, 0, &tune);
    frames.stream.write_all(&out).ok()?;
    frames.next()?;
    frames.next()?;
    out.clear();
    encode::method(&mut out, 0, &connection::OpenOk {});
    frames.stream.write_all(&out).ok()
}

fn serve(stream: TcpStream, state: &Mutex<State>, peer: &Arc<Mutex<Peer>>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut frames = Frames::new(stream);
    handshake(&mut frames)?;
    loop {
        let bytes = frames.next()?;
        let frame = parsed(&bytes);
        if frame.kind != FrameKind::Method {
            continue;
        }
        let method = Method::decode(frame.payload).unwrap();
        if let Method::BasicPublish(publish) = method {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let (exchange, key) = (text(publish.exchange), text(publish.routing_key));
            let content = read_content(&mut frames)?;
            let mut state = state.lock().unwrap();
            state.publish((exchange, key, content));
            confirm_publish(&mut peer.lock().unwrap(), frame.channel);
            continue;
        }
        let mut out = Vec::new();
        answer(
            &mut state.lock().unwrap(),
            peer,
            frame.channel,
            &method,
            &mut out,
        );
        peer.lock().unwrap().stream.write_all(&out).ok()?;
    }
}

fn read_content(frames: &mut Frames) -> Option<Vec<Vec<u8>>> {
    let header = frames.next()?;
    let mut left = ContentHeader::decode(parsed(&header).payload)
        .unwrap()
        .body_size;
    let mut content = vec![header];
    while left > 0 {
        let body = frames.next()?;
        left -= parsed(&body).payload.len() as u64;
        content.push(body);
    }
    Some(content)
}

fn confirm_publish(peer: &mut Peer, channel: u16) {
    if let Some(count) = peer.confirms.get_mut(&channel) {
        *count += 1;
        let ack = basic::Ack {
            delivery_tag: *count,
            multiple: false,
        };
        let mut out = Vec::new();
        encode::method(&mut out, channel, &ack);
        let _ = peer.stream.write_all(&out);
    }
}

fn answer(
    state: &mut MutexGuard<'_, State>,
    peer: &Arc<Mutex<Peer>>,
    number: u16,
    method: &Method<'_>,
    out: &mut Vec<u8>,
) {
    match method {
        Method::ChannelOpen(_) => encode::method(out, number, &channel::OpenOk {}),
        Method::ConfirmSelect(_) => {
            peer.lock().unwrap().confirms.insert(number, 0);
            encode::method(out, number, &confirm::SelectOk {});
        }
        Method::BasicQos(_) => encode::method(out, number, &basic::QosOk {}),
        Method::ExchangeDeclare(declare) => {
            if declare.passive && !state.exchanges.contains(declare.exchange) {
                refuse(out, number, 404, "NOT_FOUND");
                return;
            }
            state.exchanges.insert(declare.exchange.to_owned());
            encode::method(out, number, &exchange::DeclareOk {});
        }
        Method::ExchangeDelete(delete) => {
            let is_its = |binding: &(String, String, String)| binding.0 == delete.exchange;
            if delete.if_unused && state.bindings.iter().any(is_its) {
                refuse(out, number, 406, "PRECONDITION_FAILED");
                return;
            }
            state.exchanges.remove(delete.exchange);
            encode::method(out, number, &exchange::DeleteOk {});
        }
        Method::QueueDeclare(declare) => {
            if declare.passive && !state.queues.contains_key(declare.queue) {
                refuse(out, number, 404, "NOT_FOUND");
                return;
            }
            state.queues.entry(declare.queue.to_owned()).or_default();
            let declared = queue::DeclareOk {
                queue: declare.queue,
                message_count: 0,
                consumer_count: 0,
            };
            encode::method(out, number, &declared);
        }
        Method::QueueBind(bind) => {
            let binding = [bind.exchange, bind.routing_key, bind.queue].map(str::to_owned);
            state.bindings.push(binding.into());
            encode::method(out, number, &queue::BindOk {});
        }
        Method::QueueDelete(delete) => {
            state.queues.remove(delete.queue);
            state.bindings.retain(|binding| binding.2 != delete.queue);
            encode::method(out, number, &queue::DeleteOk { message_count: 0 });
        }
        Method::BasicConsume(consume) => {
            let queue = state.queues.get_mut(consume.queue).unwrap();
            let tag = consume.consumer_tag.to_owned();
            queue.consumers.push((Arc::clone(peer), number, tag));
            queue.pump();
        }
        Method::BasicCancel(cancel) => {
            for queue in state.queues.values_mut() {
                let own = |c: &(Arc<Mutex<Peer>>, u16, String)| {
                    Arc::ptr_eq(&c.0, peer) && c.1 == number && c.2 == cancel.consumer_tag
                };
                queue.consumers.retain(|consumer| !own(consumer));
            }
        }
        Method::ConnectionClose(_) => encode::method(out, 0, &connection::CloseOk {}),
        _ => {}
    }
}

fn refuse(out: &mut Vec<u8>, number: u16, reply_code: u16, reply_text: &str) {
    let close = channel::Close {
        reply_code,
        reply_text,
        class_id: 0,
        method_id: 0,
    };
    encode::method(out, number, &close);
}

impl State {
    /// A connection is over, and its consumers with it.
    fn forget(&mut self, peer: &Arc<Mutex<Peer>>) {
        for queue in self.queues.values_mut() {
            queue.consumers.retain(|(of, _, _)| !Arc::ptr_eq(of, peer));
        }
    }

    fn publish(&mut self, message: Stored) {
        let (exchange, key, _) = &message;
        let mut targets: Vec<String> = Vec::new();
        if exchange.is_empty() {
            targets.push(key.clone());
        }
        for (from, bound, queue) in &self.bindings {
            if from == exchange && (bound == key || exchange.contains("fanout")) {
                targets.push(queue.clone());
            }
        }
        for target in targets {
            if let Some(queue) = self.queues.get_mut(&target) {
                queue.ready.push_back(message.clone());
                queue.pump();
            }
        }
    }
}

impl Queue {
    fn pump(&mut self) {
        while !self.consumers.is_empty()
            && let Some((exchange, key, content)) = self.ready.pop_front()
        {
            self.next = (self.next + 1) % self.consumers.len();
            let (peer, number, tag) = &self.consumers[self.next];
            let mut peer = peer.lock().unwrap();
            let delivery_tag = peer.tags.entry(*number).or_default();
            *delivery_tag += 1;
            let deliver = basic::Deliver {
                consumer_tag: tag.as_bytes(),
                delivery_tag: *delivery_tag,
                redelivered: false,
                exchange: exchange.as_bytes(),
                routing_key: key.as_bytes(),
            };
            let mut out = Vec::new();
            encode::method(&mut out, *number, &deliver);
            for mut frame in content {
                frame[1..3].copy_from_slice(&number.to_be_bytes());
                out.extend_from_slice(&frame);
            }
            let _ = peer.stream.write_all(&out);
        }
    }
}

/// What a proxy does to what the broker sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// A delivery never comes.
    Drop,
    /// A delivery comes twice.
    Duplicate,
    /// Two deliveries change places.
    Reorder,
    /// One bit of a body is another.
    Damage,
    /// A confirm never comes.
    DropConfirm,
    /// A connection is cut where a confirm would have come.
    CutAtConfirm,
    /// A connection is cut where a delivery would have come.
    CutAtDelivery,
    /// Nothing passes for a while, either way; what came meanwhile follows.
    Stall(Duration),
}

/// A proxy before a broker, with one fault, once.
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    /// How long it stalled, measured where it did.
    pub stalled: Arc<Mutex<Option<Duration>>>,
}

/// How many deliveries, or confirms, come before the fault.
const FAULT_AT: u64 = 50;

impl Proxy {
    /// Starts it before `broker`.
    pub fn start(broker: SocketAddr, fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stalled = Arc::new(Mutex::new(None));
        let to_tell = Arc::clone(&stalled);
        // One for all connections: a stall is of the broker, not of one consumer.
        let gate = Arc::new(Mutex::new(()));
        let cut = Arc::new(AtomicBool::new(false));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(broker).unwrap();
                for stream in [&client, &server] {
                    stream.set_nodelay(true).unwrap();
                }
                let gate = Arc::clone(&gate);
                let up = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let passing = Arc::clone(&gate);
                thread::spawn(move || copy(up.0, up.1, &passing));
                let stalled = Arc::clone(&to_tell);
                let cut = Arc::clone(&cut);
                thread::spawn(move || {
                    let over = client.try_clone().unwrap();
                    spoil(
                        server.try_clone().unwrap(),
                        client,
                        fault,
                        &gate,
                        (&stalled, &cut),
                    );
                    for stream in [over, server] {
                        let _ = stream.shutdown(std::net::Shutdown::Both);
                    }
                });
            }
        });
        Self { address, stalled }
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, gate: &Mutex<()>) {
    let mut buffer = [0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let _passes = gate.lock().unwrap();
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}

/// Passes what the broker sends, delivery by delivery, with one fault.
fn spoil(
    from: TcpStream,
    mut to: TcpStream,
    fault: Fault,
    gate: &Mutex<()>,
    (stalled, cut): (&Mutex<Option<Duration>>, &AtomicBool),
) -> Option<()> {
    let mut frames = Frames::new(from);
    let mut deliveries = 0;
    let mut confirms = 0;
    let mut held: Option<Vec<u8>> = None;
    loop {
        let first = frames.next()?;
        let frame = parsed(&first);
        let method = (frame.kind == FrameKind::Method).then(|| Method::decode(frame.payload));
        let mut unit = first.clone();
        match method {
            Some(Ok(Method::BasicDeliver(_))) => {
                deliveries += 1;
                for part in read_content(&mut frames)? {
                    unit.extend_from_slice(&part);
                }
            }
            Some(Ok(Method::BasicAck(_))) => confirms += 1,
            _ => {}
        }
        let is_delivery = matches!(method, Some(Ok(Method::BasicDeliver(_))));
        let is_now = is_delivery && deliveries == FAULT_AT;
        match fault {
            Fault::Drop if is_now => continue,
            Fault::Duplicate if is_now => to.write_all(&unit).ok()?,
            Fault::Damage if is_now => {
                // The octet before the frame's end is the last of the body.
                let at = unit.len() - 2;
                unit[at] ^= 1;
            }
            Fault::Reorder if is_now => {
                held = Some(unit);
                continue;
            }
            Fault::CutAtConfirm | Fault::CutAtDelivery => {
                let at_confirm = fault == Fault::CutAtConfirm && confirms == FAULT_AT;
                let at_delivery = fault == Fault::CutAtDelivery && is_now;
                if (at_confirm || at_delivery) && !cut.swap(true, Ordering::Relaxed) {
                    return None;
                }
            }
            Fault::DropConfirm if confirms == FAULT_AT => {
                confirms += 1;
                continue;
            }
            Fault::Stall(time) if is_now => {
                let _shut = gate.lock().unwrap();
                let began = Instant::now();
                thread::sleep(time);
                *stalled.lock().unwrap() = Some(began.elapsed());
            }
            _ => {}
        }
        let _passes = gate.lock().unwrap();
        to.write_all(&unit).ok()?;
        if let Some(unit) = held.take() {
            to.write_all(&unit).ok()?;
        }
    }
}

/// A peer that lets publishers in and reads what they send, frame by frame, and that sends
/// deliveries as fast as they are taken.
pub struct Sink {
    /// Where it listens.
    pub address: SocketAddr,
    /// Frames that it read after the handshake.
    pub frames: Arc<std::sync::atomic::AtomicU64>,
}

impl Sink {
    /// Starts it.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let frames = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let counted = Arc::clone(&frames);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counted = Arc::clone(&counted);
                thread::spawn(move || swallow(stream, &counted));
            }
        });
        Self { address, frames }
    }
}

/// A message of 16 octets as a broker delivers it, so often that one write is large.
fn deliveries(tag: &str, channel: u16) -> Vec<u8> {
    let mut out = Vec::new();
    for delivery_tag in 1..=2_000 {
        let deliver = basic::Deliver {
            consumer_tag: tag.as_bytes(),
            delivery_tag,
            redelivered: false,
            exchange: b"",
            routing_key: b"queue-of-a-run-1",
        };
        encode::method(&mut out, channel, &deliver);
        encode::frame(&mut out, FrameKind::Header, channel, |out| {
            let header = ContentHeader {
                class: basic::CLASS,
                body_size: 16,
                properties: b"\x10\x00\x01",
            };
            header.encode(out);
        });
        encode::frame(&mut out, FrameKind::Body, channel, |out| {
            out.extend([0; 16])
        });
    }
    out
}

fn pour(peer: &Mutex<Peer>, bytes: &[u8]) {
    while peer.lock().unwrap().stream.write_all(bytes).is_ok() {}
}

fn swallow(stream: TcpStream, counted: &std::sync::atomic::AtomicU64) -> Option<()> {
    let peer = Arc::new(Mutex::new(Peer {
        stream: stream.try_clone().ok()?,
        tags: HashMap::new(),
        confirms: HashMap::new(),
    }));
    let state = Mutex::new(State::default());
    let mut frames = Frames::new(stream);
    handshake(&mut frames)?;
    let mut input = std::mem::take(&mut frames.input);
    let mut buffer = vec![0; 1024 * 1024];
    loop {
        let mut rest = &input[..];
        let mut count = 0;
        while let Ok(Some(frame)) = next_frame(rest, FRAME_MAX) {
            count += 1;
            // Publishes and their contents are counted and forgotten.
            let is_publish = frame.payload.starts_with(&[0, 60, 0, 40]);
            if frame.kind == FrameKind::Method && !is_publish {
                let method = Method::decode(frame.payload).unwrap();
                let mut out = Vec::new();
                if let Method::BasicConsume(consume) = &method {
                    let bytes = deliveries(consume.consumer_tag, frame.channel);
                    let peer = Arc::clone(&peer);
                    thread::spawn(move || pour(&peer, &bytes));
                } else {
                    let mut state = state.lock().unwrap();
                    answer(&mut state, &peer, frame.channel, &method, &mut out);
                }
                peer.lock().unwrap().stream.write_all(&out).ok()?;
            }
            rest = &rest[frame.wire_len()..];
        }
        counted.fetch_add(count, std::sync::atomic::Ordering::Relaxed);
        let left = rest.len();
        let taken = input.len() - left;
        input.drain(..taken);
        let read = frames
            .stream
            .read(&mut buffer)
            .ok()
            .filter(|read| *read > 0)?;
        input.extend_from_slice(&buffer[..read]);
    }
}
