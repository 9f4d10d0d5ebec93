//! What `x-recent-history` exchanges remember, and the queues that are bound to them.

use crate::world::World;
use leveret_types::NodeId;
use leveret_types::limits::RECENT_HISTORY_PIECE_MESSAGES;

#[test]
fn a_queue_that_is_bound_gets_all_that_is_remembered_once_and_in_order() {
    const MANY: usize = 2 * RECENT_HISTORY_PIECE_MESSAGES + 50;
    let mut world = World::new(1);
    world.connect("a", NodeId(1));
    world.rest();
    let exchange = format!("exchange recent x-recent-history x-recent-history-length={MANY}");
    world.say("a", &exchange);
    for number in 0..=MANY {
        world.say("a", &format!("publish-to recent k m{number}"));
    }
    world.say("a", "declare q");
    world.say("a", "bind q recent k");
    world.pass(1_000);
    world.heard();
    let mut got = Vec::new();
    loop {
        world.say("a", "get q noack");
        let heard = world.heard();
        match heard.rsplit_once(" m") {
            Some((_, number)) => got.push(number.parse::<usize>().expect("a number")),
            None => break assert_eq!(heard, "a: get-empty"),
        }
    }
    assert_eq!(got, (1..=MANY).collect::<Vec<_>>());
}
