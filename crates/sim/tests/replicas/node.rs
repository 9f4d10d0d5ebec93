//! One node: its disk, and the streams that run on it while it is up.

use bytes::Bytes;
use leveret_amqp::fuzz::Random;
use leveret_sim::SimDisk;
use leveret_sim::file_system::Cut;
use leveret_storage::StreamFiles;
use leveret_stream::{
    Command, Events, OffsetSpec, ReaderId, ReplicaOrigin, ReplicaReport, ReplicaRole, RequestId,
    SessionId, StreamSettings,
};
use leveret_stream_host::StreamHost;
use leveret_types::{ConnectionId, NodeId, Now, QueueId};
use std::path::Path;

pub const STREAM: QueueId = QueueId(7);

pub struct Node {
    pub id: NodeId,
    pub disk: SimDisk,
    pub host: Option<StreamHost<SimDisk>>,
    /// Counts starts: sessions are those of one.
    simulation_run: u64,
    /// The change of the catalogue that it was told last.
    pub told: u64,
    is_reading: bool,
}

/// A node has died, as it was told to.
pub struct Died;

impl Node {
    pub fn new(id: NodeId) -> Self {
        Self {
            id,
            disk: SimDisk::new(),
            host: None,
            simulation_run: 0,
            told: 0,
            is_reading: false,
        }
    }

    pub fn session(&self, which: u64) -> SessionId {
        let number = u64::from(self.id.0) << 32 | self.simulation_run << 8 | which;
        SessionId::Connection(ConnectionId(number))
    }

    pub fn start(
        &mut self,
        settings: &StreamSettings,
        salt: u64,
        origin: ReplicaOrigin,
    ) -> Result<(), Died> {
        self.simulation_run += 1;
        self.told = 0;
        self.is_reading = false;
        let files = StreamFiles::open(self.disk.clone(), Path::new("streams"), salt);
        let begun = files.map_err(|error| error.to_string()).and_then(|files| {
            let mut host = StreamHost::new(files);
            let begun = host.begin_replica(STREAM, settings.clone(), self.id, origin);
            begun.map(|_| host).map_err(|error| error.to_string())
        });
        match begun {
            Ok(host) => {
                self.host = Some(host);
                Ok(())
            }
            Err(error) => self.dies(&error),
        }
    }

    fn dies<T>(&mut self, error: &str) -> Result<T, Died> {
        assert!(
            self.disk.is_dead() || self.disk.is_limited(),
            "{} fails: {error}",
            self.id
        );
        self.host = None;
        Err(Died)
    }

    pub fn crash(&mut self, random: &mut Random, may_lose: bool) {
        self.host = None;
        match random.below(3) {
            _ if !may_lose => self.disk.kill(),
            0 => self.disk.kill(),
            1 => self.disk.power_cut(&mut Cut::LoseAll),
            _ => {
                let mut random = Random::new(random.next_u64());
                self.disk.power_cut(&mut Cut::Chance(&mut random));
            }
        }
    }

    pub fn role(&self) -> Option<ReplicaRole> {
        self.host.as_ref()?.role(STREAM)
    }

    pub fn handle(&mut self, now: Now, session: SessionId, command: Command) -> Events {
        let mut events = Events::new();
        if let Some(host) = &mut self.host {
            host.handle(now, session, command, &mut events);
        }
        events
    }

    /// A reader of all that the replica shows, as soon as it lets one begin.
    pub fn subscribe(&mut self, now: Now) -> Option<Events> {
        if self.is_reading || self.host.is_none() {
            return None;
        }
        let command = Command::Subscribe {
            request: RequestId(2),
            stream: STREAM,
            reader: ReaderId(1),
            offset: OffsetSpec::First,
            credit: 60_000,
            filter: None,
        };
        self.is_reading = true;
        Some(self.handle(now, self.session(2), command))
    }

    pub fn stops_reading(&mut self) {
        self.is_reading = false;
    }

    pub fn turn(&mut self, now: Now) -> Result<(Events, Vec<ReplicaReport>), Died> {
        let mut events = Events::new();
        let Some(host) = &mut self.host else {
            return Ok((events, Vec::new()));
        };
        let ended = host.end_turn(now, &mut events);
        let reports = host.take_reports();
        if let Err(error) = ended {
            return self.dies(&error.to_string());
        }
        for sync in host.take_syncs() {
            match sync.run() {
                Ok(synced) => host.synced(&synced),
                Err(error) => return self.dies(&error.to_string()),
            }
        }
        for read in host.take_reads() {
            host.was_read(read.run(), &mut events);
        }
        Ok((events, reports))
    }

    pub fn messages(&mut self, bytes_max: usize) -> Vec<(NodeId, Bytes)> {
        let Some(host) = &mut self.host else {
            return Vec::new();
        };
        let nodes: Vec<NodeId> = host.messages_for().collect();
        let mut out = Vec::new();
        for to in nodes {
            let messages = host.take_messages(to, bytes_max);
            out.extend(messages.into_iter().map(|(_, m)| (to, m.encode())));
        }
        out
    }
}
