//! Files as a process sees them, and as a power cut leaves them.

use leveret_amqp::fuzz::Random;
use leveret_types::RangeSet;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a disk writes as one: all of it or nothing, unless it is garbled.
pub const SECTOR_BYTES: usize = 512;

#[derive(Clone, Debug, Default)]
struct Inode {
    /// What a power cut cannot take.
    durable: Arc<Vec<u8>>,
    /// What the process reads.
    current: Arc<Vec<u8>>,
    /// Sectors in which the two may differ.
    dirty: RangeSet,
    /// Those of them that no later sync writes, because one has failed.
    adrift: RangeSet,
}

impl Inode {
    fn durable_sectors(&self) -> u64 {
        self.durable.len().div_ceil(SECTOR_BYTES) as u64
    }

    fn replaced_bytes(&self) -> u64 {
        let end = self.durable_sectors();
        let changed = self.dirty.iter().chain(self.adrift.iter());
        let sectors = changed.map(|range| range.end.min(end).saturating_sub(range.start));
        sectors.sum::<u64>() * SECTOR_BYTES as u64
    }
}

/// A change of names that no sync of the folder has made durable yet.
#[derive(Clone, Debug)]
enum Change {
    Create(PathBuf, u64),
    Rename(PathBuf, PathBuf, u64),
    Delete(PathBuf, u64),
}

impl Change {
    fn folder(&self) -> Option<&Path> {
        match self {
            Self::Create(path, _) | Self::Rename(path, ..) | Self::Delete(path, _) => path.parent(),
        }
    }

    /// Makes the change. A rename is whole or not at all; without what it renames it is not.
    fn apply(&self, names: &mut BTreeMap<PathBuf, u64>) {
        match self {
            Self::Create(path, inode) => {
                names.insert(path.clone(), *inode);
            }
            Self::Rename(from, to, inode) => {
                if names.get(from) == Some(inode) {
                    names.remove(from);
                    names.insert(to.clone(), *inode);
                }
            }
            Self::Delete(path, inode) => {
                if names.get(path) == Some(inode) {
                    names.remove(path);
                }
            }
        }
    }
}

/// What a power cut does to what is not durable.
pub enum Cut<'a> {
    /// All of it is lost.
    LoseAll,
    /// All of it is kept: the drive was fast enough.
    KeepAll,
    /// By chance, with odds that are drawn first.
    Chance(&'a mut Random),
    /// Names are kept. Of the unsynced sectors, in order of file and place, those whose bit is set
    /// in the mask are kept, and the others lost; from the 64th on all are lost.
    Sectors(u64),
}

/// What becomes of one sector.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    Lost,
    Garbled,
}

/// The odds of one power cut, in 256ths.
struct Odds {
    lost: u64,
    garbled: u64,
    names_lost: u64,
    /// Whether names are lost from one point on, as journals do it, rather than each on its own.
    names_in_order: bool,
}

impl Odds {
    fn draw(random: &mut Random) -> Self {
        const LEVELS: [u64; 6] = [0, 8, 64, 128, 240, 256];
        let mut level = |count: u64| LEVELS[random.below(count) as usize];
        let (lost, garbled, names_lost) = (level(6), level(4), level(6));
        Self {
            lost,
            garbled,
            names_lost,
            names_in_order: random.below(2) == 0,
        }
    }

    fn sector(&self, random: &mut Random) -> Fate {
        if random.below(256) < self.lost {
            Fate::Lost
        } else if random.below(256) < self.garbled {
            Fate::Garbled
        } else {
            Fate::Kept
        }
    }
}

/// The files of a disk.
#[derive(Clone, Debug, Default)]
pub struct FileSystem {
    inodes: BTreeMap<u64, Inode>,
    names: BTreeMap<PathBuf, u64>,
    durable_names: BTreeMap<PathBuf, u64>,
    changes: Vec<Change>,
    next_inode: u64,
}

fn missing(path: &Path) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("no file {}", path.display()),
    )
}

impl FileSystem {
    pub(crate) fn lookup(&self, path: &Path) -> io::Result<u64> {
        self.names.get(path).copied().ok_or_else(|| missing(path))
    }

    pub(crate) fn create(&mut self, path: &Path) -> io::Result<u64> {
        if self.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = self.next_inode;
        self.next_inode += 1;
        self.inodes.insert(inode, Inode::default());
        self.change(Change::Create(path.to_owned(), inode));
        Ok(inode)
    }

    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.lookup(from)?;
        self.change(Change::Rename(from.to_owned(), to.to_owned(), inode));
        Ok(())
    }

    pub(crate) fn delete(&mut self, path: &Path) -> io::Result<()> {
        let inode = self.lookup(path)?;
        self.change(Change::Delete(path.to_owned(), inode));
        Ok(())
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    pub(crate) fn sync_dir(&mut self, dir: &Path) {
        let durable = &mut self.durable_names;
        self.changes.retain(|change| {
            let here = change.folder() == Some(dir);
            if here {
                change.apply(durable);
            }
            !here
        });
    }

    pub(crate) fn list(&self, dir: &Path) -> Vec<String> {
        let here = self.names.keys().filter(|path| path.parent() == Some(dir));
        here.filter_map(|path| path.file_name()?.to_str().map(str::to_owned))
            .collect()
    }

    /// Paths of all files, ascending.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        self.names.keys().cloned().collect()
    }

    /// A file's bytes, if there is such a file.
    #[must_use]
    pub fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let inode = self.names.get(path)?;
        Some(self.inodes[inode].current.to_vec())
    }

    pub(crate) fn tamper(&mut self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        let Some(inode) = self.names.get(path).and_then(|i| self.inodes.get_mut(i)) else {
            return false;
        };
        change(Arc::make_mut(&mut inode.current));
        *inode = Inode {
            durable: Arc::clone(&inode.current),
            current: Arc::clone(&inode.current),
            ..Inode::default()
        };
        true
    }

    /// Bytes of all files that have a name.
    pub(crate) fn bytes(&self) -> u64 {
        self.names.values().map(|inode| self.len(*inode)).sum()
    }

    /// Bytes that all files with a name have twice, where what is written over is kept until a
    /// sync.
    pub(crate) fn replaced_bytes(&self) -> u64 {
        let inodes = self.names.values();
        let inodes = inodes.filter_map(|inode| self.inodes.get(inode));
        inodes.map(Inode::replaced_bytes).sum()
    }

    /// Bytes of a file that a write of this part would make it have twice.
    pub(crate) fn would_replace(&self, inode: u64, part: Range<u64>) -> u64 {
        let Some(inode) = self.inodes.get(&inode) else {
            return 0;
        };
        let sector = SECTOR_BYTES as u64;
        let end = part.end.div_ceil(sector).min(inode.durable_sectors());
        let is_fresh = |at: &u64| !inode.dirty.contains(*at) && !inode.adrift.contains(*at);
        let fresh = (part.start / sector..end).filter(is_fresh).count();
        fresh as u64 * sector
    }

    fn inode(&mut self, inode: u64) -> &mut Inode {
        self.inodes.entry(inode).or_default()
    }

    pub(crate) fn len(&self, inode: u64) -> u64 {
        self.inodes
            .get(&inode)
            .map_or(0, |i| i.current.len() as u64)
    }

    pub(crate) fn read_at(&self, inode: u64, buffer: &mut [u8], offset: u64) -> usize {
        let Some(inode) = self.inodes.get(&inode) else {
            return 0;
        };
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(inode.current.len());
        let count = buffer.len().min(inode.current.len() - start);
        buffer[..count].copy_from_slice(&inode.current[start..start + count]);
        count
    }

    pub(crate) fn write_at(&mut self, inode: u64, bytes: &[u8], offset: u64) {
        if bytes.is_empty() {
            return;
        }
        let inode = self.inode(inode);
        let (start, old_len) = (offset as usize, inode.current.len());
        let end = start + bytes.len();
        let current = Arc::make_mut(&mut inode.current);
        if current.len() < end {
            current.resize(end, 0);
        }
        current[start..end].copy_from_slice(bytes);
        let first = start.min(old_len) / SECTOR_BYTES;
        let sectors = first as u64..end.div_ceil(SECTOR_BYTES) as u64;
        inode.adrift.remove_range(sectors.clone());
        inode.dirty.insert_range(sectors);
    }

    pub(crate) fn sync(&mut self, inode: u64) {
        let inode = self.inode(inode);
        if inode.adrift.is_empty() {
            inode.durable = Arc::clone(&inode.current);
            inode.dirty.clear();
            return;
        }
        let written = inode.dirty.clone();
        let kept = |sector: u64| written.contains(sector);
        inode.durable = Arc::new(inode.mixed(
            |sector| if kept(sector) { Fate::Kept } else { Fate::Lost },
            None,
        ));
        inode.dirty.clear();
    }

    /// A sync of this file has failed.
    pub(crate) fn set_adrift(&mut self, inode: u64) {
        let inode = self.inode(inode);
        for range in std::mem::take(&mut inode.dirty).iter() {
            inode.adrift.insert_range(range);
        }
    }

    /// How many sectors a power cut could take.
    #[must_use]
    pub fn unsynced_sectors(&self) -> u64 {
        let named = self
            .names
            .values()
            .filter_map(|inode| self.inodes.get(inode));
        named
            .map(|inode| inode.dirty.len() + inode.adrift.len())
            .sum()
    }

    /// Loses what a power cut loses. What is left is durable.
    pub fn power_cut(&mut self, cut: &mut Cut<'_>) {
        match cut {
            Cut::LoseAll => {
                self.names = std::mem::take(&mut self.durable_names);
                self.settle_sectors(|_| Fate::Lost, None);
            }
            Cut::KeepAll => self.settle_sectors(|_| Fate::Kept, None),
            Cut::Sectors(mask) => {
                let mask = *mask;
                let fate = |at: u64| {
                    if at < 64 && mask >> at & 1 == 1 {
                        Fate::Kept
                    } else {
                        Fate::Lost
                    }
                };
                self.settle_sectors(fate, None);
            }
            Cut::Chance(random) => {
                let odds = Odds::draw(random);
                self.lose_names(&odds, random);
                let mut choices = Random::new(random.next_u64());
                self.settle_sectors(|_| odds.sector(&mut choices), Some(random));
            }
        }
        self.changes.clear();
        self.durable_names = self.names.clone();
        let named: Vec<u64> = self.names.values().copied().collect();
        self.inodes.retain(|inode, _| named.contains(inode));
    }

    fn lose_names(&mut self, odds: &Odds, random: &mut Random) {
        let mut names = std::mem::take(&mut self.durable_names);
        let mut ended = false;
        for change in &self.changes {
            let lost = random.below(256) < odds.names_lost;
            ended |= lost && odds.names_in_order;
            if !lost && !ended {
                change.apply(&mut names);
            }
        }
        self.names = names;
    }

    /// Decides about every unsynced sector, counted over all files that have a name.
    fn settle_sectors(
        &mut self,
        mut fate: impl FnMut(u64) -> Fate,
        mut noise: Option<&mut Random>,
    ) {
        let mut seen = 0;
        for inode in self.names.values() {
            let Some(inode) = self.inodes.get_mut(inode) else {
                continue;
            };
            if inode.dirty.is_empty()
                && inode.adrift.is_empty()
                && inode.durable.len() == inode.current.len()
            {
                continue;
            }
            let decide = |_| {
                seen += 1;
                fate(seen - 1)
            };
            let left = Arc::new(inode.mixed(decide, noise.as_deref_mut()));
            *inode = Inode {
                durable: Arc::clone(&left),
                current: left,
                ..Inode::default()
            };
        }
    }
}

impl Inode {
    /// The durable bytes with those unsynced sectors that `fate` keeps. The file is as long as the
    /// last of them needs it to be.
    fn mixed(&self, mut fate: impl FnMut(u64) -> Fate, mut noise: Option<&mut Random>) -> Vec<u8> {
        let mut out = self.durable.to_vec();
        let mut unsynced = self.dirty.clone();
        for range in self.adrift.iter() {
            unsynced.insert_range(range);
        }
        for sector in unsynced.iter().flatten() {
            let fate = fate(sector);
            let start = sector as usize * SECTOR_BYTES;
            let end = (start + SECTOR_BYTES).min(self.current.len());
            if fate == Fate::Lost || start >= end {
                continue;
            }
            if out.len() < end {
                out.resize(end, 0);
            }
            out[start..end].copy_from_slice(&self.current[start..end]);
            if fate == Fate::Garbled
                && let Some(noise) = noise.as_deref_mut()
            {
                out[start..end].fill_with(|| noise.below(256) as u8);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: &str = "/d";

    fn file(files: &mut FileSystem, name: &str, bytes: &[u8]) -> u64 {
        let inode = files.create(&Path::new(DIR).join(name)).unwrap();
        files.write_at(inode, bytes, 0);
        inode
    }

    #[test]
    fn what_was_synced_survives_and_nothing_else_must() {
        let mut files = FileSystem::default();
        let inode = file(&mut files, "a", &[1; 1024]);
        files.sync(inode);
        files.sync_dir(Path::new(DIR));
        files.write_at(inode, &[2; 1024], 512);
        file(&mut files, "b", &[3; 10]);
        let mut lost = files.clone();
        lost.power_cut(&mut Cut::LoseAll);
        assert_eq!(lost.paths(), [Path::new("/d/a")]);
        assert_eq!(lost.read(Path::new("/d/a")).unwrap(), [1; 1024]);
        let mut one = files.clone();
        // Sectors in order: two of `a`, one of `b`. The second of `a` is kept.
        one.power_cut(&mut Cut::Sectors(0b010));
        let expected: Vec<u8> = [[1; 512], [1; 512], [2; 512]].concat();
        assert_eq!(one.read(Path::new("/d/a")).unwrap(), expected);
        assert_eq!(one.read(Path::new("/d/b")).unwrap(), []);
        files.power_cut(&mut Cut::KeepAll);
        assert_eq!(files.read(Path::new("/d/b")).unwrap(), [3; 10]);
    }

    #[test]
    fn a_rename_is_old_or_new() {
        for seed in 0..200 {
            let mut files = FileSystem::default();
            let old = file(&mut files, "a", b"old");
            let new = file(&mut files, "tmp", b"new");
            files.sync(old);
            files.sync(new);
            files.sync_dir(Path::new(DIR));
            files
                .rename(Path::new("/d/tmp"), Path::new("/d/a"))
                .unwrap();
            files.power_cut(&mut Cut::Chance(&mut Random::new(seed)));
            let (a, tmp) = (
                files.read(Path::new("/d/a")),
                files.read(Path::new("/d/tmp")),
            );
            let is = (a.as_deref(), tmp.as_deref());
            assert!(
                is == (Some(b"old"), Some(b"new")) || is == (Some(b"new"), None),
                "{is:?}"
            );
        }
    }

    #[test]
    fn a_sync_that_failed_is_not_made_good_by_the_next() {
        let mut files = FileSystem::default();
        let inode = file(&mut files, "a", &[1; 512]);
        files.sync_dir(Path::new(DIR));
        files.set_adrift(inode);
        files.write_at(inode, &[2; 512], 512);
        files.sync(inode);
        files.power_cut(&mut Cut::LoseAll);
        assert!(files.read(Path::new("/d/a")).unwrap() == [[0; 512], [2; 512]].concat());
    }
}
