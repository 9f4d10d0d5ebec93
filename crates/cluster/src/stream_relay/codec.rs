//! Values of frames about streams to bytes and back.

use super::frame::{FrameError, parts_of};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use leveret_stream::{Reference, Refusal, RequestId};
use leveret_types::limits::STREAM_REFERENCE_BYTES_MAX;

/// Bytes of a text in a frame; what is longer is cut.
const TEXT_BYTES_MAX: usize = u16::MAX as usize;

/// Puts values.
#[derive(Default)]
pub(super) struct Writer(BytesMut);

impl Writer {
    pub(super) fn u8(&mut self, value: u8) {
        self.0.put_u8(value);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.0.put_u16_le(value);
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.put_u32_le(value);
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.put_u64_le(value);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(TEXT_BYTES_MAX)];
        self.u16(u16::try_from(bytes.len()).unwrap_or(u16::MAX));
        self.0.extend_from_slice(bytes);
    }

    /// Bytes as they are.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn text(&mut self, text: &str) {
        let end = text.floor_char_boundary(TEXT_BYTES_MAX);
        self.bytes(&text.as_bytes()[..end]);
    }

    pub(super) fn reference(&mut self, reference: &Reference) {
        self.bytes(reference.as_bytes());
    }

    pub(super) fn option<T>(&mut self, value: Option<&T>, put: impl FnOnce(&mut Self, &T)) {
        self.u8(u8::from(value.is_some()));
        if let Some(value) = value {
            put(self, value);
        }
    }

    pub(super) fn maybe_u64(&mut self, value: &Option<u64>) {
        self.option(value.as_ref(), |out, value| out.u64(*value));
    }

    /// The rest of its frame.
    pub(super) fn ids(&mut self, ids: &[u64]) {
        self.0.reserve(size_of_val(ids));
        for id in ids {
            self.u64(*id);
        }
    }

    pub(super) fn refusal(&mut self, refusal: &Refusal) {
        let (kind, text) = parts_of(refusal);
        self.u8(kind);
        if matches!(kind, 2 | 3 | 5) {
            self.text(text);
        }
    }

    pub(super) fn answer<T>(
        &mut self,
        kind: u8,
        request: RequestId,
        result: &Result<T, Refusal>,
        put: impl FnOnce(&mut Self, &T),
    ) {
        self.u8(kind);
        self.u64(request.0);
        self.u8(u8::from(result.is_ok()));
        match result {
            Ok(value) => put(self, value),
            Err(refusal) => self.refusal(refusal),
        }
    }

    pub(super) fn finish(self) -> Bytes {
        self.0.freeze()
    }
}

/// Takes values; what it gives shares the frame's bytes.
pub(super) struct Reader(pub(super) Bytes);

impl Reader {
    fn need(&self, bytes: usize) -> Result<(), FrameError> {
        match self.0.len() >= bytes {
            true => Ok(()),
            false => Err(FrameError("it ends too early")),
        }
    }

    pub(super) fn u8(&mut self) -> Result<u8, FrameError> {
        self.need(1)?;
        Ok(self.0.get_u8())
    }

    pub(super) fn u16(&mut self) -> Result<u16, FrameError> {
        self.need(2)?;
        Ok(self.0.get_u16_le())
    }

    pub(super) fn u32(&mut self) -> Result<u32, FrameError> {
        self.need(4)?;
        Ok(self.0.get_u32_le())
    }

    pub(super) fn u64(&mut self) -> Result<u64, FrameError> {
        self.need(8)?;
        Ok(self.0.get_u64_le())
    }

    pub(super) fn flag(&mut self) -> Result<bool, FrameError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(FrameError("a flag is neither 0 nor 1")),
        }
    }

    pub(super) fn bytes(&mut self) -> Result<Bytes, FrameError> {
        let len = usize::from(self.u16()?);
        self.need(len)?;
        Ok(self.0.split_to(len))
    }

    pub(super) fn text(&mut self) -> Result<String, FrameError> {
        let bytes = self.bytes()?;
        let text = std::str::from_utf8(&bytes);
        text.map(str::to_owned)
            .map_err(|_| FrameError("a text is not UTF-8"))
    }

    pub(super) fn reference(&mut self) -> Result<Reference, FrameError> {
        const { assert!(STREAM_REFERENCE_BYTES_MAX <= TEXT_BYTES_MAX) };
        let name = self.bytes()?;
        Reference::new(name).ok_or(FrameError("a reference is empty or too long"))
    }

    pub(super) fn option<T>(
        &mut self,
        take: impl FnOnce(&mut Self) -> Result<T, FrameError>,
    ) -> Result<Option<T>, FrameError> {
        Ok(match self.flag()? {
            true => Some(take(self)?),
            false => None,
        })
    }

    pub(super) fn maybe_u64(&mut self) -> Result<Option<u64>, FrameError> {
        self.option(Self::u64)
    }

    pub(super) fn ids(&mut self) -> Result<Vec<u64>, FrameError> {
        let rest = self.rest();
        let (ids, odd) = rest.as_chunks();
        match odd {
            [] => Ok(ids.iter().map(|id| u64::from_le_bytes(*id)).collect()),
            _ => Err(FrameError("the last number is not whole")),
        }
    }

    pub(super) fn refusal(&mut self) -> Result<Refusal, FrameError> {
        Ok(match self.u8()? {
            0 => Refusal::NotFound,
            1 => Refusal::Exists,
            2 => Refusal::Precondition(self.text()?),
            3 => Refusal::NotAvailable(self.text()?),
            4 => Refusal::Id,
            5 => Refusal::Damaged(self.text()?),
            _ => return Err(FrameError("a refusal is unknown")),
        })
    }

    pub(super) fn result<T>(
        &mut self,
        take: impl FnOnce(&mut Self) -> Result<T, FrameError>,
    ) -> Result<Result<T, Refusal>, FrameError> {
        Ok(match self.flag()? {
            true => Ok(take(self)?),
            false => Err(self.refusal()?),
        })
    }

    pub(super) fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.0)
    }

    /// # Errors
    /// If there is more.
    pub(super) fn end(&self) -> Result<(), FrameError> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(FrameError("there are bytes behind its end")),
        }
    }
}
