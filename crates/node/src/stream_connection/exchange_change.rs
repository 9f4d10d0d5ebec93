//! The exchange of a super stream, made or deleted: without anybody waiting for the cluster but the
//! client that asked. One command does all of it, so that a client or a node that goes meanwhile
//! leaves no half of it.

use super::News;
use super::port::NodePort;
use crate::env::{Env, Proposal, ProposalId};
use crate::memory_permit;
use leveret_metadata::{CatalogueError, Command, Outcome};
use leveret_routing::{SUPER_STREAM, SUPER_STREAM_ROUTING};
use leveret_stream::RequestId;
use leveret_stream_protocol::ResponseCode;
use leveret_types::{FieldTable, FieldValue};

/// A change of a super stream's exchange that the cluster has been asked for.
#[derive(Debug)]
pub(super) struct ExchangeChange {
    request: RequestId,
    /// Whether it is to be made: one that is there is somebody else's then.
    is_declaration: bool,
    proposal: ProposalId,
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
        let command = Command::SuperStreamDeclare {
            vhost: self.vhost(),
            name: name.to_owned(),
            arguments: exchange_arguments(arguments),
            partitions: partitions.to_vec(),
        };
        self.ask_for_exchange(request, &command);
    }

    /// Deletes the exchange of a super stream.
    pub(super) fn delete_super_stream(&mut self, request: RequestId, name: &str) {
        let command = Command::ExchangeDelete {
            vhost: self.vhost(),
            name: name.to_owned(),
            if_unused: false,
        };
        self.ask_for_exchange(request, &command);
    }

    fn ask_for_exchange(&mut self, request: RequestId, command: &Command) {
        let is_declaration = matches!(command, Command::SuperStreamDeclare { .. });
        let permitted = memory_permit::permit(command, self.env);
        let connection = self.side.identity.id;
        let proposed = permitted.and_then(|()| self.env.propose(self.now, connection, command));
        let result = match proposed {
            Ok(Proposal::Waiting(proposal)) => {
                self.side.exchange_change = Some(ExchangeChange {
                    request,
                    is_declaration,
                    proposal,
                });
                return;
            }
            Ok(Proposal::Done(executed)) => Ok(self.executed_here(executed)),
            Err(error) => Err(error),
        };
        self.tell_exchange_changed(request, is_declaration, result);
    }

    /// The cluster has carried out what it was asked, or refused it.
    pub(super) fn exchange_changed(
        &mut self,
        id: ProposalId,
        result: Result<Outcome, CatalogueError>,
    ) {
        let is_it = |change: &mut ExchangeChange| change.proposal == id;
        if let Some(change) = self.side.exchange_change.take_if(is_it) {
            self.tell_exchange_changed(change.request, change.is_declaration, result);
        }
    }

    fn tell_exchange_changed(
        &mut self,
        request: RequestId,
        is_declaration: bool,
        result: Result<Outcome, CatalogueError>,
    ) {
        if let Err(error) = &result {
            let connection = &self.side.identity.name;
            tracing::warn!(%connection, "super stream refused: {error}");
        }
        let result = match result {
            Ok(outcome) if is_declaration && !outcome.created => {
                Err(ResponseCode::PRECONDITION_FAILED)
            }
            Ok(_) => Ok(()),
            Err(error) => Err(code_of(&error)),
        };
        let told = News::SuperStream(request, result);
        self.side.news.push_back(told);
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
