//! Fuzzing that a stable compiler and nothing else can do: inputs of a corpus, changed at random
//! from a seed, ever larger, against a clock.

mod corpus;
mod mutate;
mod recovery;
mod streams;
mod target;

pub use corpus::{folder, load, write};
pub use mutate::mutate;
pub use target::{TARGETS, Target};

use leveret_amqp::fuzz::Random;
use std::cell::RefCell;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of an input at the end of a run; at its beginning they are few.
const INPUT_BYTES_MAX: usize = 16 * 1024;
/// How long one input may take before it counts as found: nothing here is meant to be slow.
const INPUT_TIME_MAX: Duration = Duration::from_secs(10);
/// Executions between two looks at the clock.
const BATCH: u64 = 64;

/// What a thread runs just now: for who finds out that it does not end.
#[derive(Debug, Default)]
struct Current {
    target: &'static str,
    input: Vec<u8>,
    since: Option<Instant>,
}

type Shared = Arc<Mutex<Current>>;

/// Runs all of `targets` for this long each, as many at once as there are processors. A finding is
/// saved, and ends the process with status 1.
pub fn run(targets: &[&'static Target], time: Duration, seed: u64) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        before(info);
        if let Some(mine) = WATCHED.with(|watched| watched.borrow().clone()) {
            found(&mine, "panicked");
        }
    }));
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(targets.len());
    let all: Vec<Shared> = (0..threads).map(|_| Shared::default()).collect();
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for mine in &all {
            scope.spawn(|| {
                WATCHED.with(|watched| *watched.borrow_mut() = Some(Arc::clone(mine)));
                while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
                    fuzz(target, time, seed, mine);
                }
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        while done.load(Ordering::Relaxed) < threads {
            std::thread::sleep(Duration::from_millis(100));
            for mine in &all {
                let since = lock(mine).since;
                if since.is_some_and(|since| since.elapsed() > INPUT_TIME_MAX) {
                    found(mine, "takes too long");
                }
            }
        }
    });
}

fn lock(shared: &Shared) -> std::sync::MutexGuard<'_, Current> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// What this thread runs, for the panic hook.
    static WATCHED: RefCell<Option<Shared>> = const { RefCell::new(None) };
}

/// Saves an input and ends the process.
fn found(mine: &Shared, how: &str) -> ! {
    let current = lock(mine);
    let name = format!("{}-{:08x}", current.target, hash(&current.input));
    let path = PathBuf::from("fuzz/artifacts").join(name);
    let saved = std::fs::create_dir_all("fuzz/artifacts")
        .and_then(|()| std::fs::write(&path, &current.input));
    let place = saved.map_or_else(
        |e| format!("not saved: {e}"),
        |()| path.display().to_string(),
    );
    println!(
        "FOUND {} {how} on {} bytes: {place}",
        current.target,
        current.input.len()
    );
    drop(std::io::stdout().flush());
    std::process::exit(1);
}

fn hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811C_9DC5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

fn fuzz(target: &'static Target, time: Duration, seed: u64, mine: &Shared) {
    let corpus = load(target.name);
    assert!(
        !corpus.is_empty(),
        "{} has no corpus in {}",
        target.name,
        folder(target.name).display()
    );
    let mut random = Random::new(seed ^ u64::from(hash(target.name.as_bytes())));
    let (start, mut executions) = (Instant::now(), 0_u64);
    corpus.iter().for_each(|input| execute(target, input, mine));
    while start.elapsed() < time {
        let share = start.elapsed().as_secs_f64() / time.as_secs_f64();
        let most = 64 + (share * INPUT_BYTES_MAX as f64) as usize;
        for _ in 0..BATCH {
            let input = mutate(&corpus, most, &mut random);
            execute(target, &input, mine);
        }
        executions += BATCH;
    }
    lock(mine).since = None;
    let rate = executions as f64 / start.elapsed().as_secs_f64();
    println!(
        "{:18} {executions:9} executions, {rate:9.0} a second, nothing found",
        target.name
    );
}

fn execute(target: &'static Target, input: &[u8], mine: &Shared) {
    {
        let mut current = lock(mine);
        current.target = target.name;
        current.input.clear();
        current.input.extend_from_slice(input);
        current.since = Some(Instant::now());
    }
    (target.run)(input);
}
