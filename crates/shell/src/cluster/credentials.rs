//! What proves that a node belongs to the cluster, while operators change it: the secrets, and
//! certificates where there are any.

use super::handshake::Secret;
use super::link_tls::LinkTls;
use parking_lot::RwLock;
use std::sync::Arc;

/// Bytes below which a secret is called weak.
const BYTES_MIN: usize = 20;
/// Different bytes below which it is.
const DIFFERENT_BYTES_MIN: usize = 8;

/// What this node proves to others, and what it takes for a proof.
#[derive(Debug)]
pub struct Credentials(RwLock<Accepts>);

/// What is taken for a proof.
#[derive(Clone, Debug)]
pub struct Accepts {
    /// One of these secrets: two at a time while operators change it.
    pub secrets: Arc<[Secret]>,
    /// And a certificate, where there is this.
    pub tls: Option<LinkTls>,
}

/// What a node proves when it dials.
#[derive(Clone, Debug)]
pub struct Proof {
    /// The secret.
    pub secret: Secret,
    /// Its certificate, where it has one.
    pub tls: Option<LinkTls>,
}

impl Credentials {
    /// Proves the first of these secrets, and accepts all.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn new(texts: &[Vec<u8>], tls: Option<LinkTls>) -> Self {
        let secrets = keys(texts);
        Self(RwLock::new(Accepts { secrets, tls }))
    }

    /// What this node proves when it dials.
    #[must_use]
    pub fn own(&self) -> Proof {
        let known = self.0.read();
        Proof {
            secret: known.secrets[0].clone(),
            tls: known.tls.clone(),
        }
    }

    /// What it accepts.
    #[must_use]
    pub fn accepted(&self) -> Accepts {
        self.0.read().clone()
    }

    /// Takes these from now on: connections that stand go on. Says whether the secrets differ from
    /// those before.
    ///
    /// # Panics
    /// If there are none.
    pub fn replace(&self, texts: &[Vec<u8>], tls: Option<LinkTls>) -> bool {
        let secrets = keys(texts);
        let mut known = self.0.write();
        let differ = known.secrets != secrets;
        *known = Accepts { secrets, tls };
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
        let credentials = Credentials::new(std::slice::from_ref(&old), None);
        let before = credentials.accepted().secrets;
        assert!(!credentials.replace(std::slice::from_ref(&old), None));
        assert!(credentials.replace(&[new.clone(), old.clone()], None));
        assert!(credentials.own().secret == Secret::new(&new));
        let after = credentials.accepted().secrets;
        assert_eq!((before.len(), after.len()), (1, 2));
    }
}
