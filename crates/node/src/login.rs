//! Who a client is, where it is logged in, and what it may do: for sessions of every protocol.

use crate::certificate;
use crate::env::Env;
use crate::firehose::TraceOrigin;
use crate::registry::LimitReached;
use crate::route_publish::Sender;
use leveret_amqp::RawTable;
use leveret_auth::{Access, Credentials, Mechanism, Resource, Rights, sasl};
use leveret_metadata::Catalogue;
use leveret_types::{ChannelId, ConnectionId, ProtocolError, ReplyCode};
use std::net::IpAddr;

/// Who is logged in, and where.
#[derive(Debug, Default)]
pub(crate) struct Login {
    user: String,
    impersonates: bool,
    mechanism: String,
    vhost: String,
    /// The connection counts towards the limits of its user and virtual host.
    counted: bool,
    pub(crate) channels_counted: usize,
    rights: Option<Rights>,
    /// The catalogue's generation that the rights are known to be of.
    generation: u64,
}

/// Why a user whose password is right is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotLetIn {
    /// It has gone meanwhile.
    Gone,
    /// It may only come from this host.
    NotFromHere,
}

impl NotLetIn {
    /// The same, for the log.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::Gone => "no such user",
            Self::NotFromHere => "this user may only connect from this host",
        }
    }
}

impl Login {
    /// The client is this user, if that one is to be let in from there.
    pub(crate) fn enter<E: Env>(
        &mut self,
        name: &str,
        from: IpAddr,
        env: &E,
    ) -> Result<(), NotLetIn> {
        let catalogue = env.catalogue();
        // The user may have gone while the password was checked.
        let user = catalogue.user(name).ok_or(NotLetIn::Gone)?;
        if catalogue.check_loopback(name, Some(from)).is_err() {
            return Err(NotLetIn::NotFromHere);
        }
        name.clone_into(&mut self.user);
        self.impersonates = user.tags().iter().any(|tag| tag == "impersonator");
        Ok(())
    }

    /// Whether there is no such virtual host, or the user has nothing to do with it.
    pub(crate) fn is_stranger<E: Env>(&self, vhost: &str, env: &E) -> bool {
        let catalogue = env.catalogue();
        let user = catalogue.user(&self.user);
        let permitted = user.is_some_and(|user| user.permission(vhost).is_some());
        catalogue.vhost(vhost).is_none() || !permitted
    }

    /// Opens a virtual host for a connection; it counts from then on.
    pub(crate) fn enter_vhost<E: Env>(
        &mut self,
        connection: ConnectionId,
        name: &str,
        env: &E,
    ) -> Result<(), LimitReached> {
        let catalogue = env.catalogue();
        if catalogue.vhost(name).is_none() {
            let why = format!("vhost {name} not found");
            return Err(ProtocolError::connection(ReplyCode::NotAllowed, why).into());
        }
        name.clone_into(&mut self.vhost);
        self.rights = None;
        self.rights(&catalogue).check_vhost()?;
        let user = &self.user;
        env.registry()
            .open_connection(connection, user, name, |of_vhost, of_user| {
                catalogue.check_open(user, name, of_vhost, of_user)
            })?;
        self.counted = true;
        Ok(())
    }

    /// The connection counts no more.
    pub(crate) fn leave<E: Env>(&mut self, connection: ConnectionId, env: &E) {
        if std::mem::take(&mut self.counted) {
            env.registry()
                .close_connection(connection, &self.user, &self.vhost);
        }
    }

    pub(crate) fn set_mechanism(&mut self, mechanism: Mechanism) {
        mechanism.name().clone_into(&mut self.mechanism);
    }

    /// Whether a virtual host is open.
    pub(crate) const fn is_open(&self) -> bool {
        self.counted
    }

    pub(crate) fn user_name(&self) -> &str {
        &self.user
    }

    pub(crate) fn vhost_name(&self) -> &str {
        &self.vhost
    }

    pub(crate) fn mechanism(&self) -> &str {
        &self.mechanism
    }

    /// What the user may do now.
    pub(crate) fn rights(&mut self, catalogue: &Catalogue) -> &Rights {
        let current = catalogue.generation();
        if self.generation != current {
            self.generation = current;
            self.rights.take_if(|rights| !catalogue.is_current(rights));
        }
        let (user, vhost) = (&self.user, &self.vhost);
        self.rights
            .get_or_insert_with(|| catalogue.rights(user, vhost, ""))
    }

    pub(crate) fn permit_queue(
        &mut self,
        catalogue: &Catalogue,
        queue: &str,
        access: Access,
    ) -> Result<(), ProtocolError> {
        self.rights(catalogue).check(access, Resource::Queue(queue))
    }

    /// The client as one that publishes, as the catalogue has it now.
    pub(crate) fn sender<'a, E: Env>(
        &'a mut self,
        catalogue: &Catalogue,
        channel: ChannelId,
        connection: &'a str,
        env: &'a E,
    ) -> Sender<'a> {
        self.rights(catalogue);
        Sender {
            rights: self.rights.as_ref(),
            origin: TraceOrigin {
                node: &env.settings().node_name,
                vhost: &self.vhost,
                connection,
                channel,
                user: &self.user,
            },
        }
    }

    /// The `user-id` of a message must be its publisher's, unless that one may speak for others.
    pub(crate) fn check_user_id(&self, claimed: &[u8]) -> Result<(), ProtocolError> {
        leveret_auth::check_user_id(claimed, &self.user, self.impersonates)
            .map_err(|error| error.at(60, 40))
    }
}

/// Whether topic permissions concern an exchange of this virtual host: they do those of type topic.
pub(crate) fn is_topic_exchange(catalogue: &Catalogue, vhost: &str, exchange: &str) -> bool {
    let vhost = catalogue.vhost(vhost);
    let exchange = vhost.and_then(|vhost| vhost.router().exchange(exchange));
    exchange.is_some_and(|exchange| matches!(exchange.kind, leveret_routing::Kind::Topic))
}

/// What a client's response says of it.
///
/// # Errors
/// What is wrong with the response.
pub(crate) fn credentials<E: Env>(
    mechanism: Mechanism,
    response: &[u8],
    certificate: Option<&[u8]>,
    env: &E,
) -> Result<Credentials, ProtocolError> {
    match mechanism {
        Mechanism::Plain => Ok(sasl::plain(response)?),
        Mechanism::AmqPlain => {
            let table = RawTable::validate(response).map_err(|error| {
                ProtocolError::connection(ReplyCode::SyntaxError, error.to_string())
            })?;
            Ok(sasl::amqplain(&table.to_table())?)
        }
        Mechanism::External => {
            let from = env.settings().certificate_name;
            let name = certificate.and_then(|shown| certificate::user_name(shown, from));
            Ok(sasl::external(name.as_deref())?)
        }
        Mechanism::Anonymous => Ok(sasl::anonymous(env.settings().anonymous.as_ref())?),
    }
}
