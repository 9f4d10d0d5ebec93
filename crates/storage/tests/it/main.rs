//! The store from outside: on disks in memory, whole and spoiled.
//!
//! All in one program, as to link each by itself takes longer than most of them run.

mod absent;
mod backlog;
mod bounds;
mod cache;
mod common;
mod cut_short;
mod cut_under_way;
mod failed_syncs;
mod fan_out;
mod faults;
mod few_of_many;
mod full_disk;
mod gathering;
mod golden;
mod golden_streams;
mod inspected;
mod large;
mod marked_streams;
mod missing_segments;
mod model;
mod named;
mod placement;
mod power_cuts;
mod rebuild;
mod refused;
mod renew;
mod shards;
mod shared;
mod space;
mod starts;
mod stream;
mod streams_together;
mod told_again;
