//! Calls that fail, disks that fill, bytes that corruption, and bugs that are planted to see
//! whether they are found.

use crate::check::{Tolerance, Violation};
use crate::disk::{Call, Fault, SimDisk};
use crate::explore::Found;
use crate::file_system::Cut;
use crate::model::Model;
use crate::world::{FAN_OUT_MAX, Refused, Stop, World, open_checked};
use leveret_amqp::fuzz::Random;
use leveret_storage::{OpenError, Recovered};
use leveret_types::{LogId, RangeSet};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

fn found(seed: u64, place: impl Into<String>, violation: Violation) -> Found {
    Found {
        seed,
        place: place.into(),
        violation,
    }
}

/// Whether an error means that the disk is full, which a store must survive.
fn is_full(kind: io::ErrorKind) -> bool {
    kind == io::ErrorKind::StorageFull
}

/// Counts the calls of each kind that a workload makes: how many faults there are to try.
///
/// # Errors
/// A broken promise, without any fault.
pub fn count_calls(seed: u64, steps: u64) -> Result<BTreeMap<Call, u64>, Found> {
    let mut world = World::new(seed);
    world.disk.set_fault(None);
    match (0..steps).try_for_each(|_| world.step()) {
        Ok(()) => Ok(Call::ALL.map(|call| (call, world.disk.count(call))).into()),
        Err(Stop::Violation(violation)) => Err(found(seed, "without a fault", violation)),
        Err(Stop::Ended(why)) => Err(found(seed, "without a fault", Violation::new("I14", why))),
    }
}

/// Runs a workload in which a call fails. The process must end, or refuse and go on when the disk
/// was only full; what comes after must be as if the call had never been made, or had been.
///
/// # Errors
/// A broken promise.
pub fn failing_call(seed: u64, steps: u64, fault: Fault) -> Result<(), Found> {
    failing(seed, steps, fault).map_err(|violation| found(seed, format!("{fault:?}"), violation))
}

fn failing(seed: u64, steps: u64, fault: Fault) -> Result<(), Violation> {
    let mut random = Random::new(seed ^ fault.nth << 8);
    let mut world = World::new(seed);
    world.model.remember();
    world.disk.set_fault(Some(fault));
    let ran = (0..steps).try_for_each(|_| world.step());
    let fired = world.disk.fault_fired();
    let tolerance = if fault.call.changes() {
        Tolerance::None
    } else {
        Tolerance::Damaged(usize::MAX)
    };
    let (disk, mut model) = match ran {
        Err(Stop::Violation(violation)) => return Err(violation),
        Err(Stop::Ended(why)) if !fired => return Err(Violation::new("I14", why)),
        Err(Stop::Ended(_)) => world.into_parts(),
        Ok(()) if fired && fault.call.changes() && !is_full(fault.kind) => {
            return Err(Violation::new(
                "I1",
                "the process went on after a call that failed",
            ));
        }
        Ok(()) => {
            world.disk.set_fault(None);
            match (0..40)
                .try_for_each(|_| world.step())
                .and_then(|()| world.close())
            {
                Ok(parts) => parts,
                Err(Stop::Violation(_)) if tolerance != Tolerance::None => return Ok(()),
                Err(Stop::Violation(violation)) => return Err(violation),
                Err(Stop::Ended(why)) => return Err(Violation::new("I14", why)),
            }
        }
    };
    if random.below(2) == 0 {
        disk.power_cut(&mut Cut::Chance(&mut random));
    } else {
        disk.kill();
    }
    failing_start(&disk, &model, fault.kind, &mut random)?;
    open(&disk, &mut model, tolerance).map(drop)
}

/// A start at which a call fails: refused, and the next one finds everything.
fn failing_start(
    disk: &SimDisk,
    model: &Model,
    kind: io::ErrorKind,
    random: &mut Random,
) -> Result<(), Violation> {
    let call = Call::ALL[random.below(Call::ALL.len() as u64) as usize];
    disk.set_fault(Some(Fault {
        call,
        nth: random.below(8),
        kind,
        sticky: false,
    }));
    let opened = open_checked(disk, &mut model.clone(), Tolerance::Damaged(usize::MAX));
    let fired = disk.fault_fired();
    disk.kill();
    match opened {
        Err(Refused::Open(error)) if !fired => {
            Err(Violation::new("I11", format!("does not open: {error}")))
        }
        Err(Refused::Violation(violation)) => Err(violation),
        _ => Ok(()),
    }
}

fn open(
    disk: &SimDisk,
    model: &mut Model,
    tolerance: Tolerance,
) -> Result<Recovered<SimDisk>, Violation> {
    open_checked(disk, model, tolerance).map_err(|refused| match refused {
        Refused::Violation(violation) => violation,
        Refused::Open(error) => Violation::new("I11", format!("does not open: {error}")),
    })
}

/// A disk that fills up and is emptied again, while the store goes on.
///
/// # Errors
/// A broken promise: above all, if the process ends.
pub fn full_disk(seed: u64) -> Result<u64, Found> {
    let mut world = World::new(seed);
    fill(&mut world, seed).map_err(|violation| found(seed, "on a full disk", violation))?;
    let refused = world.covered.no_space;
    let closed = world.close().map_err(stopped);
    let opened = closed.and_then(|(disk, mut model)| open(&disk, &mut model, Tolerance::None));
    opened.map_err(|violation| found(seed, "after a full disk", violation))?;
    Ok(refused)
}

fn fill(world: &mut World, seed: u64) -> Result<(), Violation> {
    let mut random = Random::new(!seed);
    for _ in 0..3 {
        fill_once(world, &mut random)?;
        world.disk.set_bytes_max(None);
    }
    Ok(())
}

/// Goes on for a while, and then with little room.
fn fill_once(world: &mut World, random: &mut Random) -> Result<(), Violation> {
    (0..random.below(150))
        .try_for_each(|_| world.step())
        .map_err(stopped)?;
    leave_room(&world.disk, random);
    (0..150).try_for_each(|_| world.step()).map_err(stopped)
}

fn leave_room(disk: &SimDisk, random: &mut Random) {
    disk.set_bytes_max(Some(disk.bytes() + random.below(60_000)));
}

/// A disk that fills up and writes elsewhere what is written over, which needs room as well. Then
/// the power goes, and the start after that may find as little room.
///
/// # Errors
/// A broken promise: above all, if the process ends.
pub fn full_copying_disk(seed: u64) -> Result<u64, Found> {
    let mut random = Random::new(!seed.rotate_left(24));
    let mut world = World::new(seed);
    world.disk.copy_on_write();
    let mut refused = 0;
    for life in 1..5 {
        if random.below(2) == 0 {
            world.disk.set_bytes_max(None);
        }
        fill_once(&mut world, &mut random)
            .map_err(|violation| found(seed, format!("life {life}"), violation))?;
        refused += world.covered.no_space;
        let (disk, model) = world.into_parts();
        if random.below(4) > 0 {
            disk.power_cut(&mut Cut::Chance(&mut random));
        }
        if random.below(2) == 0 {
            leave_room(&disk, &mut random);
        }
        // No name of a log is used again, and what kind of world it is stays.
        let opened = reopen(disk, model, seed + 5 * (life << 32));
        world = opened.map_err(|violation| found(seed, format!("start {life}"), violation))?;
    }
    Ok(refused)
}

/// A start that may say that there is no room, and then goes on once there is.
fn reopen(disk: SimDisk, model: Model, seed: u64) -> Result<World, Violation> {
    let opened = match World::open(disk.clone(), model.clone(), seed) {
        Err(Refused::Open(OpenError::NoSpace)) => {
            disk.kill();
            World::open(disk, model, seed)
        }
        opened => opened,
    };
    opened.map_err(|refused| match refused {
        Refused::Violation(violation) => violation,
        Refused::Open(error) => Violation::new("I11", format!("does not open: {error}")),
    })
}

fn stopped(stop: Stop) -> Violation {
    match stop {
        Stop::Violation(violation) => violation,
        Stop::Ended(why) => Violation::new("I14", format!("ended: {why}")),
    }
}

/// What corruption does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corruption {
    /// One bit is flipped.
    Bit,
    /// One sector is replaced by noise.
    Sector,
}

/// A store that is at rest, everything durable and known to be.
fn at_rest(seed: u64, steps: u64) -> Result<(SimDisk, Model), Violation> {
    let mut world = World::new(seed);
    world.model.remember();
    let ran = (0..steps).try_for_each(|_| world.step());
    ran.and_then(|()| world.sync())
        .and_then(|()| world.mark_idle())
        .map_err(stopped)?;
    Ok(world.into_parts())
}

/// Something on the disk rots while the store is at rest. It must be repaired, or reported by the
/// logs that it hit and no others; and gone when an operator has accepted the loss. Says whether
/// any log was damaged.
///
/// # Errors
/// A broken promise.
pub fn corruption(seed: u64, corruption: Corruption) -> Result<bool, Found> {
    let mut place = String::new();
    corrupt(seed, corruption, &mut place).map_err(|violation| found(seed, place, violation))
}

fn corrupt(seed: u64, corruption: Corruption, place: &mut String) -> Result<bool, Violation> {
    let mut random = Random::new(seed.rotate_left(32));
    let (disk, mut model) = at_rest(seed, random.below(500) + 50)?;
    let full = |path: &PathBuf| disk.read(path).is_some_and(|bytes| !bytes.is_empty());
    let files: Vec<PathBuf> = disk.paths().into_iter().filter(full).collect();
    let path = files[random.below(files.len() as u64) as usize].clone();
    disk.tamper(&path, |bytes| {
        let at = random.below(used(bytes) as u64) as usize;
        *place = format!("byte {at} of {}", path.display());
        match corruption {
            Corruption::Bit => bytes[at] ^= 1 << random.below(8),
            Corruption::Sector => {
                let start = at / 512 * 512;
                let end = (start + 512).min(bytes.len());
                bytes[start..end].fill_with(|| random.below(256) as u8);
            }
        }
    });
    let most = if corruption == Corruption::Bit {
        FAN_OUT_MAX as usize
    } else {
        usize::MAX
    };
    match open_checked(&disk, &mut model, Tolerance::Damaged(most)) {
        Ok(recovered) => accept(disk, recovered),
        Err(Refused::Violation(violation)) => Err(violation),
        Err(Refused::Open(_)) if corruption == Corruption::Sector && holds_both_copies(&path) => {
            Ok(true)
        }
        Err(Refused::Open(error)) => Err(Violation::new("I13", format!("does not open: {error}"))),
    }
}

/// Small files hold two copies of what they say, and a sector may hold both.
fn holds_both_copies(path: &Path) -> bool {
    path.extension()
        .is_some_and(|e| e == "checkpoint" || e == "store")
}

/// An operator accepts what is lost, or lets logs begin again. What is left then is what the next
/// start finds, sound.
fn accept(disk: SimDisk, mut recovered: Recovered<SimDisk>) -> Result<bool, Violation> {
    let mut left: BTreeMap<LogId, RangeSet> = BTreeMap::new();
    let mut chunks = Vec::new();
    for shard in &mut recovered.shards {
        let all: Vec<LogId> = shard.log_ids().collect();
        let damaged: Vec<LogId> = all
            .into_iter()
            .filter(|id| shard.damage(*id).is_some())
            .collect();
        for id in damaged {
            match id.0 % 2 {
                0 => drop(shard.accept_loss(id)),
                _ => shard.renew_log(id),
            }
            left.insert(id, shard.live(id));
        }
        shard.seal(&mut chunks);
    }
    while !chunks.is_empty() {
        let written = recovered.wal.write(&mut chunks);
        written.map_err(|error| Violation::new("I13", error.to_string()))?;
    }
    disk.kill();
    let mut model = Model::new(0);
    let reopened = match open_checked(&disk, &mut model, Tolerance::None) {
        Err(Refused::Open(error)) => return Err(Violation::new("I13", error.to_string())),
        // The empty model is not what is checked here.
        _ => leveret_storage::recover(&disk, &crate::world::folders(), &crate::world::options()),
    };
    let reopened = reopened.map_err(|error| Violation::new("I13", error.to_string()))?;
    for log in reopened.logs {
        let Some(live) = left.get(&log.log) else {
            continue;
        };
        if log.damage.is_some() || log.live != *live {
            let what = format!(
                "log {} after the loss was accepted: {:?}",
                log.log, log.damage
            );
            return Err(Violation::new("I13", what));
        }
    }
    Ok(!left.is_empty())
}

/// A bug that a start could have, made at the disk: what such a start would see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// What is damaged is taken for the end of the log, wherever it lies.
    TruncateOnCorruption,
    /// What an earlier use of a file left behind is taken for new.
    StaleRecords,
    /// What a chunk refers to is looked for in another place of the file.
    StrayReferences,
}

/// Runs a store whose start has this bug. Without it, no seed finds anything.
///
/// # Errors
/// The bug, when the checks have found it.
pub fn planted(seed: u64, bug: Planted) -> Result<(), Found> {
    let mut random = Random::new(seed.rotate_left(48));
    let place = format!("{bug:?}");
    let steps = random.below(500) + 100;
    let (disk, mut model) = at_rest(seed, steps).map_err(|v| found(seed, "before the bug", v))?;
    let is_wal = |path: &PathBuf| path.extension().is_some_and(|e| e == "wal");
    let files: Vec<PathBuf> = disk.paths().into_iter().filter(is_wal).collect();
    let Some(newest) = files.last() else {
        return Ok(());
    };
    let tolerance = match bug {
        Planted::TruncateOnCorruption => {
            disk.tamper(newest, |bytes| truncate_on_corruption(bytes, &mut random));
            Tolerance::Damaged(usize::MAX)
        }
        Planted::StaleRecords => {
            let uuid = crate::world::options().uuid;
            disk.tamper(newest, |bytes| {
                leveret_storage::fuzz::revive_stale(bytes, uuid);
            });
            Tolerance::None
        }
        Planted::StrayReferences => {
            let uuid = crate::world::options().uuid;
            disk.tamper(newest, |bytes| {
                leveret_storage::fuzz::lead_astray(bytes, uuid);
            });
            Tolerance::None
        }
    };
    open(&disk, &mut model, tolerance)
        .map(drop)
        .map_err(|v| found(seed, place, v))
}

/// Where the last byte ends that is something: what follows is room that was made ahead.
fn used(bytes: &[u8]) -> usize {
    let last = bytes.iter().rposition(|byte| *byte != 0);
    last.map_or(bytes.len(), |at| at + 1)
}

/// Makes a file look as it does to a start that stops reading at the first damage: there is nothing
/// from there on.
fn truncate_on_corruption(bytes: &mut [u8], random: &mut Random) {
    let sectors = used(bytes).div_ceil(4096);
    let from = 1 + random.below(sectors.max(2) as u64 - 1) as usize;
    if let Some(rest) = bytes.get_mut(from * 4096..) {
        rest.fill(0);
    }
}
