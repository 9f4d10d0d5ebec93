//! How a client of this connection logs in, opens its virtual host and its channels.

use super::Connection;
use super::pending_login::Checking;
use super::retry::Retry;
use crate::counters::add;
use crate::env::{Env, LoginFrom};
use crate::login::{NotLetIn, credentials};
use crate::registry::LimitReached;
use leveret_auth::{LoginCheck, Mechanism, Verdict, login_refused_text};
use leveret_client::{LoginOutcome, Reply, Session};
use leveret_types::{ChannelId, Now, ProtocolError, ReplyCode};
use std::sync::Arc;

impl<S: Session> Connection<S> {
    pub(super) fn log_in<E: Env>(&mut self, mechanism: &str, response: &[u8], now: Now, env: &E) {
        let Some(mechanism) = Mechanism::parse(mechanism) else {
            let error = ProtocolError::connection(
                ReplyCode::CommandInvalid,
                format!("unknown authentication mechanism '{mechanism}'"),
            );
            return self.fail(now, error);
        };
        self.login.set_mechanism(mechanism);
        let certificate = self.identity.certificate.as_deref();
        let credentials = match credentials(mechanism, response, certificate, env) {
            Ok(credentials) => credentials,
            Err(error) => {
                // It names nobody: a certificate with two names, say, or a malformed response.
                let from = self.identity.peer.remote.ip();
                env.counters().logged_in(from, "", false);
                tracing::warn!(
                    connection = %self.identity.name,
                    mechanism = mechanism.name(),
                    "login refused: {error}",
                );
                return self.fail(now, error);
            }
        };
        let user = credentials.user;
        let again = || Retry::Login {
            mechanism: mechanism.name().to_owned(),
            response: response.to_vec(),
        };
        if env.catalogue().user(&user).is_none() && self.await_barrier(again, env) {
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
        let address = self.identity.peer.remote.ip();
        if let Some(verdict) = env.check_login_at_once(address, &check) {
            return self.password_checked(user, mechanism, verdict, now, env);
        }
        let wanted = Arc::new(());
        let from = LoginFrom {
            connection: self.identity.id,
            address,
            wanted: Arc::downgrade(&wanted),
        };
        self.pending_login.checking = Some(Checking {
            user,
            mechanism,
            _wanted: wanted,
        });
        env.check_login(from, check);
    }

    /// The check that was handed over has ended.
    pub(super) fn login_checked<E: Env>(&mut self, verdict: Verdict, now: Now, env: &E) {
        if let Some(checking) = self.pending_login.checking.take() {
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
                let entered = self.login.enter(&user, self.identity.peer.remote.ip(), env);
                entered.map_err(NotLetIn::reason)
            }
        };
        let from = self.identity.peer.remote.ip();
        env.counters().logged_in(from, &user, entered.is_ok());
        match entered {
            Ok(()) => {
                self.reply(now, Reply::Login(LoginOutcome::Accepted { user }));
            }
            Err(reason) => {
                tracing::warn!(
                    connection = %self.identity.name,
                    // What a stranger sent is escaped: it must not make lines of its own.
                    ?user,
                    mechanism = mechanism.name(),
                    "login refused: {reason}",
                );
                let text = login_refused_text(mechanism);
                // Guessing must cost time, and must not cost a thread.
                let at = now.monotonic_ms + env.settings().login_failure_delay_ms;
                let refused = Reply::Login(LoginOutcome::Refused { text });
                self.pending_login.delay(at, refused);
            }
        }
    }

    pub(super) fn open_vhost<E: Env>(&mut self, name: &str, now: Now, env: &E) {
        let again = || Retry::OpenVhost(name.to_owned());
        match self.login.enter_vhost(self.identity.id, name, env) {
            Ok(()) => {
                tracing::info!(
                    connection = %self.identity.name,
                    user = %self.login.user_name(),
                    vhost = name,
                    "connection opened",
                );
                self.session.blocked(env.alarms().reason());
                self.reply(now, Reply::Done);
            }
            Err(_) if self.login.is_stranger(name, env) && self.await_barrier(again, env) => {}
            Err(refused) if self.await_counts(&refused, again(), env) => {}
            Err(refused) => self.fail(now, refused.error.at(10, 40)),
        }
    }

    pub(super) fn log_out<E: Env>(&mut self, env: &E) {
        self.login.leave(self.identity.id, env);
        let channels = std::mem::take(&mut self.login.channels_counted);
        env.registry()
            .close_channels(self.login.user_name(), channels);
    }

    pub(super) fn open_channel<E: Env>(&mut self, channel: ChannelId, now: Now, env: &E) {
        let user = self.login.user_name();
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
            Err(refused) if self.await_counts(&refused, Retry::OpenChannel(channel), env) => {}
            Err(LimitReached { error, .. }) => {
                tracing::debug!(%channel, "{error}");
                self.fail(now, error.at(20, 10));
            }
        }
    }

    pub(super) fn channel_counted_out<E: Env>(&mut self, env: &E) {
        if self.login.channels_counted > 0 {
            self.login.channels_counted -= 1;
            env.registry().close_channels(self.login.user_name(), 1);
            add(&env.counters().channels_closed, 1);
        }
    }

    /// A client renews its secret. Users of the node's own have none that runs out: whatever it is,
    /// it is accepted, as in RabbitMQ.
    pub(super) fn update_secret(&mut self, reason: &str, now: Now) {
        tracing::debug!(connection = %self.identity.name, reason, "secret updated");
        self.reply(now, Reply::Done);
    }
}
