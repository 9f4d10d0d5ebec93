//! Streams with replicas: nodes that crash, power cuts, links that are cut and that bring messages
//! twice or in another order, full disks, elections, members that come and go, all by a seed. What
//! was confirmed is never lost, stored twice or put in another order; readers see the same at every
//! replica, and nothing that is not committed. Of a group of consumers no offset is kept that one
//! has stored after another became active.
//!
//! `LEVERET_STREAM_SEEDS` says how many seeds are played, and `LEVERET_STREAM_SEED` which is first.

#![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

mod catalogue;
mod client;
mod group;
mod ledger;
mod network;
mod node;
mod world;

use world::{Planted, play};

fn number(name: &str, default: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.map_or(default, |text| text.parse().unwrap())
}

#[test]
fn what_was_confirmed_is_kept_in_order_and_once() {
    let first = number("LEVERET_STREAM_SEED", 0);
    let seeds = number("LEVERET_STREAM_SEEDS", 500);
    for seed in first..first + seeds {
        let played = std::panic::catch_unwind(|| play(seed, Planted::default()));
        assert!(played.is_ok(), "seed {seed}");
    }
}

/// Whether one of some seeds finds what is planted.
fn finds(planted: Planted) -> bool {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let is_found = (0..2_000).any(|seed| std::panic::catch_unwind(|| play(seed, planted)).is_err());
    std::panic::set_hook(hook);
    is_found
}

#[test]
fn planted_bugs_are_found() {
    let planted = [
        Planted {
            confirms_early: true,
            ..Planted::default()
        },
        Planted {
            ignores_log_epoch: true,
            ..Planted::default()
        },
        Planted {
            trusts_lengths: true,
            ..Planted::default()
        },
        Planted {
            takes_stale_offsets: true,
            ..Planted::default()
        },
    ];
    for planted in planted {
        assert!(finds(planted), "{planted:?}");
    }
}
