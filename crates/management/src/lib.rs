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

pub mod access;
mod alarms;
pub mod answers;
pub mod api;
mod app;
mod attempts;
mod catalogue;
pub mod catalogue_directory;
mod catalogue_walk;
mod changes;
mod client_lists;
pub mod cluster;
mod cluster_lists;
mod connections;
pub mod definitions_pieces;
mod definitions_text;
mod delayed;
mod descriptors;
pub mod directory;
mod disk;
mod events;
mod exchanges;
mod flows;
pub mod foreign_definitions;
mod growth;
mod health;
mod held;
mod history;
pub mod http;
mod impact;
mod json_pointer;
mod json_writer;
mod kept_changes;
mod list_query;
mod live;
mod message_stats;
pub mod metrics;
mod minify;
mod move_messages;
mod moves;
mod openapi;
mod ordering;
mod overview;
mod pairs;
pub mod peers;
mod priority;
mod query_parameters;
pub mod question;
mod queue_search;
mod queues;
mod rabbitmq_only_fields;
mod route_tester;
pub mod routes;
mod row_lists;
mod schemas;
mod selection;
mod sought;
mod streams;
pub mod timestamps;
mod ui;
mod unacked;
mod user_queues;
mod written;

pub use api::Running;
pub use app::{App, Node};
pub use catalogue_directory::CatalogueDirectory;
pub use directory::Directory;
pub use history::samples::Moment;
pub use history::sampling::Sampling;
pub use http::listeners::{Bound, Endpoint, ListenAddress, Service, Tls};
pub use http::reply::{ApiError, Reply, fingerprint};
pub use http::server::Server;
pub use overview::{RABBITMQ_VERSION, VERSION};
pub use priority::let_clients_go_first;
