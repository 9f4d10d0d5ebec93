//! Small changes to known inputs.

use leveret_amqp::fuzz::Random;

/// Numbers at which code that counts goes wrong.
const NUMBERS: [u64; 12] = [
    0,
    1,
    2,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x7FFF_FFFF,
    0xFFFF_FFFF,
    1 << 63,
    u64::MAX,
];

/// An input of the corpus with a few changes, of at most `most` bytes unless it has more already.
#[must_use]
pub fn mutate(corpus: &[Vec<u8>], most: usize, random: &mut Random) -> Vec<u8> {
    let mut input = corpus[random.below(corpus.len() as u64) as usize].clone();
    let most = most.max(input.len());
    for _ in 0..1 << random.below(5) {
        change(&mut input, corpus, random);
    }
    input.truncate(most);
    input
}

fn change(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    let len = input.len() as u64;
    let at = random.below(len + 1) as usize;
    match random.below(9) {
        0 | 1 if at < input.len() => input[at] ^= 1 << random.below(8),
        2 if at < input.len() => input[at] = random.below(256) as u8,
        3 => {
            let number = NUMBERS[random.below(NUMBERS.len() as u64) as usize];
            let width = 1 << random.below(4);
            let (big, little) = (number.to_be_bytes(), number.to_le_bytes());
            let bytes = if random.below(2) == 0 {
                &big[8 - width..]
            } else {
                &little[..width]
            };
            let end = (at + width).min(input.len());
            input.splice(at..end, bytes.iter().copied());
        }
        4 => drop(input.splice(at..at, random.bytes(32))),
        5 => {
            let end = (at + random.below(64) as usize).min(input.len());
            input.drain(at..end);
        }
        6 => {
            let end = (at + random.below(256) as usize).min(input.len());
            let piece = input[at..end].to_vec();
            let to = random.below(len + 1) as usize;
            input.splice(to..to, piece);
        }
        7 => {
            let other = &corpus[random.below(corpus.len() as u64) as usize];
            let from = random.below(other.len() as u64 + 1) as usize;
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        _ => {
            for byte in input.iter_mut().skip(at).take(8) {
                *byte = byte.wrapping_add(random.below(3) as u8);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_inputs_within_the_bound() {
        let corpus = [b"some".to_vec(), vec![7; 100], Vec::new()];
        let inputs = |seed| {
            let mut random = Random::new(seed);
            (0..500)
                .map(|_| mutate(&corpus, 120, &mut random))
                .collect::<Vec<_>>()
        };
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
        assert!(inputs(3).iter().all(|input| input.len() <= 120));
    }
}
