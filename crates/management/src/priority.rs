//! How threads that work for operators leave the processors to those that serve clients of queues.

/// How much less urgent they are: who lists everything uses what the others leave, a third of a
/// processor where they leave nothing.
const NICENESS: i32 = 5;

/// Rows that are made, or written, before whoever else waits for the processor has it.
const ROWS_A_TURN: usize = 8;

/// Makes the calling thread less urgent than those that serve clients of queues.
pub fn let_clients_go_first() {
    // Where the system refuses, it is as urgent as others.
    let _ = rustix::process::setpriority_process(None, NICENESS);
}

/// Has others run, every few rows. Clients of queues wait for a processor otherwise until this
/// thread's time slice is over, which is milliseconds, for all that it is less urgent: a system
/// that does not interrupt one thread for another looks at neither until then.
pub(crate) fn let_others_run(row: usize) {
    if row.is_multiple_of(ROWS_A_TURN) {
        std::thread::yield_now();
    }
}
