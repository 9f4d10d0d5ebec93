//! An allocator that counts what the whole process allocates: for a test that is alone in its
//! program.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes that are allocated.
pub static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
/// The most that were at once.
pub static MOST_BYTES: AtomicUsize = AtomicUsize::new(0);
/// Allocations that were made.
pub static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with a count.
struct Counting;

fn grown(by: usize) {
    ALLOCATIONS.fetch_add(1, Relaxed);
    let live = LIVE_BYTES.fetch_add(by, Relaxed) + by;
    MOST_BYTES.fetch_max(live, Relaxed);
}

// An allocator is an unsafe trait; this one only counts and hands on.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grown(size);
        LIVE_BYTES.fetch_sub(layout.size(), Relaxed);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
