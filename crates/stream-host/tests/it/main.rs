//! The streams of a node from outside, on disks in memory.
//!
//! All in one program, as to link each by itself takes longer than most of them run.

mod common;
mod damage;
mod early;
mod fences;
mod handovers;
mod marks;
mod readers;
mod reads;
mod replicas;
mod turns;
