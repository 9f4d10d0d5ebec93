package leveret;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import com.rabbitmq.stream.ConfirmationHandler;
import com.rabbitmq.stream.Environment;
import com.rabbitmq.stream.OffsetSpecification;
import com.rabbitmq.stream.Producer;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** The Java clients of streams and of AMQP over three nodes, the leader's of which is killed. */
@Timeout(240)
@EnabledIfEnvironmentVariable(named = "CLUSTER_STREAMS", matches = ".+")
class StreamClusterTest {
  private static List<String> variable(String name) {
    return List.of(System.getenv(name).split(","));
  }

  private static void until(BooleanSupplier condition, String what) throws Exception {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
    while (!condition.getAsBoolean()) {
      assertTrue(System.nanoTime() < deadline, what + " did not come true");
      Thread.sleep(10);
    }
  }

  /** kill -9 of the node that serves streams at this port, and a start on what it has. */
  private static void crash(int port) throws Exception {
    List<String> addresses = variable("CLUSTER_STREAMS");
    for (int node = 0; node < addresses.size(); node++) {
      if (addresses.get(node).endsWith(":" + port)) {
        String[] control = variable("CLUSTER_CONTROLS").get(node).split(":");
        try (Socket socket = new Socket(control[0], Integer.parseInt(control[1]))) {
          socket.getOutputStream().write("crash\n".getBytes(StandardCharsets.UTF_8));
          String answer =
              new BufferedReader(new InputStreamReader(socket.getInputStream())).readLine();
          assertTrue(answer.startsWith("ok"), answer);
        }
        return;
      }
    }
    throw new AssertionError("no node serves streams at port " + port);
  }

  private static Set<String> missing(Set<String> confirmed, Set<String> read) {
    return confirmed.stream().filter(body -> !read.contains(body)).collect(Collectors.toSet());
  }

  @Test
  void whatWasConfirmedIsReadByAllClientsAfterTheLeadersNodeWasKilled() throws Exception {
    List<String> uris =
        variable("CLUSTER_STREAMS").stream()
            .map(address -> "rabbitmq-stream://guest:guest@" + address + "/%2f")
            .collect(Collectors.toList());
    Set<String> confirmed = ConcurrentHashMap.newKeySet();
    Set<String> read = ConcurrentHashMap.newKeySet();
    String stream = "java-" + UUID.randomUUID();
    try (Environment environment =
        Environment.builder()
            .uris(uris)
            .recoveryBackOffDelayPolicy(
                com.rabbitmq.stream.BackOffDelayPolicy.fixed(Duration.ofMillis(500)))
            .topologyUpdateBackOffDelayPolicy(
                com.rabbitmq.stream.BackOffDelayPolicy.fixed(Duration.ofMillis(500)))
            .build()) {
      environment.streamCreator().stream(stream).create();
      Producer producer = environment.producerBuilder().stream(stream).build();
      environment.consumerBuilder().stream(stream)
          .offset(OffsetSpecification.first())
          .messageHandler(
              (context, message) ->
                  read.add(new String(message.getBodyAsBinary(), StandardCharsets.UTF_8)))
          .build();
      AtomicBoolean stopped = new AtomicBoolean();
      Thread publishing =
          new Thread(
              () -> {
                for (int number = 0; !stopped.get(); number++) {
                  String body = Integer.toString(number);
                  ConfirmationHandler handler =
                      status -> {
                        if (status.isConfirmed()) {
                          confirmed.add(body);
                        }
                      };
                  try {
                    producer.send(
                        producer
                            .messageBuilder()
                            .addData(body.getBytes(StandardCharsets.UTF_8))
                            .build(),
                        handler);
                    Thread.sleep(2);
                  } catch (Exception unavailable) {
                    // Not confirmed, and that is all.
                  }
                }
              });
      publishing.start();
      until(() -> confirmed.size() > 500 && read.size() > 500, "the first confirms");
      crash(leaderPort(stream));
      int before = confirmed.size();
      until(() -> confirmed.size() > before + 500, "confirms after the crash");
      stopped.set(true);
      publishing.join();
      until(() -> missing(confirmed, read).isEmpty(), "all that was confirmed");
      assertEquals(Set.of(), missing(confirmed, overAmqp(stream, confirmed)));
      producer.close();
      environment.deleteStream(stream);
    }
  }

  /** What a client of AMQP 0-9-1 reads of the stream, at each node, from its beginning on. */
  private static Set<String> overAmqp(String stream, Set<String> confirmed) throws Exception {
    Set<String> read = ConcurrentHashMap.newKeySet();
    for (String address : variable("CLUSTER_AMQP")) {
      read.clear();
      ConnectionFactory factory = new ConnectionFactory();
      factory.setUri("amqp://guest:guest@" + address + "/%2f");
      try (Connection connection = factory.newConnection()) {
        Channel channel = connection.createChannel();
        channel.basicQos(200);
        channel.basicConsume(
            stream,
            false,
            Map.of("x-stream-offset", "first"),
            new DefaultConsumer(channel) {
              @Override
              public void handleDelivery(
                  String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body)
                  throws java.io.IOException {
                read.add(new String(body, StandardCharsets.UTF_8));
                channel.basicAck(envelope.getDeliveryTag(), false);
              }
            });
        until(() -> missing(confirmed, read).isEmpty(), "all that was confirmed, at " + address);
      }
    }
    return read;
  }

  /** The port at which the stream's leader serves the stream protocol. */
  private static int leaderPort(String stream) throws Exception {
    com.rabbitmq.stream.impl.Client.ClientParameters parameters =
        new com.rabbitmq.stream.impl.Client.ClientParameters();
    String[] address = variable("CLUSTER_STREAMS").get(0).split(":");
    try (com.rabbitmq.stream.impl.Client client =
        new com.rabbitmq.stream.impl.Client(
            parameters.host(address[0]).port(Integer.parseInt(address[1])))) {
      int[] port = new int[1];
      until(
          () ->
              Stream.of(client.metadata(stream).get(stream))
                  .filter(metadata -> metadata.getLeader() != null)
                  .peek(metadata -> port[0] = metadata.getLeader().getPort())
                  .findAny()
                  .isPresent(),
          "a leader");
      return port[0];
    }
  }
}
