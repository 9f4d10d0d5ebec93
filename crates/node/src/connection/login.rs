//! Who the client is, and what it may do.

use super::Connection;
use super::read_barrier::Missed;
use crate::certificate;
use crate::counters::add;
use crate::env::{Env, LoginFrom};
use crate::properties::copies;
use leveret_amqp::RawTable;
use leveret_auth::{
    Access, Credentials, LoginCheck, Mechanism, Resource, Rights, Verdict, login_refused_text, sasl,
};
use leveret_metadata::{Catalogue, Vhost};
use leveret_session::contract::{LoginOutcome, Reply};
use leveret_types::{ChannelId, ConnectionId, Message, Now, ProtocolError, ReplyCode};
use std::net::IpAddr;
use std::sync::Arc;

/// Who is logged in, and where.
#[derive(Debug, Default)]
pub(crate) struct Login {
    user: String,
    impersonates: bool,
    mechanism: String,
    vhost: String,
    /// The connection counts towards the limits of its user and virtual host.
    counted: bool,
    channels_counted: usize,
    rights: Option<Rights>,
    /// The catalogue's generation that the rights are from.
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

    /// Opens a virtual host for a connection; it counts from then on.
    pub(crate) fn enter_vhost<E: Env>(
        &mut self,
        connection: ConnectionId,
        name: &str,
        env: &E,
    ) -> Result<(), ProtocolError> {
        let catalogue = env.catalogue();
        if catalogue.vhost(name).is_none() {
            return Err(ProtocolError::connection(
                ReplyCode::NotAllowed,
                format!("vhost {name} not found"),
            ));
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

    /// The virtual host that is open.
    pub(super) fn vhost<'c>(&self, catalogue: &'c Catalogue) -> Result<&'c Vhost, ProtocolError> {
        catalogue.vhost(&self.vhost).ok_or_else(|| {
            ProtocolError::connection(
                ReplyCode::ConnectionForced,
                format!("vhost '{}' is down", self.vhost),
            )
        })
    }

    /// What the user may do now.
    pub(crate) fn rights(&mut self, catalogue: &Catalogue) -> &Rights {
        let current = catalogue.generation();
        if self.generation != current || self.rights.is_none() {
            self.generation = current;
            self.rights = None;
        }
        let (user, vhost) = (&self.user, &self.vhost);
        self.rights
            .get_or_insert_with(|| catalogue.rights(user, vhost, ""))
    }

    pub(super) fn permit_queue(
        &mut self,
        catalogue: &Catalogue,
        queue: &str,
        access: Access,
    ) -> Result<(), ProtocolError> {
        self.rights(catalogue).check(access, Resource::Queue(queue))
    }

    pub(super) fn permit_publish(
        &mut self,
        catalogue: &Catalogue,
        exchange: &str,
        message: &Message,
    ) -> Result<(), ProtocolError> {
        let blame = |error: ProtocolError| error.at(60, 40);
        let rights = self.rights(catalogue);
        rights
            .check(Access::Write, Resource::Exchange(exchange))
            .map_err(blame)?;
        if rights.restricts_topics_of(exchange) && self.is_topic(catalogue, exchange) {
            // A copy goes where its key says: that key needs the permission as well.
            let copies = copies(message.properties())?;
            let rights = self.rights(catalogue);
            for key in std::iter::once(message.routing_key()).chain(copies) {
                rights
                    .check_topic(Access::Write, exchange, key)
                    .map_err(blame)?;
            }
        }
        Ok(())
    }

    pub(super) fn is_topic(&self, catalogue: &Catalogue, exchange: &str) -> bool {
        let facts = catalogue
            .vhost(&self.vhost)
            .and_then(|v| v.router().exchange(exchange));
        facts.is_some_and(|exchange| matches!(exchange.kind, leveret_routing::Kind::Topic))
    }

    /// The `user-id` of a message must be its publisher's, unless that one may speak for others.
    pub(super) fn check_user_id(&self, claimed: &[u8]) -> Result<(), ProtocolError> {
        leveret_auth::check_user_id(claimed, &self.user, self.impersonates)
            .map_err(|error| error.at(60, 40))
    }
}

/// A login whose password is being checked elsewhere.
#[derive(Debug)]
pub(super) struct Checking {
    user: String,
    mechanism: Mechanism,
    /// What [`LoginFrom::wanted`] points to.
    _wanted: Arc<()>,
}

impl Connection {
    pub(super) fn log_in<E: Env>(&mut self, mechanism: &str, response: &[u8], now: Now, env: &E) {
        let Some(mechanism) = Mechanism::parse(mechanism) else {
            let error = ProtocolError::connection(
                ReplyCode::CommandInvalid,
                format!("unknown authentication mechanism '{mechanism}'"),
            );
            return self.fail(now, error);
        };
        self.login.set_mechanism(mechanism);
        let certificate = self.certificate.as_deref();
        let credentials = match credentials(mechanism, response, certificate, env) {
            Ok(credentials) => credentials,
            Err(error) => return self.fail(now, error),
        };
        let user = credentials.user;
        let again = || Missed::Login {
            mechanism: mechanism.name().to_owned(),
            response: response.to_vec(),
        };
        if env.catalogue().user(&user).is_none() && self.looks(again, env) {
            return;
        }
        match credentials.password {
            Some(password) => self.check_password(user, mechanism, password, now, env),
            // The mechanism has proven the name already.
            None => self.password_checked(user, mechanism, Verdict::Right, now, env),
        }
    }

    /// Checks a user's password: in place where that takes microseconds, or elsewhere and later.
    fn check_password<E: Env>(
        &mut self,
        user: String,
        mechanism: Mechanism,
        password: Vec<u8>,
        now: Now,
        env: &E,
    ) {
        let hash = env
            .catalogue()
            .user(&user)
            .map(|user| user.password().clone());
        let check = LoginCheck::new(&user, hash, password, env.settings().hashing);
        let address = self.peer.remote.ip();
        if let Some(verdict) = env.check_login_at_once(address, &check) {
            return self.password_checked(user, mechanism, verdict, now, env);
        }
        let wanted = Arc::new(());
        let from = LoginFrom {
            connection: self.id,
            address,
            wanted: Arc::downgrade(&wanted),
        };
        self.checking = Some(Checking {
            user,
            mechanism,
            _wanted: wanted,
        });
        env.check_login(from, check);
    }

    /// The check that was handed over has ended.
    pub(super) fn login_checked<E: Env>(&mut self, verdict: Verdict, now: Now, env: &E) {
        if let Some(checking) = self.checking.take() {
            self.password_checked(checking.user, checking.mechanism, verdict, now, env);
        }
    }

    fn password_checked<E: Env>(
        &mut self,
        user: String,
        mechanism: Mechanism,
        verdict: Verdict,
        now: Now,
        env: &E,
    ) {
        let entered = match verdict {
            Verdict::Busy => {
                let error = ProtocolError::connection(
                    ReplyCode::ResourceError,
                    "too many logins wait for their passwords to be checked, try again",
                );
                return self.fail(now, error);
            }
            Verdict::Wrong => Err("wrong password, or no such user"),
            Verdict::Right => {
                let entered = self.login.enter(&user, self.peer.remote.ip(), env);
                entered.map_err(NotLetIn::reason)
            }
        };
        match entered {
            Ok(()) => {
                add(&env.counters().logins_succeeded, 1);
                self.reply(now, Reply::Login(LoginOutcome::Accepted { user }));
            }
            Err(reason) => {
                add(&env.counters().logins_failed, 1);
                tracing::warn!(
                    connection = %self.name,
                    // What a stranger sent is escaped: it must not make lines of its own.
                    ?user,
                    mechanism = mechanism.name(),
                    "login refused: {reason}",
                );
                let text = login_refused_text(mechanism);
                // Guessing must cost time, and must not cost a thread.
                let at = now.monotonic_ms + env.settings().login_failure_delay_ms;
                self.delayed = Some((at, Reply::Login(LoginOutcome::Refused { text })));
            }
        }
    }

    pub(super) fn open_vhost<E: Env>(&mut self, name: &str, now: Now, env: &E) {
        let again = || Missed::OpenVhost(name.to_owned());
        match self.login.enter_vhost(self.id, name, env) {
            Ok(()) => {
                tracing::info!(
                    connection = %self.name,
                    user = %self.login.user,
                    vhost = name,
                    "connection opened",
                );
                self.session.blocked(env.alarms().reason());
                self.reply(now, Reply::Done);
            }
            Err(_) if self.is_stranger(name, env) && self.looks(again, env) => {}
            Err(error) => self.fail(now, error.at(10, 40)),
        }
    }

    /// Whether there is no such virtual host, or the user has nothing to do with it.
    fn is_stranger<E: Env>(&self, vhost: &str, env: &E) -> bool {
        let catalogue = env.catalogue();
        let user = catalogue.user(&self.login.user);
        let permitted = user.is_some_and(|user| user.permission(vhost).is_some());
        catalogue.vhost(vhost).is_none() || !permitted
    }

    pub(super) fn log_out<E: Env>(&mut self, env: &E) {
        self.login.leave(self.id, env);
        let channels = std::mem::take(&mut self.login.channels_counted);
        env.registry().close_channels(&self.login.user, channels);
    }

    pub(super) fn open_channel<E: Env>(&mut self, channel: ChannelId, now: Now, env: &E) {
        let user = &self.login.user;
        let catalogue = env.catalogue();
        let opened = env
            .registry()
            .open_channel(user, |count| catalogue.check_channel(user, count));
        drop(catalogue);
        match opened {
            Ok(()) => {
                self.login.channels_counted += 1;
                add(&env.counters().channels_opened, 1);
                self.reply(now, Reply::Done);
            }
            Err(error) => {
                tracing::debug!(%channel, "{error}");
                self.fail(now, error.at(20, 10));
            }
        }
    }

    pub(super) fn channel_counted_out<E: Env>(&mut self, env: &E) {
        if self.login.channels_counted > 0 {
            self.login.channels_counted -= 1;
            env.registry().close_channels(&self.login.user, 1);
            add(&env.counters().channels_closed, 1);
        }
    }

    /// A client renews its secret. Users of the node's own have none that runs out: whatever it is,
    /// it is accepted, as in RabbitMQ.
    pub(super) fn update_secret(&mut self, reason: &str, now: Now) {
        tracing::debug!(connection = %self.name, reason, "secret updated");
        self.reply(now, Reply::Done);
    }
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
