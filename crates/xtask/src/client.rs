//! A small blocking AMQP 0-9-1 client for loads and audits. It shares no code with the broker on
//! purpose: a mistake in the codec cannot hide by being made on both sides.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

const FRAME_METHOD: u8 = 1;
const FRAME_HEADER: u8 = 2;
const FRAME_BODY: u8 = 3;
const FRAME_END: u8 = 0xCE;
/// Type, channel and size before a frame's payload, the end octet after it.
const FRAME_OVERHEAD: usize = 8;
/// What is read from the socket at once.
const READ_BYTES: usize = 256 * 1024;
/// How long a broker may take to answer a method, recovery of a large backlog included.
const ANSWER_DEADLINE: Duration = Duration::from_secs(30);

/// What a broker sends to a channel in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A confirm, or its refusal, for one message or all up to it.
    Confirm {
        number: u64,
        multiple: bool,
        refused: bool,
    },
    /// A delivery.
    Deliver {
        tag: u64,
        redelivered: bool,
        body: Vec<u8>,
    },
    /// An answer to a method, by class, method and arguments.
    Answer {
        class: u16,
        method: u16,
        arguments: Vec<u8>,
    },
}

impl Event {
    /// The answer to a commit.
    pub fn tx_committed() -> Event {
        Event::Answer {
            class: 90,
            method: 21,
            arguments: Vec::new(),
        }
    }

    /// Whether it says that a transaction was committed.
    pub fn is_tx_committed(&self) -> bool {
        matches!(
            self,
            Event::Answer {
                class: 90,
                method: 21,
                ..
            }
        )
    }
}

/// A field table of texts, as bytes of the protocol.
#[derive(Clone, Debug, Default)]
pub struct Table(Vec<u8>);

impl Table {
    /// Adds a text.
    pub fn text(&mut self, name: &str, value: &str) {
        short_string(&mut self.0, name);
        self.0.push(b'S');
        self.0
            .extend_from_slice(&(value.len() as u32).to_be_bytes());
        self.0.extend_from_slice(value.as_bytes());
    }

    /// Adds a number of 32 bits.
    pub fn number(&mut self, name: &str, value: i32) {
        short_string(&mut self.0, name);
        self.0.push(b'I');
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.0.len() as u32).to_be_bytes());
        out.extend_from_slice(&self.0);
    }
}

/// A connection with one channel, number 1.
pub struct Client {
    stream: TcpStream,
    input: Vec<u8>,
    consumed: usize,
    output: Vec<u8>,
    frame_bytes_max: usize,
    /// A delivery whose body is not whole yet: tag, redelivered, the size, what came.
    partial: Option<(u64, bool, Option<u64>, Vec<u8>)>,
    /// Messages published since confirms were asked for: the number of the last one.
    published: u64,
}

impl Client {
    /// Connects as the default user, opens a channel.
    pub fn connect(address: SocketAddr) -> Result<Client> {
        let stream = TcpStream::connect_timeout(&address, ANSWER_DEADLINE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_DEADLINE))?;
        stream.set_write_timeout(Some(ANSWER_DEADLINE))?;
        let mut client = Client {
            stream,
            input: Vec::new(),
            consumed: 0,
            output: b"AMQP\x00\x00\x09\x01".to_vec(),
            frame_bytes_max: 4_096,
            partial: None,
            published: 0,
        };
        client.handshake()?;
        client.call(1, (20, 10), &[0], (20, 11))?;
        Ok(client)
    }

    fn handshake(&mut self) -> Result<()> {
        self.flush()?;
        self.await_answer((10, 10))?;
        let mut start_ok = Vec::new();
        // No client properties: the audit wants none of the optional behaviours.
        start_ok.extend_from_slice(&0u32.to_be_bytes());
        short_string(&mut start_ok, "PLAIN");
        start_ok.extend_from_slice(&12u32.to_be_bytes());
        start_ok.extend_from_slice(b"\0guest\0guest");
        short_string(&mut start_ok, "en_US");
        let tune = self.call(0, (10, 11), &start_ok, (10, 30))?;
        let frame_bytes_max = u32::from_be_bytes(tune[2..6].try_into()?);
        self.frame_bytes_max = frame_bytes_max as usize;
        // Heartbeats off: a client that only publishes does not read for long times.
        let mut tune_ok = tune[..6].to_vec();
        tune_ok.extend_from_slice(&[0, 0]);
        self.method(0, (10, 31), &tune_ok);
        let mut open = Vec::new();
        short_string(&mut open, "/");
        open.extend_from_slice(&[0, 0]);
        self.call(0, (10, 40), &open, (10, 41))?;
        Ok(())
    }

    /// Declares a queue; gives how many messages are ready in it.
    pub fn declare(&mut self, queue: &str, durable: bool) -> Result<u32> {
        self.declare_with(queue, u8::from(durable) << 1, &Table::default())
    }

    /// Declares a quorum queue.
    pub fn declare_quorum(&mut self, queue: &str) -> Result<u32> {
        let mut table = Table::default();
        table.text("x-queue-type", "quorum");
        self.declare_with(queue, 1 << 1, &table)
    }

    /// Declares a durable queue with arguments.
    pub fn declare_as(&mut self, queue: &str, table: &Table) -> Result<u32> {
        self.declare_with(queue, 1 << 1, table)
    }

    /// Drops all messages that are ready in a queue.
    pub fn purge(&mut self, queue: &str) -> Result<()> {
        let mut arguments = vec![0, 0];
        short_string(&mut arguments, queue);
        arguments.push(0);
        self.call(1, (50, 30), &arguments, (50, 31))?;
        Ok(())
    }

    /// Opens a further channel, of this number.
    pub fn open_channel(&mut self, number: u16) -> Result<()> {
        self.call(number, (20, 10), &[0], (20, 11))?;
        Ok(())
    }

    /// Asks how many messages are ready in a queue.
    pub fn ready_count(&mut self, queue: &str) -> Result<u32> {
        self.declare_with(queue, 1, &Table::default())
    }

    fn declare_with(&mut self, queue: &str, flags: u8, table: &Table) -> Result<u32> {
        let arguments = declare_arguments(queue, flags, table);
        let answer = self.call(1, (50, 10), &arguments, (50, 11))?;
        let counts = answer
            .get(1 + answer[0] as usize..)
            .context("a short declare-ok")?;
        Ok(u32::from_be_bytes(
            counts.get(..4).context("a short declare-ok")?.try_into()?,
        ))
    }

    /// Puts a declaration into the output buffer; its answer is left to `next`.
    pub fn send_declare(&mut self, queue: &str, durable: bool) {
        let arguments = declare_arguments(queue, u8::from(durable) << 1, &Table::default());
        self.method(1, (50, 10), &arguments);
    }

    /// Puts a deletion into the output buffer; its answer is left to `next`.
    pub fn send_delete(&mut self, queue: &str) {
        let mut arguments = vec![0, 0];
        short_string(&mut arguments, queue);
        arguments.push(0);
        self.method(1, (50, 40), &arguments);
    }

    /// Declares a durable exchange.
    pub fn declare_exchange(&mut self, exchange: &str, kind: &str) -> Result<()> {
        let mut arguments = vec![0, 0];
        short_string(&mut arguments, exchange);
        short_string(&mut arguments, kind);
        arguments.push(1 << 1);
        Table::default().put(&mut arguments);
        self.call(1, (40, 10), &arguments, (40, 11))?;
        Ok(())
    }

    /// Binds a queue to an exchange.
    pub fn bind(&mut self, queue: &str, exchange: &str, key: &str) -> Result<()> {
        let arguments = bind_arguments(queue, exchange, key, &Table::default());
        self.call(1, (50, 20), &arguments, (50, 21))?;
        Ok(())
    }

    /// Puts a binding into the output buffer; its answer is left to `next`.
    pub fn send_bind(&mut self, queue: &str, exchange: &str, key: &str, table: &Table) {
        let arguments = bind_arguments(queue, exchange, key, table);
        self.method(1, (50, 20), &arguments);
    }

    /// Gets a message and settles it at once; it is an error if there is none.
    pub fn get(&mut self, queue: &str) -> Result<()> {
        let mut arguments = vec![0, 0];
        short_string(&mut arguments, queue);
        arguments.push(1);
        self.method(1, (60, 70), &arguments);
        self.flush()?;
        match self.next(ANSWER_DEADLINE)? {
            Some(Event::Deliver { .. }) => Ok(()),
            other => bail!("wanted a message of {queue}, got {other:?}"),
        }
    }

    /// Asks for confirms.
    pub fn confirm_select(&mut self) -> Result<()> {
        self.call(1, (85, 10), &[0], (85, 11))?;
        self.published = 0;
        Ok(())
    }

    /// Makes the channel's publishes and settlements transactions.
    pub fn tx_select(&mut self) -> Result<()> {
        self.call(1, (90, 10), &[], (90, 11))?;
        Ok(())
    }

    /// Puts a commit into the output buffer; its answer is left to `next`.
    pub fn tx_commit(&mut self) {
        self.method(1, (90, 20), &[]);
    }

    /// Sets how many deliveries may be unsettled.
    pub fn qos(&mut self, count: u16) -> Result<()> {
        let mut arguments = vec![0; 4];
        arguments.extend_from_slice(&count.to_be_bytes());
        arguments.push(0);
        self.call(1, (60, 10), &arguments, (60, 11))?;
        Ok(())
    }

    /// Sets it again and waits for the answer among deliveries, which are dropped.
    pub fn qos_answered(&mut self, count: u16) -> Result<()> {
        let mut arguments = vec![0; 4];
        arguments.extend_from_slice(&count.to_be_bytes());
        arguments.push(0);
        self.method(1, (60, 10), &arguments);
        self.flush()?;
        loop {
            match self.next(ANSWER_DEADLINE)? {
                Some(Event::Answer {
                    class: 60,
                    method: 11,
                    ..
                }) => return Ok(()),
                Some(_) => {}
                None => bail!("no answer within {} s", ANSWER_DEADLINE.as_secs()),
            }
        }
    }

    /// Starts a consumer. Deliveries may come before its answer, which is left to `next`.
    pub fn consume(&mut self, queue: &str, no_ack: bool) -> Result<()> {
        let mut arguments = vec![0, 0];
        short_string(&mut arguments, queue);
        short_string(&mut arguments, "");
        arguments.push(u8::from(no_ack) << 1);
        arguments.extend_from_slice(&0u32.to_be_bytes());
        self.method(1, (60, 20), &arguments);
        self.flush()
    }

    /// Puts a message into the output buffer; `flush` sends it.
    pub fn publish(&mut self, exchange: &str, key: &str, body: &[u8], persistent: bool) {
        // The one property: delivery mode.
        self.publish_properties(exchange, key, &[0x10, 0x00, 1 + u8::from(persistent)], body);
    }

    /// Puts a persistent message with headers into the output buffer.
    pub fn publish_with_headers(
        &mut self,
        exchange: &str,
        key: &str,
        headers: &Table,
        body: &[u8],
    ) {
        let mut properties = vec![0x30, 0x00];
        headers.put(&mut properties);
        properties.push(2);
        self.publish_properties(exchange, key, &properties, body);
    }

    /// Puts a transient message with a priority into the output buffer.
    pub fn publish_with_priority(&mut self, key: &str, priority: u8, body: &[u8]) {
        self.publish_properties("", key, &[0x18, 0x00, 1, priority], body);
    }

    fn publish_properties(&mut self, exchange: &str, key: &str, properties: &[u8], body: &[u8]) {
        self.published += 1;
        let mut arguments = vec![0, 0];
        short_string(&mut arguments, exchange);
        short_string(&mut arguments, key);
        arguments.push(0);
        self.method(1, (60, 40), &arguments);
        let mut header = vec![0, 60, 0, 0];
        header.extend_from_slice(&(body.len() as u64).to_be_bytes());
        header.extend_from_slice(properties);
        self.frame(FRAME_HEADER, 1, &header);
        for part in body.chunks(self.frame_bytes_max - FRAME_OVERHEAD) {
            self.frame(FRAME_BODY, 1, part);
        }
    }

    /// Puts a transient message into the output buffer whose body has one byte more than its header
    /// says.
    pub fn publish_longer_than_said(&mut self, key: &str, body: &[u8]) {
        let said = (body.len() - 1) as u64;
        let mut arguments = vec![0, 0];
        short_string(&mut arguments, "");
        short_string(&mut arguments, key);
        arguments.push(0);
        self.method(1, (60, 40), &arguments);
        let header = [&[0, 60, 0, 0], &said.to_be_bytes()[..], &[0, 0]].concat();
        self.frame(FRAME_HEADER, 1, &header);
        self.frame(FRAME_BODY, 1, body);
    }

    /// Messages published since confirms were asked for.
    pub fn published(&self) -> u64 {
        self.published
    }

    /// Puts a settlement into the output buffer.
    pub fn ack(&mut self, tag: u64, multiple: bool) {
        let mut arguments = tag.to_be_bytes().to_vec();
        arguments.push(u8::from(multiple));
        self.method(1, (60, 80), &arguments);
    }

    /// Bytes that wait for `flush`.
    pub fn buffered_bytes(&self) -> usize {
        self.output.len()
    }

    /// Sends what is in the output buffer.
    pub fn flush(&mut self) -> Result<()> {
        self.stream.write_all(&self.output)?;
        self.output.clear();
        Ok(())
    }

    /// The next event, or `None` if none comes within the wait. A closed connection is an error.
    pub fn next(&mut self, wait: Duration) -> Result<Option<Event>> {
        loop {
            if let Some(event) = self.parse()? {
                return Ok(Some(event));
            }
            if !self.fill(wait)? {
                return Ok(None);
            }
        }
    }

    /// The next event among the bytes that were read already.
    pub fn next_buffered(&mut self) -> Result<Option<Event>> {
        self.parse()
    }

    /// Reads once; `false` if nothing came within the wait.
    fn fill(&mut self, wait: Duration) -> Result<bool> {
        self.input.drain(..self.consumed);
        self.consumed = 0;
        // A zero timeout would mean none.
        self.stream
            .set_read_timeout(Some(wait.max(Duration::from_millis(1))))?;
        let before = self.input.len();
        self.input.resize(before + READ_BYTES, 0);
        let read = self.stream.read(&mut self.input[before..]);
        self.input.truncate(before + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => bail!("the broker closed the socket"),
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Takes whole frames off the input until one makes an event.
    fn parse(&mut self) -> Result<Option<Event>> {
        loop {
            let waiting = &self.input[self.consumed..];
            if waiting.len() < FRAME_OVERHEAD {
                return Ok(None);
            }
            let size = u32::from_be_bytes(waiting[3..7].try_into()?) as usize;
            let Some(frame) = waiting.get(..size + FRAME_OVERHEAD) else {
                return Ok(None);
            };
            if frame[size + 7] != FRAME_END {
                bail!("a frame that ends in {:#x}", frame[size + 7]);
            }
            let kind = frame[0];
            let payload = frame[7..size + 7].to_vec();
            self.consumed += size + FRAME_OVERHEAD;
            if let Some(event) = self.on_frame(kind, &payload)? {
                return Ok(Some(event));
            }
        }
    }

    fn on_frame(&mut self, kind: u8, payload: &[u8]) -> Result<Option<Event>> {
        match kind {
            FRAME_METHOD => self.on_method(payload),
            FRAME_HEADER => {
                let partial = self
                    .partial
                    .as_mut()
                    .context("a header without a delivery")?;
                partial.2 = Some(u64::from_be_bytes(payload[4..12].try_into()?));
                Ok(self.whole_delivery())
            }
            FRAME_BODY => {
                let partial = self.partial.as_mut().context("a body without a delivery")?;
                partial.3.extend_from_slice(payload);
                Ok(self.whole_delivery())
            }
            _ => Ok(None),
        }
    }

    fn whole_delivery(&mut self) -> Option<Event> {
        let (tag, redelivered, size, body) = self.partial.take()?;
        if size == Some(body.len() as u64) {
            return Some(Event::Deliver {
                tag,
                redelivered,
                body,
            });
        }
        self.partial = Some((tag, redelivered, size, body));
        None
    }

    fn on_method(&mut self, payload: &[u8]) -> Result<Option<Event>> {
        let class = u16::from_be_bytes(payload[..2].try_into()?);
        let method = u16::from_be_bytes(payload[2..4].try_into()?);
        let arguments = &payload[4..];
        match (class, method) {
            (60, 60) => {
                let rest = &arguments[1 + arguments[0] as usize..];
                let tag = u64::from_be_bytes(rest[..8].try_into()?);
                self.partial = Some((tag, rest[8] != 0, None, Vec::new()));
                Ok(None)
            }
            // Of a get-ok, after which content comes as after a delivery.
            (60, 71) => {
                let tag = u64::from_be_bytes(arguments[..8].try_into()?);
                self.partial = Some((tag, arguments[8] != 0, None, Vec::new()));
                Ok(None)
            }
            (60, 80 | 120) => Ok(Some(Event::Confirm {
                number: u64::from_be_bytes(arguments[..8].try_into()?),
                multiple: arguments[8] & 1 != 0,
                refused: method == 120,
            })),
            (10, 50) | (20, 40) => {
                let code = u16::from_be_bytes(arguments[..2].try_into()?);
                let text = &arguments[3..3 + arguments[2] as usize];
                bail!("closed with {code} {}", String::from_utf8_lossy(text))
            }
            _ => Ok(Some(Event::Answer {
                class,
                method,
                arguments: arguments.to_vec(),
            })),
        }
    }

    fn call(
        &mut self,
        channel: u16,
        method: (u16, u16),
        arguments: &[u8],
        answer: (u16, u16),
    ) -> Result<Vec<u8>> {
        self.method(channel, method, arguments);
        self.flush()?;
        self.await_answer(answer)
    }

    fn await_answer(&mut self, wanted: (u16, u16)) -> Result<Vec<u8>> {
        match self.next(ANSWER_DEADLINE)? {
            Some(Event::Answer {
                class,
                method,
                arguments,
            }) if (class, method) == wanted => Ok(arguments),
            other => bail!("wanted method {wanted:?}, got {other:?}"),
        }
    }

    fn method(&mut self, channel: u16, (class, method): (u16, u16), arguments: &[u8]) {
        let mut payload = Vec::with_capacity(4 + arguments.len());
        payload.extend_from_slice(&class.to_be_bytes());
        payload.extend_from_slice(&method.to_be_bytes());
        payload.extend_from_slice(arguments);
        self.frame(FRAME_METHOD, channel, &payload);
    }

    fn frame(&mut self, kind: u8, channel: u16, payload: &[u8]) {
        self.output.push(kind);
        self.output.extend_from_slice(&channel.to_be_bytes());
        self.output
            .extend_from_slice(&(payload.len() as u32).to_be_bytes());
        self.output.extend_from_slice(payload);
        self.output.push(FRAME_END);
    }
}

fn declare_arguments(queue: &str, flags: u8, table: &Table) -> Vec<u8> {
    let mut arguments = vec![0, 0];
    short_string(&mut arguments, queue);
    arguments.push(flags);
    table.put(&mut arguments);
    arguments
}

fn bind_arguments(queue: &str, exchange: &str, key: &str, table: &Table) -> Vec<u8> {
    let mut arguments = vec![0, 0];
    short_string(&mut arguments, queue);
    short_string(&mut arguments, exchange);
    short_string(&mut arguments, key);
    arguments.push(0);
    table.put(&mut arguments);
    arguments
}

fn short_string(out: &mut Vec<u8>, text: &str) {
    out.push(u8::try_from(text.len()).expect("names here are short"));
    out.extend_from_slice(text.as_bytes());
}
