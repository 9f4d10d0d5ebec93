//! How urgent the threads of the server are, beside those that serve clients of queues.

/// How much less urgent those that do the work are: who lists everything uses what clients of
/// queues leave, a third of a processor where they leave nothing.
pub(crate) const WORK: i32 = 5;
/// How much less urgent the one is that computes handshakes of strangers. It is as much as for
/// their logins: at a tenth of a processor they are still computed where all are busy.
pub(crate) const STRANGERS: i32 = 10;

/// Makes the calling thread less urgent by this much.
pub(crate) fn stand_back(niceness: i32) {
    // Where the system refuses, it is as urgent as others.
    let _ = rustix::process::setpriority_process(None, niceness);
}
