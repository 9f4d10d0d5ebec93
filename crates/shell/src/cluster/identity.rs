//! The file that says which node of which cluster a data folder is.
//!
//! ```text
//! version 1
//! uuid 0f…      the data folder that it belongs to
//! vote 3a…      the founder that this node has agreed to, while it is in no cluster
//! cluster 77…   from here on only once it is in one
//! node 3
//! start 1700000000000
//! member 1 0f… 10.0.0.1:7000
//! ```

use crate::small_file;
use leveret_node::cluster::{Identity, PeerAddress};
use leveret_types::NodeId;
use std::fs;
use std::io;
use std::path::Path;

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
    /// than any before.
    #[must_use]
    pub fn begin(&mut self, wall_ms: u64) -> Option<Identity> {
        let joined = self.joined.as_mut()?;
        joined.start = wall_ms.max(joined.start + 1);
        Some(Identity {
            cluster: joined.cluster,
            node: joined.node,
            uuid: self.uuid,
            start: joined.start,
        })
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
        for line in lines {
            let (key, value) = line.split_once(' ')?;
            match key {
                "uuid" => file.uuid = bytes(value)?,
                "vote" => file.vote = Some(bytes(value)?),
                "cluster" => joined.cluster = bytes(value)?,
                "node" => joined.node = NodeId(value.parse().ok()?),
                "start" => joined.start = value.parse().ok()?,
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
        file.joined = (joined.node != NodeId(0)).then_some(joined);
        Some(file)
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
            starts.extend(file.begin(wall_ms).map(|identity| identity.start));
        }
        assert_eq!(starts, [10, 11, 12, 20]);
    }
}
