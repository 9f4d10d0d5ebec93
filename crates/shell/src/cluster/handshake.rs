//! How two nodes get to know each other before anything else is said between them.
//!
//! ```text
//! acceptor → dialer    "LEVERET", version 2, 32 random bytes
//! dialer → acceptor    who it is (100 bytes, drawn at [`Hello`]), MAC (32)
//! acceptor → dialer    refusal or 0 (1), its UUID (16), its start (8), MAC (32)
//! ```
//!
//! The MACs are HMAC-SHA-256 with the cluster's secret, over a name of the step, the other side's
//! random bytes and what is said: who cannot make them is dropped before anything of it is looked
//! at. Nothing is read beyond these sizes.

use leveret_types::NodeId;
use ring::hmac;
use std::io::{self, Read, Write};

const GREETING: &[u8; 8] = b"LEVERET\x02";
const NONCE_BYTES: usize = 32;
const HELLO_BYTES: usize = 100;
const MAC_BYTES: usize = 32;
const ANSWER_BYTES: usize = 25;

/// What proves that a node belongs to the cluster.
#[derive(Clone)]
pub struct Secret(hmac::Key);

impl Secret {
    /// A secret that all nodes share. An empty one proves nothing: it is for nodes that only
    /// loopback reaches.
    #[must_use]
    pub fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    fn sign(&self, step: &str, parts: &[&[u8]]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(step.as_bytes());
        parts.iter().for_each(|part| context.update(part));
        context.sign()
    }

    fn verify(&self, step: &str, parts: &[&[u8]], tag: &[u8]) -> bool {
        let mut message = step.as_bytes().to_vec();
        parts
            .iter()
            .for_each(|part| message.extend_from_slice(part));
        hmac::verify(&self.0, &message, tag).is_ok()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Frames from the dialer to the acceptor, for as long as both live.
    Link,
    /// One request and its answer.
    Control,
}

/// Who dials.
///
/// ```text
/// 0    1   purpose: 1 link, 2 control
/// 1    3   0
/// 4    4   the dialer's number, big endian; 0 if it has none yet
/// 8    4   number of the node that it wants; 0 for whoever is there
/// 12   16  the cluster; zeros if it is in none yet
/// 28   16  the dialer's UUID
/// 44   16  UUID of the node that it wants; zeros for whoever is there
/// 60   8   the dialer's start: another number for each run of its process
/// 68   32  random bytes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// What the connection is for.
    pub purpose: Purpose,
    /// The dialer's number; 0 if it has none yet.
    pub node: NodeId,
    /// Number of the node that it wants; 0 for whoever is there.
    pub wanted: NodeId,
    /// The cluster; zeros if it is in none yet.
    pub cluster: [u8; 16],
    /// The dialer's UUID.
    pub uuid: [u8; 16],
    /// UUID of the node that it wants; zeros for whoever is there.
    pub wanted_uuid: [u8; 16],
    /// The dialer's start.
    pub start: u64,
}

impl Hello {
    fn encode(&self, nonce: &[u8; NONCE_BYTES]) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[0] = match self.purpose {
            Purpose::Link => 1,
            Purpose::Control => 2,
        };
        bytes[4..8].copy_from_slice(&self.node.0.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.wanted.0.to_be_bytes());
        bytes[12..28].copy_from_slice(&self.cluster);
        bytes[28..44].copy_from_slice(&self.uuid);
        bytes[44..60].copy_from_slice(&self.wanted_uuid);
        bytes[60..68].copy_from_slice(&self.start.to_be_bytes());
        bytes[68..].copy_from_slice(nonce);
        bytes
    }

    fn decode(bytes: &[u8; HELLO_BYTES]) -> Option<Self> {
        let purpose = match bytes[0] {
            1 => Purpose::Link,
            2 => Purpose::Control,
            _ => return None,
        };
        let number = |at: usize| u32::from_be_bytes(array(&bytes[at..at + 4]));
        Some(Self {
            purpose,
            node: NodeId(number(4)),
            wanted: NodeId(number(8)),
            cluster: array(&bytes[12..28]),
            uuid: array(&bytes[28..44]),
            wanted_uuid: array(&bytes[44..60]),
            start: u64::from_be_bytes(array(&bytes[60..68])),
        })
    }
}

fn array<const N: usize>(slice: &[u8]) -> [u8; N] {
    slice.try_into().expect("slices of this length are taken")
}

/// Who has accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Its UUID.
    pub uuid: [u8; 16],
    /// Its start.
    pub start: u64,
}

/// Why a node that knows the secret is not taken all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
pub enum Refusal {
    /// It belongs to another cluster.
    #[error("it belongs to another cluster")]
    OtherCluster = 1,
    /// The cluster does not have it, or not any more.
    #[error(
        "the cluster does not have this node (any more): wipe its data folder to let it join anew"
    )]
    Unknown = 2,
    /// Somebody else is at this address.
    #[error("another node is at this address")]
    NotMe = 3,
    /// It is not part of a cluster itself yet.
    #[error("it is not part of a cluster yet")]
    Forming = 4,
    /// It asks for something that this version does not know.
    #[error("it does not know what is asked for; is it of another version?")]
    Senseless = 5,
}

impl Refusal {
    const ALL: [Self; 5] = [
        Self::OtherCluster,
        Self::Unknown,
        Self::NotMe,
        Self::Forming,
        Self::Senseless,
    ];
}

/// Why two nodes do not come together.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The connection fails.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Whoever is there is no node of this version.
    #[error("there is no Leveret node of this version")]
    NotANode,
    /// The other side does not know the secret.
    #[error("the cluster's secret (cluster.secret) is not the same on both nodes")]
    Secret,
    /// The other side does not want this node.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Dials: says who this node is, and finds out who answers.
///
/// # Errors
/// See [`HandshakeError`].
pub fn dial(
    stream: &mut (impl Read + Write),
    secret: &Secret,
    hello: &Hello,
    nonce: [u8; NONCE_BYTES],
) -> Result<Accepted, HandshakeError> {
    let mut greeting = [0; GREETING.len() + NONCE_BYTES];
    stream.read_exact(&mut greeting)?;
    let (name, theirs) = greeting.split_at(GREETING.len());
    if name != GREETING {
        return Err(HandshakeError::NotANode);
    }
    let bytes = hello.encode(&nonce);
    let tag = secret.sign("leveret dial 1", &[theirs, &bytes]);
    stream.write_all(&[&bytes[..], tag.as_ref()].concat())?;
    let mut answer = [0; ANSWER_BYTES + MAC_BYTES];
    stream
        .read_exact(&mut answer)
        .map_err(|error| match error.kind() {
            // Who does not know the secret is dropped without a word.
            io::ErrorKind::UnexpectedEof => HandshakeError::Secret,
            _ => HandshakeError::Io(error),
        })?;
    let (said, tag) = answer.split_at(ANSWER_BYTES);
    if !secret.verify("leveret answer 1", &[&nonce, theirs, said], tag) {
        return Err(HandshakeError::Secret);
    }
    if said[0] != 0 {
        let refusal = Refusal::ALL.into_iter().find(|r| *r as u8 == said[0]);
        return Err(refusal.unwrap_or(Refusal::Senseless).into());
    }
    Ok(Accepted {
        uuid: array(&said[1..17]),
        start: u64::from_be_bytes(array(&said[17..25])),
    })
}

/// Accepts: greets, checks who is there, and answers what `decide` says.
///
/// # Errors
/// See [`HandshakeError`].
pub fn accept(
    stream: &mut (impl Read + Write),
    secret: &Secret,
    own: Accepted,
    nonce: [u8; NONCE_BYTES],
    decide: impl FnOnce(&Hello) -> Result<(), Refusal>,
) -> Result<Hello, HandshakeError> {
    stream.write_all(&[&GREETING[..], &nonce].concat())?;
    let mut said = [0; HELLO_BYTES + MAC_BYTES];
    stream.read_exact(&mut said)?;
    let (bytes, tag) = said.split_at(HELLO_BYTES);
    if !secret.verify("leveret dial 1", &[&nonce, bytes], tag) {
        return Err(HandshakeError::Secret);
    }
    let bytes: [u8; HELLO_BYTES] = array(bytes);
    let hello = Hello::decode(&bytes).ok_or(Refusal::Senseless);
    let decision = hello.and_then(|hello| decide(&hello).map(|()| hello));
    let mut answer = [0; ANSWER_BYTES];
    answer[0] = decision.as_ref().err().map_or(0, |refusal| *refusal as u8);
    answer[1..17].copy_from_slice(&own.uuid);
    answer[17..25].copy_from_slice(&own.start.to_be_bytes());
    let tag = secret.sign("leveret answer 1", &[&bytes[68..], &nonce, &answer]);
    stream.write_all(&[&answer[..], tag.as_ref()].concat())?;
    Ok(decision?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    const OWN: Accepted = Accepted {
        uuid: [7; 16],
        start: 9,
    };

    fn hello() -> Hello {
        Hello {
            purpose: Purpose::Link,
            node: NodeId(1),
            wanted: NodeId(2),
            cluster: [3; 16],
            uuid: [4; 16],
            wanted_uuid: [5; 16],
            start: 6,
        }
    }

    type Met = (
        Result<Accepted, HandshakeError>,
        Result<Hello, HandshakeError>,
    );

    fn meet(dialer: &[u8], acceptor: &[u8], decision: Result<(), Refusal>) -> Met {
        let (mut near, mut far) = UnixStream::pair().expect("a pair");
        let secret = Secret::new(acceptor);
        let thread =
            std::thread::spawn(move || accept(&mut far, &secret, OWN, [2; 32], |_| decision));
        let dialed = dial(&mut near, &Secret::new(dialer), &hello(), [1; 32]);
        (dialed, thread.join().expect("no panic"))
    }

    #[test]
    fn who_shares_the_secret_gets_to_know_the_other() {
        let (dialed, accepted) = meet(b"secret", b"secret", Ok(()));
        assert_eq!(dialed.expect("accepted"), OWN);
        assert_eq!(accepted.expect("accepted"), hello());
    }

    #[test]
    fn who_does_not_share_it_is_dropped_on_either_side() {
        let (dialed, accepted) = meet(b"secret", b"another", Ok(()));
        assert!(
            matches!(accepted, Err(HandshakeError::Secret)),
            "{accepted:?}"
        );
        assert!(matches!(dialed, Err(HandshakeError::Secret)), "{dialed:?}");
    }

    #[test]
    fn a_refusal_reaches_the_dialer_by_name() {
        for refusal in Refusal::ALL {
            let (dialed, accepted) = meet(b"s", b"s", Err(refusal));
            assert!(matches!(dialed, Err(HandshakeError::Refused(r)) if r == refusal));
            assert!(matches!(accepted, Err(HandshakeError::Refused(r)) if r == refusal));
        }
    }

    /// What an earlier meeting said proves nothing in a later one: the random bytes differ.
    #[test]
    fn a_replayed_hello_is_refused() {
        let secret = Secret::new(b"secret");
        let bytes = hello().encode(&[1; 32]);
        let tag = secret.sign("leveret dial 1", &[&[2; 32], &bytes]);
        let (mut near, mut far) = UnixStream::pair().expect("a pair");
        near.write_all(&[&bytes[..], tag.as_ref()].concat())
            .expect("it fits");
        let accepted = accept(&mut far, &secret, OWN, [3; 32], |_| Ok(()));
        assert!(
            matches!(accepted, Err(HandshakeError::Secret)),
            "{accepted:?}"
        );
    }

    #[test]
    fn another_protocol_is_recognised() {
        let (mut near, mut far) = UnixStream::pair().expect("a pair");
        far.write_all(&[b'A'; 40]).expect("it fits");
        let dialed = dial(&mut near, &Secret::new(b""), &hello(), [1; 32]);
        assert!(
            matches!(dialed, Err(HandshakeError::NotANode)),
            "{dialed:?}"
        );
    }
}
