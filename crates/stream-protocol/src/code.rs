//! How a command went.

/// A response code. Codes that this version does not know are read as they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct ResponseCode(pub u16);

#[allow(missing_docs)] // The names are those of the protocol's document.
impl ResponseCode {
    pub const OK: Self = Self(0x01);
    pub const STREAM_DOES_NOT_EXIST: Self = Self(0x02);
    pub const SUBSCRIPTION_ID_ALREADY_EXISTS: Self = Self(0x03);
    pub const SUBSCRIPTION_ID_DOES_NOT_EXIST: Self = Self(0x04);
    pub const STREAM_ALREADY_EXISTS: Self = Self(0x05);
    pub const STREAM_NOT_AVAILABLE: Self = Self(0x06);
    pub const SASL_MECHANISM_NOT_SUPPORTED: Self = Self(0x07);
    pub const AUTHENTICATION_FAILURE: Self = Self(0x08);
    pub const SASL_ERROR: Self = Self(0x09);
    pub const SASL_CHALLENGE: Self = Self(0x0a);
    pub const AUTHENTICATION_FAILURE_LOOPBACK: Self = Self(0x0b);
    pub const VIRTUAL_HOST_ACCESS_FAILURE: Self = Self(0x0c);
    pub const UNKNOWN_FRAME: Self = Self(0x0d);
    pub const FRAME_TOO_LARGE: Self = Self(0x0e);
    pub const INTERNAL_ERROR: Self = Self(0x0f);
    pub const ACCESS_REFUSED: Self = Self(0x10);
    pub const PRECONDITION_FAILED: Self = Self(0x11);
    pub const PUBLISHER_DOES_NOT_EXIST: Self = Self(0x12);
    pub const NO_OFFSET: Self = Self(0x13);
    pub const SASL_CANNOT_CHANGE_MECHANISM: Self = Self(0x14);
    pub const SASL_CANNOT_CHANGE_USERNAME: Self = Self(0x15);
}

impl ResponseCode {
    /// The name in the protocol's document.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            0x01 => "OK",
            0x02 => "STREAM_DOES_NOT_EXIST",
            0x03 => "SUBSCRIPTION_ID_ALREADY_EXISTS",
            0x04 => "SUBSCRIPTION_ID_DOES_NOT_EXIST",
            0x05 => "STREAM_ALREADY_EXISTS",
            0x06 => "STREAM_NOT_AVAILABLE",
            0x07 => "SASL_MECHANISM_NOT_SUPPORTED",
            0x08 => "AUTHENTICATION_FAILURE",
            0x09 => "SASL_ERROR",
            0x0a => "SASL_CHALLENGE",
            0x0b => "AUTHENTICATION_FAILURE_LOOPBACK",
            0x0c => "VIRTUAL_HOST_ACCESS_FAILURE",
            0x0d => "UNKNOWN_FRAME",
            0x0e => "FRAME_TOO_LARGE",
            0x0f => "INTERNAL_ERROR",
            0x10 => "ACCESS_REFUSED",
            0x11 => "PRECONDITION_FAILED",
            0x12 => "PUBLISHER_DOES_NOT_EXIST",
            0x13 => "NO_OFFSET",
            0x14 => "SASL_CANNOT_CHANGE_MECHANISM",
            0x15 => "SASL_CANNOT_CHANGE_USERNAME",
            _ => "UNKNOWN",
        }
    }
}
