//! How two nodes get to know each other before anything else is said between them.
//!
//! ```text
//! acceptor → dialer    "LEVERET", version 4, 32 random bytes
//! dialer → acceptor    who it is (132 bytes, drawn at [`Hello`]), MAC (32)
//! acceptor → dialer    refusal or 0 (1), UUID (16), start (8), X25519 key (32), MAC (32)
//! ```
//!
//! The MACs are HMAC-SHA-256 with a key made of the cluster's secret, over a name of the step and
//! all that was said until then, in both directions: who cannot make them is dropped before
//! anything of it is looked at. Nothing is read beyond these sizes.
//!
//! Where nodes have certificates, all this passes inside of TLS (see [`super::link_tls`]), and the
//! MACs are over what TLS has agreed on too.
//!
//! What follows is sealed (see [`super::seal`]) with keys that are made of the secret, of both
//! sides' X25519 keys, which live for this connection alone, and of all that was said here.
//! Who learns the secret later cannot read what was recorded before.

use super::seal::{Session, Side};
use leveret_types::NodeId;
use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use ring::rand::SystemRandom;
use ring::{digest, hmac};
use std::io::{self, Read, Write};

const NAME: &[u8; 7] = b"LEVERET";
/// What the two say to each other, and how.
const VERSION: u8 = 4;
const NONCE_BYTES: usize = 32;
const GREETING_BYTES: usize = NAME.len() + 1 + NONCE_BYTES;
const PUBLIC_BYTES: usize = 32;
const HELLO_BYTES: usize = 132;
const MAC_BYTES: usize = 32;
const ANSWER_BYTES: usize = 57;

/// What proves that a node belongs to the cluster.
#[derive(Clone)]
pub struct Secret {
    /// Makes and checks the MACs.
    proof: hmac::Key,
    /// What both sides' agreement is extracted with.
    keys: [u8; 32],
}

impl Secret {
    /// A secret that all nodes share.
    #[must_use]
    pub fn new(secret: &[u8]) -> Self {
        let root = Salt::new(HKDF_SHA256, b"leveret 3 cluster").extract(secret);
        let [proof, keys] = [b"proof", b"keys."].map(|label| {
            let mut bytes = [0; 32];
            let info: &[&[u8]] = &[label];
            root.expand(info, HKDF_SHA256)
                .and_then(|expanded| expanded.fill(&mut bytes))
                .expect("HKDF makes 32 bytes");
            bytes
        });
        Self {
            proof: hmac::Key::new(hmac::HMAC_SHA256, &proof),
            keys,
        }
    }

    fn sign(&self, step: &str, said: &[&[u8]]) -> hmac::Tag {
        hmac::sign(&self.proof, &message(step, said))
    }

    fn verify(&self, step: &str, said: &[&[u8]], tag: &[u8]) -> bool {
        hmac::verify(&self.proof, &message(step, said), tag).is_ok()
    }

    /// What the keys of this connection are made of; none if the other side's key is no key.
    fn agree(&self, own: EphemeralPrivateKey, theirs: &[u8]) -> Option<Prk> {
        let theirs = UnparsedPublicKey::new(&X25519, theirs);
        let extract = |agreed: &[u8]| Salt::new(HKDF_SHA256, &self.keys).extract(agreed);
        agree_ephemeral(own, &theirs, extract).ok()
    }
}

/// All parts have a length of their own, so that no two messages are the same bytes.
fn message(step: &str, said: &[&[u8]]) -> Vec<u8> {
    [&[step.as_bytes()], said].concat().concat()
}

fn transcript(said: &[&[u8]]) -> digest::Digest {
    digest::digest(&digest::SHA256, &said.concat())
}

fn ephemeral() -> io::Result<(EphemeralPrivateKey, [u8; PUBLIC_BYTES])> {
    let made = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new());
    let made = made.and_then(|private| Ok((private.compute_public_key()?, private)));
    let (public, private) = made.map_err(|_| io::Error::other("no random bytes"))?;
    Ok((private, array(public.as_ref())))
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.keys == other.keys
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// What protects what two nodes say to each other behind the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Protection {
    /// It is encrypted and authenticated.
    #[default]
    Sealed = 1,
    /// Nothing: whoever is between the nodes can read and change it.
    Plain = 2,
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
/// 1    1   what protects the rest: 1 sealed, 2 plain
/// 2    2   0
/// 4    4   the dialer's number, big endian; 0 if it has none yet
/// 8    4   number of the node that it wants; 0 for whoever is there
/// 12   16  the cluster; zeros if it is in none yet
/// 28   16  the dialer's UUID
/// 44   16  UUID of the node that it wants; zeros for whoever is there
/// 60   8   the dialer's start: another number for each run of its process
/// 68   32  random bytes
/// 100  32  its X25519 key for this connection
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// What the connection is for.
    pub purpose: Purpose,
    /// What protects it.
    pub protection: Protection,
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
    fn encode(&self, nonce: &[u8; NONCE_BYTES], public: &[u8; PUBLIC_BYTES]) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[0] = match self.purpose {
            Purpose::Link => 1,
            Purpose::Control => 2,
        };
        bytes[1] = self.protection as u8;
        bytes[4..8].copy_from_slice(&self.node.0.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.wanted.0.to_be_bytes());
        bytes[12..28].copy_from_slice(&self.cluster);
        bytes[28..44].copy_from_slice(&self.uuid);
        bytes[44..60].copy_from_slice(&self.wanted_uuid);
        bytes[60..68].copy_from_slice(&self.start.to_be_bytes());
        bytes[68..100].copy_from_slice(nonce);
        bytes[100..].copy_from_slice(public);
        bytes
    }

    fn decode(bytes: &[u8; HELLO_BYTES]) -> Option<Self> {
        let purpose = match bytes[0] {
            1 => Purpose::Link,
            2 => Purpose::Control,
            _ => return None,
        };
        let protection = match bytes[1] {
            1 => Protection::Sealed,
            2 => Protection::Plain,
            _ => return None,
        };
        let number = |at: usize| u32::from_be_bytes(array(&bytes[at..at + 4]));
        Some(Self {
            purpose,
            protection,
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
    /// Its number was not given yet, as far as the one that it dials knows: right after it was let
    /// in that may be so for a moment.
    #[error("it has not heard yet that this node is in the cluster, and is asked again")]
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
    /// The two do not agree on what protects what they say.
    #[error(
        "cluster.links is not the same on both nodes: one wants links encrypted, the other plain"
    )]
    Protection = 6,
    /// It answers as many others as it may.
    #[error("it answers too many others")]
    Busy = 7,
    /// The cluster has forgotten it.
    #[error(
        "the cluster has forgotten this node: it is to be stopped, and may join anew with an empty \
         data folder"
    )]
    Forgotten = 8,
    /// The cluster has another node of this number.
    #[error(
        "the cluster has another node of this number: wipe this node's data folder to let it join \
         anew"
    )]
    Replaced = 9,
}

impl Refusal {
    const ALL: [Self; 9] = [
        Self::OtherCluster,
        Self::Unknown,
        Self::NotMe,
        Self::Forming,
        Self::Senseless,
        Self::Protection,
        Self::Busy,
        Self::Forgotten,
        Self::Replaced,
    ];
}

/// Why two nodes do not come together.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The connection fails.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Whoever is there is no node.
    #[error("there is no Leveret node at this address")]
    NotANode,
    /// Whoever is there is a node of another version.
    #[error(
        "the node at this address is of {age} version (it speaks version {theirs} between nodes, \
         this one {VERSION}): nodes of a cluster run versions that speak the same",
        age = age(*theirs)
    )]
    Version {
        /// What it speaks.
        theirs: u8,
    },
    /// Whoever has dialed left without saying who it is.
    #[error(
        "it has left without saying who it is, as nodes do that do not speak version {VERSION} \
         between nodes, which this one does"
    )]
    Left,
    /// Whoever is there has ended the connection without a greeting.
    #[error(
        "the node at this address has ended the connection without a word: certificates \
         (cluster.tls.*) are to be given to all nodes or to none"
    )]
    Silent,
    /// TLS fails.
    #[error(
        "TLS between the nodes fails ({0}): certificates (cluster.tls.*) are to be given to all \
         nodes or to none, signed by an authority that all of them have"
    )]
    Tls(String),
    /// The other side does not know the secret.
    #[error("the cluster's secret (cluster.secret) is not the same on both nodes")]
    Secret,
    /// The other side does not want this node.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

const fn age(version: u8) -> &'static str {
    match version < VERSION {
        true => "an older",
        false => "a newer",
    }
}

/// Dials: says who this node is, and finds out who answers. `channel` is what TLS has agreed on,
/// empty without TLS.
///
/// # Errors
/// See [`HandshakeError`].
pub fn dial(
    stream: &mut (impl Read + Write),
    secret: &Secret,
    hello: &Hello,
    nonce: [u8; NONCE_BYTES],
    channel: &[u8],
) -> Result<(Accepted, Session), HandshakeError> {
    let mut greeting = [0; GREETING_BYTES];
    stream
        .read_exact(&mut greeting)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => HandshakeError::Silent,
            _ => HandshakeError::Io(error),
        })?;
    match greeting.strip_prefix(NAME) {
        Some([VERSION, ..]) => {}
        Some([theirs, ..]) => return Err(HandshakeError::Version { theirs: *theirs }),
        _ => return Err(HandshakeError::NotANode),
    }
    let (private, public) = ephemeral()?;
    let hello = hello.encode(&nonce, &public);
    let tag = secret.sign("leveret 3 dial", &[channel, &greeting, &hello]);
    stream.write_all(&[&hello[..], tag.as_ref()].concat())?;
    let mut answer = [0; ANSWER_BYTES + MAC_BYTES];
    stream
        .read_exact(&mut answer)
        .map_err(|error| match error.kind() {
            // Who does not know the secret is dropped without a word.
            io::ErrorKind::UnexpectedEof => HandshakeError::Secret,
            _ => HandshakeError::Io(error),
        })?;
    let (said, tag) = answer.split_at(ANSWER_BYTES);
    if !secret.verify("leveret 3 answer", &[channel, &greeting, &hello, said], tag) {
        return Err(HandshakeError::Secret);
    }
    if said[0] != 0 {
        let refusal = Refusal::ALL.into_iter().find(|r| *r as u8 == said[0]);
        return Err(refusal.unwrap_or(Refusal::Senseless).into());
    }
    let shared = secret
        .agree(private, &said[25..])
        .ok_or(HandshakeError::NotANode)?;
    let transcript = transcript(&[channel, &greeting, &hello, said]);
    Ok((
        Accepted {
            uuid: array(&said[1..17]),
            start: u64::from_be_bytes(array(&said[17..25])),
        },
        Session::new(&shared, transcript.as_ref(), Side::Dialer),
    ))
}

/// Who has dialed.
#[derive(Debug)]
pub struct Dialer {
    /// What it says of itself.
    pub hello: Hello,
    /// Which of the secrets it has proved.
    pub secret: usize,
    /// The keys of what is said from now on.
    pub session: Session,
}

/// Accepts: greets, checks who is there, and answers what `decide` says. Whoever proves one of the
/// secrets is answered with that one. `channel` is what TLS has agreed on, empty without TLS.
///
/// # Errors
/// See [`HandshakeError`].
pub fn accept(
    stream: &mut (impl Read + Write),
    secrets: &[Secret],
    own: Accepted,
    nonce: [u8; NONCE_BYTES],
    channel: &[u8],
    decide: impl FnOnce(&Hello) -> Result<(), Refusal>,
) -> Result<Dialer, HandshakeError> {
    let greeting = [&NAME[..], &[VERSION], &nonce].concat();
    stream.write_all(&greeting)?;
    let mut said = [0; HELLO_BYTES + MAC_BYTES];
    stream
        .read_exact(&mut said)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => HandshakeError::Left,
            _ => HandshakeError::Io(error),
        })?;
    let (bytes, tag) = said.split_at(HELLO_BYTES);
    let said: &[&[u8]] = &[channel, &greeting, bytes];
    let is_proved = |secret: &Secret| secret.verify("leveret 3 dial", said, tag);
    let proved = secrets.iter().position(is_proved);
    let proved = proved.ok_or(HandshakeError::Secret)?;
    let secret = &secrets[proved];
    // An own key is made for those alone who know the secret: it takes some microseconds.
    let (private, public) = ephemeral()?;
    let bytes: [u8; HELLO_BYTES] = array(bytes);
    let shared = secret.agree(private, &bytes[100..]);
    let hello = Hello::decode(&bytes).zip(shared).ok_or(Refusal::Senseless);
    let decision = hello.and_then(|(hello, shared)| decide(&hello).map(|()| (hello, shared)));
    let mut answer = [0; ANSWER_BYTES];
    answer[0] = decision.as_ref().err().map_or(0, |refusal| *refusal as u8);
    answer[1..17].copy_from_slice(&own.uuid);
    answer[17..25].copy_from_slice(&own.start.to_be_bytes());
    answer[25..].copy_from_slice(&public);
    let tag = secret.sign("leveret 3 answer", &[channel, &greeting, &bytes, &answer]);
    stream.write_all(&[&answer[..], tag.as_ref()].concat())?;
    let (hello, shared) = decision?;
    let transcript = transcript(&[channel, &greeting, &bytes, &answer]);
    Ok(Dialer {
        hello,
        secret: proved,
        session: Session::new(&shared, transcript.as_ref(), Side::Acceptor),
    })
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
            protection: Protection::Sealed,
            node: NodeId(1),
            wanted: NodeId(2),
            cluster: [3; 16],
            uuid: [4; 16],
            wanted_uuid: [5; 16],
            start: 6,
        }
    }

    type Met = (
        Result<(Accepted, Session), HandshakeError>,
        Result<Dialer, HandshakeError>,
    );

    fn meet(dialer: &[u8], acceptor: &[&[u8]], decision: Result<(), Refusal>) -> Met {
        let (mut near, mut far) = UnixStream::pair().expect("a pair");
        let secrets: Vec<Secret> = acceptor.iter().map(|secret| Secret::new(secret)).collect();
        let thread =
            std::thread::spawn(move || accept(&mut far, &secrets, OWN, [2; 32], &[], |_| decision));
        let dialed = dial(&mut near, &Secret::new(dialer), &hello(), [1; 32], &[]);
        (dialed, thread.join().expect("no panic"))
    }

    #[test]
    fn who_shares_the_secret_gets_to_know_the_other() {
        let (dialed, accepted) = meet(b"secret", &[b"secret"], Ok(()));
        let (accepted_by, mut near) = dialed.expect("accepted");
        let dialer = accepted.expect("accepted");
        let mut far = dialer.session;
        assert_eq!((accepted_by, dialer.hello), (OWN, hello()));
        for _ in 0..2 {
            let mut record = b"____both ways".to_vec();
            near.sealer.seal(&mut record, 0);
            let opened = far.opener.open(&mut record).expect("whole");
            assert_eq!(opened.map(|(said, _)| said), Some(&b"both ways"[..]));
            std::mem::swap(&mut near, &mut far);
        }
    }

    /// Carries the handshake's three messages between the two, with one bit of them flipped: byte
    /// `at` of message `flipped`.
    fn meet_over(flipped: usize, at: usize) -> Met {
        const SIZES: [usize; 3] = [
            GREETING_BYTES,
            HELLO_BYTES + MAC_BYTES,
            ANSWER_BYTES + MAC_BYTES,
        ];
        let (mut near, mut to_near) = UnixStream::pair().expect("a pair");
        let (mut to_far, mut far) = UnixStream::pair().expect("a pair");
        let secret = || Secret::new(b"secret");
        let accepts = std::thread::spawn(move || {
            accept(&mut far, &[secret()], OWN, [2; 32], &[], |_| Ok(()))
        });
        let dials = std::thread::spawn(move || dial(&mut near, &secret(), &hello(), [1; 32], &[]));
        for (message, size) in SIZES.into_iter().enumerate() {
            let (from, to) = match message {
                1 => (&mut to_near, &mut to_far),
                _ => (&mut to_far, &mut to_near),
            };
            let mut bytes = vec![0; size];
            if from.read_exact(&mut bytes).is_err() {
                break;
            }
            if message == flipped {
                bytes[at] ^= 1;
            }
            // Who has noticed does not listen any more.
            let _ = to.write_all(&bytes);
        }
        drop((to_near, to_far));
        let met = (dials.join(), accepts.join());
        (met.0.expect("no panic"), met.1.expect("no panic"))
    }

    /// Who is between the two cannot change who they take each other for, nor what their keys are.
    #[test]
    fn a_handshake_that_is_altered_on_its_way_comes_to_nothing() {
        let untouched = meet_over(usize::MAX, 0);
        assert!(untouched.0.is_ok() && untouched.1.is_ok());
        for (message, bytes) in [(0, 0..GREETING_BYTES), (1, 0..HELLO_BYTES), (2, 0..89)] {
            for at in bytes {
                let (dialed, accepted) = meet_over(message, at);
                assert!(dialed.is_err(), "byte {at} of message {message}");
                assert!(message == 2 || accepted.is_err(), "byte {at} of {message}");
            }
        }
    }

    #[test]
    fn who_does_not_share_it_is_dropped_on_either_side() {
        let (dialed, accepted) = meet(b"secret", &[b"another", b"a third"], Ok(()));
        assert!(
            matches!(accepted, Err(HandshakeError::Secret)),
            "{accepted:?}"
        );
        assert!(matches!(dialed, Err(HandshakeError::Secret)), "{dialed:?}");
    }

    #[test]
    fn whoever_proves_one_of_two_secrets_is_answered_with_that_one() {
        for (proves, which) in [(&b"new"[..], 0), (b"old", 1)] {
            let (dialed, accepted) = meet(proves, &[b"new", b"old"], Ok(()));
            let (_, mut near) = dialed.expect("accepted");
            let mut dialer = accepted.expect("accepted");
            assert_eq!(dialer.secret, which);
            let mut record = b"____one secret".to_vec();
            near.sealer.seal(&mut record, 0);
            let opened = dialer.session.opener.open(&mut record).expect("whole");
            assert_eq!(opened.map(|(said, _)| said), Some(&b"one secret"[..]));
        }
    }

    #[test]
    fn a_refusal_reaches_the_dialer_by_name() {
        for refusal in Refusal::ALL {
            let (dialed, accepted) = meet(b"s", &[b"s"], Err(refusal));
            assert!(matches!(dialed, Err(HandshakeError::Refused(r)) if r == refusal));
            assert!(matches!(accepted, Err(HandshakeError::Refused(r)) if r == refusal));
        }
    }

    /// Who is between the two has a TLS session with each of them, and no secret.
    #[test]
    fn a_handshake_that_is_carried_from_one_tls_session_into_another_comes_to_nothing() {
        for (of_dialer, of_acceptor, is_same) in [(1, 1, true), (1, 2, false)] {
            let (mut near, mut far) = UnixStream::pair().expect("a pair");
            let secret = || Secret::new(b"secret");
            let accepts = std::thread::spawn(move || {
                let channel = [of_acceptor; 32];
                accept(&mut far, &[secret()], OWN, [2; 32], &channel, |_| Ok(()))
            });
            let channel = [of_dialer; 32];
            let dialed = dial(&mut near, &secret(), &hello(), [1; 32], &channel);
            let accepted = accepts.join().expect("no panic");
            assert_eq!((dialed.is_ok(), accepted.is_ok()), (is_same, is_same));
        }
    }

    /// What an earlier meeting said proves nothing in a later one: the random bytes differ.
    #[test]
    fn a_replayed_hello_is_refused() {
        let secret = Secret::new(b"secret");
        let bytes = hello().encode(&[1; 32], &[9; 32]);
        let greeting = |nonce: u8| [&NAME[..], &[VERSION], &[nonce; 32]].concat();
        let tag = secret.sign("leveret 3 dial", &[&greeting(2), &bytes]);
        let (mut near, mut far) = UnixStream::pair().expect("a pair");
        near.write_all(&[&bytes[..], tag.as_ref()].concat())
            .expect("it fits");
        let accepted = accept(&mut far, &[secret], OWN, [3; 32], &[], |_| Ok(()));
        assert!(
            matches!(accepted, Err(HandshakeError::Secret)),
            "{accepted:?}"
        );
    }

    #[test]
    fn another_protocol_is_recognised() {
        let (mut near, mut far) = UnixStream::pair().expect("a pair");
        far.write_all(&[b'A'; 40]).expect("it fits");
        let dialed = dial(&mut near, &Secret::new(b""), &hello(), [1; 32], &[]);
        assert!(
            matches!(dialed, Err(HandshakeError::NotANode)),
            "{dialed:?}"
        );
    }

    #[test]
    fn a_node_of_another_version_is_refused_by_name_on_both_sides() {
        for (version, word) in [(3, "an older"), (5, "a newer")] {
            let (mut near, mut far) = UnixStream::pair().expect("a pair");
            far.write_all(&[&NAME[..], &[version], &[0; 32]].concat())
                .expect("it fits");
            let dialed = dial(&mut near, &Secret::new(b""), &hello(), [1; 32], &[]);
            let error = dialed.expect_err("of another version").to_string();
            assert!(error.contains(word), "{error}");
        }
        // One of an earlier version goes when it has read the greeting.
        let (mut near, mut far) = UnixStream::pair().expect("a pair");
        let thread = std::thread::spawn(move || {
            far.read_exact(&mut [0; GREETING_BYTES]).expect("greeted");
        });
        let accepted = accept(
            &mut near,
            &[Secret::new(b"")],
            OWN,
            [3; 32],
            &[],
            |_| Ok(()),
        );
        thread.join().expect("no panic");
        let error = accepted.expect_err("it has left").to_string();
        assert!(error.contains(&format!("version {VERSION}")), "{error}");
    }
}
