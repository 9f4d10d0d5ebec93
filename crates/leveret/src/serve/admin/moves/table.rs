//! The moves that a node tells of: few that run, and the newest of those that have ended.

use leveret_management::api::{Move, MoveEnd};
use leveret_types::limits::{
    MOVE_PLACES_MAX, MOVES_MAX, MOVES_RUNNING_MAX, MOVES_RUNNING_PER_USER_MAX,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What counts together what is beyond [`MOVE_PLACES_MAX`].
const OTHERS: &str = "(others)";

/// The moves of a node, oldest first.
#[derive(Debug, Default)]
pub struct Moves(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    last: u64,
    moves: VecDeque<Arc<Begun>>,
}

/// One move.
#[derive(Debug)]
pub struct Begun {
    told: Mutex<Move>,
    stops: AtomicBool,
}

impl Moves {
    /// Notes a move that begins, under a number of its own.
    ///
    /// # Errors
    /// If as many run as may, of all users or of this one.
    pub fn begin(&self, mut told: Move) -> Result<Arc<Begun>, &'static str> {
        let mut table = locked(&self.0);
        let running = || table.moves.iter().filter(|begun| begun.runs());
        if running().count() >= MOVES_RUNNING_MAX {
            return Err("as many moves of messages run on this node as may: try again later");
        }
        let of_user = running().filter(|begun| begun.told().user == told.user);
        if of_user.count() >= MOVES_RUNNING_PER_USER_MAX {
            return Err(
                "as many moves of messages of this user run on this node as may: \
                        wait for one to end, or stop it",
            );
        }
        if table.moves.len() >= MOVES_MAX
            && let Some(oldest) = table.moves.iter().position(|begun| !begun.runs())
        {
            table.moves.remove(oldest);
        }
        table.last += 1;
        told.number = table.last;
        let begun = Arc::new(Begun {
            told: Mutex::new(told),
            stops: AtomicBool::new(false),
        });
        table.moves.push_back(Arc::clone(&begun));
        Ok(begun)
    }

    /// All that are known.
    pub fn all(&self) -> Vec<Move> {
        let table = locked(&self.0);
        table
            .moves
            .iter()
            .map(|begun| begun.told().clone())
            .collect()
    }

    /// Has the move of this number stop; whether it is known.
    pub fn stop(&self, number: u64) -> bool {
        let table = locked(&self.0);
        let found = table
            .moves
            .iter()
            .find(|begun| begun.told().number == number);
        if let Some(begun) = found {
            begun.stops.store(true, Ordering::Relaxed);
        }
        found.is_some()
    }
}

impl Begun {
    /// How far it is.
    pub fn told(&self) -> MutexGuard<'_, Move> {
        locked(&self.told)
    }

    fn runs(&self) -> bool {
        self.told().end.is_none()
    }

    /// Whether somebody wants it to stop.
    pub fn stops(&self) -> bool {
        self.stops.load(Ordering::Relaxed)
    }

    /// It has ended.
    pub fn end(&self, now_ms: u64, end: MoveEnd) {
        self.told().end = Some((now_ms, end));
    }

    /// It could not go on.
    pub fn fail(&self, now_ms: u64, why: String) {
        self.end(now_ms, MoveEnd::Failed(why));
    }

    /// A message went there, or would go.
    pub fn moved(&self, to: &str) {
        count(&mut self.told().moved, to);
    }

    /// A message stays, for this reason.
    pub fn kept(&self, why: &str) {
        count(&mut self.told().kept, why);
    }
}

/// Whoever panicked under a lock left whole values.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn count(counts: &mut BTreeMap<String, u64>, what: &str) {
    let is_others = counts.len() >= MOVE_PLACES_MAX && !counts.contains_key(what);
    let what = if is_others { OTHERS } else { what };
    *counts.entry(what.to_owned()).or_default() += 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(user: impl ToString) -> Move {
        Move {
            user: user.to_string(),
            ..Move::default()
        }
    }

    #[test]
    fn few_moves_run_at_once() {
        let moves = Moves::default();
        let begun: Vec<_> = (0..MOVES_RUNNING_MAX)
            .map(|user| moves.begin(by(user)).expect("one more"))
            .collect();
        assert!(moves.begin(by("new")).is_err());
        begun[0].end(1, MoveEnd::Done);
        assert!(moves.begin(by("new")).is_ok());
    }

    #[test]
    fn one_user_leaves_places_to_others() {
        let moves = Moves::default();
        let begun: Vec<_> = (0..MOVES_RUNNING_PER_USER_MAX)
            .map(|_| moves.begin(by("greedy")).expect("one more"))
            .collect();
        let refused = moves.begin(by("greedy")).expect_err("one too many");
        assert!(refused.contains("this user"), "{refused}");
        assert!(moves.begin(by("other")).is_ok());
        begun[0].end(1, MoveEnd::Done);
        assert!(moves.begin(by("greedy")).is_ok());
    }

    #[test]
    fn the_newest_are_told_of_and_those_that_run() {
        let moves = Moves::default();
        let _runs = moves.begin(Move::default()).expect("it runs");
        for _ in 1..MOVES_MAX {
            let begun = moves.begin(Move::default()).expect("one more");
            begun.end(1, MoveEnd::Done);
        }
        let numbers = || {
            moves
                .all()
                .iter()
                .map(|told| told.number)
                .collect::<Vec<_>>()
        };
        let most = MOVES_MAX as u64;
        assert_eq!(numbers(), (1..=most).collect::<Vec<_>>());
        moves.begin(Move::default()).expect("one more");
        let expected: Vec<u64> = [1].into_iter().chain(3..=most + 1).collect();
        assert_eq!(numbers(), expected);
        assert!(moves.stop(1) && !moves.stop(2));
    }

    #[test]
    fn so_many_queues_are_told_apart() {
        let mut counts = BTreeMap::new();
        for at in 0..MOVE_PLACES_MAX {
            count(&mut counts, &format!("q{at:02}"));
        }
        count(&mut counts, "q00");
        assert_eq!((counts.len(), counts["q00"]), (MOVE_PLACES_MAX, 2));
        count(&mut counts, "new");
        count(&mut counts, "newer");
        assert_eq!((counts.len(), counts[OTHERS]), (MOVE_PLACES_MAX + 1, 2));
    }
}
