//! The file that says which node of which cluster a data folder is.
//!
//! ```text
//! version 1
//! uuid 0f…      the data folder that it belongs to
//! vote 3a…      the founder that this node has agreed to, while it is in no cluster
//! cluster 77…   from here on only once it is in one
//! node 3
//! start 1700000000000
//! settled 1699990000000   the last start of which it knows that the cluster has heard
//! since 1700000000000     those after it
//! missing 1699999999000   the start that it lacks, if it was found to be an older copy of itself
//! member 1 0f… 10.0.0.1:7000
//! ```

use crate::small_file;
use leveret_cluster::{Identity, KnownStarts, PeerAddress};
use leveret_types::NodeId;
use parking_lot::Mutex;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Starts of which it is not known that the cluster has heard, and that are remembered.
const STARTS_KEPT: usize = 64;

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentityFile {
    /// The data folder that it belongs to.
    pub uuid: [u8; 16],
    /// The founder that this node has agreed to follow.
    pub vote: Option<[u8; 16]>,
    /// Which node of which cluster it is.
    pub joined: Option<Joined>,
}

/// Which node of which cluster it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// The cluster.
    pub cluster: [u8; 16],
    /// The node's number.
    pub node: NodeId,
    /// The last start of its process.
    pub start: u64,
    /// Which starts it knows of.
    pub known: KnownStarts,
    /// All nodes, as this one last heard of them outside of its catalogue.
    pub members: Vec<PeerAddress>,
}

impl IdentityFile {
    /// Reads the file, if there is one.
    ///
    /// # Errors
    /// If it cannot be read, or says something else.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        Self::parse(&text).map(Some).ok_or_else(|| {
            let why = format!("{} is damaged or of another version", path.display());
            io::Error::new(io::ErrorKind::InvalidData, why)
        })
    }

    /// Writes the file: whole or not at all, and durable when this returns.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        small_file::replace(path, self.text().as_bytes(), 0o600)
    }

    /// Who the node is now that it starts once more, with a number of that start that is greater
    /// than any before, and the starts that were known until then.
    #[must_use]
    pub fn begin(&mut self, wall_ms: u64) -> Option<(Identity, KnownStarts)> {
        let joined = self.joined.as_mut()?;
        let known = joined.known.clone();
        joined.start = wall_ms.max(joined.start + 1);
        let since = &mut joined.known.since;
        since.push(joined.start);
        since.drain(..since.len().saturating_sub(STARTS_KEPT));
        let identity = Identity {
            cluster: joined.cluster,
            node: joined.node,
            uuid: self.uuid,
            start: joined.start,
        };
        Some((identity, known))
    }

    /// The cluster has heard of the last start.
    fn settle(&mut self) {
        if let Some(joined) = self.joined.as_mut().filter(|j| j.known.missing == 0) {
            joined.known.settled = joined.start;
            joined.known.since.clear();
        }
    }

    fn text(&self) -> String {
        let mut text = format!("version 1\nuuid {}\n", hex(&self.uuid));
        if let Some(vote) = &self.vote {
            text += &format!("vote {}\n", hex(vote));
        }
        if let Some(joined) = &self.joined {
            text += &format!(
                "cluster {}\nnode {}\nstart {}\n",
                hex(&joined.cluster),
                joined.node,
                joined.start
            );
            let known = &joined.known;
            text += &format!("settled {}\n", known.settled);
            for start in &known.since {
                text += &format!("since {start}\n");
            }
            if known.missing != 0 {
                text += &format!("missing {}\n", known.missing);
            }
            for member in &joined.members {
                let uuid = hex(&member.uuid);
                text += &format!("member {} {uuid} {}\n", member.node, member.address);
            }
        }
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next()? != "version 1" {
            return None;
        }
        let mut file = Self::default();
        let mut joined = Joined::default();
        let mut settled = None;
        for line in lines {
            let (key, value) = line.split_once(' ')?;
            match key {
                "uuid" => file.uuid = bytes(value)?,
                "vote" => file.vote = Some(bytes(value)?),
                "cluster" => joined.cluster = bytes(value)?,
                "node" => joined.node = NodeId(value.parse().ok()?),
                "start" => joined.start = value.parse().ok()?,
                "settled" => settled = Some(value.parse().ok()?),
                "since" => joined.known.since.push(value.parse().ok()?),
                "missing" => joined.known.missing = value.parse().ok()?,
                "member" => {
                    let mut words = value.splitn(3, ' ');
                    joined.members.push(PeerAddress {
                        node: NodeId(words.next()?.parse().ok()?),
                        uuid: bytes(words.next()?)?,
                        address: words.next()?.to_owned(),
                    });
                }
                _ => return None,
            }
        }
        // Versions before did not say.
        joined.known.settled = settled.unwrap_or(joined.start);
        file.joined = (joined.node != NodeId(0)).then_some(joined);
        Some(file)
    }
}

/// The file of a node that runs: who writes to it does so one after the other.
pub struct IdentityStore {
    path: PathBuf,
    file: Mutex<IdentityFile>,
}

impl IdentityStore {
    /// The admission of what is at this path.
    #[must_use]
    pub fn new(path: PathBuf, file: IdentityFile) -> Self {
        let file = Mutex::new(file);
        Self { path, file }
    }

    /// The cluster has heard of this start. If that cannot be written, a later start says so too.
    pub fn settle(&self) {
        self.change(IdentityFile::settle);
    }

    /// The data folder has turned out to be an older copy of itself, which lacks this start.
    pub fn lose(&self, start: u64) {
        self.change(|file| {
            if let Some(joined) = &mut file.joined {
                joined.known.missing = start;
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut IdentityFile)) {
        let mut file = self.file.lock();
        let before = file.clone();
        change(&mut file);
        if *file != before
            && let Err(error) = file.write(&self.path)
        {
            let path = self.path.display();
            tracing::warn!(%path, %error, "cannot write down which starts of this node are known");
        }
    }
}

fn hex(bytes: &[u8; 16]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(text: &str) -> Option<[u8; 16]> {
    if text.len() != 32 || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; 16];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> IdentityFile {
        IdentityFile {
            uuid: [0xAB; 16],
            vote: Some([1; 16]),
            joined: Some(Joined {
                cluster: [2; 16],
                node: NodeId(3),
                start: 4,
                known: KnownStarts {
                    settled: 2,
                    since: vec![3, 4],
                    missing: 1,
                },
                members: vec![PeerAddress {
                    node: NodeId(1),
                    uuid: [5; 16],
                    address: "burrow:7000".to_owned(),
                }],
            }),
        }
    }

    #[test]
    fn what_is_written_is_read_and_anything_else_is_refused() {
        let text = file().text();
        assert_eq!(IdentityFile::parse(&text), Some(file()));
        let fresh = IdentityFile {
            joined: None,
            ..file()
        };
        assert_eq!(IdentityFile::parse(&fresh.text()), Some(fresh));
        for bad in [
            "",
            "version 2\n",
            "version 1\nuuid 12\n",
            "version 1\nnew 1\n",
        ] {
            assert_eq!(IdentityFile::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn every_start_is_greater_than_the_last_even_if_the_clock_goes_back() {
        let mut file = file();
        let mut starts = Vec::new();
        for wall_ms in [10, 10, 3, 20] {
            starts.extend(file.begin(wall_ms).map(|(identity, _)| identity.start));
        }
        assert_eq!(starts, [10, 11, 12, 20]);
    }

    #[test]
    fn starts_are_known_until_the_cluster_has_heard_of_a_later_one() {
        let mut file = file();
        let known = |file: &IdentityFile| file.joined.as_ref().map(|joined| joined.known.clone());
        let begun = file.begin(10).map(|(_, known)| known);
        assert_eq!(
            begun.map(|known| known.since),
            Some(vec![3, 4]),
            "those before"
        );
        file.settle();
        let kept = known(&file).expect("it is in a cluster");
        assert_eq!(
            (kept.settled, kept.since),
            (2, vec![3, 4, 10]),
            "it is an older copy"
        );
        if let Some(joined) = &mut file.joined {
            joined.known.missing = 0;
        }
        file.settle();
        let kept = known(&file).expect("it is in a cluster");
        assert_eq!((kept.settled, kept.since.len()), (10, 0));
        for wall_ms in 11..200 {
            let _ = file.begin(wall_ms);
        }
        let kept = known(&file).expect("it is in a cluster");
        assert_eq!(kept.since.len(), STARTS_KEPT);
        assert_eq!(kept.since.last(), Some(&199));
        // A file of a version that did not say knows all up to its last start.
        let text = file.text();
        let older = text
            .lines()
            .filter(|line| !line.starts_with("s") || line.starts_with("start"));
        let older: Vec<&str> = older.collect();
        let older = IdentityFile::parse(&older.join("\n")).expect("it is read");
        assert_eq!(known(&older).map(|known| known.settled), Some(199));
    }
}
