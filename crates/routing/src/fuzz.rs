//! Entry points for fuzzing: each reads a case out of arbitrary bytes and checks the tables against
//! the plain definition.

use crate::{Destination, ExchangeSettings, HeadersMatcher, Kind, Router, Scratch, topic_match};
use leveret_types::limits::TOPIC_HASHES_MAX;
use leveret_types::{FieldTable, FieldValue, QueueId};

/// Lines of bytes: the first is a routing key, the others are topic patterns. Checks that the trie
/// finds exactly the patterns that match, and still does after every second one is gone.
///
/// # Panics
/// If the trie and the definition disagree.
pub fn topic(data: &[u8]) {
    let mut lines = data.split(|b| *b == b'\n');
    let key = lines.next().unwrap_or_default();
    let is_allowed = |pattern: &&[u8]| {
        pattern.split(|b| *b == b'.').filter(|w| *w == b"#").count() <= TOPIC_HASHES_MAX
    };
    let patterns: Vec<&[u8]> = lines.filter(is_allowed).take(64).collect();
    let mut router = Router::new();
    router.add_exchange("t", Kind::Topic, ExchangeSettings::default());
    let names: Vec<String> = (0..patterns.len()).map(|i| format!("q{i}")).collect();
    let none = FieldTable::new();
    for (index, pattern) in patterns.iter().enumerate() {
        router.add_queue(&names[index], QueueId(index as u64));
        let bound = router.bind("t", Destination::Queue(&names[index]), pattern, &none);
        assert_eq!(bound, Ok(true));
    }
    let check = |router: &Router, remaining: &dyn Fn(usize) -> bool| {
        let mut found = Vec::new();
        let routed = router.route(b"t", &[key], &(), &mut Scratch::new(0), &mut found);
        assert_eq!(routed, Ok(()));
        found.sort();
        let expected: Vec<QueueId> = (0..patterns.len())
            .filter(|&i| remaining(i) && topic_match(patterns[i], key))
            .map(|i| QueueId(i as u64))
            .collect();
        assert_eq!(found, expected, "key {key:?}, patterns {patterns:?}");
    };
    check(&router, &|_| true);
    for index in (0..patterns.len()).step_by(2) {
        let queue = Destination::Queue(&names[index]);
        assert!(router.unbind("t", queue, patterns[index], &none).is_some());
    }
    check(&router, &|index| index % 2 == 1);
}

/// Bytes: a mode, then pairs of a name (of few) and a value (of few), alternately for the binding
/// and the message. Checks the matcher against the definition of each mode.
///
/// # Panics
/// If the matcher and the definition disagree.
pub fn headers(data: &[u8]) {
    let (mode, pairs) = match data.split_first() {
        Some((first, rest)) => (usize::from(*first % 4), rest),
        None => return,
    };
    let names = ["a", "b", "c", "x-a", "x-b"];
    let values = [
        FieldValue::I32(1),
        FieldValue::Bool(true),
        FieldValue::text("1"),
        FieldValue::Void,
    ];
    let modes = ["all", "any", "all-with-x", "any-with-x"];
    let (mut wanted, mut sent) = (FieldTable::new(), FieldTable::new());
    for (index, pair) in pairs.chunks_exact(2).enumerate() {
        let name = names[usize::from(pair[0]) % names.len()];
        let value = values[usize::from(pair[1]) % values.len()].clone();
        let table = if index % 2 == 0 {
            &mut wanted
        } else {
            &mut sent
        };
        table.set(name, value);
    }
    let counts = |name: &str| mode >= 2 || !name.starts_with("x-");
    let hits: Vec<bool> = wanted
        .iter()
        .filter(|(name, _)| counts(name))
        .map(|(name, value)| match sent.get(name) {
            Some(found) => *value == FieldValue::Void || value == found,
            None => false,
        })
        .collect();
    let expected = if mode % 2 == 0 {
        hits.iter().all(|hit| *hit)
    } else {
        hits.iter().any(|hit| *hit)
    };
    wanted.set("x-match", FieldValue::text(modes[mode]));
    match HeadersMatcher::parse(&wanted) {
        Ok(matcher) => assert_eq!(
            matcher.matches(Some(&sent)),
            expected,
            "{wanted:?} {sent:?}"
        ),
        Err(error) => panic!("{wanted:?} refused: {error}"),
    }
}
