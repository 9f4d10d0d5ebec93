//! From the socket's bytes to frames.

use crate::port::Port;
use crate::session::{Phase, Session};
use bytes::{Bytes, BytesMut};
use leveret_stream_protocol::{FrameError, ResponseCode, next_frame};

impl Session {
    /// Keeps what has arrived behind what has not been looked at.
    pub(crate) fn take_in(&mut self, bytes: Bytes) {
        if self.phase == Phase::Over || self.ignores_input {
            return;
        }
        if self.input.is_empty() && self.partial.is_empty() {
            self.input = bytes;
            return;
        }
        if !self.input.is_empty() {
            let waiting = std::mem::take(&mut self.input);
            self.partial = BytesMut::from(&waiting[..]);
        }
        self.partial.extend_from_slice(&bytes);
    }

    /// Looks at what has arrived until an answer is owed.
    pub(crate) fn read_on(&mut self, port: &mut impl Port) {
        while self.reading() && self.phase != Phase::Over && self.has_input() {
            match next_frame(&self.input, self.frame_max) {
                Ok(Some(frame)) => {
                    let length = frame.wire_len();
                    let frame = self.input.split_to(length);
                    self.frame(&frame, port);
                }
                Ok(None) => self.keep_beginning(),
                Err(error) => self.lose_framing(error, port),
            }
        }
    }

    /// Whether there is something to look at; a frame that has come in pieces is put together.
    fn has_input(&mut self) -> bool {
        if self.input.is_empty() && !self.partial.is_empty() {
            // A frame that is refused is so at its fourth octet, not when it is there.
            if !matches!(next_frame(&self.partial, self.frame_max), Ok(None)) {
                self.input = self.partial.split().freeze();
            }
        }
        !self.input.is_empty()
    }

    fn keep_beginning(&mut self) {
        let beginning = std::mem::take(&mut self.input);
        self.partial.extend_from_slice(&beginning);
    }

    fn lose_framing(&mut self, error: FrameError, port: &mut impl Port) {
        let code = match error {
            FrameError::TooLarge { .. } => ResponseCode::FRAME_TOO_LARGE,
            _ => ResponseCode::UNKNOWN_FRAME,
        };
        self.close_unreadable(code, port);
    }

    pub(crate) fn forget_input(&mut self) {
        self.input = Bytes::new();
        self.partial = BytesMut::new();
    }
}
