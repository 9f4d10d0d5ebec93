//! Password hashes in RabbitMQ's format, so that definitions go both ways, and argon2id for who
//! wants more.
//!
//! RabbitMQ's hashes are base64 of a 4-byte salt followed by the digest of salt and password. An
//! argon2id hash is a PHC string.

use argon2::password_hash::{Output, PasswordHash as Phc, PasswordHasher, Salt, SaltString};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use leveret_types::limits::{
    ARGON2_COST_KIB_MAX, ARGON2_LANES_MAX, ARGON2_MEMORY_KIB_MAX, ARGON2_PASSES_MAX,
    ARGON2_STORED_MEMORY_KIB_MAX, ARGON2_STORED_PASSES_MAX,
};
use serde::{Deserialize, Serialize};
use sha2::Digest;
use subtle::ConstantTimeEq;

/// Bytes of the salt of RabbitMQ's format.
pub const SALT_BYTES: usize = 4;
/// Bytes of random salt that [`PasswordHash::new`] wants, whatever the algorithm.
pub const SALT_BYTES_GIVEN: usize = 16;

/// How a password is hashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HashingAlgorithm {
    /// `rabbit_password_hashing_sha256`: RabbitMQ's default, and ours, so that definitions go both
    /// ways.
    #[default]
    #[serde(rename = "rabbit_password_hashing_sha256")]
    Sha256,
    /// `rabbit_password_hashing_sha512`.
    #[serde(rename = "rabbit_password_hashing_sha512")]
    Sha512,
    /// `rabbit_password_hashing_md5`: verified, never made.
    #[serde(rename = "rabbit_password_hashing_md5")]
    Md5,
    /// Slow on purpose; RabbitMQ cannot import it.
    #[serde(rename = "argon2id")]
    Argon2id,
}

impl HashingAlgorithm {
    /// The name in definitions.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "rabbit_password_hashing_sha256",
            Self::Sha512 => "rabbit_password_hashing_sha512",
            Self::Md5 => "rabbit_password_hashing_md5",
            Self::Argon2id => "argon2id",
        }
    }

    /// The algorithm of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Sha256, Self::Sha512, Self::Md5, Self::Argon2id]
            .into_iter()
            .find(|algorithm| algorithm.name() == name)
    }

    /// The algorithm of a hash in RabbitMQ's form that names none: each makes its own length.
    #[must_use]
    pub fn of_hash(text: &str) -> Self {
        if text.starts_with("$argon2id$") {
            return Self::Argon2id;
        }
        let bytes = BASE64.decode(text).map_or(0, |bytes| bytes.len());
        let made = |algorithm: &Self| {
            let digest = algorithm.digest_bytes();
            digest.is_some_and(|digest| SALT_BYTES + digest == bytes)
        };
        let mut known = [Self::Sha256, Self::Sha512, Self::Md5].into_iter();
        known.find(made).unwrap_or_default()
    }

    /// Bytes of the digest that a salted hash of this algorithm ends with; none for argon2id, which
    /// says itself.
    const fn digest_bytes(self) -> Option<usize> {
        match self {
            Self::Sha256 => Some(32),
            Self::Sha512 => Some(64),
            Self::Md5 => Some(16),
            Self::Argon2id => None,
        }
    }
}

/// Why a text is no password hash, or none can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    /// Not base64.
    #[error("the password hash is not base64")]
    NotBase64,
    /// Not as long as salt and digest of its algorithm.
    #[error("the password hash has {found} bytes, {} needs {needed}", algorithm.name())]
    Length {
        /// The algorithm that it is said to be of.
        algorithm: HashingAlgorithm,
        /// Bytes that it has.
        found: usize,
        /// Bytes that it should have.
        needed: usize,
    },
    /// Not a PHC string of argon2id, or with parameters beyond the bounds.
    #[error("the password hash is no argon2id PHC string within the bounds")]
    NotArgon2id,
    /// New hashes with MD5 are not made.
    #[error("MD5 hashes are accepted but not made; choose another hashing algorithm")]
    Md5,
    /// The empty password: it would let everybody in.
    #[error("passwords must not be empty")]
    Empty,
}

/// A password's hash. [`PasswordHash::none`] is the hash that no password has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasswordHash {
    /// How it was made.
    pub algorithm: HashingAlgorithm,
    /// Its text as in definitions; empty for a user without a password.
    pub text: String,
}

impl PasswordHash {
    /// The hash of a user that no password lets in.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            algorithm: HashingAlgorithm::Sha256,
            text: String::new(),
        }
    }

    /// Hashes a password. Of the salt, RabbitMQ's algorithms use the first four bytes.
    ///
    /// # Errors
    /// If the password is empty, or the algorithm is only for verification.
    pub fn new(
        algorithm: HashingAlgorithm,
        password: &[u8],
        salt: &[u8; SALT_BYTES_GIVEN],
    ) -> Result<Self, PasswordError> {
        if password.is_empty() {
            return Err(PasswordError::Empty);
        }
        let text = match algorithm {
            HashingAlgorithm::Md5 => return Err(PasswordError::Md5),
            HashingAlgorithm::Argon2id => argon2_text(password, salt)?,
            HashingAlgorithm::Sha256 | HashingAlgorithm::Sha512 => {
                let mut bytes = salt[..SALT_BYTES].to_vec();
                bytes.extend(digest(algorithm, &salt[..SALT_BYTES], password));
                BASE64.encode(bytes)
            }
        };
        Ok(Self { algorithm, text })
    }

    /// A hash from definitions, checked for its form. The empty text is the hash that no password
    /// has.
    ///
    /// # Errors
    /// If it does not have the form of its algorithm.
    pub fn parse(algorithm: HashingAlgorithm, text: &str) -> Result<Self, PasswordError> {
        match algorithm.digest_bytes() {
            _ if text.is_empty() => {}
            None => {
                parse_phc(text, &NEW)?;
            }
            Some(digest) => {
                let found = BASE64
                    .decode(text)
                    .map_err(|_| PasswordError::NotBase64)?
                    .len();
                let needed = SALT_BYTES + digest;
                if found != needed {
                    return Err(PasswordError::Length {
                        algorithm,
                        found,
                        needed,
                    });
                }
            }
        }
        Ok(Self {
            algorithm,
            text: text.to_owned(),
        })
    }

    /// Whether this is the hash of `password`. The empty password is never right.
    #[must_use]
    pub fn verify(&self, password: &[u8]) -> bool {
        self.verify_in(password, &mut HashMemory::default())
    }

    fn verify_in(&self, password: &[u8], memory: &mut HashMemory) -> bool {
        let right = match self.algorithm {
            HashingAlgorithm::Argon2id => verify_phc(&self.text, password, memory).unwrap_or(false),
            algorithm => match BASE64.decode(&self.text) {
                Ok(bytes) if bytes.len() > SALT_BYTES => {
                    let (salt, expected) = bytes.split_at(SALT_BYTES);
                    digest(algorithm, salt, password).ct_eq(expected).into()
                }
                _ => false,
            },
        };
        right && !password.is_empty() && !self.text.is_empty()
    }
}

/// Whether `password` lets the user with this hash in. For a user who does not exist, `None` does
/// the work of a check with `usual`, the algorithm of new users, and answers no: how long the
/// answer takes does not tell who exists.
#[must_use]
pub fn verify_login(hash: Option<&PasswordHash>, password: &[u8], usual: HashingAlgorithm) -> bool {
    verify_login_in(hash, password, usual, &mut HashMemory::default())
}

/// [`verify_login`] for who checks one after the other: slow hashes are computed in `memory`.
#[must_use]
pub fn verify_login_in(
    hash: Option<&PasswordHash>,
    password: &[u8],
    usual: HashingAlgorithm,
    memory: &mut HashMemory,
) -> bool {
    match hash {
        Some(hash) if !hash.text.is_empty() => hash.verify_in(password, memory),
        _ => {
            match usual {
                HashingAlgorithm::Argon2id => {
                    let mut found = [0; Params::DEFAULT_OUTPUT_LEN];
                    let salt = [0; SALT_BYTES_GIVEN];
                    let argon2 = argon2id(Version::V0x13, Params::DEFAULT);
                    memory.hash(&argon2, password, &salt, &mut found);
                }
                salted => drop(std::hint::black_box(digest(
                    salted,
                    &[0; SALT_BYTES],
                    password,
                ))),
            }
            false
        }
    }
}

fn digest(algorithm: HashingAlgorithm, salt: &[u8], password: &[u8]) -> Vec<u8> {
    fn of<D: Digest>(salt: &[u8], password: &[u8]) -> Vec<u8> {
        D::new()
            .chain_update(salt)
            .chain_update(password)
            .finalize()
            .to_vec()
    }
    match algorithm {
        HashingAlgorithm::Sha512 => of::<sha2::Sha512>(salt, password),
        HashingAlgorithm::Md5 => of::<md5::Md5>(salt, password),
        HashingAlgorithm::Sha256 | HashingAlgorithm::Argon2id => of::<sha2::Sha256>(salt, password),
    }
}

/// Memory that argon2id works in, kept from one hash to the next. The system clears what it gives,
/// page by page, and tells all processors of what it takes back: with 64 MiB for each hash, other
/// threads of the process would notice.
#[derive(Default)]
pub struct HashMemory(Vec<Block>);

impl std::fmt::Debug for HashMemory {
    /// What it holds was made of a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.0.len() * Block::SIZE;
        f.debug_struct("HashMemory").field("bytes", &bytes).finish()
    }
}

impl HashMemory {
    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Gives it back to the system.
    pub fn give_back(&mut self) {
        self.0 = Vec::new();
    }

    /// Computes a hash, which fills `found`; false if there is none of what is given.
    fn hash(
        &mut self,
        argon2: &Argon2<'_>,
        password: &[u8],
        salt: &[u8],
        found: &mut [u8],
    ) -> bool {
        let blocks = argon2.params().block_count();
        if self.0.len() < blocks {
            // First, so that there are never both.
            self.give_back();
            self.0 = vec![Block::default(); blocks];
        }
        let memory = &mut self.0[..blocks];
        let hashed = argon2.hash_password_into_with_memory(password, salt, found, memory);
        // More than a new hash may ask for is not kept for those to come.
        if blocks > ARGON2_MEMORY_KIB_MAX as usize {
            self.give_back();
        }
        hashed.is_ok()
    }
}

fn argon2id(version: Version, params: Params) -> Argon2<'static> {
    Argon2::new(Algorithm::Argon2id, version, params)
}

/// Whether a PHC string is of `password`; none if it is not one that can be checked.
fn verify_phc(text: &str, password: &[u8], memory: &mut HashMemory) -> Option<bool> {
    let phc = parse_phc(text, &STORED).ok()?;
    let (salt, expected) = (phc.salt?, phc.hash?);
    let mut buffer = [0; Salt::MAX_LENGTH];
    let salt = salt.decode_b64(&mut buffer).ok()?;
    let version = match phc.version {
        Some(version) => Version::try_from(version).ok()?,
        None => Version::default(),
    };
    let argon2 = argon2id(version, Params::try_from(&phc).ok()?);
    let mut buffer = [0; Output::MAX_LENGTH];
    let found = &mut buffer[..expected.len()];
    let hashed = memory.hash(&argon2, password, salt, found);
    Some(hashed && bool::from(found.ct_eq(expected.as_bytes())))
}

fn argon2_text(password: &[u8], salt: &[u8; SALT_BYTES_GIVEN]) -> Result<String, PasswordError> {
    let salt = SaltString::encode_b64(salt).map_err(|_| PasswordError::NotArgon2id)?;
    argon2id(Version::V0x13, Params::DEFAULT)
        .hash_password(password, &salt)
        .map(|phc| phc.to_string())
        .map_err(|_| PasswordError::NotArgon2id)
}

/// What a PHC string may ask for.
struct Bounds {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
    cost_kib: u32,
}

/// For who brings a hash.
const NEW: Bounds = Bounds {
    memory_kib: ARGON2_MEMORY_KIB_MAX,
    passes: ARGON2_PASSES_MAX,
    lanes: ARGON2_LANES_MAX,
    cost_kib: ARGON2_COST_KIB_MAX,
};

/// For what is stored: what earlier versions took must go on letting its user in.
const STORED: Bounds = Bounds {
    memory_kib: ARGON2_STORED_MEMORY_KIB_MAX,
    passes: ARGON2_STORED_PASSES_MAX,
    lanes: u32::MAX,
    cost_kib: u32::MAX,
};

/// Reads a PHC string. Its parameters decide what a login costs, so they have bounds.
fn parse_phc<'a>(text: &'a str, bounds: &Bounds) -> Result<Phc<'a>, PasswordError> {
    let phc = Phc::new(text).map_err(|_| PasswordError::NotArgon2id)?;
    let params = Params::try_from(&phc).map_err(|_| PasswordError::NotArgon2id)?;
    let cost = params.m_cost().saturating_mul(params.t_cost());
    let bounded = params.m_cost() <= bounds.memory_kib
        && params.t_cost() <= bounds.passes
        && params.p_cost() <= bounds.lanes
        && cost <= bounds.cost_kib;
    if phc.algorithm != Algorithm::Argon2id.ident() || phc.hash.is_none() || !bounded {
        return Err(PasswordError::NotArgon2id);
    }
    Ok(phc)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: [u8; SALT_BYTES_GIVEN] = *b"\x90\x8D\xC6\x0Aabcdefghijkl";

    #[test]
    fn the_example_of_rabbitmqs_documentation() {
        // "test12" with salt 908DC60A, from RabbitMQ's page on passwords.
        let hash = PasswordHash::new(HashingAlgorithm::Sha256, b"test12", &SALT);
        let text = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR";
        assert_eq!(hash, PasswordHash::parse(HashingAlgorithm::Sha256, text));
        assert!(hash.is_ok_and(|hash| hash.verify(b"test12") && !hash.verify(b"test13")));
    }

    #[test]
    fn every_algorithm_verifies_its_own() {
        for algorithm in [
            HashingAlgorithm::Sha256,
            HashingAlgorithm::Sha512,
            HashingAlgorithm::Argon2id,
        ] {
            let hash = PasswordHash::new(algorithm, b"pass", &SALT).expect("a hash");
            assert!(hash.verify(b"pass"), "{algorithm:?}");
            assert!(!hash.verify(b"Pass"), "{algorithm:?}");
            assert!(!hash.verify(b""), "{algorithm:?}");
            assert_eq!(PasswordHash::parse(algorithm, &hash.text), Ok(hash.clone()));
            assert_eq!(HashingAlgorithm::parse(algorithm.name()), Some(algorithm));
        }
    }

    #[test]
    fn a_hash_that_names_no_algorithm_is_of_the_one_that_makes_its_length() {
        for algorithm in [
            HashingAlgorithm::Sha256,
            HashingAlgorithm::Sha512,
            HashingAlgorithm::Md5,
        ] {
            let bytes = algorithm.digest_bytes().expect("it is salted") + SALT_BYTES;
            let text = BASE64.encode(vec![7; bytes]);
            assert_eq!(HashingAlgorithm::of_hash(&text), algorithm);
        }
        let hash = PasswordHash::new(HashingAlgorithm::Argon2id, b"pass", &SALT);
        let text = hash.expect("a hash").text;
        assert_eq!(HashingAlgorithm::of_hash(&text), HashingAlgorithm::Argon2id);
        let usual = HashingAlgorithm::default();
        assert_eq!(HashingAlgorithm::of_hash("no hash"), usual);
    }

    #[test]
    fn slow_hashes_are_right_in_memory_that_others_were_computed_in() {
        let phc = |kib: u32, passes: u32, output: usize| {
            let params = Params::new(kib, passes, 1, Some(output)).expect("within argon2's bounds");
            let salt = SaltString::encode_b64(&SALT).expect("a salt");
            let argon2 = argon2id(Version::V0x13, params);
            let text = argon2.hash_password(b"pass", &salt).expect("hashed");
            PasswordHash::parse(HashingAlgorithm::Argon2id, &text.to_string()).expect("a hash")
        };
        // As made and checked by the crate, one hash in memory of its own.
        let hashes = [
            phc(64, 3, 32),
            phc(8, 1, 16),
            phc(128, 2, 64),
            phc(64, 1, 32),
        ];
        let mut memory = HashMemory::default();
        let usual = HashingAlgorithm::Argon2id;
        for hash in hashes.iter().chain(hashes.iter().rev()) {
            let mut check =
                |password: &[u8]| verify_login_in(Some(hash), password, usual, &mut memory);
            assert!(check(b"pass") && !check(b"Pass"), "{}", hash.text);
        }
        assert!(!verify_login_in(None, b"pass", usual, &mut memory));
    }

    /// How long an answer takes must not tell which users there are.
    #[test]
    fn the_work_of_a_check_is_done_for_who_has_no_password_as_well() {
        for hash in [None, Some(&PasswordHash::none())] {
            let mut memory = HashMemory::default();
            let usual = HashingAlgorithm::Argon2id;
            assert!(!verify_login_in(hash, b"pass", usual, &mut memory));
            assert!(!memory.is_empty(), "a hash was worked out: {hash:?}");
        }
    }

    /// Hashes of old tools name no version, and are of the newest.
    #[test]
    fn a_slow_hash_that_names_no_version_is_of_the_usual_one() {
        let params = Params::new(8, 1, 1, None).expect("within argon2's bounds");
        let salt = SaltString::encode_b64(&SALT).expect("a salt");
        let hash = |version: Version| {
            let hashed = argon2id(version, params.clone()).hash_password(b"pass", &salt);
            hashed.expect("hashed").to_string()
        };
        let verify = |text: String| {
            let hash = PasswordHash::parse(HashingAlgorithm::Argon2id, &text);
            hash.expect("a hash").verify(b"pass")
        };
        let (usual, old) = (hash(Version::V0x13), hash(Version::V0x10));
        assert!(verify(usual.clone()) && verify(old.clone()));
        assert!(verify(usual.replace("v=19$", "")));
        assert!(!verify(old.replace("v=16$", "")));
        assert!(!verify(old.replace("v=16$", "v=19$")));
    }

    #[test]
    fn memory_is_kept_for_the_next_hash_unless_none_may_ask_for_so_much() {
        let mut memory = HashMemory::default();
        let hash = |memory: &mut HashMemory, kib: u32| {
            let params = Params::new(kib, 1, 1, None).expect("within argon2's bounds");
            let argon2 = argon2id(Version::V0x13, params);
            assert!(memory.hash(&argon2, b"p", &SALT, &mut [0; 32]));
            (memory.0.as_ptr(), memory.0.len())
        };
        let first = hash(&mut memory, ARGON2_MEMORY_KIB_MAX);
        assert_eq!(hash(&mut memory, 8), first, "a cheaper one takes the same");
        assert_eq!(hash(&mut memory, ARGON2_MEMORY_KIB_MAX), first);
        hash(&mut memory, ARGON2_MEMORY_KIB_MAX + 4);
        assert!(memory.is_empty());
    }

    #[test]
    fn md5_is_verified_but_not_made() {
        let md5 = HashingAlgorithm::Md5;
        assert_eq!(PasswordHash::new(md5, b"p", &SALT), Err(PasswordError::Md5));
        let mut bytes = b"salt".to_vec();
        bytes.extend(digest(md5, b"salt", b"secret"));
        let hash = PasswordHash::parse(md5, &BASE64.encode(bytes)).expect("a hash");
        assert!(hash.verify(b"secret"));
        assert!(!hash.verify(b"Secret"));
    }

    #[test]
    fn malformed_hashes_are_refused() {
        let sha256 = HashingAlgorithm::Sha256;
        let cases = [
            (sha256, "!", PasswordError::NotBase64),
            (
                sha256,
                "AAAA",
                PasswordError::Length {
                    algorithm: sha256,
                    found: 3,
                    needed: 36,
                },
            ),
            (
                sha256,
                &BASE64.encode([7; 37]),
                PasswordError::Length {
                    algorithm: sha256,
                    found: 37,
                    needed: 36,
                },
            ),
            (
                HashingAlgorithm::Argon2id,
                "$argon2id$",
                PasswordError::NotArgon2id,
            ),
            (
                HashingAlgorithm::Argon2id,
                "$argon2i$v=19$m=8,t=1,p=1$YWJjZGVmZ2g$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                PasswordError::NotArgon2id,
            ),
        ];
        let without_hash = "$argon2id$v=19$m=8,t=1,p=1$YWJjZGVmZ2g";
        assert_eq!(
            PasswordHash::parse(HashingAlgorithm::Argon2id, without_hash),
            Err(PasswordError::NotArgon2id)
        );
        for (algorithm, text, error) in cases {
            assert_eq!(PasswordHash::parse(algorithm, text), Err(error), "{text}");
        }
    }

    #[test]
    fn the_cost_of_an_imported_argon2id_hash_is_bounded() {
        let check = |memory: u32, passes: u32, lanes: u32, expected: bool| {
            let text = format!(
                "$argon2id$v=19$m={memory},t={passes},p={lanes}$YWJjZGVmZ2g$\
                 AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
            );
            let parsed = PasswordHash::parse(HashingAlgorithm::Argon2id, &text);
            assert_eq!(parsed.is_ok(), expected, "{text}");
        };
        let memory = ARGON2_MEMORY_KIB_MAX;
        check(memory, 3, ARGON2_LANES_MAX, true);
        check(memory + 1, 1, 1, false);
        check(memory, 4, 1, false);
        check(memory, 3, ARGON2_LANES_MAX + 1, false);
        check(
            ARGON2_COST_KIB_MAX / ARGON2_PASSES_MAX,
            ARGON2_PASSES_MAX,
            1,
            true,
        );
        check(1_024, ARGON2_PASSES_MAX + 1, 1, false);
        // What the broker makes itself is within the bounds.
        let own = PasswordHash::new(HashingAlgorithm::Argon2id, b"pass", &SALT).expect("a hash");
        assert!(parse_phc(&own.text, &NEW).is_ok());
    }

    #[test]
    fn a_stored_hash_that_is_beyond_the_bounds_of_new_ones_lets_its_user_in() {
        // More passes and lanes than a new one may have, with little memory: the test is quick.
        let (passes, lanes) = (ARGON2_PASSES_MAX + 1, ARGON2_LANES_MAX + 1);
        let stored = |passes: u32| {
            let params = Params::new(8 * lanes, passes, lanes, None).expect("parameters");
            let salt = SaltString::encode_b64(&SALT).expect("a salt");
            let phc = Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
                .hash_password(b"pass", &salt)
                .expect("a hash");
            PasswordHash {
                algorithm: HashingAlgorithm::Argon2id,
                text: phc.to_string(),
            }
        };
        let old = stored(passes);
        assert!(PasswordHash::parse(old.algorithm, &old.text).is_err());
        assert!(old.verify(b"pass"));
        assert!(!old.verify(b"Pass"));
        assert!(!stored(ARGON2_STORED_PASSES_MAX + 1).verify(b"pass"));
        // As much memory as any version took, and not more.
        let check = |memory: u32, expected: bool| {
            let text = format!(
                "$argon2id$v=19$m={memory},t={ARGON2_STORED_PASSES_MAX},p=1$YWJjZGVmZ2g$\
                 AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
            );
            assert_eq!(parse_phc(&text, &STORED).is_ok(), expected, "{text}");
        };
        check(ARGON2_STORED_MEMORY_KIB_MAX, true);
        check(ARGON2_STORED_MEMORY_KIB_MAX + 1, false);
    }

    #[test]
    fn a_login_with_the_right_password_is_found_right_and_no_other() {
        for algorithm in [HashingAlgorithm::Sha256, HashingAlgorithm::Argon2id] {
            let hash = PasswordHash::new(algorithm, b"pass", &SALT).expect("a hash");
            // Whatever new users have.
            for usual in [HashingAlgorithm::Sha256, HashingAlgorithm::Argon2id] {
                assert!(verify_login(Some(&hash), b"pass", usual), "{algorithm:?}");
                assert!(!verify_login(Some(&hash), b"Pass", usual), "{algorithm:?}");
            }
        }
    }

    #[test]
    fn nobody_gets_in_without_a_password() {
        let sha256 = HashingAlgorithm::Sha256;
        assert_eq!(
            PasswordHash::new(sha256, b"", &SALT),
            Err(PasswordError::Empty)
        );
        assert!(!PasswordHash::none().verify(b""));
        assert!(!PasswordHash::none().verify(b"x"));
        assert_eq!(PasswordHash::parse(sha256, ""), Ok(PasswordHash::none()));
        // A hash of the empty password, as an old export may hold it, opens nothing either.
        let mut bytes = b"salt".to_vec();
        bytes.extend(digest(sha256, b"salt", b""));
        let empty = PasswordHash::parse(sha256, &BASE64.encode(bytes)).expect("a hash");
        assert!(!verify_login(Some(&empty), b"", sha256));
        assert!(!verify_login(None, b"x", sha256));
        assert!(!verify_login(None, b"x", HashingAlgorithm::Argon2id));
        assert!(!verify_login(Some(&PasswordHash::none()), b"", sha256));
    }
}
