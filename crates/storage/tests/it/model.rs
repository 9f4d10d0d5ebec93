//! The store against plain lists: random operations, restarts in order and without, the same
//! content at every step.

use leveret_storage::{
    Durability, Folders, LogKind, MemoryDisk, Options, Read, RecoveryReport, SharedBody, Store,
};
use leveret_types::LogId;
use std::collections::BTreeMap;
use std::path::Path;

const SEEDS: u64 = 300;
const STEPS: u64 = 120;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % bound
    }

    fn payload(&mut self) -> Vec<u8> {
        let len = match self.below(40) {
            0 => 0,
            1 => 300_000,
            2 => 140_000,
            3..8 => self.below(20_000),
            _ => self.below(300),
        };
        let first = self.below(256);
        (0..len).map(|i| (first + i * 7) as u8).collect()
    }
}

#[derive(Clone)]
struct Entry {
    payload: Vec<u8>,
    volatile: bool,
}

#[derive(Clone)]
struct PlainLog {
    kind: LogKind,
    next_index: u64,
    entries: BTreeMap<u64, Entry>,
    state: Vec<u8>,
    vote: Option<(u64, u64)>,
    /// Whether its bytes are known exactly: not after a truncation, nor where both classes of
    /// bodies were settled in one range.
    exact: bool,
}

type Plain = BTreeMap<LogId, PlainLog>;

struct World {
    disk: MemoryDisk,
    folders: Folders,
    options: Options,
    store: Option<Store<MemoryDisk>>,
    plain: Plain,
    /// As of the last moment at which everything was durable.
    durable: Plain,
    next_log: u64,
    random: Random,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let options = Options {
            uuid: *b"the model's uuid",
            shards: 1 + random.below(3) as u16,
            cache_bytes: 30_000 + random.below(400_000) as usize,
            loaded_bytes: 300_000,
            wal_file_bytes: 65_536 + random.below(4) * 262_144,
            wal_pool_files: random.below(3) as usize,
        };
        let mut world = Self {
            disk: MemoryDisk::new(),
            folders: Folders::within(Path::new("/store")),
            options,
            store: None,
            plain: Plain::new(),
            durable: Plain::new(),
            next_log: 1,
            random,
        };
        assert!(world.open().created);
        world
    }

    fn open(&mut self) -> RecoveryReport {
        let opened = Store::open(&self.disk, &self.folders, &self.options);
        let (store, report) = opened.unwrap_or_else(|e| panic!("{e}"));
        self.store = Some(store);
        report
    }

    fn store(&mut self) -> &mut Store<MemoryDisk> {
        self.store.as_mut().expect("the store is open")
    }

    fn shard_of(&self, log: LogId) -> usize {
        (log.0 % u64::from(self.options.shards)) as usize
    }

    fn some_log(&mut self) -> Option<LogId> {
        let count = self.plain.len() as u64;
        let at = self.random.below(count.max(1)) as usize;
        self.plain.keys().nth(at).copied()
    }

    fn step(&mut self) {
        match self.random.below(40) {
            0 | 1 => self.create(),
            2 => self.delete(),
            3..16 => self.append(),
            16..24 => self.settle(),
            24 => self.set_state(),
            25 => self.truncate(),
            26 => self.overwrite(),
            27 => self.skip(),
            28..32 => self.durable(|store| store.sync().unwrap_or_else(|e| panic!("{e}"))),
            32 => self.durable(|store| store.checkpoint().unwrap_or_else(|e| panic!("{e}"))),
            33 => {
                self.store().roll();
                self.durable(|store| {
                    store
                        .sync()
                        .and_then(|()| store.flush())
                        .unwrap_or_else(|e| panic!("{e}"));
                });
            }
            34 => self.durable(|store| {
                store
                    .sync()
                    .and_then(|()| store.compact())
                    .unwrap_or_else(|e| panic!("{e}"));
            }),
            35 => {
                self.store().page_out().unwrap_or_else(|e| panic!("{e}"));
            }
            36 => self.store().prepare(1).unwrap_or_else(|e| panic!("{e}")),
            37 => self.store().mark_idle().unwrap_or_else(|e| panic!("{e}")),
            38 => self.crash(),
            _ => self.restart(),
        }
        if self.store().wants_flush() && self.random.below(2) == 0 {
            self.durable(|store| store.flush().unwrap_or_else(|e| panic!("{e}")));
        }
        self.read_some();
    }

    fn durable(&mut self, work: impl FnOnce(&mut Store<MemoryDisk>)) {
        work(self.store());
        self.durable = self.plain.clone();
    }

    fn create(&mut self) {
        let log = LogId(self.next_log);
        self.next_log += 1;
        let volatile = self.random.below(4) == 0;
        let kind = if volatile {
            LogKind::Volatile
        } else {
            LogKind::Durable
        };
        let shard = self.shard_of(log);
        self.store().shards[shard].create_log(log, kind);
        let plain = PlainLog {
            kind,
            next_index: 0,
            entries: BTreeMap::new(),
            state: Vec::new(),
            vote: None,
            exact: true,
        };
        self.plain.insert(log, plain);
    }

    fn delete(&mut self) {
        if let Some(log) = self.some_log().filter(|_| self.plain.len() > 3) {
            let shard = self.shard_of(log);
            self.store().shards[shard].delete_log(log);
            self.plain.remove(&log);
        }
    }

    fn append(&mut self) {
        let Some(log) = self.some_log() else {
            return self.create();
        };
        let shard = self.shard_of(log);
        let shards = u64::from(self.options.shards);
        let others: Vec<LogId> = self
            .plain
            .keys()
            .copied()
            .filter(|l| l.0 % shards == shard as u64)
            .collect();
        let fan_out = self.random.below(4) == 0;
        let volatile = self.random.below(3) == 0;
        for _ in 0..1 + self.random.below(30) {
            let payload = self.random.payload();
            let durability = if volatile {
                Durability::Volatile
            } else {
                Durability::Durable
            };
            let pieces = payload.split_at(payload.len() / 3);
            let body = self.store().shards[shard].body(durability, &[pieces.0, pieces.1]);
            let shared = self.store().shards[shard].share(body);
            let logs = if fan_out { &others[..] } else { &[log][..] };
            for log in logs {
                let index = self.store().shards[shard].append(*log, body, payload.len() as u32);
                let plain = self.plain.get_mut(log).expect("the log is in the model");
                assert_eq!(index, plain.next_index);
                plain.next_index += 1;
                plain.exact &= !volatile;
                let payload = payload.clone();
                plain.entries.insert(index, Entry { payload, volatile });
            }
            if let Some(shared) = shared.filter(|_| fan_out) {
                self.append_again(shared, &payload);
            }
        }
    }

    /// Appends a body that a shard has to a log of any other, perhaps when it is written already.
    fn append_again(&mut self, shared: SharedBody, payload: &[u8]) {
        let Some(log) = self.some_log() else {
            return;
        };
        if self.random.below(8) == 0 {
            self.durable(|store| store.sync().unwrap_or_else(|e| panic!("{e}")));
        }
        let shard = self.shard_of(log);
        let body = self.store().shards[shard].body_again(shared, &[payload]);
        let index = self.store().shards[shard].append(log, body, payload.len() as u32);
        let plain = self.plain.get_mut(&log).expect("the log is in the model");
        assert_eq!(index, plain.next_index);
        plain.next_index += 1;
        let (payload, volatile) = (payload.to_vec(), false);
        plain.entries.insert(index, Entry { payload, volatile });
    }

    fn settle(&mut self) {
        let Some(log) = self.some_log() else {
            return;
        };
        let shard = self.shard_of(log);
        for _ in 0..1 + self.random.below(20) {
            let next = self.plain[&log].next_index;
            let first = self.plain[&log].entries.keys().next().copied().unwrap_or(0);
            let start = match self.random.below(3) {
                0 => first + self.random.below(next - first.min(next) + 1),
                _ => first,
            };
            let range = start..start + self.random.below(12);
            let plain = self.plain.get_mut(&log).expect("the log is in the model");
            let gone: Vec<u64> = plain
                .entries
                .range(range.clone())
                .map(|(i, _)| *i)
                .collect();
            let bytes = gone.iter().filter_map(|i| plain.entries.remove(i));
            let bytes: usize = bytes.map(|e| e.payload.len()).sum();
            let settled = self.store().shards[shard].settle(log, range, bytes as u64);
            assert_eq!(settled, gone.len() as u64);
        }
    }

    fn set_state(&mut self) {
        let state = self.random.payload();
        if let Some(log) = self.some_log() {
            let shard = self.shard_of(log);
            self.store().shards[shard].set_state(log, &state);
            self.plain
                .get_mut(&log)
                .expect("the log is in the model")
                .state = state;
        }
    }

    fn truncate(&mut self) {
        if let Some(log) = self.some_log() {
            let reach = self.plain[&log].next_index.min(20);
            self.truncate_by(log, reach);
        }
    }

    /// A suffix, which may be in segments already, gives way to other entries; a term begins.
    fn overwrite(&mut self) {
        let Some(log) = self.some_log() else {
            return;
        };
        let shard = self.shard_of(log);
        self.truncate_by(log, self.plain[&log].next_index);
        for _ in 0..self.random.below(20) {
            let payload = self.random.payload();
            let body = self.store().shards[shard].body(Durability::Durable, &[&payload]);
            let index = self.store().shards[shard].append(log, body, payload.len() as u32);
            let plain = self.plain.get_mut(&log).expect("the log is in the model");
            assert_eq!(index, plain.next_index);
            plain.next_index += 1;
            let volatile = false;
            plain.entries.insert(index, Entry { payload, volatile });
        }
        let plain = self.plain.get_mut(&log).expect("the log is in the model");
        if plain.kind == LogKind::Durable {
            let vote = (self.random.below(100), self.random.below(5));
            plain.vote = Some(vote);
            self.store().shards[shard].set_term_and_vote(log, vote.0, vote.1);
        }
    }

    fn skip(&mut self) {
        let Some(log) = self.some_log() else {
            return;
        };
        let shard = self.shard_of(log);
        let next = self.plain[&log].next_index;
        let index = match self.random.below(3) {
            0 => self.random.below(next + 1),
            1 => next + (1 << 33),
            _ => next + self.random.below(9),
        };
        let state = self.random.payload();
        let snapshot = self.random.below(2) == 0;
        if snapshot {
            self.store().shards[shard].set_snapshot(log, index, &state);
        } else {
            self.store().shards[shard].skip_to(log, index);
        }
        let plain = self.plain.get_mut(&log).expect("the log is in the model");
        plain.next_index = plain.next_index.max(index);
        if snapshot {
            plain.state = state;
            plain.entries = plain.entries.split_off(&index);
            plain.exact = plain.entries.is_empty();
        }
    }

    fn truncate_by(&mut self, log: LogId, reach: u64) {
        let shard = self.shard_of(log);
        let next = self.plain[&log].next_index;
        let from = next - self.random.below(reach + 1);
        self.store().shards[shard].truncate(log, from);
        let plain = self.plain.get_mut(&log).expect("the log is in the model");
        plain.exact &= from == next;
        plain.next_index = from;
        plain.entries.split_off(&from);
    }

    fn crash(&mut self) {
        self.store = None;
        self.plain = self.durable.clone();
        self.survive();
        let report = self.open();
        assert_eq!(report.torn_bytes, 0);
        self.check_after_restart();
    }

    fn restart(&mut self) {
        if let Some(store) = self.store.take() {
            store.close().unwrap_or_else(|e| panic!("{e}"));
        }
        self.survive();
        let report = self.open();
        assert!(report.clean, "{report:?}");
        self.check_after_restart();
    }

    /// What a restart leaves.
    fn survive(&mut self) {
        self.plain.retain(|_, log| log.kind == LogKind::Durable);
        for log in self.plain.values_mut() {
            log.entries.retain(|_, entry| !entry.volatile);
        }
    }

    fn check_after_restart(&mut self) {
        let store = self.store.as_mut().expect("the store is open");
        assert_eq!(store.found.len(), self.plain.len());
        for found in &store.found {
            assert_eq!(found.damage, None, "{found:?}");
            let plain = self
                .plain
                .get_mut(&found.log)
                .expect("no log comes from nowhere");
            let live: Vec<u64> = found.live.iter().flatten().collect();
            assert_eq!(live, plain.entries.keys().copied().collect::<Vec<_>>());
            assert!(found.next_index <= plain.next_index, "{found:?}");
            assert!(found.next_index > live.last().copied().unwrap_or(0) || live.is_empty());
            // Indexes of volatile entries at the end are not known any more.
            plain.next_index = found.next_index;
        }
        self.durable = self.plain.clone();
        self.check_all();
    }

    fn read_some(&mut self) {
        for _ in 0..3 {
            let Some(log) = self.some_log() else {
                return;
            };
            let next = self.plain[&log].next_index;
            let start = self.random.below(next + 2);
            for index in start..start + 3 {
                self.check(log, index);
            }
        }
    }

    fn check(&mut self, log: LogId, index: u64) {
        let expected = match self.plain[&log].entries.get(&index) {
            Some(entry) => Read::Ready(entry.payload.clone().into()),
            None => Read::Gone,
        };
        let read = self
            .store
            .as_mut()
            .expect("the store is open")
            .read(log, index);
        assert!(
            read == expected,
            "entry {index} of log {log}: {}",
            short(&read)
        );
    }

    fn check_all(&mut self) {
        let logs: Vec<LogId> = self.plain.keys().copied().collect();
        for log in logs {
            let shard = self.shard_of(log);
            let plain = &self.plain[&log];
            let (count, bytes) = (plain.entries.len(), plain.entries.values());
            let bytes: usize = bytes.map(|e| e.payload.len()).sum();
            let shard = &self.store.as_ref().expect("the store is open").shards[shard];
            let stats = shard.log_stats(log).expect("the log is there");
            assert_eq!(
                (stats.entries, stats.next_index),
                (count as u64, plain.next_index)
            );
            if plain.exact {
                assert_eq!(stats.bytes as usize, bytes);
            }
            assert_eq!(shard.state(log), plain.state);
            assert_eq!(shard.term_and_vote(log), plain.vote);
            let indexes: Vec<u64> = plain.entries.keys().copied().collect();
            for index in indexes {
                self.check(log, index);
            }
        }
    }
}

fn short(read: &Read) -> String {
    match read {
        Read::Ready(bytes) => format!("{} bytes", bytes.len()),
        other => format!("{other:?}"),
    }
}

fn run(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..STEPS {
        world.step();
    }
    world.check_all();
    world.restart();
    // All that is left on disk belongs to something: with the logs gone, so are the files.
    let logs: Vec<LogId> = world.plain.keys().copied().collect();
    for log in logs {
        let shard = world.shard_of(log);
        world.store().shards[shard].delete_log(log);
    }
    world.plain.clear();
    world.restart();
    let mut left = world.disk.paths();
    left.retain(|path| path.extension().is_some_and(|end| end == "seg"));
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn agrees_with_plain_lists_through_restarts_and_crashes() {
    let seeds = match std::env::var("LEVERET_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("LEVERET_SEED is a number");
            seed..seed + 1
        }
        Err(_) => 1..SEEDS + 1,
    };
    for seed in seeds {
        let result = std::panic::catch_unwind(|| run(seed));
        if let Err(panic) = result {
            eprintln!("seed {seed} failed: LEVERET_SEED={seed} repeats it");
            std::panic::resume_unwind(panic);
        }
    }
}
