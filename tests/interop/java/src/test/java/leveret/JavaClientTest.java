package leveret;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.RpcClient;
import com.rabbitmq.client.RpcClientParams;
import com.rabbitmq.client.RpcServer;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The Java client's own idioms against the broker at $AMQP_URL. */
@Timeout(30)
class JavaClientTest {
  private Connection connection;
  private Channel channel;

  @BeforeEach
  void connect() throws Exception {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setUri(System.getenv("AMQP_URL"));
    connection = factory.newConnection("java-interop");
    channel = connection.createChannel();
  }

  @AfterEach
  void close() throws IOException {
    connection.abort(5_000);
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private String exclusiveQueue(Map<String, Object> arguments) throws IOException {
    return channel.queueDeclare(UUID.randomUUID().toString(), false, true, true, arguments).getQueue();
  }

  /** The reply code of the error that ends a channel. */
  private static int code(Throwable error) {
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      if (cause instanceof ShutdownSignalException signal) {
        if (signal.getReason() instanceof AMQP.Channel.Close close) {
          return close.getReplyCode();
        }
        if (signal.getReason() instanceof AMQP.Connection.Close close) {
          return close.getReplyCode();
        }
      }
    }
    throw new AssertionError("no reply code in " + error);
  }

  @Test
  void serverPropertiesNameTheCapabilities() {
    Map<?, ?> capabilities = (Map<?, ?>) connection.getServerProperties().get("capabilities");
    assertEquals(Boolean.TRUE, capabilities.get("publisher_confirms"));
    assertEquals(Boolean.TRUE, capabilities.get("consumer_cancel_notify"));
    assertEquals("RabbitMQ", connection.getServerProperties().get("product").toString());
  }

  @Test
  void confirmsWithListeners() throws Exception {
    String queue = exclusiveQueue(null);
    channel.confirmSelect();
    for (int n = 0; n < 5_000; n++) {
      channel.basicPublish("", queue, MessageProperties.PERSISTENT_BASIC, bytes("" + n));
    }
    assertTrue(channel.waitForConfirms(20_000));
    assertEquals(5_000, channel.messageCount(queue));
    for (int n = 0; n < 10; n++) {
      assertArrayEquals(bytes("" + n), channel.basicGet(queue, true).getBody());
    }
  }

  @Test
  void returnsComeBeforeConfirms() throws Exception {
    List<String> events = new ArrayList<>();
    CountDownLatch confirmed = new CountDownLatch(1);
    channel.addReturnListener(returned -> events.add(returned.getReplyText()));
    channel.addConfirmListener(
        (tag, multiple) -> {
          events.add("ack");
          confirmed.countDown();
        },
        (tag, multiple) -> events.add("nack"));
    channel.confirmSelect();
    channel.basicPublish("amq.direct", "nobody", true, null, bytes("x"));
    assertTrue(confirmed.await(10, TimeUnit.SECONDS));
    assertEquals(List.of("NO_ROUTE", "ack"), events);
  }

  @Test
  void manualAcksWithPrefetch() throws Exception {
    String queue = exclusiveQueue(null);
    for (int n = 0; n < 100; n++) {
      channel.basicPublish("", queue, null, bytes("" + n));
    }
    channel.basicQos(10);
    BlockingQueue<Integer> found = new LinkedBlockingQueue<>();
    channel.basicConsume(
        queue,
        false,
        new DefaultConsumer(channel) {
          @Override
          public void handleDelivery(
              String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body)
              throws IOException {
            found.add(Integer.parseInt(new String(body, StandardCharsets.UTF_8)));
            channel.basicAck(envelope.getDeliveryTag(), false);
          }
        });
    for (int n = 0; n < 100; n++) {
      assertEquals(n, found.poll(10, TimeUnit.SECONDS));
    }
  }

  @Test
  void transactions() throws Exception {
    String queue = exclusiveQueue(null);
    channel.txSelect();
    channel.basicPublish("", queue, null, bytes("kept"));
    channel.txCommit();
    channel.basicPublish("", queue, null, bytes("dropped"));
    channel.txRollback();
    assertArrayEquals(bytes("kept"), channel.basicGet(queue, true).getBody());
    channel.txCommit();
    assertEquals(0, channel.messageCount(queue));
  }

  @Test
  void rpcByDirectReplyTo() throws Exception {
    String queue = exclusiveQueue(null);
    RpcServer server =
        new RpcServer(connection.createChannel(), queue) {
          @Override
          public byte[] handleCall(byte[] request, AMQP.BasicProperties properties) {
            return bytes("re: " + new String(request, StandardCharsets.UTF_8));
          }
        };
    Thread serving = new Thread(() -> {
      try {
        server.mainloop();
      } catch (IOException | ShutdownSignalException ended) {
        // The connection closes at the end of the test.
      }
    });
    serving.start();
    RpcClient client = new RpcClient(new RpcClientParams().channel(channel).exchange("")
        .routingKey(queue).replyTo("amq.rabbitmq.reply-to").timeout(10_000));
    for (int n = 0; n < 50; n++) {
      assertEquals("re: " + n, client.stringCall("" + n));
    }
    client.close();
    server.terminateMainloop();
  }

  @Test
  void deadLettersByTimeToLive() throws Exception {
    String dead = exclusiveQueue(null);
    String queue = exclusiveQueue(Map.of(
        "x-message-ttl", 50, "x-dead-letter-exchange", "", "x-dead-letter-routing-key", dead));
    channel.basicPublish("", queue, null, bytes("x"));
    GetResponse response = null;
    while (response == null) {
      response = channel.basicGet(dead, true);
    }
    List<?> deaths = (List<?>) response.getProps().getHeaders().get("x-death");
    Map<?, ?> death = (Map<?, ?>) deaths.get(0);
    assertEquals("expired", death.get("reason").toString());
    assertEquals(1L, death.get("count"));
    assertNotNull(death.get("time"));
  }

  @Test
  void argumentEquivalence() throws Exception {
    String queue = exclusiveQueue(Map.of("x-message-ttl", 1_000, "unknown", "a"));
    channel.queueDeclare(queue, false, true, true, Map.of("x-message-ttl", 1_000L, "unknown", "b"));
    IOException error = assertThrows(IOException.class, () ->
        channel.queueDeclare(queue, false, true, true, Map.of("x-message-ttl", 1_001)));
    assertEquals(406, code(error));
  }

  @Test
  void errorsCloseTheChannelAlone() throws Exception {
    IOException error =
        assertThrows(IOException.class, () -> channel.queueDeclarePassive("missing"));
    assertEquals(404, code(error));
    assertTrue(connection.isOpen());
    connection.createChannel().queueDeclare().getQueue();
  }

  @Test
  void consumersAreToldWhenTheirQueueGoes() throws Exception {
    String queue = UUID.randomUUID().toString();
    channel.queueDeclare(queue, false, false, false, null);
    CountDownLatch cancelled = new CountDownLatch(1);
    channel.basicConsume(queue, true, (tag, delivery) -> {}, tag -> cancelled.countDown());
    connection.createChannel().queueDelete(queue);
    assertTrue(cancelled.await(10, TimeUnit.SECONDS));
  }

  @Test
  void manyChannels() throws Exception {
    List<Channel> channels = new ArrayList<>();
    for (int n = 0; n < 500; n++) {
      channels.add(connection.createChannel());
    }
    for (Channel each : channels) {
      each.basicQos(1);
      each.close();
    }
  }

  @Test
  void largeBodies() throws Exception {
    String queue = exclusiveQueue(null);
    byte[] body = new byte[5_000_000];
    for (int n = 0; n < body.length; n++) {
      body[n] = (byte) n;
    }
    channel.confirmSelect();
    channel.basicPublish("", queue, null, body);
    channel.waitForConfirmsOrDie(20_000);
    assertArrayEquals(body, channel.basicGet(queue, true).getBody());
  }

  @Test
  void exchangeBindingsAndAlternates() throws Exception {
    String other = UUID.randomUUID().toString();
    String first = UUID.randomUUID().toString();
    channel.exchangeDeclare(other, "fanout", false, true, null);
    channel.exchangeDeclare(first, "direct", false, true, Map.of("alternate-exchange", other));
    String queue = exclusiveQueue(null);
    channel.queueBind(queue, other, "");
    channel.confirmSelect();
    channel.basicPublish(first, "unknown", null, bytes("x"));
    channel.waitForConfirmsOrDie(10_000);
    assertEquals(first, channel.basicGet(queue, true).getEnvelope().getExchange());
    channel.exchangeDelete(first);
  }
}
