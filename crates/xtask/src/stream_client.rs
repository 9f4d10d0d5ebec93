//! A small blocking client of the stream protocol for loads and audits. It shares no code with the
//! broker on purpose, as [`client`](crate::client) does not: a mistake in the codec, or in the
//! format of chunks, cannot hide by being made on both sides.

use std::collections::VecDeque;
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

const DECLARE_PUBLISHER: u16 = 0x01;
const PUBLISH: u16 = 0x02;
const PUBLISH_CONFIRM: u16 = 0x03;
const PUBLISH_ERROR: u16 = 0x04;
const QUERY_PUBLISHER_SEQUENCE: u16 = 0x05;
const SUBSCRIBE: u16 = 0x07;
const DELIVER: u16 = 0x08;
const CREDIT: u16 = 0x09;
const CREATE: u16 = 0x0D;
const METADATA_UPDATE: u16 = 0x10;
const PEER_PROPERTIES: u16 = 0x11;
const SASL_HANDSHAKE: u16 = 0x12;
const SASL_AUTHENTICATE: u16 = 0x13;
const TUNE: u16 = 0x14;
const OPEN: u16 = 0x15;
const CLOSE: u16 = 0x16;
/// In the key of a frame: it is an answer.
const ANSWER: u16 = 0x8000;
const OK: u16 = 0x01;
/// The stream does not exist.
pub const STREAM_DOES_NOT_EXIST: u16 = 0x02;
/// The stream is there already.
pub const STREAM_EXISTS: u16 = 0x05;
/// The stream has no leader at the moment, or has another one.
pub const STREAM_NOT_AVAILABLE: u16 = 0x06;
/// What was asked for is not permitted as things are: no publisher is let in during an alarm.
pub const PRECONDITION_FAILED: u16 = 0x11;
/// A publish by a publisher that the stream's leader does not know, as a new one does not.
pub const PUBLISHER_DOES_NOT_EXIST: u16 = 0x12;

/// Chunks that a reader is sent before it asks for more.
const CREDIT_CHUNKS: u16 = 10;
/// Bytes of a frame of publishes at most; the broker takes 1 MiB.
const PUBLISH_BYTES_MAX: usize = 256 * 1024;
/// No broker has a reason to send more in a frame.
const FRAME_BYTES_MAX: usize = 64 << 20;
/// What is read from the socket at once.
const READ_BYTES: usize = 256 * 1024;
/// Bytes of a chunk before its data.
const CHUNK_HEAD_BYTES: usize = 48;
/// How long a broker may take to answer.
const ANSWER_DEADLINE: Duration = Duration::from_secs(15);
/// What a body of AMQP 1.0 begins with that is one section of data with a length of four octets.
const SECTION: [u8; 4] = [0x00, 0x53, 0x75, 0xB0];

/// A request that was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    what: &'static str,
    /// The response code.
    pub code: u16,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: refused with code {}", self.what, self.code)
    }
}

impl std::error::Error for Refusal {}

/// What a broker sends to a connection in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The messages of these publishing ids are stored.
    Confirmed(Vec<u64>),
    /// These are not, and why.
    NotStored(Vec<(u64, u16)>),
    /// Messages with their offsets, oldest first.
    Delivered(Vec<(u64, Vec<u8>)>),
    /// A stream has gone, or is led elsewhere: its publishers and readers here are none any more.
    Gone,
}

/// A connection.
pub struct StreamClient {
    stream: TcpStream,
    input: Vec<u8>,
    consumed: usize,
    output: Vec<u8>,
    correlation_id: u32,
    /// What came while an answer was awaited.
    waiting: VecDeque<Event>,
}

/// A frame, or what it says to who waits for an answer.
enum ServerFrame {
    Event(Event),
    Answer {
        key: u16,
        correlation_id: u32,
        code: u16,
        rest: Vec<u8>,
    },
    Tune([u8; 8]),
    Nothing,
}

impl StreamClient {
    /// Connects as the default user to the default virtual host.
    ///
    /// # Errors
    /// The broker is not there, or does not let it in.
    pub fn connect(address: SocketAddr) -> Result<StreamClient> {
        StreamClient::over(TcpStream::connect_timeout(&address, ANSWER_DEADLINE)?)
    }

    /// The same over a connection that was made.
    ///
    /// # Errors
    /// The broker does not let it in.
    pub fn over(stream: TcpStream) -> Result<StreamClient> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(ANSWER_DEADLINE))?;
        let mut client = StreamClient {
            stream,
            input: Vec::new(),
            consumed: 0,
            output: Vec::new(),
            correlation_id: 0,
            waiting: VecDeque::new(),
        };
        client.call("peer properties", PEER_PROPERTIES, &0_u32.to_be_bytes())?;
        client.call("a login", SASL_HANDSHAKE, &[])?;
        let mut login = text("PLAIN");
        let response = b"\0guest\0guest";
        login.extend_from_slice(&(response.len() as u32).to_be_bytes());
        login.extend_from_slice(response);
        client.call("a login", SASL_AUTHENTICATE, &login)?;
        let mut tune = client.await_tune()?;
        // No heartbeats: who only waits sends nothing.
        tune[4..].fill(0);
        client.frame(TUNE | ANSWER, &tune);
        client.call("the virtual host", OPEN, &text("/"))?;
        Ok(client)
    }

    /// Creates a stream; that it is there already is as good.
    ///
    /// # Errors
    /// [`Refusal`], or the connection has ended; so for all that follow.
    pub fn create(&mut self, stream: &str, arguments: &[(&str, &str)]) -> Result<()> {
        let mut content = text(stream);
        content.extend_from_slice(&(arguments.len() as u32).to_be_bytes());
        for (key, value) in arguments {
            content.extend_from_slice(&text(key));
            content.extend_from_slice(&text(value));
        }
        match self.call("a stream", CREATE, &content) {
            Err(error) if refusal(&error) == Some(STREAM_EXISTS) => Ok(()),
            created => created.map(drop),
        }
    }

    /// Says that publisher 1 of this connection is the one of this name at a stream.
    ///
    /// # Errors
    /// See [`Self::create`].
    pub fn declare_publisher(&mut self, reference: &str, stream: &str) -> Result<()> {
        let content = [&[1], &text(reference)[..], &text(stream)].concat();
        self.call("a publisher", DECLARE_PUBLISHER, &content)?;
        Ok(())
    }

    /// The highest publishing id that the stream has of the publisher of this name.
    ///
    /// # Errors
    /// See [`Self::create`].
    pub fn sequence(&mut self, reference: &str, stream: &str) -> Result<u64> {
        let content = [text(reference), text(stream)].concat();
        let rest = self.call("a sequence", QUERY_PUBLISHER_SEQUENCE, &content)?;
        Bytes(&rest).u64()
    }

    /// Reads a stream from an offset on, as subscription 1.
    ///
    /// # Errors
    /// See [`Self::create`].
    pub fn subscribe(&mut self, stream: &str, offset: u64) -> Result<()> {
        let mut content = vec![1];
        content.extend_from_slice(&text(stream));
        // By its kind: 1 is the first one, 4 that of this number.
        match offset {
            0 => content.extend_from_slice(&1_u16.to_be_bytes()),
            offset => {
                content.extend_from_slice(&4_u16.to_be_bytes());
                content.extend_from_slice(&offset.to_be_bytes());
            }
        }
        content.extend_from_slice(&CREDIT_CHUNKS.to_be_bytes());
        self.call("a subscription", SUBSCRIBE, &content)?;
        Ok(())
    }

    /// Puts messages of publisher 1 with their publishing ids into the output buffer.
    pub fn publish(&mut self, messages: &[(u64, Vec<u8>)]) {
        let mut from = 0;
        while from < messages.len() {
            let (mut to, mut bytes) = (from, 0);
            while to < messages.len() && (to == from || bytes < PUBLISH_BYTES_MAX) {
                bytes += messages[to].1.len();
                to += 1;
            }
            let mut content = vec![1];
            content.extend_from_slice(&((to - from) as u32).to_be_bytes());
            for (id, body) in &messages[from..to] {
                content.extend_from_slice(&id.to_be_bytes());
                put_message(&mut content, body);
            }
            self.frame(PUBLISH, &content);
            from = to;
        }
    }

    /// Sends what is in the output buffer.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn flush(&mut self) -> Result<()> {
        self.stream.write_all(&self.output)?;
        self.output.clear();
        Ok(())
    }

    /// The next event, if one comes within the wait.
    ///
    /// # Errors
    /// The connection has ended, a chunk is not as it was written, or something came that the
    /// protocol does not know.
    pub fn next(&mut self, wait: Duration) -> Result<Option<Event>> {
        if let Some(event) = self.waiting.pop_front() {
            return Ok(Some(event));
        }
        let ends = Instant::now() + wait;
        loop {
            while let Some(heard) = self.parse()? {
                if let ServerFrame::Event(event) = heard {
                    self.flush()?;
                    return Ok(Some(event));
                }
            }
            let left = ends.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.fill(left)? {
                return Ok(None);
            }
        }
    }

    /// Sends a request and waits for its answer: what stands behind the code.
    fn call(&mut self, what: &'static str, key: u16, content: &[u8]) -> Result<Vec<u8>> {
        self.correlation_id += 1;
        let asked = self.correlation_id;
        self.frame(key, &[&asked.to_be_bytes(), content].concat());
        self.flush()?;
        let ends = Instant::now() + ANSWER_DEADLINE;
        loop {
            match self.parse()? {
                Some(ServerFrame::Answer {
                    key: of,
                    correlation_id,
                    code,
                    rest,
                }) if (of, correlation_id) == (key, asked) => {
                    ensure!(code == OK, Refusal { what, code });
                    return Ok(rest);
                }
                Some(ServerFrame::Event(event)) => self.waiting.push_back(event),
                Some(_) => {}
                None => self.await_bytes(what, ends)?,
            }
        }
    }

    fn await_tune(&mut self) -> Result<[u8; 8]> {
        let ends = Instant::now() + ANSWER_DEADLINE;
        loop {
            match self.parse()? {
                Some(ServerFrame::Tune(tune)) => return Ok(tune),
                Some(_) => {}
                None => self.await_bytes("a tune", ends)?,
            }
        }
    }

    fn await_bytes(&mut self, what: &str, ends: Instant) -> Result<()> {
        let left = ends.saturating_duration_since(Instant::now());
        ensure!(
            !left.is_zero() && self.fill(left)?,
            "{what}: no answer within {} s",
            ANSWER_DEADLINE.as_secs()
        );
        Ok(())
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

    /// Takes a whole frame off the input, if there is one.
    fn parse(&mut self) -> Result<Option<ServerFrame>> {
        let waiting = &self.input[self.consumed..];
        let Some(size) = waiting.first_chunk() else {
            return Ok(None);
        };
        let size = u32::from_be_bytes(*size) as usize;
        ensure!(size <= FRAME_BYTES_MAX, "a frame of {size} bytes");
        let Some(frame) = waiting.get(4..4 + size) else {
            return Ok(None);
        };
        let heard = hear(frame)?;
        self.consumed += 4 + size;
        if matches!(heard, ServerFrame::Event(Event::Delivered(_))) {
            // A chunk was one credit.
            self.frame(CREDIT, &[1, 0, 1]);
        }
        Ok(Some(heard))
    }

    fn frame(&mut self, key: u16, content: &[u8]) {
        let size = (4 + content.len()) as u32;
        self.output.extend_from_slice(&size.to_be_bytes());
        self.output.extend_from_slice(&key.to_be_bytes());
        self.output.extend_from_slice(&1_u16.to_be_bytes());
        self.output.extend_from_slice(content);
    }
}

/// The code with which something was refused, if it was.
pub fn refusal(error: &anyhow::Error) -> Option<u16> {
    Some(error.downcast_ref::<Refusal>()?.code)
}

/// What a frame says.
fn hear(frame: &[u8]) -> Result<ServerFrame> {
    let mut bytes = Bytes(frame);
    let key = bytes.u16()?;
    bytes.u16()?;
    Ok(match key {
        PUBLISH_CONFIRM => {
            bytes.take(1)?;
            let count = bytes.u32()?;
            let ids = (0..count).map(|_| bytes.u64()).collect::<Result<_>>()?;
            ServerFrame::Event(Event::Confirmed(ids))
        }
        PUBLISH_ERROR => {
            bytes.take(1)?;
            let count = bytes.u32()?;
            let error = |_| -> Result<(u64, u16)> { Ok((bytes.u64()?, bytes.u16()?)) };
            let errors = (0..count).map(error).collect::<Result<_>>()?;
            ServerFrame::Event(Event::NotStored(errors))
        }
        DELIVER => {
            bytes.take(1)?;
            ServerFrame::Event(Event::Delivered(messages_of(bytes.0)?))
        }
        METADATA_UPDATE => ServerFrame::Event(Event::Gone),
        TUNE => ServerFrame::Tune(*bytes.0.first_chunk().context("a short tune")?),
        CLOSE => {
            bytes.u32()?;
            let code = bytes.u16()?;
            let length = bytes.u16()? as usize;
            let reason = String::from_utf8_lossy(bytes.take(length)?).into_owned();
            if code == OK {
                bail!("the broker ends the connection: {reason}");
            }
            let what = "the connection";
            return Err(anyhow::Error::new(Refusal { what, code }).context(reason));
        }
        key if key == CREDIT | ANSWER => ServerFrame::Nothing,
        key if key & ANSWER != 0 => ServerFrame::Answer {
            key: key & !ANSWER,
            correlation_id: bytes.u32()?,
            code: bytes.u16()?,
            rest: bytes.0.to_vec(),
        },
        _ => ServerFrame::Nothing,
    })
}

/// The messages of a chunk with their offsets. It must be whole.
fn messages_of(chunk: &[u8]) -> Result<Vec<(u64, Vec<u8>)>> {
    let (mut head, data) = match chunk.split_at_checked(CHUNK_HEAD_BYTES) {
        Some((head, data)) => (Bytes(head), data),
        None => bail!("a chunk of {} bytes", chunk.len()),
    };
    let [magic, kind] = *head.take(2)? else {
        bail!("a short chunk")
    };
    ensure!(magic >> 4 == 5, "a chunk that begins with {magic:#04x}");
    ensure!(
        kind == 0,
        "a chunk of kind {kind}, which is not for readers"
    );
    head.u16()?;
    let records = head.u32()?;
    head.take(16)?;
    let first = head.u64()?;
    let (crc, length) = (head.u32()?, head.u32()? as usize);
    ensure!(
        data.len() == length && crc32(data) == crc,
        "the chunk with offset {first} is damaged: {} bytes of {length}",
        data.len()
    );
    let mut data = Bytes(data);
    let mut messages = Vec::with_capacity(records.min(65_536) as usize);
    while !data.0.is_empty() {
        let offset = first + messages.len() as u64;
        let size = data.u32()? as usize;
        ensure!(size < 1 << 31, "the message at offset {offset} is a batch");
        let body = data.take(size)?;
        let body = section_data(body);
        let body = body.with_context(|| format!("offset {offset} is no section of data"))?;
        messages.push((offset, body.to_vec()));
    }
    ensure!(
        messages.len() == records as usize,
        "the chunk with offset {first} says {records} messages and has {}",
        messages.len()
    );
    Ok(messages)
}

/// Appends a message as it stands in a publish and in a chunk.
fn put_message(out: &mut Vec<u8>, body: &[u8]) {
    let size = SECTION.len() + 4 + body.len();
    out.extend_from_slice(&(size as u32).to_be_bytes());
    out.extend_from_slice(&SECTION);
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    out.extend_from_slice(body);
}

fn section_data(body: &[u8]) -> Option<&[u8]> {
    let (length, data) = body.strip_prefix(&SECTION)?.split_first_chunk()?;
    (data.len() == u32::from_be_bytes(*length) as usize).then_some(data)
}

fn text(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).expect("texts here are short");
    [&length.to_be_bytes()[..], text.as_bytes()].concat()
}

/// What is left of a frame.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).context("a short frame")?;
        self.0 = rest;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_be_bytes(self.take(2)?.try_into()?))
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.take(4)?.try_into()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(self.take(8)?.try_into()?))
    }
}

/// CRC-32 as zlib has it.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let (mut value, mut bit) = (byte as u32, 0);
            while bit < 8 {
                let odd = value & 1;
                value = (value >> 1) ^ (0xEDB8_8320 * odd);
                bit += 1;
            }
            table[byte] = value;
            byte += 1;
        }
        table
    };
    let step = |crc: u32, byte: &u8| TABLE[(crc as u8 ^ byte) as usize] ^ (crc >> 8);
    !bytes.iter().fold(!0, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chunk as a broker sends it: its first offset, and its messages.
    fn chunk(first: u64, bodies: &[&[u8]]) -> Vec<u8> {
        let mut data = Vec::new();
        for body in bodies {
            put_message(&mut data, body);
        }
        let mut chunk = vec![0x50, 0];
        chunk.extend_from_slice(&(bodies.len() as u16).to_be_bytes());
        chunk.extend_from_slice(&(bodies.len() as u32).to_be_bytes());
        chunk.extend_from_slice(&[0; 16]);
        chunk.extend_from_slice(&first.to_be_bytes());
        chunk.extend_from_slice(&crc32(&data).to_be_bytes());
        chunk.extend_from_slice(&(data.len() as u32).to_be_bytes());
        chunk.extend_from_slice(&[0; 8]);
        chunk.extend_from_slice(&data);
        chunk
    }

    #[test]
    fn the_checksum_is_that_of_zlib() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn messages_of_a_chunk_have_the_offsets_behind_its_first_one() {
        let found = messages_of(&chunk(7, &[b"a", b"", b"ccc"])).expect("it is whole");
        let wanted = [(7, b"a".to_vec()), (8, Vec::new()), (9, b"ccc".to_vec())];
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_changed_byte_of_the_data_or_a_missing_one_is_noticed() {
        let whole = chunk(0, &[b"hare", b"leveret"]);
        for at in CHUNK_HEAD_BYTES..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert!(messages_of(&changed).is_err(), "byte {at}");
        }
        for end in 0..whole.len() {
            assert!(messages_of(&whole[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn a_refusal_is_told_from_a_connection_that_ends() {
        let refused = anyhow::Error::new(Refusal {
            what: "a stream",
            code: STREAM_EXISTS,
        });
        assert_eq!(refusal(&refused.context("at a node")), Some(STREAM_EXISTS));
        assert_eq!(refusal(&anyhow::anyhow!("reset")), None);
    }
}
