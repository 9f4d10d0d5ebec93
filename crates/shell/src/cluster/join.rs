//! On the way into a cluster: asks the listed nodes until one lets this one in, or it founds.

use super::acceptor::{self, Acceptor, AdmissionPolicy};
use super::credentials::Credentials;
use super::handshake::{Accepted, Hello, Purpose, Refusal};
use super::identity::{IdentityFile, Joined};
use super::pending_connections::KnownAddresses;
use super::{ClusterConfig, ClusterError, NewLink, Own};
use leveret_cluster::control::{Answer, Request};
use leveret_cluster::forming::{Forming, Step};
use leveret_cluster::{KnownStarts, PeerAddress};
use leveret_types::NodeId;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// Pause between two rounds of asking.
const ROUND: Duration = Duration::from_millis(200);
/// Rounds after which it is said again whom this node waits for.
const ROUNDS_PER_LINE: usize = 50;

/// How a node has come into its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It has founded it.
    Founded,
    /// It was let in.
    Joined,
}

/// Lets others vote while this node is forming.
struct Admission {
    own: Accepted,
    forming: Mutex<Forming>,
    file: Mutex<IdentityFile>,
    path: std::path::PathBuf,
}

impl AdmissionPolicy for Admission {
    fn own(&self) -> Accepted {
        self.own
    }

    fn decide(&self, hello: &Hello) -> Result<(), Refusal> {
        match hello.purpose {
            Purpose::Link => Err(Refusal::Forming),
            Purpose::Control => Ok(()),
        }
    }

    fn link(&self, _node: NodeId, _link: NewLink) {}

    fn control(&self, request: &[u8]) -> Vec<u8> {
        let answer = match Request::decode(request) {
            Ok(request) => self.asked(&request),
            Err(error) => Answer::Refused(error.to_string()),
        };
        answer.encode()
    }
}

impl Admission {
    fn asked(&self, request: &Request) -> Answer {
        let mut forming = self.forming.lock();
        let answer = forming.answer(request);
        if answer != Answer::Voted {
            return answer;
        }
        let mut file = self.file.lock();
        file.vote = forming.vote();
        match file.write(&self.path) {
            Ok(()) => answer,
            Err(error) => Answer::Refused(format!("it cannot write its vote down: {error}")),
        }
    }
}

/// Brings this node into a cluster; returns when it is in one and that is written down. `acceptor`
/// is this node's port, `file` what it knows of itself.
///
/// # Errors
/// What the operator has to change.
pub fn form(
    config: &ClusterConfig,
    acceptor: &Acceptor,
    credentials: &Arc<Credentials>,
    known: &Arc<KnownAddresses>,
    file: IdentityFile,
    has_data: bool,
) -> Result<(Way, IdentityFile), ClusterError> {
    let forming = forming(config, &file, has_data)?;
    let own = Own {
        node: NodeId(0),
        cluster: [0; 16],
        uuid: file.uuid,
        start: 0,
        credentials: Arc::clone(credentials),
        protection: config.protection,
        known: Arc::clone(known),
    };
    let admission = Arc::new(Admission {
        own: Accepted {
            uuid: own.uuid,
            start: 0,
        },
        forming: Mutex::new(forming),
        file: Mutex::new(file),
        path: config.file.clone(),
    });
    acceptor.hand_over(Arc::clone(&admission) as Arc<dyn AdmissionPolicy>);
    let (way, joined) = ask_until_in(config, &admission, &own)?;
    let mut file = admission.file.lock();
    file.joined = Some(joined);
    file.write(&config.file).map_err(|error| {
        ClusterError::Forming(format!("cannot write {}: {error}", config.file.display()))
    })?;
    Ok((way, file.clone()))
}

/// What a node that is in no cluster has to do to be in one.
pub(super) fn forming(
    config: &ClusterConfig,
    file: &IdentityFile,
    has_data: bool,
) -> Result<Forming, ClusterError> {
    let (own, listed) = (&config.advertised, &config.join);
    Forming::new(own, &config.name, file.uuid, listed, has_data, file.vote)
        .map_err(ClusterError::Forming)
}

fn ask_until_in(
    config: &ClusterConfig,
    admission: &Admission,
    own: &Own,
) -> Result<(Way, Joined), ClusterError> {
    for round in 0.. {
        let mut silent = Vec::new();
        let mut step = admission.forming.lock().step();
        let requests = admission.forming.lock().requests();
        for (address, request) in requests {
            if step != Step::Ask {
                break;
            }
            match ask(&address, own, &request) {
                Ok((voter, answer)) => {
                    if let Answer::Refused(why) = &answer {
                        silent.push(format!("{address}: {why}"));
                    }
                    step = admission.forming.lock().answered(voter, answer);
                }
                Err(error) => silent.push(format!("{address}: {error}")),
            }
        }
        match step {
            Step::Found => return found(config, own).map(|joined| (Way::Founded, joined)),
            Step::Joined(answer) => return Ok((Way::Joined, joined(answer))),
            Step::Ask => {}
        }
        if round % ROUNDS_PER_LINE == 0 && !silent.is_empty() {
            silent.dedup();
            tracing::info!("waiting for the cluster to form: {}", silent.join("; "));
        }
        std::thread::sleep(ROUND);
    }
    unreachable!("rounds do not end")
}

/// The UUID of who answers, and the answer.
fn ask(address: &str, own: &Own, request: &Request) -> Result<([u8; 16], Answer), String> {
    let hello = own.hello(Purpose::Control, NodeId(0), [0; 16]);
    let proof = own.credentials.own();
    let (uuid, bytes) = acceptor::ask(address, &proof, &hello, &own.known, &request.encode())
        .map_err(|error| error.to_string())?;
    let answer = Answer::decode(&bytes).map_err(|error| error.to_string())?;
    Ok((uuid, answer))
}

fn found(config: &ClusterConfig, own: &Own) -> Result<Joined, ClusterError> {
    let mut cluster = [0; 16];
    getrandom::fill(&mut cluster)
        .map_err(|error| ClusterError::Forming(format!("no random bytes: {error}")))?;
    Ok(Joined {
        cluster,
        node: NodeId(1),
        start: 0,
        known: KnownStarts::default(),
        members: vec![PeerAddress {
            node: NodeId(1),
            uuid: own.uuid,
            address: config.advertised.clone(),
        }],
    })
}

fn joined(answer: Answer) -> Joined {
    match answer {
        Answer::Joined {
            cluster,
            node,
            members,
        } => Joined {
            cluster,
            node,
            start: 0,
            known: KnownStarts::default(),
            members,
        },
        other => unreachable!("{other:?} lets nobody in"),
    }
}
