//! What clients say.

use crate::code::ResponseCode;
use crate::error::DecodeError;
use crate::frame::{Frame, put_frame};
use crate::key::{Key, RESPONSE_BIT};
use crate::publish::Publish;
use crate::wire::{Field, OffsetSpec, Opaque, Optional, Pairs, Reader};

/// Makes an enum of commands whose fields follow each other on the wire, with what reads and writes
/// them.
macro_rules! commands {
    (
        $(#[$doc:meta])*
        $name:ident {
            $( $(#[$variant_doc:meta])* $variant:ident { $($field:ident: $kind:ty),* } )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[allow(missing_docs)] // The fields are those of the protocol's document.
        pub enum $name<'a> {
            $( $(#[$variant_doc])* $variant { $($field: $kind),* }, )*
        }

        impl<'a> $name<'a> {
            /// The command.
            #[must_use]
            pub fn key(&self) -> Key {
                match self {
                    $( Self::$variant { .. } => Key::$variant, )*
                }
            }

            /// Reads the fields of a command; nothing if it is not one of these.
            pub(crate) fn read(
                key: Key,
                reader: &mut Reader<'a>,
            ) -> Result<Option<Self>, DecodeError> {
                Ok(Some(match key {
                    $( Key::$variant => Self::$variant {
                        $($field: reader.field::<$kind>()?),*
                    }, )*
                    _ => return Ok(None),
                }))
            }

            /// Appends the fields.
            pub(crate) fn write(&self, out: &mut Vec<u8>) {
                match self {
                    $( Self::$variant { $($field),* } => { $($field.write(out);)* } )*
                }
            }

            /// The command with empty fields; nothing if it is not one of these.
            #[allow(dead_code)] // Answers are made so where something failed, requests never.
            pub(crate) fn empty(key: Key) -> Option<Self> {
                match key {
                    $( Key::$variant => Some(Self::$variant {
                        $($field: <$kind>::default()),*
                    }), )*
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use commands;

commands! {
    /// A command that has a correlation id and is answered.
    Request {
        DeclarePublisher { publisher_id: u8, reference: &'a str, stream: &'a str }
        QueryPublisherSequence { reference: &'a str, stream: &'a str }
        DeletePublisher { publisher_id: u8 }
        Subscribe {
            subscription_id: u8,
            stream: &'a str,
            offset: OffsetSpec,
            credit: u16,
            properties: Optional<Pairs<'a>>
        }
        QueryOffset { reference: &'a str, stream: &'a str }
        Unsubscribe { subscription_id: u8 }
        Create { stream: &'a str, arguments: Pairs<'a> }
        Delete { stream: &'a str }
        Metadata { streams: Vec<&'a str> }
        PeerProperties { properties: Pairs<'a> }
        SaslHandshake { }
        SaslAuthenticate { mechanism: &'a str, response: Opaque<'a> }
        Open { vhost: &'a str }
        Close { code: ResponseCode, reason: &'a str }
        Route { routing_key: &'a str, super_stream: &'a str }
        Partitions { super_stream: &'a str }
        /// Of each command its number, its least and its greatest version.
        ExchangeCommandVersions { versions: Vec<(u16, u16, u16)> }
        StreamStats { stream: &'a str }
        CreateSuperStream {
            name: &'a str,
            partitions: Vec<&'a str>,
            binding_keys: Vec<&'a str>,
            arguments: Pairs<'a>
        }
        DeleteSuperStream { name: &'a str }
        ResolveOffsetSpec {
            stream: &'a str,
            offset: OffsetSpec,
            properties: Optional<Pairs<'a>>
        }
    }
}

/// What a client says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientCommand<'a> {
    /// A command that is answered.
    Request {
        /// The answer carries it.
        correlation_id: u32,
        /// The command.
        request: Request<'a>,
    },
    /// Messages.
    Publish(Publish<'a>),
    /// A subscription may be sent so many more chunks.
    Credit {
        /// The subscription.
        subscription_id: u8,
        /// Chunks.
        credit: u16,
    },
    /// A consumer has come so far. Not answered.
    StoreOffset {
        /// The consumer's name.
        reference: &'a str,
        /// The stream.
        stream: &'a str,
        /// The offset.
        offset: u64,
    },
    /// What the client makes of the broker's `Tune`. Clients send it as a request or as a response.
    Tune {
        /// Octets of a frame; 0 is no bound.
        frame_max: u32,
        /// Seconds; 0 is none.
        heartbeat: u32,
    },
    /// A sign of life.
    Heartbeat,
    /// The answer to `ConsumerUpdate`.
    ConsumerUpdated {
        /// That of the update.
        correlation_id: u32,
        /// How it went.
        code: ResponseCode,
        /// Where the consumer wants to begin, if it has become active.
        offset: OffsetSpec,
    },
    /// The answer to the broker's `Close`.
    Closed {
        /// That of the close.
        correlation_id: u32,
        /// How it went.
        code: ResponseCode,
    },
}

impl<'a> ClientCommand<'a> {
    /// Reads a frame that a client has sent.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(frame: Frame<'a>) -> Result<Self, DecodeError> {
        let key = known(&frame)?;
        let mut reader = Reader::new(frame.content);
        let command = match (key, frame.response) {
            (Key::Publish, false) => {
                return Publish::decode(frame.version, frame.content).map(Self::Publish);
            }
            (Key::Credit, false) => Self::Credit {
                subscription_id: reader.field()?,
                credit: reader.field()?,
            },
            (Key::StoreOffset, false) => Self::StoreOffset {
                reference: reader.field()?,
                stream: reader.field()?,
                offset: reader.field()?,
            },
            (Key::Tune, _) => Self::Tune {
                frame_max: reader.field()?,
                heartbeat: reader.field()?,
            },
            (Key::Heartbeat, false) => Self::Heartbeat,
            (Key::ConsumerUpdate, true) => {
                let (correlation_id, code) = (reader.field()?, reader.field()?);
                let offset = match reader.is_empty() {
                    true => OffsetSpec::None,
                    false => reader.field()?,
                };
                // rstream says a number also where the type of offset has none.
                if !reader.is_empty() {
                    reader.field::<u64>()?;
                }
                Self::ConsumerUpdated {
                    correlation_id,
                    code,
                    offset,
                }
            }
            (Key::Close, true) => Self::Closed {
                correlation_id: reader.field()?,
                code: reader.field()?,
            },
            (_, true) => return Err(unknown(&frame)),
            (_, false) => Self::Request {
                correlation_id: reader.field()?,
                request: Request::read(key, &mut reader)?.ok_or(unknown(&frame))?,
            },
        };
        reader.finish().map(|()| command)
    }

    /// Appends the whole frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let request = |key: Key| key.number();
        let response = |key: Key| key.number() | RESPONSE_BIT;
        match self {
            Self::Request {
                correlation_id,
                request,
            } => put_frame(out, request.key().number(), 1, |out| {
                correlation_id.write(out);
                request.write(out);
            }),
            Self::Publish(publish) => {
                put_frame(out, request(Key::Publish), publish.version(), |out| {
                    publish.write(out)
                });
            }
            Self::Credit {
                subscription_id,
                credit,
            } => put_frame(out, request(Key::Credit), 1, |out| {
                (*subscription_id, *credit).write(out);
            }),
            Self::StoreOffset {
                reference,
                stream,
                offset,
            } => put_frame(out, request(Key::StoreOffset), 1, |out| {
                (*reference, *stream, *offset).write(out);
            }),
            Self::Tune {
                frame_max,
                heartbeat,
            } => put_frame(out, response(Key::Tune), 1, |out| {
                (*frame_max, *heartbeat).write(out);
            }),
            Self::Heartbeat => put_frame(out, request(Key::Heartbeat), 1, |_| {}),
            Self::ConsumerUpdated {
                correlation_id,
                code,
                offset,
            } => put_frame(out, response(Key::ConsumerUpdate), 1, |out| {
                (*correlation_id, *code, *offset).write(out);
            }),
            Self::Closed {
                correlation_id,
                code,
            } => put_frame(out, response(Key::Close), 1, |out| {
                (*correlation_id, *code).write(out);
            }),
        }
    }
}

/// The command of a frame, if there is one of its number and its version.
pub(crate) fn known(frame: &Frame<'_>) -> Result<Key, DecodeError> {
    let key = Key::parse(frame.key).ok_or(unknown(frame))?;
    match (1..=key.version_max()).contains(&frame.version) {
        true => Ok(key),
        false => Err(DecodeError::UnknownVersion {
            key: frame.key,
            version: frame.version,
        }),
    }
}

pub(crate) const fn unknown(frame: &Frame<'_>) -> DecodeError {
    let bit = if frame.response { RESPONSE_BIT } else { 0 };
    DecodeError::UnknownCommand {
        key: frame.key | bit,
    }
}
