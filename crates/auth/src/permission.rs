//! Permissions: which resources of a virtual host a user may configure, write to and read from.

use crate::pattern::{Pattern, PatternError};
use leveret_types::{ProtocolError, ReplyCode};
use std::fmt;
use std::sync::Arc;

/// What a user wants to do with a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Declare or delete it.
    Configure,
    /// Publish to it, or bind it as a destination.
    Write,
    /// Consume or get from it, purge it, or bind it as a source.
    Read,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Configure => "configure",
            Self::Write => "write",
            Self::Read => "read",
        })
    }
}

/// A resource by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource<'a> {
    /// A queue.
    Queue(&'a str),
    /// An exchange; the default one has the empty name and is checked as `amq.default`.
    Exchange(&'a str),
}

impl<'a> Resource<'a> {
    /// The name that patterns are matched with.
    #[must_use]
    pub fn checked_name(&self) -> &'a str {
        match self {
            Self::Exchange("") => "amq.default",
            Self::Queue(name) | Self::Exchange(name) => name,
        }
    }
}

impl fmt::Display for Resource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Queue(_) => "queue",
            Self::Exchange(_) => "exchange",
        };
        write!(f, "{kind} '{}'", self.checked_name())
    }
}

/// A user's permissions in one virtual host.
#[derive(Clone, Debug, PartialEq)]
pub struct Permission {
    /// What the user may declare and delete.
    pub configure: Pattern,
    /// What the user may write to.
    pub write: Pattern,
    /// What the user may read from.
    pub read: Pattern,
}

impl Permission {
    /// Compiles the three patterns.
    ///
    /// # Errors
    /// If one of them is not acceptable.
    pub fn new(configure: &str, write: &str, read: &str) -> Result<Self, PatternError> {
        Ok(Self {
            configure: Pattern::new(configure)?,
            write: Pattern::new(write)?,
            read: Pattern::new(read)?,
        })
    }

    /// Whether the action is permitted on the resource.
    #[must_use]
    pub fn allows(&self, action: Access, resource: Resource<'_>) -> bool {
        let pattern = match action {
            Access::Configure => &self.configure,
            Access::Write => &self.write,
            Access::Read => &self.read,
        };
        pattern.matches(resource.checked_name())
    }
}

/// A user's permissions on the routing keys of one topic exchange, with variables: `{username}`,
/// `{vhost}`, `{client_id}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPermission {
    write: Box<str>,
    read: Box<str>,
}

impl TopicPermission {
    /// Checks that the patterns compile whatever the variables are.
    ///
    /// # Errors
    /// If one of them does not.
    pub fn new(write: &str, read: &str) -> Result<Self, PatternError> {
        for pattern in [write, read] {
            Pattern::new(&expand(pattern, "user", "vhost", "client"))?;
        }
        Ok(Self {
            write: write.into(),
            read: read.into(),
        })
    }

    /// The pattern for publishing, as it was given.
    #[must_use]
    pub fn write(&self) -> &str {
        &self.write
    }

    /// The pattern for binding, as it was given.
    #[must_use]
    pub fn read(&self) -> &str {
        &self.read
    }
}

/// The variable that stands for the client's id, which only MQTT has.
const CLIENT_ID: &str = "{client_id}";

/// Puts the variables into a pattern. Their values are taken literally: a user cannot widen its
/// permission by a name that is a pattern.
fn expand(pattern: &str, user: &str, vhost: &str, client_id: &str) -> String {
    let variables = [
        ("{username}", user),
        ("{vhost}", vhost),
        (CLIENT_ID, client_id),
    ];
    let mut expanded = String::with_capacity(pattern.len());
    let mut rest = pattern;
    'text: while let Some(brace) = rest.find('{') {
        expanded.push_str(&rest[..brace]);
        rest = &rest[brace..];
        for (name, value) in variables {
            if let Some(after) = rest.strip_prefix(name) {
                expanded.push_str(&regex::escape(value));
                rest = after;
                continue 'text;
            }
        }
        expanded.push('{');
        rest = &rest[1..];
    }
    expanded + rest
}

/// What one user may do in one virtual host, compiled: made once per connection, and again when
/// that changes.
#[derive(Clone, Debug)]
pub struct Rights {
    user: Arc<str>,
    vhost: Arc<str>,
    permission: Option<Arc<Permission>>,
    topics: Vec<CompiledTopic>,
}

#[derive(Clone, Debug)]
struct CompiledTopic {
    exchange: Box<str>,
    of: TopicPermission,
    write: Option<Pattern>,
    read: Option<Pattern>,
}

impl Rights {
    /// What `user` may do in `vhost`: nothing where there is no permission. Topic permissions are
    /// by exchange. A client without an id has an empty `client_id`: what a pattern with
    /// `{client_id}` would permit it, it does not.
    pub fn new<'a>(
        user: &str,
        vhost: &str,
        permission: Option<Arc<Permission>>,
        topics: impl IntoIterator<Item = (&'a str, &'a TopicPermission)>,
        client_id: &str,
    ) -> Self {
        // A pattern that no longer compiles once its variables are in it (because it has become too
        // long) permits nothing.
        let compile = |text: &str| {
            let known = !client_id.is_empty() || !text.contains(CLIENT_ID);
            known
                .then(|| Pattern::new(&expand(text, user, vhost, client_id)).ok())
                .flatten()
        };
        Self {
            user: user.into(),
            vhost: vhost.into(),
            permission,
            topics: topics
                .into_iter()
                .map(|(exchange, topic)| CompiledTopic {
                    exchange: exchange.into(),
                    of: topic.clone(),
                    write: compile(&topic.write),
                    read: compile(&topic.read),
                })
                .collect(),
        }
    }

    /// Whether [`Self::new`] would make the same of these for this user, this virtual host and the
    /// client's id: nothing is compiled to find that out.
    #[must_use]
    pub fn is_made_of<'a>(
        &'a self,
        permission: Option<&Arc<Permission>>,
        topics: impl IntoIterator<Item = (&'a str, &'a TopicPermission)>,
    ) -> bool {
        let is_same = match (&self.permission, permission) {
            (Some(mine), Some(other)) => Arc::ptr_eq(mine, other),
            (None, None) => true,
            _ => false,
        };
        let mine = self
            .topics
            .iter()
            .map(|topic| (&*topic.exchange, &topic.of));
        is_same && mine.eq(topics)
    }

    /// The user.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The virtual host.
    #[must_use]
    pub fn vhost(&self) -> &str {
        &self.vhost
    }

    /// Whether the user may open the virtual host at all, which any permission in it allows, even
    /// an empty one.
    ///
    /// # Errors
    /// 530 NOT_ALLOWED, which closes the connection.
    pub fn check_vhost(&self) -> Result<(), ProtocolError> {
        match self.permission {
            Some(_) => Ok(()),
            None => Err(vhost_refused(&self.vhost, &self.user)),
        }
    }

    /// Whether the user may do `action` on `resource`.
    ///
    /// # Errors
    /// 403 ACCESS_REFUSED with RabbitMQ's text, which closes the channel.
    pub fn check(&self, action: Access, resource: Resource<'_>) -> Result<(), ProtocolError> {
        match &self.permission {
            Some(permission) if permission.allows(action, resource) => Ok(()),
            _ => Err(refused(format!(
                "{action} access to {resource} in vhost '{}' refused for user '{}'",
                self.vhost, self.user
            ))),
        }
    }

    /// Whether any action on the resource is permitted, which is what a passive declaration needs.
    ///
    /// # Errors
    /// As [`Self::check`], for the action `configure`.
    pub fn check_any(&self, resource: Resource<'_>) -> Result<(), ProtocolError> {
        let permitted = [Access::Write, Access::Read]
            .into_iter()
            .any(|action| self.check(action, resource).is_ok());
        if permitted {
            Ok(())
        } else {
            self.check(Access::Configure, resource)
        }
    }

    /// Whether topic permissions concern this exchange: if not, [`Self::check_topic`] need not be
    /// called for each message.
    #[must_use]
    pub fn restricts_topics_of(&self, exchange: &str) -> bool {
        self.topics.iter().any(|topic| *topic.exchange == *exchange)
    }

    /// Whether the user may publish with (`Write`) or bind with (`Read`) this key at a topic
    /// exchange. Without a topic permission for the exchange, every key is permitted. The caller
    /// asks for exchanges of type topic only.
    ///
    /// # Errors
    /// 403 ACCESS_REFUSED with RabbitMQ's text, which closes the channel.
    pub fn check_topic(
        &self,
        action: Access,
        exchange: &str,
        routing_key: &[u8],
    ) -> Result<(), ProtocolError> {
        let Some(topic) = self.topics.iter().find(|t| *t.exchange == *exchange) else {
            return Ok(());
        };
        let pattern = match action {
            Access::Write => topic.write.as_ref(),
            Access::Read => topic.read.as_ref(),
            Access::Configure => None,
        };
        if pattern.is_some_and(|pattern| pattern.matches_bytes(routing_key)) {
            return Ok(());
        }
        let key = String::from_utf8_lossy(routing_key);
        Err(refused(format!(
            "{action} access to topic '{key}' in exchange '{exchange}' in vhost '{}' \
             refused for user '{}'",
            self.vhost, self.user
        )))
    }
}

/// Whether `user` may publish a message that claims, by its `user-id`, to be from `claimed`: only
/// from itself, unless it is an impersonator.
///
/// # Errors
/// 406 PRECONDITION_FAILED with RabbitMQ's text, which closes the channel.
pub fn check_user_id(claimed: &[u8], user: &str, impersonates: bool) -> Result<(), ProtocolError> {
    if claimed == user.as_bytes() || impersonates {
        return Ok(());
    }
    Err(ProtocolError::channel(
        ReplyCode::PreconditionFailed,
        format!(
            "user_id property set to '{}' but authenticated user was '{user}'",
            String::from_utf8_lossy(claimed),
        ),
    ))
}

fn refused(text: String) -> ProtocolError {
    ProtocolError::channel(ReplyCode::AccessRefused, text)
}

/// The error of a user who may not open a virtual host: 530 NOT_ALLOWED, which closes the
/// connection.
#[must_use]
pub fn vhost_refused(vhost: &str, user: &str) -> ProtocolError {
    ProtocolError::connection(
        ReplyCode::NotAllowed,
        format!("access to vhost '{vhost}' refused for user '{user}'"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_types::limits::REGEX_BYTES_MAX;

    fn access(configure: &str, write: &str, read: &str) -> Rights {
        let permission = Permission::new(configure, write, read).expect("patterns");
        Rights::new("u", "/", Some(Arc::new(permission)), [], "")
    }

    fn text(result: Result<(), ProtocolError>) -> String {
        match result {
            Ok(()) => "ok".to_owned(),
            Err(error) => format!("{} {}", error.code.code(), error.text),
        }
    }

    #[test]
    fn who_a_message_is_from_is_its_user_or_said_by_an_impersonator() {
        for (claimed, impersonates, expected) in [
            ("u", false, "ok"),
            ("v", true, "ok"),
            (
                "v",
                false,
                "406 user_id property set to 'v' but authenticated user was 'u'",
            ),
            (
                "",
                false,
                "406 user_id property set to '' but authenticated user was 'u'",
            ),
        ] {
            let answer = text(check_user_id(claimed.as_bytes(), "u", impersonates));
            assert_eq!(answer, expected, "claims to be from '{claimed}'");
        }
    }

    #[test]
    fn texts_are_rabbitmqs() {
        let nothing = access("", "", "");
        assert_eq!(text(nothing.check_vhost()), "ok");
        assert_eq!(
            text(nothing.check(Access::Configure, Resource::Queue("q"))),
            "403 configure access to queue 'q' in vhost '/' refused for user 'u'"
        );
        assert_eq!(
            text(nothing.check(Access::Write, Resource::Exchange(""))),
            "403 write access to exchange 'amq.default' in vhost '/' refused for user 'u'"
        );
        assert_eq!(
            text(nothing.check(Access::Read, Resource::Exchange("x"))),
            "403 read access to exchange 'x' in vhost '/' refused for user 'u'"
        );
        let stranger = Rights::new("u", "v", None, [], "");
        assert_eq!(
            text(stranger.check_vhost()),
            "530 access to vhost 'v' refused for user 'u'"
        );
        assert!(stranger.check(Access::Read, Resource::Queue("q")).is_err());
    }

    #[test]
    fn actions_are_told_apart() {
        let some = access("^c", "^w", "^r");
        for (action, name) in [
            (Access::Configure, "c"),
            (Access::Write, "w"),
            (Access::Read, "r"),
        ] {
            for other in ["c", "w", "r"] {
                let allowed = some.check(action, Resource::Queue(other)).is_ok();
                assert_eq!(allowed, other == name, "{action} {other}");
            }
            assert!(some.check_any(Resource::Queue(name)).is_ok());
        }
        assert!(some.check_any(Resource::Queue("x")).is_err());
        let default_only = access("", "^amq\\.default$", "");
        assert!(
            default_only
                .check(Access::Write, Resource::Exchange(""))
                .is_ok()
        );
        assert!(
            default_only
                .check(Access::Write, Resource::Queue(""))
                .is_err()
        );
    }

    #[test]
    fn topic_permissions_expand_variables_literally() {
        let topic = TopicPermission::new("^{username}\\.{vhost}\\.", "^{client_id}[.]x{2}$");
        let topic = topic.expect("patterns");
        let permission = Arc::new(Permission::new("", ".*", ".*").expect("patterns"));
        let access = |user: &str| {
            let topics = [("events", &topic)];
            Rights::new(user, "v", Some(Arc::clone(&permission)), topics, "c1")
        };
        let bob = access("bob");
        assert!(bob.restricts_topics_of("events") && !bob.restricts_topics_of("other"));
        assert_eq!(
            text(bob.check_topic(Access::Write, "events", b"bob.v.created")),
            "ok"
        );
        assert_eq!(
            text(bob.check_topic(Access::Write, "other", b"anything")),
            "ok"
        );
        assert_eq!(
            text(bob.check_topic(Access::Read, "events", b"c1.xx")),
            "ok"
        );
        assert_eq!(
            text(bob.check_topic(Access::Write, "events", b"eve.v.created")),
            "403 write access to topic 'eve.v.created' in exchange 'events' in vhost 'v' \
             refused for user 'bob'"
        );
        assert!(
            access(".*")
                .check_topic(Access::Write, "events", b"bob.v.x")
                .is_err()
        );
        assert!(
            access("{vhost}")
                .check_topic(Access::Write, "events", b"v.v.x")
                .is_err()
        );
        assert!(TopicPermission::new("(", "").is_err());
    }

    #[test]
    fn rights_are_made_anew_only_when_what_they_are_made_of_has_changed() {
        let topic = |write| TopicPermission::new(write, "").expect("patterns");
        let permission = || Arc::new(Permission::new("", ".*", ".*").expect("patterns"));
        let (mine, a, b) = (permission(), topic("a"), topic("b"));
        let rights = Rights::new("u", "v", Some(Arc::clone(&mine)), [("x", &a)], "");
        assert!(rights.is_made_of(Some(&mine), [("x", &topic("a"))]));
        assert!(!rights.is_made_of(Some(&permission()), [("x", &a)]));
        assert!(!rights.is_made_of(None, [("x", &a)]));
        assert!(!rights.is_made_of(Some(&mine), [("x", &b)]));
        assert!(!rights.is_made_of(Some(&mine), [("y", &a)]));
        assert!(!rights.is_made_of(Some(&mine), [("x", &a), ("y", &a)]));
        assert!(!rights.is_made_of(Some(&mine), []));
    }

    #[test]
    fn who_has_no_client_id_is_permitted_nothing_for_it() {
        let topic = TopicPermission::new("^x|{client_id}", "^mine").expect("patterns");
        let of = |client_id: &str| {
            let topics = [("events", &topic)];
            Rights::new("u", "v", None, topics, client_id)
        };
        for (client_id, key, permitted) in [
            ("c1", "of.c1", true),
            ("c1", "x", true),
            ("c1", "of.c2", false),
            ("", "of.c1", false),
            ("", "x", false),
            ("", "", false),
        ] {
            let found = of(client_id).check_topic(Access::Write, "events", key.as_bytes());
            assert_eq!(found.is_ok(), permitted, "{client_id:?} {key:?}");
        }
        assert!(of("").check_topic(Access::Read, "events", b"mine").is_ok());
    }

    #[test]
    fn all_patterns_of_a_permission_must_compile() {
        assert!(Permission::new("a", "b", "c").is_ok());
        for [configure, write, read] in [["(", "", ""], ["", "(", ""], ["", "", "("]] {
            assert!(Permission::new(configure, write, read).is_err());
        }
    }

    #[test]
    fn rights_and_permissions_tell_whose_they_are_and_what_they_were_made_of() {
        let rights = Rights::new("user", "host", None, [], "");
        assert_eq!((rights.user(), rights.vhost()), ("user", "host"));
        let topic = TopicPermission::new("^w{2}", "^{vhost}").expect("patterns");
        assert_eq!((topic.write(), topic.read()), ("^w{2}", "^{vhost}"));
    }

    #[test]
    fn both_topic_patterns_must_compile() {
        assert!(TopicPermission::new("(", "").is_err());
        assert!(TopicPermission::new("", "(").is_err());
    }

    #[test]
    fn a_topic_pattern_that_its_variables_make_too_long_permits_nothing() {
        let pattern = "|{username}".repeat(REGEX_BYTES_MAX / "|{username}".len());
        let topic = TopicPermission::new(&pattern, &pattern).expect("patterns");
        for (user, is_permitted) in [("u".to_owned(), true), ("u".repeat(255), false)] {
            let rights = Rights::new(&user, "v", None, [("events", &topic)], "");
            for action in [Access::Write, Access::Read] {
                let found = rights.check_topic(action, "events", b"anything");
                assert_eq!(found.is_ok(), is_permitted, "{action} for {user}");
            }
        }
    }

    #[test]
    fn topics_are_written_and_read_only() {
        let topic = TopicPermission::new(".*", ".*").expect("patterns");
        let rights = Rights::new("u", "v", None, [("events", &topic)], "");
        let found = rights.check_topic(Access::Configure, "events", b"k");
        assert_eq!(
            text(found),
            "403 configure access to topic 'k' in exchange 'events' in vhost 'v' refused for user 'u'"
        );
    }

    #[test]
    fn keys_that_are_no_text_are_matched_as_they_are() {
        let topic = TopicPermission::new("^a.$", "").expect("patterns");
        let rights = Rights::new("u", "v", None, [("events", &topic)], "");
        for (key, permitted) in [(&b"a\xFF"[..], true), (b"a\xC3\xA9", false), (b"a", false)] {
            let found = rights.check_topic(Access::Write, "events", key);
            assert_eq!(found.is_ok(), permitted, "{key:?}");
        }
    }
}
