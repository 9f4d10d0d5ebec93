//! The corpora, and a few changes to each input: what a run of the tests has time for.

use leveret_sim::Random;
use leveret_sim::fuzz::{TARGETS, load, mutate};

/// Changed inputs of each target.
const CHANGED: usize = 2_000;
/// The same of a target that builds a cluster for each input.
const CHANGED_SLOW: usize = 40;
/// Bytes and files that all corpora may have.
const CORPUS_BYTES_MAX: usize = 1 << 20;
const CORPUS_FILES_MAX: usize = 450;

#[test]
fn every_corpus_and_what_is_near_it_finds_nothing() {
    for target in TARGETS {
        let corpus = load(target.name);
        assert!(!corpus.is_empty(), "{} has no corpus", target.name);
        corpus.iter().for_each(|input| (target.run)(input));
        let mut random = Random::new(1);
        let changed = match target.name {
            "peer_member" => CHANGED_SLOW,
            _ => CHANGED,
        };
        for _ in 0..changed {
            (target.run)(&mutate(&corpus, 1_000, &mut random));
        }
    }
}

#[test]
fn every_corpus_stays_small() {
    let all: Vec<Vec<u8>> = TARGETS
        .iter()
        .flat_map(|target| load(target.name))
        .collect();
    assert!(all.len() < CORPUS_FILES_MAX, "{} files", all.len());
    let bytes: usize = all.iter().map(Vec::len).sum();
    assert!(bytes < CORPUS_BYTES_MAX, "{bytes} bytes");
}
