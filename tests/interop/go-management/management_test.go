// What operators do through the HTTP API, with rabbit-hole.
package management

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	hole "github.com/michaelklishin/rabbit-hole/v3"
)

const deadline = 20 * time.Second

// nodes is how many the cluster has.
func nodes(t *testing.T) int {
	t.Helper()
	count, err := strconv.Atoi(os.Getenv("NODES"))
	must(t, err)
	return count
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// answered fails unless a call was answered with this status.
func answered(t *testing.T, wanted int, response *http.Response, err error) {
	t.Helper()
	must(t, err)
	if response.StatusCode != wanted {
		t.Fatalf("%s %s: %s", response.Request.Method, response.Request.URL, response.Status)
	}
}

// gone fails unless an error says that there is no such object.
func gone(t *testing.T, err error) {
	t.Helper()
	answer, is := err.(hole.ErrorResponse)
	if !is || answer.StatusCode != http.StatusNotFound {
		t.Fatalf("wanted 404, got %v", err)
	}
}

func same[T comparable](t *testing.T, what string, got, wanted T) {
	t.Helper()
	if got != wanted {
		t.Fatalf("%s: got %v, wanted %v", what, got, wanted)
	}
}

// until waits for a condition.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !condition(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come true", what)
		}
	}
}

func client(t *testing.T) *hole.Client {
	t.Helper()
	found, err := hole.NewClient(os.Getenv("HTTP_URL"), "guest", "guest")
	must(t, err)
	return found
}

// vhost makes a virtual host that goes with the test.
func vhost(t *testing.T, at *hole.Client) string {
	t.Helper()
	name := fmt.Sprintf("%s/%d", strings.ToLower(t.Name()), time.Now().UnixNano())
	response, err := at.PutVhost(name, hole.VhostSettings{
		Description: "of a test", Tags: hole.VhostTags{"go", "test"}, DefaultQueueType: "quorum",
	})
	answered(t, http.StatusCreated, response, err)
	t.Cleanup(func() { _, _ = at.DeleteVhost(name) })
	return name
}

func TestVirtualHostsAndTheirLimits(t *testing.T) {
	at := client(t)
	name := vhost(t, at)
	info, err := at.GetVhost(name)
	must(t, err)
	same(t, "name", info.Name, name)
	same(t, "description", info.Description, "of a test")
	same(t, "queue type", info.DefaultQueueType, "quorum")
	if !slices.Equal(info.Tags, hole.VhostTags{"go", "test"}) {
		t.Fatalf("tags: %v", info.Tags)
	}
	same(t, "nodes that have it", len(info.ClusterState), nodes(t))
	response, err := at.PutVhostLimits(name, hole.VhostLimitsValues{"max-queues": 1})
	answered(t, http.StatusNoContent, response, err)
	limits, err := at.GetVhostLimits(name)
	must(t, err)
	same(t, "limits", len(limits), 1)
	same(t, "max-queues", limits[0].Value["max-queues"], 1)
	_, err = at.DeclareQueue(name, "first", hole.QueueSettings{Durable: true})
	must(t, err)
	if _, err = at.DeclareQueue(name, "second", hole.QueueSettings{Durable: true}); err == nil {
		t.Fatal("a second queue was declared")
	}
	response, err = at.DeleteVhost(name)
	answered(t, http.StatusNoContent, response, err)
	_, err = at.GetVhost(name)
	gone(t, err)
}

func TestAProtectedVirtualHostStays(t *testing.T) {
	at := client(t)
	name := vhost(t, at)
	response, err := at.EnableVhostDeletionProtection(name)
	answered(t, http.StatusNoContent, response, err)
	if response, err := at.DeleteVhost(name); err == nil {
		t.Fatalf("it was deleted: %s", response.Status)
	}
	response, err = at.DisableVhostDeletionProtection(name)
	answered(t, http.StatusNoContent, response, err)
	response, err = at.DeleteVhost(name)
	answered(t, http.StatusNoContent, response, err)
}

func TestUsersAndPermissions(t *testing.T) {
	at := client(t)
	name := vhost(t, at)
	hash := hole.Base64EncodedSaltedPasswordHashSHA256("s3cret")
	response, err := at.PutUser("hole-user", hole.UserSettings{
		PasswordHash: hash, HashingAlgorithm: hole.HashingAlgorithmSHA256,
		Tags: hole.UserTags{"monitoring"},
	})
	answered(t, http.StatusCreated, response, err)
	t.Cleanup(func() { _, _ = at.DeleteUser("hole-user") })
	user, err := at.GetUser("hole-user")
	must(t, err)
	same(t, "hash", user.PasswordHash, hash)
	same(t, "algorithm", user.HashingAlgorithm, hole.HashingAlgorithmSHA256)

	without, err := at.ListUsersWithoutPermissions()
	must(t, err)
	if !slices.ContainsFunc(without, func(u hole.UserInfo) bool { return u.Name == "hole-user" }) {
		t.Fatalf("users without permissions: %v", without)
	}
	wanted := hole.Permissions{Configure: "^a", Write: "^b", Read: "^c"}
	response, err = at.UpdatePermissionsIn(name, "hole-user", wanted)
	answered(t, http.StatusCreated, response, err)
	found, err := at.GetPermissionsIn(name, "hole-user")
	must(t, err)
	same(t, "permissions", found, hole.PermissionInfo{
		User: "hole-user", Vhost: name, Configure: "^a", Write: "^b", Read: "^c",
	})
	topic := hole.TopicPermissions{Exchange: "amq.topic", Write: "^w", Read: "^r"}
	response, err = at.UpdateTopicPermissionsIn(name, "hole-user", topic)
	answered(t, http.StatusCreated, response, err)
	topics, err := at.GetTopicPermissionsIn(name, "hole-user")
	must(t, err)
	same(t, "topic permissions", len(topics), 1)
	same(t, "topic write", topics[0].Write, "^w")

	response, err = at.PutUserLimits("hole-user", hole.UserLimitsValues{"max-channels": 7})
	answered(t, http.StatusNoContent, response, err)
	limits, err := at.GetUserLimits("hole-user")
	must(t, err)
	same(t, "user limit", limits[0].Value["max-channels"], 7)

	theirs, err := hole.NewClient(os.Getenv("HTTP_URL"), "hole-user", "s3cret")
	must(t, err)
	me, err := theirs.Whoami()
	must(t, err)
	same(t, "whoami", me.Name, "hole-user")
	same(t, "tags", strings.Join(me.Tags, " "), "monitoring")
	if _, err := theirs.DeleteVhost(name); err == nil {
		t.Fatal("a user with the tag monitoring deleted a virtual host")
	}
	response, err = at.BulkDeleteUsers([]string{"hole-user"})
	answered(t, http.StatusNoContent, response, err)
	_, err = at.GetUser("hole-user")
	gone(t, err)
}

func TestPoliciesTakeEffect(t *testing.T) {
	at := client(t)
	name := vhost(t, at)
	policy := hole.Policy{
		Pattern: "^limited", ApplyTo: "queues", Priority: 3,
		Definition: hole.PolicyDefinition{"max-length": 2, "overflow": "drop-head"},
	}
	response, err := at.PutPolicy(name, "cap", policy)
	answered(t, http.StatusCreated, response, err)
	found, err := at.GetPolicy(name, "cap")
	must(t, err)
	same(t, "pattern", found.Pattern, "^limited")
	same(t, "priority", found.Priority, 3)
	same(t, "max-length", found.Definition["max-length"].(float64), 2)
	response, err = at.DeclareQueue(name, "limited.q", hole.QueueSettings{Durable: true})
	answered(t, http.StatusCreated, response, err)
	queue, err := at.GetQueue(name, "limited.q")
	must(t, err)
	same(t, "policy of the queue", queue.Policy, "cap")
	matching, err := at.ListMatchingPolicies(name, "limited.q", hole.PolicyTargetQuorumQueues)
	must(t, err)
	same(t, "matching policies", len(matching), 1)
	for body := range 5 {
		publish(t, at, name, "amq.default", "limited.q", strconv.Itoa(body))
	}
	awaitReady(t, at, name, "limited.q", 2)

	response, err = at.PutOperatorPolicy(name, "roof", hole.OperatorPolicy{
		Pattern: ".*", ApplyTo: "queues", Definition: hole.PolicyDefinition{"max-length": 1},
	})
	answered(t, http.StatusCreated, response, err)
	operators, err := at.ListOperatorPoliciesIn(name)
	must(t, err)
	same(t, "operator policies", len(operators), 1)
	must(t, at.DeletePoliciesIn(name, []string{"cap"}))
	_, err = at.GetPolicy(name, "cap")
	gone(t, err)
}

func publish(t *testing.T, at *hole.Client, vhost, exchange, key, body string) {
	t.Helper()
	result, err := at.PublishToExchange(vhost, exchange, hole.PublishOptions{
		RoutingKey: key, Payload: body, PayloadEncoding: "string",
		Properties: map[string]any{"delivery_mode": 2},
	})
	must(t, err)
	if !result.Routed {
		t.Fatalf("%s with %s is routed nowhere", exchange, key)
	}
}

func awaitReady(t *testing.T, at *hole.Client, vhost, queue string, wanted int) {
	t.Helper()
	until(t, fmt.Sprintf("%d messages ready in %s", wanted, queue), func() bool {
		found, err := at.GetQueue(vhost, queue)
		must(t, err)
		return found.MessagesReady == wanted
	})
}

func TestQueuesExchangesAndBindings(t *testing.T) {
	at := client(t)
	name := vhost(t, at)
	response, err := at.DeclareExchange(name, "events", hole.ExchangeSettings{
		Type: "topic", Durable: true, Arguments: map[string]any{"alternate-exchange": "amq.fanout"},
	})
	answered(t, http.StatusCreated, response, err)
	exchange, err := at.GetExchange(name, "events")
	must(t, err)
	same(t, "type", exchange.Type, "topic")
	same(t, "alternate", exchange.Arguments["alternate-exchange"].(string), "amq.fanout")
	for _, kind := range []string{"classic", "quorum", "stream"} {
		response, err = at.DeclareQueue(name, kind, hole.QueueSettings{
			Durable: true, Type: kind, Arguments: map[string]any{"x-queue-type": kind},
		})
		answered(t, http.StatusCreated, response, err)
		queue, err := at.GetQueue(name, kind)
		must(t, err)
		same(t, "queue type", queue.Type, kind)
		if kind != "classic" {
			same(t, "members of "+kind, len(queue.Members), nodes(t))
		}
	}
	response, err = at.DeclareBinding(name, hole.BindingInfo{
		Source: "events", Destination: "quorum", DestinationType: "queue", RoutingKey: "a/b.*",
		Arguments: map[string]any{"x-why": "test"},
	})
	answered(t, http.StatusCreated, response, err)
	bindings, err := at.ListQueueBindingsBetween(name, "events", "quorum")
	must(t, err)
	same(t, "bindings", len(bindings), 1)
	same(t, "routing key", bindings[0].RoutingKey, "a/b.*")
	same(t, "argument", bindings[0].Arguments["x-why"].(string), "test")
	publish(t, at, name, "events", "a/b.x", "through the topic")
	awaitReady(t, at, name, "quorum", 1)
	response, err = at.DeleteBinding(name, bindings[0])
	answered(t, http.StatusNoContent, response, err)
	bindings, err = at.ListExchangeBindings(name, "events", hole.BindingSource)
	must(t, err)
	same(t, "bindings that are left", len(bindings), 0)

	if _, err = at.DeleteQueue(name, "quorum", hole.QueueDeleteOptions{IfEmpty: true}); err == nil {
		t.Fatal("a queue with a message was deleted, although only if empty")
	}
	response, err = at.PurgeQueue(name, "quorum")
	answered(t, http.StatusNoContent, response, err)
	awaitReady(t, at, name, "quorum", 0)
	page, err := at.PagedListQueuesWithParametersIn(name, url.Values{
		"page": {"2"}, "page_size": {"2"}, "sort": {"name"},
	})
	must(t, err)
	same(t, "pages", page.PageCount, 2)
	same(t, "queues in all", page.TotalCount, 3)
	same(t, "queue of the second page", page.Items[0].Name, "stream")
	for _, queue := range []string{"classic", "quorum", "stream"} {
		response, err = at.DeleteQueue(name, queue)
		answered(t, http.StatusNoContent, response, err)
	}
	response, err = at.DeleteExchange(name, "events")
	answered(t, http.StatusNoContent, response, err)
	_, err = at.GetExchange(name, "events")
	gone(t, err)
}

func TestDefinitionsComeBack(t *testing.T) {
	at := client(t)
	name := vhost(t, at)
	_, err := at.DeclareQueue(name, "kept", hole.QueueSettings{
		Durable: true, Arguments: map[string]any{"x-max-length": 10},
	})
	must(t, err)
	_, err = at.DeclareBinding(name, hole.BindingInfo{
		Source: "amq.direct", Destination: "kept", DestinationType: "queue", RoutingKey: "k",
	})
	must(t, err)
	saved, err := at.ListVhostDefinitions(name)
	must(t, err)
	same(t, "queues", len(*saved.Queues), 1)
	same(t, "bindings", len(*saved.Bindings), 1)
	other := vhost(t, at)
	response, err := at.UploadVhostDefinitions(saved, other)
	answered(t, http.StatusNoContent, response, err)
	queue, err := at.GetQueue(other, "kept")
	must(t, err)
	same(t, "argument", queue.Arguments["x-max-length"].(float64), 10)
	bindings, err := at.ListQueueBindings(other, "kept")
	must(t, err)
	// The default exchange's, and the one that was made.
	same(t, "bindings that came back", len(bindings), 2)
	all, err := at.ListDefinitions()
	must(t, err)
	isOther := func(v hole.VhostInfo) bool { return v.Name == other }
	if !slices.ContainsFunc(*all.Vhosts, isOther) {
		t.Fatalf("no %s in %v", other, *all.Vhosts)
	}
}

func TestNodesOverviewAndHealth(t *testing.T) {
	at := client(t)
	overview, err := at.Overview()
	must(t, err)
	if !strings.Contains(overview.RabbitMQVersion, ".") {
		t.Fatalf("version %q", overview.RabbitMQVersion)
	}
	found, err := at.ListNodes()
	must(t, err)
	same(t, "nodes", len(found), nodes(t))
	for _, node := range found {
		one, err := at.GetNode(node.Name)
		must(t, err)
		if !one.IsRunning || one.MemUsed <= 0 || one.DiskFree <= 0 || one.Uptime == 0 {
			t.Fatalf("node %+v", one)
		}
	}
	named := slices.ContainsFunc(found, func(n hole.NodeInfo) bool { return n.Name == overview.Node })
	same(t, "the overview's node is one of them", named, true)
	response, err := at.SetClusterName(hole.ClusterName{Name: "hole-cluster"})
	answered(t, http.StatusNoContent, response, err)
	cluster, err := at.GetClusterName()
	must(t, err)
	same(t, "cluster", cluster.Name, "hole-cluster")

	ofNode := slices.IndexFunc(overview.Listeners, func(l hole.Listener) bool {
		return l.Node == overview.Node && l.Protocol == "amqp"
	})
	amqp := uint(overview.Listeners[ofNode].Port)
	listener, err := at.HealthCheckPortListener(amqp)
	must(t, err)
	same(t, "port", listener.Status+strconv.Itoa(int(listener.Port)), "ok"+strconv.Itoa(int(amqp)))
	missing, err := at.HealthCheckPortListener(1)
	must(t, err)
	same(t, "missing port", missing.Status+strconv.Itoa(int(missing.Missing)), "failed1")
	protocol, err := at.HealthCheckProtocolListener(hole.AMQP)
	must(t, err)
	same(t, "protocol", protocol.Status, "ok")
	alarms, err := at.HealthCheckAlarms()
	must(t, err)
	same(t, "alarms", alarms.Status, "ok")
	for what, check := range map[string]func() (hole.HealthCheckStatus, error){
		"virtual hosts": at.HealthCheckVirtualHosts,
		"quorum":        at.HealthCheckNodeIsQuorumCritical,
		"certificates": func() (hole.HealthCheckStatus, error) {
			return at.HealthCheckCertificateExpiration(1, hole.DAYS)
		},
	} {
		status, err := check()
		must(t, err)
		same(t, what, status.Status, "ok")
	}
	flags, err := at.ListFeatureFlags()
	must(t, err)
	isQuorum := func(f hole.FeatureFlag) bool {
		return f.Name == "quorum_queue" && f.State == hole.StateEnabled
	}
	same(t, "the flag of quorum queues", slices.ContainsFunc(flags, isQuorum), true)
}
