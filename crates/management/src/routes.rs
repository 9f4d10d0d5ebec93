//! The table of routes: every resource, its methods, what each asks of whoever uses it.

use crate::access::Access::{
    self, Administrator, Anyone, Management, Member, Monitoring, Policymaker, Visible,
};
use crate::catalogue::{definitions, limits, parameters, permissions, policies, users, vhosts};
use crate::http::router::{Handler, Method, Route};
use crate::{
    alarms, attempts, changes, cluster, connections, delayed, disk, exchanges, growth, health,
    impact, live::request, moves, openapi, overview, pairs, queue_search, queues, route_tester,
    streams, streams::browse, streams::drains, streams::groups, unacked, user_queues,
};

const fn method(name: &'static str, access: Access, handler: Handler) -> Method {
    Method {
        name,
        access,
        handler,
    }
}

/// One route: `"path" => METHOD(Access, handler), ...`.
macro_rules! routes {
    ($($path:literal => $($name:ident($access:ident, $handler:expr)),+;)*) => {
        &[$(Route {
            path: $path,
            methods: &[$(method(stringify!($name), $access, $handler)),+],
        }),*]
    };
}

/// Every route. A path that two patterns fit belongs to the first.
#[rustfmt::skip]
pub static ROUTES: &[Route] = routes! {
    "/api/overview" => GET(Management, overview::overview);
    "/api/version" => GET(Management, overview::version);
    "/api/config/effective" => GET(Administrator, overview::configuration);
    "/api/whoami" => GET(Management, overview::whoami);
    "/api/auth" => GET(Anyone, overview::auth);
    "/api/login" => POST(Anyone, overview::login), DELETE(Anyone, overview::logout);
    "/api" => GET(Anyone, openapi::moved);
    "/api/index.html" => GET(Anyone, openapi::page);
    "/api/openapi.json" => GET(Anyone, openapi::document);
    "/api/auth/attempts/{}" => GET(Monitoring, attempts::attempts), DELETE(Monitoring, attempts::forget);
    "/api/auth/attempts/{}/source" =>
        GET(Monitoring, attempts::by_source),
        PUT(Administrator, attempts::track_sources),
        DELETE(Monitoring, attempts::forget);
    "/api/auth/hash_password/{}" => GET(Administrator, health::hash_password);
    "/api/extensions" => GET(Management, overview::extensions);
    "/api/feature-flags" => GET(Management, overview::feature_flags);
    "/api/feature-flags/{}/enable" => PUT(Administrator, overview::enable_feature_flag);
    "/api/deprecated-features" => GET(Management, overview::deprecated_features);
    "/api/deprecated-features/used" => GET(Management, overview::deprecated_features);
    "/api/cluster-name" => GET(Management, overview::cluster_name), PUT(Administrator, parameters::put_cluster_name);
    "/api/nodes" => GET(Monitoring, overview::nodes);
    "/api/nodes/{}" => GET(Monitoring, overview::node);
    "/api/nodes/{}/memory" => GET(Monitoring, overview::node_memory);
    "/api/nodes/{}/memory/relative" => GET(Monitoring, overview::node_memory_relative);
    "/api/nodes/{}/memory/ets" => GET(Monitoring, overview::node_memory_ets);
    "/api/nodes/{}/memory/ets/{}" => GET(Monitoring, overview::node_memory_ets);
    "/api/nodes/{}/memory/ets/{}/relative" => GET(Monitoring, overview::node_memory_ets);
    "/api/reset" => DELETE(Administrator, overview::reset);
    "/api/reset/{}" => DELETE(Administrator, overview::reset);

    "/api/connections" => GET(Management, connections::connections);
    "/api/connections/username/{}" =>
        GET(Management, connections::connections_of_user),
        DELETE(Management, connections::close_of_user);
    "/api/connections/{}" => GET(Management, connections::connection), DELETE(Management, connections::close_one);
    "/api/connections/{}/sessions" => GET(Management, connections::sessions);
    "/api/connections/{}/channels" => GET(Management, connections::channels_of_connection);
    "/api/channels" => GET(Management, connections::channels);
    "/api/channels/{}" => GET(Management, connections::channel);
    "/api/consumers" => GET(Management, connections::consumers);
    "/api/consumers/{vhost}" => GET(Visible, connections::consumers_of_vhost);

    "/api/queues" => GET(Management, queues::all);
    "/api/queues/detailed" => GET(Management, queues::all);
    "/api/queues/{vhost}" => GET(Visible, queues::of_vhost);
    "/api/queues/{vhost}/{}" => GET(Visible, queues::one), PUT(Member, queues::put), DELETE(Member, queues::delete);
    "/api/queues/quorum/{vhost}/{}/status" => GET(Visible, queues::replicas);
    "/api/queues/quorum/{vhost}/{}/peek/{}" => GET(Member, queues::peek);
    "/api/queues/quorum/{vhost}/{}/replicas/add" => POST(Administrator, cluster::add_member);
    "/api/queues/quorum/{vhost}/{}/replicas/delete" => DELETE(Administrator, cluster::remove_member);
    "/api/queues/quorum/replicas/on/{}/grow" => POST(Administrator, cluster::grow_on);
    "/api/queues/quorum/replicas/on/{}/shrink" => DELETE(Administrator, cluster::shrink_on);
    "/api/queues/{vhost}/{}/bindings" => GET(Visible, exchanges::bindings_of_queue);
    "/api/queues/{vhost}/{}/contents" => DELETE(Member, queues::purge);
    "/api/queues/{vhost}/{}/get" => POST(Member, queues::get);
    "/api/queues/{vhost}/{}/actions" => POST(Administrator, queues::actions);

    "/api/stream/connections" => GET(Management, streams::connections);
    "/api/stream/connections/{vhost}" => GET(Visible, streams::connections_of_vhost);
    "/api/stream/connections/{vhost}/{}" => GET(Visible, streams::connection), DELETE(Visible, streams::close);
    "/api/stream/connections/{vhost}/{}/consumers" => GET(Visible, streams::consumers_of_connection);
    "/api/stream/connections/{vhost}/{}/publishers" => GET(Visible, streams::publishers_of_connection);
    "/api/stream/consumers" => GET(Management, streams::consumers);
    "/api/stream/consumers/{vhost}" => GET(Visible, streams::consumers_of_vhost);
    "/api/stream/publishers" => GET(Management, streams::publishers);
    "/api/stream/publishers/{vhost}" => GET(Visible, streams::publishers_of_vhost);
    "/api/stream/publishers/{vhost}/{}" => GET(Visible, streams::publishers_of_stream);
    "/api/stream/super-streams" => GET(Management, streams::super_streams);
    "/api/stream/super-streams/{vhost}" => GET(Visible, streams::super_streams_of_vhost);
    "/api/stream/super-streams/{vhost}/{}" =>
        PUT(Member, streams::put_super_stream),
        DELETE(Member, streams::delete_super_stream);
    "/api/stream/{vhost}/{}/tracking" => GET(Visible, streams::tracking);

    "/api/exchanges" => GET(Management, exchanges::all);
    "/api/exchanges/{vhost}" => GET(Visible, exchanges::of_vhost);
    "/api/exchanges/{vhost}/{}" =>
        GET(Visible, exchanges::one),
        PUT(Member, exchanges::put),
        DELETE(Member, exchanges::delete);
    "/api/exchanges/{vhost}/{}/publish" => POST(Member, queues::publish);
    "/api/exchanges/{vhost}/{}/bindings/source" => GET(Visible, exchanges::bindings_from);
    "/api/exchanges/{vhost}/{}/bindings/destination" => GET(Visible, exchanges::bindings_to);

    "/api/bindings" => GET(Management, exchanges::bindings);
    "/api/bindings/{vhost}" => GET(Visible, exchanges::bindings_of_vhost);
    "/api/bindings/{vhost}/e/{}/q/{}" => GET(Visible, exchanges::list_to_queue), POST(Member, exchanges::bind_queue);
    "/api/bindings/{vhost}/e/{}/q/{}/{}" => GET(Visible, exchanges::one_to_queue), DELETE(Member, exchanges::unbind_queue);
    "/api/bindings/{vhost}/e/{}/e/{}" => GET(Visible, exchanges::list_to_exchange), POST(Member, exchanges::bind_exchange);
    "/api/bindings/{vhost}/e/{}/e/{}/{}" => GET(Visible, exchanges::one_to_exchange), DELETE(Member, exchanges::unbind_exchange);

    "/api/vhosts" => GET(Management, vhosts::vhosts);
    "/api/vhosts/{vhost?}" =>
        GET(Visible, vhosts::vhost),
        PUT(Administrator, vhosts::put_vhost),
        DELETE(Administrator, vhosts::delete_vhost);
    "/api/vhosts/{vhost}/permissions" => GET(Administrator, permissions::permissions_of_vhost);
    "/api/vhosts/{vhost}/topic-permissions" => GET(Administrator, permissions::topic_permissions_of_vhost);
    "/api/vhosts/{vhost}/connections" => GET(Visible, connections::connections_of_vhost);
    "/api/vhosts/{vhost}/channels" => GET(Visible, connections::channels_of_vhost);
    "/api/vhosts/{vhost}/deletion/protection" =>
        POST(Administrator, vhosts::protect_vhost),
        DELETE(Administrator, vhosts::unprotect_vhost);
    "/api/vhosts/{vhost}/start/{}" => POST(Administrator, vhosts::start);

    "/api/users" => GET(Administrator, users::users);
    "/api/users/without-permissions" => GET(Administrator, users::users_without_permissions);
    "/api/users/bulk-delete" => POST(Administrator, users::delete_users);
    "/api/users/{}" =>
        GET(Administrator, users::user),
        PUT(Administrator, users::put_user),
        DELETE(Administrator, users::delete_user);
    "/api/users/{}/permissions" => GET(Administrator, permissions::permissions_of_user);
    "/api/users/{}/topic-permissions" => GET(Administrator, permissions::topic_permissions_of_user);
    "/api/users/{}/queues" => GET(Management, user_queues::queues);
    "/api/permissions" => GET(Administrator, permissions::permissions);
    "/api/permissions/{vhost}/{}" =>
        GET(Administrator, permissions::permission),
        PUT(Administrator, permissions::put_permission),
        DELETE(Administrator, permissions::delete_permission);
    "/api/topic-permissions" => GET(Administrator, permissions::topic_permissions);
    "/api/topic-permissions/{vhost}/{}" =>
        GET(Administrator, permissions::topic_permission),
        PUT(Administrator, permissions::put_topic_permission),
        DELETE(Administrator, permissions::delete_topic_permission);
    "/api/topic-permissions/{vhost}/{}/{}" =>
        GET(Administrator, permissions::topic_permission_of_exchange),
        PUT(Administrator, permissions::put_topic_permission),
        DELETE(Administrator, permissions::delete_topic_permission);
    "/api/vhost-limits" => GET(Management, limits::vhost_limits);
    "/api/vhost-limits/{vhost}" => GET(Visible, limits::limits_of_vhost);
    "/api/vhost-limits/{vhost}/{}" =>
        PUT(Administrator, limits::put_vhost_limit),
        DELETE(Administrator, limits::delete_vhost_limit);
    "/api/user-limits" => GET(Administrator, limits::user_limits);
    "/api/user-limits/{}" => GET(Administrator, limits::limits_of_user);
    "/api/user-limits/{}/{}" =>
        PUT(Administrator, limits::put_user_limit),
        DELETE(Administrator, limits::delete_user_limit);

    "/api/policies" => GET(Management, policies::policies);
    "/api/policies/{vhost}" => GET(Visible, policies::policies_of_vhost);
    "/api/policies/{vhost}/{}" =>
        GET(Visible, policies::policy),
        PUT(Policymaker, policies::put_policy),
        DELETE(Policymaker, policies::delete_policy);
    "/api/operator-policies" => GET(Management, policies::operator_policies);
    "/api/operator-policies/{vhost}" => GET(Visible, policies::operator_policies_of_vhost);
    "/api/operator-policies/{vhost}/{}" =>
        GET(Visible, policies::operator_policy),
        PUT(Administrator, policies::put_operator_policy),
        DELETE(Administrator, policies::delete_operator_policy);
    "/api/parameters" => GET(Policymaker, parameters::parameters);
    "/api/parameters/{}" => GET(Policymaker, parameters::parameters_of_component);
    "/api/parameters/{}/{vhost}" => GET(Policymaker, parameters::parameters_of_vhost);
    "/api/parameters/{}/{vhost}/{}" =>
        GET(Policymaker, parameters::parameter),
        PUT(Policymaker, parameters::put_parameter),
        DELETE(Policymaker, parameters::delete_parameter);
    "/api/global-parameters" => GET(Policymaker, parameters::global_parameters);
    "/api/global-parameters/{}" =>
        GET(Policymaker, parameters::global_parameter),
        PUT(Administrator, parameters::put_global_parameter),
        DELETE(Administrator, parameters::delete_global_parameter);
    "/api/definitions" =>
        GET(Administrator, definitions::export),
        POST(Administrator, definitions::import),
        PUT(Administrator, definitions::import);
    "/api/definitions/{vhost?}" =>
        GET(Administrator, definitions::export_vhost),
        POST(Administrator, definitions::import_vhost),
        PUT(Administrator, definitions::import_vhost);
    "/api/all-configuration" => GET(Administrator, definitions::export), POST(Administrator, definitions::import);

    "/api/health/checks/alarms" => GET(Management, health::alarms);
    "/api/health/checks/local-alarms" => GET(Management, health::local_alarms);
    "/api/health/checks/metadata-store/initialized" => GET(Management, health::passed);
    "/api/health/checks/metadata-store/initialized/with-data" => GET(Management, health::has_data);
    "/api/health/checks/certificate-expiration/{}/{}" => GET(Management, health::certificates);
    "/api/health/checks/port-listener/{}" => GET(Management, health::port_listener);
    "/api/health/checks/protocol-listener/{}" => GET(Management, health::protocol_listener);
    "/api/health/checks/virtual-hosts" => GET(Management, health::in_service);
    "/api/health/checks/quorum-queues-without-elected-leaders/all-vhosts" => GET(Management, health::leaders_everywhere);
    "/api/health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/{}" => GET(Management, health::leaders_everywhere);
    "/api/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}" => GET(Visible, health::leaders_of_vhost);
    "/api/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}/pattern/{}" => GET(Visible, health::leaders_of_vhost);
    "/api/health/checks/node-is-mirror-sync-critical" => GET(Management, health::mirror_sync_critical);
    "/api/health/checks/node-is-quorum-critical" => GET(Management, health::quorum_critical);
    "/api/health/checks/is-in-service" => GET(Management, health::in_service);
    "/api/health/checks/below-node-connection-limit" => GET(Management, health::below_connection_limit);
    "/api/health/checks/ready-to-serve-clients" => GET(Management, health::ready_for_clients);
    "/api/health/checks/reached-target-cluster-size" => GET(Management, health::cluster_size);
    "/api/aliveness-test/{vhost}" => GET(Member, health::aliveness);
    "/api/healthchecks/node" => GET(Management, health::local_alarms);
    "/api/healthchecks/node/{}" => GET(Management, health::local_alarms);

    // Of plugins that are not part of this broker: there are none, and monitors ask for them.
    "/api/shovels" => GET(Monitoring, overview::none);
    "/api/shovels/{vhost}" => GET(Monitoring, overview::none);
    "/api/traces" => GET(Monitoring, overview::none);
    "/api/traces/node/{}" => GET(Monitoring, overview::none);
    "/api/traces/node/{}/{vhost}" => GET(Monitoring, overview::none);
    "/api/traces/{vhost}" => GET(Monitoring, overview::none);
    "/api/trace-files" => GET(Monitoring, overview::none);
    "/api/trace-files/node/{}" => GET(Monitoring, overview::none);
    "/api/federation-links/state/down" => GET(Monitoring, overview::none);
    "/api/federation-links/{vhost}/state/down" => GET(Monitoring, overview::none);
    "/api/federation-links" => GET(Monitoring, overview::none);
    "/api/federation-links/{vhost}" => GET(Monitoring, overview::none);

    "/api/rebalance/queues" => POST(Administrator, cluster::rebalance);
    "/api/leveret/cluster" => GET(Monitoring, cluster::status);
    "/api/leveret/cluster/{}" => POST(Administrator, cluster::change);
    "/api/leveret/live" => GET(Management, request::live);
    "/api/leveret/changes" => GET(Administrator, changes::changes);
    "/api/leveret/alarms" => GET(Monitoring, alarms::alarms);
    "/api/leveret/nodes/{}/impact" => GET(Monitoring, impact::impact);
    "/api/leveret/exchanges/{vhost}/{}/route" => GET(Visible, route_tester::route);
    "/api/leveret/queues/{vhost}/{}/growth" => GET(Visible, growth::growth);
    "/api/leveret/flows/{vhost}" => GET(Visible, pairs::flows);
    "/api/leveret/queues/{vhost}/{}/messages" => GET(Member, moves::look);
    "/api/leveret/queues/{vhost}/{}/unacked" => GET(Member, unacked::unacked);
    "/api/leveret/queues/{vhost}/{}/search" => GET(Member, queue_search::search);
    "/api/leveret/queues/{vhost}/{}/moves" => GET(Visible, moves::list), POST(Member, moves::begin);
    "/api/leveret/queues/{vhost}/{}/moves/{}" => GET(Visible, moves::one), DELETE(Member, moves::stop);
    "/api/leveret/delayed" => GET(Administrator, delayed::list);
    "/api/leveret/delayed/{}" => DELETE(Administrator, delayed::cancel);
    "/api/leveret/disk" => GET(Monitoring, disk::disk);
    "/api/leveret/disk/{}" => GET(Monitoring, disk::disk_of);
    "/api/leveret/damage" => GET(Monitoring, health::damage);
    "/api/leveret/stream-groups" => GET(Management, groups::groups);
    "/api/leveret/stream-groups/{vhost}" => GET(Visible, groups::groups_of_vhost);
    "/api/leveret/stream-groups/{vhost}/{}" => GET(Visible, groups::groups_of_stream);
    "/api/leveret/stream-groups/{vhost}/{}/{}" => GET(Visible, groups::group),
        PUT(Administrator, groups::set),
        DELETE(Administrator, groups::delete);
    "/api/leveret/super-streams/{vhost}/{}/partitions" => POST(Member, streams::add_partitions);
    "/api/leveret/super-streams/{vhost}/{}/drained/{}" =>
        GET(Visible, drains::partition),
        PUT(Member, drains::drain),
        DELETE(Member, drains::undrain);
    "/api/leveret/streams/{vhost}/{}/messages" => GET(Member, browse::browse);
    "/api/leveret/streams/{vhost}/{}/status" => GET(Visible, streams::status);
    "/api/leveret/streams/{vhost}/{}/offsets/{}" => PUT(Administrator, streams::store_offset);
    "/api/leveret/streams/{vhost}/{}/replicas/{}" => POST(Administrator, streams::add_replica),
        DELETE(Administrator, streams::delete_replica);
    "/api/leveret/authenticate" => POST(Administrator, health::authenticate);
    "/api/leveret/memory-watermark" => PUT(Administrator, health::memory_watermark);
    "/api/leveret/disk-free-limit" => PUT(Administrator, health::disk_free_limit);
    "/api/leveret/listening" => PUT(Administrator, health::listening);
    "/api/leveret/log-level" => PUT(Administrator, health::log_level);
    "/api/leveret/rotate-logs" => POST(Administrator, health::rotate_logs);
    "/api/leveret/serving" => PUT(Administrator, health::serving);
    "/api/leveret/stop" => POST(Administrator, health::stop);
};

#[cfg(test)]
mod tests {
    use super::ROUTES;
    use crate::access::{Access, Who, permit};
    use std::collections::BTreeSet;

    const TABLE: &str = include_str!("../../../tests/interop/permissions.txt");

    /// The rows of all tables of the file, as words.
    fn all_rows() -> impl Iterator<Item = Vec<&'static str>> {
        let is_row = |line: &&str| !line.is_empty() && !line.starts_with('#');
        let lines = TABLE.lines().filter(is_row);
        lines.map(|line| line.split_whitespace().collect())
    }

    /// The rows of the first table, of who may use a route at all.
    fn rows() -> impl Iterator<Item = Vec<&'static str>> {
        all_rows().filter(|row| !["AMQP", "HTTP", "OWNER", "STREAM"].contains(&row[0]))
    }

    /// The users of the table, in the order of its columns.
    fn users() -> [Who; 6] {
        let user = |tag: &str| Who::User {
            name: "u".to_owned(),
            tags: [tag.to_owned()].into(),
        };
        [
            Who::Nobody,
            user(""),
            user("management"),
            user("policymaker"),
            user("monitoring"),
            user("administrator"),
        ]
    }

    #[test]
    fn the_table_of_permissions_has_every_method_of_every_route_once() {
        let mut found = BTreeSet::new();
        for row in rows() {
            assert!(found.insert((row[1], row[0])), "twice: {row:?}");
        }
        let routes = ROUTES.iter();
        let known = routes.flat_map(|route| route.methods.iter().map(|m| (route.path, m.name)));
        assert_eq!(found, known.collect());
    }

    #[test]
    fn what_the_tables_say_of_objects_is_about_routes_of_the_first() {
        let known: BTreeSet<_> = rows().map(|row| (row[0], row[1])).collect();
        let of_objects = all_rows().filter(|row| ["HTTP", "OWNER"].contains(&row[0]));
        for row in of_objects {
            assert!(known.contains(&(row[1], row[2])), "no such route: {row:?}");
        }
    }

    /// Whoever has permissions in a virtual host may use these: on which objects is another
    /// question.
    #[test]
    fn what_members_may_use_has_a_row_that_says_on_which_objects() {
        let of_objects = all_rows().filter(|row| row[0] == "HTTP");
        let known: BTreeSet<_> = of_objects.map(|row| (row[2], row[1])).collect();
        let methods = ROUTES.iter().flat_map(|route| {
            let members = route.methods.iter().filter(|m| m.access == Access::Member);
            members.map(|m| (route.path, m.name))
        });
        let missing: Vec<_> = methods.filter(|method| !known.contains(method)).collect();
        assert_eq!(missing, []);
    }

    /// What is done to one connection or channel is about whose it is.
    #[test]
    fn what_is_of_one_connection_has_a_row_that_says_whose() {
        let of_owners = all_rows().filter(|row| row[0] == "OWNER");
        let known: BTreeSet<_> = of_owners.map(|row| (row[2], row[1])).collect();
        let is_of_one = |path: &str| {
            let roots = [
                "/api/connections/",
                "/api/channels/",
                "/api/stream/connections/{vhost}/",
            ];
            roots.iter().any(|root| path.starts_with(root))
        };
        let routes = ROUTES.iter().filter(|route| is_of_one(route.path));
        let methods = routes.flat_map(|route| route.methods.iter().map(|m| (route.path, m.name)));
        let missing: Vec<_> = methods.filter(|method| !known.contains(method)).collect();
        assert_eq!(missing, []);
    }

    #[test]
    fn the_rules_permit_whom_the_table_of_permissions_does() {
        for row in rows() {
            let route = ROUTES.iter().find(|route| route.path == row[1]);
            let method = route.and_then(|r| r.methods.iter().find(|m| m.name == row[0]));
            let access = method.expect("a method").access;
            for (columns, is_member) in [(row[2], true), (row[3], false)] {
                for (column, who) in columns.chars().zip(users()) {
                    let may = permit(access, &who, is_member).is_ok();
                    // The probe of a virtual host asks for permissions of its objects besides.
                    let probe = row[1].starts_with("/api/aliveness-test/");
                    assert!(
                        column == '.' || may == (column == '+') || probe && column == '-',
                        "{row:?} {who:?}"
                    );
                }
            }
        }
    }
}
