//! Who the client of a stream connection is.

use super::News;
use super::port::NodePort;
use crate::env::{Env, LoginFrom};
use crate::login::{NotLetIn, credentials};
use leveret_auth::{LoginCheck, Mechanism, Verdict};
use leveret_stream_protocol::ResponseCode;
use leveret_stream_session::LoginOutcome;
use std::sync::Arc;

/// A login whose password is being checked elsewhere.
#[derive(Debug)]
pub(super) struct Checking {
    user: String,
    /// What [`LoginFrom::wanted`] points to.
    _wanted: Arc<()>,
}

impl<E: Env> NodePort<'_, E> {
    pub(super) fn begin_login(&mut self, mechanism: &str, response: &[u8]) {
        let refused = LoginOutcome::Refused(ResponseCode::SASL_MECHANISM_NOT_SUPPORTED);
        let Some(mechanism) = Mechanism::parse(mechanism) else {
            return self.side.news.push_back(News::Login(refused));
        };
        self.side.login.set_mechanism(mechanism);
        let certificate = self.side.identity.certificate.as_deref();
        let credentials = match credentials(mechanism, response, certificate, self.env) {
            Ok(credentials) => credentials,
            Err(error) => {
                // It names nobody: a certificate with two names, say, or a malformed response.
                let from = self.side.identity.peer.remote.ip();
                self.env.counters().stream_logged_in(from, "", false);
                tracing::warn!(
                    connection = %self.side.identity.name,
                    mechanism = mechanism.name(),
                    "login refused: {}",
                    error.text,
                );
                return self.login_failed(ResponseCode::AUTHENTICATION_FAILURE);
            }
        };
        let user = credentials.user;
        let is_known = self.env.catalogue().user(&user).is_some();
        if !is_known && self.awaits_user(mechanism.name(), response) {
            return;
        }
        let Some(password) = credentials.password else {
            // The mechanism has proven the name already.
            return self.password_checked(&user, Verdict::Right);
        };
        let env = self.env;
        let known = env.catalogue().user(&user).map(|u| u.password().clone());
        let check = LoginCheck::new(&user, known, password, env.settings().hashing);
        let address = self.side.identity.peer.remote.ip();
        if let Some(verdict) = env.check_login_at_once(address, &check) {
            return self.password_checked(&user, verdict);
        }
        let wanted = Arc::new(());
        let from = LoginFrom {
            connection: self.side.identity.id,
            address,
            wanted: Arc::downgrade(&wanted),
        };
        self.side.checking = Some(Checking {
            user,
            _wanted: wanted,
        });
        env.check_login(from, check);
    }

    /// The check that was handed over has ended.
    pub(super) fn login_checked(&mut self, verdict: Verdict) {
        if let Some(checking) = self.side.checking.take() {
            self.password_checked(&checking.user, verdict);
        }
    }

    fn password_checked(&mut self, user: &str, verdict: Verdict) {
        let (entered, code) = match verdict {
            Verdict::Busy => {
                let refused = LoginOutcome::Refused(ResponseCode::INTERNAL_ERROR);
                return self.side.news.push_back(News::Login(refused));
            }
            Verdict::Wrong => (
                Err("wrong password, or no such user"),
                ResponseCode::AUTHENTICATION_FAILURE,
            ),
            Verdict::Right => {
                let entered = self.enter(user);
                let code = match entered {
                    Err(NotLetIn::NotFromHere) => ResponseCode::AUTHENTICATION_FAILURE_LOOPBACK,
                    _ => ResponseCode::AUTHENTICATION_FAILURE,
                };
                (entered.map_err(NotLetIn::reason), code)
            }
        };
        let (counters, from) = (self.env.counters(), self.side.identity.peer.remote.ip());
        counters.stream_logged_in(from, user, entered.is_ok());
        match entered {
            Ok(()) => {
                let user = user.to_owned();
                let accepted = News::Login(LoginOutcome::Accepted { user });
                self.side.news.push_back(accepted);
            }
            Err(reason) => {
                tracing::warn!(
                    connection = %self.side.identity.name,
                    // What a stranger sent is escaped: it must not make lines of its own.
                    ?user,
                    mechanism = self.side.login.mechanism(),
                    "login refused: {reason}",
                );
                self.login_failed(code);
            }
        }
    }

    /// Lets a user in. A secret that is renewed later changes nothing: the session knows whose it
    /// must be.
    fn enter(&mut self, user: &str) -> Result<(), NotLetIn> {
        let from = self.side.identity.peer.remote.ip();
        match self.side.login.is_open() {
            true => Ok(()),
            false => self.side.login.enter(user, from, self.env),
        }
    }

    /// Guessing must cost time, and must not cost a thread.
    fn login_failed(&mut self, code: ResponseCode) {
        let at = self.now.monotonic_ms + self.env.settings().login_failure_delay_ms;
        self.side.delayed = Some((at, LoginOutcome::Refused(code)));
    }
}
