//! Crashes, everywhere: every moment of a workload, or moments that a seed picks; and what must
//! hold afterwards.

use crate::check::{Tolerance, Violation};
use crate::disk::{Lies, SimDisk};
use crate::file_system::{Cut, FileSystem};
use crate::model::Model;
use crate::world::{Covered, Refused, Stop, World, open_checked};
use leveret_amqp::fuzz::Random;
use std::fmt;

/// A seed under which a promise is broken.
#[derive(Clone, Debug)]
pub struct Found {
    /// The seed.
    pub seed: u64,
    /// Where in the run, in words.
    pub place: String,
    /// What.
    pub violation: Violation,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, {}: {}", self.seed, self.place, self.violation)
    }
}

/// What was tried.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Changes of the disk in the workloads.
    pub operations: u64,
    /// Moments at which it was crashed.
    pub points: u64,
    /// Crashes: at each moment, a kill and power cuts that leave different sectors.
    pub crashes: u64,
    /// Times that the store was opened and checked.
    pub recoveries: u64,
    /// Of these, how many crashed themselves.
    pub nested: u64,
    /// What happened in the workloads.
    pub covered: Covered,
}

impl Report {
    /// Adds what another run has tried.
    pub fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.points += other.points;
        self.crashes += other.crashes;
        self.recoveries += other.recoveries;
        self.nested += other.nested;
        self.covered.add(other.covered);
    }
}

/// How a workload is crashed.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Steps of the workload.
    pub steps: u64,
    /// Power cuts by chance at each moment, beside one that takes all and a kill.
    pub chances: u64,
    /// At each moment whose number is a multiple of this, all subsets of the unsynced sectors are
    /// tried if these are at most
    /// [`SUBSET_SECTORS_MAX`].
    pub subsets_every: u64,
    /// Moments at most.
    pub points_max: u64,
    /// Only this moment, to see a finding again.
    pub only: Option<u64>,
    /// What is planted.
    pub lies: Lies,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            steps: 900,
            chances: 2,
            subsets_every: 200,
            points_max: u64::MAX,
            only: None,
            lies: Lies::default(),
        }
    }
}

/// With more unsynced sectors than this, subsets are drawn rather than enumerated.
pub const SUBSET_SECTORS_MAX: u64 = 12;
/// Crashes within recoveries, one after the other, at most.
const NESTED_MAX: u64 = 5;
/// A recovery makes about this many changes of the disk.
const RECOVERY_OPERATIONS: u64 = 14;

fn mix(seed: u64, point: u64, variant: u64) -> Random {
    let mut random = Random::new(seed);
    let (a, b) = (random.next_u64(), random.next_u64());
    Random::new(a ^ point.wrapping_mul(b | 1) ^ variant.rotate_left(40))
}

/// Runs a workload and crashes it at every moment before and after a change of the disk.
///
/// # Errors
/// The first broken promise.
pub fn crash_points(seed: u64, plan: &Plan) -> Result<Report, Found> {
    let mut report = Report::default();
    let mut world = World::new(seed);
    world.disk.set_lies(plan.lies);
    let mut place = String::from("in the workload");
    let ran = world.watch(plan.steps, &mut |files, model| {
        let point = report.points;
        if point >= plan.points_max {
            return Ok(());
        }
        report.points += 1;
        if plan.only.is_some_and(|only| only != point) {
            return Ok(());
        }
        let moment = Moment {
            seed,
            point,
            files: &files,
            model,
        };
        crash_here(&moment, plan, &mut report, &mut place)
    });
    report.operations = world.disk.operations();
    report.covered = world.covered;
    match ran {
        Ok(()) => Ok(report),
        Err(Stop::Violation(violation)) => Err(Found {
            seed,
            place,
            violation,
        }),
        Err(Stop::Ended(why)) => {
            let violation = Violation::new("I14", format!("ended without a fault: {why}"));
            Err(Found {
                seed,
                place,
                violation,
            })
        }
    }
}

/// A moment of a workload.
struct Moment<'a> {
    seed: u64,
    /// Its number.
    point: u64,
    files: &'a FileSystem,
    model: &'a Model,
}

/// Crashes at one moment in several ways.
fn crash_here(
    moment: &Moment<'_>,
    plan: &Plan,
    report: &mut Report,
    place: &mut String,
) -> Result<(), Violation> {
    let Moment {
        seed,
        point,
        files,
        model,
    } = *moment;
    let mut try_one = |variant: u64, cut: Option<Cut<'_>>, report: &mut Report| {
        *place = format!("point {point}, crash {variant}");
        let mut files = files.clone();
        if let Some(mut cut) = cut {
            files.power_cut(&mut cut);
        }
        survive(
            files,
            model,
            &mut mix(seed, point, variant),
            plan.lies,
            report,
        )
    };
    try_one(0, None, report)?;
    try_one(1, Some(Cut::LoseAll), report)?;
    for variant in 2..2 + plan.chances {
        let mut random = mix(seed, point, !variant);
        try_one(variant, Some(Cut::Chance(&mut random)), report)?;
    }
    let sectors = files.unsynced_sectors();
    if sectors > 0 && sectors <= SUBSET_SECTORS_MAX && point.is_multiple_of(plan.subsets_every) {
        for mask in 0..1 << sectors {
            try_one(1_000 + mask, Some(Cut::Sectors(mask)), report)?;
        }
    }
    Ok(())
}

/// Opens what a crash has left, and does everything with it that a broker would.
fn survive(
    files: FileSystem,
    model: &Model,
    random: &mut Random,
    lies: Lies,
    report: &mut Report,
) -> Result<(), Violation> {
    report.crashes += 1;
    let mut model = model.clone();
    let disk = SimDisk::with(files);
    disk.set_lies(lies);
    if random.below(3) == 0 {
        for _ in 0..random.below(NESTED_MAX) + 1 {
            crash_recovery(&disk, &mut model, random, report)?;
        }
    }
    // What was found once is found again: it may have been delivered meanwhile.
    for _ in 0..2 {
        report.recoveries += 1;
        open(&disk, &mut model)?;
        disk.kill();
    }
    if random.below(2) == 0 {
        go_on(disk, model, random, report)?;
    }
    Ok(())
}

fn open(disk: &SimDisk, model: &mut Model) -> Result<(), Violation> {
    match open_checked(disk, model, Tolerance::None) {
        Ok(_) => Ok(()),
        Err(Refused::Violation(violation)) => Err(violation),
        Err(Refused::Open(error)) => Err(Violation::new("I11", format!("does not open: {error}"))),
    }
}

/// Opens the store, and crashes it meanwhile or right after.
fn crash_recovery(
    disk: &SimDisk,
    model: &mut Model,
    random: &mut Random,
    report: &mut Report,
) -> Result<(), Violation> {
    report.recoveries += 1;
    disk.crash_at(disk.operations() + random.below(RECOVERY_OPERATIONS));
    let mut found = model.clone();
    match open_checked(disk, &mut found, Tolerance::None) {
        Ok(_) => *model = found,
        Err(Refused::Open(_)) if disk.is_dead() => report.nested += 1,
        Err(Refused::Open(error)) => {
            return Err(Violation::new("I11", format!("does not open: {error}")));
        }
        // Reads fail too once the process is dead.
        Err(Refused::Violation(_)) if disk.is_dead() => report.nested += 1,
        Err(Refused::Violation(violation)) => return Err(violation),
    }
    crash(disk, random);
    Ok(())
}

/// Kills the process, or cuts the power.
fn crash(disk: &SimDisk, random: &mut Random) {
    match random.below(4) {
        0 => disk.kill(),
        1 => disk.power_cut(&mut Cut::LoseAll),
        _ => disk.power_cut(&mut Cut::Chance(random)),
    }
}

/// The store is used again, and crashes again, or is closed in order.
fn go_on(
    disk: SimDisk,
    model: Model,
    random: &mut Random,
    report: &mut Report,
) -> Result<(), Violation> {
    let mut world = reopen(disk, model, random)?;
    report.recoveries += 2;
    let ran = (0..random.below(60)).try_for_each(|_| world.step());
    let closed = random.below(2) == 0;
    let (disk, mut model) = match (ran, closed) {
        (Err(stop), _) => return Err(unexpected(stop)),
        (Ok(()), true) => world.close().map_err(unexpected)?,
        (Ok(()), false) => world.into_parts(),
    };
    crash(&disk, random);
    open(&disk, &mut model)
}

fn reopen(disk: SimDisk, model: Model, random: &mut Random) -> Result<World, Violation> {
    World::open(disk, model, random.next_u64()).map_err(|refused| match refused {
        Refused::Violation(violation) => violation,
        Refused::Open(error) => Violation::new("I11", format!("does not open: {error}")),
    })
}

fn unexpected(stop: Stop) -> Violation {
    match stop {
        Stop::Violation(violation) => violation,
        Stop::Ended(why) => Violation::new("I14", format!("ended without a fault: {why}")),
    }
}

/// A life of random operations with crashes in between, each at a change of the disk that the seed
/// picks.
///
/// # Errors
/// The first broken promise.
pub fn random_simulation_run(seed: u64, lies: Lies) -> Result<Report, Found> {
    let mut report = Report::default();
    let mut place = String::from("in the beginning");
    live(seed, lies, &mut report, &mut place).map_err(|violation| Found {
        seed,
        place,
        violation,
    })?;
    Ok(report)
}

fn live(seed: u64, lies: Lies, report: &mut Report, place: &mut String) -> Result<(), Violation> {
    let mut random = mix(seed, u64::MAX, 0);
    let mut world = World::new(seed);
    for crash_number in 0..random.below(5) + 3 {
        *place = format!("crash {crash_number}");
        world.disk.set_lies(lies);
        let steps = random.below(400) + 20;
        if random.below(4) > 0 {
            world
                .disk
                .crash_at(world.disk.operations() + random.below(steps / 2 + 1));
        }
        match (0..steps).try_for_each(|_| world.step()) {
            Err(Stop::Violation(violation)) => return Err(violation),
            Err(Stop::Ended(_)) if world.disk.is_dead() => {}
            Err(stop) => return Err(unexpected(stop)),
            Ok(()) => {}
        }
        report.covered.add(std::mem::take(&mut world.covered));
        report.points += 1;
        let disk = world.disk.clone();
        let mut model = world.model.clone();
        crash(&disk, &mut random);
        drop(world);
        while random.below(3) == 0 {
            crash_recovery(&disk, &mut model, &mut random, report)?;
        }
        report.recoveries += 1;
        world = reopen(disk, model, &mut random)?;
    }
    *place = String::from("at the orderly end");
    let (disk, mut model) = world.close().map_err(unexpected)?;
    report.operations = disk.operations();
    open(&disk, &mut model)
}

/// Crashes at every change of the disk that the making of a store consists of, and at every one of
/// the start after that; then the store is used.
///
/// # Errors
/// The first broken promise.
pub fn crash_creation(seed: u64) -> Result<Report, Found> {
    let mut report = Report::default();
    let operations = World::new(seed).disk.operations();
    for (first, second) in (0..=operations).flat_map(|f| (0..=operations).map(move |s| (f, s))) {
        let mut random = mix(seed, first, second);
        create_and_crash(first, second, &mut random, &mut report).map_err(|violation| Found {
            seed,
            place: format!("changes {first} and {second} of a new store"),
            violation,
        })?;
    }
    Ok(report)
}

fn create_and_crash(
    first: u64,
    second: u64,
    random: &mut Random,
    report: &mut Report,
) -> Result<(), Violation> {
    let disk = SimDisk::new();
    let mut model = Model::new(crate::world::SHARDS);
    for at in [first, second] {
        report.points += 1;
        disk.crash_at(disk.operations() + at);
        match open_checked(&disk, &mut model, Tolerance::None) {
            Ok(_) => {}
            Err(_) if disk.is_dead() => report.nested += 1,
            Err(Refused::Violation(violation)) => return Err(violation),
            Err(Refused::Open(error)) => return Err(Violation::new("I11", error.to_string())),
        }
        crash(&disk, random);
    }
    let mut world = reopen(disk, model, random)?;
    (0..30)
        .try_for_each(|_| world.step())
        .and_then(|()| world.sync())
        .map_err(unexpected)?;
    let (disk, mut model) = world.into_parts();
    disk.power_cut(&mut Cut::LoseAll);
    open(&disk, &mut model)
}
