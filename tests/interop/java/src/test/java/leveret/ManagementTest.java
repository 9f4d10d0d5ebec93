package leveret;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.http.client.Client;
import com.rabbitmq.http.client.ClientParameters;
import com.rabbitmq.http.client.GetAckMode;
import com.rabbitmq.http.client.GetEncoding;
import com.rabbitmq.http.client.HttpClientException;
import com.rabbitmq.http.client.domain.DeleteQueueParameters;
import com.rabbitmq.http.client.domain.DestinationType;
import com.rabbitmq.http.client.domain.ExchangeInfo;
import com.rabbitmq.http.client.domain.OutboundMessage;
import com.rabbitmq.http.client.domain.PolicyInfo;
import com.rabbitmq.http.client.domain.QueryParameters;
import com.rabbitmq.http.client.domain.QueueInfo;
import com.rabbitmq.http.client.domain.TopicPermissions;
import com.rabbitmq.http.client.domain.UserPermissions;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What operators do through the HTTP API, with RabbitMQ's client of it. */
class ManagementTest {
  private static final int NODES = Integer.parseInt(System.getenv().getOrDefault("NODES", "1"));
  private static final long DEADLINE_NANOS = 20_000_000_000L;

  private final String vhost = "java/" + UUID.randomUUID();
  private Client client;

  private static Client client(String user, String password) throws Exception {
    String url = System.getenv("HTTP_URL") + "/api/";
    return new Client(new ClientParameters().url(url).username(user).password(password));
  }

  @BeforeEach
  void connect() throws Exception {
    client = client("guest", "guest");
    client.createVhost(vhost, "of a test", "java", "test");
  }

  @AfterEach
  void clean() {
    client.deleteVhost(vhost);
  }

  private void declareQueue(String name, Map<String, Object> arguments) {
    client.declareQueue(vhost, name, new QueueInfo(true, false, false, arguments));
  }

  private static void await(String what, BooleanSupplier condition) throws Exception {
    long end = System.nanoTime() + DEADLINE_NANOS;
    while (!condition.getAsBoolean()) {
      assertTrue(System.nanoTime() < end, what + " did not come true");
      Thread.sleep(50);
    }
  }

  private void awaitReady(String queue, long wanted) throws Exception {
    await(wanted + " messages", () -> client.getQueue(vhost, queue).getMessagesReady() == wanted);
  }

  @Test
  void virtualHosts() {
    var info = client.getVhost(vhost);
    assertEquals(vhost, info.getName());
    assertEquals("of a test", info.getDescription());
    assertEquals(List.of("java", "test"), info.getTags());
    assertEquals(NODES, info.getClusterState().size());
    client.limitMaxNumberOfQueues(vhost, 5);
    client.limitMaxNumberOfConnections(vhost, 6);
    var limits = client.getVhostLimits(vhost);
    assertEquals(List.of(5, 6), List.of(limits.getMaxQueues(), limits.getMaxConnections()));
    client.clearMaxQueuesLimit(vhost);
    assertEquals(-1, client.getVhostLimits(vhost).getMaxQueues());
    assertNull(client.getVhost("no such " + vhost));
  }

  @Test
  void usersAndPermissions() throws Exception {
    client.createUser("java-user", "s3cret".toCharArray(), List.of("management"));
    try {
      assertEquals(List.of("management"), client.getUser("java-user").getTags());
      client.updatePermissions(vhost, "java-user", new UserPermissions("^c", "^b", "^a"));
      var found = client.getPermissions(vhost, "java-user");
      var patterns = List.of(found.getConfigure(), found.getWrite(), found.getRead());
      assertEquals(List.of("^a", "^b", "^c"), patterns);
      client.updateTopicPermissions(
          vhost, "java-user", new TopicPermissions("amq.topic", "^read", "^write"));
      var topics = client.getTopicPermissions(vhost, "java-user");
      assertEquals("^write", topics.get(0).getWrite());

      Client theirs = client("java-user", "s3cret");
      assertEquals("java-user", theirs.whoAmI().getName());
      assertEquals(List.of(vhost), theirs.getVhosts().stream().map(v -> v.getName()).toList());
      var refused = assertThrows(HttpClientException.class, () -> theirs.getUsers());
      assertEquals(401, refused.status());

      client.updateUser("java-user", "other".toCharArray(), List.of("administrator"));
      assertEquals("java-user", client("java-user", "other").whoAmI().getName());
      client.clearPermissions(vhost, "java-user");
      assertEquals(List.of(), client.getPermissionsOf("java-user"));
    } finally {
      client.deleteUser("java-user");
    }
    assertNull(client.getUser("java-user"));
  }

  @Test
  void queuesExchangesAndBindings() throws Exception {
    client.declareExchange(
        vhost, "logs", new ExchangeInfo("headers", true, false, false, Map.of()));
    assertEquals("headers", client.getExchange(vhost, "logs").getType());
    for (String type : List.of("classic", "quorum", "stream")) {
      declareQueue(type, Map.of("x-queue-type", type));
      QueueInfo queue = client.getQueue(vhost, type);
      assertEquals(type, queue.getType());
      if (!type.equals("classic")) {
        assertEquals(NODES, queue.getMemberNodes().size());
      }
    }
    client.bindQueue(vhost, "quorum", "logs", "", Map.of("x-match", "all", "kind", "red"));
    client.bindExchange(vhost, "logs", "amq.fanout", "k");
    var bound = client.getQueueBindingsBetween(vhost, "logs", "quorum");
    assertEquals(1, bound.size());
    assertEquals("red", bound.get(0).getArguments().get("kind"));
    assertEquals(DestinationType.QUEUE, bound.get(0).getDestinationType());
    assertEquals(1, client.getExchangeBindingsBetween(vhost, "amq.fanout", "logs").size());

    Map<String, Object> red = Map.of("headers", Map.of("kind", "red"), "message_id", "m-1");
    var message = new OutboundMessage().payload("grüß").utf8Encoded().properties(red);
    assertTrue(client.publish(vhost, "amq.fanout", "", message));
    awaitReady("quorum", 1);
    var got = client.get(vhost, "quorum", 1, GetAckMode.ACK_REQUEUE_FALSE, GetEncoding.AUTO).get(0);
    assertEquals("grüß", got.getPayload());
    assertEquals("m-1", got.getProperties().get("message_id"));
    assertEquals(Map.of("kind", "red"), got.getProperties().get("headers"));
    client.unbindExchange(vhost, "logs", "amq.fanout", "k");
    assertFalse(client.publish(vhost, "amq.fanout", "", message));

    client.publish(vhost, "logs", "", message);
    awaitReady("quorum", 1);
    var ifEmpty = new DeleteQueueParameters(true, false);
    assertThrows(
        HttpClientException.class, () -> client.deleteQueue(vhost, "quorum", ifEmpty));
    client.purgeQueue(vhost, "quorum");
    awaitReady("quorum", 0);
    client.deleteQueue(vhost, "quorum", ifEmpty);
    assertNull(client.getQueue(vhost, "quorum"));
  }

  @Test
  void pagesOfQueues() {
    for (int at = 0; at < 5; at++) {
      declareQueue("page-" + at, Map.of());
    }
    declareQueue("other", Map.of());
    var query = new QueryParameters().name("^page", true).pagination().pageSize(2).query();
    var first = client.getQueues(vhost, query);
    var page = client.getQueues(vhost, query.pagination().nextPage(first).query());
    var counts = List.of(page.getTotalCount(), page.getFilteredCount(), page.getPageCount());
    assertEquals(List.of(6, 5, 3), counts);
    assertEquals(
        List.of("page-2", "page-3"),
        page.getItemsAsList().stream().map(QueueInfo::getName).toList());
  }

  @Test
  void policiesTakeEffect() throws Exception {
    var definition = Map.<String, Object>of("max-length", 1);
    client.declarePolicy(vhost, "cap", new PolicyInfo("^capped", 4, "queues", definition));
    client.declareOperatorPolicy(
        vhost, "roof", new PolicyInfo(".*", 1, "queues", Map.of("max-length-bytes", 1000)));
    declareQueue("capped", Map.of());
    for (int at = 0; at < 3; at++) {
      client.publish(vhost, "amq.default", "capped", new OutboundMessage().payload("m" + at));
    }
    awaitReady("capped", 1);
    QueueInfo queue = client.getQueue(vhost, "capped");
    assertEquals("cap", queue.getPolicy());
    assertEquals(
        Map.of("max-length", 1, "max-length-bytes", 1000), queue.getEffectivePolicyDefinition());
    var policies = client.getPolicies(vhost);
    assertEquals(1, policies.size());
    assertEquals(4, policies.get(0).getPriority());
    client.deletePolicy(vhost, "cap");
    assertEquals(List.of(), client.getPolicies(vhost));
    assertEquals("roof", client.getOperatorPolicies(vhost).get(0).getName());
    client.deleteOperatorPolicy(vhost, "roof");
  }

  @Test
  void nodesOverviewAndDefinitions() {
    var overview = client.getOverview();
    assertTrue(overview.getServerVersion().matches("\\d+\\.\\d+\\..*"));
    var nodes = client.getNodes();
    assertEquals(NODES, nodes.size());
    assertTrue(nodes.stream().anyMatch(node -> node.getName().equals(overview.getNode())));
    for (var node : nodes) {
      assertTrue(client.getNode(node.getName()).isRunning());
      assertTrue(node.getMemoryUsed() > 0 && node.getDiskFree() > 0 && node.getUptime() > 0);
      assertFalse(node.isMemoryAlarmActive() || node.isDiskAlarmActive());
    }
    var listeners = overview.getListeners().stream();
    assertEquals(NODES, listeners.filter(l -> l.getProtocol().equals("amqp")).count());
    client.setClusterName("java-cluster");
    assertEquals("java-cluster", client.getClusterName().getName());
    assertTrue(client.alivenessTest(vhost));

    declareQueue("kept", Map.of("x-max-length", 10));
    var saved = client.getDefinitions().getQueues().stream();
    var kept = saved.filter(q -> q.getVhost().equals(vhost) && q.getName().equals("kept")).toList();
    assertEquals(1, kept.size());
    assertEquals(10, kept.get(0).getArguments().get("x-max-length"));
  }
}
