//! A publisher's messages as `Publish` frames of the stream protocol, several to a frame.

use leveret_stream_protocol::Key;
use leveret_stream_protocol::frame::{HEAD_BYTES, SIZE_BYTES};

use super::template::Bodies;
use crate::stamp::{self, Stamp};
use crate::stream::{put_section, section_bytes};

/// Octets of a frame up to its first message: size, key, version, publisher, count.
const FRAME_HEAD_BYTES: usize = SIZE_BYTES + HEAD_BYTES as usize + 1 + 4;
/// Where in a frame the count is.
const COUNT_AT: usize = FRAME_HEAD_BYTES - 4;
/// Octets before a message's body: publishing id and length.
const ENTRY_HEAD_BYTES: usize = 8 + 4;

/// What a publisher of a stream sends.
#[derive(Clone, Debug)]
pub struct StreamTemplate {
    publisher_id: u8,
    bodies: Bodies,
    /// Messages of a frame at most.
    batch: u32,
    frame_max: usize,
    /// The frame that is being written: where it begins, and its messages so far.
    open: Option<(usize, u32)>,
}

impl StreamTemplate {
    /// The publishes of the connection's publisher of that number.
    #[must_use]
    pub fn new(publisher_id: u8, bodies: Bodies, batch: u32, frame_max: u32) -> Self {
        Self {
            publisher_id,
            bodies,
            batch,
            frame_max: frame_max as usize,
            open: None,
        }
    }

    /// From here on frames are as large as another connection takes them.
    pub fn set_frame_max(&mut self, frame_max: u32) {
        self.frame_max = frame_max as usize;
        self.open = None;
    }

    /// Appends one message under its sequence; gives the octets of its data. The frame is whole
    /// only after [`Self::finish`].
    #[inline]
    pub fn write(&mut self, out: &mut Vec<u8>, stamp: &Stamp) -> usize {
        let data = stamp::BYTES + self.bodies.of(stamp.sequence).len();
        let body = section_bytes(data);
        if let Some((start, count)) = self.open {
            let length = out.len() - start + ENTRY_HEAD_BYTES + body;
            if count >= self.batch || length > self.frame_max {
                self.finish(out);
            }
        }
        if self.open.is_none() {
            self.open = Some((out.len(), 0));
            out.extend_from_slice(&[0; SIZE_BYTES]);
            out.extend_from_slice(&Key::Publish.number().to_be_bytes());
            out.extend_from_slice(&[0, 1, self.publisher_id, 0, 0, 0, 0]);
        }
        let rest = self.bodies.of(stamp.sequence);
        out.extend_from_slice(&u64::from(stamp.sequence).to_be_bytes());
        out.extend_from_slice(&(body as u32).to_be_bytes());
        put_section(out, data);
        out.extend_from_slice(&stamp.encode(rest));
        out.extend_from_slice(rest);
        if let Some((_, count)) = &mut self.open {
            *count += 1;
        }
        data
    }

    /// Ends the frame that is being written, if one is.
    pub fn finish(&mut self, out: &mut [u8]) {
        if let Some((start, count)) = self.open.take() {
            let size = (out.len() - start - SIZE_BYTES) as u32;
            out[start..start + SIZE_BYTES].copy_from_slice(&size.to_be_bytes());
            let count_at = start + COUNT_AT;
            out[count_at..count_at + 4].copy_from_slice(&count.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use leveret_stream_protocol::{ClientCommand, next_frame};

    use super::*;
    use crate::stream::section_data;

    /// Publishing ids of the frames, and their messages' data.
    fn frames(mut bytes: &[u8]) -> Vec<Vec<(u64, Vec<u8>)>> {
        let mut frames = Vec::new();
        while let Some(frame) = next_frame(bytes, u32::MAX).unwrap() {
            let Ok(ClientCommand::Publish(publish)) = ClientCommand::decode(frame) else {
                panic!("{frame:?}");
            };
            assert_eq!(publish.publisher_id(), 7);
            let entries = publish.entries().map(|entry| {
                let data = section_data(&entry.bytes[4..]).unwrap();
                (entry.publishing_id, data.to_vec())
            });
            frames.push(entries.collect());
            bytes = &bytes[frame.wire_len()..];
        }
        assert!(bytes.is_empty());
        frames
    }

    fn stamp(sequence: u32) -> Stamp {
        Stamp {
            sequence,
            ..Stamp::default()
        }
    }

    fn written(size: u64, batch: u32, frame_max: u32, count: u32) -> Vec<Vec<(u64, Vec<u8>)>> {
        let load = toml::from_str(&format!("size = {size}")).unwrap();
        let bodies = Bodies::new(&load, 1).unwrap();
        let mut template = StreamTemplate::new(7, bodies, batch, frame_max);
        let mut out = Vec::new();
        for sequence in 1..=count {
            assert_eq!(template.write(&mut out, &stamp(sequence)), size as usize);
        }
        template.finish(&mut out);
        template.finish(&mut out);
        frames(&out)
    }

    #[test]
    fn messages_share_a_frame_up_to_the_batch() {
        let lengths = |frames: &[Vec<_>]| frames.iter().map(Vec::len).collect::<Vec<_>>();
        let frames = written(128, 3, 1 << 20, 7);
        assert_eq!(lengths(&frames), [3, 3, 1]);
        let mut expected = 1..;
        for (id, data) in frames.iter().flatten() {
            assert_eq!(Some(*id), expected.next());
            let mut reader = stamp::Reader::default();
            reader.take(data);
            let found = reader.finish().map(|stamp| u64::from(stamp.sequence));
            assert_eq!(found, Some(*id));
        }
        assert_eq!(lengths(&written(16, 1, 1 << 20, 2)), [1, 1]);
    }

    #[test]
    fn a_frame_is_no_larger_than_agreed_unless_one_message_is() {
        // Frame head 13, message 12 + 5 + 100: two fit in 250 octets, three do not.
        let frames = written(100, 100, 250, 5);
        assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
        assert_eq!(written(1_000, 100, 250, 2).len(), 2);
    }
}
