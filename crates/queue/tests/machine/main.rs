//! The queue machine, tried by scripts and against a model.

mod basics;
mod dispatch;
mod expiry;
mod limits;
mod looks;
mod model;
mod quorum;
mod restart;
mod script;
mod world;
