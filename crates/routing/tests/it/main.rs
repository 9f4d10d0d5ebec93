//! The router from outside.
//!
//! All in one program, as to link each by itself takes longer than most of them run.

mod bounds;
mod script;
