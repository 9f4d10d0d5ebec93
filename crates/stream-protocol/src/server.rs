//! What the broker says.

use crate::client::{commands, known, unknown};
use crate::code::ResponseCode;
use crate::error::DecodeError;
use crate::frame::{Frame, put_frame};
use crate::key::{Key, RESPONSE_BIT};
use crate::wire::{Field, Optional, Pairs, Reader, Trailing};

commands! {
    /// The content of a response, behind its code.
    Answer {
        DeclarePublisher { }
        QueryPublisherSequence { sequence: u64 }
        DeletePublisher { }
        Subscribe { }
        QueryOffset { offset: u64 }
        Unsubscribe { }
        Create { }
        Delete { }
        PeerProperties { properties: Pairs<'a> }
        SaslHandshake { mechanisms: Vec<&'a str> }
        SaslAuthenticate { challenge: Optional<&'a [u8]> }
        Open { properties: Trailing<Pairs<'a>> }
        Close { }
        Route { streams: Vec<&'a str> }
        Partitions { streams: Vec<&'a str> }
        /// Of each command its number, its least and its greatest version.
        ExchangeCommandVersions { versions: Vec<(u16, u16, u16)> }
        StreamStats { statistics: Vec<(&'a str, i64)> }
        CreateSuperStream { }
        DeleteSuperStream { }
        /// The type is 4: an offset.
        ResolveOffsetSpec { offset_type: u16, offset: u64 }
    }
}

/// The number that stands for a node that is not there.
pub const NO_NODE: u16 = u16::MAX;

/// A stream in an answer to `Metadata`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamMetadata<'a> {
    /// Its name.
    pub stream: &'a str,
    /// Whether it exists and is available.
    pub code: ResponseCode,
    /// The number of its leader's node; [`NO_NODE`] where there is none.
    pub leader: u16,
    /// The numbers of its replicas' nodes.
    pub replicas: Vec<u16>,
}

impl<'a> Field<'a> for StreamMetadata<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            stream: reader.field()?,
            code: reader.field()?,
            leader: reader.field()?,
            replicas: reader.field()?,
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        (self.stream, self.code, self.leader).write(out);
        self.replicas.write(out);
    }
}

/// What the broker says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerCommand<'a> {
    /// The answer to a request.
    Response {
        /// That of the request.
        correlation_id: u32,
        /// How it went.
        code: ResponseCode,
        /// What was asked for.
        answer: Answer<'a>,
    },
    /// The answer to `Metadata`, which has a code for each stream instead of one of its own.
    Metadata {
        /// That of the request.
        correlation_id: u32,
        /// Nodes: number, host, port.
        nodes: Vec<(u16, &'a str, u32)>,
        /// Streams.
        streams: Vec<StreamMetadata<'a>>,
    },
    /// These messages are kept.
    PublishConfirm {
        /// Whose they are.
        publisher_id: u8,
        /// By these ids.
        publishing_ids: PublishingIds<'a>,
    },
    /// These messages are not kept.
    PublishError {
        /// Whose they are.
        publisher_id: u8,
        /// By these ids, and why.
        errors: Vec<(u64, ResponseCode)>,
    },
    /// A chunk.
    Deliver {
        /// For whom.
        subscription_id: u8,
        /// The first offset of the last chunk that is kept, in the second version.
        committed_chunk: Option<u64>,
        /// The chunk as it is kept, without its filter.
        chunk: &'a [u8],
    },
    /// Credit was for a subscription that does not exist, or is not active.
    CreditFailed {
        /// Why.
        code: ResponseCode,
        /// The subscription.
        subscription_id: u8,
    },
    /// A stream has gone, or is led elsewhere.
    MetadataUpdate {
        /// What has happened.
        code: ResponseCode,
        /// The stream.
        stream: &'a str,
    },
    /// What the broker proposes.
    Tune {
        /// Octets of a frame.
        frame_max: u32,
        /// Seconds; 0 is none.
        heartbeat: u32,
    },
    /// The broker closes the connection.
    Close {
        /// The answer carries it.
        correlation_id: u32,
        /// Why.
        code: ResponseCode,
        /// The same in words.
        reason: &'a str,
    },
    /// A sign of life.
    Heartbeat,
    /// A single active consumer becomes active, or is it no longer.
    ConsumerUpdate {
        /// The answer carries it.
        correlation_id: u32,
        /// The subscription.
        subscription_id: u8,
        /// Whether it is active now.
        active: bool,
    },
}

/// Publishing ids as they stand in a frame: they may be more than a list may have entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishingIds<'a>(&'a [[u8; 8]]);

impl PublishingIds<'_> {
    /// The ids.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().map(|id| u64::from_be_bytes(*id))
    }
}

impl<'a> Field<'a> for PublishingIds<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let count: u32 = reader.field()?;
        let bytes = (count as usize).checked_mul(8);
        let bytes = reader.take(bytes.ok_or(DecodeError::Truncated)?)?;
        Ok(Self(bytes.as_chunks().0))
    }

    fn write(&self, out: &mut Vec<u8>) {
        (self.0.len() as u32).write(out);
        out.extend_from_slice(self.0.as_flattened());
    }
}

impl<'a> ServerCommand<'a> {
    /// The answer to a request that failed: what was asked for is empty.
    #[must_use]
    pub fn failure(key: Key, correlation_id: u32, code: ResponseCode) -> Option<Self> {
        Answer::empty(key).map(|answer| Self::Response {
            correlation_id,
            code,
            answer,
        })
    }

    /// Reads a frame that a broker has sent.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(frame: Frame<'a>) -> Result<Self, DecodeError> {
        let key = known(&frame)?;
        let mut reader = Reader::new(frame.content);
        let command = match frame.response {
            true => Self::decode_response(key, &frame, &mut reader)?,
            false => Self::decode_request(key, &frame, &mut reader)?,
        };
        reader.finish().map(|()| command)
    }

    fn decode_response(
        key: Key,
        frame: &Frame<'a>,
        reader: &mut Reader<'a>,
    ) -> Result<Self, DecodeError> {
        Ok(match key {
            Key::Credit => Self::CreditFailed {
                code: reader.field()?,
                subscription_id: reader.field()?,
            },
            Key::Metadata => Self::Metadata {
                correlation_id: reader.field()?,
                nodes: reader.field()?,
                streams: reader.field()?,
            },
            _ => Self::Response {
                correlation_id: reader.field()?,
                code: reader.field()?,
                answer: match reader.is_empty() {
                    true => Answer::empty(key),
                    false => Answer::read(key, reader)?,
                }
                .ok_or(unknown(frame))?,
            },
        })
    }

    fn decode_request(
        key: Key,
        frame: &Frame<'a>,
        reader: &mut Reader<'a>,
    ) -> Result<Self, DecodeError> {
        Ok(match key {
            Key::PublishConfirm => Self::PublishConfirm {
                publisher_id: reader.field()?,
                publishing_ids: reader.field()?,
            },
            Key::PublishError => Self::PublishError {
                publisher_id: reader.field()?,
                errors: reader.field()?,
            },
            Key::Deliver => Self::Deliver {
                subscription_id: reader.field()?,
                committed_chunk: match frame.version {
                    1 => None,
                    _ => Some(reader.field()?),
                },
                chunk: reader.take(reader.rest().len())?,
            },
            Key::MetadataUpdate => Self::MetadataUpdate {
                code: reader.field()?,
                stream: reader.field()?,
            },
            Key::Tune => Self::Tune {
                frame_max: reader.field()?,
                heartbeat: reader.field()?,
            },
            Key::Close => Self::Close {
                correlation_id: reader.field()?,
                code: reader.field()?,
                reason: reader.field()?,
            },
            Key::Heartbeat => Self::Heartbeat,
            Key::ConsumerUpdate => Self::ConsumerUpdate {
                correlation_id: reader.field()?,
                subscription_id: reader.field()?,
                active: reader.field::<u8>()? != 0,
            },
            _ => return Err(unknown(frame)),
        })
    }

    /// Appends the whole frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (key, version) = self.head();
        put_frame(out, key, version, |out| self.write(out));
    }

    /// The key as it stands in the frame, and the version.
    fn head(&self) -> (u16, u16) {
        let key = match self {
            Self::Response { answer, .. } => answer.key().number() | RESPONSE_BIT,
            Self::Metadata { .. } => Key::Metadata.number() | RESPONSE_BIT,
            Self::CreditFailed { .. } => Key::Credit.number() | RESPONSE_BIT,
            Self::PublishConfirm { .. } => Key::PublishConfirm.number(),
            Self::PublishError { .. } => Key::PublishError.number(),
            Self::Deliver { .. } => Key::Deliver.number(),
            Self::MetadataUpdate { .. } => Key::MetadataUpdate.number(),
            Self::Tune { .. } => Key::Tune.number(),
            Self::Close { .. } => Key::Close.number(),
            Self::Heartbeat => Key::Heartbeat.number(),
            Self::ConsumerUpdate { .. } => Key::ConsumerUpdate.number(),
        };
        let has_committed = |command: &Self| match command {
            Self::Deliver {
                committed_chunk, ..
            } => committed_chunk.is_some(),
            _ => false,
        };
        (key, if has_committed(self) { 2 } else { 1 })
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Response {
                correlation_id,
                code,
                answer,
            } => {
                (*correlation_id, *code).write(out);
                answer.write(out);
            }
            Self::Metadata {
                correlation_id,
                nodes,
                streams,
            } => {
                correlation_id.write(out);
                nodes.write(out);
                streams.write(out);
            }
            Self::PublishConfirm {
                publisher_id,
                publishing_ids,
            } => (*publisher_id, *publishing_ids).write(out),
            Self::PublishError {
                publisher_id,
                errors,
            } => {
                publisher_id.write(out);
                errors.write(out);
            }
            Self::Deliver {
                subscription_id,
                committed_chunk,
                chunk,
            } => {
                subscription_id.write(out);
                if let Some(committed) = committed_chunk {
                    committed.write(out);
                }
                out.extend_from_slice(chunk);
            }
            Self::CreditFailed {
                code,
                subscription_id,
            } => (*code, *subscription_id).write(out),
            Self::MetadataUpdate { code, stream } => (*code, *stream).write(out),
            Self::Tune {
                frame_max,
                heartbeat,
            } => (*frame_max, *heartbeat).write(out),
            Self::Close {
                correlation_id,
                code,
                reason,
            } => (*correlation_id, *code, *reason).write(out),
            Self::Heartbeat => {}
            Self::ConsumerUpdate {
                correlation_id,
                subscription_id,
                active,
            } => (*correlation_id, *subscription_id, u8::from(*active)).write(out),
        }
    }
}

/// Appends a `PublishConfirm`.
pub fn put_confirm(out: &mut Vec<u8>, publisher_id: u8, publishing_ids: &[u64]) {
    put_frame(out, Key::PublishConfirm.number(), 1, |out| {
        (publisher_id, publishing_ids.len() as u32).write(out);
        out.extend(publishing_ids.iter().flat_map(|id| id.to_be_bytes()));
    });
}

/// Appends a `Deliver` up to its chunk, which is of so many octets and follows from elsewhere.
pub fn put_deliver_head(
    out: &mut Vec<u8>,
    subscription_id: u8,
    committed_chunk: Option<u64>,
    chunk_bytes: u32,
) {
    let start = out.len();
    let deliver = ServerCommand::Deliver {
        subscription_id,
        committed_chunk,
        chunk: &[],
    };
    deliver.encode(out);
    let size = (out.len() - start - crate::frame::SIZE_BYTES) as u32 + chunk_bytes;
    out[start..start + crate::frame::SIZE_BYTES].copy_from_slice(&size.to_be_bytes());
}
