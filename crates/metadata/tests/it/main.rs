//! The catalogue from outside.
//!
//! All in one program, as to link each by itself takes longer than most of them run.

mod accounts;
mod arguments;
mod cluster;
mod definitions;
mod golden;
mod policies;
mod random;
mod streams;
mod topology;
mod views;
mod world;
