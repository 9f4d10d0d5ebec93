//! Errors that a client sees: AMQP 0-9-1 reply codes and what they end.

use std::borrow::Cow;
use std::fmt;

/// An AMQP 0-9-1 reply code (section 1.2 of the specification, with RabbitMQ's use of them).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
#[allow(missing_docs)] // The variants are the specification's own constants.
pub enum ReplyCode {
    Success = 200,
    ContentTooLarge = 311,
    NoRoute = 312,
    NoConsumers = 313,
    ConnectionForced = 320,
    InvalidPath = 402,
    AccessRefused = 403,
    NotFound = 404,
    ResourceLocked = 405,
    PreconditionFailed = 406,
    FrameError = 501,
    SyntaxError = 502,
    CommandInvalid = 503,
    ChannelError = 504,
    UnexpectedFrame = 505,
    ResourceError = 506,
    NotAllowed = 530,
    NotImplemented = 540,
    InternalError = 541,
}

impl ReplyCode {
    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// The name that RabbitMQ puts before a reply text, such as `NOT_FOUND` in `NOT_FOUND - no
    /// queue 'q' in vhost '/'`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "OK",
            Self::ContentTooLarge => "CONTENT_TOO_LARGE",
            Self::NoRoute => "NO_ROUTE",
            Self::NoConsumers => "NO_CONSUMERS",
            Self::ConnectionForced => "CONNECTION_FORCED",
            Self::InvalidPath => "INVALID_PATH",
            Self::AccessRefused => "ACCESS_REFUSED",
            Self::NotFound => "NOT_FOUND",
            Self::ResourceLocked => "RESOURCE_LOCKED",
            Self::PreconditionFailed => "PRECONDITION_FAILED",
            Self::FrameError => "FRAME_ERROR",
            Self::SyntaxError => "SYNTAX_ERROR",
            Self::CommandInvalid => "COMMAND_INVALID",
            Self::ChannelError => "CHANNEL_ERROR",
            Self::UnexpectedFrame => "UNEXPECTED_FRAME",
            Self::ResourceError => "RESOURCE_ERROR",
            Self::NotAllowed => "NOT_ALLOWED",
            Self::NotImplemented => "NOT_IMPLEMENTED",
            Self::InternalError => "INTERNAL_ERROR",
        }
    }
}

/// What a protocol error ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The channel on which it happened; the connection and its other channels go on.
    Channel,
    /// The whole connection.
    Connection,
}

/// An error that is answered with `channel.close` or `connection.close`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolError {
    /// What kind of error.
    pub code: ReplyCode,
    /// What it ends.
    pub scope: Scope,
    /// What happened, to what; without the code's name, which [`Self::reply_text`] puts before it.
    pub text: Cow<'static, str>,
    /// Class id of the method at fault, 0 where there is none.
    pub class: u16,
    /// Method id of the method at fault, 0 where there is none.
    pub method: u16,
}

impl ProtocolError {
    /// An error that closes the channel.
    #[must_use]
    pub fn channel(code: ReplyCode, text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            scope: Scope::Channel,
            text: text.into(),
            class: 0,
            method: 0,
        }
    }

    /// An error that closes the connection.
    #[must_use]
    pub fn connection(code: ReplyCode, text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            scope: Scope::Connection,
            text: text.into(),
            class: 0,
            method: 0,
        }
    }

    /// The same error, blamed on the method with these ids.
    #[must_use]
    pub fn at(mut self, class: u16, method: u16) -> Self {
        (self.class, self.method) = (class, method);
        self
    }

    /// The reply text on the wire, in RabbitMQ's shape `NAME - text`, cut at a character boundary
    /// to fit a short string.
    #[must_use]
    pub fn reply_text(&self) -> String {
        let mut text = format!("{} - {}", self.code.name(), self.text);
        if text.len() > crate::limits::SHORT_STRING_BYTES_MAX {
            let mut end = crate::limits::SHORT_STRING_BYTES_MAX - 3;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.push_str("...");
        }
        text
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({}): {}",
            self.code.name(),
            self.code.code(),
            self.text
        )
    }
}

impl std::error::Error for ProtocolError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reply_text_fits_a_short_string_and_stays_utf8() {
        for length in 200..300 {
            let error = ProtocolError::channel(ReplyCode::NotFound, "ü".repeat(length));
            assert!(error.reply_text().len() <= 255);
        }
        let short = ProtocolError::channel(ReplyCode::NotFound, "no queue 'q' in vhost '/'");
        assert_eq!(short.reply_text(), "NOT_FOUND - no queue 'q' in vhost '/'");
    }
}
