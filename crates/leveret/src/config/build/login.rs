//! Who may log in and how, and the user whom an empty node begins with.

use super::{Reader, narrow};
use crate::config::settled::{FirstBoot, Login, PasswordHashing};
use crate::config::{ConfigError, value};
use leveret_auth::{Credentials, Mechanism};
use leveret_node::certificate::{AlternativeName, NameFrom};
use leveret_types::QueueKind;
use std::path::PathBuf;

impl Reader<'_> {
    pub(super) fn login(&self) -> Result<Login, ConfigError> {
        let anonymous = self.anonymous();
        let hashing = match self.words("password_hashing_module").as_str() {
            "rabbit_password_hashing_sha512" => PasswordHashing::Sha512,
            "rabbit_password_hashing_md5" => PasswordHashing::Md5,
            "argon2id" => PasswordHashing::Argon2id,
            _ => PasswordHashing::Sha256,
        };
        Ok(Login {
            mechanisms: self.mechanisms(anonymous.is_some())?,
            anonymous,
            loopback_users: self.loopback_users(),
            hashing,
            certificate_name: self.certificate_name(),
        })
    }

    /// The mechanisms that are offered: those that are named, or all that need nothing more.
    fn mechanisms(&self, anonymous: bool) -> Result<Vec<Mechanism>, ConfigError> {
        let named = self.typed.below("auth_mechanisms");
        let named: Vec<_> = named
            .filter_map(|(_, setting)| Some((Mechanism::parse(&setting.text)?, setting)))
            .collect();
        for (mechanism, setting) in &named {
            if *mechanism == Mechanism::Anonymous && !anonymous {
                return Err(ConfigError::at(
                    setting.source.clone(),
                    "ANONYMOUS needs the user whom strangers log in as: `anonymous_login_user` \
                     and `anonymous_login_pass`, or do not offer it",
                ));
            }
        }
        if !named.is_empty() {
            return Ok(named.into_iter().map(|(mechanism, _)| mechanism).collect());
        }
        let usual = [Mechanism::Plain, Mechanism::AmqPlain].into_iter();
        Ok(usual
            .chain(anonymous.then_some(Mechanism::Anonymous))
            .collect())
    }

    fn anonymous(&self) -> Option<Credentials> {
        let user = self.words("anonymous_login_user");
        (user != "none").then(|| Credentials {
            user,
            password: Some(self.words("anonymous_login_pass").into_bytes()),
        })
    }

    fn loopback_users(&self) -> Vec<String> {
        let named: Vec<_> = self.typed.below("loopback_users").collect();
        let open = self.typed.get("loopback_users").is_some()
            || named
                .iter()
                .any(|(u, s)| *u == "guest" && value::boolean(&s.text) == Ok(false));
        let mut users: Vec<String> = named
            .iter()
            .filter(|(_, s)| value::boolean(&s.text) == Ok(true))
            .map(|(user, _)| (*user).to_owned())
            .collect();
        if !open && !users.iter().any(|u| u == "guest") {
            users.push("guest".to_owned());
        }
        users
    }

    fn certificate_name(&self) -> NameFrom {
        match self.words("ssl_cert_login_from").as_str() {
            "common_name" => NameFrom::CommonName,
            "subject_alternative_name" => {
                let kind = match self.words("ssl_cert_login_san_type").as_str() {
                    "ip" => AlternativeName::Ip,
                    "email" => AlternativeName::Email,
                    "uri" => AlternativeName::Uri,
                    _ => AlternativeName::Dns,
                };
                NameFrom::AlternativeName(kind, narrow(self.count("ssl_cert_login_san_index")))
            }
            _ => NameFrom::DistinguishedName,
        }
    }

    pub(super) fn first_boot(&self) -> Result<FirstBoot, ConfigError> {
        let mut tags: Vec<String> = self
            .typed
            .below("default_user_tags")
            .filter(|(_, s)| value::boolean(&s.text) == Ok(true))
            .map(|(tag, _)| tag.to_owned())
            .collect();
        if self.typed.below("default_user_tags").next().is_none() {
            tags.push("administrator".to_owned());
        }
        for name in ["default_user", "default_vhost"] {
            if self.words(name).is_empty() {
                return Err(self.conflict(name, &format!("\"{name}\" must not be empty")));
            }
        }
        let definitions = [
            "load_definitions",
            "definitions.local.path",
            "management.load_definitions",
        ]
        .into_iter()
        .find_map(|name| self.text(name));
        let permission = |name| self.words(name);
        Ok(FirstBoot {
            user: self.words("default_user"),
            password: self.words("default_pass"),
            tags,
            vhost: self.words("default_vhost"),
            permissions: [
                permission("default_permissions.configure"),
                permission("default_permissions.write"),
                permission("default_permissions.read"),
            ],
            definitions: definitions.map(PathBuf::from),
            definitions_skip_if_unchanged: self.flag("definitions.skip_if_unchanged"),
            definitions_skip_unsupported: self.flag("definitions.skip_unsupported"),
            queue_type: QueueKind::parse(&self.words("default_queue_type"))
                .unwrap_or(QueueKind::Classic),
        })
    }
}
