//! The first eight octets of a connection, and who may be calling if they are not the right ones.

use std::fmt;

/// What a client of AMQP 0-9-1 sends first, and what any other client is answered.
pub const PROTOCOL_HEADER: [u8; 8] = *b"AMQP\x00\x00\x09\x01";

/// What a connection begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preamble {
    /// More must arrive.
    Incomplete,
    /// AMQP 0-9-1, or 0-9, which RabbitMQ takes for the same.
    Amqp091,
    /// Something else: answer with [`PROTOCOL_HEADER`] and close.
    Other(Guess),
}

/// Who may be calling. Its display is for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guess {
    /// Another version of AMQP: protocol id, major, minor, revision.
    Amqp([u8; 4]),
    /// A TLS client on a port without TLS.
    Tls,
    /// An HTTP client.
    Http,
    /// Nobody known.
    Unknown,
}

impl fmt::Display for Guess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Amqp([_, 1, 0, 0]) => f.write_str("an AMQP 1.0 client on a port for AMQP 0-9-1"),
            Self::Amqp([a, b, c, d]) => write!(f, "an AMQP client of version {a} {b} {c} {d}"),
            Self::Tls => f.write_str("a TLS client on a port without TLS"),
            Self::Http => f.write_str("an HTTP client on the AMQP port"),
            Self::Unknown => {
                f.write_str("a client that did not start with the AMQP protocol header")
            }
        }
    }
}

const HTTP_METHODS: [&[u8]; 7] = [
    b"GET ",
    b"POST ",
    b"HEAD ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"PRI * ",
];

/// Looks at the beginning of a connection. Decides as soon as it can: a client that will never send
/// eight octets gets its answer at the first one that is wrong.
#[must_use]
pub fn read_preamble(input: &[u8]) -> Preamble {
    match input {
        [b'A', b'M', b'Q', b'P', 0, 0, 9, 1, ..] | [b'A', b'M', b'Q', b'P', 1, 1, 0, 9, ..] => {
            Preamble::Amqp091
        }
        [b'A', b'M', b'Q', b'P', a, b, c, d, ..] => Preamble::Other(Guess::Amqp([*a, *b, *c, *d])),
        _ if PROTOCOL_HEADER[..4].starts_with(&input[..input.len().min(4)]) => Preamble::Incomplete,
        [0x16] => Preamble::Incomplete,
        [0x16, 3, ..] => Preamble::Other(Guess::Tls),
        _ if HTTP_METHODS.iter().any(|method| input.starts_with(method)) => {
            Preamble::Other(Guess::Http)
        }
        _ if HTTP_METHODS.iter().any(|method| method.starts_with(input)) => Preamble::Incomplete,
        _ => Preamble::Other(Guess::Unknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_recognised() {
        let cases: &[(&[u8], Preamble)] = &[
            (b"", Preamble::Incomplete),
            (b"AMQP\x00\x00\x09", Preamble::Incomplete),
            (b"AMQP\x00\x00\x09\x01", Preamble::Amqp091),
            (b"AMQP\x00\x00\x09\x01more", Preamble::Amqp091),
            (b"AMQP\x01\x01\x00\x09", Preamble::Amqp091),
            (
                b"AMQP\x00\x01\x00\x00",
                Preamble::Other(Guess::Amqp([0, 1, 0, 0])),
            ),
            (
                b"AMQP\x03\x01\x00\x00",
                Preamble::Other(Guess::Amqp([3, 1, 0, 0])),
            ),
            (
                b"AMQP\x00\x00\x09\x02",
                Preamble::Other(Guess::Amqp([0, 0, 9, 2])),
            ),
            (b"AMQR", Preamble::Other(Guess::Unknown)),
            (b"\x16", Preamble::Incomplete),
            (b"\x16\x03\x01\x02\x00\x01", Preamble::Other(Guess::Tls)),
            (b"GE", Preamble::Incomplete),
            (b"GET / HTTP/1.1\r\n", Preamble::Other(Guess::Http)),
            (b"POST /", Preamble::Other(Guess::Http)),
            (b"PO7", Preamble::Other(Guess::Unknown)),
            (b"SSH-2.0", Preamble::Other(Guess::Unknown)),
            (&[0; 8], Preamble::Other(Guess::Unknown)),
        ];
        for (input, expected) in cases {
            assert_eq!(read_preamble(input), *expected, "{input:?}");
        }
    }

    #[test]
    fn eight_octets_always_decide() {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        for round in 0..10_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let mut input = state.to_be_bytes();
            if round % 2 == 0 {
                input[..4].copy_from_slice(b"AMQP");
            }
            assert_ne!(read_preamble(&input), Preamble::Incomplete, "{input:?}");
        }
    }
}
