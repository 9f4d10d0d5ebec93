//! Message and correlation ids: text in AMQP 0-9-1, text, a number, octets or a UUID in AMQP 1.0.
//! RabbitMQ writes a UUID as `urn:uuid:`, and takes one that is written so for one.

use crate::codec::{code, put_text, put_variable};

const PREFIX: &[u8] = b"urn:uuid:";
/// Places of the hyphens behind the prefix.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];
const TEXT_BYTES: usize = 36;

/// Appends an id that is text in AMQP 0-9-1.
pub fn put(out: &mut Vec<u8>, id: &[u8]) {
    match uuid(id) {
        Some(uuid) => {
            out.push(code::UUID);
            out.extend_from_slice(&uuid);
        }
        None => put_text(out, id),
    }
}

/// Appends octets of a user's name.
pub fn put_user(out: &mut Vec<u8>, user: &[u8]) {
    put_variable(out, code::BINARY_8, user);
}

fn uuid(id: &[u8]) -> Option<[u8; 16]> {
    let text = id.strip_prefix(PREFIX)?;
    if text.len() != TEXT_BYTES || HYPHENS.iter().any(|at| text[*at] != b'-') {
        return None;
    }
    let mut uuid = [0; 16];
    let mut digits = text.iter().enumerate();
    for octet in &mut uuid {
        for _ in 0..2 {
            let (_, digit) = digits.find(|(at, _)| !HYPHENS.contains(at))?;
            // Only what is written back to the same text is taken for a UUID.
            let value = match digit {
                b'0'..=b'9' => digit - b'0',
                b'a'..=b'f' => digit - b'a' + 10,
                _ => return None,
            };
            *octet = *octet << 4 | value;
        }
    }
    Some(uuid)
}

/// A UUID as text.
pub fn uuid_text(uuid: [u8; 16]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = PREFIX.to_vec();
    for octet in uuid {
        if HYPHENS.contains(&(text.len() - PREFIX.len())) {
            text.push(b'-');
        }
        text.push(DIGITS[usize::from(octet >> 4)]);
        text.push(DIGITS[usize::from(octet & 0xF)]);
    }
    text
}
