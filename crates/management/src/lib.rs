//! The HTTP API and the Prometheus metrics of a node, under RabbitMQ's names.
//!
//! The node is behind two traits of plain values, [`Running`] and [`Directory`] (the second comes
//! with a catalogue: [`CatalogueDirectory`]); what is here turns them into JSON and text, decides
//! who may ask for what, and serves it.
//!
//! Invariant: every route names what it asks of its user in one table ([`routes`]), and one
//! function judges it ([`access::permit`]).
//! Invariant: what is sampled while nobody asks ([`Sampling`]) is bounded in number and bytes, and
//! what stands still costs nothing.
//! Invariant: names and texts of clients reach JSON, labels and headers only through an encoder.

mod absent;
pub mod access;
mod alarms;
pub mod answers;
pub mod api;
mod app;
mod attempts;
mod body_memory;
mod browser;
mod catalogue;
pub mod catalogue_directory;
mod catalogue_walk;
mod changes;
mod client_lists;
pub mod cluster;
mod cluster_view;
mod connections;
mod cors;
mod delayed;
mod descriptors;
pub mod directory;
mod disk;
mod disk_use;
mod events;
mod exchanges;
mod figures;
mod growth;
mod health;
mod history;
mod impact;
pub mod input;
mod json_pointer;
mod kept_changes;
mod latencies;
mod list_query;
mod listen;
mod listing;
mod live;
mod live_request;
mod live_stream;
pub mod metrics;
pub mod moments;
mod move_messages;
mod moves;
mod multipart;
mod object;
mod overview;
mod owned;
mod paced;
mod page_text;
mod parts;
pub mod peers;
mod pieces;
mod places;
mod query_parameters;
pub mod question;
mod queue_search;
mod queues;
mod ranges;
mod rate_limit;
mod rates;
mod reference;
mod reply;
mod route;
pub mod routes;
mod samples;
mod sampling;
mod schemas;
mod selection;
mod server;
mod stream_browse;
mod stream_drains;
mod stream_groups;
mod stream_place;
mod stream_rows;
mod stream_stats;
mod streams;
mod sums;
mod ui;
mod vhost_sums;
mod watched;
mod way;

pub use api::Running;
pub use app::{App, Node};
pub use catalogue_directory::CatalogueDirectory;
pub use directory::Directory;
pub use listen::{Bound, Endpoint, Place, Service, Tls};
pub use overview::{RABBITMQ_VERSION, VERSION};
pub use reply::{ApiError, Reply, fingerprint};
pub use samples::Moment;
pub use sampling::Sampling;
pub use server::Server;
