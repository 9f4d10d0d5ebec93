//! Hashes that decide where a message goes. They must give the same answer on every node and after
//! every restart, so they are fixed here rather than taken from a library that may change its mind.

/// FNV-1a over the bytes, with a finalizer that spreads it over all 64 bits.
pub(crate) fn stable(bytes: &[u8]) -> u64 {
    let folded = bytes.iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    mix(folded)
}

/// The finalizer of SplitMix64.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// The next number of a SplitMix64 sequence.
pub(crate) fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mix(*state)
}

/// A number below `bound`, evenly spread for bounds far below 2^64.
pub(crate) fn below(random: u64, bound: usize) -> usize {
    ((u128::from(random) * bound as u128) >> 64) as usize
}

/// The score of one candidate in weighted rendezvous hashing: the highest one wins, each with
/// probability in proportion to its weight, and a weight that changes moves only the keys that its
/// candidate gains or loses.
pub(crate) fn rendezvous_score(key_hash: u64, candidate_hash: u64, weight: u64) -> f64 {
    let mixed = mix(key_hash ^ candidate_hash.rotate_left(32));
    // 53 random bits as a number in (0, 1): never 0, whose logarithm has no value.
    let uniform = ((mixed >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    -(weight as f64) / uniform.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_never_changes() {
        // Frozen: a changed value would move every key of every hashing exchange to another queue.
        assert_eq!(stable(b""), 0xF52A_15E9_A9B5_E89B);
        assert_eq!(stable(b"order-1"), stable(b"order-1"));
        assert_ne!(stable(b"order-1"), stable(b"order-2"));
    }

    #[test]
    fn below_stays_below_and_reaches_both_ends() {
        assert_eq!(below(0, 7), 0);
        assert_eq!(below(u64::MAX, 7), 6);
    }

    #[test]
    fn weights_decide_the_share() {
        let mut hits = [0_u32; 2];
        for key in 0..10_000_u64 {
            let hash = mix(key);
            let light = rendezvous_score(hash, stable(b"light"), 1);
            let heavy = rendezvous_score(hash, stable(b"heavy"), 3);
            hits[usize::from(heavy > light)] += 1;
        }
        assert!((7_300..7_700).contains(&hits[1]), "{hits:?}");
    }
}
