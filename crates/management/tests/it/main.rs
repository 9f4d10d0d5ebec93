//! The tests of the HTTP API, in one binary: each of them would be linked for as long as all of
//! them. What counts of a whole process has a binary of its own (`unread.rs`, `bodies.rs`).

#[path = "../api/mod.rs"]
mod api;
#[path = "../fake/certificate.rs"]
mod certificate;
#[path = "../client/mod.rs"]
mod client;
#[path = "../document/mod.rs"]
mod document;
#[path = "../fake/mod.rs"]
mod fake;

mod answers;
mod browsers;
mod catalogue;
mod definitions_pieces;
mod delayed;
mod http;
mod insight;
mod live;
mod logins;
mod lookups;
mod openapi;
mod operators;
mod pairs;
mod parts;
mod queue_search;
mod quorum;
mod rate_limit;
mod read_barriers;
mod samples;
mod scrapes;
mod streams;
mod tls;
mod unacked;
