//! Streams and super streams in the catalogue, for a stream connection.

use super::behind::Wanted;
use super::partitions;
use super::port::NodePort;
use super::{Asked, News};
use crate::env::{Env, Executed, Proposal, ProposalId};
use crate::memory_permit;
use leveret_metadata::{CatalogueError, Command, Outcome, QueueKind, QueueRecord};
use leveret_stream::{Event, Refusal, RequestId};
use leveret_stream_session::Reached;
use leveret_types::{FieldTable, FieldValue, NodeId, QueueId};

impl<E: Env> NodePort<'_, E> {
    pub(super) fn vhost(&self) -> String {
        self.side.login.vhost_name().to_owned()
    }

    fn stream(&self, name: &str) -> Option<QueueId> {
        let catalogue = self.env.catalogue();
        let record = catalogue.queue_by_name(self.side.login.vhost_name(), name);
        let is_stream = record.filter(|record| record.kind() == QueueKind::Stream);
        is_stream.map(leveret_metadata::QueueRecord::id)
    }

    pub(super) fn look_up(&mut self, request: RequestId, name: &str) {
        let stream = self.stream(name);
        if stream.is_none() && self.awaits_stream(request, name, Wanted::Id) {
            return;
        }
        let result = stream.ok_or(Refusal::NotFound);
        self.heard(Event::Found { request, result });
    }

    pub(super) fn declare(
        &mut self,
        request: RequestId,
        name: &str,
        arguments: &[(String, String)],
    ) {
        let command = Command::QueueDeclare {
            vhost: self.vhost(),
            name: name.to_owned(),
            durable: true,
            exclusive: None,
            auto_delete: false,
            arguments: queue_arguments(arguments),
            random: self.env.random(),
            shards: self.env.settings().shard_count,
            id: None,
        };
        self.propose(request, Asked::Declare, &command);
    }

    pub(super) fn delete(&mut self, request: RequestId, name: &str) {
        match self.stream(name) {
            None if self.awaits_stream(request, name, Wanted::Deletion) => {}
            None => self.answer(request, Asked::Delete, Err(Refusal::NotFound)),
            Some(id) => {
                let command = Command::queue_delete(&self.vhost(), name, id);
                self.propose(request, Asked::Delete, &command);
            }
        }
    }

    fn propose(&mut self, request: RequestId, asked: Asked, command: &Command) {
        let permitted = memory_permit::permit(command, self.env);
        match permitted.and_then(|()| self.env.propose(self.now, self.side.identity.id, command)) {
            Ok(Proposal::Done(executed)) => {
                let result = Ok(self.executed_here(executed));
                self.answer(request, asked, result);
            }
            Ok(Proposal::Waiting(id)) => self.side.proposed = Some((id, request, asked)),
            Err(error) => self.answer(request, asked, Err(refusal(&error))),
        }
    }

    /// Nothing is written before a change is durable.
    pub(super) fn executed_here(&mut self, executed: Executed) -> Outcome {
        self.side.unsynced.extend(executed.log_position);
        executed.outcome
    }

    /// The cluster has carried out what it was asked, or refused it.
    pub(super) fn executed(&mut self, id: ProposalId, result: Result<Outcome, CatalogueError>) {
        let is_it = |proposed: &mut (ProposalId, RequestId, Asked)| proposed.0 == id;
        match self.side.proposed.take_if(is_it) {
            Some((_, request, asked)) => {
                self.answer(request, asked, result.map_err(|error| refusal(&error)));
            }
            None => self.exchange_changed(id, result),
        }
    }

    fn answer(&mut self, request: RequestId, asked: Asked, result: Result<Outcome, Refusal>) {
        let event = match asked {
            Asked::Delete => Event::Deleted {
                request,
                result: result.map(drop),
            },
            Asked::Declare => {
                let new = |outcome: Outcome| match (outcome.queue, outcome.created) {
                    (Some(id), true) => Ok(id),
                    _ => Err(Refusal::Exists),
                };
                Event::Declared {
                    request,
                    result: result.and_then(new),
                }
            }
        };
        self.heard(event);
    }

    fn heard(&mut self, event: Event) {
        self.side.news.push_back(News::Event(event));
    }

    /// The partitions of a super stream that a key leads to, or all, in their order.
    pub(super) fn partitions_of(
        &mut self,
        super_stream: &str,
        key: Option<&[u8]>,
    ) -> Option<Vec<String>> {
        let catalogue = self.env.catalogue();
        let vhost = catalogue.vhost(self.side.login.vhost_name())?;
        let (found, bindings) = partitions::of(vhost, super_stream, key);
        self.side.work += bindings;
        found
    }

    // --- the cluster ---------------------------------------------------------------------------

    /// The node that leads a stream.
    pub(super) fn leader_of(&self, stream: &str) -> Reached {
        let home = {
            let catalogue = self.env.catalogue();
            let record = catalogue.queue_by_name(self.side.login.vhost_name(), stream);
            record.map(QueueRecord::home)
        };
        home.map_or(Reached::Here, |home| self.reached(home))
    }

    /// The nodes that have the other replicas.
    pub(super) fn replicas_of(&self, stream: &str) -> Vec<Reached> {
        let others: Vec<NodeId> = {
            let catalogue = self.env.catalogue();
            let record = catalogue.queue_by_name(self.side.login.vhost_name(), stream);
            let members = record.map_or(&[][..], QueueRecord::members).iter();
            let home = record.map(QueueRecord::home);
            let nodes = members.map(|member| member.node());
            nodes.filter(|node| Some(*node) != home).collect()
        };
        others.into_iter().map(|node| self.reached(node)).collect()
    }

    /// Where clients reach a node: as it says itself.
    fn reached(&self, node: NodeId) -> Reached {
        if node == self.env.node_id() {
            return Reached::Here;
        }
        let said = self.env.stream_clients(node).unwrap_or_default();
        let said = match self.side.identity.peer.tls {
            true => said.tls,
            false => said.plain,
        };
        said.map_or(Reached::Unknown, |(host, port)| Reached::At(host, port))
    }
}

/// The arguments of a queue for those of the stream protocol. Others are ignored, as in RabbitMQ.
fn queue_arguments(arguments: &[(String, String)]) -> FieldTable {
    let mut table = FieldTable::from([("x-queue-type", FieldValue::text("stream"))]);
    for (key, value) in arguments {
        let number = || value.parse().ok().map(FieldValue::I64);
        let value = match key.as_str() {
            "max-length-bytes"
            | "stream-max-segment-size-bytes"
            | "stream-filter-size-bytes"
            | "initial-cluster-size"
            | "retention-groups-alarm-bytes"
            | "flush-interval-ms" => number(),
            "max-age" | "queue-leader-locator" | "flush" | "retention-groups" => {
                Some(FieldValue::text(value))
            }
            _ => None,
        };
        if let Some(value) = value {
            table.set(&format!("x-{key}"), value);
        }
    }
    table
}

fn refusal(error: &CatalogueError) -> Refusal {
    match error {
        CatalogueError::NoMajority | CatalogueError::NoMemory => {
            Refusal::NotAvailable(error.to_string())
        }
        _ => Refusal::Precondition(error.to_string()),
    }
}
