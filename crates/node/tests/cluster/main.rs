//! Three nodes of a cluster in one thread: real connections fed by bytes, real shards on stores in
//! memory, and a network that the test holds in its hands.

mod client;
mod damaged;
mod line_session;
mod script;
mod views;
mod world;

mod active;
mod alarms;
mod claims;
mod classic;
mod confirmed;
mod flows;
mod line;
mod members;
mod outdated;
mod overdue;
mod parts;
mod quorum;
mod random;
mod recalled;
mod stopped;
mod streams;
mod turns;
mod view_members;
