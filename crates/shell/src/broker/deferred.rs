//! Work that shards hand over, because it needs the catalogue or several shards.
//!
//! Invariant: one thread at a time carries it out, so that its order is kept.

use leveret_node::Env;
use leveret_queue_host::shard::Deferred;
use leveret_routing::Scratch;
use leveret_types::Now;
use leveret_types::limits::{DEFERRED_WAITING_BYTES_MAX, DEFERRED_WAITING_MAX, TURN_WORK_MAX};
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};

/// Items for which room is kept when there are none.
const ITEMS_KEPT: usize = 4_096;

/// How much there is, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum Load {
    /// Nothing.
    None,
    /// Some, for whoever comes.
    Some,
    /// The rest of somebody's turn, for the timers' thread.
    Rest,
    /// So much that whoever makes more carries out as much.
    TooMuch,
}

impl Load {
    const ALL: [Self; 4] = [Self::None, Self::Some, Self::Rest, Self::TooMuch];
}

/// What waits, in order.
#[derive(Default)]
struct Waiting {
    items: VecDeque<Deferred>,
    /// Of their messages.
    bytes: usize,
    /// Whether it is the timers' thread that carries it out: until nothing is left.
    is_rest: bool,
    /// How many were taken so far.
    taken: usize,
}

impl Waiting {
    fn load(&self) -> Load {
        match self.items.len() {
            0 => Load::None,
            count if count > DEFERRED_WAITING_MAX => Load::TooMuch,
            _ if self.bytes > DEFERRED_WAITING_BYTES_MAX => Load::TooMuch,
            _ if self.is_rest => Load::Rest,
            _ => Load::Some,
        }
    }

    fn push(&mut self, item: Deferred) {
        self.bytes += bytes_of(&item);
        self.items.push_back(item);
    }

    fn pop(&mut self) -> Option<Deferred> {
        let item = self.items.pop_front();
        match &item {
            Some(item) => {
                self.bytes -= bytes_of(item);
                self.taken += 1;
            }
            None => {
                self.is_rest = false;
                // Of a spike no room is kept.
                self.items.shrink_to(ITEMS_KEPT);
            }
        }
        item
    }
}

/// Bytes of the message that an item is about.
fn bytes_of(item: &Deferred) -> usize {
    match item {
        Deferred::DeadLetter(dead) => dead.message.weight(),
        Deferred::Publish { message, .. } => message.weight(),
        _ => 0,
    }
}

thread_local! {
    /// Items that this thread has handed over, and done none for yet.
    static MADE: Cell<usize> = const { Cell::new(0) };
}

/// See the module's description.
pub(super) struct DeferredWork {
    waiting: Mutex<Waiting>,
    /// What [`Waiting::load`] says: asked without the lock, written under it.
    load: AtomicU8,
    /// Held by whoever carries it out.
    runner: Mutex<Scratch>,
}

impl DeferredWork {
    /// None yet; `wall_ms` is the time of day.
    pub(super) fn new(wall_ms: u64) -> Self {
        Self {
            waiting: Mutex::default(),
            load: AtomicU8::new(Load::None as u8),
            runner: Mutex::new(Scratch::new(wall_ms)),
        }
    }

    pub(super) fn push(&self, work: Deferred) {
        MADE.set(MADE.get() + 1);
        self.change(|waiting| waiting.push(work));
    }

    /// Takes all that a shard hands over.
    pub(super) fn append(&self, work: &mut Vec<Deferred>) {
        if !work.is_empty() {
            MADE.set(MADE.get() + work.len());
            self.change(|waiting| work.drain(..).for_each(|item| waiting.push(item)));
            // Of a spike no room is kept.
            work.shrink_to(ITEMS_KEPT);
        }
    }

    /// Carries out a turn of what there is. Where that is more than may be left, it is as much as
    /// this thread has handed over, so that nobody gets ahead of the work, and nobody else stands
    /// still for it. Where another thread is at it, or has left a rest, that is left, too. Answers
    /// whether there is a rest now: [`Self::go_on`] is to be called. Nothing may be borrowed.
    pub(super) fn run<E: Env>(&self, now: Now, env: &E) -> bool {
        self.run_by(|scratch| self.turn(scratch, now, env))
    }

    /// What this thread has handed over is left to [`Self::go_on`], however much it is: for the one
    /// that calls that, and has other things to do in between.
    pub(super) fn leave(&self) {
        MADE.set(0);
    }

    /// Carries out a turn of the rest that others have left. Answers whether it is to be called
    /// again. For one thread. Nothing may be borrowed.
    pub(super) fn go_on<E: Env>(&self, now: Now, env: &E) -> bool {
        self.go_on_by(|scratch| self.turn(scratch, now, env))
    }

    /// Carries out all there is, in turns, unless it `is_over` before. Nothing may be borrowed.
    /// Answers how many items are left.
    pub(super) fn finish<E: Env>(&self, is_over: impl Fn() -> bool, now: Now, env: &E) -> usize {
        while self.load() != Load::None && !is_over() {
            self.turn(&mut self.runner.lock(), now, env);
        }
        self.waiting.lock().items.len()
    }

    /// How much there is.
    fn load(&self) -> Load {
        Load::ALL[usize::from(self.load.load(Ordering::Acquire))]
    }

    fn change<R>(&self, change: impl FnOnce(&mut Waiting) -> R) -> R {
        let mut waiting = self.waiting.lock();
        let result = change(&mut waiting);
        self.load.store(waiting.load() as u8, Ordering::Release);
        result
    }

    /// One turn; answers what was done, in units.
    fn turn<E: Env>(&self, scratch: &mut Scratch, now: Now, env: &E) -> usize {
        leveret_node::deferred::run(|| self.next(), scratch, now, env)
    }

    /// The item that comes next. Once there is none, what comes after is for whoever comes.
    fn next(&self) -> Option<Deferred> {
        self.change(Waiting::pop)
    }

    /// [`Self::run`], by turns that take what [`Self::next`] gives.
    fn run_by(&self, mut turn: impl FnMut(&mut Scratch) -> usize) -> bool {
        let made = MADE.take();
        let (mut done, mut items) = (0, 0);
        loop {
            let mut scratch = match self.load() {
                Load::None | Load::Rest => return false,
                Load::Some => match self.runner.try_lock() {
                    Some(scratch) => scratch,
                    None => return false,
                },
                Load::TooMuch if items >= made => return self.leave_rest(),
                Load::TooMuch => self.runner.lock(),
            };
            let before = self.taken();
            done += turn(&mut scratch);
            items += self.taken() - before;
            drop(scratch);
            match self.look_again(done >= TURN_WORK_MAX) {
                Load::None => return false,
                Load::Rest => return true,
                Load::Some | Load::TooMuch => {}
            }
        }
    }

    /// What there is is a rest; whether it was none before.
    fn leave_rest(&self) -> bool {
        self.change(|waiting| !std::mem::replace(&mut waiting.is_rest, !waiting.items.is_empty()))
    }

    /// How many items were taken to be carried out: those of one turn while that goes on.
    fn taken(&self) -> usize {
        self.waiting.lock().taken
    }

    /// [`Self::go_on`], by such turns.
    fn go_on_by(&self, mut turn: impl FnMut(&mut Scratch) -> usize) -> bool {
        if self.load() < Load::Rest {
            return false;
        }
        // Whoever is at it looks again, and tells of the rest.
        let Some(mut scratch) = self.runner.try_lock() else {
            return false;
        };
        turn(&mut scratch);
        drop(scratch);
        self.look_again(true) != Load::None
    }

    /// How much there is once this thread is at it no more: who came before that has left its work.
    /// Asked under the lock, under which that one left it. Where this thread's turn is over, it is
    /// a rest.
    fn look_again(&self, is_turn_over: bool) -> Load {
        self.change(|waiting| {
            waiting.is_rest |= is_turn_over && !waiting.items.is_empty();
            waiting.load()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_types::message::MessageSummary;
    use leveret_types::{ConnectionId, ConsumerId, Message, MessageParts};
    use std::cell::RefCell;

    /// Items that are a turn's work.
    const TURN_ITEMS: usize = 4;

    fn numbered(number: u64) -> Deferred {
        Deferred::TimedOut {
            connection: ConnectionId(number),
            consumer: ConsumerId(0),
        }
    }

    struct World {
        work: DeferredWork,
        done: RefCell<Vec<u64>>,
    }

    impl World {
        fn new(items: u64) -> Self {
            let work = DeferredWork::new(0);
            work.append(&mut (0..items).map(numbered).collect());
            let done = RefCell::default();
            Self { work, done }
        }

        /// A turn, in which `meanwhile` happens behind each item.
        fn turn(&self, meanwhile: impl Fn(u64)) -> usize {
            let mut count = 0;
            while count < TURN_ITEMS
                && let Some(item) = self.work.next()
            {
                count += 1;
                if let Deferred::TimedOut { connection, .. } = item {
                    self.done.borrow_mut().push(connection.0);
                    meanwhile(connection.0);
                }
            }
            count * TURN_WORK_MAX / TURN_ITEMS
        }

        fn run(&self) -> bool {
            self.work.run_by(|_| self.turn(|_| {}))
        }

        fn go_on(&self) -> bool {
            self.work.go_on_by(|_| self.turn(|_| {}))
        }

        fn done(&self) -> Vec<u64> {
            std::mem::take(&mut self.done.borrow_mut())
        }
    }

    #[test]
    fn who_comes_does_one_turn_and_the_rest_goes_on_in_its_order_elsewhere() {
        let world = World::new(10);
        assert!(world.run(), "there is a rest");
        assert_eq!(world.done(), [0, 1, 2, 3]);
        world.work.push(numbered(10));
        assert!(!world.run(), "it is somebody else's");
        assert_eq!(world.done(), [] as [u64; 0]);
        assert!(world.go_on());
        assert_eq!(world.done(), [4, 5, 6, 7]);
        assert!(!world.go_on(), "that was all");
        assert_eq!(world.done(), [8, 9, 10]);
        world.work.push(numbered(11));
        assert!(!world.go_on(), "it is no rest");
        assert!(!world.run());
        assert_eq!(world.done(), [11], "for whoever comes again");
    }

    #[test]
    fn who_comes_while_another_is_at_it_leaves_its_work_to_that_one() {
        let world = World::new(1);
        let meanwhile = |number| {
            if number < 2 {
                world.work.push(numbered(number + 1));
                assert!(!world.run(), "another is at it");
            }
        };
        assert!(!world.work.run_by(|_| world.turn(meanwhile)));
        assert_eq!(world.done(), [0, 1, 2]);
    }

    #[test]
    fn what_comes_behind_the_last_item_of_a_turn_is_no_rest_before_that_is_over() {
        let world = World::new(1);
        let is_first = std::cell::Cell::new(true);
        let turn = |_: &mut Scratch| {
            let done = world.turn(|_| {});
            if is_first.replace(false) {
                world.work.push(numbered(1));
            }
            done
        };
        assert!(!world.work.run_by(turn), "nobody else is woken for it");
        assert_eq!(world.done(), [0, 1]);
    }

    #[test]
    fn who_makes_more_than_may_be_left_stays_until_no_more_is_left() {
        let max = DEFERRED_WAITING_MAX as u64;
        let world = World::new(max + 9);
        assert!(world.run());
        assert_eq!(world.done().len(), 12, "whole turns");
        // The rest is for the timers' thread, but what makes it too much again is not.
        world.work.append(&mut (0..4).map(numbered).collect());
        assert!(world.run());
        assert_eq!(world.done().len(), TURN_ITEMS);
        assert!(!world.run());
        assert!(world.go_on());
    }

    #[test]
    fn who_has_made_none_of_it_does_not_stay_however_much_there_is() {
        let world = World::new(DEFERRED_WAITING_MAX as u64 + 9);
        std::thread::scope(|scope| {
            let stranger = scope.spawn(|| {
                let is_rest = world.work.run_by(|_| unreachable!("none of it is theirs"));
                assert!(is_rest, "the timers' thread is told");
                assert!(!world.work.run_by(|_| unreachable!()), "once");
                world.work.push(numbered(0));
                let mut turns = 0;
                world.work.run_by(|_| {
                    turns += 1;
                    world.work.next().map_or(0, |_| 1)
                });
                turns
            });
            assert_eq!(stranger.join().unwrap(), 1, "as much as they made");
        });
        world.work.leave();
        world.work.run_by(|_| unreachable!("it is left"));
        assert!(world.go_on(), "and done in turns");
        assert_eq!(world.done().len(), TURN_ITEMS);
    }

    #[test]
    fn no_room_is_kept_for_the_most_that_there_was_at_a_time() {
        let mut made: Vec<_> = (0..3 * ITEMS_KEPT as u64).map(numbered).collect();
        let work = DeferredWork::new(0);
        work.append(&mut made);
        assert!(made.is_empty() && made.capacity() <= 2 * ITEMS_KEPT);
    }

    #[test]
    fn large_messages_are_too_much_though_they_are_few() {
        let world = World::new(0);
        let body = vec![0; DEFERRED_WAITING_BYTES_MAX / 4];
        let parts = MessageParts {
            exchange: b"",
            routing_key: b"",
            properties: b"",
            body: &body,
        };
        let message = Message::from_parts(parts, MessageSummary::default());
        for _ in 0..9 {
            world.work.push(Deferred::Publish {
                vhost: String::new(),
                message: message.clone(),
                delayed: None,
            });
        }
        assert!(world.run());
        assert_eq!(world.work.waiting.lock().items.len(), 1, "two turns");
        assert!(!world.go_on());
        assert_eq!(world.work.waiting.lock().bytes, 0);
    }
}
