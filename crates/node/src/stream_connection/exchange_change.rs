//! The exchange of a super stream, made or deleted: one step after the other, without anybody
//! waiting for the cluster but the client that asked.

use super::News;
use super::port::NodePort;
use crate::env::{Env, Proposal, ProposalId};
use crate::memory_permit;
use leveret_metadata::{CatalogueError, Command, Endpoint, Outcome};
use leveret_routing::{PARTITION_ORDER, SUPER_STREAM, SUPER_STREAM_ROUTING};
use leveret_stream::RequestId;
use leveret_stream_protocol::ResponseCode;
use leveret_types::{FieldTable, FieldValue};

/// A change of a super stream's exchange that is under way.
#[derive(Debug)]
pub(super) struct ExchangeChange {
    request: RequestId,
    stage: Stage,
    deletion: Command,
    /// What the cluster has been asked for and has not answered.
    waiting: Vec<ProposalId>,
    /// Whether the exchange that was asked for is new.
    is_new: bool,
    /// Why it failed first.
    failed: Option<ResponseCode>,
}

/// What comes next, once all that was asked for is answered.
#[derive(Debug)]
enum Stage {
    /// The exchange is to be declared, and these bindings made once it is.
    Declare(Command, Vec<Command>),
    /// The exchange was asked for; these bindings are next.
    Bind(Vec<Command>),
    /// The bindings were asked for. Without all of its partitions a super stream must not be found.
    Check,
    /// The exchange is to be deleted.
    Delete,
    /// Nothing: whoever asked is told.
    Over,
}

impl ExchangeChange {
    fn new(request: RequestId, stage: Stage, vhost: &str, name: &str) -> Self {
        Self {
            request,
            stage,
            deletion: Command::ExchangeDelete {
                vhost: vhost.to_owned(),
                name: name.to_owned(),
                if_unused: false,
            },
            waiting: Vec::new(),
            is_new: false,
            failed: None,
        }
    }

    /// What the cluster is to be asked for next; nothing at the end.
    fn next(&mut self) -> Option<Vec<Command>> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Declare(exchange, bindings) => {
                self.stage = Stage::Bind(bindings);
                Some(vec![exchange])
            }
            Stage::Bind(bindings) if self.is_new => {
                self.stage = Stage::Check;
                Some(bindings)
            }
            Stage::Bind(_) => {
                // It is somebody else's: nothing of it may be undone.
                self.failed.get_or_insert(ResponseCode::PRECONDITION_FAILED);
                None
            }
            Stage::Check if self.failed.is_none() => None,
            Stage::Check | Stage::Delete => Some(vec![self.deletion.clone()]),
            Stage::Over => None,
        }
    }

    /// One of the things that were asked for is answered.
    fn answered(&mut self, result: Result<Outcome, CatalogueError>) {
        match result {
            Ok(outcome) => self.is_new |= outcome.created,
            Err(error) => {
                self.failed.get_or_insert(code_of(&error));
            }
        }
    }
}

impl<E: Env> NodePort<'_, E> {
    /// Makes the exchange of a super stream, and binds its partitions.
    pub(super) fn declare_super_stream(
        &mut self,
        request: RequestId,
        name: &str,
        partitions: &[(String, String)],
        arguments: &[(String, String)],
    ) {
        let vhost = self.vhost();
        let exchange = Command::ExchangeDeclare {
            vhost: vhost.clone(),
            name: name.to_owned(),
            kind: "direct".to_owned(),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: exchange_arguments(arguments),
        };
        let partitions = partitions.iter().enumerate();
        let bindings = partitions.map(|(order, (partition, key))| {
            let order = FieldValue::I64(i64::try_from(order).unwrap_or(i64::MAX));
            Command::Bind {
                vhost: vhost.clone(),
                source: name.to_owned(),
                destination: Endpoint::Queue(partition.clone()),
                routing_key: key.as_bytes().to_vec(),
                arguments: FieldTable::from([(PARTITION_ORDER, order)]),
            }
        });
        let stage = Stage::Declare(exchange, bindings.collect());
        self.go_on_with_exchange(ExchangeChange::new(request, stage, &vhost, name));
    }

    /// Deletes the exchange of a super stream.
    pub(super) fn delete_super_stream(&mut self, request: RequestId, name: &str) {
        let change = ExchangeChange::new(request, Stage::Delete, &self.vhost(), name);
        self.go_on_with_exchange(change);
    }

    /// The cluster has carried out what it was asked, or refused it.
    pub(super) fn exchange_changed(
        &mut self,
        id: ProposalId,
        result: Result<Outcome, CatalogueError>,
    ) {
        let waits = |change: &mut ExchangeChange| change.waiting.contains(&id);
        if let Some(mut change) = self.side.exchange_change.take_if(waits) {
            change.waiting.retain(|waiting| *waiting != id);
            self.note_refusal(&result);
            change.answered(result);
            self.go_on_with_exchange(change);
        }
    }

    /// Asks for what comes next until that takes time, or the change is over.
    fn go_on_with_exchange(&mut self, mut change: ExchangeChange) {
        while change.waiting.is_empty() {
            let Some(commands) = change.next() else {
                let result = change.failed.map_or(Ok(()), Err);
                let told = News::SuperStream(change.request, result);
                return self.side.news.push_back(told);
            };
            for command in &commands {
                self.ask_for_exchange(command, &mut change);
            }
        }
        self.side.exchange_change = Some(change);
    }

    fn ask_for_exchange(&mut self, command: &Command, change: &mut ExchangeChange) {
        let permitted = memory_permit::permit(command, self.env);
        let connection = self.side.identity.id;
        let proposed = permitted.and_then(|()| self.env.propose(self.now, connection, command));
        let result = match proposed {
            Ok(Proposal::Waiting(id)) => return change.waiting.push(id),
            Ok(Proposal::Done(executed)) => Ok(self.executed_here(executed)),
            Err(error) => Err(error),
        };
        self.note_refusal(&result);
        change.answered(result);
    }

    fn note_refusal(&self, result: &Result<Outcome, CatalogueError>) {
        if let Err(error) = result {
            let connection = &self.side.identity.name;
            tracing::warn!(%connection, "super stream refused: {error}");
        }
    }
}

const fn code_of(error: &CatalogueError) -> ResponseCode {
    match error {
        CatalogueError::NoMajority | CatalogueError::NoMemory => ResponseCode::STREAM_NOT_AVAILABLE,
        _ => ResponseCode::PRECONDITION_FAILED,
    }
}

/// The arguments of a super stream's exchange for those of the stream protocol.
fn exchange_arguments(arguments: &[(String, String)]) -> FieldTable {
    let mut table = FieldTable::from([(SUPER_STREAM, FieldValue::Bool(true))]);
    for (key, value) in arguments {
        if SUPER_STREAM_ROUTING.strip_prefix("x-") == Some(key) {
            table.set(SUPER_STREAM_ROUTING, FieldValue::text(value));
        }
    }
    table
}
