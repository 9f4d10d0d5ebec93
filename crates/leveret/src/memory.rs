//! What the allocator keeps of memory that is free.
//!
//! glibc raises two of its thresholds whenever a larger buffer is freed: below them nothing goes
//! back to the system, and each thread's arena keeps megabytes that it once used. A broker has a
//! few large buffers and many small ones, so this is most of what it would hold without need: 12 MB
//! beside 35 MB with 500,000 messages waiting. Setting a threshold stops its growth.
//!
//! After a spike of small buffers it still keeps nearly all of them, since only the top of an arena
//! goes back by itself. [`give_back`] has it look through the whole: `docs/performance.md` compares
//! that with other allocators.

/// Buffers of this size and more are mapped, and unmapped when they are freed.
const MAPPED_BYTES_MIN: i32 = 128 * 1024;
/// Free bytes at the top of an arena that are given back.
const TRIMMED_BYTES_MIN: i32 = 256 * 1024;

/// Lets the allocator keep little. To be called before there are threads; what the environment
/// (`MALLOC_MMAP_THRESHOLD_`, `MALLOC_TRIM_THRESHOLD_`) says goes first.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(
    unsafe_code,
    reason = "no crate sets these safely; both take plain numbers"
)]
pub fn keep_little() {
    let settings = [
        (
            "MALLOC_MMAP_THRESHOLD_",
            libc::M_MMAP_THRESHOLD,
            MAPPED_BYTES_MIN,
        ),
        (
            "MALLOC_TRIM_THRESHOLD_",
            libc::M_TRIM_THRESHOLD,
            TRIMMED_BYTES_MIN,
        ),
    ];
    for (variable, parameter, bytes) in settings {
        if std::env::var_os(variable).is_none() {
            // SAFETY: sets a number of the allocator's, under its own lock. A number that it does
            // not take changes nothing.
            unsafe { libc::mallopt(parameter, bytes) };
        }
    }
}

/// Other allocators have thresholds of their own.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub const fn keep_little() {}

/// Gives every free page back to the system, in all threads' arenas.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(
    unsafe_code,
    reason = "no crate does this safely; it takes a plain number"
)]
pub fn give_back() {
    // SAFETY: works on the allocator's own lists, under its locks; what is given out stays as it
    // is.
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators are not asked.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub const fn give_back() {}

/// Bytes that the allocator has given out, and bytes that it keeps for later.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "no crate asks this safely; it takes nothing")]
#[must_use]
pub fn allocated() -> (u64, u64) {
    // SAFETY: adds up the allocator's own counts, under its locks.
    let counts = unsafe { libc::mallinfo2() };
    (
        (counts.uordblks + counts.hblkhd) as u64,
        counts.fordblks as u64,
    )
}

/// Other allocators are not asked.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
#[must_use]
pub const fn allocated() -> (u64, u64) {
    (0, 0)
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    #[test]
    fn what_is_allocated_is_counted() {
        let (before, _) = super::allocated();
        let large = std::hint::black_box(vec![1_u8; 64 << 20]);
        let (after, _) = super::allocated();
        assert!(after >= before + (60 << 20), "{before} {after}");
        drop(large);
    }
}
