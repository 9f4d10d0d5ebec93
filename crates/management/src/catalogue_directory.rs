//! [`Directory`] on the catalogue: what a node must offer so that the API can read and change what
//! it keeps.

use crate::api::{self, Running};
use crate::catalogue_walk;
use crate::directory::{
    AlterError, Alteration, BindingId, BindingScope, Counts, Directory, Exchange, Queue, Secret,
    Traffic, User, Vhost,
};
use leveret_auth::password::SALT_BYTES_GIVEN;
use leveret_auth::{HashingAlgorithm, PasswordHash, Pattern};
use leveret_metadata::{
    Catalogue, CatalogueError, Command, Definitions, GlobalParameterDefinition, Json,
    ParameterDefinition, PermissionDefinition, PolicyDefinition, QueueRecord,
    TopicPermissionDefinition, User as UserRecord, Vhost as VhostRecord, merge_policies,
};
use leveret_routing::Destination;
use leveret_types::{FieldTable, QueueId, QueueKind, ReplyCode};
use serde_json::Value;

/// Why commands were not carried out.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// The catalogue refuses one; those before it hold.
    #[error(transparent)]
    Refused(#[from] CatalogueError),
    /// The node stops, or its log cannot be written.
    #[error("{0}")]
    Failed(String),
}

impl From<ExecuteError> for AlterError {
    fn from(error: ExecuteError) -> Self {
        match error {
            ExecuteError::Refused(error) if error.is_not_found() => {
                Self::NotFound(error.to_string())
            }
            ExecuteError::Refused(error) if error.code() == ReplyCode::ResourceError => {
                Self::Unavailable(error.to_string())
            }
            ExecuteError::Refused(error) => Self::Invalid(error.to_string()),
            ExecuteError::Failed(text) => Self::Failed(text),
        }
    }
}

/// Makes commands that fit the catalogue as it is.
pub type MakeCommands<'a> = &'a mut dyn FnMut() -> Result<Vec<Command>, CatalogueError>;

/// A node with a catalogue. Whatever is one has a [`Directory`].
pub trait CatalogueDirectory: Running {
    /// Reads the catalogue, as of one moment.
    fn with_catalogue(&self, read: &mut dyn FnMut(&Catalogue));
    /// Makes commands, and carries them out in order; durable when it returns. Others may change
    /// the catalogue between; `make` may be called again where that spoilt some of them, and is
    /// called while the catalogue is not borrowed. `by` is who wants it.
    fn execute(&self, by: &str, make: MakeCommands<'_>) -> Result<(), ExecuteError>;
    /// Unguessable bytes.
    fn salt(&self) -> [u8; SALT_BYTES_GIVEN];
    /// How many shards new queues are spread over.
    fn shards(&self) -> u16;
    /// Bytes that the process may take, as of this moment, until nothing new is declared. It gives
    /// back what is free where fewer than `wanted` are left.
    fn memory_left(&self, _wanted: u64) -> u64 {
        u64::MAX
    }
    /// Has operators read what an import made nothing of, a line each; `by` is whose import it was.
    fn note_passed_over(&self, by: &str, lines: &[String]);
}

/// What `read` makes of the catalogue.
pub(crate) fn view<K: CatalogueDirectory + ?Sized, T>(
    catalogue_directory: &K,
    mut read: impl FnMut(&Catalogue) -> T,
) -> T {
    let mut found = None;
    catalogue_directory.with_catalogue(&mut |catalogue| found = Some(read(catalogue)));
    found.unwrap_or_else(|| unreachable!("with_catalogue did not call what it was given"))
}

impl<K: CatalogueDirectory> Directory for K {
    fn counts(&self) -> Counts {
        view(self, |catalogue| {
            let vhosts = || catalogue.vhosts();
            Counts {
                vhosts: vhosts().len() as u64,
                exchanges: vhosts().map(|v| v.exchanges().len() as u64 + 1).sum(),
                queues: catalogue.queue_count() as u64,
                bindings: vhosts().map(|v| v.router().binding_count() as u64).sum(),
            }
        })
    }

    fn vhosts(&self) -> Vec<Vhost> {
        view(self, |catalogue| catalogue.vhosts().map(vhost_of).collect())
    }

    fn vhost(&self, name: &str) -> Option<Vhost> {
        view(self, |catalogue| catalogue.vhost(name).map(vhost_of))
    }

    fn users(&self) -> Vec<User> {
        view(self, |catalogue| catalogue.users().map(user_of).collect())
    }

    fn user(&self, name: &str) -> Option<User> {
        view(self, |catalogue| catalogue.user(name).map(user_of))
    }

    fn permissions(&self) -> Vec<PermissionDefinition> {
        view(self, |catalogue| {
            let users = catalogue.users();
            users.flat_map(UserRecord::permission_definitions).collect()
        })
    }

    fn permission(&self, user: &str, vhost: &str) -> Option<PermissionDefinition> {
        view(self, |catalogue| {
            catalogue.user(user)?.permission_definition(vhost)
        })
    }

    fn topic_permissions(&self) -> Vec<TopicPermissionDefinition> {
        view(self, |catalogue| {
            let users = catalogue.users();
            let all = users.flat_map(UserRecord::topic_permission_definitions);
            all.collect()
        })
    }

    fn each_policy(&self, operator: bool, see: &mut dyn FnMut(&str, &str)) {
        catalogue_walk::each_policy(self, operator, see);
    }

    fn policy(&self, operator: bool, vhost: &str, name: &str) -> Option<PolicyDefinition> {
        view(self, |catalogue| {
            let policy = catalogue.vhost(vhost)?.policy(operator, name)?;
            Some(policy.to_definition(vhost))
        })
    }

    fn each_parameter(&self, see: &mut dyn FnMut(&str, &str, &str)) {
        catalogue_walk::each_parameter(self, see);
    }

    fn parameter(&self, vhost: &str, component: &str, name: &str) -> Option<ParameterDefinition> {
        view(self, |catalogue| {
            let value = catalogue.vhost(vhost)?.parameter(component, name)?;
            Some(ParameterDefinition {
                value: Json(value.clone()),
                vhost: vhost.to_owned(),
                component: component.to_owned(),
                name: name.to_owned(),
            })
        })
    }

    fn each_global_parameter(&self, see: &mut dyn FnMut(&str)) {
        catalogue_walk::each_global_parameter(self, see);
    }

    fn global_parameter(&self, name: &str) -> Option<GlobalParameterDefinition> {
        view(self, |catalogue| {
            Some(GlobalParameterDefinition {
                name: name.to_owned(),
                value: Json(catalogue.global_parameter(name)?.clone()),
            })
        })
    }

    fn exchange_count(&self, vhost: &str) -> usize {
        view(self, |catalogue| {
            let vhost = catalogue.vhost(vhost);
            vhost.map_or(0, |vhost| 1 + vhost.exchanges().len())
        })
    }

    fn each_exchange(&self, vhost: Option<&str>, see: &mut dyn FnMut(&str, &str)) {
        catalogue_walk::each_exchange(self, vhost, see);
    }

    fn each_traffic(&self, see: &mut dyn FnMut(&Traffic<'_>)) {
        catalogue_walk::each_exchange_record(self, None, &mut |vhost, name| {
            let (published_in, published_out) = traffic(vhost, name);
            // The default one has no record.
            let kind = vhost.exchange(name).map_or(DEFAULT_KIND, |x| x.kind());
            see(&Traffic {
                vhost: vhost.name(),
                exchange: name,
                kind,
                published: [published_in, published_out],
            });
        });
    }

    fn exchange(&self, vhost: &str, name: &str) -> Option<Exchange> {
        view(self, |catalogue| {
            let record = catalogue.vhost(vhost)?;
            match name {
                "" => Some(default_exchange(record)),
                _ => record.exchange(name).map(|x| exchange_of(record, x)),
            }
        })
    }

    fn declared_queues(&self, vhost: Option<&str>) -> Vec<Queue> {
        view(self, |catalogue| {
            let queues = catalogue.queues(vhost);
            queues.map(|queue| queue_of(catalogue, queue)).collect()
        })
    }

    fn each_queue(&self, vhost: Option<&str>, see: &mut dyn FnMut(QueueId, &str, &str)) {
        catalogue_walk::each_queue(self, vhost, see);
    }

    fn queues_by_id(&self, ids: &[QueueId]) -> Vec<Queue> {
        view(self, |catalogue| {
            let queues = ids.iter().filter_map(|id| catalogue.queue(*id));
            queues.map(|queue| queue_of(catalogue, queue)).collect()
        })
    }

    fn queues_within(&self, ids: &[QueueId], bytes: usize) -> usize {
        view(self, |catalogue| {
            let mut left = bytes;
            let fits = |id: &&QueueId| {
                let weight = catalogue
                    .queue(**id)
                    .map_or(0, |queue| queue.arguments().weight());
                let fits = weight <= left;
                left = left.saturating_sub(weight);
                fits
            };
            ids.iter().take_while(fits).count().max(1)
        })
    }

    fn declared_queue(&self, vhost: &str, name: &str) -> Option<Queue> {
        view(self, |catalogue| {
            let queue = catalogue.queue_by_name(vhost, name)?;
            Some(queue_of(catalogue, queue))
        })
    }

    fn each_binding(&self, scope: BindingScope<'_>, see: &mut dyn FnMut(&str, BindingId)) {
        catalogue_walk::each_binding(self, scope, see);
    }

    fn binding_at(&self, vhost: &str, id: BindingId) -> Option<api::Binding> {
        view(self, |catalogue| match id {
            BindingId::Implicit(queue) => {
                let queue = catalogue
                    .queue(queue)
                    .filter(|queue| queue.vhost() == vhost)?;
                Some(implicit(queue.name()))
            }
            BindingId::Numbered(number) => {
                let binding = catalogue.vhost(vhost)?.router().binding(number)?;
                Some(binding_of(binding))
            }
        })
    }

    fn alter(&self, by: &str, alteration: Alteration) -> Result<(), AlterError> {
        if let Alteration::DeleteUsers(users) = &alteration {
            return Ok(self.execute(by, &mut || Ok(deletions_of(self, users)))?);
        }
        let algorithm = view(self, |catalogue| catalogue.config().hashing);
        let salt = self.salt();
        // Hashing may take long, and so may seeing what a pattern costs: they are done before the
        // catalogue is locked.
        check_cost(&alteration)?;
        let command = command_of(alteration, algorithm, salt)?;
        Ok(self.execute(by, &mut || Ok(vec![command.clone()]))?)
    }

    fn hash_password(&self, password: &str) -> String {
        let algorithm = view(self, |catalogue| catalogue.config().hashing);
        let hash = PasswordHash::new(algorithm, password.as_bytes(), &self.salt());
        hash.map(|hash| hash.text).unwrap_or_default()
    }

    fn default_queue_type(&self) -> &'static str {
        let configured = view(self, |catalogue| catalogue.config().default_queue_type);
        configured.map_or("classic", QueueKind::name)
    }

    fn export(&self, vhost: Option<&str>) -> Definitions {
        let mut definitions = view(self, |catalogue| catalogue.export_unordered(vhost));
        // Whoever changes the catalogue does not wait for that.
        definitions.sort();
        definitions
    }

    fn memory_left(&self, wanted: u64) -> u64 {
        CatalogueDirectory::memory_left(self, wanted)
    }

    fn note_left_out(&self, by: &str, lines: &[String]) {
        self.note_passed_over(by, lines);
    }

    fn check_import(&self, vhost: Option<&str>, definitions: &Value) -> Result<(), AlterError> {
        let definitions = read_definitions(definitions)?;
        commands_of(self, vhost, &definitions).map_err(ExecuteError::Refused)?;
        Ok(())
    }

    fn import(
        &self,
        by: &str,
        vhost: Option<&str>,
        definitions: &Value,
    ) -> Result<Vec<String>, AlterError> {
        let definitions = read_definitions(definitions)?;
        let mut make = || commands_of(self, vhost, &definitions);
        self.execute(by, &mut make)?;
        let passed_over = view(self, |catalogue| definitions.passed_over(catalogue, vhost));
        self.note_passed_over(by, &passed_over);
        Ok(passed_over)
    }
}

fn read_definitions(definitions: &Value) -> Result<Definitions, AlterError> {
    use serde::Deserialize;
    Definitions::deserialize(definitions)
        .map_err(|error| AlterError::Invalid(format!("these are no definitions: {error}")))
}

/// The commands of an import.
fn commands_of<C: CatalogueDirectory + ?Sized>(
    directory: &C,
    vhost: Option<&str>,
    definitions: &Definitions,
) -> Result<Vec<Command>, CatalogueError> {
    // The catalogue is borrowed again and again, and not while all is tried.
    let mut trial = view(directory, |catalogue| definitions.trial(catalogue, vhost));
    let left = |wanted| directory.memory_left(wanted);
    while view(directory, |catalogue| trial.look(catalogue))? {
        if left(1) == 0 {
            return Err(CatalogueError::NoMemory);
        }
    }
    trial.fits(left)?;
    trial.commands(directory.shards(), &mut || directory.salt())
}

fn limits_of<'a>(limits: impl Iterator<Item = (&'a str, i64)>) -> Vec<(String, i64)> {
    limits
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn vhost_of(vhost: &VhostRecord) -> Vhost {
    Vhost {
        name: vhost.name().to_owned(),
        description: vhost.description().to_owned(),
        tags: vhost.tags().to_vec(),
        default_queue_type: vhost
            .default_queue_type()
            .map(|kind| kind.name().to_owned()),
        tracing: vhost.tracing(),
        protected: vhost.protected(),
        limits: limits_of(vhost.limits()),
    }
}

fn user_of(user: &UserRecord) -> User {
    User {
        name: user.name().to_owned(),
        tags: user.tags().to_vec(),
        password_hash: user.password().text.clone(),
        hashing_algorithm: user.password().algorithm.name().to_owned(),
        limits: limits_of(user.limits()),
    }
}

/// The default exchange, which the catalogue keeps no record of.
/// The type of the default exchange.
const DEFAULT_KIND: &str = "direct";

fn default_exchange(vhost: &VhostRecord) -> Exchange {
    let (published_in, published_out) = traffic(vhost, "");
    Exchange {
        vhost: vhost.name().to_owned(),
        kind: DEFAULT_KIND.to_owned(),
        durable: true,
        published_in,
        published_out,
        ..Exchange::default()
    }
}

fn traffic(vhost: &VhostRecord, exchange: &str) -> (u64, u64) {
    vhost
        .traffic(exchange)
        .map_or((0, 0), leveret_metadata::Traffic::values)
}

fn exchange_of(vhost: &VhostRecord, exchange: &leveret_metadata::ExchangeRecord) -> Exchange {
    let (published_in, published_out) = traffic(vhost, exchange.name());
    Exchange {
        vhost: vhost.name().to_owned(),
        name: exchange.name().to_owned(),
        kind: exchange.kind().to_owned(),
        durable: exchange.durable(),
        auto_delete: exchange.auto_delete(),
        internal: exchange.internal(),
        arguments: exchange.arguments().clone(),
        policy: exchange.policy().map(str::to_owned),
        declared_by: String::new(),
        published_in,
        published_out,
    }
}

fn queue_of(catalogue: &Catalogue, queue: &QueueRecord) -> Queue {
    let effective = || {
        let vhost = catalogue.vhost(queue.vhost())?;
        let policy = queue.policy();
        let policy = policy.and_then(|name| vhost.policies().find(|p| &*p.name == name));
        let operator = queue.operator_policy();
        let operator =
            operator.and_then(|name| vhost.operator_policies().find(|p| &*p.name == name));
        Some(merge_policies(policy, operator))
    };
    let members = queue.members().iter().map(|member| member.node());
    let home = queue.members().is_empty().then_some(queue.home());
    let name = |node| Some((node, catalogue.node_label(node)?));
    let has_policy = queue.policy().is_some() || queue.operator_policy().is_some();
    Queue {
        id: queue.id(),
        vhost: queue.vhost().to_owned(),
        name: queue.name().to_owned(),
        kind: queue.kind().name().to_owned(),
        durable: queue.durable(),
        auto_delete: queue.auto_delete(),
        exclusive: queue.exclusive().is_some(),
        owner: queue.exclusive(),
        arguments: queue.arguments().clone(),
        policy: queue.policy().map(str::to_owned),
        operator_policy: queue.operator_policy().map(str::to_owned),
        effective_policy: match has_policy {
            true => effective().unwrap_or_default(),
            false => FieldTable::new(),
        },
        nodes: members.chain(home).filter_map(name).collect(),
    }
}

/// A binding of the router in plain values. A key that is not UTF-8 is shown with replacement
/// characters.
fn binding_of(binding: leveret_routing::Binding<'_>) -> api::Binding {
    api::Binding {
        source: binding.source.to_owned(),
        destination: binding.destination.name().to_owned(),
        to_queue: matches!(binding.destination, Destination::Queue(_)),
        routing_key: String::from_utf8_lossy(binding.routing_key).into_owned(),
        arguments: binding.arguments.clone(),
    }
}

/// The default exchange's binding to a queue: it is there without being one.
fn implicit(queue: &str) -> api::Binding {
    api::Binding {
        source: String::new(),
        destination: queue.to_owned(),
        to_queue: true,
        routing_key: queue.to_owned(),
        arguments: FieldTable::new(),
    }
}

/// The hash that a secret comes to; none where the user keeps the one it has.
fn hash_of(
    secret: Secret,
    usual: HashingAlgorithm,
    salt: [u8; SALT_BYTES_GIVEN],
) -> Result<Option<PasswordHash>, AlterError> {
    let invalid = |error: leveret_auth::PasswordError| AlterError::Invalid(error.to_string());
    match secret {
        Secret::Password(password) => PasswordHash::new(usual, password.as_bytes(), &salt)
            .map(Some)
            .map_err(invalid),
        Secret::Hash { hash, algorithm } => {
            let algorithm = match algorithm {
                None => usual,
                Some(name) => HashingAlgorithm::parse(&name).ok_or_else(|| {
                    AlterError::Invalid(format!("unknown hashing algorithm '{name}'"))
                })?,
            };
            PasswordHash::parse(algorithm, &hash)
                .map(Some)
                .map_err(invalid)
        }
    }
}

/// Refuses a policy whose pattern may cost too much: whoever may set policies in one virtual host
/// would have all others wait while it is matched, then and whenever a policy changes. What is
/// stored already, or imported by an administrator, is kept and applies to nothing.
fn check_cost(alteration: &Alteration) -> Result<(), AlterError> {
    match alteration {
        Alteration::Command(Command::PolicySet { pattern, .. }) => Pattern::of_request(pattern)
            .map(drop)
            .map_err(|error| AlterError::Invalid(error.to_string())),
        _ => Ok(()),
    }
}

fn command_of(
    alteration: Alteration,
    usual: HashingAlgorithm,
    salt: [u8; SALT_BYTES_GIVEN],
) -> Result<Command, AlterError> {
    match alteration {
        Alteration::PutUser { name, tags, secret } => Ok(Command::UserPut {
            user: name,
            password: hash_of(secret, usual, salt)?,
            tags: Some(tags),
        }),
        Alteration::Command(command) => Ok(command),
        Alteration::DeleteUsers(_) => unreachable!("they are deleted by several commands"),
    }
}

/// What deletes those of these users that are there.
fn deletions_of<K: CatalogueDirectory + ?Sized>(
    catalogue_directory: &K,
    users: &[String],
) -> Vec<Command> {
    view(catalogue_directory, |catalogue| {
        let known = users.iter().filter(|name| catalogue.user(name).is_some());
        let delete = |user: &String| Command::UserDelete { user: user.clone() };
        known.map(delete).collect()
    })
}
