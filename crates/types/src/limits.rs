//! The bounds of the broker that a user can meet. Where RabbitMQ has the same bound, its value and
//! its name are kept. A bound that is a part of one algorithm stands beside it.
//!
//! A bound that an operator may change has its default here; the configuration holds the value in
//! force.

/// Bytes of a frame before login (RabbitMQ's `initial_frame_max`).
pub const FRAME_BYTES_PREAUTH_MAX: u32 = 8_192;
/// Bytes of a frame after login, header and end octet included (`frame_max`). Never unlimited.
pub const FRAME_BYTES_MAX: u32 = 131_072;
/// The least frame size that AMQP 0-9-1 lets a peer negotiate (`frame-min-size`).
pub const FRAME_BYTES_MIN: u32 = 4_096;
/// Bytes of a frame besides its payload: type, channel, size, end.
pub const FRAME_OVERHEAD_BYTES: u32 = 8;
/// Bytes of a frame of the stream protocol after login, behind its size (`stream.frame_max`).
pub const STREAM_FRAME_BYTES_MAX: u32 = 1024 * 1024;
/// Bytes of a frame of the stream protocol before the virtual host is open
/// (`stream.initial_frame_max`).
pub const STREAM_FRAME_BYTES_PREAUTH_MAX: u32 = 8_192;
/// Messages of one connection that streams have not confirmed, above which it is not read; it is
/// again at a quarter of them (`stream.initial_credits`).
pub const STREAM_UNCONFIRMED_ENTRIES_MAX: usize = 50_000;
/// Bytes of the messages of one connection that streams have not confirmed, above which it is not
/// read.
pub const STREAM_UNCONFIRMED_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Chunks of one subscription that may be on their way to its connection.
pub const STREAM_CHUNKS_UNDER_WAY_MAX: u32 = 16;
/// Chunks of all subscriptions of one connection that may be on their way to it. Where these are
/// under way a subscription that has none may have one all the same: those of a stream that has no
/// chunks would keep it waiting for ever.
pub const STREAM_CHUNKS_UNDER_WAY_PER_CONNECTION_MAX: u32 = 32;
/// Milliseconds that a client has to answer that a single active consumer becomes active, or is so
/// no longer; then its connection is closed, for its group waits (RabbitMQ's `request_timeout`).
pub const STREAM_CONSUMER_UPDATE_MS_MAX: u64 = 60_000;
/// Partitions of a super stream that is made over the stream protocol.
pub const STREAM_PARTITIONS_MAX: usize = 1_000;
/// Bindings away from the exchange of a super stream: where there are more it is not taken for one,
/// for who asks for its partitions has them looked through.
pub const SUPER_STREAM_BINDINGS_MAX: usize = 4 * STREAM_PARTITIONS_MAX;
/// Entries of one list in a frame of the stream protocol, but for messages: streams, partitions,
/// properties.
pub const STREAM_LIST_ENTRIES_MAX: usize = 4_096;
/// Channels of one connection (`channel_max`).
pub const CHANNELS_MAX: u16 = 2_047;
/// Heartbeat interval that the broker proposes, in seconds (`heartbeat`).
pub const HEARTBEAT_SECONDS: u16 = 60;
/// Bytes of a short string.
pub const SHORT_STRING_BYTES_MAX: usize = 255;
/// Depth to which field tables may nest: rabbitmq-c refuses deeper ones.
pub const TABLE_DEPTH_MAX: usize = 100;
/// Entries of all tables and arrays in one field table, nested ones included.
pub const TABLE_ENTRIES_MAX: usize = 4_096;
/// Bytes of a message's body by default (`max_message_size`).
pub const MESSAGE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Bytes of a message's body that no configuration may exceed.
pub const MESSAGE_BYTES_HARD_MAX: u64 = 512 * 1024 * 1024;
/// Milliseconds within which a client must have logged in (`handshake_timeout`).
pub const HANDSHAKE_MS_MAX: u64 = 10_000;
/// Milliseconds within which a TLS handshake must end (`ssl_handshake_timeout`).
pub const TLS_HANDSHAKE_MS_MAX: u64 = 5_000;
/// Milliseconds that the broker waits for the answer to its `connection.close`, and, once all is
/// said, for the client to close its socket: what it still sends is read and dropped.
pub const CLOSE_MS_MAX: u64 = 30_000;
/// Bytes that are read of a client while its connection is closing and after that.
pub const LATE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Milliseconds for which a connection whose client has closed its socket is kept while what it had
/// sent before waits: for an alarm, for a queue of the cluster, for an answer.
pub const CLIENT_GONE_MS_MAX: u64 = 5_000;
/// Milliseconds after which a client whose input is not read, for an alarm or for anything else, is
/// sent a heartbeat, agreed or not, and again as often: one that has closed its socket is found out
/// by that where the end of its input does not fit into the socket.
pub const UNREAD_PROBE_MS: u64 = 15_000;
/// Milliseconds for which a client whose frames cannot be read, or that sends a body of more bytes
/// than it said, is still read after `connection.close`: a socket that is dropped with unread input
/// would take the answer back.
pub const FRAME_ERROR_LINGER_MS: u64 = 1_000;
/// Milliseconds for which a node that ends in order waits for a client that takes nothing more of
/// what is sent to it, for its answer to `connection.close` too, whatever else it sends.
pub const SHUTDOWN_CLIENT_MS: u64 = 1_500;
/// Milliseconds by which the answer to a failed login is delayed.
pub const LOGIN_FAILURE_DELAY_MS: u64 = 3_000;
/// File descriptors that sockets of clients leave to files of the log, of segments and of streams,
/// and to links between nodes. Where a process has fewer than twice as many to share, half of them.
pub const DESCRIPTORS_RESERVED: u64 = 4_096;
/// Connections that have not logged in, in all, by default (`pending_connections_max`): as many as
/// come back at once when a proxy or the node is started again.
pub const CONNECTIONS_PENDING_MAX: usize = 4_096;
/// Connections from one address, or one IPv6 network of 64 bits, that have not logged in, by
/// default (`pending_connections_per_address_max`).
pub const CONNECTIONS_PENDING_PER_ADDRESS_MAX: usize = 2_048;
/// Milliseconds within which a connection of a client must bring its first byte.
pub const CONNECTION_FIRST_BYTE_MS_MAX: u64 = 6_000;
/// Connections of one node by default.
pub const CONNECTIONS_MAX: usize = 65_536;
/// Consumers of one channel by default (`consumer_max_per_channel`).
pub const CONSUMERS_PER_CHANNEL_MAX: usize = 10_000;
/// Consumers that one connection may have while a node uses nearly all memory that it may: enough
/// to drain queues by, which gives memory back.
pub const CONSUMERS_IN_FULL_MEMORY_MAX: usize = 256;
/// Unsettled deliveries of a channel that are looked at for the oldest of each consumer: one that
/// has none among these is not told to have any. And of a connection, for who holds a message.
pub const UNACKED_SCANNED_MAX: usize = 10_000;
/// Moments at which publishes of a channel began that are remembered, of those that wait for a
/// confirm: of 16 bytes each. Before there are more, those of long ago become fewer.
pub const LATENCY_MOMENTS_MAX: usize = 512;
/// Queues of a node alone, or of its whole cluster, by default (`cluster_queue_limit`).
pub const QUEUES_MAX: usize = 1_000_000;
/// Exchanges of a node alone, or of its whole cluster, by default (`cluster_exchange_limit`).
pub const EXCHANGES_MAX: usize = 100_000;
/// What the arguments of all queues, exchanges and bindings, the definitions of policies and the
/// values of parameters come to at most: bytes of memory, and no fewer than they take in a snapshot
/// of the catalogue, which is held as a whole while it is written, and for which changes of the
/// catalogue wait. 150,000 queues with five arguments each have room, or 375,000 bindings with
/// three.
pub const CATALOGUE_ARGUMENTS_BYTES_MAX: u64 = 96 * 1024 * 1024;
/// Bytes of a piece in which a catalogue goes to another node of a cluster.
pub const CATALOGUE_PIECE_BYTES: usize = 1024 * 1024;
/// Pieces of a catalogue that are under way to a node at a time.
pub const CATALOGUE_PIECES_UNDER_WAY: usize = 4;
/// Milliseconds without an answer after which a catalogue is sent to a node from its beginning: a
/// piece may wait behind all that a slow link has to bring before it.
pub const CATALOGUE_TRANSFER_STUCK_MS: u64 = 60_000;
/// Virtual hosts of one node by default (`vhost_max`).
pub const VHOSTS_MAX: usize = 1_000;
/// Tags of one user.
pub const USER_TAGS_MAX: usize = 32;
/// Milliseconds that a TTL or an expiry may have: ten years.
pub const TTL_MS_MAX: u64 = 315_360_000_000;
/// Milliseconds that a delayed message may wait (the delayed-message plugin's bound: 2^32 - 1).
pub const DELAY_MS_MAX: u64 = u32::MAX as u64;
/// Highest `x-max-priority`.
pub const PRIORITY_MAX: u8 = 255;
/// Highest priority that a quorum queue tells from others: higher ones count as this.
pub const QUORUM_PRIORITY_MAX: u8 = 31;
/// `#` words of one topic binding key.
pub const TOPIC_HASHES_MAX: usize = 2;
/// Weight of one binding to an `x-consistent-hash` exchange.
pub const HASH_WEIGHT_MAX: u32 = 1_000_000;
/// Bytes of a consumer's arguments that are kept for listings, as AMQP 0-9-1 encodes them. Of more,
/// those are kept that fit, in their order; all of them count for the consumer itself.
pub const CONSUMER_ARGUMENTS_BYTES_MAX: usize = 4_096;
/// Exchanges that one publish may pass through on its way to queues.
pub const ROUTE_EXCHANGES_MAX: usize = 10_000;
/// Units of work that one publish may cost on its way to queues: a binding that is looked at is
/// one, and takes some 20 nanoseconds. Ten times what a fan-out to 100,000 queues costs.
pub const ROUTE_WORK_MAX: usize = 3_000_000;
/// Units of work after which a batch of requests lets go of the catalogue and of its shard: about a
/// millisecond. Whoever waits to change the catalogue has its turn then.
pub const RUN_WORK_MAX: usize = 50_000;
/// Units of work after which a connection's turn is over: about four milliseconds. The rest of what
/// was read waits for the next turn, and nothing more is read before.
pub const TURN_WORK_MAX: usize = 200_000;
/// Units of work for what a client has left that is gone: about 40 milliseconds. What it has asked
/// for beyond that, and was told nothing of, is not carried out.
pub const LEFT_WORK_MAX: usize = 2_000_000;
/// Messages that one `x-recent-history` exchange keeps at most.
pub const RECENT_HISTORY_MAX: usize = 10_000;
/// Bytes that all `x-recent-history` exchanges of a node keep together at most. Beyond, the oldest
/// messages go first, whichever exchange they were published to; a larger message is not kept.
pub const RECENT_HISTORY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Messages that a queue gets at once which is bound to an `x-recent-history` exchange: while it is
/// bound, others wait. It gets further ones by and by.
pub const RECENT_HISTORY_PIECE_MESSAGES: usize = 100;
/// Bytes that a queue gets at once of an `x-recent-history` exchange: beyond them no further
/// message is taken.
pub const RECENT_HISTORY_PIECE_BYTES: usize = 256 * 1024;
/// Entries of a CC or BCC header.
pub const CC_ENTRIES_MAX: usize = 1_024;
/// Bytes of a regular expression that a user may give (permissions, policies, filters).
pub const REGEX_BYTES_MAX: usize = 1_024;
/// Bytes of memory that one such expression may take once compiled, whoever gave it.
pub const REGEX_PROGRAM_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of memory that one may take once compiled which a request brings (policies, filters of
/// lists): it is matched against many names.
pub const REGEX_REQUEST_PROGRAM_BYTES_MAX: usize = 64 * 1024;
/// Bytes of memory that all states of the automaton of such an expression may take. Where they fit,
/// each byte of a name costs one step, whatever the expression says.
pub const REGEX_STATES_BYTES_MAX: usize = 128 * 1024;
/// Memory in KiB that a new argon2id hash may ask for: a login holds it while it is checked.
pub const ARGON2_MEMORY_KIB_MAX: u32 = 64 * 1024;
/// Passes over its memory that a new argon2id hash may ask for.
pub const ARGON2_PASSES_MAX: u32 = 10;
/// Memory in KiB times passes that a new argon2id hash may ask for: what one login costs. The
/// second choice of RFC 9106 (64 MiB, three passes) just fits.
pub const ARGON2_COST_KIB_MAX: u32 = 192 * 1024;
/// Lanes of an argon2id hash: what its parallelism parameter may say.
pub const ARGON2_LANES_MAX: u32 = 16;
/// Memory in KiB that an argon2id hash may ask for which an earlier version took: its user still
/// gets in.
pub const ARGON2_STORED_MEMORY_KIB_MAX: u32 = 256 * 1024;
/// Passes over its memory that an argon2id hash may ask for which an earlier version took.
pub const ARGON2_STORED_PASSES_MAX: u32 = 16;
/// Logins that may wait for the threads that compute slow password hashes: a further one is told
/// to try again.
pub const LOGINS_WAITING_MAX: usize = 4_096;
/// Logins that may wait for these threads from one address, or from one /64 of IPv6. Logins with
/// one user's same password count once.
pub const LOGINS_WAITING_PER_ADDRESS_MAX: usize = 1_024;
/// Logins that may wait for these threads from addresses from where nobody has logged in of late:
/// the rest is for the others, whoever floods the node.
pub const LOGINS_WAITING_UNFAMILIAR_MAX: usize = 3_072;
/// Logins found good whose slow hash is not computed again for a while.
pub const LOGINS_REMEMBERED_MAX: usize = 1_024;
/// Milliseconds for which a login found good is remembered.
pub const LOGIN_REMEMBERED_MS: u64 = 30_000;
/// Wrong passwords of one user from one address (one /64 of IPv6) that hold nothing up. One is
/// forgotten in 2 s; until then the next check is held.
pub const GUESSES_FREE_PER_USER_AND_ADDRESS: u64 = 10;
/// Wrong passwords of all users from one address that hold nothing up; one is forgotten in 0.2 s.
/// Who has logged in from there is not held by it.
pub const GUESSES_FREE_PER_ADDRESS: u64 = 50;
/// Wrong passwords of one user from all addresses that hold nothing up; one is forgotten in 1 s.
/// Who has logged in from its address is not held by it.
pub const GUESSES_FREE_PER_USER: u64 = 100;
/// Passwords of a user from an address from where that user has logged in, of which it is looked up
/// whether they were right a moment ago though guesses from there are held. One is forgotten in
/// 20 ms; until then the next one is held unseen.
pub const DELAYED_LOOK_UPS_FREE: u64 = 1_000;
/// Milliseconds for which a check is held at most because others guessed at its user: an honest
/// first login takes less than a second.
pub const LOGIN_DELAY_FOR_USER_MS_MAX: u64 = 800;
/// Milliseconds after which a check that is held still is told to try again.
pub const LOGIN_DELAY_MS_MAX: u64 = 5_000;
/// Checks that are held at once: of users who have logged in from their address, and as many of
/// others.
pub const LOGINS_DELAYED_MAX: usize = 4_096;
/// Checks of passwords that are held at once from one address, or from one /64 of IPv6: of users
/// who have logged in from there, and as many of others.
pub const LOGINS_DELAYED_PER_ADDRESS_MAX: usize = 64;
/// Entries of each table of those who brought wrong passwords, or right ones; the ones that were
/// touched last stay.
pub const GUESSES_REMEMBERED_MAX: usize = 16_384;
/// Sources of logins (protocol, address and user) that are counted apart while an operator wants
/// that; further ones share one count of each protocol.
pub const LOGIN_SOURCES_MAX: usize = 10_000;
/// Bytes of a name that are kept of a source of logins.
pub const LOGIN_SOURCE_USER_BYTES_MAX: usize = 255;
/// Steps of TLS handshakes that may wait for the threads that compute them: who comes with a
/// further one is turned away.
pub const HANDSHAKES_WAITING_MAX: usize = 4_096;
/// Steps of TLS handshakes that may wait from one address, or from one /64 of IPv6.
pub const HANDSHAKES_WAITING_PER_ADDRESS_MAX: usize = 1_024;
/// Steps of TLS handshakes that may wait from addresses from where nobody has logged in of late.
pub const HANDSHAKES_WAITING_UNFAMILIAR_MAX: usize = 3_072;
/// Dead-lettered messages of one queue that may be on their way to their new queues at once.
pub const DEAD_LETTERS_UNDER_WAY_MAX: usize = 256;
/// Bytes of these messages; the last one may exceed it.
pub const DEAD_LETTERS_UNDER_WAY_BYTES_MAX: usize = 1024 * 1024;
/// Pieces of work that shards hand over, such as messages to be dead-lettered, of which a thread
/// that comes does a turn, and leaves the rest to the timers' thread. With more, a thread does as
/// many as it has handed over, so that those who make work do not get ahead of it.
pub const DEFERRED_WAITING_MAX: usize = 262_144;
/// Bytes of the messages among them for which the same holds.
pub const DEFERRED_WAITING_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Milliseconds after which a message that must be dead-lettered, and could not be, goes again.
pub const DEAD_LETTER_RETRY_MS: u64 = 5_000;
/// Default delivery limit of a quorum queue (`x-delivery-limit`).
pub const DELIVERY_LIMIT: u32 = 20;
/// Deliveries that one connection may have waiting to be written; above it, its consumers wait.
pub const OUTBOX_MESSAGES_MAX: usize = 4_096;
/// Bytes of deliveries that one connection may have waiting to be written; above it, its consumers
/// wait.
pub const OUTBOX_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of deliveries that all connections of a node may have waiting to be written beyond
/// [`OUTBOX_BYTES_SCARCE`] each; above it, each of them may have that much and no more.
pub const OUTBOXES_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Bytes of deliveries that one connection may have waiting to be written however much waits for
/// others.
pub const OUTBOX_BYTES_SCARCE: usize = 64 * 1024;
/// Publishes of one uncommitted transaction.
pub const TRANSACTION_MESSAGES_MAX: usize = 100_000;
/// Bytes of the messages of one uncommitted transaction.
pub const TRANSACTION_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Bytes that publishes of one connection which have not arrived whole may hold together, beside
/// the largest of them; see [`UNFINISHED_LARGE`].
pub const UNFINISHED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Publishes as large as `max_message_size` allows that may be unfinished beside the largest, also
/// where they are more than [`UNFINISHED_BYTES_MAX`].
pub const UNFINISHED_LARGE: usize = 4;
/// Bytes that publishes of all connections of a node which have not arrived whole may hold
/// together; a single one may be larger. What has come of them counts, and half of this is kept for
/// those that become whole. Who sends more is not read until it fits.
pub const UNFINISHED_NODE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Milliseconds after which a publish that has not arrived whole is given up while others wait for
/// room: its channel is closed.
pub const UNFINISHED_MS_MAX: u64 = 60_000;
/// Milliseconds without a byte after which an unfinished publish is given up while others wait for
/// room.
pub const UNFINISHED_SILENCE_MS: u64 = 10_000;
/// [`UNFINISHED_MS_MAX`] for a user whose unfinished publishes, several, hold more than an even
/// share of [`UNFINISHED_NODE_BYTES_MAX`].
pub const UNFINISHED_CROWD_MS_MAX: u64 = 5_000;
/// [`UNFINISHED_SILENCE_MS`] for a user whose unfinished publishes, several, hold more than an even
/// share of [`UNFINISHED_NODE_BYTES_MAX`].
pub const UNFINISHED_CROWD_SILENCE_MS: u64 = 2_000;
/// Milliseconds after which a connection that waits for room for a publish looks again.
pub const UNFINISHED_CHECK_MS: u64 = 100;
/// As [`UNREAD_PROBE_MS`], for a client that waits for room for a publish.
pub const UNFINISHED_PROBE_MS: u64 = 1_000;
/// Bytes of buffers that are kept for use again while streams are busy.
pub const POOL_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of the least buffer that is kept: the allocator keeps smaller ones.
pub const POOL_BUFFER_BYTES_MIN: usize = 128 * 1024;
/// Bytes of the largest buffer that is kept.
pub const POOL_BUFFER_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of one read from a client's socket.
pub const SOCKET_READ_BYTES: usize = 128 * 1024;
/// Bytes that may wait to be written to one socket before its input is left unread.
pub const SOCKET_OUTPUT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes that may wait to be written to all sockets of clients of a node beyond
/// [`OUTBOX_BYTES_SCARCE`] each; above it, the input of who has that much is left unread.
pub const SOCKET_OUTPUTS_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Milliseconds for which a client may take nothing of what it is sent before its connection is
/// dropped.
pub const SOCKET_STALL_MS_MAX: u64 = 120_000;
/// Requests of one read from a client's socket, but for its first ones: a client that sends smaller
/// requests is read in smaller pieces, so that others have their turn between.
pub const REQUESTS_PER_READ_MAX: usize = 2_048;
/// Frames of one turn for a client of the stream protocol. What takes more work than most, as
/// looking through the bindings of a super stream, counts as more of them. The rest of what was
/// read waits for the next turn, and nothing more is read before.
pub const STREAM_FRAMES_PER_TURN_MAX: usize = REQUESTS_PER_READ_MAX;
/// Bytes of the body of an HTTP request.
pub const HTTP_BODY_BYTES_MAX: usize = 10_000_000;
/// Bytes of the body of an HTTP request that carries definitions.
pub const HTTP_DEFINITIONS_BYTES_MAX: usize = 50_000_000;
/// Bytes of a file of `load_definitions`, which is imported in pieces where it is larger than
/// [`HTTP_DEFINITIONS_BYTES_MAX`]. All of it is read before.
pub const LOAD_DEFINITIONS_BYTES_MAX: usize = 20 * HTTP_DEFINITIONS_BYTES_MAX;
/// Bytes of a login form: all that a stranger may send.
pub const HTTP_LOGIN_BYTES_MAX: usize = 8_192;
/// Bytes that the bodies of HTTP requests at a port hold together, while they arrive and while they
/// are carried out, beside [`HTTP_BODY_BYTES_FREE`] of each. Beyond it the oldest alone goes on,
/// and the others are not read until they have room.
pub const HTTP_BODIES_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of a body that need no room: short requests wait for nobody.
pub const HTTP_BODY_BYTES_FREE: usize = 16 * 1024;
/// Values of JSON in a body that carries no definitions.
pub const HTTP_BODY_VALUES_MAX: usize = 100_000;
/// Bytes that a value of JSON in a body counts for, beside its text: what it becomes.
pub const HTTP_BODY_VALUE_BYTES: usize = 128;
/// Milliseconds for which a body that has room may be silent while others wait for room; then its
/// request is ended (408). After as long whoever waits has room made for it by those who hold most.
pub const HTTP_BODY_SILENCE_MS: u64 = 2_000;
/// Bytes that such a body must bring in each millisecond, on average.
pub const HTTP_BODY_BYTES_PER_MS_MIN: u64 = 256;
/// Milliseconds that any body may take to come, however large it may be.
pub const HTTP_BODY_MS_MAX: u64 = 600_000;
/// Milliseconds for which a body waits for room; then its request is refused (503).
pub const HTTP_BODY_WAIT_MS_MAX: u64 = 10_000;
/// Milliseconds after which whoever waits for room looks again for those who are silent.
pub const HTTP_BODY_CHECK_MS: u64 = 100;
/// Items of one page of a list.
pub const HTTP_PAGE_MAX: usize = 500;
/// Messages that one request may get from a queue.
pub const HTTP_GET_MESSAGES_MAX: u32 = 10_000;
/// Bindings that the question looks at, at most, by which way a message would go.
pub const HTTP_WAY_BINDINGS_MAX: usize = 10_000;
/// Bytes of these bindings, as JSON.
pub const HTTP_WAY_BINDINGS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bindings of them that the answer shows.
pub const HTTP_WAY_STEPS_MAX: usize = 500;
/// Bytes of these in the answer, and of the texts of ways: a way through a thousand exchanges names
/// them all, and there may be one to each of a thousand queues.
pub const HTTP_WAY_ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Objects (queues, exchanges, connections, channels) of whose counters a node knows the rates; the
/// rates of further ones are 0.
pub const RATED_OBJECTS_MAX: usize = 200_000;
/// Milliseconds between two samples of figures over time.
pub const SAMPLE_STEP_MS: u64 = 5_000;
/// Samples at that distance that are kept: an hour of them.
pub const SAMPLES_FINE: u32 = 720;
/// After so many of them one is kept for longer: one a minute.
pub const SAMPLES_PER_COARSE: u32 = 12;
/// Samples at that distance that are kept: a day of them.
pub const SAMPLES_COARSE: u32 = 1_440;
/// Objects (queues, channels, connections, exchanges, virtual hosts) whose figures over time are
/// kept; those that changed longest ago give way.
pub const SAMPLED_OBJECTS_MAX: usize = 10_000;
/// Bytes of memory that all figures over time take.
pub const SAMPLES_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Times without samples, for a node that stood still, between which samples are kept.
pub const SAMPLE_RUNS_MAX: usize = 256;
/// Connections of a node up to which their figures over time, and their channels', are kept.
pub const SAMPLED_CONNECTIONS_MAX: u64 = 1_000;
/// Exchanges of a node up to which their figures over time are kept.
pub const SAMPLED_EXCHANGES_MAX: usize = 1_000;
/// Pairs of an exchange and a queue of a node up to which their rates are sampled; and the same of
/// what channels publish and consumers get. Rates of further ones are means between two questions.
pub const SAMPLED_PAIRS_MAX: usize = 1_000;
/// Pairs of which a node tells in one answer: the busiest.
pub const PAIRS_REPORTED_MAX: usize = 1_000;
/// Pairs of an exchange and a queue for which a node counts what came from the one to the other;
/// further ones are not counted.
pub const FLOWS_MAX: usize = 65_536;
/// Pairs of a channel and an exchange of one connection for which publishes are counted.
pub const PUBLISHED_WAYS_MAX: usize = 512;
/// Queues, of all these pairs together, for which they are counted.
pub const PUBLISHED_QUEUES_MAX: usize = 1_024;
/// Such pairs and queues of all connections of a node together; further ones are not counted.
pub const PUBLISHED_PLACES_NODE_MAX: usize = 131_072;
/// Exclusive queues that go at once with their connection; further ones go while others are let in.
pub const EXCLUSIVE_DELETED_AT_ONCE: usize = 64;
/// Consumers of a connection that is gone that leave their queues at once, and of a channel that is
/// closed those that are cancelled and hold messages; further ones go while others are let in.
pub const DETACHED_AT_ONCE: usize = 500;
/// Bindings of what is deleted that are taken out of the routing tables at once; further ones go
/// while others are let in.
pub const BINDINGS_UNLINKED_AT_ONCE: usize = 256;
/// Users, and virtual hosts, with limits of which a node tells the others how much they have open.
pub const LIMITED_REPORTED_MAX: usize = 10_000;
/// Publishes that a remembered route gathers before they are added to the sums of the node.
pub const PUBLISHED_GATHERED_MAX: u64 = 1_024;
/// Samples of one figure in an answer: the age that is asked for, divided by the distance.
pub const SAMPLES_SHOWN_MAX: u64 = 500;
/// Connections that are served at once at a port for HTTP or metrics. At the limit a new connection
/// is still admitted: one of the address that has the most is closed for it.
pub const HTTP_CONNECTIONS_MAX: usize = 1_024;
/// Threads that carry out requests over HTTP that only look at what there is.
pub const HTTP_WORKERS_MAX: usize = 8;
/// Such threads for requests of one address at once: the others are left to others.
pub const HTTP_WORKERS_OF_ADDRESS_MAX: usize = 6;
/// Such threads for requests of one user from one address at once: the others are left to other
/// users there, for a proxy has one address for all of its clients.
pub const HTTP_WORKERS_OF_USER_MAX: usize = 4;
/// Threads that carry out requests over HTTP that change something, and may wait for a disk, a
/// queue's leader or the cluster.
pub const HTTP_CHANGES_MAX: usize = 32;
/// Such threads for requests of one address at once: the others are left to others.
pub const HTTP_CHANGES_OF_ADDRESS_MAX: usize = 24;
/// Such threads for requests of one user from one address at once: the others are left to other
/// users there.
pub const HTTP_CHANGES_OF_USER_MAX: usize = 16;
/// Rows of a list that are made at once at most, however short they are: between two pieces of an
/// answer a worker does what others have asked.
pub const HTTP_PIECE_ROWS: usize = 128;
/// Milliseconds within which a connection for HTTP or metrics must bring its first byte.
pub const HTTP_FIRST_BYTE_MS_MAX: u64 = 2_000;
/// Bytes of the line and the headers of an HTTP request.
pub const HTTP_HEAD_BYTES_MAX: usize = 64 * 1024;
/// Bytes that the answers at a port for HTTP or metrics hold while they wait to be read, together,
/// beside one larger one. Those that nobody reads make room for others.
pub const HTTP_UNREAD_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Milliseconds of an answer in which it need not be read although others wait for room.
pub const HTTP_UNREAD_GRACE_MS: u64 = 1_000;
/// Names that a scrape of `/metrics/detailed` may ask for, of families, virtual hosts and queues
/// together.
pub const METRICS_NAMES_MAX: usize = 1_024;
/// Scrapes that are worked on at once: the other threads are for those who may log in.
pub const METRICS_SCRAPES_MAX: usize = 2;
/// Milliseconds for which scrapes of all queues share what one of them has seen, while it is being
/// read.
pub const METRICS_SHARED_MS: u64 = 2_000;
/// Bytes of one piece of an HTTP answer: lists and metrics are made piece by piece, while they are
/// read.
pub const HTTP_PIECE_BYTES: usize = 64 * 1024;
/// Milliseconds within which a client must take [`HTTP_UNREAD_BYTES_MIN`] of an HTTP answer that
/// waits for it.
pub const HTTP_UNREAD_MS_MAX: u64 = 10_000;
/// Bytes of an HTTP answer that waits for its client, of which the client must take so many within
/// [`HTTP_UNREAD_MS_MAX`].
pub const HTTP_UNREAD_BYTES_MIN: usize = 10 * 1024;
/// Users and addresses of which it is known how many requests they have sent lately, where the
/// operator bounds that (`management.rate_limit.requests_per_second`).
pub const RATE_BUCKETS_MAX: usize = 4_096;
/// Seconds of requests that may come at once of who has sent none for as long.
pub const RATE_BURST_SECONDS: u64 = 10;
/// Pages that a node sends figures to as they change (`/api/leveret/live`), of all users; one more
/// is refused, and asks for its figures again and again.
pub const LIVE_STREAMS_MAX: usize = 256;
/// Pages of one user, and of one address, that a node sends figures to as they change.
pub const LIVE_STREAMS_EACH_MAX: usize = 64;
/// Paths of the API that one page is shown live.
pub const LIVE_PATHS_MAX: usize = 16;
/// Milliseconds after which an answer is made again while somebody watches it; twice the time that
/// it took where that is longer.
pub const LIVE_PERIOD_MS: u64 = 1_000;
/// Milliseconds that lie between two times at which an answer is made, also when somebody new comes
/// to watch it.
pub const LIVE_APART_MS: u64 = 100;
/// Milliseconds after which an answer that is too large to be sent live is looked at again.
pub const LIVE_TOO_LARGE_MS: u64 = 30_000;
/// Bytes of one answer that is sent live.
pub const LIVE_ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of all answers that are kept because somebody watches them.
pub const LIVE_CACHED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Answers for who watches that are made at once: the other threads are for single requests.
pub const LIVE_WORKERS_MAX: usize = 3;
/// Of these, answers for one user.
pub const LIVE_WORKERS_OF_USER_MAX: usize = 2;
/// Characters of an HTTP `name` filter.
pub const HTTP_FILTER_MAX: usize = 1_024;
/// Changes by operators over HTTP that a node keeps to be looked at; older ones give way.
pub const CHANGES_MAX: usize = 500;
/// Bytes of what such a change asked for, of how something was before it, and of how it is after.
pub const CHANGE_VALUE_BYTES_MAX: usize = 4_096;
/// Moves of messages between queues that run on a node at once; one more is refused.
pub const MOVES_RUNNING_MAX: usize = 4;
/// Moves of messages between queues that one user has running at once, so that nobody takes all
/// places.
pub const MOVES_RUNNING_PER_USER_MAX: usize = 2;
/// Moves that a node tells of, those that run among them; older ones give way.
pub const MOVES_MAX: usize = 64;
/// Messages that stay in their queue and that one move holds back from consumers until it ends:
/// those that do not fit its filter, and those that are copied. It ends when there are as many.
pub const MOVE_HELD_MAX: usize = 100_000;
/// Messages that one move names one by one.
pub const MOVE_CHOSEN_MAX: usize = 1_000;
/// Queues that take messages, and reasons why messages stay, that one move tells apart.
pub const MOVE_PLACES_MAX: usize = 64;
/// Messages that a move has under way at once: put into their queue, and not confirmed.
pub const MOVE_BATCH_MESSAGES_MAX: usize = 256;
/// Bytes of bodies that a move has under way at once: then it waits for confirms. The last body may
/// exceed it.
pub const MOVE_BATCH_BYTES: usize = 4 * 1024 * 1024;
/// Consumers that are shown with their queue. How many there are is told beside them, and the list
/// of consumers has them all.
pub const QUEUE_SHOWN_CONSUMERS_MAX: usize = 5_000;
/// Messages of a queue that one look at it shows at most.
pub const QUEUE_PEEK_MESSAGES_MAX: usize = 100;
/// Consumers of one tag, at each node, of which a look at unacknowledged messages shows what they
/// hold. Further ones are left out.
pub const QUEUE_PEEK_CONSUMERS_MAX: usize = 2_048;
/// Messages of a queue that one search looks at before it says where to go on.
pub const QUEUE_SEARCH_MESSAGES_MAX: u64 = 5_000;
/// Milliseconds after which a search in a queue says where to go on.
pub const QUEUE_SEARCH_MS_MAX: u64 = 2_000;
/// Searches that run on a node at once.
pub const QUEUE_SEARCHES_MAX: usize = 4;
/// Of these, one user's.
pub const QUEUE_SEARCHES_OF_USER_MAX: usize = 2;
/// Bytes of messages, as they are written for whoever looks, after which one look at messages of a
/// queue ends; the last of them may exceed it.
pub const QUEUE_PEEK_BYTES: usize = 4 * 1024 * 1024;
/// Delayed messages that a node looks at for one list of those of an exchange or a queue, before it
/// says where to go on.
pub const DELAYED_SCAN_MESSAGES_MAX: usize = 2_000;
/// Bytes of bodies of delayed messages that a node shows in one list.
pub const DELAYED_SHOWN_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Queues that the HTTP API names of each kind when it tells what breaks if a node stops; more are
/// only counted.
pub const IMPACT_QUEUES_SHOWN: usize = 500;
/// Depth of JSON that is read, but for definitions.
pub const JSON_DEPTH_MAX: usize = 64;
/// Depth of definitions that are read: a client's deepest table is in an object of a list, and what
/// is exported can be imported.
pub const DEFINITIONS_DEPTH_MAX: usize = TABLE_DEPTH_MAX + 20;

/// Bytes that a queue of an import takes until it is there, beside its definition: twice what one
/// takes resident (1,665, by `docs/scale.md`), for the copy that it is tried on and the command
/// that makes it. Also counted for whatever else has a name.
pub const IMPORT_QUEUE_BYTES: u64 = 3_330;
/// Bytes that a binding of an import takes until it is there, beside its definition: twice what one
/// of a headers exchange takes (597).
pub const IMPORT_BINDING_BYTES: u64 = 1_194;
/// Bytes of memory for each byte of JSON that is read of an import: the values of a queue's
/// definition (90 bytes of text) lie in a node of a tree, and each key and text by itself.
pub const IMPORT_JSON_FACTOR: u64 = 10;
/// Objects that are not supported and that the refusal of an import names; of more it tells how
/// many there are.
pub const IMPORT_UNSUPPORTED_NAMED_MAX: usize = 100;
/// Percent of the memory that a node may use above which nothing new is declared (queues,
/// exchanges, bindings, users, policies), unless publishers may go beyond that. The rest is for
/// what is made of all definitions at once, as when they are brought to disk: a fifth of their
/// memory.
pub const MEMORY_FULL_PERCENT: u64 = 75;
/// Bytes of one file of the write-ahead log by default.
pub const WAL_FILE_BYTES: u64 = 64 * 1024 * 1024;
/// The largest file of the write-ahead log that may be configured: offsets within it have 32 bits,
/// and a file is made of more than its messages.
pub const WAL_FILE_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Parts into which a node's queues are spread (`shards`): a message body's identifier has eight
/// bits for its part.
pub const SHARDS_MAX: usize = 256;
/// Threads that serve client sockets (`io_threads`): which of them to wake is told by one bit for
/// each.
pub const IO_THREADS_MAX: usize = u64::BITS as usize;
/// Files of the write-ahead log that may wait for the segment writer before publishers are held
/// back.
pub const WAL_FILES_MAX: usize = 8;
/// Bytes that may wait for the write-ahead log before publishers' sockets are left unread.
pub const WAL_BACKLOG_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Bytes of one write of the write-ahead log.
pub const WAL_BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of message bodies that are kept in memory for all queues together, by default.
pub const CACHE_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of chunks and blocks that are read back from disk at once, for all queues together, by
/// default.
pub const LOADED_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of one chunk: the part of a WAL batch that one shard wrote. A larger message has a chunk
/// of its own.
pub const CHUNK_BYTES: usize = 256 * 1024;
/// Bytes of one segment file; the last entry may exceed it.
pub const SEGMENT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Segment files of about one size below [`SEGMENT_SMALL_BYTES`] that a shard has; with one more
/// they are merged.
pub const SEGMENT_SMALL_FILES_MAX: usize = 16;
/// Bytes of a segment file that is merged with others for its size alone, each time into one of
/// several times its size, until it has so many.
pub const SEGMENT_SMALL_BYTES: u64 = 512 * 1024;
/// Bytes of one block of a segment: what is read from disk at once. A larger message has a block of
/// its own.
pub const SEGMENT_BLOCK_BYTES: usize = 128 * 1024;
/// Bytes of a larger message that the segment writer holds at once while it copies it from file to
/// file.
pub const SEGMENT_PIECE_BYTES: usize = 1024 * 1024;
/// Bytes that a log needs to have in a row in a block that several logs share: fewer are copied to
/// a block of its own, which costs no memory while they wait.
pub const SEGMENT_REFERENCE_BYTES_MIN: usize = 4096;
/// Segment files and files of the write-ahead log that are kept open to be read, for all reader
/// threads together; an eighth of the descriptors that clients leave, where that is less. A file
/// that is deleted is closed at once.
pub const READ_FILES_OPEN_MAX: usize = 64;
/// Bytes of a frame between a remote queue and its leader; a larger message has a frame of its
/// own.
pub const LINK_FRAME_BYTES: usize = 120 * 1024;
/// Records of such a frame: operations, deliveries.
pub const LINK_RECORDS_MAX: usize = 16_384;
/// Deliveries under way to one consumer on another node; one always may.
pub const LINK_CONSUMER_MESSAGES_MAX: u32 = 2_048;
/// Bytes of the deliveries under way to one consumer on another node; one always may.
pub const LINK_CONSUMER_BYTES_MAX: u64 = 1024 * 1024;
/// Messages that a credit-based consumer may hold unsettled, whatever credit it has.
pub const CREDIT_UNSETTLED_MAX: u32 = 2_048;
/// Entries of each priority log of which a queue's leader remembers which messages they brought: a
/// follower that lacks more of them than this is sent older messages with their bytes too.
pub const ENTRIES_REMEMBERED: usize = 32;
/// Operations of one node on one queue that have no answer; above it, those who publish to that
/// queue are not read from.
pub const PENDING_OPERATIONS_MAX: usize = 65_536;
/// Bytes of the operations of one node on one queue that have no answer; above it, those who
/// publish to that queue are not read from.
pub const PENDING_OPERATION_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of the operations of one node that have no answer, on all queues together: an equal part
/// for each shard.
pub const PENDING_NODE_BYTES_MAX: usize = 512 * 1024 * 1024;
/// Milliseconds after which a delayed message that is due, and whose queue is on a node that is
/// down, is tried again at first; the pauses grow with how late it is.
pub const DELAYED_RETRY_MS_MIN: u64 = 5_000;
/// The longest of these pauses, in milliseconds.
pub const DELAYED_RETRY_MS_MAX: u64 = 300_000;
/// Milliseconds for which a delayed message that is due waits for a queue on a node that is down,
/// where it goes to other queues as well; then these have it without that one.
pub const DELAYED_LATE_MS_MAX: u64 = 60_000;
/// Ranges of numbers of refused publishes that a queue remembers of each node until that has heard
/// of them. Beyond it the oldest two become one with what is between them: if that node asks for
/// its answers anew, these publishes are refused too.
pub const REFUSED_RANGES_MAX: usize = 4_096;
/// Milliseconds for which what is asked of a queue waits for its leader.
pub const LEADER_WAIT_MS_MAX: u64 = 5_000;
/// Answers of one queue's leader that are kept for operators who ask again.
pub const PARKED_ANSWERS_MAX: usize = 256;

/// Bytes of a log line; of a longer one this much is shown.
pub const LOG_LINE_BYTES_MAX: usize = 16 * 1024;
/// Log lines of one kind (made at one place in the code) that may come at once. Lines for debugging
/// are not bounded.
pub const LOG_LINES_AT_ONCE_MAX: u64 = 1_000;
/// Log lines of one kind a second beyond that; of the others one line says how many were left out.
pub const LOG_LINES_PER_SECOND: u64 = 20;

/// Milliseconds between two signs of life that a node gives to each other node.
pub const PEER_HEARTBEAT_MS: u64 = 100;
/// Milliseconds without a sign of life after which another node is down.
pub const PEER_SILENCE_MS_MAX: u64 = 1_000;
/// Milliseconds after a sign of life to all others for which a node's leaders may take for granted
/// that they still lead: less than [`PEER_SILENCE_MS_MAX`], for the others count from when they
/// began to look.
pub const LEADER_LEASE_MS: u64 = PEER_SILENCE_MS_MAX - 2 * PEER_HEARTBEAT_MS;
/// Milliseconds within which a node and whoever connects to it must know each other.
pub const PEER_HANDSHAKE_MS_MAX: u64 = 3_000;
/// Milliseconds within which a stranger's first byte must come.
pub const PEER_FIRST_BYTE_MS_MAX: u64 = 1_000;
/// Connections to the cluster's port that have not proved who they are: so many from members'
/// addresses, and so many from all others. Who comes then takes the place of whoever has waited for
/// longest.
pub const PEER_HANDSHAKES_MAX: usize = 64;
/// Connections from one address to the cluster's port that have not proved who they are.
pub const PEER_HANDSHAKES_PER_ADDRESS_MAX: usize = 16;
/// Connections to the cluster's port that have proved who they are and are being answered.
pub const PEER_CONTROLS_MAX: usize = 64;
/// Secrets of a cluster that a node accepts at a time: the one that it proves, and the one before
/// or after it.
pub const PEER_SECRETS_MAX: usize = 2;
/// Bytes of the file with these secrets.
pub const PEER_SECRET_FILE_BYTES_MAX: usize = 4_096;
/// Bytes of a password that a command reads from a file or from standard input.
pub const PASSWORD_LINE_BYTES_MAX: usize = 4_096;
/// IP addresses that a member is known by.
pub const PEER_KNOWN_IPS_MAX: usize = 16;
/// Bytes of one frame between nodes: the largest message, with what travels beside it.
pub const PEER_FRAME_BYTES_MAX: usize = MESSAGE_BYTES_HARD_MAX as usize + 4 * 1024 * 1024;
/// Bytes of what is sealed at once on a link between nodes: a longer claim ends the link.
pub const PEER_RECORD_BYTES_MAX: usize = 64 * 1024;
/// Bytes that one key of a link seals at most. What AES-GCM promises weakens with the square of the
/// blocks under one key; with so many a chance of 2^-64 is left to tell what was sealed.
pub const PEER_KEY_BYTES_MAX: u64 = 64 * 1024 * 1024 * 1024;
/// Records that one key of a link seals at most.
pub const PEER_KEY_RECORDS_MAX: u64 = 1_000_000_000;
/// Bytes that may wait for another node before the link to it is broken. One frame may exceed it.
pub const PEER_OUTBOX_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Bytes that wait for another node above which no more is made for it than must be.
pub const PEER_OUTBOX_BYTES_CONGESTED: usize = 16 * 1024 * 1024;
/// Bytes that a queue may send another node at a time while others wait to send it something; one
/// message may exceed it.
pub const PEER_TURN_BYTES: usize = 256 * 1024;
/// Bytes of a request or an answer on the cluster's port outside of a link, such as to join.
pub const PEER_CONTROL_BYTES_MAX: usize = 1024 * 1024;
/// Members of a quorum queue's group by default (`x-quorum-initial-group-size`).
pub const GROUP_SIZE_DEFAULT: usize = 3;
/// Milliseconds that a command waits for the cluster to carry it out before it is refused.
pub const PROPOSAL_MS_MAX: u64 = 15_000;
/// Bytes of what one node tells another for operators: how all queues stand that it leads.
pub const REPORT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of one frame of what a node tells another for operators: frames of queues go between
/// these.
pub const REPORT_PART_BYTES: usize = 128 * 1024;
/// Bytes of a question that one node asks another for operators.
pub const REPORT_ASK_BYTES_MAX: usize = 24 * 1024;
/// Questions of this node that wait for other nodes' answers.
pub const REPORTS_PENDING_MAX: usize = 64;
/// Questions of other nodes that wait to be answered.
pub const REPORTS_WAITING_MAX: usize = 64;
/// Milliseconds that a listing waits for the other nodes; what they do not tell by then is left
/// out.
pub const REPORT_MS_MAX: u64 = 3_000;
/// Queues whose leaders one node hands over in one step, so that others are not held up.
pub const LEADERS_MOVED_AT_ONCE: usize = 32;
/// Queues whose members one node has changed in one step, so that others are not held up.
pub const QUEUES_RECONCILED_AT_ONCE: usize = 32;
/// Connections of a node, and requests over HTTP, that wait at once to know whether the cluster has
/// a name that the node does not know: so many of each. Others are told that there is none.
pub const READ_BARRIERS_MAX: usize = 1_024;
/// Milliseconds that a connection waits for that.
pub const READ_BARRIER_MS_MAX: u64 = 1_000;
/// Milliseconds for which a node that has joined a cluster must have been there without a break,
/// caught up, before it votes by itself.
pub const NODE_STAY_MS: u64 = 10_000;
/// Milliseconds for which a node must have been down without a break, as the node that leads the
/// catalogue sees it, before its exclusive and transient queues are deleted.
pub const NODE_LOST_MS: u64 = 10_000;
/// Nodes of one cluster.
pub const CLUSTER_NODES_MAX: usize = 64;

/// Members of one replicated group, learners included.
pub const GROUP_MEMBERS_MAX: usize = 32;
/// Bytes of one entry of a replicated log. Messages lie beside it and are not counted here.
pub const ENTRY_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of one change of the catalogue, with the names and arguments of what it declares. An entry
/// has it with the nodes that are up.
pub const COMMAND_BYTES_MAX: usize = 1_000_000;
/// Entries of one message between members of a group.
pub const APPEND_ENTRIES_MAX: usize = 1_024;
/// Bytes of one message between members of a group, with what lies beside its entries. A larger
/// entry has a message of its own.
pub const APPEND_BYTES_MAX: u64 = 1024 * 1024;
/// Messages with entries that one member of a group may have unanswered.
pub const APPENDS_IN_FLIGHT_MAX: usize = 32;
/// Bytes of entries that a leader may have uncommitted.
pub const UNCOMMITTED_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Bytes of entries that a leader keeps in memory for members that are behind; who is further
/// behind gets a snapshot.
pub const LOG_VIEW_ENTRY_BYTES_MAX: usize = 1024 * 1024;
/// Entries that a leader keeps in memory for members that are behind; who is further behind gets a
/// snapshot.
pub const LOG_VIEW_ENTRIES_MAX: usize = 4_096;
/// Milliseconds for which a member of a group that is up may acknowledge nothing of what it lacks,
/// before it counts as one that cannot follow.
pub const MEMBER_STUCK_MS: u64 = 30_000;
/// Entries that a learner may be behind what is committed when it is made a voter.
pub const LEARNER_LAG_ENTRIES_MAX: u64 = 64;
/// Milliseconds of one tick of a group that has an election, a transfer or answers under way.
pub const GROUP_TICK_MS: u64 = 50;
/// Bytes of messages that the leader of a queue gathers in one entry; the last may exceed it.
pub const QUORUM_BATCH_BYTES: usize = 120 * 1024;
/// Ranges that the header of one entry names.
pub const QUORUM_BATCH_ITEMS: usize = 4_096;
/// Headers that a replica applies before it lets its state stand for them.
pub const QUORUM_HEADERS_KEPT: u64 = 32;
/// Bytes of uncommitted messages that a leader keeps at hand for its followers, besides the log.
pub const QUORUM_SENT_BYTES: usize = 4 * 1024 * 1024;
/// The same of all queues of a node together, in equal parts for its shards: of each queue the
/// newest entry is kept at hand however many there are.
pub const QUORUM_SENT_NODE_BYTES: usize = 64 * 1024 * 1024;
/// Bytes of one part of a queue's state on its way to another member; the last message of it may
/// exceed it.
pub const QUORUM_PART_BYTES: usize = 256 * 1024;
/// Parts of one state that may be under way.
pub const QUORUM_PARTS_IN_FLIGHT: u64 = 4;
/// States of queues that a node sends to others at once; the next one waits until another is
/// there. All that may be under way of them is half of what may wait for another node.
pub const QUORUM_TRANSFERS_MAX: usize = 64;
/// Milliseconds without an answer after which the transfer of a queue's state is given up.
pub const QUORUM_TRANSFER_SILENCE_MS: u64 = 1_000;
/// Milliseconds between two entries of a queue from which on it is quiet: a follower whose answer a
/// majority does without lets what comes gather.
pub const QUORUM_QUIET_MS: u64 = 5;
/// Milliseconds for which frames that nobody waits for wait for others to the same node.
pub const PEER_FRAMES_GATHER_MS: u64 = 2;
/// Milliseconds for which settles, for which nobody waits, gather before they are an entry.
pub const QUORUM_SETTLES_GATHER_MS: u64 = 20;
/// How often a declaration of a queue is made again because the queue was deleted before it was
/// answered; then it is refused (404).
pub const QUEUE_REDECLARATIONS_MAX: u8 = 16;
/// Changes of the catalogue by one connection that may wait for the same syncs of the log; what a
/// client sends behind so many is carried out when they are durable.
pub const UNSYNCED_CHANGES_MAX: usize = 256;
/// Milliseconds for which the write-ahead log may not become durable though somebody waits for it,
/// before the queues that are led on it are handed over.
pub const LOG_STUCK_MS: u64 = 2_000;
/// Messages by which what the leader of a queue may hand out runs ahead of what it has, where
/// messages are got one by one. Who leads next flags them as redelivered.
pub const QUORUM_WATERMARK_MESSAGES_GOT: u64 = 16;
/// The least by which it runs ahead where there are consumers: who holds one message at a time does
/// not wait for an entry with each.
pub const QUORUM_WATERMARK_MESSAGES_MIN: u64 = 64;
/// The most by which it runs ahead where there are consumers: it is twice what they may hold.
pub const QUORUM_WATERMARK_MESSAGES_MAX: u64 = 4_096;
/// Milliseconds that a new leader gives the nodes that are up to say what their consumers hold.
pub const QUORUM_REGISTRATION_MS_MAX: u64 = 5_000;

/// Bytes of the properties of a message that was read of a stream and converted to AMQP 0-9-1: they
/// are one frame. An entry that has more is delivered as it is.
pub const CONVERTED_PROPERTIES_BYTES_MAX: usize = 64 * 1024;
/// Chunks of a stream that are on their way to one consumer of AMQP 0-9-1, or before it.
pub const STREAM_CHUNKS_READ_AHEAD: u32 = 2;
/// Messages of a view that are read ahead of its consumers.
pub const VIEW_READY_MAX: usize = 4_096;
/// Bytes of the messages of a view that are read ahead of its consumers; one may be larger.
pub const VIEW_READY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Messages of a view that are read ahead, held by consumers or being dead-lettered: where they are
/// so many, it reads no further until some are settled.
pub const VIEW_UNSETTLED_MAX: usize = 65_536;
/// Bytes of the messages of a view that are read ahead, held by consumers or being dead-lettered.
pub const VIEW_UNSETTLED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Milliseconds after which a view without consumers lets go of what it has read ahead.
pub const VIEW_IDLE_MS: u64 = 10_000;
/// Bytes of a compressed batch of messages of a stream once it is decompressed for AMQP 0-9-1. A
/// larger one is passed over.
pub const STREAM_SUB_BATCH_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of compressed batches of a stream that one turn decompresses for one connection; the next
/// turn goes on.
pub const STREAM_UNPACK_TURN_BYTES: usize = 256 * 1024;
/// Bytes of entries of one chunk of a stream, which with its heads fills a buffer of 512 KiB. A
/// larger entry has a chunk of its own.
pub const STREAM_CHUNK_BYTES: usize = 511 * 1024;
/// Bytes of a chunk's buffer that its data leave to its header and to what follows the data.
pub const STREAM_CHUNK_MARGIN_BYTES: usize = 512;
/// Entries of one chunk of a stream: its header counts them with 16 bits.
pub const STREAM_CHUNK_ENTRIES_MAX: usize = 65_535;
/// Bytes of the name of a publisher or a consumer whose sequence or offset a stream keeps.
pub const STREAM_REFERENCE_BYTES_MAX: usize = 255;
/// Bytes of the properties that listings show of one subscription; of those beyond, nothing is
/// kept.
pub const STREAM_SHOWN_PROPERTIES_BYTES_MAX: usize = 4_096;
/// Publishers of one stream whose last publishing id is kept; with one more the one that has not
/// published for longest is forgotten.
pub const STREAM_SEQUENCES_MAX: usize = 255;
/// Consumers of one stream whose offset is kept; with one more those are forgotten that stand where
/// messages have been deleted, or else the one that was stored longest ago.
pub const STREAM_OFFSETS_MAX: usize = 10_000;
/// Milliseconds between two lines in the log that say of one stream that more consumers store
/// offsets than it keeps.
pub const STREAM_CROWDED_TELL_MS: u64 = 10 * 60 * 1_000;
/// Milliseconds between two lines in the log that say of one stream that a part of it is damaged
/// that no other replica has, while readers come to it.
pub const STREAM_DAMAGE_TELL_MS: u64 = 10 * 60 * 1_000;
/// Milliseconds that the leader of a stream that is to move waits for what is under way to be
/// committed, and so many more for another one to lead.
pub const STREAM_HANDOVER_MS: u64 = 1_000;
/// Bytes of publishes that it holds meanwhile; with more it takes them.
pub const STREAM_HANDOVER_BYTES_MAX: usize = STREAM_UNCONFIRMED_BYTES_MAX;
/// Milliseconds without an append after which it is noted beside a stream's segments how far it is
/// synced; at most twice as many.
pub const STREAM_IDLE_MS: u64 = 5_000;
/// Idle streams for which that is noted in one turn. Others wait [`STREAM_MARKS_MS`].
pub const STREAM_MARKS_PER_TURN_MAX: usize = 64;
/// Milliseconds between two turns in which it is noted how far idle streams are synced.
pub const STREAM_MARKS_MS: u64 = 20;
/// Bytes of a chunk's filter by default (`stream-filter-size-bytes`).
pub const STREAM_FILTER_BYTES: u8 = 16;
/// Bytes of a chunk's filter at most.
pub const STREAM_FILTER_BYTES_MAX: u8 = 255;
/// Filter values that one reader of a stream may ask for.
pub const STREAM_FILTER_VALUES_MAX: usize = 255;
/// Bytes of a reader's filter values in all.
pub const STREAM_FILTER_VALUES_BYTES_MAX: usize = 16 * 1024;
/// Readers of one stream that ask for single entries and keep a chunk of which a part is to be sent
/// until they have credit again. What one more waits for is looked for again then.
pub const STREAM_RUNS_HELD_MAX: usize = 64;
/// Chunks that a reader of a stream may be owed.
pub const STREAM_CREDIT_MAX: u32 = 65_535;
/// Bytes of a segment file of a stream by default (`stream-max-segment-size-bytes`).
pub const STREAM_SEGMENT_BYTES: u64 = 500_000_000;
/// Bytes of a segment file of a stream at least: where less is asked for, it is this. A file takes
/// a block of most file systems anyway, and with less there is one for each chunk.
pub const STREAM_SEGMENT_BYTES_MIN: u64 = 4 * 1024;
/// Bytes of a segment file of a stream at most.
pub const STREAM_SEGMENT_BYTES_MAX: u64 = 3_000_000_000;
/// Chunks of a segment file of a stream.
pub const STREAM_SEGMENT_CHUNKS_MAX: u32 = 256_000;
/// Chunks that are read at once for a reader that is behind and has less credit. They are kept
/// until it has more, while less than half of [`STREAM_READERS_BYTES_MAX`] is held.
pub const STREAM_AHEAD_CHUNKS_MAX: u32 = 256;
/// Segment files of streams that are kept open, for all streams of a node together; a quarter of
/// the descriptors that clients leave, where that is less.
pub const STREAM_FILES_OPEN_MAX: usize = 1_024;
/// Bytes of a stream that are read from disk at once. A larger chunk is read alone.
pub const STREAM_READ_BYTES: usize = 1024 * 1024;
/// Bytes of a stream that are read in a row for one reader that is behind, as far as it has credit
/// or may read ahead: each read waits for the thread that reads and for the one that sends.
pub const STREAM_READER_BYTES: u64 = 4 * 1024 * 1024;
/// Bytes of publishes that wait for the thread of the streams, and again of all other commands; one
/// may exceed it.
pub const STREAM_INBOX_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes of publishes to streams of one other node that are on their way to it or wait there, again
/// of all other commands, and again of chunks on their way back; one may exceed it.
pub const STREAM_RELAY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Milliseconds after which the members of a stream are asked again to prepare its next epoch,
/// where too few have answered or the catalogue has not taken the choice.
pub const STREAM_ELECTION_MS: u64 = 1_000;
/// Followers of streams that a node remembers which have heard of an epoch before its leader there.
/// Those beyond attach when their link is new, or with the next epoch.
pub const STREAM_EARLY_FOLLOWERS_MAX: usize = 65_536;
/// Readers of one replica that wait until it knows what is committed, with publishers and questions
/// that wait until it leads or, on a node that has not heard of the stream yet, has heard of it;
/// one more is refused at once. Publishes behind a publisher that waits count as well.
pub const STREAM_EARLY_READERS_MAX: usize = 1_024;
/// Bytes of publishes that wait behind publishers which wait so, for all streams of a node; what is
/// published beyond that is refused with its publisher. One publish always may wait.
pub const STREAM_EARLY_PUBLISHES_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Milliseconds that each of them waits before it is refused: less than clients wait for an answer.
pub const STREAM_EARLY_READER_MS: u64 = 5_000;
/// Readers, publishers and questions that wait on a node for streams that it has not heard of yet,
/// for all of them together; one more is refused at once.
pub const STREAM_UNKNOWN_WAITING_MAX: usize = 16_384;
/// Milliseconds after which a replica that waits for the catalogue's word says so again.
pub const STREAM_WAITING_MS: u64 = 500;
/// Sessions of one other node that the streams of a node serve.
pub const STREAM_RELAY_SESSIONS_MAX: usize = 65_536;
/// Bytes of publishes that one turn of all streams takes; the last of them may exceed it.
pub const STREAM_TURN_BYTES: usize = 2 * 1024 * 1024;
/// Bytes of each of the two files of the streams' journal.
pub const STREAM_JOURNAL_BYTES: u64 = 8 * 1024 * 1024;
/// Segments may have to grow by so many times the bytes of such a file for what it has; room for
/// that is kept free.
pub const STREAM_JOURNAL_ROOM: u64 = 2;
/// Bytes of one stream that are synced by way of the journal at most; more are synced in its
/// segment, and written once.
pub const STREAM_JOURNAL_PART_BYTES_MAX: u64 = 16 * 1024;
/// Bytes of all streams that are written to the journal at once.
pub const STREAM_JOURNAL_BATCH_BYTES_MAX: u64 = 1024 * 1024;
/// Streams whose segments are synced at a time because the journal has what they wrote.
pub const STREAM_JOURNAL_SYNCS_MAX: usize = 16;
/// Reads from disk that are under way at a time for the readers and followers of all streams
/// together; those of the streams that have waited longest come next.
pub const STREAM_READS_MAX: u32 = 16;
/// Bytes of a stream's newest chunks that are kept in memory for its readers.
pub const STREAM_TAIL_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of a stream's newest chunks that are kept for as long as a reader needs them that does not
/// quite keep up: a pause of a reader must not send it to the disk, which costs more than it has.
pub const STREAM_TAIL_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Bytes of the newest chunks of all streams of a node that are kept in memory; beyond them those
/// that have most let go of theirs first, and are read from disk.
pub const STREAM_TAILS_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Bytes of the blocks that are read from disk for subscriptions of all connections of a node,
/// until their sockets have taken them; beyond them subscriptions wait in turn. A block of one
/// chunk that is larger than others counts once it is read.
pub const STREAM_READERS_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Milliseconds that a connection keeps a chunk of which its socket takes nothing, where half of
/// [`STREAM_READERS_BYTES_MAX`] is held; then it is handed back, and read again for it later.
pub const STREAM_IN_HAND_MS: u64 = 1_000;
/// Bytes that a connection gives to its socket before the next chunk; that one may exceed it.
pub const STREAM_OUTPUT_BYTES: usize = 64 * 1024;
/// Milliseconds after which a node looks again for streams that it leads and that have fewer
/// replicas than they were declared with.
pub const STREAM_GROWTH_MS: u64 = 5_000;
/// Bytes of a stream that gets another replica by itself where its publishers must wait until that
/// one has all: a larger one waits for an operator.
pub const STREAM_GROWTH_BYTES_MAX: u64 = 1 << 30;
/// Milliseconds by which the last chunk of a stream may be ahead of the clock for the next one to
/// have its time: what is further ahead was written with a wrong clock, and time steps back.
pub const STREAM_CLOCK_AHEAD_MS_MAX: i64 = 60 * 60 * 1_000;
/// Milliseconds after the loss of a stream's leader in which what a publisher of it sends is not
/// answered, as if it had been sent before: the client publishes it again. Later it is refused.
pub const STREAM_LOST_PUBLISHER_MS: u64 = 10_000;
/// Milliseconds after which a publisher hears that it has lost its stream, where what it publishes
/// meets no leader that knows it and the node that led the stream has not said so by then.
pub const STREAM_LOSS_NOTICE_MS: u64 = 5_000;
/// Milliseconds after which a consumer asks again to join its group, where the stream has no leader
/// that could be asked.
pub const STREAM_JOIN_AGAIN_MS: u64 = 500;

/// Groups of which a connection remembers under which generation a consumer of it was active last.
pub const STREAM_ACTIVE_REMEMBERED_MAX: usize = 256;

/// Groups of one stream in which one consumer at a time is active.
pub const STREAM_GROUPS_MAX: usize = 1_024;

/// Groups with a single active consumer in which one connection has consumers.
pub const STREAM_GROUPS_PER_SESSION_MAX: usize = 64;

/// Consumers of one group of a stream in which one at a time is active.
pub const STREAM_GROUP_MEMBERS_MAX: usize = 4_096;

/// Groups that the retention of one stream may wait for (`retention-groups`).
pub const STREAM_RETENTION_GROUPS_MAX: usize = 16;
/// Bytes beyond a stream's retention that groups hold, above which an operator is told, where
/// `retention-groups-alarm-bytes` says nothing else.
pub const STREAM_RETENTION_ALARM_BYTES: u64 = 1 << 30;
/// Milliseconds over which the rate of a group of consumers is taken at least, and twice as many at
/// most, while it stores offsets.
pub const STREAM_GROUP_RATE_MS: u64 = 10_000;
/// Messages that one look into a stream shows at most.
pub const STREAM_BROWSE_MESSAGES_MAX: usize = 1_000;
/// Bytes of messages, as they are written for whoever looks, after which one look into a stream
/// ends; the last of them may exceed it.
pub const STREAM_BROWSE_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of chunks that one look into a stream reads for what it shows, after which it ends though
/// fewer messages matched; the last chunk may exceed it.
pub const STREAM_BROWSE_READ_BYTES: u64 = 64 * 1024 * 1024;
/// Looks into streams that a node serves at a time; one more is refused.
pub const STREAM_BROWSERS_MAX: usize = 4;
/// Bytes of chunks after which all offsets and sequences of a stream are written once more, so that
/// a start reads no more than that of a stream.
pub const STREAM_SNAPSHOT_BYTES: u64 = 16 * 1024 * 1024;
/// Milliseconds for which stored offsets, for which nobody waits, gather before they are a chunk.
pub const STREAM_TRACKING_GATHER_MS: u64 = 100;
/// Epochs of one stream's log that its replicas know the beginnings of. With one more the oldest
/// one is forgotten; a follower with none that its leader knows copies the stream anew.
pub const STREAM_EPOCHS_MAX: usize = 1_000;
/// Followers that the leader of a stream sends chunks to.
pub const STREAM_FOLLOWERS_MAX: usize = 16;
/// Bytes of chunks that a follower of a stream asks for at once. A larger chunk comes alone.
pub const STREAM_COPY_BYTES: u32 = 1024 * 1024;
/// Bytes of chunks in one message between replicas of a stream.
pub const STREAM_COPY_BYTES_MAX: usize = MESSAGE_BYTES_HARD_MAX as usize + 2 * 1024 * 1024;
/// Bytes of messages of all streams' replicas that wait on a node for the link to another one;
/// beyond them no chunks are read for its followers.
pub const STREAM_COPIES_WAITING_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Spans of traced messages that wait on a node to be sent to the collector; more are dropped.
pub const TRACE_SPANS_MAX: usize = 16 * 1024;
/// Spans of one request to the collector.
pub const TRACE_BATCH_SPANS_MAX: usize = 512;
/// Milliseconds between two looks at the spans that wait.
pub const TRACE_EXPORT_MS: u64 = 1_000;
/// Milliseconds that a collector has to take a connection, and then to take a request and answer
/// it; a node that ends sends for no longer.
pub const TRACE_EXPORT_MS_MAX: u64 = 2_000;
/// Traced messages of one connection that are not durable, and those that are not settled; with one
/// more the oldest has no span for that.
pub const TRACED_MESSAGES_MAX: usize = 1_024;

const _: () = assert!(FRAME_BYTES_MAX >= FRAME_BYTES_PREAUTH_MAX);
const _: () = assert!(FRAME_BYTES_PREAUTH_MAX >= FRAME_BYTES_MIN);
const _: () = assert!(HTTP_WORKERS_OF_ADDRESS_MAX < HTTP_WORKERS_MAX);
const _: () = assert!(HTTP_WORKERS_OF_USER_MAX < HTTP_WORKERS_OF_ADDRESS_MAX);
const _: () = assert!(LIVE_WORKERS_OF_USER_MAX < LIVE_WORKERS_MAX);
const _: () = assert!(HTTP_CHANGES_OF_ADDRESS_MAX < HTTP_CHANGES_MAX);
const _: () = assert!(HTTP_CHANGES_OF_USER_MAX < HTTP_CHANGES_OF_ADDRESS_MAX);
const _: () = assert!(LIVE_STREAMS_MAX < HTTP_CONNECTIONS_MAX);
const _: () = assert!(LIVE_ANSWER_BYTES_MAX < LIVE_CACHED_BYTES_MAX);
const _: () = assert!(HTTP_BODIES_BYTES_MAX >= HTTP_DEFINITIONS_BYTES_MAX);
const _: () = assert!(HTTP_LOGIN_BYTES_MAX <= HTTP_BODY_BYTES_FREE);
const _: () = assert!(PEER_OUTBOX_BYTES_CONGESTED < PEER_OUTBOX_BYTES_MAX);
const _: () = assert!(
    QUORUM_TRANSFERS_MAX * QUORUM_PARTS_IN_FLIGHT as usize * QUORUM_PART_BYTES
        <= PEER_OUTBOX_BYTES_MAX / 2
);
const _: () = assert!(PEER_FRAME_BYTES_MAX < u32::MAX as usize);
const _: () = assert!(STREAM_TAIL_BYTES_MAX <= STREAM_TAILS_BYTES_MAX / 4);
const _: () = assert!(STREAM_COPY_BYTES_MAX < PEER_FRAME_BYTES_MAX);
const _: () =
    assert!(STREAM_READERS_BYTES_MAX >= 2 * STREAM_READS_MAX as usize * STREAM_READ_BYTES);
const _: () = assert!(PEER_SILENCE_MS_MAX > 3 * PEER_HEARTBEAT_MS);
const _: () = assert!(STREAM_FILTER_VALUES_BYTES_MAX >= STREAM_FILTER_VALUES_MAX);
const _: () = assert!(MEMORY_FULL_PERCENT * 6 / 5 <= 95);
const _: () = assert!(MESSAGE_BYTES_MAX <= MESSAGE_BYTES_HARD_MAX);
const _: () = assert!(CHUNK_BYTES <= WAL_BATCH_BYTES_MAX);
const _: () = assert!(WAL_BATCH_BYTES_MAX as u64 <= WAL_FILE_BYTES);
const _: () = assert!(
    MESSAGE_BYTES_HARD_MAX < u32::MAX as u64,
    "spans and lengths are 32 bits wide"
);
const _: () = assert!(
    ENTRY_BYTES_MAX as u64 <= UNCOMMITTED_BYTES_MAX && COMMAND_BYTES_MAX < ENTRY_BYTES_MAX,
    "the library lets a first entry in, however large, but refuses the next"
);
const _: () = assert!(APPEND_BYTES_MAX <= UNCOMMITTED_BYTES_MAX);
