//! Decides who comes in at the port of a node that is part of a cluster.

use super::acceptor::AdmissionPolicy;
use super::handshake::{Accepted, Hello, Purpose, Refusal};
use super::{LinkEvent, NewLink, Own};
use crate::broker::Broker;
use leveret_cluster::Env;
use leveret_cluster::PeerAddress;
use leveret_cluster::control::{Answer, Request};
use leveret_metadata::Command;
use leveret_types::NodeId;
use std::sync::Arc;

/// The admission policy of a member.
pub(crate) struct MembersAdmission {
    pub(crate) broker: Arc<Broker>,
    pub(crate) own: Own,
}

impl AdmissionPolicy for MembersAdmission {
    fn own(&self) -> Accepted {
        Accepted {
            uuid: self.own.uuid,
            start: self.own.start,
        }
    }

    fn decide(&self, hello: &Hello) -> Result<(), Refusal> {
        match hello.purpose {
            Purpose::Control if hello.cluster == [0; 16] => Ok(()),
            _ if hello.cluster != self.own.cluster => Err(Refusal::OtherCluster),
            Purpose::Control => Ok(()),
            Purpose::Link => {
                if hello.wanted != self.own.node || hello.wanted_uuid != self.own.uuid {
                    return Err(Refusal::NotMe);
                }
                let known = self.broker.peers().get(hello.node);
                let known = known.map(|view| view.peer.uuid);
                let is_forgotten = || self.broker.catalogue().has_forgotten(hello.node);
                permit_link(hello.uuid, known, is_forgotten)
            }
        }
    }

    fn link(&self, node: NodeId, link: NewLink) {
        let event = LinkEvent::Incoming(node, link);
        self.broker.cluster_links().tell(event);
    }

    fn control(&self, request: &[u8]) -> Vec<u8> {
        let answer = match Request::decode(request) {
            Ok(Request::Join {
                uuid,
                address,
                name,
            }) => self.join(uuid, address, name),
            Ok(Request::Vote { .. }) => {
                Answer::Refused("it is part of a cluster already".to_owned())
            }
            Err(error) => Answer::Refused(error.to_string()),
        };
        answer.encode()
    }
}

/// Whether a node may link whose number this one knows as that of the node with the UUID `known`.
fn permit_link(
    uuid: [u8; 16],
    known: Option<[u8; 16]>,
    is_forgotten: impl FnOnce() -> bool,
) -> Result<(), Refusal> {
    match known {
        Some(known) if known == uuid => Ok(()),
        Some(_) => Err(Refusal::Replaced),
        None if is_forgotten() => Err(Refusal::Forgotten),
        None => Err(Refusal::Unknown),
    }
}

impl MembersAdmission {
    fn join(&self, uuid: [u8; 16], address: String, name: String) -> Answer {
        let command = Command::NodeJoin {
            uuid,
            address,
            name,
        };
        let outcome = match self.broker.execute_in_cluster(&command) {
            Ok(outcome) => outcome,
            Err(error) => return Answer::Refused(error.to_string()),
        };
        let catalogue = self.broker.catalogue();
        let node = outcome.node.or_else(|| {
            let known = catalogue.node_by_uuid(&uuid);
            known.map(leveret_metadata::NodeRecord::id)
        });
        let Some(node) = node else {
            return Answer::Refused("ask again".to_owned());
        };
        let members = catalogue.nodes().map(|node| PeerAddress {
            node: node.id(),
            uuid: node.uuid,
            address: node.address.clone(),
        });
        Answer::Joined {
            cluster: self.own.cluster,
            node,
            members: members.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_cannot_come_back_as_it_is_is_told_to_wipe_its_data() {
        let (uuid, other) = ([1; 16], [2; 16]);
        let permitted = |known, is_forgotten| permit_link(uuid, known, || is_forgotten);
        assert_eq!(permitted(Some(uuid), false), Ok(()));
        assert_eq!(permitted(Some(other), false), Err(Refusal::Replaced));
        assert_eq!(permitted(None, true), Err(Refusal::Forgotten));
        assert_eq!(permitted(None, false), Err(Refusal::Unknown));
        for (refusal, says_so) in [
            (Refusal::Replaced, true),
            (Refusal::Forgotten, true),
            (Refusal::Unknown, false),
        ] {
            let text = refusal.to_string();
            assert_eq!(text.contains("data folder"), says_so, "{text}");
        }
    }
}
