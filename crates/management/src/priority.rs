//! How threads that work for operators leave the processors to those that serve clients of queues.

/// How much less urgent those that do the work are: who lists everything uses what clients of
/// queues leave, a third of a processor where they leave nothing.
pub(crate) const WORK: i32 = 5;
/// How much less urgent the one is that computes handshakes of strangers. It is as much as for
/// their logins: at a tenth of a processor they are still computed where all are busy.
pub(crate) const STRANGERS: i32 = 10;

/// Rows that are made, or written, before whoever else waits for the processor has it.
const ROWS_A_TURN: usize = 8;

/// Makes the calling thread less urgent than those that serve clients of queues, as those are that
/// work for operators.
pub fn let_clients_go_first() {
    stand_back(WORK);
}

/// Makes the calling thread less urgent by this much.
pub(crate) fn stand_back(niceness: i32) {
    // Where the system refuses, it is as urgent as others.
    let _ = rustix::process::setpriority_process(None, niceness);
}

/// Has others run, every few rows. Clients of queues wait for a processor otherwise until this
/// thread's time slice is over, which is milliseconds, for all that it is less urgent: a system
/// that does not interrupt one thread for another looks at neither until then.
pub(crate) fn let_others_run(row: usize) {
    if row.is_multiple_of(ROWS_A_TURN) {
        std::thread::yield_now();
    }
}
