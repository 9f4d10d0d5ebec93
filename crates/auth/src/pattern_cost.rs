//! The bound on the cost of matching a regular expression.
//!
//! The library matches by an automaton whose states it makes when they are needed, of the states
//! that the expression may be in at once. While they fit into its memory, a byte costs one step.
//! Where they do not it goes through the expression for each byte, which may be a thousand steps.
//! So all states are made beforehand, once, and counted: forwards, and backwards for an expression
//! that is looked for from its end.

use leveret_types::limits::{REGEX_REQUEST_PROGRAM_BYTES_MAX, REGEX_STATES_BYTES_MAX};
use regex_automata::hybrid::dfa::DFA;
use regex_automata::nfa::thompson::{NFA, WhichCaptures};
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};
use std::collections::HashSet;

/// What may be before and behind the place where a search begins: at an end, a word, something
/// else, and the ends of lines.
const AROUND: [(&[u8], usize); 5] = [
    (b"", 0),
    (b"a a", 1),
    (b" a ", 1),
    (b"\na\n", 1),
    (b"\ra\r", 1),
];

/// Whether all states of an expression's automaton take at most [`REGEX_STATES_BYTES_MAX`].
pub(crate) fn is_bounded(expression: &str, syntax: syntax::Config) -> bool {
    let syntax = syntax.utf8(false);
    [false, true].into_iter().all(|backwards| {
        let program = NFA::config()
            .utf8(false)
            .reverse(backwards)
            .nfa_size_limit(Some(REGEX_REQUEST_PROGRAM_BYTES_MAX))
            .which_captures(WhichCaptures::None);
        let program = NFA::compiler()
            .syntax(syntax)
            .configure(program)
            .build(expression);
        program.is_ok_and(|program| states_fit(program, backwards))
    })
}

/// Makes all states of an automaton; false once they take too much.
fn states_fit(program: NFA, backwards: bool) -> bool {
    let config = DFA::config()
        .cache_capacity(REGEX_STATES_BYTES_MAX)
        .skip_cache_capacity_check(true)
        // Instead of making room it gives up.
        .minimum_cache_clear_count(Some(0));
    let Ok(automaton) = DFA::builder().configure(config).build_from_nfa(program) else {
        return false;
    };
    let mut cache = automaton.create_cache();
    let (mut known, mut waiting) = (HashSet::new(), Vec::new());
    let anchors = match backwards {
        true => &[Anchored::Yes][..],
        false => &[Anchored::No, Anchored::Yes],
    };
    for (around, from) in AROUND {
        for anchored in anchors {
            let input = Input::new(around).range(from..from * 2).anchored(*anchored);
            let start = match backwards {
                true => automaton.start_state_reverse(&mut cache, &input),
                false => automaton.start_state_forward(&mut cache, &input),
            };
            match start {
                Ok(start) if known.insert(start) => waiting.push(start),
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }
    let classes = automaton.byte_classes().representatives(0..=255);
    let bytes: Vec<u8> = classes.filter_map(|class| class.as_u8()).collect();
    while let Some(state) = waiting.pop() {
        if state.is_dead() || state.is_quit() {
            continue;
        }
        for byte in &bytes {
            match automaton.next_state(&mut cache, state, *byte) {
                Ok(next) if known.insert(next) => waiting.push(next),
                Ok(_) => {}
                Err(_) => return false,
            }
        }
        if automaton.next_eoi_state(&mut cache, state).is_err() {
            return false;
        }
    }
    true
}
