//! What the fake node has unless a test says otherwise.

use super::*;

impl Fake {
    /// The arguments of what there is besides the usual: a copy shares them.
    pub(super) fn more_arguments(&self) -> FieldTable {
        self.arguments.lock().expect("arguments").clone()
    }

    /// The queues besides the usual ones.
    pub(super) fn more_settings(&self) -> impl Iterator<Item = String> {
        (0..self.more_settings.load(Relaxed)).map(|number| format!("more-{number:06}"))
    }

    pub(super) fn content_of(&self, connection: ConnectionStats) -> ConnectionContent {
        let mut content = self.content_without_consumers(connection);
        content.consumers = self.consumers_on(content.connection.id);
        content
    }

    pub(super) fn content_without_consumers(
        &self,
        connection: ConnectionStats,
    ) -> ConnectionContent {
        let mut content = content_of(connection, self.published.load(Relaxed));
        content.consumers.clear();
        content
    }

    /// The consumer of this id on a connection: the usual one is 0.
    pub(super) fn consumer(&self, connection: ConnectionId, id: u64) -> Option<ConsumerStats> {
        let first = match self.more_connections().contains(&connection.0) {
            true => ConsumerStats {
                connection,
                ..known_consumer()
            },
            false => Some(known_consumer()).filter(|of| of.connection == connection)?,
        };
        let is_more = connection == known_consumer().connection;
        let count = match is_more {
            true => 1 + self.more_consumers.load(Relaxed),
            false => 1,
        };
        let of_it = match id {
            0 => first,
            id => ConsumerStats {
                id,
                tag: format!("more-{}", id - 1),
                arguments: self.more_arguments(),
                ..first
            },
        };
        (id < count).then(|| {
            self.consumers_copied.fetch_add(1, Relaxed);
            of_it
        })
    }

    pub(super) fn more_queues(&self) -> std::ops::Range<u64> {
        1_000..1_000 + self.more_queues.load(Relaxed)
    }

    pub(super) fn has_stream(&self) -> bool {
        self.has_stream.load(Relaxed)
    }

    /// The records of the queues that there are besides.
    pub(super) fn usual_records(&self) -> Vec<Queue> {
        let all = [
            queue(1, "/", "q"),
            queue(2, "/", "a/b"),
            queue(3, "other", "q"),
        ];
        let replicated = self.group().map(|_| Queue {
            kind: "quorum".to_owned(),
            nodes: GROUP_NODES
                .map(|(node, name)| (node, name.to_owned()))
                .into(),
            ..queue(9, "other", "r")
        });
        all.into_iter()
            .chain(replicated)
            .chain(self.has_stream().then(|| self.stream_record()))
            .collect()
    }

    /// With replicas where another node leads it.
    pub(super) fn stream_record(&self) -> Queue {
        let nodes = match self.stream_follows.load(Relaxed) {
            true => GROUP_NODES
                .map(|(node, name)| (node, name.to_owned()))
                .into(),
            false => Vec::new(),
        };
        Queue { nodes, ..stream() }
    }

    pub(super) fn group(&self) -> Option<Group> {
        self.group.lock().unwrap().clone()
    }

    /// Whether somebody names this, and this node has not heard of it yet.
    pub(super) fn is_unheard(&self, this: &str, named: &str) -> bool {
        self.is_behind.load(Relaxed) && this == named
    }

    pub(super) fn is_made_meanwhile(&self, name: &str) -> bool {
        self.made_meanwhile.lock().unwrap().as_deref() == Some(name)
    }

    pub(super) fn ask(&self, line: String) {
        self.asked.lock().unwrap().push(line);
    }
}
