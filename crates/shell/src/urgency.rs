//! How the node's threads share the processors: those that serve clients are woken for little and
//! are done soon, and those that compute for strangers take long.

/// How much less urgent those are that compute for strangers.
const NICENESS: i32 = 10;
/// Nanoseconds that a thread runs before it is another's turn, of those that serve clients: the
/// least that Linux takes.
const TURN_NS: u64 = 100_000;

/// Has this thread run as soon as it is woken: for those that sockets wake.
///
/// Linux lets a thread finish its turn (1.4 to 3 ms) before one that is woken meanwhile, however
/// little urgent the first may be, unless turns of the second are shorter (since 6.12,
/// `PREEMPT_SHORT`). Shares of the processors stay as they are. Older systems, and those that
/// refuse, do as before. Threads of the disks keep long turns: woken at once, they would write less
/// at a time.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "no crate sets this safely; the call reads one structure of plain numbers"
)]
pub(crate) fn serve_promptly() {
    const THIS_THREAD: libc::pid_t = 0;
    const NO_FLAGS: libc::c_uint = 0;
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: TURN_NS,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the pointer is to a structure of the size that it says, which lives throughout; the
    // call writes nothing there.
    unsafe {
        libc::syscall(
            libc::SYS_sched_setattr,
            THIS_THREAD,
            &raw const attributes,
            NO_FLAGS,
        )
    };
}

/// Other systems are not asked.
#[cfg(not(target_os = "linux"))]
pub(crate) const fn serve_promptly() {}

/// Puts this thread behind who is in already: strangers' logins wait for a processor, clients'
/// messages do not. Where the system refuses, it is as urgent as others.
pub(crate) fn give_way() {
    let _ = rustix::process::setpriority_process(None, NICENESS);
}
