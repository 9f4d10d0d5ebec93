//! Groups as their embedder sees them: in lives of random faults, in scripts, and byte by byte.

mod bytes;
mod check;
mod disk;
mod host;
mod promises;
mod random;
mod script;
mod wanted;
mod world;
