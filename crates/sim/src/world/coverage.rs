//! What a run has seen happen, so that a workload which passes is known to have tried what it
//! should.

/// What the seed has seen happen: whether a workload covers what it should.
#[derive(Clone, Copy, Debug, Default)]
pub struct Covered {
    /// Files of the write-ahead log that became full.
    pub rolls: u64,
    /// Flushes taken in.
    pub flushes: u64,
    /// Page-outs taken in.
    pub page_outs: u64,
    /// Flushes, page-outs and compactions that were broken off, as an orderly end does.
    pub broken_off: u64,
    /// Compactions taken in.
    pub compactions: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Files of the write-ahead log that were used again.
    pub recycled: u64,
    /// Logs deleted.
    pub deleted_logs: u64,
    /// Logs that began again under their ids.
    pub renewed_logs: u64,
    /// Truncations that reached entries in segment files.
    pub deep_truncations: u64,
    /// Bodies that the write-ahead log referred to instead of writing them again.
    pub references: u64,
    /// Stretches of entries that a flush left in blocks that other logs have too.
    pub shared_blocks: u64,
    /// Compactions that wrote such blocks again.
    pub shared_compactions: u64,
    /// Refusals because the disk was full.
    pub no_space: u64,
}

impl Covered {
    /// Adds what another run has seen.
    pub fn add(&mut self, other: Self) {
        self.rolls += other.rolls;
        self.flushes += other.flushes;
        self.page_outs += other.page_outs;
        self.broken_off += other.broken_off;
        self.compactions += other.compactions;
        self.checkpoints += other.checkpoints;
        self.recycled += other.recycled;
        self.deleted_logs += other.deleted_logs;
        self.renewed_logs += other.renewed_logs;
        self.deep_truncations += other.deep_truncations;
        self.references += other.references;
        self.shared_blocks += other.shared_blocks;
        self.shared_compactions += other.shared_compactions;
        self.no_space += other.no_space;
    }

    /// Whether everything has happened that a crash could fall into.
    #[must_use]
    pub fn all(&self) -> bool {
        let seen = [self.rolls, self.flushes, self.page_outs, self.compactions];
        let more = [
            self.checkpoints,
            self.recycled,
            self.deleted_logs,
            self.references,
            self.shared_blocks,
            self.shared_compactions,
        ];
        seen.iter().chain(&more).all(|count| *count > 0)
    }
}
