//! Simulated disks, nodes and networks: the storage engine with crashes at every moment, lost and
//! garbled sectors, failing calls and corruption; clusters with lost, late and doubled messages;
//! and the fuzz targets.
//!
//! Everything follows from a seed: a seed that finds something finds it again.
//!
//! Invariant: nothing here runs in a broker, and no product code is changed for it. Faults are
//! planted at the [`leveret_storage::Disk`], or in what passes between simulated nodes
//! ([`cluster`]).
//! Invariant: no check compares the engine with itself: what must hold is said by [`model`], a list
//! of entries for each log.

pub mod check;
pub mod cluster;
pub mod disk;
pub mod explore;
pub mod faults;
pub mod file_system;
pub mod fleet;
pub mod fuzz;
pub mod model;
pub mod world;

pub use disk::SimDisk;
pub use leveret_amqp::fuzz::Random;
