//! Publishes: from a method, a content header and a body to one message.
//!
//! Nearly all publishes arrive whole in one read of the socket and in three frames: then the
//! message is a slice of what was read, and nothing is copied. The others are put together as their
//! frames come, in memory that grows with what has arrived and never with what was announced.

use crate::channel::Mode;
use crate::connection::{Connection, Phase};
use crate::input::publish_error;
use crate::settings::Settings;
use bytes::Bytes;
use leveret_amqp::frame::{Frame, FrameKind, next_frame};
use leveret_amqp::{ContentHeader, EncodeMethod, Properties, basic};
use leveret_client::contract::{Publish, Request};
use leveret_types::limits::{
    CHUNK_BYTES, MESSAGE_BYTES_HARD_MAX, TRANSACTION_BYTES_MAX, TRANSACTION_MESSAGES_MAX,
    TTL_MS_MAX, UNFINISHED_BYTES_MAX, UNFINISHED_CHECK_MS, UNFINISHED_LARGE,
};
use leveret_types::message::{MessageSummary, Span};
use leveret_types::unfinished::Reservation;
use leveret_types::{ChannelId, Message, ProtocolError, ReplyCode, encoded};

/// Class of `basic`, the only one whose methods carry content.
const CLASS: u16 = basic::CLASS;

/// Class id and method id of `basic.publish` on the wire.
const PUBLISH_IDS: [u8; 4] = [
    0,
    CLASS as u8,
    0,
    <basic::Publish<'_> as EncodeMethod>::METHOD as u8,
];

/// Whether a frame that begins so is `basic.publish`.
pub(crate) fn begins_publish(frame: &[u8]) -> bool {
    frame.first() == Some(&(FrameKind::Method as u8))
        && frame.get(7..11).is_some_and(|ids| ids == PUBLISH_IDS)
}

/// Octets that an unfinished publish may hold uncounted: those of names and properties of nearly
/// all.
const PROPERTIES_SMALL: usize = 4_096;

/// A publish whose content is arriving.
#[derive(Debug)]
pub(crate) struct Assembly {
    mandatory: bool,
    exchange: Span,
    routing_key: Span,
    /// Known once the header is here.
    header: Option<Header>,
    /// Its reservation among the node's unfinished publishes, if it is not small.
    reservation: Option<Reservation>,
    /// Exchange, routing key, properties and as much of the body as is here; before them, once they
    /// are known and the message is large, the header with which logs keep it.
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Header {
    properties: Span,
    body: Span,
    summary: MessageSummary,
}

impl Assembly {
    fn new(publish: &basic::Publish<'_>) -> Self {
        let mut bytes = Vec::new();
        let exchange = append(&mut bytes, publish.exchange);
        let routing_key = append(&mut bytes, publish.routing_key);
        Self {
            mandatory: publish.mandatory,
            exchange,
            routing_key,
            header: None,
            reservation: None,
            bytes,
        }
    }

    /// Something of it has come, or could not come.
    fn note_progress(&mut self, now_ms: u64) {
        if let Some(reservation) = &mut self.reservation {
            reservation.note_progress(now_ms);
        }
    }

    /// Whether it waits for room.
    fn waits(&self) -> bool {
        self.reservation.as_ref().is_some_and(Reservation::waits)
    }

    /// Octets of it that are to be kept with this header, where it is one that is taken. It has a
    /// reservation from then on, unless it is small.
    fn claim(&mut self, header: &[u8], settings: &Settings, user: &str) -> usize {
        let Ok(header) = ContentHeader::decode(header) else {
            return 0;
        };
        let is_refused = self.header.is_some() || header.body_size > settings.message_bytes_max;
        let size = (header.body_size as usize).saturating_add(header.properties.len());
        if is_refused || size <= PROPERTIES_SMALL {
            return 0;
        }
        let reserve = || settings.unfinished.reserve(user, size);
        self.reservation.get_or_insert_with(reserve);
        header.properties.len()
    }

    /// Octets of it that are to be kept with this part of its body, if that needs more memory.
    fn bytes_with(&self, part: &[u8]) -> usize {
        match self.growth(part) {
            0 => 0,
            growth => self.bytes.len() + growth,
        }
    }

    /// What the content header says. A large message is put together as logs keep it, so that they
    /// need not copy it.
    fn begin_body(&mut self, properties: &[u8], size: u64, summary: MessageSummary) {
        if size as usize > CHUNK_BYTES {
            let before = encoded::header_of(
                [
                    self.exchange.len as usize,
                    self.routing_key.len as usize,
                    properties.len(),
                ],
                summary,
            );
            self.bytes.splice(..0, before);
            self.exchange.start += before.len() as u32;
            self.routing_key.start += before.len() as u32;
        }
        let properties = append(&mut self.bytes, properties);
        let body = Span {
            start: self.bytes.len() as u32,
            len: size as u32,
        };
        self.header = Some(Header {
            properties,
            body,
            summary,
        });
    }

    /// Octets of the body that have yet to come.
    fn missing(&self) -> usize {
        let end = |header: Header| header.body.start as usize + header.body.len as usize;
        self.header
            .map_or(0, |header| end(header) - self.bytes.len())
    }

    /// By how much the memory must grow for a part of the body: it doubles, and does not grow
    /// beyond what the body needs.
    fn growth(&self, part: &[u8]) -> usize {
        if self.bytes.capacity() - self.bytes.len() >= part.len() {
            return 0;
        }
        self.missing().min(part.len().max(self.bytes.len()))
    }

    /// Appends a part of the body, with room for it.
    fn append_body(&mut self, part: &[u8]) {
        let missing = self.missing();
        assert!(part.len() <= missing, "{} octets of {missing}", part.len());
        let growth = self.growth(part);
        self.bytes.reserve_exact(growth);
        self.bytes.extend_from_slice(part);
    }

    /// The error for a frame that is not the one awaited.
    pub(crate) fn unexpected(&self, header: &str, body: &str) -> ProtocolError {
        let text = match self.header {
            None => format!("expected {header} for class {CLASS}, got non {header} frame instead"),
            Some(_) => format!("expected {body}, got non {body} frame instead"),
        };
        publish_error(ProtocolError::connection(ReplyCode::UnexpectedFrame, text))
    }

    pub(crate) fn expects_header(&self) -> Result<(), ProtocolError> {
        match self.header {
            None => Ok(()),
            Some(_) => Err(self.unexpected("content header", "content body")),
        }
    }

    pub(crate) fn expects_body(&self) -> Result<(), ProtocolError> {
        match self.header {
            Some(_) => Ok(()),
            None => Err(self.unexpected("content header", "content body")),
        }
    }

    fn into_message(self, header: Header) -> Message {
        let bytes = Bytes::from(self.bytes);
        let Header {
            properties,
            body,
            summary,
        } = header;
        Message::from_spans(
            bytes,
            self.exchange,
            self.routing_key,
            properties,
            body,
            summary,
        )
    }
}

fn append(bytes: &mut Vec<u8>, piece: &[u8]) -> Span {
    let start = bytes.len() as u32;
    bytes.extend_from_slice(piece);
    Span {
        start,
        len: piece.len() as u32,
    }
}

impl Connection {
    /// Takes the publish that lies whole and in order at the beginning of `input`, and says how
    /// long it is. Nothing, if there is none, or if anything about it is out of the ordinary: then
    /// its frames are looked at one by one.
    pub(crate) fn whole_publish(
        &mut self,
        input: &Bytes,
        requests: &mut Vec<Request>,
    ) -> Option<usize> {
        // Most of what is no publish is seen not to be one here.
        if !begins_publish(input) {
            return None;
        }
        let frame_max = self.terms.frame_max;
        let next = |at: usize, kind: FrameKind, channel: Option<u16>| -> Option<Frame<'_>> {
            let frame = next_frame(&input[at..], frame_max).ok()??;
            let fits = frame.kind == kind && channel.is_none_or(|c| c == frame.channel);
            fits.then_some(frame)
        };
        let method = next(0, FrameKind::Method, None)?;
        let fields = method.payload.strip_prefix(&PUBLISH_IDS)?;
        let publish = basic::Publish::decode(fields).ok()?;
        if publish.immediate || self.phase != Phase::Running {
            return None;
        }
        let number = method.channel;
        self.open_channel(number).filter(|c| c.assembly.is_none())?;
        let mut length = method.wire_len();
        let frame = next(length, FrameKind::Header, Some(number))?;
        length += frame.wire_len();
        let header = ContentHeader::decode(frame.payload).ok()?;
        let summary = self.checked_header(&header).ok()?;
        let body = match header.body_size {
            0 => &[],
            size => {
                let frame = next(length, FrameKind::Body, Some(number))?;
                length += frame.wire_len();
                (frame.payload.len() as u64 == size).then_some(frame.payload)?
            }
        };
        // All parts are slices of `input`, the exchange's name the first of them.
        let base = publish.exchange.as_ptr() as usize;
        let span = |part: &[u8]| Span {
            start: if part.is_empty() {
                0
            } else {
                (part.as_ptr() as usize - base) as u32
            },
            len: part.len() as u32,
        };
        let start = base - input.as_ptr() as usize;
        let message = Message::from_spans(
            input.slice(start..length),
            span(publish.exchange),
            span(publish.routing_key),
            span(header.properties),
            span(body),
            summary,
        );
        match self.publish(number, publish.mandatory, message, requests) {
            Ok(()) => {}
            Err(error) => self.refuse(number, publish_error(error), requests),
        }
        Some(length)
    }

    /// `basic.publish`: its content must follow.
    pub(crate) fn begin_publish(
        &mut self,
        number: u16,
        publish: &basic::Publish<'_>,
    ) -> Result<(), ProtocolError> {
        if publish.immediate {
            let text = "immediate=true";
            return Err(ProtocolError::connection(ReplyCode::NotImplemented, text));
        }
        if let Some(channel) = self.open_channel(number) {
            channel.assembly = Some(Box::new(Assembly::new(publish)));
        }
        Ok(())
    }

    /// The publish that is arriving on a channel.
    pub(crate) fn assembly(&mut self, number: u16) -> Result<&mut Assembly, ProtocolError> {
        let arriving = self
            .channels
            .get_mut(&number)
            .and_then(|c| c.assembly.as_deref_mut());
        arriving.ok_or_else(|| {
            let text = "expected method frame, got non method frame instead";
            ProtocolError::connection(ReplyCode::UnexpectedFrame, text)
        })
    }

    /// A content header, where one is expected.
    pub(crate) fn content_header(
        &mut self,
        number: u16,
        header: ContentHeader<'_>,
        requests: &mut Vec<Request>,
    ) -> Result<(), ProtocolError> {
        let summary = self.checked_header(&header).map_err(publish_error)?;
        // As many small ones as there may be channels are bounded by that.
        if header.properties.len() > PROPERTIES_SMALL {
            self.bound_unfinished(number, header.properties.len())?;
        }
        let assembly = self.assembly(number)?;
        assembly.begin_body(header.properties, header.body_size, summary);
        self.finish_publish(number, requests)
    }

    /// A part of a body, where one is expected.
    pub(crate) fn content_body(
        &mut self,
        number: u16,
        part: &[u8],
        requests: &mut Vec<Request>,
    ) -> Result<(), ProtocolError> {
        let now_ms = self.times.now.monotonic_ms;
        let assembly = self.assembly(number)?;
        if part.len() > assembly.missing() {
            let text = "content body frame exceeds remaining content size";
            return Err(publish_error(ProtocolError::connection(
                ReplyCode::FrameError,
                text,
            )));
        }
        assembly.note_progress(now_ms);
        let growth = assembly.growth(part);
        if growth > 0 {
            self.bound_unfinished(number, growth)?;
        }
        self.assembly(number)?.append_body(part);
        self.finish_publish(number, requests)
    }

    /// Whether a frame must wait until there is room for what it brings of a publish. What a header
    /// claims takes none.
    pub(crate) fn lacks_room(&mut self, frame: Frame<'_>) -> bool {
        if frame.kind == FrameKind::Method || self.phase != Phase::Running {
            return false;
        }
        let channel = self.channels.get_mut(&frame.channel);
        let channel = channel.filter(|channel| !channel.closing);
        let Some(assembly) = channel.and_then(|of| of.assembly.as_deref_mut()) else {
            return false;
        };
        let bytes = match frame.kind {
            FrameKind::Header => assembly.claim(frame.payload, &self.settings, &self.client.user),
            FrameKind::Body => assembly.bytes_with(frame.payload),
            _ => 0,
        };
        let Some(reservation) = assembly
            .reservation
            .as_mut()
            .filter(|_| bytes > PROPERTIES_SMALL)
        else {
            return false;
        };
        let now_ms = self.times.now.monotonic_ms;
        let lacks_room = !reservation.grow(bytes, now_ms);
        self.times.note_unfinished(reservation.check_ms());
        let check_ms = lacks_room.then_some(now_ms + UNFINISHED_CHECK_MS);
        self.hold.wait_for_room(check_ms);
        lacks_room
    }

    /// Octets that are missing, at the least, of the publish that waits for room, beside what has
    /// come; nothing if none waits. It never becomes whole if the client sends no more.
    #[must_use]
    pub fn lacks_bytes(&self) -> Option<usize> {
        let mut channels = self.channels.values();
        let waiting = channels.find_map(|channel| {
            let assembly = channel.assembly.as_deref();
            assembly.filter(|assembly| assembly.waits() && self.waits_for_room())
        })?;
        let come = self.arriving.waiting_len();
        Some(waiting.missing().saturating_sub(come))
    }

    /// What has come of a body counts for its publish also while its frame is not whole.
    pub(crate) fn note_progress(&mut self) {
        let Some([kind, channel @ ..]) = self.arriving.partial().first_chunk::<3>() else {
            return;
        };
        let (kind, number) = (*kind, u16::from_be_bytes(*channel));
        if kind == FrameKind::Body as u8
            && self.times.unfinished_ms().is_some()
            && let Some(channel) = self.channels.get_mut(&number)
            && let Some(assembly) = &mut channel.assembly
        {
            assembly.note_progress(self.times.now.monotonic_ms);
        }
    }

    /// Gives up publishes that are late while others wait for room.
    pub(crate) fn give_up_unfinished(&mut self, requests: &mut Vec<Request>) {
        let now_ms = self.times.now.monotonic_ms;
        if self.times.unfinished_ms().is_none_or(|at| at > now_ms) {
            return;
        }
        let is_left_unread = self.is_left_unread();
        let channels = self.channels.iter_mut();
        let arriving = channels.filter_map(|(number, channel)| {
            let assembly = channel.assembly.as_deref_mut()?;
            if is_left_unread {
                assembly.note_progress(now_ms);
            }
            assembly.reservation.is_some().then_some(number)
        });
        let arriving: Vec<u16> = arriving.collect();
        let mut next = None;
        // One by one: the reservation of one that is given up may be all that was too much.
        for number in arriving {
            let Some(reservation) = self
                .assembly(number)
                .ok()
                .and_then(|a| a.reservation.as_ref())
            else {
                continue;
            };
            let Some(late) = reservation.late(now_ms) else {
                let check_ms = reservation.check_ms();
                let check_ms = check_ms.map(|at| at.max(now_ms + UNFINISHED_CHECK_MS));
                next = [next, check_ms].into_iter().flatten().min();
                continue;
            };
            let error = ProtocolError::channel(
                ReplyCode::ResourceError,
                format!("the message {late}: send it faster, or fewer at once"),
            );
            self.now_failed(number, publish_error(error), requests);
        }
        self.times.set_unfinished(next);
    }

    /// Whether the publish that arrives on this channel may hold so many octets more. The largest
    /// of all that are arriving is not counted: it is no larger than a message may be, and small
    /// ones go by it. Nor is of each what small properties take: as many publishes as the bound has
    /// room for fit whole, with their names.
    fn bound_unfinished(&self, number: u16, growth: usize) -> Result<(), ProtocolError> {
        let (mut delivery, mut largest) = (0, 0);
        for (other, channel) in self.channels.iter() {
            let Some(assembly) = channel.assembly.as_deref() else {
                continue;
            };
            let octets = match other == number {
                true => assembly.bytes.len() + growth,
                false => assembly.bytes.capacity(),
            };
            let counted = octets.saturating_sub(PROPERTIES_SMALL);
            delivery += counted;
            largest = counted.max(largest);
        }
        let large = self.settings.message_bytes_max as usize * UNFINISHED_LARGE;
        let max = large.max(UNFINISHED_BYTES_MAX);
        if delivery - largest <= max {
            return Ok(());
        }
        let text = format!(
            "unfinished publishes of this connection hold more than {max} octets beside the largest"
        );
        Err(publish_error(ProtocolError::channel(
            ReplyCode::ResourceError,
            text,
        )))
    }

    /// Sends the publish off if all of it is here.
    fn finish_publish(
        &mut self,
        number: u16,
        requests: &mut Vec<Request>,
    ) -> Result<(), ProtocolError> {
        let Some(channel) = self.open_channel(number) else {
            return Ok(());
        };
        let Some(assembly) = channel.assembly.take_if(|a| a.missing() == 0) else {
            return Ok(());
        };
        let header = assembly
            .header
            .expect("a body is awaited only behind its header");
        let mandatory = assembly.mandatory;
        let message = assembly.into_message(header);
        self.publish(number, mandatory, message, requests)
            .map_err(publish_error)
    }

    /// What the broker must know of a content header, if nothing is wrong with it.
    fn checked_header(&self, header: &ContentHeader<'_>) -> Result<MessageSummary, ProtocolError> {
        let size = header.body_size;
        if header.class != CLASS {
            let text = format!(
                "expected content header for class {CLASS}, got one for class {} instead",
                header.class
            );
            return Err(ProtocolError::connection(ReplyCode::UnexpectedFrame, text));
        }
        if size > MESSAGE_BYTES_HARD_MAX {
            let text = format!(
                "content body size {size} exceeds maximum allowed size {MESSAGE_BYTES_HARD_MAX}"
            );
            return Err(ProtocolError::connection(ReplyCode::FrameError, text));
        }
        let max = self.settings.message_bytes_max;
        if size > max {
            // RabbitMQ waits for all of the body before it says so.
            let text = if max == MESSAGE_BYTES_HARD_MAX {
                format!("message size {size} is larger than max size {max}")
            } else {
                format!("message size {size} is larger than configured max size {max}")
            };
            return Err(ProtocolError::channel(ReplyCode::PreconditionFailed, text));
        }
        let properties = Properties::decode(header.properties)?;
        Ok(MessageSummary {
            persistent: properties.delivery_mode == Some(2),
            priority: properties.priority,
            expiration_ms: properties.expiration.map(expiration_ms).transpose()?,
            published_ms: self.times.now.wall_ms,
            ..MessageSummary::default()
        })
    }

    /// A whole publish: off to the node, or into the transaction.
    fn publish(
        &mut self,
        number: u16,
        mandatory: bool,
        message: Message,
        requests: &mut Vec<Request>,
    ) -> Result<(), ProtocolError> {
        self.hold.publishes();
        let now_ms = self.times.now.monotonic_ms;
        let Some(channel) = self.open_channel(number) else {
            return Ok(());
        };
        channel.counters.edit().published += 1;
        let mut publish = Publish {
            channel: ChannelId(number),
            number: 0,
            mandatory,
            message,
        };
        match &mut channel.mode {
            Mode::Plain => {}
            Mode::Confirm(ledger) => publish.number = ledger.issue(now_ms),
            Mode::Transaction(tx) => {
                tx.bytes += publish.message.weight();
                if tx.publishes.len() == TRANSACTION_MESSAGES_MAX
                    || tx.bytes > TRANSACTION_BYTES_MAX
                {
                    let text = format!(
                        "a transaction may hold {TRANSACTION_MESSAGES_MAX} messages and \
                         {TRANSACTION_BYTES_MAX} octets"
                    );
                    return Err(ProtocolError::channel(ReplyCode::PreconditionFailed, text));
                }
                // What waits for the commit must not keep the buffer that it was read into.
                let parts = publish.message.parts();
                publish.message = Message::from_parts(parts, publish.message.summary);
                tx.publishes.push(publish.clone());
                self.sent_off = true;
                requests.push(Request::Check(publish));
                return Ok(());
            }
        }
        self.sent_off = true;
        requests.push(Request::Publish(publish));
        Ok(())
    }
}

/// Reads an expiration as RabbitMQ does: decimal text with an optional sign.
fn expiration_ms(text: &[u8]) -> Result<u64, ProtocolError> {
    let refuse = |why: String| {
        let shown = String::from_utf8_lossy(text);
        let text = format!("invalid expiration '{shown}': {why}");
        ProtocolError::channel(ReplyCode::PreconditionFailed, text)
    };
    let digits_at = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let digits = text[digits_at..]
        .iter()
        .take_while(|b| b.is_ascii_digit())
        .count();
    let (number, rest) = text.split_at(digits_at + digits);
    if digits == 0 {
        return Err(refuse("no_integer".to_owned()));
    }
    if !rest.is_empty() {
        let rest = String::from_utf8_lossy(rest);
        return Err(refuse(format!("{{leftover_string,\"{rest}\"}}")));
    }
    // Digits alone, with or without a sign: text, and if it is no number it is too large for one.
    let number = String::from_utf8_lossy(number);
    match number.parse::<i64>() {
        Ok(value @ ..0) => Err(refuse(format!("{{value_negative,{value}}}"))),
        Ok(value) if value.unsigned_abs() <= TTL_MS_MAX => Ok(value.unsigned_abs()),
        _ => Err(refuse(format!("{{value_too_large,{number}}}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Transaction;
    use crate::{Settings, fuzz};
    use leveret_types::MessageParts;

    #[test]
    fn an_expiration_is_a_decimal_number_of_milliseconds() {
        let cases: &[(&str, Result<u64, &str>)] = &[
            ("0", Ok(0)),
            ("+60000", Ok(60_000)),
            ("0007", Ok(7)),
            ("134217728000", Ok(134_217_728_000)),
            ("315360000000", Ok(TTL_MS_MAX)),
            ("315360000001", Err("{value_too_large,315360000001}")),
            (
                "18446744073709551616",
                Err("{value_too_large,18446744073709551616}"),
            ),
            ("-1", Err("{value_negative,-1}")),
            ("-0", Ok(0)),
            ("", Err("no_integer")),
            ("-", Err("no_integer")),
            ("abc", Err("no_integer")),
            (" 1", Err("no_integer")),
            ("1e9", Err("{leftover_string,\"e9\"}")),
            ("1.5", Err("{leftover_string,\".5\"}")),
        ];
        for (text, expected) in cases {
            let expected = expected.map_err(|why| {
                let text = format!("invalid expiration '{text}': {why}");
                ProtocolError::channel(ReplyCode::PreconditionFailed, text)
            });
            assert_eq!(expiration_ms(text.as_bytes()), expected);
        }
    }

    #[test]
    fn a_transaction_holds_so_much_and_no_more() {
        let parts = MessageParts {
            properties: &[0, 0],
            body: b"body",
            ..MessageParts::default()
        };
        let message = Message::from_parts(parts, MessageSummary::default());
        let with = |messages: usize, bytes: usize| {
            let mut connection = fuzz::open_connection(Settings::default());
            let publish = Publish {
                channel: ChannelId(1),
                number: 0,
                mandatory: false,
                message: message.clone(),
            };
            let mut publishes = Vec::new();
            publishes.resize_with(messages, || Publish {
                message: publish.message.clone(),
                ..publish
            });
            let tx = Transaction {
                publishes,
                bytes,
                settles: Vec::new(),
            };
            connection.channels.get_mut(&1).unwrap().mode = Mode::Transaction(Box::new(tx));
            let mut requests = Vec::new();
            let result = connection.publish(1, false, message.clone(), &mut requests);
            let is_checked = matches!(requests[..], [Request::Check(_)]);
            assert_eq!(is_checked, result.is_ok());
            result.map_err(|error| error.code)
        };
        let refused = Err(ReplyCode::PreconditionFailed);
        assert_eq!(with(TRANSACTION_MESSAGES_MAX - 1, 0), Ok(()));
        assert_eq!(with(TRANSACTION_MESSAGES_MAX, 0), refused);
        assert_eq!(with(0, TRANSACTION_BYTES_MAX - message.weight()), Ok(()));
        assert_eq!(
            with(0, TRANSACTION_BYTES_MAX - message.weight() + 1),
            refused
        );
    }

    #[test]
    fn memory_follows_what_has_arrived() {
        let publish = basic::Publish {
            exchange: b"",
            routing_key: b"q",
            mandatory: false,
            immediate: false,
        };
        let mut assembly = Assembly::new(&publish);
        let body = Span {
            start: 1,
            len: 100_000_000,
        };
        let (properties, summary) = (Span::default(), MessageSummary::default());
        assembly.header = Some(Header {
            properties,
            body,
            summary,
        });
        for _ in 0..100 {
            assembly.append_body(&[0; 1000]);
            assert!(assembly.bytes.capacity() <= 2 * assembly.bytes.len() + 1000);
        }
        let mut assembly = Assembly::new(&publish);
        let body = Span {
            start: 1,
            len: 1500,
        };
        assembly.header = Some(Header {
            properties,
            body,
            summary,
        });
        assembly.append_body(&[0; 1000]);
        assembly.append_body(&[0; 500]);
        assert_eq!(assembly.missing(), 0);
        assert!(assembly.bytes.capacity() <= 1501);
    }
}
