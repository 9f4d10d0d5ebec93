//! What an import is tried on.

use super::Definitions;
use super::import::names_source;
use crate::catalogue::Catalogue;
use crate::command::Command;
use crate::error::CatalogueError;
use crate::snapshot::{declared_user, declared_vhost, exchange_command};
use crate::topology::{queue_command, strip_cr_lf};
use leveret_auth::password::SALT_BYTES_GIVEN;
use leveret_types::limits::{IMPORT_BINDING_BYTES, IMPORT_QUEUE_BYTES};
use std::fmt;

/// Names that are looked up in the catalogue at a time, while others may have to wait for it.
const NAMES_AT_ONCE: usize = 1024;

/// An import that is being prepared: definitions, and a copy of what they name of a catalogue, in
/// which each of their commands is tried before the catalogue sees any. The copy is made piece by
/// piece, so that whoever needs the catalogue need not wait for all of it, and is as large as the
/// definitions are, not as the catalogue is.
pub struct Trial<'d> {
    definitions: &'d Definitions,
    vhost: Option<&'d str>,
    names: Box<dyn Iterator<Item = Name<'d>> + 'd>,
    copy: Catalogue,
    /// How many exchanges the catalogue has, with those that are not in the copy.
    exchange_count: usize,
    /// The same of what arguments come to.
    argument_bytes: u64,
}

impl fmt::Debug for Trial<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trial")
            .field("vhost", &self.vhost)
            .field("copy", &self.copy)
            .finish_non_exhaustive()
    }
}

/// Something of the catalogue that definitions name.
enum Name<'d> {
    Vhost(&'d str),
    User(&'d str),
    Exchange(&'d str, &'d str),
    Queue(&'d str, &'d str),
}

impl Definitions {
    /// Begins to prepare an import into `catalogue`. `vhost` is where items go that name none: an
    /// import into one virtual host.
    #[must_use]
    pub fn trial<'d>(&'d self, catalogue: &Catalogue, vhost: Option<&'d str>) -> Trial<'d> {
        Trial {
            definitions: self,
            vhost,
            names: Box::new(self.names(vhost)),
            copy: catalogue.without_content(),
            exchange_count: catalogue.exchange_count,
            argument_bytes: catalogue.argument_bytes,
        }
    }

    /// What these definitions name, a virtual host before what is in it.
    fn names<'d>(&'d self, into: Option<&'d str>) -> impl Iterator<Item = Name<'d>> + 'd {
        let at = move |vhost: &'d str| into.unwrap_or(vhost);
        let vhosts = self.vhosts.iter().map(|vhost| &*vhost.name).chain(into);
        let permissions = self.permissions.iter();
        let topics = self.topic_permissions.iter();
        let users = self.users.iter().map(|user| &*user.name);
        let users = users
            .chain(permissions.clone().map(|permission| &*permission.user))
            .chain(topics.clone().map(|permission| &*permission.user));
        let of_items = permissions
            .map(|item| &*item.vhost)
            .chain(topics.map(|item| &*item.vhost))
            .chain(self.parameters.iter().map(|item| &*item.vhost))
            .chain(self.policies.iter().map(|item| &*item.vhost))
            .chain(self.exchanges.iter().map(|item| &*item.vhost))
            .chain(self.queues.iter().map(|item| &*item.vhost))
            .chain(self.bindings.iter().map(|item| &*item.vhost));
        let exchanges = self.exchanges.iter();
        let exchanges = exchanges.map(move |item| Name::Exchange(at(&item.vhost), &item.name));
        let queues = self.queues.iter().flat_map(move |item| {
            let source = names_source(item).map(|name| Name::Queue(at(&item.vhost), name));
            [Name::Queue(at(&item.vhost), &item.name)]
                .into_iter()
                .chain(source)
        });
        let ends = self.bindings.iter().flat_map(move |item| {
            let to = match &*item.destination_type {
                "exchange" => Name::Exchange(at(&item.vhost), &item.destination),
                _ => Name::Queue(at(&item.vhost), &item.destination),
            };
            [Name::Exchange(at(&item.vhost), &item.source), to]
        });
        let vhosts = vhosts.chain(of_items.filter(move |_| into.is_none()));
        vhosts
            .map(Name::Vhost)
            .chain(users.map(Name::User))
            .chain(exchanges)
            .chain(queues)
            .chain(ends)
    }
}

impl Trial<'_> {
    /// Copies more of what the definitions name: some of it at each call, so that the catalogue can
    /// be let go between. Whether there may be still more; false when all of it is there.
    ///
    /// # Errors
    /// If what the catalogue has makes no sense.
    pub fn look(&mut self, catalogue: &Catalogue) -> Result<bool, CatalogueError> {
        for _ in 0..NAMES_AT_ONCE {
            let Some(name) = self.names.next() else {
                return Ok(false);
            };
            match name {
                Name::Vhost(name) => self.copy.copy_vhost(catalogue, name)?,
                Name::User(name) => self.copy.copy_user(catalogue, name)?,
                Name::Exchange(vhost, name) => {
                    self.copy.copy_exchange(catalogue, vhost, name)?;
                }
                Name::Queue(vhost, name) => self.copy.copy_queue(catalogue, vhost, name)?,
            }
        }
        Ok(true)
    }

    /// Whether an import has memory: to be asked when all has been looked at. What it takes is an
    /// estimate: queues that are there cost nothing. `left` says how many bytes there are, and is
    /// told how many are needed.
    ///
    /// # Errors
    /// [`CatalogueError::NoMemoryForImport`].
    pub fn fits(&self, left: impl FnOnce(u64) -> u64) -> Result<(), CatalogueError> {
        let all = self.definitions;
        let queues = all.queues.len().saturating_sub(self.copy.queues.len());
        let named = queues + all.exchanges.len() + all.policies.len() + all.parameters.len();
        let named = named + all.users.len() + all.vhosts.len() + all.permissions.len();
        let needed = named as u64 * IMPORT_QUEUE_BYTES;
        let needed = needed + all.bindings.len() as u64 * IMPORT_BINDING_BYTES;
        CatalogueError::refuse_import(needed, left)
    }

    /// The commands that import the definitions, each of which a catalogue will accept, in this
    /// order, that is as it was when it was looked at. `salt` gives unguessable bytes for passwords
    /// in clear text, whose hashes take their time; `shards` is how many shards queues are spread
    /// over.
    ///
    /// # Errors
    /// The items that are not right, by name: the first of them, and how many more there are.
    pub fn commands(
        mut self,
        shards: u16,
        salt: &mut dyn FnMut() -> [u8; SALT_BYTES_GIVEN],
    ) -> Result<Vec<Command>, CatalogueError> {
        self.copy.exchange_count = self.exchange_count;
        self.copy.argument_bytes = self.argument_bytes;
        self.definitions
            .tried_in(self.copy, self.vhost, shards, salt)
    }

    /// How many virtual hosts, users, exchanges and queues were copied.
    #[cfg(test)]
    fn copied(&self) -> usize {
        let vhosts = self.copy.vhosts.len();
        vhosts + self.copy.users.len() + self.copy.exchange_count + self.copy.queues.len()
    }
}

impl Catalogue {
    /// A catalogue that counts what this one has, and has none of it.
    fn without_content(&self) -> Self {
        let mut copy = Self::new(self.config.clone());
        copy.next_queue = self.next_queue;
        copy.next_transient_queue = self.next_transient_queue;
        copy.vhosts_elsewhere = self.vhosts.len();
        copy.queues_elsewhere = self.queues.len();
        copy.bindings_elsewhere = true;
        copy
    }

    /// Copies a virtual host without what is declared in it, which it only counts.
    fn copy_vhost(&mut self, from: &Self, name: &str) -> Result<(), CatalogueError> {
        let Some(vhost) = from.vhost(name).filter(|_| self.vhost(name).is_none()) else {
            return Ok(());
        };
        for command in declared_vhost(vhost) {
            self.replay(&command)?;
        }
        self.vhost_mut(name)?.queues_elsewhere = vhost.queues.len();
        self.vhosts_elsewhere = self.vhosts_elsewhere.saturating_sub(1);
        Ok(())
    }

    /// Copies a user without permissions.
    fn copy_user(&mut self, from: &Self, name: &str) -> Result<(), CatalogueError> {
        match from.user(name).filter(|_| self.user(name).is_none()) {
            Some(user) => self.replay(&declared_user(user)),
            None => Ok(()),
        }
    }

    fn copy_exchange(&mut self, from: &Self, at: &str, name: &str) -> Result<(), CatalogueError> {
        let name = &*strip_cr_lf(name);
        let wanted = |vhost: &&crate::record::Vhost| vhost.exchange(name).is_none();
        if self.vhost(at).filter(wanted).is_none() {
            return Ok(());
        }
        match from.vhost(at).and_then(|vhost| vhost.exchange(name)) {
            Some(exchange) => self.replay(&exchange_command(at, exchange)),
            None => Ok(()),
        }
    }

    fn copy_queue(&mut self, from: &Self, at: &str, name: &str) -> Result<(), CatalogueError> {
        let name = &*strip_cr_lf(name);
        let wanted = |vhost: &&crate::record::Vhost| vhost.queue_id(name).is_none();
        if self.vhost(at).filter(wanted).is_none() {
            return Ok(());
        }
        let Some(queue) = from.queue_by_name(at, name) else {
            return Ok(());
        };
        self.replay(&queue_command(queue))?;
        let vhost = self.vhost_mut(at)?;
        vhost.queues_elsewhere = vhost.queues_elsewhere.saturating_sub(1);
        self.queues_elsewhere = self.queues_elsewhere.saturating_sub(1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Config;
    use leveret_types::FieldTable;

    /// A virtual host with so many queues.
    fn catalogue(queues: usize) -> Catalogue {
        let mut catalogue = Catalogue::new(Config::default());
        let vhost = Command::VhostPut {
            vhost: "/".to_owned(),
            description: None,
            tags: None,
            default_queue_type: None,
            protected: None,
            tracing: None,
        };
        let queue = |number| Command::QueueDeclare {
            vhost: "/".to_owned(),
            name: format!("q{number}"),
            durable: number % 2 == 0,
            exclusive: None,
            auto_delete: false,
            arguments: FieldTable::new(),
            random: [0; 16],
            shards: 2,
            id: None,
        };
        for command in [vhost].into_iter().chain((0..queues).map(queue)) {
            catalogue.apply(&command).expect("a command");
        }
        catalogue
    }

    fn read(json: &str) -> Definitions {
        serde_json::from_str(json).expect("definitions")
    }

    #[test]
    fn a_small_import_copies_little_of_a_large_catalogue() {
        let catalogue = catalogue(2000);
        let definitions = read(
            r#"{"queues": [{"name": "new", "vhost": "/", "durable": false, "auto_delete": false,
                            "arguments": {}}],
                "bindings": [{"source": "amq.topic", "vhost": "/", "destination": "q1",
                              "destination_type": "queue", "routing_key": "a", "arguments": {}}]}"#,
        );
        let mut trial = definitions.trial(&catalogue, None);
        assert!(!trial.look(&catalogue).expect("sense"));
        // The virtual host, its six exchanges and the queue that is bound.
        assert_eq!(trial.copied(), 8);
        let commands = trial.commands(2, &mut || [7; 16]).expect("commands");
        assert_eq!(commands.len(), 2);
    }

    #[test]
    fn a_large_import_lets_the_catalogue_go_between() {
        let catalogue = catalogue(0);
        let queues: Vec<String> = (0..2 * NAMES_AT_ONCE)
            .map(|number| {
                format!(
                    r#"{{"name": "q{number}", "vhost": "/", "durable": true,
                         "auto_delete": false, "arguments": {{}}}}"#
                )
            })
            .collect();
        let definitions = read(&format!(r#"{{"queues": [{}]}}"#, queues.join(",")));
        let mut trial = definitions.trial(&catalogue, None);
        let mut looks = 1;
        while trial.look(&catalogue).expect("sense") {
            looks += 1;
        }
        // A queue and the virtual host of each.
        assert_eq!(looks, 5);
    }

    #[test]
    fn an_import_needs_memory_for_the_queues_that_are_not_there() {
        const NEW: u64 = 1000;
        let catalogue = catalogue(300);
        let queue = |number| {
            format!(
                r#"{{"name": "q{number}", "vhost": "/", "durable": true, "auto_delete": false,
                     "arguments": {{}}}}"#
            )
        };
        let fits = |count: u64, left: u64| {
            let queues: Vec<String> = (0..count).map(queue).collect();
            let definitions = read(&format!(r#"{{"queues": [{}]}}"#, queues.join(",")));
            let mut trial = definitions.trial(&catalogue, None);
            while trial.look(&catalogue).expect("sense") {}
            trial.fits(|_| left)
        };
        let needed = NEW * IMPORT_QUEUE_BYTES;
        assert_eq!(fits(300 + NEW, needed), Ok(()));
        let refused = CatalogueError::NoMemoryForImport {
            needed_mb: 4,
            left_mb: 3,
        };
        assert_eq!(fits(300 + NEW, needed - 1), Err(refused));
        // What is there already, and a few new ones, need nothing that is to be asked for.
        assert_eq!(fits(301, 0), Ok(()));
    }

    #[test]
    fn what_is_not_copied_counts_for_limits() {
        let mut catalogue = catalogue(3);
        let limit = Command::VhostLimitSet {
            vhost: "/".to_owned(),
            limit: "max-queues".to_owned(),
            value: 4,
        };
        catalogue.apply(&limit).expect("a limit");
        let queue = |name: &str| {
            format!(
                r#"{{"name": "{name}", "vhost": "/", "durable": true, "auto_delete": false,
                     "arguments": {{}}}}"#
            )
        };
        let commands = |queues: &[String]| {
            let definitions = read(&format!(r#"{{"queues": [{}]}}"#, queues.join(",")));
            definitions.to_commands(&catalogue, None, 2, &mut || [7; 16])
        };
        assert_eq!(commands(&[queue("q0"), queue("a")]).map(|c| c.len()), Ok(1));
        let error = commands(&[queue("q0"), queue("a"), queue("b")]);
        let error = error.expect_err("one more than the limit").to_string();
        assert!(error.ends_with("(4) is reached"), "{error}");
    }
}
