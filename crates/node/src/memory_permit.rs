//! Whether there is memory left for something new. Publishers wait from the memory watermark on;
//! what is declared takes memory for good, and counts only near the end of it.

use crate::env::{Alarms, Env};
use leveret_cluster::alarms_together;
use leveret_metadata::{Catalogue, CatalogueError, Command};

/// Permits all commands but those that make something new while a node of the cluster uses nearly
/// all memory that it may.
///
/// # Errors
/// [`CatalogueError::NoMemory`].
pub fn permit<E: Env>(command: &Command, env: &E) -> Result<(), CatalogueError> {
    match alarms_together(env) {
        alarms if alarms.memory_full => permit_in(&env.catalogue(), command, alarms),
        _ => Ok(()),
    }
}

/// The same under these alarms, of a catalogue that is borrowed.
///
/// # Errors
/// [`CatalogueError::NoMemory`].
pub fn permit_in(
    catalogue: &Catalogue,
    command: &Command,
    alarms: Alarms,
) -> Result<(), CatalogueError> {
    match alarms.memory_full && catalogue.would_create(command) {
        true => Err(CatalogueError::NoMemory),
        false => Ok(()),
    }
}
