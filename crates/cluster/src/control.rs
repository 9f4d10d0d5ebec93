//! What nodes ask of each other outside of links: to be let in, and to agree who founds.
//!
//! ```text
//! request  1 join   uuid 16 | address | name
//!          2 vote   uuid 16 | count u8 | addresses
//! answer   1 joined    cluster 16 | node u32 | count u8 | (node u32 | uuid 16 | address)*
//!          2 forming   nothing
//!          3 voted     nothing
//!          4 refused   why
//! a text has its length before it, u16; numbers are big endian
//! ```

use super::PeerAddress;
use leveret_types::NodeId;
use leveret_types::limits::CLUSTER_NODES_MAX;

/// Bytes of a text.
const TEXT_BYTES_MAX: usize = 1_024;

/// What a node asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// To become part of the cluster, or to hear again that it is.
    Join {
        /// The identity of its data folder.
        uuid: [u8; 16],
        /// Where it listens for other nodes.
        address: String,
        /// Its name in listings.
        name: String,
    },
    /// To found the cluster.
    Vote {
        /// The identity of its data folder.
        uuid: [u8; 16],
        /// The addresses that it was given, in order.
        listed: Vec<String>,
    },
}

/// What it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is part of the cluster.
    Joined {
        /// The cluster.
        cluster: [u8; 16],
        /// Its number.
        node: NodeId,
        /// All nodes, itself included.
        members: Vec<PeerAddress>,
    },
    /// Whoever was asked is not part of a cluster either.
    Forming,
    /// Whoever was asked will follow it, and nobody else.
    Voted,
    /// No, and why.
    Refused(String),
}

/// Bytes that make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a request or an answer of another version, or damaged")]
pub struct Senseless;

impl Request {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Join {
                uuid,
                address,
                name,
            } => {
                out.push(1);
                out.extend_from_slice(uuid);
                put_text(&mut out, address);
                put_text(&mut out, name);
            }
            Self::Vote { uuid, listed } => {
                out.push(2);
                out.extend_from_slice(uuid);
                put_list(&mut out, listed, |out, address| put_text(out, address));
            }
        }
        out
    }

    /// The request that these bytes are.
    ///
    /// # Errors
    /// See [`Senseless`].
    pub fn decode(bytes: &[u8]) -> Result<Self, Senseless> {
        let mut take = Take(bytes);
        let request = match take.u8()? {
            1 => Self::Join {
                uuid: take.array()?,
                address: take.text()?,
                name: take.text()?,
            },
            2 => Self::Vote {
                uuid: take.array()?,
                listed: take.list(Take::text)?,
            },
            _ => return Err(Senseless),
        };
        take.end(request)
    }
}

impl Answer {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Joined {
                cluster,
                node,
                members,
            } => {
                out.push(1);
                out.extend_from_slice(cluster);
                out.extend_from_slice(&node.0.to_be_bytes());
                put_list(&mut out, members, |out, member| {
                    out.extend_from_slice(&member.node.0.to_be_bytes());
                    out.extend_from_slice(&member.uuid);
                    put_text(out, &member.address);
                });
            }
            Self::Forming => out.push(2),
            Self::Voted => out.push(3),
            Self::Refused(why) => {
                out.push(4);
                put_text(&mut out, why);
            }
        }
        out
    }

    /// The answer that these bytes are.
    ///
    /// # Errors
    /// See [`Senseless`].
    pub fn decode(bytes: &[u8]) -> Result<Self, Senseless> {
        let mut take = Take(bytes);
        let answer = match take.u8()? {
            1 => Self::Joined {
                cluster: take.array()?,
                node: NodeId(take.u32()?),
                members: take.list(|take| {
                    Ok(PeerAddress {
                        node: NodeId(take.u32()?),
                        uuid: take.array()?,
                        address: take.text()?,
                    })
                })?,
            },
            2 => Self::Forming,
            3 => Self::Voted,
            4 => Self::Refused(take.text()?),
            _ => return Err(Senseless),
        };
        take.end(answer)
    }
}

/// Texts are cut where they are longer than any should be.
fn put_text(out: &mut Vec<u8>, text: &str) {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    out.extend_from_slice(&(end as u16).to_be_bytes());
    out.extend_from_slice(&text.as_bytes()[..end]);
}

fn put_list<T>(out: &mut Vec<u8>, items: &[T], put: impl Fn(&mut Vec<u8>, &T)) {
    let items = &items[..items.len().min(CLUSTER_NODES_MAX)];
    out.push(items.len() as u8);
    items.iter().for_each(|item| put(out, item));
}

struct Take<'a>(&'a [u8]);

impl Take<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Senseless> {
        let (head, rest) = self.0.split_first_chunk().ok_or(Senseless)?;
        self.0 = rest;
        Ok(*head)
    }

    fn u8(&mut self) -> Result<u8, Senseless> {
        self.array().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Result<u32, Senseless> {
        self.array().map(u32::from_be_bytes)
    }

    fn text(&mut self) -> Result<String, Senseless> {
        let length = usize::from(u16::from_be_bytes(self.array()?));
        if length > TEXT_BYTES_MAX {
            return Err(Senseless);
        }
        let (head, rest) = self.0.split_at_checked(length).ok_or(Senseless)?;
        self.0 = rest;
        String::from_utf8(head.to_vec()).map_err(|_| Senseless)
    }

    fn list<T>(
        &mut self,
        item: impl Fn(&mut Self) -> Result<T, Senseless>,
    ) -> Result<Vec<T>, Senseless> {
        let count = usize::from(self.u8()?);
        if count > CLUSTER_NODES_MAX {
            return Err(Senseless);
        }
        (0..count).map(|_| item(self)).collect()
    }

    fn end<T>(&self, value: T) -> Result<T, Senseless> {
        if self.0.is_empty() {
            Ok(value)
        } else {
            Err(Senseless)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests() -> Vec<Request> {
        vec![
            Request::Join {
                uuid: [1; 16],
                address: "127.0.0.1:7000".to_owned(),
                name: "leveret@burrow".to_owned(),
            },
            Request::Vote {
                uuid: [2; 16],
                listed: vec!["a:1".to_owned(), "b:2".to_owned()],
            },
        ]
    }

    fn answers() -> Vec<Answer> {
        let member = PeerAddress {
            node: NodeId(7),
            uuid: [3; 16],
            address: "c:3".to_owned(),
        };
        vec![
            Answer::Joined {
                cluster: [4; 16],
                node: NodeId(7),
                members: vec![member.clone(), member],
            },
            Answer::Forming,
            Answer::Voted,
            Answer::Refused("why".to_owned()),
        ]
    }

    #[test]
    fn what_is_encoded_is_decoded_and_every_cut_is_noticed() {
        for request in requests() {
            let bytes = request.encode();
            assert_eq!(Request::decode(&bytes), Ok(request));
            for end in 0..bytes.len() {
                assert_eq!(Request::decode(&bytes[..end]), Err(Senseless), "{end}");
            }
        }
        for answer in answers() {
            let bytes = answer.encode();
            assert_eq!(Answer::decode(&bytes), Ok(answer));
            for end in 0..bytes.len() {
                assert_eq!(Answer::decode(&bytes[..end]), Err(Senseless), "{end}");
            }
            let longer = [&bytes[..], &[0]].concat();
            assert_eq!(Answer::decode(&longer), Err(Senseless));
        }
    }

    #[test]
    fn bounds_hold_at_the_last_value_and_beyond() {
        for (count, whole) in [(CLUSTER_NODES_MAX, true), (CLUSTER_NODES_MAX + 1, false)] {
            let mut bytes = vec![2];
            bytes.extend([0; 16]);
            bytes.push(count as u8);
            bytes.extend(std::iter::repeat_n([0, 1, b'a'], count).flatten());
            assert_eq!(Request::decode(&bytes).is_ok(), whole, "{count} addresses");
        }
        for (length, whole) in [(TEXT_BYTES_MAX, true), (TEXT_BYTES_MAX + 1, false)] {
            let mut bytes = vec![4];
            bytes.extend((length as u16).to_be_bytes());
            bytes.extend(vec![b'a'; length]);
            assert_eq!(Answer::decode(&bytes).is_ok(), whole, "{length} bytes");
        }
    }
}
