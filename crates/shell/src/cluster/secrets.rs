//! The cluster's secrets as this node knows them, while it runs.

use super::handshake::Secret;
use parking_lot::RwLock;
use std::sync::Arc;

/// Bytes below which a secret is called weak.
const BYTES_MIN: usize = 20;
/// Different bytes below which it is.
const DIFFERENT_BYTES_MIN: usize = 8;

/// One secret that this node proves to others, and those that it takes for a proof: two at a time
/// while operators change it.
#[derive(Debug)]
pub struct Secrets(RwLock<Arc<[Secret]>>);

impl Secrets {
    /// Proves the first of these, and accepts all.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn new(texts: &[Vec<u8>]) -> Self {
        Self(RwLock::new(keys(texts)))
    }

    /// What this node proves when it dials.
    #[must_use]
    pub fn own(&self) -> Secret {
        self.0.read()[0].clone()
    }

    /// What it accepts.
    #[must_use]
    pub fn accepted(&self) -> Arc<[Secret]> {
        Arc::clone(&self.0.read())
    }

    /// Takes these from now on: connections that stand go on. Says whether they differ from those
    /// before.
    ///
    /// # Panics
    /// If there are none.
    pub fn replace(&self, texts: &[Vec<u8>]) -> bool {
        let new = keys(texts);
        let mut known = self.0.write();
        let differ = *known != new;
        *known = new;
        differ
    }
}

fn keys(texts: &[Vec<u8>]) -> Arc<[Secret]> {
    assert!(!texts.is_empty(), "a cluster has a secret");
    texts.iter().map(|text| Secret::new(text)).collect()
}

/// Whether somebody who has watched a handshake may guess this secret: it is shorter than 16 random
/// bytes in base64, or says little in its length.
pub(super) fn is_weak(secret: &[u8]) -> bool {
    let mut different = secret.to_vec();
    different.sort_unstable();
    different.dedup();
    secret.len() < BYTES_MIN || different.len() < DIFFERENT_BYTES_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_that_can_be_guessed_are_weak() {
        for (secret, weak) in [
            ("secret", true),
            ("Tr0ub4dor&3", true),
            ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", true),
            ("abcabcabcabcabcabcabcabcabcabc", true),
            ("0123456789abcdefghi", true),
            ("0123456789abcdefghij", false),
            ("q9cWkKkD8S3X0mXr0n1m3A==", false),
            ("9f86d081884c7d659a2feaa0c55ad015", false),
        ] {
            assert_eq!(is_weak(secret.as_bytes()), weak, "{secret}");
        }
    }

    #[test]
    fn what_is_proved_and_accepted_changes_while_others_hold_it() {
        let [old, new] = [b"old".to_vec(), b"new".to_vec()];
        let secrets = Secrets::new(std::slice::from_ref(&old));
        let before = secrets.accepted();
        assert!(!secrets.replace(std::slice::from_ref(&old)));
        assert!(secrets.replace(&[new.clone(), old.clone()]));
        assert!(secrets.own() == Secret::new(&new));
        assert_eq!((before.len(), secrets.accepted().len()), (1, 2));
    }
}
