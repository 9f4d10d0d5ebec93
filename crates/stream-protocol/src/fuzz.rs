//! What fuzzing drives: functions that take any bytes and panic if the crate breaks a promise. The
//! unit tests run them over seeded input, a fuzzer over what it finds.

use crate::client::ClientCommand;
use crate::error::FrameError;
use crate::frame::{Frame, bytes_wanted, next_frame};
use crate::server::ServerCommand;
use leveret_types::limits::STREAM_FRAME_BYTES_PREAUTH_MAX;

/// Frames are the same however the bytes are split, and each is read and written as [`command`]
/// says. The first octet says after how many octets the input is cut.
///
/// # Panics
/// If they are not.
pub fn frame_stream(input: &[u8]) {
    let Some((&cut, stream)) = input.split_first() else {
        return;
    };
    let whole = frames_of(stream, stream.len());
    let pieces = frames_of(stream, usize::from(cut) + 1);
    assert_eq!(whole.len(), pieces.len());
    for (one, other) in whole.iter().zip(&pieces) {
        assert_eq!(one, other);
        if let Ok(frame) = one {
            command(*frame);
        }
    }
}

/// The frames of a stream that arrives in pieces of this size.
fn frames_of(stream: &[u8], piece: usize) -> Vec<Result<Frame<'_>, FrameError>> {
    let mut found = Vec::new();
    let (mut start, mut arrived) = (0, 0);
    while arrived < stream.len() {
        arrived = (arrived + piece).min(stream.len());
        loop {
            match next_frame(&stream[start..arrived], STREAM_FRAME_BYTES_PREAUTH_MAX) {
                Ok(None) => {
                    assert!(bytes_wanted(&stream[start..arrived]) > arrived - start);
                    break;
                }
                Ok(Some(frame)) => {
                    start += frame.wire_len();
                    found.push(Ok(frame));
                }
                Err(error) => {
                    found.push(Err(error));
                    return found;
                }
            }
        }
    }
    found
}

/// What can be read as a command, of either side, can be written, and is read as the same again.
///
/// # Panics
/// If not.
pub fn command(frame: Frame<'_>) {
    let mut again = Vec::new();
    if let Ok(command) = ClientCommand::decode(frame) {
        command.encode(&mut again);
        let frame = written(&again);
        assert_eq!(ClientCommand::decode(frame).as_ref(), Ok(&command));
        if let ClientCommand::Publish(publish) = &command {
            assert_eq!(publish.entries().count(), publish.count() as usize);
            let bytes: usize = publish.entries().map(|e| e.bytes.len() + 8).sum();
            assert!(bytes <= publish.bytes().len());
        }
        again.clear();
    }
    if let Ok(command) = ServerCommand::decode(frame) {
        command.encode(&mut again);
        assert_eq!(
            ServerCommand::decode(written(&again)).as_ref(),
            Ok(&command)
        );
    }
}

fn written(bytes: &[u8]) -> Frame<'_> {
    let frame = next_frame(bytes, u32::MAX).expect("what was written is a frame");
    let frame = frame.expect("what was written is whole");
    assert_eq!(frame.wire_len(), bytes.len());
    frame
}

/// Inputs to begin with: one frame of each command, and some of them one after another.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let frames = crate::fuzz_frames::every_frame();
    let mut seeds: Vec<Vec<u8>> = frames
        .iter()
        .map(|frame| [&[3], &frame[..]].concat())
        .collect();
    seeds.push([&[40], &frames.concat()[..]].concat());
    seeds
}
