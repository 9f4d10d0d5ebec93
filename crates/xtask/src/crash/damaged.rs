//! A node whose disk has changed what streams wrote to it, under load: it is killed, bits of
//! segments are turned over, and it starts again. What is damaged is reported, is read from there
//! by nobody, and is copied again from another replica.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::ledger::Ledger;
use super::scenarios::{await_member, await_that, number_of};
use super::stream_ledger::STREAMS;
use super::streams;
use crate::broker::Broker;
use crate::cluster::Cluster;

/// The ends of names of segments' files of streams.
const SEGMENT: &str = "stream";
/// What a node's log says of a stream of which something cannot be read.
const COMPLAINT: &str = "is damaged";
/// Bytes in the middle of a file of which bits are turned over, and how far apart: no padding is as
/// long.
const DAMAGED_BYTES: usize = 2_048;
const APART_BYTES: usize = 64;

/// Damages all segments of each stream at a node but the newest, whose end a crash may leave torn.
pub fn replica(cluster: &mut Cluster, ledger: &Ledger, damaged: usize) -> Result<()> {
    let other = (damaged + 1) % cluster.nodes.len();
    let number = number_of(cluster, damaged)?;
    let data = cluster.nodes[damaged].folder.join("data");
    await_that("each stream has segments that are full", || {
        Ok(full_segments(&data)?.len() >= STREAMS)
    })?;
    let before = complaints(&cluster.nodes[damaged])?;
    ledger.allow_breaks(Some(cluster.amqp(damaged)));
    cluster.nodes[damaged].kill()?;
    for path in full_segments(&data)?.into_values().flatten() {
        turn_bits(&path)?;
    }
    cluster.launch(&[damaged])?;
    await_member(cluster, other, number, "is up", |node| node["up"] == true)?;
    for stream in 0..STREAMS {
        streams::read_again(&streams::nodes_of(cluster), (damaged, stream), ledger)?;
    }
    if complaints(&cluster.nodes[damaged])? == before {
        ledger.accuse(format!(
            "streams were damaged, and the node does not say that one {COMPLAINT}"
        ));
    }
    Ok(())
}

/// The files of each stream that has several, without its newest, by what their names begin with.
fn full_segments(data: &Path) -> Result<BTreeMap<String, Vec<PathBuf>>> {
    let mut files = Vec::new();
    add_files(data, &mut files)?;
    files.sort();
    let mut of_streams: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for path in files {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // Stream and first offset, each of as many digits as there may be.
        if let Some((stream, _)) = name.split_once('-') {
            of_streams.entry(stream.to_owned()).or_default().push(path);
        }
    }
    of_streams.values_mut().for_each(|files| drop(files.pop()));
    of_streams.retain(|_, files| !files.is_empty());
    Ok(of_streams)
}

fn add_files(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    // What is deleted meanwhile is not looked for.
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(());
    };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            add_files(&path, found)?;
        } else if path.extension().is_some_and(|end| end == SEGMENT) {
            found.push(path);
        }
    }
    Ok(())
}

fn turn_bits(path: &Path) -> Result<()> {
    let damage = || {
        let mut bytes = fs::read(path)?;
        turn_bits_of(&mut bytes);
        fs::write(path, bytes)
    };
    damage().with_context(|| format!("damage {}", path.display()))
}

/// Turns over bits in the middle of what is not zero.
fn turn_bits_of(bytes: &mut [u8]) {
    let end = bytes.iter().rposition(|byte| *byte != 0);
    let middle = end.unwrap_or(0) / 2;
    let part = bytes.iter_mut().skip(middle).take(DAMAGED_BYTES);
    part.step_by(APART_BYTES).for_each(|byte| *byte ^= 1);
}

/// Lines of a node's log that say of a stream that it is damaged.
fn complaints(node: &Broker) -> Result<usize> {
    let log = fs::read_to_string(node.log()).context("a node's log")?;
    Ok(log.matches(COMPLAINT).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_damaged_is_longer_than_any_padding_and_no_end() {
        let mut bytes = vec![0xAA; 100_000];
        bytes.extend_from_slice(&[0; 50_000]);
        turn_bits_of(&mut bytes);
        let turned: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == 0xAB).collect();
        assert_eq!(turned.len(), DAMAGED_BYTES / APART_BYTES);
        assert_eq!(turned.first(), Some(&(99_999 / 2)));
        assert_eq!(bytes.iter().filter(|byte| **byte == 0).count(), 50_000);
    }
}
