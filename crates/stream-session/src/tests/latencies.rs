//! The latency of publishes, from their arrival to their confirm.

use super::{Play, publish};
use leveret_stream::{Event, Refusal};
use leveret_types::{LatencyCounts, Now};

#[test]
fn a_confirm_took_from_the_read_of_its_publish_to_it_and_a_refusal_is_none() {
    let mut play = Play::with_stream();
    let publisher = play.node.publishers[0];
    let confirmed = |ids: Vec<u64>| Event::Confirmed { publisher, ids };
    let drained = |play: &mut Play| {
        let mut drained = LatencyCounts::default();
        play.session.latencies().drain(|counts| drained = *counts);
        (drained.count, drained.total_ms)
    };
    play.bytes(publish(1, &[5, 6]));
    play.now = Now::both(1_010);
    play.bytes(publish(1, &[7, 8]));
    play.now = Now::both(1_030);
    play.hear(confirmed(vec![5]));
    assert_eq!(drained(&mut play), (1, 30));
    play.hear(confirmed(vec![6, 7]));
    assert_eq!(drained(&mut play), (2, 30 + 20));
    play.hear(Event::Refused {
        publisher,
        ids: vec![8],
        refusal: Refusal::NotAvailable("full".to_owned()),
    });
    play.bytes(publish(1, &[9]));
    play.now = Now::both(1_035);
    play.hear(confirmed(vec![9]));
    assert_eq!(drained(&mut play), (1, 5));
    // Nobody has that.
    play.hear(confirmed(vec![10]));
    assert_eq!(play.session.totals().confirmed, 5);
}
