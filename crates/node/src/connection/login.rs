//! Who the client is, and what it may do.

use super::Connection;
use super::look::Missed;
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
use leveret_types::{ChannelId, Message, Now, ProtocolError, ReplyCode};
use std::sync::Arc;

/// Who is logged in, and where.
#[derive(Debug, Default)]
pub(super) struct Login {
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

impl Login {
    pub(super) fn user_name(&self) -> &str {
        &self.user
    }

    pub(super) fn vhost_name(&self) -> &str {
        &self.vhost
    }

    pub(super) fn mechanism(&self) -> &str {
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
    pub(super) fn rights(&mut self, catalogue: &Catalogue) -> &Rights {
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
        mechanism.name().clone_into(&mut self.login.mechanism);
        let credentials = match self.credentials(mechanism, response, env) {
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

    /// Checks a user's password: in place where that takes microseconds, or elsewhere.
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
        let check = LoginCheck::new(hash, password, env.settings().hashing);
        if !check.is_slow() {
            return self.password_checked(user, mechanism, check.run().into(), now, env);
        }
        let wanted = Arc::new(());
        let from = LoginFrom {
            connection: self.id,
            address: self.peer.remote.ip(),
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
            Verdict::Right => self.enter(&user, env),
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

    fn credentials<E: Env>(
        &self,
        mechanism: Mechanism,
        response: &[u8],
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
                let name = self
                    .certificate
                    .as_deref()
                    .and_then(|certificate| certificate::user_name(certificate, from));
                Ok(sasl::external(name.as_deref())?)
            }
            Mechanism::Anonymous => Ok(sasl::anonymous(env.settings().anonymous.as_ref())?),
        }
    }

    /// The client is this user, if that one is to be let in; otherwise the reason, for the log.
    fn enter<E: Env>(&mut self, name: &str, env: &E) -> Result<(), &'static str> {
        let catalogue = env.catalogue();
        // The user may have gone while the password was checked.
        let Some(user) = catalogue.user(name) else {
            return Err("no such user");
        };
        let peer = Some(self.peer.remote.ip());
        if catalogue.check_loopback(name, peer).is_err() {
            return Err("this user may only connect from this host");
        }
        name.clone_into(&mut self.login.user);
        self.login.impersonates = user.tags().iter().any(|tag| tag == "impersonator");
        Ok(())
    }

    pub(super) fn open_vhost<E: Env>(&mut self, name: &str, now: Now, env: &E) {
        let again = || Missed::OpenVhost(name.to_owned());
        match self.enter_vhost(name, env) {
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

    fn enter_vhost<E: Env>(&mut self, name: &str, env: &E) -> Result<(), ProtocolError> {
        let catalogue = env.catalogue();
        if catalogue.vhost(name).is_none() {
            return Err(ProtocolError::connection(
                ReplyCode::NotAllowed,
                format!("vhost {name} not found"),
            ));
        }
        name.clone_into(&mut self.login.vhost);
        self.login.rights = None;
        self.login.rights(&catalogue).check_vhost()?;
        let user = &self.login.user;
        env.registry()
            .open_connection(self.id, user, name, |of_vhost, of_user| {
                catalogue.check_open(user, name, of_vhost, of_user)
            })?;
        self.login.counted = true;
        Ok(())
    }

    pub(super) fn log_out<E: Env>(&mut self, env: &E) {
        if std::mem::take(&mut self.login.counted) {
            env.registry()
                .close_connection(self.id, &self.login.user, &self.login.vhost);
        }
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
