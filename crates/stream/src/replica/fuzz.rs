//! What fuzzing drives: functions that take any bytes and panic if the crate breaks a promise.

use crate::replica::codec::every_message;
use crate::replica::{ReplicaMessage, ReplicaState};
use bytes::Bytes;

/// What can be read as a message, or as what a replica keeps, is written and read as the same
/// again.
///
/// # Panics
/// If it is not.
pub fn message(input: &[u8]) {
    if let Ok(message) = ReplicaMessage::decode(Bytes::copy_from_slice(input)) {
        assert_eq!(&message.encode()[..], input);
    }
    if let Ok(state) = ReplicaState::decode(input) {
        assert_eq!(ReplicaState::decode(&state.encode()), Ok(state));
    }
}

/// Inputs that fuzzing begins with.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let messages = every_message().into_iter().map(|m| m.encode().to_vec());
    messages.chain([ReplicaState::default().encode()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_messages_are_read_as_what_they_say_or_refused() {
        for seed in seeds() {
            message(&seed);
            for at in 0..seed.len() {
                for bit in 0..8 {
                    let mut changed = seed.clone();
                    changed[at] ^= 1 << bit;
                    message(&changed);
                }
            }
        }
    }
}
