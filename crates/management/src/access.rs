//! Who may use which resource of the API: one function decides, for every route.

use crate::api::Actor;
use crate::http::reply::ApiError;

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// Nobody has said: only for resources that are open to anyone.
    Nobody,
    /// The operator at this machine, by the command line's token.
    Operator,
    /// A user who has logged in.
    User {
        /// Name.
        name: String,
        /// Tags.
        tags: Vec<String>,
    },
}

/// What a resource asks of whoever uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    Anyone,
    /// A tag that lets its user into the API at all.
    Management,
    /// The same, and some permission in the virtual host; those who may see everything may see this
    /// too.
    Visible,
    /// The same, and some permission in the virtual host, whoever it is but an administrator.
    Member,
    /// `policymaker`, and some permission in the virtual host.
    Policymaker,
    /// `monitoring`.
    Monitoring,
    /// `administrator`.
    Administrator,
}

impl Who {
    fn has(&self, wanted: &[&str]) -> bool {
        match self {
            Self::Nobody => false,
            Self::Operator => true,
            Self::User { tags, .. } => tags.iter().any(|tag| wanted.contains(&tag.as_str())),
        }
    }

    /// Whether it administers the node.
    #[must_use]
    pub fn is_administrator(&self) -> bool {
        self.has(&["administrator"])
    }

    /// Whether it may see what all others do.
    #[must_use]
    pub fn is_monitor(&self) -> bool {
        self.has(&["administrator", "monitoring"])
    }

    /// Its name; that of the operator is no user's.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Nobody => "",
            Self::Operator => "(operator)",
            Self::User { name, .. } => name,
        }
    }

    /// On whose behalf the node acts.
    #[must_use]
    pub fn actor(&self) -> Actor<'_> {
        match self {
            Self::Operator => Actor::Operator,
            Self::Nobody | Self::User { .. } => Actor::User(self.name()),
        }
    }
}

/// Whether `who` may use a resource that asks for `access`; `is_member` says whether it has some
/// permission in the virtual host that the resource is of (true where it is of none).
///
/// # Errors
/// 401 where the user's tags do not do, 404 where the virtual host is none of its own.
pub fn permit(access: Access, who: &Who, is_member: bool) -> Result<(), ApiError> {
    const IN: &[&str] = &["administrator", "monitoring", "policymaker", "management"];
    let refused = |text: &str| Err(ApiError::NotAuthorised(text.to_owned()));
    // As if it were not there, as RabbitMQ 4.3 says it.
    let hidden = || Err(ApiError::Missing("Not Found".to_owned()));
    let administrator = who.is_administrator();
    match access {
        Access::Anyone => return Ok(()),
        _ if *who == Who::Nobody => return refused("Login failed"),
        _ if !who.has(IN) => return refused("Not management user"),
        _ => {}
    }
    match access {
        Access::Monitoring if !who.is_monitor() => refused("Not monitor user"),
        Access::Administrator if !administrator => refused("Not administrator user"),
        Access::Policymaker if !who.has(&["administrator", "policymaker"]) => {
            refused("Not policymaker user")
        }
        Access::Visible if !is_member && !who.is_monitor() => hidden(),
        Access::Member | Access::Policymaker if !is_member && !administrator => hidden(),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: who. Columns: whether a member of the virtual host or not; letters: which levels are
    /// open.
    #[test]
    fn every_level_against_every_tag() {
        const LEVELS: [(Access, char); 7] = [
            (Access::Anyone, 'y'),
            (Access::Management, 'm'),
            (Access::Visible, 'v'),
            (Access::Member, 'b'),
            (Access::Policymaker, 'p'),
            (Access::Monitoring, 'o'),
            (Access::Administrator, 'a'),
        ];
        let user = |tags: &[&str]| Who::User {
            name: "u".to_owned(),
            tags: tags.iter().map(|t| (*t).to_owned()).collect(),
        };
        for (who, member, stranger) in [
            (Who::Nobody, "y", "y"),
            (Who::Operator, "ymvbpoa", "ymvbpoa"),
            (user(&[]), "y", "y"),
            (user(&["other"]), "y", "y"),
            (user(&["management"]), "ymvb", "ym"),
            (user(&["policymaker"]), "ymvbp", "ym"),
            (user(&["monitoring"]), "ymvbo", "ymvo"),
            (user(&["administrator"]), "ymvbpoa", "ymvbpoa"),
            (user(&["monitoring", "policymaker"]), "ymvbpo", "ymvo"),
        ] {
            for (is_member, expected) in [(true, member), (false, stranger)] {
                let open = LEVELS
                    .iter()
                    .filter(|(l, _)| permit(*l, &who, is_member).is_ok());
                let open: String = open.map(|(_, letter)| letter).collect();
                assert_eq!(open, expected, "{who:?} member: {is_member}");
            }
        }
    }
}
