package leveret;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import com.rabbitmq.stream.BackOffDelayPolicy;
import com.rabbitmq.stream.ConfirmationHandler;
import com.rabbitmq.stream.Consumer;
import com.rabbitmq.stream.ConsumerBuilder;
import com.rabbitmq.stream.Environment;
import com.rabbitmq.stream.Message;
import com.rabbitmq.stream.OffsetSpecification;
import com.rabbitmq.stream.Producer;
import com.rabbitmq.stream.ProducerBuilder;
import com.rabbitmq.stream.compression.Compression;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
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
    control(port, "crash");
  }

  /** Has something done with the node that serves streams at this port: see xtask. */
  private static void control(int port, String command) throws Exception {
    List<String> addresses = variable("CLUSTER_STREAMS");
    for (int node = 0; node < addresses.size(); node++) {
      if (addresses.get(node).endsWith(":" + port)) {
        String[] control = variable("CLUSTER_CONTROLS").get(node).split(":");
        try (Socket socket = new Socket(control[0], Integer.parseInt(control[1]))) {
          socket.getOutputStream().write((command + "\n").getBytes(StandardCharsets.UTF_8));
          String answer =
              new BufferedReader(new InputStreamReader(socket.getInputStream())).readLine();
          assertTrue(answer.startsWith("ok"), answer);
        }
        return;
      }
    }
    throw new AssertionError("no node serves streams at port " + port);
  }

  /** What knows all nodes, goes where they say that a stream is, and is back soon. */
  private static Environment environment() {
    List<String> uris =
        variable("CLUSTER_STREAMS").stream()
            .map(address -> "rabbitmq-stream://guest:guest@" + address + "/%2f")
            .collect(Collectors.toList());
    return Environment.builder()
        .uris(uris)
        .recoveryBackOffDelayPolicy(BackOffDelayPolicy.fixed(Duration.ofMillis(500)))
        .topologyUpdateBackOffDelayPolicy(BackOffDelayPolicy.fixed(Duration.ofMillis(500)))
        .build();
  }

  private static Set<String> missing(Set<String> confirmed, Set<String> read) {
    return confirmed.stream().filter(body -> !read.contains(body)).collect(Collectors.toSet());
  }

  @Test
  void whatWasConfirmedIsReadByAllClientsAfterTheLeadersNodeWasKilled() throws Exception {
    goesOnAfter("crash");
  }

  /** A client that is sent `Close` takes that for the end of its work, and never connects again. */
  @Test
  void whatWasConfirmedIsReadByAllClientsAfterTheLeadersNodeWasRestarted() throws Exception {
    goesOnAfter("restart");
  }

  /** Publishes and reads while this happens to the leader's node. */
  private void goesOnAfter(String command) throws Exception {
    Set<String> confirmed = ConcurrentHashMap.newKeySet();
    Set<String> read = ConcurrentHashMap.newKeySet();
    String stream = "java-" + UUID.randomUUID();
    try (Environment environment = environment()) {
      environment.streamCreator().stream(stream).create();
      Producer producer = environment.producerBuilder().stream(stream).build();
      Consumer consumer =
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
      control(leaderPort(stream), command);
      int before = confirmed.size();
      until(() -> confirmed.size() > before + 500, "confirms after the " + command);
      stopped.set(true);
      publishing.join();
      until(() -> missing(confirmed, read).isEmpty(), "all that was confirmed");
      assertEquals(Set.of(), missing(confirmed, overAmqp(stream, confirmed)));
      producer.close();
      // Not after the deletion: the client awaits the answer with a lock held that it needs to hear
      // that the stream has gone.
      consumer.close();
      environment.deleteStream(stream);
    }
  }

  private static List<String> numbers(int from, int to) {
    return IntStream.range(from, to).mapToObj(Integer::toString).collect(Collectors.toList());
  }

  private static String text(Message message) {
    return new String(message.getBodyAsBinary(), StandardCharsets.UTF_8);
  }

  /**
   * Publishes these numbers, those that have a name under their own ids; whether all are confirmed.
   *
   * <p>Nothing goes out behind one that is refused: the client refuses by itself what it is given
   * while it connects again, and takes the next once it is through. A stream holds what is said again
   * under an id below the highest for a duplicate.
   */
  private static boolean publish(Producer producer, boolean named, int from, int to)
      throws Exception {
    Semaphore answers = new Semaphore(0);
    AtomicInteger refused = new AtomicInteger();
    int sent = 0;
    while (from + sent < to && refused.get() == 0) {
      int number = from + sent;
      var message = producer.messageBuilder();
      if (named) {
        message.publishingId(number + 1);
      }
      byte[] body = Integer.toString(number).getBytes(StandardCharsets.UTF_8);
      sent++;
      producer.send(
          message.addData(body).build(),
          status -> {
            refused.addAndGet(status.isConfirmed() ? 0 : 1);
            answers.release();
          });
    }
    return answers.tryAcquire(sent, 60, TimeUnit.SECONDS) && refused.get() == 0;
  }

  /** The same in the same order. Else it says where they part, what is missing and what is twice. */
  private static void assertSame(List<String> expected, List<String> found) {
    if (!expected.equals(found)) {
      int first = 0;
      while (first < Math.min(expected.size(), found.size())
          && expected.get(first).equals(found.get(first))) {
        first++;
      }
      List<String> missing = new ArrayList<>(expected);
      missing.removeAll(Set.copyOf(found));
      List<String> twice = new ArrayList<>(found);
      Set.copyOf(found).forEach(twice::remove);
      throw new AssertionError(
          String.format(
              "%d expected, %d found; from place %d on %s, found %s; missing %d: %s; twice %d: %s",
              expected.size(),
              found.size(),
              first,
              some(expected, first),
              some(found, first),
              missing.size(),
              some(missing, 0),
              twice.size(),
              some(twice, 0)));
    }
  }

  private static List<String> some(List<String> all, int from) {
    return all.subList(from, Math.min(all.size(), from + 5));
  }

  /**
   * Without what is there twice. A producer without a name publishes again what was not confirmed
   * when the stream's leader went elsewhere, as it does some seconds after its node is back.
   */
  private static List<String> once(List<String> found) {
    return found.stream().distinct().collect(Collectors.toList());
  }

  /** What a consumer is given up to this number. */
  private static List<String> read(ConsumerBuilder builder, int last) throws Exception {
    Queue<String> found = new ConcurrentLinkedQueue<>();
    AtomicBoolean ended = new AtomicBoolean();
    String end = Integer.toString(last);
    builder.messageHandler(
        (context, message) -> {
          found.add(text(message));
          if (text(message).equals(end)) {
            ended.set(true);
          }
        });
    try (AutoCloseable consumer = builder.build()) {
      until(ended::get, "the number " + last);
    }
    return new ArrayList<>(found);
  }

  @Test
  void aNamedProducersMessagesAreThereOnceAndAreReadFromEveryKindOfOffset() throws Exception {
    String stream = "java-" + UUID.randomUUID();
    try (Environment environment = environment()) {
      environment.streamCreator().stream(stream).create();
      Producer producer = environment.producerBuilder().stream(stream).name("p").build();
      assertTrue(publish(producer, true, 0, 1_000));
      // Chunks' times are in milliseconds: what comes next has a later one.
      Thread.sleep(50);
      long between = System.currentTimeMillis();
      Thread.sleep(50);
      int port = leaderPort(stream);
      AtomicBoolean killed = new AtomicBoolean();
      Thread killing =
          new Thread(
              () -> {
                try {
                  crash(port);
                } catch (Exception failed) {
                  throw new AssertionError(failed);
                } finally {
                  killed.set(true);
                }
              });
      killing.start();
      int published = 1_000;
      // What is not confirmed is said again, under the same ids, before anything behind it is.
      for (int left = 20; left > 0; ) {
        try {
          if (publish(producer, true, published, published + 100)) {
            published += 100;
            left -= killed.get() ? 1 : 0;
          } else {
            Thread.sleep(10);
          }
        } catch (com.rabbitmq.stream.StreamException unavailable) {
          Thread.sleep(10);
        }
      }
      killing.join();
      producer.close();
      int last = published - 1;
      List<String> all = numbers(0, published);
      ConsumerBuilder first =
          environment.consumerBuilder().stream(stream).offset(OffsetSpecification.first());
      assertSame(all, read(first, last));
      ConsumerBuilder middle =
          environment.consumerBuilder().stream(stream).offset(OffsetSpecification.offset(1_234));
      assertSame(all.subList(1_234, published), read(middle, last));
      ConsumerBuilder later =
          environment.consumerBuilder().stream(stream)
              .offset(OffsetSpecification.timestamp(between));
      assertSame(all.subList(1_000, published), read(later, last));
      ConsumerBuilder end =
          environment.consumerBuilder().stream(stream).offset(OffsetSpecification.last());
      List<String> ofLast = read(end, last);
      assertTrue(ofLast.size() < published);
      assertSame(all.subList(published - ofLast.size(), published), ofLast);
      Queue<String> found = new ConcurrentLinkedQueue<>();
      try (AutoCloseable consumer =
              environment.consumerBuilder().stream(stream)
                  .offset(OffsetSpecification.next())
                  .messageHandler((context, message) -> found.add(text(message)))
                  .build();
          Producer more = environment.producerBuilder().stream(stream).build()) {
        assertTrue(publish(more, false, 0, 100));
        until(() -> found.size() >= 100, "what comes next");
      }
      assertSame(numbers(0, 100), new ArrayList<>(found));
      environment.deleteStream(stream);
    }
  }

  @Test
  void batchesAndFilteredMessagesAreThereBeforeAndAfterALeadersNodeIsKilled() throws Exception {
    String batches = "java-" + UUID.randomUUID();
    String filtered = "java-" + UUID.randomUUID();
    List<Compression> compressions =
        List.of(
            Compression.NONE,
            Compression.GZIP,
            Compression.SNAPPY,
            Compression.LZ4,
            Compression.ZSTD);
    try (Environment environment = environment()) {
      environment.streamCreator().stream(batches).create();
      environment.streamCreator().stream(filtered).create();
      for (int part = 0; part < 2; part++) {
        for (int at = 0; at < compressions.size(); at++) {
          ProducerBuilder builder =
              environment.producerBuilder().stream(batches)
                  .subEntrySize(50)
                  .compression(compressions.get(at));
          try (Producer producer = builder.build()) {
            int from = 1_000 * part + 200 * at;
            assertTrue(publish(producer, false, from, from + 200));
          }
        }
        for (String area : List.of("east", "west")) {
          ProducerBuilder builder =
              environment.producerBuilder().stream(filtered).filterValue(message -> area);
          try (Producer producer = builder.build()) {
            assertTrue(publish(producer, false, 100 * part, 100 * part + 100));
          }
        }
        if (part == 0) {
          int port = leaderPort(batches);
          int other = leaderPort(filtered);
          crash(port);
          // Leaders go back to a node that is up again. This client cannot publish again what it
          // has compressed: it frees that once it is written.
          untilLedAt(batches, port);
          untilLedAt(filtered, other);
        }
      }
      ConsumerBuilder all =
          environment.consumerBuilder().stream(batches).offset(OffsetSpecification.first());
      assertSame(numbers(0, 2_000), once(read(all, 1_999)));
      ConsumerBuilder west =
          environment.consumerBuilder().stream(filtered)
              .offset(OffsetSpecification.first())
              .filter()
              .values("west")
              .postFilter(message -> true)
              .builder();
      assertSame(numbers(0, 200), once(read(west, 199)));
      environment.deleteStream(batches);
      environment.deleteStream(filtered);
    }
  }

  @Test
  void aGroupHasOneReaderOfEachPartitionWhenALeadersNodeIsKilled() throws Exception {
    String name = "java-super-" + UUID.randomUUID();
    Queue<String> found = new ConcurrentLinkedQueue<>();
    try (Environment first = environment();
        Environment second = environment()) {
      first.streamCreator().name(name).superStream().partitions(3).creator().create();
      for (int partition = 0; partition < 3; partition++) {
        leaderPort(name + "-" + partition);
      }
      List<AutoCloseable> members = new ArrayList<>();
      for (Environment environment : List.of(first, second)) {
        members.add(
            environment
                .consumerBuilder()
                .superStream(name)
                .name("group")
                .singleActiveConsumer()
                .consumerUpdateListener(context -> OffsetSpecification.next())
                .manualTrackingStrategy()
                .builder()
                .offset(OffsetSpecification.next())
                .messageHandler((context, message) -> found.add(text(message)))
                .build());
      }
      until(() -> isShared(first, name, found), "messages that go to one member each");
      // The members connect again by themselves.
      crash(leaderPort(name + "-0"));
      until(() -> isShared(first, name, found), "messages that go to one member each, afterwards");
      for (AutoCloseable member : members) {
        member.close();
      }
      first.deleteSuperStream(name);
    }
  }

  /** Whether each of the messages that are published together goes to one member. */
  private static boolean isShared(Environment environment, String name, Queue<String> found) {
    List<String> bodies =
        IntStream.range(0, 90)
            .mapToObj(number -> UUID.randomUUID().toString())
            .collect(Collectors.toList());
    CountDownLatch confirms = new CountDownLatch(bodies.size());
    try (Producer producer =
        environment
            .producerBuilder()
            .superStream(name)
            .routing(message -> message.getProperties().getMessageIdAsString())
            .producerBuilder()
            .build()) {
      for (String body : bodies) {
        Message message =
            producer
                .messageBuilder()
                .properties()
                .messageId(body)
                .messageBuilder()
                .addData(body.getBytes(StandardCharsets.UTF_8))
                .build();
        producer.send(
            message,
            status -> {
              if (status.isConfirmed()) {
                confirms.countDown();
              }
            });
      }
      if (!confirms.await(10, TimeUnit.SECONDS)) {
        return false;
      }
      // What comes late, or twice, is no reason to wait for long: there is another round.
      Thread.sleep(1_000);
    } catch (com.rabbitmq.stream.StreamException unavailable) {
      return false;
    } catch (InterruptedException interrupted) {
      throw new AssertionError(interrupted);
    }
    return bodies.stream().allMatch(body -> Collections.frequency(found, body) == 1);
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

  private static void untilLedAt(String stream, int port) throws Exception {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
    while (leaderPort(stream) != port) {
      assertTrue(System.nanoTime() < deadline, "the leader did not go back");
      Thread.sleep(50);
    }
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
