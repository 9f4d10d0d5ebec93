//! One channel: methods and content that come in, and what its publisher or consumer makes of them.

use leveret_amqp::method::peek_ids;
use leveret_amqp::table::RawValue;
use leveret_amqp::{ContentHeader, Properties, basic};

use super::Shared;
use crate::confirms::Confirm;
use crate::engine::consumer::{Consumer, Delivery};
use crate::engine::publisher::Publisher;
use crate::engine::template::Stamped;
use crate::stamp;

/// One channel: number 1 and up, in the connection's order.
pub struct Channel {
    /// Who uses it.
    pub role: Role,
    /// Where its messages have their stamps.
    pub stamped: Stamped,
    pub(super) incoming: Option<Incoming>,
}

/// Who uses a channel.
pub enum Role {
    /// A publisher.
    Publisher(Box<Publisher>),
    /// A consumer.
    Consumer(Box<Consumer>),
}

/// Content that is coming in.
pub(super) struct Incoming {
    /// Delivery tag; none for a returned message.
    tag: Option<u64>,
    redelivered: bool,
    size: Option<u64>,
    left: u64,
    reader: stamp::Reader,
}

/// What a frame was.
pub(super) enum Found {
    /// Nothing more to do.
    Nothing,
    /// The last of a message.
    Content,
    /// Something rare.
    Other,
}

/// Class and method of a delivery, of a confirm, of a refusal, of a return.
const DELIVER: (u16, u16) = (60, 60);
const ACK: (u16, u16) = (60, 80);
const NACK: (u16, u16) = (60, 120);
const RETURN: (u16, u16) = (60, 50);
/// Octets of a method frame's payload before its fields.
const IDS_BYTES: usize = 4;

impl Channel {
    /// A channel.
    #[must_use]
    pub fn new(role: Role, stamped: Stamped) -> Self {
        Self {
            role,
            stamped,
            incoming: None,
        }
    }

    #[inline]
    pub(super) fn method(
        &mut self,
        payload: &[u8],
        now_us: u64,
        shared: &mut Shared,
    ) -> Result<Found, String> {
        let fields = payload.get(IDS_BYTES..).unwrap_or_default();
        match peek_ids(payload) {
            DELIVER => {
                let deliver = basic::Deliver::decode(fields).map_err(|e| e.to_string())?;
                self.incoming = Some(Incoming::new(Some(deliver.delivery_tag)));
                if let Some(incoming) = &mut self.incoming {
                    incoming.redelivered = deliver.redelivered;
                }
                Ok(Found::Nothing)
            }
            ACK => {
                let ack = basic::Ack::decode(fields).map_err(|e| e.to_string())?;
                let confirm = Confirm {
                    tag: ack.delivery_tag,
                    multiple: ack.multiple,
                    refused: false,
                };
                self.settle(confirm, now_us, shared)
            }
            NACK => {
                let nack = basic::Nack::decode(fields).map_err(|e| e.to_string())?;
                let confirm = Confirm {
                    tag: nack.delivery_tag,
                    multiple: nack.multiple,
                    refused: true,
                };
                self.settle(confirm, now_us, shared)
            }
            RETURN => {
                self.incoming = Some(Incoming::new(None));
                Ok(Found::Nothing)
            }
            _ => Ok(Found::Other),
        }
    }

    #[inline]
    fn settle(
        &mut self,
        confirm: Confirm,
        now_us: u64,
        shared: &mut Shared,
    ) -> Result<Found, String> {
        let tag = confirm.tag;
        let Role::Publisher(publisher) = &mut self.role else {
            return Err(format!(
                "a confirm ({tag}) for a channel without publishers"
            ));
        };
        let tally = &mut shared.tallies[publisher.load];
        let progress = &mut shared.progress[publisher.load];
        let settled = publisher.on_settle(confirm, now_us, tally, progress);
        settled.map_err(|_| format!("message {tag} was confirmed and waits for no confirm"))?;
        Ok(Found::Nothing)
    }

    #[inline]
    pub(super) fn header(&mut self, payload: &[u8]) -> Result<Found, String> {
        let header = ContentHeader::decode(payload).map_err(|e| e.to_string())?;
        let Some(incoming) = self.incoming.as_mut().filter(|i| i.size.is_none()) else {
            return Err("a content header without a message".to_owned());
        };
        incoming.size = Some(header.body_size);
        incoming.left = header.body_size;
        if self.stamped == Stamped::Header {
            let properties = Properties::decode(header.properties).map_err(|e| e.to_string())?;
            let headers = properties.headers.unwrap_or_default();
            if let Some(RawValue::LongString(stamp) | RawValue::Bytes(stamp)) =
                headers.get(stamp::HEADER.as_bytes())
            {
                incoming.reader.take(stamp);
            }
        }
        Ok(if header.body_size == 0 {
            Found::Content
        } else {
            Found::Nothing
        })
    }

    #[inline]
    pub(super) fn body(&mut self, payload: &[u8]) -> Result<Found, String> {
        let incoming = self.incoming.as_mut().filter(|i| i.size.is_some());
        let incoming = incoming.ok_or("a body without a content header")?;
        let left = incoming.left.checked_sub(payload.len() as u64);
        incoming.left = left.ok_or("a body longer than its header says")?;
        incoming.reader.take(payload);
        Ok(if incoming.left == 0 {
            Found::Content
        } else {
            Found::Nothing
        })
    }

    /// The message that is whole now.
    #[inline]
    pub(super) fn content(
        &mut self,
        number: u16,
        now_us: u64,
        out: &mut Vec<u8>,
        shared: &mut Shared,
    ) {
        let Some(incoming) = self.incoming.take() else {
            return;
        };
        let stamp = incoming.reader.finish();
        match (&mut self.role, incoming.tag) {
            (Role::Consumer(consumer), Some(tag)) => {
                let delivery = Delivery {
                    redelivered: incoming.redelivered,
                    size: incoming.size.unwrap_or(0),
                    stamp,
                };
                let tally = &mut shared.tallies[consumer.load];
                let progress = &mut shared.progress[consumer.load];
                let ledgers = &mut shared.ledgers;
                consumer.on_delivery(&delivery, now_us, ledgers, tally, progress);
                consumer.settling.on_delivery(tag, now_us, number, out);
            }
            (Role::Publisher(publisher), None) => {
                let tally = &mut shared.tallies[publisher.load];
                let progress = &mut shared.progress[publisher.load];
                publisher.on_return(stamp, tally, progress);
            }
            // A delivery to a publisher, a return to a consumer: neither was asked for.
            _ => {}
        }
    }
}

impl Incoming {
    #[inline]
    fn new(tag: Option<u64>) -> Self {
        Self {
            tag,
            redelivered: false,
            size: None,
            left: 0,
            reader: stamp::Reader::default(),
        }
    }
}
