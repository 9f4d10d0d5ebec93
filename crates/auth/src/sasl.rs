//! The SASL mechanisms: from a client's response to who it says it is.

use leveret_types::limits::SHORT_STRING_BYTES_MAX;
use leveret_types::{FieldTable, FieldValue, ProtocolError, ReplyCode};

/// A SASL mechanism that the broker offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// RFC 4616: user and password in clear text.
    Plain,
    /// The same as a field table with `LOGIN` and `PASSWORD`.
    AmqPlain,
    /// The peer certificate's name; no password.
    External,
    /// RFC 4505: whoever connects is the user that the operator chose for strangers.
    Anonymous,
}

impl Mechanism {
    /// The mechanism of this name, in upper case as on the wire.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "PLAIN" => Self::Plain,
            "AMQPLAIN" => Self::AmqPlain,
            "EXTERNAL" => Self::External,
            "ANONYMOUS" => Self::Anonymous,
            _ => return None,
        })
    }

    /// Its name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::AmqPlain => "AMQPLAIN",
            Self::External => "EXTERNAL",
            Self::Anonymous => "ANONYMOUS",
        }
    }
}

/// Who a client says it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user's name.
    pub user: String,
    /// The password to check; none where the mechanism has proven the name already.
    pub password: Option<Vec<u8>>,
}

impl std::fmt::Debug for Credentials {
    /// Leaves the password out: what is printed ends in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "..."))
            .finish()
    }
}

/// Why a response is no answer to its mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaslError {
    /// A `PLAIN` response that is not `[authzid] NUL user NUL password`, or acts for somebody else.
    #[error("response to PLAIN invalid")]
    Plain,
    /// An `AMQPLAIN` table without the long strings `LOGIN` and `PASSWORD`.
    #[error("AMQPLAIN auth info is missing LOGIN or PASSWORD field")]
    AmqPlain,
    /// A user name that is not UTF-8 or longer than a short string.
    #[error("invalid user name")]
    UserName,
    /// `EXTERNAL` without a peer certificate that has a name.
    #[error("connection peer presented no TLS (x.509) certificate")]
    NoCertificate,
    /// `ANONYMOUS` where no user is configured for it.
    #[error("no user is configured for anonymous logins (`anonymous_login_user`)")]
    NoAnonymousUser,
}

impl From<SaslError> for ProtocolError {
    /// A response that cannot be read closes the connection with 502; a missing certificate or user
    /// is a refused login.
    fn from(error: SaslError) -> Self {
        let refused =
            |mechanism| Self::connection(ReplyCode::AccessRefused, login_refused_text(mechanism));
        match error {
            SaslError::NoCertificate => refused(Mechanism::External),
            SaslError::NoAnonymousUser => refused(Mechanism::Anonymous),
            _ => Self::connection(ReplyCode::SyntaxError, error.to_string()),
        }
    }
}

/// What a client is told whose login failed, whatever the reason: the reason goes to the log alone.
#[must_use]
pub fn login_refused_text(mechanism: Mechanism) -> String {
    format!(
        "Login was refused using authentication mechanism {}. For details see the broker logfile.",
        mechanism.name()
    )
}

fn user_name(bytes: &[u8]) -> Result<String, SaslError> {
    match std::str::from_utf8(bytes) {
        Ok(name) if name.len() <= SHORT_STRING_BYTES_MAX => Ok(name.to_owned()),
        _ => Err(SaslError::UserName),
    }
}

/// Reads a `PLAIN` response. An authorization identity is accepted where it is the user itself.
///
/// # Errors
/// If the response does not have that form.
pub fn plain(response: &[u8]) -> Result<Credentials, SaslError> {
    let mut parts = response.splitn(3, |b| *b == 0);
    let (Some(acting_for), Some(user), Some(password)) = (parts.next(), parts.next(), parts.next())
    else {
        return Err(SaslError::Plain);
    };
    let acts_for_itself = acting_for.is_empty() || acting_for == user;
    if !acts_for_itself || password.contains(&0) {
        return Err(SaslError::Plain);
    }
    Ok(Credentials {
        user: user_name(user)?,
        password: Some(password.to_vec()),
    })
}

/// Reads an `AMQPLAIN` response, which `amqp` has decoded (on the wire it is a table without its
/// length).
///
/// # Errors
/// If a field is missing or of another type.
pub fn amqplain(response: &FieldTable) -> Result<Credentials, SaslError> {
    match (response.get("LOGIN"), response.get("PASSWORD")) {
        (Some(FieldValue::LongString(user)), Some(FieldValue::LongString(password))) => {
            Ok(Credentials {
                user: user_name(user)?,
                password: Some(password.clone()),
            })
        }
        _ => Err(SaslError::AmqPlain),
    }
}

/// The user whom the peer's certificate names; the shell has verified the certificate and read the
/// name out of it.
///
/// # Errors
/// If there is no certificate, or it has no name.
pub fn external(peer_name: Option<&str>) -> Result<Credentials, SaslError> {
    match peer_name {
        Some(name) if !name.is_empty() => Ok(Credentials {
            user: user_name(name.as_bytes())?,
            password: None,
        }),
        _ => Err(SaslError::NoCertificate),
    }
}

/// The user whom the operator chose for those who do not say who they are, with its password: it is
/// checked as if the client had sent both. What the client says of itself is not looked at.
///
/// # Errors
/// If the operator chose none.
pub fn anonymous(chosen: Option<&Credentials>) -> Result<Credentials, SaslError> {
    chosen.cloned().ok_or(SaslError::NoAnonymousUser)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(user: &str, password: &str) -> Result<Credentials, SaslError> {
        Ok(Credentials {
            user: user.to_owned(),
            password: Some(password.as_bytes().to_vec()),
        })
    }

    #[test]
    fn plain_responses() {
        assert_eq!(plain(b"\0guest\0guest"), credentials("guest", "guest"));
        assert_eq!(plain(b"\0u\0"), credentials("u", ""));
        assert_eq!(plain(b"u\0u\0p"), credentials("u", "p"));
        for bad in [
            &b""[..],
            b"guest",
            b"\0guest",
            b"root\0u\0p",
            b"\0u\0p\0",
            b"u\0p",
        ] {
            assert_eq!(plain(bad), Err(SaslError::Plain), "{bad:?}");
        }
        assert_eq!(plain(b"\0\xFF\0p"), Err(SaslError::UserName));
        let name = "n".repeat(256);
        assert_eq!(
            plain(format!("\0{name}\0p").as_bytes()),
            Err(SaslError::UserName)
        );
        assert_eq!(
            plain(format!("\0{}\0p", &name[1..]).as_bytes()),
            credentials(&name[1..], "p")
        );
    }

    #[test]
    fn amqplain_responses() {
        let mut table = FieldTable::from([
            ("LOGIN", FieldValue::text("u")),
            ("PASSWORD", FieldValue::text("p")),
        ]);
        assert_eq!(amqplain(&table), credentials("u", "p"));
        table.set("PASSWORD", FieldValue::I32(1));
        assert_eq!(amqplain(&table), Err(SaslError::AmqPlain));
        table.remove("LOGIN");
        assert_eq!(amqplain(&table), Err(SaslError::AmqPlain));
    }

    #[test]
    fn external_needs_a_name() {
        let user = external(Some("CN=app")).map(|c| (c.user, c.password));
        assert_eq!(user, Ok(("CN=app".to_owned(), None)));
        for missing in [None, Some("")] {
            assert_eq!(external(missing), Err(SaslError::NoCertificate));
        }
        let error = ProtocolError::from(SaslError::NoCertificate);
        assert_eq!(
            error.reply_text(),
            "ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL. \
             For details see the broker logfile."
        );
    }

    #[test]
    fn anonymous_is_whom_the_operator_chose() {
        let chosen = credentials("visitor", "secret");
        assert_eq!(anonymous(chosen.as_ref().ok()), chosen);
        assert_eq!(anonymous(None), Err(SaslError::NoAnonymousUser));
        let error = ProtocolError::from(SaslError::NoAnonymousUser);
        assert_eq!(
            error.reply_text(),
            "ACCESS_REFUSED - Login was refused using authentication mechanism ANONYMOUS. \
             For details see the broker logfile."
        );
    }

    #[test]
    fn whatever_the_mechanism_a_user_has_a_name_of_bounded_length() {
        let name = "n".repeat(SHORT_STRING_BYTES_MAX + 1);
        let table = |name: &str| {
            FieldTable::from([
                ("LOGIN", FieldValue::text(name)),
                ("PASSWORD", FieldValue::text("p")),
            ])
        };
        assert_eq!(amqplain(&table(&name)), Err(SaslError::UserName));
        assert_eq!(external(Some(&name)), Err(SaslError::UserName));
        let name = &name[1..];
        assert_eq!(amqplain(&table(name)), credentials(name, "p"));
        assert!(external(Some(name)).is_ok());
    }

    #[test]
    fn who_is_not_understood_is_told_what_is_wrong_and_who_is_refused_is_not() {
        for (error, text) in [
            (SaslError::Plain, "response to PLAIN invalid"),
            (
                SaslError::AmqPlain,
                "AMQPLAIN auth info is missing LOGIN or PASSWORD field",
            ),
            (SaslError::UserName, "invalid user name"),
        ] {
            let error = ProtocolError::from(error);
            let expected = (ReplyCode::SyntaxError, text);
            assert_eq!((error.code, error.text.as_ref()), expected);
        }
        for mechanism in [Mechanism::Plain, Mechanism::AmqPlain] {
            let text = login_refused_text(mechanism);
            let expected = format!("mechanism {}. For details", mechanism.name());
            assert!(text.contains(&expected), "{text}");
        }
    }

    #[test]
    fn passwords_are_not_printed() {
        let printed = format!("{:?}", plain(b"\0u\0secret"));
        assert!(!printed.contains("secret"), "{printed}");
        assert!(!printed.contains("115"), "{printed}");
    }

    #[test]
    fn mechanisms() {
        for mechanism in [
            Mechanism::Plain,
            Mechanism::AmqPlain,
            Mechanism::External,
            Mechanism::Anonymous,
        ] {
            assert_eq!(Mechanism::parse(mechanism.name()), Some(mechanism));
        }
        assert_eq!(Mechanism::parse("plain"), None);
    }
}
