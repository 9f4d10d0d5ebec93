//! Who the client is, and what it may do.

use super::Connection;
use super::look::Missed;
use crate::certificate;
use crate::counters::add;
use crate::env::Env;
use leveret_amqp::RawTable;
use leveret_auth::{Access, Credentials, Mechanism, Resource, Rights, login_refused_text, sasl};
use leveret_metadata::{Catalogue, Vhost};
use leveret_session::contract::{LoginOutcome, Reply};
use leveret_types::{ChannelId, Now, ProtocolError, ReplyCode};

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
        routing_key: &[u8],
    ) -> Result<(), ProtocolError> {
        let blame = |error: ProtocolError| error.at(60, 40);
        let rights = self.rights(catalogue);
        rights
            .check(Access::Write, Resource::Exchange(exchange))
            .map_err(blame)?;
        if rights.restricts_topics_of(exchange) && self.is_topic(catalogue, exchange) {
            self.rights(catalogue)
                .check_topic(Access::Write, exchange, routing_key)
                .map_err(blame)?;
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
        if claimed == self.user.as_bytes() || self.impersonates {
            return Ok(());
        }
        Err(ProtocolError::channel(
            ReplyCode::PreconditionFailed,
            format!(
                "user_id property set to '{}' but authenticated user was '{}'",
                String::from_utf8_lossy(claimed),
                self.user
            ),
        )
        .at(60, 40))
    }
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
        match self.authenticate(&credentials, env) {
            Ok(()) => {
                add(&env.counters().logins_succeeded, 1);
                let user = self.login.user.clone();
                self.reply(now, Reply::Login(LoginOutcome::Accepted { user }));
            }
            Err(_)
                if env.catalogue().user(&credentials.user).is_none()
                    && self.looks(
                        || Missed::Login {
                            mechanism: mechanism.name().to_owned(),
                            response: response.to_vec(),
                        },
                        env,
                    ) => {}
            Err(reason) => {
                add(&env.counters().logins_failed, 1);
                tracing::warn!(
                    connection = %self.name,
                    user = %credentials.user,
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
        }
    }

    /// Who the client is; the reason for the log if it is not who it says.
    fn authenticate<E: Env>(
        &mut self,
        credentials: &Credentials,
        env: &E,
    ) -> Result<(), &'static str> {
        let (hash, tags) = {
            let catalogue = env.catalogue();
            let user = catalogue.user(&credentials.user);
            (
                user.map(|user| user.password().clone()),
                user.map(|user| user.tags().to_vec()),
            )
        };
        // The catalogue is let go before the hash is computed: argon2 takes its time.
        if let Some(password) = &credentials.password
            && !leveret_auth::verify_login(hash.as_ref(), password, env.settings().hashing)
        {
            return Err("wrong password, or no such user");
        }
        let Some(tags) = tags else {
            return Err("no such user");
        };
        let peer = Some(self.peer.remote.ip());
        if env
            .catalogue()
            .check_loopback(&credentials.user, peer)
            .is_err()
        {
            return Err("this user may only connect from this host");
        }
        credentials.user.clone_into(&mut self.login.user);
        self.login.impersonates = tags.iter().any(|tag| tag == "impersonator");
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
                self.blocked = env.alarms().reason().is_some();
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

    pub(super) fn update_secret<E: Env>(&mut self, secret: &[u8], reason: &str, now: Now, env: &E) {
        let hash = env
            .catalogue()
            .user(&self.login.user)
            .map(|user| user.password().clone());
        if leveret_auth::verify_login(hash.as_ref(), secret, env.settings().hashing) {
            tracing::debug!(connection = %self.name, reason, "secret updated");
            return self.reply(now, Reply::Done);
        }
        let error = ProtocolError::connection(
            ReplyCode::NotAllowed,
            "New secret was refused by one of the backends",
        );
        self.fail(now, error.at(10, 70));
    }
}
