//! The methods of AMQP 0-9-1: their structures, how they are read and how they are written.
//!
//! @generated from `spec/methods.txt` by `cargo xtask codegen`. Do not edit.

// Methods and fields bear the specification's own names, and it is their description.
#![allow(missing_docs)]

use crate::error::DecodeError;
use crate::method::{EncodeMethod, Sender};
use crate::wire::Reader;

/// Class `connection`.
pub mod connection {
    use crate::error::DecodeError;
    use crate::method::EncodeMethod;
    use crate::table::RawTable;
    use crate::wire::{self, Reader};

    /// The class's id.
    pub const CLASS: u16 = 10;

    /// `connection.start`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Start<'a> {
        pub version_major: u8,
        pub version_minor: u8,
        pub server_properties: RawTable<'a>,
        pub mechanisms: &'a [u8],
        pub locales: &'a [u8],
    }

    impl<'a> Start<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let version_major = reader.octet()?;
            let version_minor = reader.octet()?;
            let server_properties = reader.table()?;
            let mechanisms = reader.long_string()?;
            let locales = reader.long_string()?;
            reader.finish()?;
            Ok(Self {
                version_major,
                version_minor,
                server_properties,
                mechanisms,
                locales,
            })
        }
    }

    impl EncodeMethod for Start<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 10;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.push(self.version_major);
            out.push(self.version_minor);
            wire::put_long_string(out, self.server_properties.as_bytes());
            wire::put_long_string(out, self.mechanisms);
            wire::put_long_string(out, self.locales);
        }
    }

    /// `connection.start-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct StartOk<'a> {
        pub client_properties: RawTable<'a>,
        pub mechanism: &'a str,
        pub response: &'a [u8],
        pub locale: &'a str,
    }

    impl<'a> StartOk<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let client_properties = reader.table()?;
            let mechanism = reader.short_text()?;
            let response = reader.long_string()?;
            let locale = reader.short_text()?;
            reader.finish()?;
            Ok(Self {
                client_properties,
                mechanism,
                response,
                locale,
            })
        }
    }

    impl EncodeMethod for StartOk<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 11;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            wire::put_long_string(out, self.client_properties.as_bytes());
            wire::put_short_string(out, self.mechanism.as_bytes());
            wire::put_long_string(out, self.response);
            wire::put_short_string(out, self.locale.as_bytes());
        }
    }

    /// `connection.secure`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Secure<'a> {
        pub challenge: &'a [u8],
    }

    impl<'a> Secure<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let challenge = reader.long_string()?;
            reader.finish()?;
            Ok(Self { challenge })
        }
    }

    impl EncodeMethod for Secure<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 20;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            wire::put_long_string(out, self.challenge);
        }
    }

    /// `connection.secure-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct SecureOk<'a> {
        pub response: &'a [u8],
    }

    impl<'a> SecureOk<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let response = reader.long_string()?;
            reader.finish()?;
            Ok(Self { response })
        }
    }

    impl EncodeMethod for SecureOk<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 21;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            wire::put_long_string(out, self.response);
        }
    }

    /// `connection.tune`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Tune {
        pub channel_max: u16,
        pub frame_max: u32,
        pub heartbeat: u16,
    }

    impl Tune {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let channel_max = reader.short()?;
            let frame_max = reader.long()?;
            let heartbeat = reader.short()?;
            reader.finish()?;
            Ok(Self {
                channel_max,
                frame_max,
                heartbeat,
            })
        }
    }

    impl EncodeMethod for Tune {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 30;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&self.channel_max.to_be_bytes());
            out.extend_from_slice(&self.frame_max.to_be_bytes());
            out.extend_from_slice(&self.heartbeat.to_be_bytes());
        }
    }

    /// `connection.tune-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct TuneOk {
        pub channel_max: u16,
        pub frame_max: u32,
        pub heartbeat: u16,
    }

    impl TuneOk {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let channel_max = reader.short()?;
            let frame_max = reader.long()?;
            let heartbeat = reader.short()?;
            reader.finish()?;
            Ok(Self {
                channel_max,
                frame_max,
                heartbeat,
            })
        }
    }

    impl EncodeMethod for TuneOk {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 31;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&self.channel_max.to_be_bytes());
            out.extend_from_slice(&self.frame_max.to_be_bytes());
            out.extend_from_slice(&self.heartbeat.to_be_bytes());
        }
    }

    /// `connection.open`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Open<'a> {
        pub virtual_host: &'a str,
    }

    impl<'a> Open<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let virtual_host = reader.short_text()?;
            reader.short_string()?;
            reader.octet()?;
            reader.finish()?;
            Ok(Self { virtual_host })
        }
    }

    impl EncodeMethod for Open<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 40;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            wire::put_short_string(out, self.virtual_host.as_bytes());
            wire::put_short_string(out, b"");
            out.push(0);
        }
    }

    /// `connection.open-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct OpenOk {}

    impl OpenOk {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            reader.short_string()?;
            reader.finish()?;
            Ok(Self {})
        }
    }

    impl EncodeMethod for OpenOk {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 41;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            wire::put_short_string(out, b"");
        }
    }

    /// `connection.close`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Close<'a> {
        pub reply_code: u16,
        pub reply_text: &'a str,
        pub class_id: u16,
        pub method_id: u16,
    }

    impl<'a> Close<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let reply_code = reader.short()?;
            let reply_text = reader.short_text()?;
            let class_id = reader.short()?;
            let method_id = reader.short()?;
            reader.finish()?;
            Ok(Self {
                reply_code,
                reply_text,
                class_id,
                method_id,
            })
        }
    }

    impl EncodeMethod for Close<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 50;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&self.reply_code.to_be_bytes());
            wire::put_short_string(out, self.reply_text.as_bytes());
            out.extend_from_slice(&self.class_id.to_be_bytes());
            out.extend_from_slice(&self.method_id.to_be_bytes());
        }
    }

    /// `connection.close-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct CloseOk {}

    impl CloseOk {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let reader = Reader::new(fields);
            reader.finish()?;
            Ok(Self {})
        }
    }

    impl EncodeMethod for CloseOk {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 51;
        fn encode_fields(&self, _out: &mut Vec<u8>) {}
    }

    /// `connection.blocked`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Blocked<'a> {
        pub reason: &'a str,
    }

    impl<'a> Blocked<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let reason = reader.short_text()?;
            reader.finish()?;
            Ok(Self { reason })
        }
    }

    impl EncodeMethod for Blocked<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 60;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            wire::put_short_string(out, self.reason.as_bytes());
        }
    }

    /// `connection.unblocked`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Unblocked {}

    impl Unblocked {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let reader = Reader::new(fields);
            reader.finish()?;
            Ok(Self {})
        }
    }

    impl EncodeMethod for Unblocked {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 61;
        fn encode_fields(&self, _out: &mut Vec<u8>) {}
    }

    /// `connection.update-secret`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct UpdateSecret<'a> {
        pub new_secret: &'a [u8],
        pub reason: &'a str,
    }

    impl<'a> UpdateSecret<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let new_secret = reader.long_string()?;
            let reason = reader.short_text()?;
            reader.finish()?;
            Ok(Self { new_secret, reason })
        }
    }

    impl EncodeMethod for UpdateSecret<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 70;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            wire::put_long_string(out, self.new_secret);
            wire::put_short_string(out, self.reason.as_bytes());
        }
    }

    /// `connection.update-secret-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct UpdateSecretOk {}

    impl UpdateSecretOk {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let reader = Reader::new(fields);
            reader.finish()?;
            Ok(Self {})
        }
    }

    impl EncodeMethod for UpdateSecretOk {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 71;
        fn encode_fields(&self, _out: &mut Vec<u8>) {}
    }
}

/// Class `channel`.
pub mod channel {
    use crate::error::DecodeError;
    use crate::method::EncodeMethod;
    use crate::wire::{self, Reader};

    /// The class's id.
    pub const CLASS: u16 = 20;

    /// `channel.open`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Open {}

    impl Open {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            reader.short_string()?;
            reader.finish()?;
            Ok(Self {})
        }
    }

    impl EncodeMethod for Open {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 10;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            wire::put_short_string(out, b"");
        }
    }

    /// `channel.open-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct OpenOk {}

    impl OpenOk {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            reader.long_string()?;
            reader.finish()?;
            Ok(Self {})
        }
    }

    impl EncodeMethod for OpenOk {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 11;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            wire::put_long_string(out, b"");
        }
    }

    /// `channel.flow`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Flow {
        pub active: bool,
    }

    impl Flow {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let bits = reader.octet()?;
            let active = bits & 1 != 0;
            reader.finish()?;
            Ok(Self { active })
        }
    }

    impl EncodeMethod for Flow {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 20;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.push(u8::from(self.active));
        }
    }

    /// `channel.flow-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct FlowOk {
        pub active: bool,
    }

    impl FlowOk {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let bits = reader.octet()?;
            let active = bits & 1 != 0;
            reader.finish()?;
            Ok(Self { active })
        }
    }

    impl EncodeMethod for FlowOk {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 21;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.push(u8::from(self.active));
        }
    }

    /// `channel.close`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Close<'a> {
        pub reply_code: u16,
        pub reply_text: &'a str,
        pub class_id: u16,
        pub method_id: u16,
    }

    impl<'a> Close<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let reply_code = reader.short()?;
            let reply_text = reader.short_text()?;
            let class_id = reader.short()?;
            let method_id = reader.short()?;
            reader.finish()?;
            Ok(Self {
                reply_code,
                reply_text,
                class_id,
                method_id,
            })
        }
    }

    impl EncodeMethod for Close<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 40;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&self.reply_code.to_be_bytes());
            wire::put_short_string(out, self.reply_text.as_bytes());
            out.extend_from_slice(&self.class_id.to_be_bytes());
            out.extend_from_slice(&self.method_id.to_be_bytes());
        }
    }

    /// `channel.close-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct CloseOk {}

    impl CloseOk {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let reader = Reader::new(fields);
            reader.finish()?;
            Ok(Self {})
        }
    }

    impl EncodeMethod for CloseOk {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 41;
        fn encode_fields(&self, _out: &mut Vec<u8>) {}
    }
}

/// Class `access`.
pub mod access {
    use crate::error::DecodeError;
    use crate::method::EncodeMethod;
    use crate::wire::{self, Reader};

    /// The class's id.
    pub const CLASS: u16 = 30;

    /// `access.request`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Request<'a> {
        pub realm: &'a str,
        pub exclusive: bool,
        pub passive: bool,
        pub active: bool,
        pub write: bool,
        pub read: bool,
    }

    impl<'a> Request<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let realm = reader.short_text()?;
            let bits = reader.octet()?;
            let exclusive = bits & 1 != 0;
            let passive = bits & 2 != 0;
            let active = bits & 4 != 0;
            let write = bits & 8 != 0;
            let read = bits & 16 != 0;
            reader.finish()?;
            Ok(Self {
                realm,
                exclusive,
                passive,
                active,
                write,
                read,
            })
        }
    }

    impl EncodeMethod for Request<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 10;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            wire::put_short_string(out, self.realm.as_bytes());
            out.push(
                u8::from(self.exclusive)
                    | u8::from(self.passive) << 1
                    | u8::from(self.active) << 2
                    | u8::from(self.write) << 3
                    | u8::from(self.read) << 4,
            );
        }
    }

    /// `access.request-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct RequestOk {
        pub ticket: u16,
    }

    impl RequestOk {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let ticket = reader.short()?;
            reader.finish()?;
            Ok(Self { ticket })
        }
    }

    impl EncodeMethod for RequestOk {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 11;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&self.ticket.to_be_bytes());
        }
    }
}

/// Class `exchange`.
pub mod exchange {
    use crate::error::DecodeError;
    use crate::method::EncodeMethod;
    use crate::table::RawTable;
    use crate::wire::{self, Reader};

    /// The class's id.
    pub const CLASS: u16 = 40;

    /// `exchange.declare`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Declare<'a> {
        pub exchange: &'a str,
        pub kind: &'a str,
        pub passive: bool,
        pub durable: bool,
        pub auto_delete: bool,
        pub internal: bool,
        pub nowait: bool,
        pub arguments: RawTable<'a>,
    }

    impl<'a> Declare<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            reader.short()?;
            let exchange = reader.short_text()?;
            let kind = reader.short_text()?;
            let bits = reader.octet()?;
            let passive = bits & 1 != 0;
            let durable = bits & 2 != 0;
            let auto_delete = bits & 4 != 0;
            let internal = bits & 8 != 0;
            let nowait = bits & 16 != 0;
            let arguments = reader.table()?;
            reader.finish()?;
            Ok(Self {
                exchange,
                kind,
                passive,
                durable,
                auto_delete,
                internal,
                nowait,
                arguments,
            })
        }
    }

    impl EncodeMethod for Declare<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 10;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&[0; 2]);
            wire::put_short_string(out, self.exchange.as_bytes());
            wire::put_short_string(out, self.kind.as_bytes());
            out.push(
                u8::from(self.passive)
                    | u8::from(self.durable) << 1
                    | u8::from(self.auto_delete) << 2
                    | u8::from(self.internal) << 3
                    | u8::from(self.nowait) << 4,
            );
            wire::put_long_string(out, self.arguments.as_bytes());
        }
    }

    /// `exchange.declare-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct DeclareOk {}

    impl DeclareOk {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let reader = Reader::new(fields);
            reader.finish()?;
            Ok(Self {})
        }
    }

    impl EncodeMethod for DeclareOk {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 11;
        fn encode_fields(&self, _out: &mut Vec<u8>) {}
    }

    /// `exchange.delete`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Delete<'a> {
        pub exchange: &'a str,
        pub if_unused: bool,
        pub nowait: bool,
    }

    impl<'a> Delete<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            reader.short()?;
            let exchange = reader.short_text()?;
            let bits = reader.octet()?;
            let if_unused = bits & 1 != 0;
            let nowait = bits & 2 != 0;
            reader.finish()?;
            Ok(Self {
                exchange,
                if_unused,
                nowait,
            })
        }
    }

    impl EncodeMethod for Delete<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 20;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&[0; 2]);
            wire::put_short_string(out, self.exchange.as_bytes());
            out.push(u8::from(self.if_unused) | u8::from(self.nowait) << 1);
        }
    }

    /// `exchange.delete-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct DeleteOk {}

    impl DeleteOk {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let reader = Reader::new(fields);
            reader.finish()?;
            Ok(Self {})
        }
    }

    impl EncodeMethod for DeleteOk {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 21;
        fn encode_fields(&self, _out: &mut Vec<u8>) {}
    }

    /// `exchange.bind`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Bind<'a> {
        pub destination: &'a str,
        pub source: &'a str,
        pub routing_key: &'a str,
        pub nowait: bool,
        pub arguments: RawTable<'a>,
    }

    impl<'a> Bind<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            reader.short()?;
            let destination = reader.short_text()?;
            let source = reader.short_text()?;
            let routing_key = reader.short_text()?;
            let bits = reader.octet()?;
            let nowait = bits & 1 != 0;
            let arguments = reader.table()?;
            reader.finish()?;
            Ok(Self {
                destination,
                source,
                routing_key,
                nowait,
                arguments,
            })
        }
    }

    impl EncodeMethod for Bind<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 30;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&[0; 2]);
            wire::put_short_string(out, self.destination.as_bytes());
            wire::put_short_string(out, self.source.as_bytes());
            wire::put_short_string(out, self.routing_key.as_bytes());
            out.push(u8::from(self.nowait));
            wire::put_long_string(out, self.arguments.as_bytes());
        }
    }

    /// `exchange.bind-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct BindOk {}

    impl BindOk {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let reader = Reader::new(fields);
            reader.finish()?;
            Ok(Self {})
        }
    }

    impl EncodeMethod for BindOk {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 31;
        fn encode_fields(&self, _out: &mut Vec<u8>) {}
    }

    /// `exchange.unbind`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Unbind<'a> {
        pub destination: &'a str,
        pub source: &'a str,
        pub routing_key: &'a str,
        pub nowait: bool,
        pub arguments: RawTable<'a>,
    }

    impl<'a> Unbind<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            reader.short()?;
            let destination = reader.short_text()?;
            let source = reader.short_text()?;
            let routing_key = reader.short_text()?;
            let bits = reader.octet()?;
            let nowait = bits & 1 != 0;
            let arguments = reader.table()?;
            reader.finish()?;
            Ok(Self {
                destination,
                source,
                routing_key,
                nowait,
                arguments,
            })
        }
    }

    impl EncodeMethod for Unbind<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 40;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&[0; 2]);
            wire::put_short_string(out, self.destination.as_bytes());
            wire::put_short_string(out, self.source.as_bytes());
            wire::put_short_string(out, self.routing_key.as_bytes());
            out.push(u8::from(self.nowait));
            wire::put_long_string(out, self.arguments.as_bytes());
        }
    }

    /// `exchange.unbind-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct UnbindOk {}

    impl UnbindOk {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let reader = Reader::new(fields);
            reader.finish()?;
            Ok(Self {})
        }
    }

    impl EncodeMethod for UnbindOk {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 51;
        fn encode_fields(&self, _out: &mut Vec<u8>) {}
    }
}

/// Class `queue`.
pub mod queue {
    use crate::error::DecodeError;
    use crate::method::EncodeMethod;
    use crate::table::RawTable;
    use crate::wire::{self, Reader};

    /// The class's id.
    pub const CLASS: u16 = 50;

    /// `queue.declare`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Declare<'a> {
        pub queue: &'a str,
        pub passive: bool,
        pub durable: bool,
        pub exclusive: bool,
        pub auto_delete: bool,
        pub nowait: bool,
        pub arguments: RawTable<'a>,
    }

    impl<'a> Declare<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            reader.short()?;
            let queue = reader.short_text()?;
            let bits = reader.octet()?;
            let passive = bits & 1 != 0;
            let durable = bits & 2 != 0;
            let exclusive = bits & 4 != 0;
            let auto_delete = bits & 8 != 0;
            let nowait = bits & 16 != 0;
            let arguments = reader.table()?;
            reader.finish()?;
            Ok(Self {
                queue,
                passive,
                durable,
                exclusive,
                auto_delete,
                nowait,
                arguments,
            })
        }
    }

    impl EncodeMethod for Declare<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 10;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&[0; 2]);
            wire::put_short_string(out, self.queue.as_bytes());
            out.push(
                u8::from(self.passive)
                    | u8::from(self.durable) << 1
                    | u8::from(self.exclusive) << 2
                    | u8::from(self.auto_delete) << 3
                    | u8::from(self.nowait) << 4,
            );
            wire::put_long_string(out, self.arguments.as_bytes());
        }
    }

    /// `queue.declare-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct DeclareOk<'a> {
        pub queue: &'a str,
        pub message_count: u32,
        pub consumer_count: u32,
    }

    impl<'a> DeclareOk<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let queue = reader.short_text()?;
            let message_count = reader.long()?;
            let consumer_count = reader.long()?;
            reader.finish()?;
            Ok(Self {
                queue,
                message_count,
                consumer_count,
            })
        }
    }

    impl EncodeMethod for DeclareOk<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 11;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            wire::put_short_string(out, self.queue.as_bytes());
            out.extend_from_slice(&self.message_count.to_be_bytes());
            out.extend_from_slice(&self.consumer_count.to_be_bytes());
        }
    }

    /// `queue.bind`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Bind<'a> {
        pub queue: &'a str,
        pub exchange: &'a str,
        pub routing_key: &'a str,
        pub nowait: bool,
        pub arguments: RawTable<'a>,
    }

    impl<'a> Bind<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            reader.short()?;
            let queue = reader.short_text()?;
            let exchange = reader.short_text()?;
            let routing_key = reader.short_text()?;
            let bits = reader.octet()?;
            let nowait = bits & 1 != 0;
            let arguments = reader.table()?;
            reader.finish()?;
            Ok(Self {
                queue,
                exchange,
                routing_key,
                nowait,
                arguments,
            })
        }
    }

    impl EncodeMethod for Bind<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 20;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&[0; 2]);
            wire::put_short_string(out, self.queue.as_bytes());
            wire::put_short_string(out, self.exchange.as_bytes());
            wire::put_short_string(out, self.routing_key.as_bytes());
            out.push(u8::from(self.nowait));
            wire::put_long_string(out, self.arguments.as_bytes());
        }
    }

    /// `queue.bind-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct BindOk {}

    impl BindOk {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let reader = Reader::new(fields);
            reader.finish()?;
            Ok(Self {})
        }
    }

    impl EncodeMethod for BindOk {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 21;
        fn encode_fields(&self, _out: &mut Vec<u8>) {}
    }

    /// `queue.purge`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Purge<'a> {
        pub queue: &'a str,
        pub nowait: bool,
    }

    impl<'a> Purge<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            reader.short()?;
            let queue = reader.short_text()?;
            let bits = reader.octet()?;
            let nowait = bits & 1 != 0;
            reader.finish()?;
            Ok(Self { queue, nowait })
        }
    }

    impl EncodeMethod for Purge<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 30;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&[0; 2]);
            wire::put_short_string(out, self.queue.as_bytes());
            out.push(u8::from(self.nowait));
        }
    }

    /// `queue.purge-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct PurgeOk {
        pub message_count: u32,
    }

    impl PurgeOk {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let message_count = reader.long()?;
            reader.finish()?;
            Ok(Self { message_count })
        }
    }

    impl EncodeMethod for PurgeOk {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 31;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&self.message_count.to_be_bytes());
        }
    }

    /// `queue.delete`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Delete<'a> {
        pub queue: &'a str,
        pub if_unused: bool,
        pub if_empty: bool,
        pub nowait: bool,
    }

    impl<'a> Delete<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            reader.short()?;
            let queue = reader.short_text()?;
            let bits = reader.octet()?;
            let if_unused = bits & 1 != 0;
            let if_empty = bits & 2 != 0;
            let nowait = bits & 4 != 0;
            reader.finish()?;
            Ok(Self {
                queue,
                if_unused,
                if_empty,
                nowait,
            })
        }
    }

    impl EncodeMethod for Delete<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 40;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&[0; 2]);
            wire::put_short_string(out, self.queue.as_bytes());
            out.push(
                u8::from(self.if_unused)
                    | u8::from(self.if_empty) << 1
                    | u8::from(self.nowait) << 2,
            );
        }
    }

    /// `queue.delete-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct DeleteOk {
        pub message_count: u32,
    }

    impl DeleteOk {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let message_count = reader.long()?;
            reader.finish()?;
            Ok(Self { message_count })
        }
    }

    impl EncodeMethod for DeleteOk {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 41;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&self.message_count.to_be_bytes());
        }
    }

    /// `queue.unbind`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Unbind<'a> {
        pub queue: &'a str,
        pub exchange: &'a str,
        pub routing_key: &'a str,
        pub arguments: RawTable<'a>,
    }

    impl<'a> Unbind<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            reader.short()?;
            let queue = reader.short_text()?;
            let exchange = reader.short_text()?;
            let routing_key = reader.short_text()?;
            let arguments = reader.table()?;
            reader.finish()?;
            Ok(Self {
                queue,
                exchange,
                routing_key,
                arguments,
            })
        }
    }

    impl EncodeMethod for Unbind<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 50;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&[0; 2]);
            wire::put_short_string(out, self.queue.as_bytes());
            wire::put_short_string(out, self.exchange.as_bytes());
            wire::put_short_string(out, self.routing_key.as_bytes());
            wire::put_long_string(out, self.arguments.as_bytes());
        }
    }

    /// `queue.unbind-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct UnbindOk {}

    impl UnbindOk {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let reader = Reader::new(fields);
            reader.finish()?;
            Ok(Self {})
        }
    }

    impl EncodeMethod for UnbindOk {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 51;
        fn encode_fields(&self, _out: &mut Vec<u8>) {}
    }
}

/// Class `basic`.
pub mod basic {
    use crate::error::DecodeError;
    use crate::method::EncodeMethod;
    use crate::table::RawTable;
    use crate::wire::{self, Reader};

    /// The class's id.
    pub const CLASS: u16 = 60;

    /// `basic.qos`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Qos {
        pub prefetch_size: u32,
        pub prefetch_count: u16,
        pub global: bool,
    }

    impl Qos {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let prefetch_size = reader.long()?;
            let prefetch_count = reader.short()?;
            let bits = reader.octet()?;
            let global = bits & 1 != 0;
            reader.finish()?;
            Ok(Self {
                prefetch_size,
                prefetch_count,
                global,
            })
        }
    }

    impl EncodeMethod for Qos {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 10;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&self.prefetch_size.to_be_bytes());
            out.extend_from_slice(&self.prefetch_count.to_be_bytes());
            out.push(u8::from(self.global));
        }
    }

    /// `basic.qos-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct QosOk {}

    impl QosOk {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let reader = Reader::new(fields);
            reader.finish()?;
            Ok(Self {})
        }
    }

    impl EncodeMethod for QosOk {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 11;
        fn encode_fields(&self, _out: &mut Vec<u8>) {}
    }

    /// `basic.consume`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Consume<'a> {
        pub queue: &'a str,
        pub consumer_tag: &'a str,
        pub no_local: bool,
        pub no_ack: bool,
        pub exclusive: bool,
        pub nowait: bool,
        pub arguments: RawTable<'a>,
    }

    impl<'a> Consume<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            reader.short()?;
            let queue = reader.short_text()?;
            let consumer_tag = reader.short_text()?;
            let bits = reader.octet()?;
            let no_local = bits & 1 != 0;
            let no_ack = bits & 2 != 0;
            let exclusive = bits & 4 != 0;
            let nowait = bits & 8 != 0;
            let arguments = reader.table()?;
            reader.finish()?;
            Ok(Self {
                queue,
                consumer_tag,
                no_local,
                no_ack,
                exclusive,
                nowait,
                arguments,
            })
        }
    }

    impl EncodeMethod for Consume<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 20;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&[0; 2]);
            wire::put_short_string(out, self.queue.as_bytes());
            wire::put_short_string(out, self.consumer_tag.as_bytes());
            out.push(
                u8::from(self.no_local)
                    | u8::from(self.no_ack) << 1
                    | u8::from(self.exclusive) << 2
                    | u8::from(self.nowait) << 3,
            );
            wire::put_long_string(out, self.arguments.as_bytes());
        }
    }

    /// `basic.consume-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct ConsumeOk<'a> {
        pub consumer_tag: &'a str,
    }

    impl<'a> ConsumeOk<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let consumer_tag = reader.short_text()?;
            reader.finish()?;
            Ok(Self { consumer_tag })
        }
    }

    impl EncodeMethod for ConsumeOk<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 21;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            wire::put_short_string(out, self.consumer_tag.as_bytes());
        }
    }

    /// `basic.cancel`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Cancel<'a> {
        pub consumer_tag: &'a str,
        pub nowait: bool,
    }

    impl<'a> Cancel<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let consumer_tag = reader.short_text()?;
            let bits = reader.octet()?;
            let nowait = bits & 1 != 0;
            reader.finish()?;
            Ok(Self {
                consumer_tag,
                nowait,
            })
        }
    }

    impl EncodeMethod for Cancel<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 30;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            wire::put_short_string(out, self.consumer_tag.as_bytes());
            out.push(u8::from(self.nowait));
        }
    }

    /// `basic.cancel-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct CancelOk<'a> {
        pub consumer_tag: &'a str,
    }

    impl<'a> CancelOk<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let consumer_tag = reader.short_text()?;
            reader.finish()?;
            Ok(Self { consumer_tag })
        }
    }

    impl EncodeMethod for CancelOk<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 31;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            wire::put_short_string(out, self.consumer_tag.as_bytes());
        }
    }

    /// `basic.publish`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Publish<'a> {
        pub exchange: &'a [u8],
        pub routing_key: &'a [u8],
        pub mandatory: bool,
        pub immediate: bool,
    }

    impl<'a> Publish<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            reader.short()?;
            let exchange = reader.short_string()?;
            let routing_key = reader.short_string()?;
            let bits = reader.octet()?;
            let mandatory = bits & 1 != 0;
            let immediate = bits & 2 != 0;
            reader.finish()?;
            Ok(Self {
                exchange,
                routing_key,
                mandatory,
                immediate,
            })
        }
    }

    impl EncodeMethod for Publish<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 40;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&[0; 2]);
            wire::put_short_string(out, self.exchange);
            wire::put_short_string(out, self.routing_key);
            out.push(u8::from(self.mandatory) | u8::from(self.immediate) << 1);
        }
    }

    /// `basic.return`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Return<'a> {
        pub reply_code: u16,
        pub reply_text: &'a [u8],
        pub exchange: &'a [u8],
        pub routing_key: &'a [u8],
    }

    impl<'a> Return<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let reply_code = reader.short()?;
            let reply_text = reader.short_string()?;
            let exchange = reader.short_string()?;
            let routing_key = reader.short_string()?;
            reader.finish()?;
            Ok(Self {
                reply_code,
                reply_text,
                exchange,
                routing_key,
            })
        }
    }

    impl EncodeMethod for Return<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 50;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&self.reply_code.to_be_bytes());
            wire::put_short_string(out, self.reply_text);
            wire::put_short_string(out, self.exchange);
            wire::put_short_string(out, self.routing_key);
        }
    }

    /// `basic.deliver`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Deliver<'a> {
        pub consumer_tag: &'a [u8],
        pub delivery_tag: u64,
        pub redelivered: bool,
        pub exchange: &'a [u8],
        pub routing_key: &'a [u8],
    }

    impl<'a> Deliver<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let consumer_tag = reader.short_string()?;
            let delivery_tag = reader.long_long()?;
            let bits = reader.octet()?;
            let redelivered = bits & 1 != 0;
            let exchange = reader.short_string()?;
            let routing_key = reader.short_string()?;
            reader.finish()?;
            Ok(Self {
                consumer_tag,
                delivery_tag,
                redelivered,
                exchange,
                routing_key,
            })
        }
    }

    impl EncodeMethod for Deliver<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 60;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            wire::put_short_string(out, self.consumer_tag);
            out.extend_from_slice(&self.delivery_tag.to_be_bytes());
            out.push(u8::from(self.redelivered));
            wire::put_short_string(out, self.exchange);
            wire::put_short_string(out, self.routing_key);
        }
    }

    /// `basic.get`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Get<'a> {
        pub queue: &'a str,
        pub no_ack: bool,
    }

    impl<'a> Get<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            reader.short()?;
            let queue = reader.short_text()?;
            let bits = reader.octet()?;
            let no_ack = bits & 1 != 0;
            reader.finish()?;
            Ok(Self { queue, no_ack })
        }
    }

    impl EncodeMethod for Get<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 70;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&[0; 2]);
            wire::put_short_string(out, self.queue.as_bytes());
            out.push(u8::from(self.no_ack));
        }
    }

    /// `basic.get-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct GetOk<'a> {
        pub delivery_tag: u64,
        pub redelivered: bool,
        pub exchange: &'a [u8],
        pub routing_key: &'a [u8],
        pub message_count: u32,
    }

    impl<'a> GetOk<'a> {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let delivery_tag = reader.long_long()?;
            let bits = reader.octet()?;
            let redelivered = bits & 1 != 0;
            let exchange = reader.short_string()?;
            let routing_key = reader.short_string()?;
            let message_count = reader.long()?;
            reader.finish()?;
            Ok(Self {
                delivery_tag,
                redelivered,
                exchange,
                routing_key,
                message_count,
            })
        }
    }

    impl EncodeMethod for GetOk<'_> {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 71;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&self.delivery_tag.to_be_bytes());
            out.push(u8::from(self.redelivered));
            wire::put_short_string(out, self.exchange);
            wire::put_short_string(out, self.routing_key);
            out.extend_from_slice(&self.message_count.to_be_bytes());
        }
    }

    /// `basic.get-empty`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct GetEmpty {}

    impl GetEmpty {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            reader.short_string()?;
            reader.finish()?;
            Ok(Self {})
        }
    }

    impl EncodeMethod for GetEmpty {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 72;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            wire::put_short_string(out, b"");
        }
    }

    /// `basic.ack`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Ack {
        pub delivery_tag: u64,
        pub multiple: bool,
    }

    impl Ack {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let delivery_tag = reader.long_long()?;
            let bits = reader.octet()?;
            let multiple = bits & 1 != 0;
            reader.finish()?;
            Ok(Self {
                delivery_tag,
                multiple,
            })
        }
    }

    impl EncodeMethod for Ack {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 80;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&self.delivery_tag.to_be_bytes());
            out.push(u8::from(self.multiple));
        }
    }

    /// `basic.reject`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Reject {
        pub delivery_tag: u64,
        pub requeue: bool,
    }

    impl Reject {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let delivery_tag = reader.long_long()?;
            let bits = reader.octet()?;
            let requeue = bits & 1 != 0;
            reader.finish()?;
            Ok(Self {
                delivery_tag,
                requeue,
            })
        }
    }

    impl EncodeMethod for Reject {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 90;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&self.delivery_tag.to_be_bytes());
            out.push(u8::from(self.requeue));
        }
    }

    /// `basic.recover-async`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct RecoverAsync {
        pub requeue: bool,
    }

    impl RecoverAsync {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let bits = reader.octet()?;
            let requeue = bits & 1 != 0;
            reader.finish()?;
            Ok(Self { requeue })
        }
    }

    impl EncodeMethod for RecoverAsync {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 100;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.push(u8::from(self.requeue));
        }
    }

    /// `basic.recover`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Recover {
        pub requeue: bool,
    }

    impl Recover {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let bits = reader.octet()?;
            let requeue = bits & 1 != 0;
            reader.finish()?;
            Ok(Self { requeue })
        }
    }

    impl EncodeMethod for Recover {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 110;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.push(u8::from(self.requeue));
        }
    }

    /// `basic.recover-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct RecoverOk {}

    impl RecoverOk {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let reader = Reader::new(fields);
            reader.finish()?;
            Ok(Self {})
        }
    }

    impl EncodeMethod for RecoverOk {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 111;
        fn encode_fields(&self, _out: &mut Vec<u8>) {}
    }

    /// `basic.nack`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Nack {
        pub delivery_tag: u64,
        pub multiple: bool,
        pub requeue: bool,
    }

    impl Nack {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let delivery_tag = reader.long_long()?;
            let bits = reader.octet()?;
            let multiple = bits & 1 != 0;
            let requeue = bits & 2 != 0;
            reader.finish()?;
            Ok(Self {
                delivery_tag,
                multiple,
                requeue,
            })
        }
    }

    impl EncodeMethod for Nack {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 120;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&self.delivery_tag.to_be_bytes());
            out.push(u8::from(self.multiple) | u8::from(self.requeue) << 1);
        }
    }
}

/// Class `confirm`.
pub mod confirm {
    use crate::error::DecodeError;
    use crate::method::EncodeMethod;
    use crate::wire::Reader;

    /// The class's id.
    pub const CLASS: u16 = 85;

    /// `confirm.select`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Select {
        pub nowait: bool,
    }

    impl Select {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let mut reader = Reader::new(fields);
            let bits = reader.octet()?;
            let nowait = bits & 1 != 0;
            reader.finish()?;
            Ok(Self { nowait })
        }
    }

    impl EncodeMethod for Select {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 10;
        fn encode_fields(&self, out: &mut Vec<u8>) {
            out.push(u8::from(self.nowait));
        }
    }

    /// `confirm.select-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct SelectOk {}

    impl SelectOk {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let reader = Reader::new(fields);
            reader.finish()?;
            Ok(Self {})
        }
    }

    impl EncodeMethod for SelectOk {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 11;
        fn encode_fields(&self, _out: &mut Vec<u8>) {}
    }
}

/// Class `tx`.
pub mod tx {
    use crate::error::DecodeError;
    use crate::method::EncodeMethod;
    use crate::wire::Reader;

    /// The class's id.
    pub const CLASS: u16 = 90;

    /// `tx.select`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Select {}

    impl Select {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let reader = Reader::new(fields);
            reader.finish()?;
            Ok(Self {})
        }
    }

    impl EncodeMethod for Select {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 10;
        fn encode_fields(&self, _out: &mut Vec<u8>) {}
    }

    /// `tx.select-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct SelectOk {}

    impl SelectOk {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let reader = Reader::new(fields);
            reader.finish()?;
            Ok(Self {})
        }
    }

    impl EncodeMethod for SelectOk {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 11;
        fn encode_fields(&self, _out: &mut Vec<u8>) {}
    }

    /// `tx.commit`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Commit {}

    impl Commit {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let reader = Reader::new(fields);
            reader.finish()?;
            Ok(Self {})
        }
    }

    impl EncodeMethod for Commit {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 20;
        fn encode_fields(&self, _out: &mut Vec<u8>) {}
    }

    /// `tx.commit-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct CommitOk {}

    impl CommitOk {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let reader = Reader::new(fields);
            reader.finish()?;
            Ok(Self {})
        }
    }

    impl EncodeMethod for CommitOk {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 21;
        fn encode_fields(&self, _out: &mut Vec<u8>) {}
    }

    /// `tx.rollback`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Rollback {}

    impl Rollback {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let reader = Reader::new(fields);
            reader.finish()?;
            Ok(Self {})
        }
    }

    impl EncodeMethod for Rollback {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 30;
        fn encode_fields(&self, _out: &mut Vec<u8>) {}
    }

    /// `tx.rollback-ok`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct RollbackOk {}

    impl RollbackOk {
        /// Reads the fields: all that follows the ids in the frame.
        ///
        /// # Errors
        /// If the bytes are not exactly these fields.
        pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
            let reader = Reader::new(fields);
            reader.finish()?;
            Ok(Self {})
        }
    }

    impl EncodeMethod for RollbackOk {
        const CLASS: u16 = CLASS;
        const METHOD: u16 = 31;
        fn encode_fields(&self, _out: &mut Vec<u8>) {}
    }
}

/// Any method.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method<'a> {
    ConnectionStart(connection::Start<'a>),
    ConnectionStartOk(connection::StartOk<'a>),
    ConnectionSecure(connection::Secure<'a>),
    ConnectionSecureOk(connection::SecureOk<'a>),
    ConnectionTune(connection::Tune),
    ConnectionTuneOk(connection::TuneOk),
    ConnectionOpen(connection::Open<'a>),
    ConnectionOpenOk(connection::OpenOk),
    ConnectionClose(connection::Close<'a>),
    ConnectionCloseOk(connection::CloseOk),
    ConnectionBlocked(connection::Blocked<'a>),
    ConnectionUnblocked(connection::Unblocked),
    ConnectionUpdateSecret(connection::UpdateSecret<'a>),
    ConnectionUpdateSecretOk(connection::UpdateSecretOk),
    ChannelOpen(channel::Open),
    ChannelOpenOk(channel::OpenOk),
    ChannelFlow(channel::Flow),
    ChannelFlowOk(channel::FlowOk),
    ChannelClose(channel::Close<'a>),
    ChannelCloseOk(channel::CloseOk),
    AccessRequest(access::Request<'a>),
    AccessRequestOk(access::RequestOk),
    ExchangeDeclare(exchange::Declare<'a>),
    ExchangeDeclareOk(exchange::DeclareOk),
    ExchangeDelete(exchange::Delete<'a>),
    ExchangeDeleteOk(exchange::DeleteOk),
    ExchangeBind(exchange::Bind<'a>),
    ExchangeBindOk(exchange::BindOk),
    ExchangeUnbind(exchange::Unbind<'a>),
    ExchangeUnbindOk(exchange::UnbindOk),
    QueueDeclare(queue::Declare<'a>),
    QueueDeclareOk(queue::DeclareOk<'a>),
    QueueBind(queue::Bind<'a>),
    QueueBindOk(queue::BindOk),
    QueuePurge(queue::Purge<'a>),
    QueuePurgeOk(queue::PurgeOk),
    QueueDelete(queue::Delete<'a>),
    QueueDeleteOk(queue::DeleteOk),
    QueueUnbind(queue::Unbind<'a>),
    QueueUnbindOk(queue::UnbindOk),
    BasicQos(basic::Qos),
    BasicQosOk(basic::QosOk),
    BasicConsume(basic::Consume<'a>),
    BasicConsumeOk(basic::ConsumeOk<'a>),
    BasicCancel(basic::Cancel<'a>),
    BasicCancelOk(basic::CancelOk<'a>),
    BasicPublish(basic::Publish<'a>),
    BasicReturn(basic::Return<'a>),
    BasicDeliver(basic::Deliver<'a>),
    BasicGet(basic::Get<'a>),
    BasicGetOk(basic::GetOk<'a>),
    BasicGetEmpty(basic::GetEmpty),
    BasicAck(basic::Ack),
    BasicReject(basic::Reject),
    BasicRecoverAsync(basic::RecoverAsync),
    BasicRecover(basic::Recover),
    BasicRecoverOk(basic::RecoverOk),
    BasicNack(basic::Nack),
    ConfirmSelect(confirm::Select),
    ConfirmSelectOk(confirm::SelectOk),
    TxSelect(tx::Select),
    TxSelectOk(tx::SelectOk),
    TxCommit(tx::Commit),
    TxCommitOk(tx::CommitOk),
    TxRollback(tx::Rollback),
    TxRollbackOk(tx::RollbackOk),
}

impl<'a> Method<'a> {
    /// Reads a method frame's payload.
    ///
    /// # Errors
    /// If there is no such method, or the bytes are not exactly its fields.
    pub fn decode(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        let (class, method) = (reader.short()?, reader.short()?);
        let fields = reader.rest();
        Ok(match (class, method) {
            (10, 10) => Self::ConnectionStart(connection::Start::decode(fields)?),
            (10, 11) => Self::ConnectionStartOk(connection::StartOk::decode(fields)?),
            (10, 20) => Self::ConnectionSecure(connection::Secure::decode(fields)?),
            (10, 21) => Self::ConnectionSecureOk(connection::SecureOk::decode(fields)?),
            (10, 30) => Self::ConnectionTune(connection::Tune::decode(fields)?),
            (10, 31) => Self::ConnectionTuneOk(connection::TuneOk::decode(fields)?),
            (10, 40) => Self::ConnectionOpen(connection::Open::decode(fields)?),
            (10, 41) => Self::ConnectionOpenOk(connection::OpenOk::decode(fields)?),
            (10, 50) => Self::ConnectionClose(connection::Close::decode(fields)?),
            (10, 51) => Self::ConnectionCloseOk(connection::CloseOk::decode(fields)?),
            (10, 60) => Self::ConnectionBlocked(connection::Blocked::decode(fields)?),
            (10, 61) => Self::ConnectionUnblocked(connection::Unblocked::decode(fields)?),
            (10, 70) => Self::ConnectionUpdateSecret(connection::UpdateSecret::decode(fields)?),
            (10, 71) => Self::ConnectionUpdateSecretOk(connection::UpdateSecretOk::decode(fields)?),
            (20, 10) => Self::ChannelOpen(channel::Open::decode(fields)?),
            (20, 11) => Self::ChannelOpenOk(channel::OpenOk::decode(fields)?),
            (20, 20) => Self::ChannelFlow(channel::Flow::decode(fields)?),
            (20, 21) => Self::ChannelFlowOk(channel::FlowOk::decode(fields)?),
            (20, 40) => Self::ChannelClose(channel::Close::decode(fields)?),
            (20, 41) => Self::ChannelCloseOk(channel::CloseOk::decode(fields)?),
            (30, 10) => Self::AccessRequest(access::Request::decode(fields)?),
            (30, 11) => Self::AccessRequestOk(access::RequestOk::decode(fields)?),
            (40, 10) => Self::ExchangeDeclare(exchange::Declare::decode(fields)?),
            (40, 11) => Self::ExchangeDeclareOk(exchange::DeclareOk::decode(fields)?),
            (40, 20) => Self::ExchangeDelete(exchange::Delete::decode(fields)?),
            (40, 21) => Self::ExchangeDeleteOk(exchange::DeleteOk::decode(fields)?),
            (40, 30) => Self::ExchangeBind(exchange::Bind::decode(fields)?),
            (40, 31) => Self::ExchangeBindOk(exchange::BindOk::decode(fields)?),
            (40, 40) => Self::ExchangeUnbind(exchange::Unbind::decode(fields)?),
            (40, 51) => Self::ExchangeUnbindOk(exchange::UnbindOk::decode(fields)?),
            (50, 10) => Self::QueueDeclare(queue::Declare::decode(fields)?),
            (50, 11) => Self::QueueDeclareOk(queue::DeclareOk::decode(fields)?),
            (50, 20) => Self::QueueBind(queue::Bind::decode(fields)?),
            (50, 21) => Self::QueueBindOk(queue::BindOk::decode(fields)?),
            (50, 30) => Self::QueuePurge(queue::Purge::decode(fields)?),
            (50, 31) => Self::QueuePurgeOk(queue::PurgeOk::decode(fields)?),
            (50, 40) => Self::QueueDelete(queue::Delete::decode(fields)?),
            (50, 41) => Self::QueueDeleteOk(queue::DeleteOk::decode(fields)?),
            (50, 50) => Self::QueueUnbind(queue::Unbind::decode(fields)?),
            (50, 51) => Self::QueueUnbindOk(queue::UnbindOk::decode(fields)?),
            (60, 10) => Self::BasicQos(basic::Qos::decode(fields)?),
            (60, 11) => Self::BasicQosOk(basic::QosOk::decode(fields)?),
            (60, 20) => Self::BasicConsume(basic::Consume::decode(fields)?),
            (60, 21) => Self::BasicConsumeOk(basic::ConsumeOk::decode(fields)?),
            (60, 30) => Self::BasicCancel(basic::Cancel::decode(fields)?),
            (60, 31) => Self::BasicCancelOk(basic::CancelOk::decode(fields)?),
            (60, 40) => Self::BasicPublish(basic::Publish::decode(fields)?),
            (60, 50) => Self::BasicReturn(basic::Return::decode(fields)?),
            (60, 60) => Self::BasicDeliver(basic::Deliver::decode(fields)?),
            (60, 70) => Self::BasicGet(basic::Get::decode(fields)?),
            (60, 71) => Self::BasicGetOk(basic::GetOk::decode(fields)?),
            (60, 72) => Self::BasicGetEmpty(basic::GetEmpty::decode(fields)?),
            (60, 80) => Self::BasicAck(basic::Ack::decode(fields)?),
            (60, 90) => Self::BasicReject(basic::Reject::decode(fields)?),
            (60, 100) => Self::BasicRecoverAsync(basic::RecoverAsync::decode(fields)?),
            (60, 110) => Self::BasicRecover(basic::Recover::decode(fields)?),
            (60, 111) => Self::BasicRecoverOk(basic::RecoverOk::decode(fields)?),
            (60, 120) => Self::BasicNack(basic::Nack::decode(fields)?),
            (85, 10) => Self::ConfirmSelect(confirm::Select::decode(fields)?),
            (85, 11) => Self::ConfirmSelectOk(confirm::SelectOk::decode(fields)?),
            (90, 10) => Self::TxSelect(tx::Select::decode(fields)?),
            (90, 11) => Self::TxSelectOk(tx::SelectOk::decode(fields)?),
            (90, 20) => Self::TxCommit(tx::Commit::decode(fields)?),
            (90, 21) => Self::TxCommitOk(tx::CommitOk::decode(fields)?),
            (90, 30) => Self::TxRollback(tx::Rollback::decode(fields)?),
            (90, 31) => Self::TxRollbackOk(tx::RollbackOk::decode(fields)?),
            _ => return Err(DecodeError::UnknownMethod { class, method }),
        })
    }

    /// Appends a method frame's payload: ids and fields.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::ConnectionStart(m) => m.encode(out),
            Self::ConnectionStartOk(m) => m.encode(out),
            Self::ConnectionSecure(m) => m.encode(out),
            Self::ConnectionSecureOk(m) => m.encode(out),
            Self::ConnectionTune(m) => m.encode(out),
            Self::ConnectionTuneOk(m) => m.encode(out),
            Self::ConnectionOpen(m) => m.encode(out),
            Self::ConnectionOpenOk(m) => m.encode(out),
            Self::ConnectionClose(m) => m.encode(out),
            Self::ConnectionCloseOk(m) => m.encode(out),
            Self::ConnectionBlocked(m) => m.encode(out),
            Self::ConnectionUnblocked(m) => m.encode(out),
            Self::ConnectionUpdateSecret(m) => m.encode(out),
            Self::ConnectionUpdateSecretOk(m) => m.encode(out),
            Self::ChannelOpen(m) => m.encode(out),
            Self::ChannelOpenOk(m) => m.encode(out),
            Self::ChannelFlow(m) => m.encode(out),
            Self::ChannelFlowOk(m) => m.encode(out),
            Self::ChannelClose(m) => m.encode(out),
            Self::ChannelCloseOk(m) => m.encode(out),
            Self::AccessRequest(m) => m.encode(out),
            Self::AccessRequestOk(m) => m.encode(out),
            Self::ExchangeDeclare(m) => m.encode(out),
            Self::ExchangeDeclareOk(m) => m.encode(out),
            Self::ExchangeDelete(m) => m.encode(out),
            Self::ExchangeDeleteOk(m) => m.encode(out),
            Self::ExchangeBind(m) => m.encode(out),
            Self::ExchangeBindOk(m) => m.encode(out),
            Self::ExchangeUnbind(m) => m.encode(out),
            Self::ExchangeUnbindOk(m) => m.encode(out),
            Self::QueueDeclare(m) => m.encode(out),
            Self::QueueDeclareOk(m) => m.encode(out),
            Self::QueueBind(m) => m.encode(out),
            Self::QueueBindOk(m) => m.encode(out),
            Self::QueuePurge(m) => m.encode(out),
            Self::QueuePurgeOk(m) => m.encode(out),
            Self::QueueDelete(m) => m.encode(out),
            Self::QueueDeleteOk(m) => m.encode(out),
            Self::QueueUnbind(m) => m.encode(out),
            Self::QueueUnbindOk(m) => m.encode(out),
            Self::BasicQos(m) => m.encode(out),
            Self::BasicQosOk(m) => m.encode(out),
            Self::BasicConsume(m) => m.encode(out),
            Self::BasicConsumeOk(m) => m.encode(out),
            Self::BasicCancel(m) => m.encode(out),
            Self::BasicCancelOk(m) => m.encode(out),
            Self::BasicPublish(m) => m.encode(out),
            Self::BasicReturn(m) => m.encode(out),
            Self::BasicDeliver(m) => m.encode(out),
            Self::BasicGet(m) => m.encode(out),
            Self::BasicGetOk(m) => m.encode(out),
            Self::BasicGetEmpty(m) => m.encode(out),
            Self::BasicAck(m) => m.encode(out),
            Self::BasicReject(m) => m.encode(out),
            Self::BasicRecoverAsync(m) => m.encode(out),
            Self::BasicRecover(m) => m.encode(out),
            Self::BasicRecoverOk(m) => m.encode(out),
            Self::BasicNack(m) => m.encode(out),
            Self::ConfirmSelect(m) => m.encode(out),
            Self::ConfirmSelectOk(m) => m.encode(out),
            Self::TxSelect(m) => m.encode(out),
            Self::TxSelectOk(m) => m.encode(out),
            Self::TxCommit(m) => m.encode(out),
            Self::TxCommitOk(m) => m.encode(out),
            Self::TxRollback(m) => m.encode(out),
            Self::TxRollbackOk(m) => m.encode(out),
        }
    }

    /// Class id and method id.
    #[must_use]
    pub const fn ids(&self) -> (u16, u16) {
        match self {
            Self::ConnectionStart(_) => (10, 10),
            Self::ConnectionStartOk(_) => (10, 11),
            Self::ConnectionSecure(_) => (10, 20),
            Self::ConnectionSecureOk(_) => (10, 21),
            Self::ConnectionTune(_) => (10, 30),
            Self::ConnectionTuneOk(_) => (10, 31),
            Self::ConnectionOpen(_) => (10, 40),
            Self::ConnectionOpenOk(_) => (10, 41),
            Self::ConnectionClose(_) => (10, 50),
            Self::ConnectionCloseOk(_) => (10, 51),
            Self::ConnectionBlocked(_) => (10, 60),
            Self::ConnectionUnblocked(_) => (10, 61),
            Self::ConnectionUpdateSecret(_) => (10, 70),
            Self::ConnectionUpdateSecretOk(_) => (10, 71),
            Self::ChannelOpen(_) => (20, 10),
            Self::ChannelOpenOk(_) => (20, 11),
            Self::ChannelFlow(_) => (20, 20),
            Self::ChannelFlowOk(_) => (20, 21),
            Self::ChannelClose(_) => (20, 40),
            Self::ChannelCloseOk(_) => (20, 41),
            Self::AccessRequest(_) => (30, 10),
            Self::AccessRequestOk(_) => (30, 11),
            Self::ExchangeDeclare(_) => (40, 10),
            Self::ExchangeDeclareOk(_) => (40, 11),
            Self::ExchangeDelete(_) => (40, 20),
            Self::ExchangeDeleteOk(_) => (40, 21),
            Self::ExchangeBind(_) => (40, 30),
            Self::ExchangeBindOk(_) => (40, 31),
            Self::ExchangeUnbind(_) => (40, 40),
            Self::ExchangeUnbindOk(_) => (40, 51),
            Self::QueueDeclare(_) => (50, 10),
            Self::QueueDeclareOk(_) => (50, 11),
            Self::QueueBind(_) => (50, 20),
            Self::QueueBindOk(_) => (50, 21),
            Self::QueuePurge(_) => (50, 30),
            Self::QueuePurgeOk(_) => (50, 31),
            Self::QueueDelete(_) => (50, 40),
            Self::QueueDeleteOk(_) => (50, 41),
            Self::QueueUnbind(_) => (50, 50),
            Self::QueueUnbindOk(_) => (50, 51),
            Self::BasicQos(_) => (60, 10),
            Self::BasicQosOk(_) => (60, 11),
            Self::BasicConsume(_) => (60, 20),
            Self::BasicConsumeOk(_) => (60, 21),
            Self::BasicCancel(_) => (60, 30),
            Self::BasicCancelOk(_) => (60, 31),
            Self::BasicPublish(_) => (60, 40),
            Self::BasicReturn(_) => (60, 50),
            Self::BasicDeliver(_) => (60, 60),
            Self::BasicGet(_) => (60, 70),
            Self::BasicGetOk(_) => (60, 71),
            Self::BasicGetEmpty(_) => (60, 72),
            Self::BasicAck(_) => (60, 80),
            Self::BasicReject(_) => (60, 90),
            Self::BasicRecoverAsync(_) => (60, 100),
            Self::BasicRecover(_) => (60, 110),
            Self::BasicRecoverOk(_) => (60, 111),
            Self::BasicNack(_) => (60, 120),
            Self::ConfirmSelect(_) => (85, 10),
            Self::ConfirmSelectOk(_) => (85, 11),
            Self::TxSelect(_) => (90, 10),
            Self::TxSelectOk(_) => (90, 11),
            Self::TxCommit(_) => (90, 20),
            Self::TxCommitOk(_) => (90, 21),
            Self::TxRollback(_) => (90, 30),
            Self::TxRollbackOk(_) => (90, 31),
        }
    }

    /// The name, as `class.method`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::ConnectionStart(_) => "connection.start",
            Self::ConnectionStartOk(_) => "connection.start-ok",
            Self::ConnectionSecure(_) => "connection.secure",
            Self::ConnectionSecureOk(_) => "connection.secure-ok",
            Self::ConnectionTune(_) => "connection.tune",
            Self::ConnectionTuneOk(_) => "connection.tune-ok",
            Self::ConnectionOpen(_) => "connection.open",
            Self::ConnectionOpenOk(_) => "connection.open-ok",
            Self::ConnectionClose(_) => "connection.close",
            Self::ConnectionCloseOk(_) => "connection.close-ok",
            Self::ConnectionBlocked(_) => "connection.blocked",
            Self::ConnectionUnblocked(_) => "connection.unblocked",
            Self::ConnectionUpdateSecret(_) => "connection.update-secret",
            Self::ConnectionUpdateSecretOk(_) => "connection.update-secret-ok",
            Self::ChannelOpen(_) => "channel.open",
            Self::ChannelOpenOk(_) => "channel.open-ok",
            Self::ChannelFlow(_) => "channel.flow",
            Self::ChannelFlowOk(_) => "channel.flow-ok",
            Self::ChannelClose(_) => "channel.close",
            Self::ChannelCloseOk(_) => "channel.close-ok",
            Self::AccessRequest(_) => "access.request",
            Self::AccessRequestOk(_) => "access.request-ok",
            Self::ExchangeDeclare(_) => "exchange.declare",
            Self::ExchangeDeclareOk(_) => "exchange.declare-ok",
            Self::ExchangeDelete(_) => "exchange.delete",
            Self::ExchangeDeleteOk(_) => "exchange.delete-ok",
            Self::ExchangeBind(_) => "exchange.bind",
            Self::ExchangeBindOk(_) => "exchange.bind-ok",
            Self::ExchangeUnbind(_) => "exchange.unbind",
            Self::ExchangeUnbindOk(_) => "exchange.unbind-ok",
            Self::QueueDeclare(_) => "queue.declare",
            Self::QueueDeclareOk(_) => "queue.declare-ok",
            Self::QueueBind(_) => "queue.bind",
            Self::QueueBindOk(_) => "queue.bind-ok",
            Self::QueuePurge(_) => "queue.purge",
            Self::QueuePurgeOk(_) => "queue.purge-ok",
            Self::QueueDelete(_) => "queue.delete",
            Self::QueueDeleteOk(_) => "queue.delete-ok",
            Self::QueueUnbind(_) => "queue.unbind",
            Self::QueueUnbindOk(_) => "queue.unbind-ok",
            Self::BasicQos(_) => "basic.qos",
            Self::BasicQosOk(_) => "basic.qos-ok",
            Self::BasicConsume(_) => "basic.consume",
            Self::BasicConsumeOk(_) => "basic.consume-ok",
            Self::BasicCancel(_) => "basic.cancel",
            Self::BasicCancelOk(_) => "basic.cancel-ok",
            Self::BasicPublish(_) => "basic.publish",
            Self::BasicReturn(_) => "basic.return",
            Self::BasicDeliver(_) => "basic.deliver",
            Self::BasicGet(_) => "basic.get",
            Self::BasicGetOk(_) => "basic.get-ok",
            Self::BasicGetEmpty(_) => "basic.get-empty",
            Self::BasicAck(_) => "basic.ack",
            Self::BasicReject(_) => "basic.reject",
            Self::BasicRecoverAsync(_) => "basic.recover-async",
            Self::BasicRecover(_) => "basic.recover",
            Self::BasicRecoverOk(_) => "basic.recover-ok",
            Self::BasicNack(_) => "basic.nack",
            Self::ConfirmSelect(_) => "confirm.select",
            Self::ConfirmSelectOk(_) => "confirm.select-ok",
            Self::TxSelect(_) => "tx.select",
            Self::TxSelectOk(_) => "tx.select-ok",
            Self::TxCommit(_) => "tx.commit",
            Self::TxCommitOk(_) => "tx.commit-ok",
            Self::TxRollback(_) => "tx.rollback",
            Self::TxRollbackOk(_) => "tx.rollback-ok",
        }
    }

    /// Who may send it.
    #[must_use]
    pub const fn sender(&self) -> Sender {
        match self {
            Self::ConnectionStartOk(_)
            | Self::ConnectionSecureOk(_)
            | Self::ConnectionTuneOk(_)
            | Self::ConnectionOpen(_)
            | Self::ConnectionUpdateSecret(_)
            | Self::ChannelOpen(_)
            | Self::AccessRequest(_)
            | Self::ExchangeDeclare(_)
            | Self::ExchangeDelete(_)
            | Self::ExchangeBind(_)
            | Self::ExchangeUnbind(_)
            | Self::QueueDeclare(_)
            | Self::QueueBind(_)
            | Self::QueuePurge(_)
            | Self::QueueDelete(_)
            | Self::QueueUnbind(_)
            | Self::BasicQos(_)
            | Self::BasicConsume(_)
            | Self::BasicPublish(_)
            | Self::BasicGet(_)
            | Self::BasicReject(_)
            | Self::BasicRecoverAsync(_)
            | Self::BasicRecover(_)
            | Self::ConfirmSelect(_)
            | Self::TxSelect(_)
            | Self::TxCommit(_)
            | Self::TxRollback(_) => Sender::Client,
            Self::ConnectionStart(_)
            | Self::ConnectionSecure(_)
            | Self::ConnectionTune(_)
            | Self::ConnectionOpenOk(_)
            | Self::ConnectionBlocked(_)
            | Self::ConnectionUnblocked(_)
            | Self::ConnectionUpdateSecretOk(_)
            | Self::ChannelOpenOk(_)
            | Self::AccessRequestOk(_)
            | Self::ExchangeDeclareOk(_)
            | Self::ExchangeDeleteOk(_)
            | Self::ExchangeBindOk(_)
            | Self::ExchangeUnbindOk(_)
            | Self::QueueDeclareOk(_)
            | Self::QueueBindOk(_)
            | Self::QueuePurgeOk(_)
            | Self::QueueDeleteOk(_)
            | Self::QueueUnbindOk(_)
            | Self::BasicQosOk(_)
            | Self::BasicConsumeOk(_)
            | Self::BasicReturn(_)
            | Self::BasicDeliver(_)
            | Self::BasicGetOk(_)
            | Self::BasicGetEmpty(_)
            | Self::BasicRecoverOk(_)
            | Self::ConfirmSelectOk(_)
            | Self::TxSelectOk(_)
            | Self::TxCommitOk(_)
            | Self::TxRollbackOk(_) => Sender::Server,
            Self::ConnectionClose(_)
            | Self::ConnectionCloseOk(_)
            | Self::ChannelFlow(_)
            | Self::ChannelFlowOk(_)
            | Self::ChannelClose(_)
            | Self::ChannelCloseOk(_)
            | Self::BasicCancel(_)
            | Self::BasicCancelOk(_)
            | Self::BasicAck(_)
            | Self::BasicNack(_) => Sender::Both,
        }
    }

    /// Whether a content header and a body follow it.
    #[must_use]
    pub const fn has_content(&self) -> bool {
        matches!(
            self,
            Self::BasicPublish(_)
                | Self::BasicReturn(_)
                | Self::BasicDeliver(_)
                | Self::BasicGetOk(_)
        )
    }
}
