//! Whole nodes on real sockets and files, in this process. What needs a process for itself lies
//! beside this folder.
//!
//! All in one program, as to link each by itself takes longer than most of them run.

mod client;
mod cluster;
mod dead_letters;
mod full_disk;
mod import;
mod memory_full;
mod messages;
mod node;
mod permissions;
mod stream_client;
mod stream_permissions;
mod streams;
mod tls;
