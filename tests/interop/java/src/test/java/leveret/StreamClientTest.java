package leveret;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import com.rabbitmq.stream.Address;
import com.rabbitmq.stream.AuthenticationFailureException;
import com.rabbitmq.stream.ByteCapacity;
import com.rabbitmq.stream.ConsumerBuilder;
import com.rabbitmq.stream.Constants;
import com.rabbitmq.stream.Environment;
import com.rabbitmq.stream.EnvironmentBuilder;
import com.rabbitmq.stream.Message;
import com.rabbitmq.stream.NoOffsetException;
import com.rabbitmq.stream.OffsetSpecification;
import com.rabbitmq.stream.Producer;
import com.rabbitmq.stream.ProducerBuilder;
import com.rabbitmq.stream.StreamException;
import com.rabbitmq.stream.StreamStats;
import com.rabbitmq.stream.compression.Compression;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The Java stream client's own idioms against the broker at port $STREAM_PORT. */
@Timeout(30)
class StreamClientTest {
  private static Environment environment;
  private String stream;

  private static EnvironmentBuilder builder() {
    Address address =
        new Address("127.0.0.1", Integer.parseInt(System.getenv("STREAM_PORT")));
    return Environment.builder()
        .host(address.host())
        .port(address.port())
        .addressResolver(ignored -> address);
  }

  @BeforeAll
  static void connect() {
    environment = builder().build();
  }

  @AfterAll
  static void close() {
    environment.close();
  }

  @BeforeEach
  void create() {
    stream = "java-" + UUID.randomUUID();
    environment.streamCreator().stream(stream).create();
  }

  @AfterEach
  void delete() {
    if (environment.streamExists(stream)) {
      environment.deleteStream(stream);
    }
  }

  /** What Debian's RabbitMQ 3.10 does not know yet. */
  private static void sinceThen() {
    assumeFalse("rabbitmq".equals(System.getenv("BROKER")), "RabbitMQ 3.10 does not have this");
  }

  private static byte[] bytes(Object value) {
    return value.toString().getBytes(StandardCharsets.UTF_8);
  }

  private static String text(Message message) {
    return new String(message.getBodyAsBinary(), StandardCharsets.UTF_8);
  }

  private static List<String> numbers(int from, int to) {
    return IntStream.range(from, to).mapToObj(Integer::toString).collect(Collectors.toList());
  }

  private static void until(BooleanSupplier condition, String what) throws Exception {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
    while (!condition.getAsBoolean()) {
      assertTrue(System.nanoTime() < deadline, what + " did not come true");
      Thread.sleep(10);
    }
  }

  /** Publishes the numbers as bodies and waits for all confirms. */
  private static void publish(Producer producer, int from, int to) throws Exception {
    CountDownLatch confirms = new CountDownLatch(to - from);
    for (int n = from; n < to; n++) {
      producer.send(
          producer.messageBuilder().addData(bytes(n)).build(),
          status -> {
            if (status.isConfirmed()) {
              confirms.countDown();
            }
          });
    }
    assertTrue(confirms.await(20, TimeUnit.SECONDS), () -> confirms.getCount() + " unconfirmed");
  }

  private void publish(int from, int to) throws Exception {
    try (Producer producer = environment.producerBuilder().stream(stream).build()) {
      publish(producer, from, to);
    }
  }

  /** The first so many bodies that a consumer sees. */
  private List<String> read(int count, OffsetSpecification from) throws Exception {
    Queue<String> found = new ConcurrentLinkedQueue<>();
    try (AutoCloseable consumer =
        environment.consumerBuilder().stream(stream)
            .offset(from)
            .messageHandler((context, message) -> found.add(text(message)))
            .build()) {
      until(() -> found.size() >= count, count + " messages of " + stream);
    }
    return new ArrayList<>(found).subList(0, count);
  }

  @Test
  void everyMessageIsConfirmedAndReadInOrder() throws Exception {
    publish(0, 50_000);
    assertEquals(numbers(0, 50_000), read(50_000, OffsetSpecification.first()));
  }

  @Test
  void consumersBeginWhereTheyAsk() throws Exception {
    publish(0, 100);
    // The chunks' times are in milliseconds, so that a later one must begin in a later one.
    Thread.sleep(50);
    long between = System.currentTimeMillis();
    publish(100, 200);
    assertEquals(numbers(0, 200), read(200, OffsetSpecification.first()));
    assertEquals(numbers(150, 200), read(50, OffsetSpecification.offset(150)));
    assertEquals(numbers(100, 200), read(100, OffsetSpecification.timestamp(between)));
    List<String> last = read(1, OffsetSpecification.last());
    assertTrue(Integer.parseInt(last.get(0)) >= 100, last::toString);
    Queue<String> found = new ConcurrentLinkedQueue<>();
    try (AutoCloseable consumer =
        environment.consumerBuilder().stream(stream)
            .offset(OffsetSpecification.next())
            .messageHandler((context, message) -> found.add(text(message)))
            .build()) {
      publish(200, 210);
      until(() -> found.size() == 10, "what comes next");
    }
    assertEquals(numbers(200, 210), new ArrayList<>(found));
  }

  @Test
  void propertiesComeAsTheyWere() throws Exception {
    Queue<Message> found = new ConcurrentLinkedQueue<>();
    try (Producer producer = environment.producerBuilder().stream(stream).build();
        AutoCloseable consumer =
            environment.consumerBuilder().stream(stream)
                .offset(OffsetSpecification.first())
                .messageHandler((context, message) -> found.add(message))
                .build()) {
      Message message =
          producer
              .messageBuilder()
              .properties()
              .messageId("id")
              .correlationId(7)
              .contentType("text/plain")
              .creationTime(1_000)
              .messageBuilder()
              .applicationProperties()
              .entry("text", "value")
              .entry("number", 42L)
              .messageBuilder()
              .messageAnnotations()
              .entry("x-note", true)
              .messageBuilder()
              .addData(bytes("body"))
              .build();
      producer.send(message, status -> {});
      until(() -> found.size() == 1, "the message");
    }
    Message message = found.remove();
    assertEquals("id", message.getProperties().getMessageIdAsString());
    assertEquals("text/plain", message.getProperties().getContentType());
    assertEquals(1_000, message.getProperties().getCreationTime());
    assertEquals("value", message.getApplicationProperties().get("text"));
    assertEquals(42L, message.getApplicationProperties().get("number"));
    assertEquals(true, message.getMessageAnnotations().get("x-note"));
    assertEquals("body", text(message));
  }

  /** What is stored for a consumer; -1 if nothing is. */
  private static long storedOffset(com.rabbitmq.stream.Consumer consumer) {
    try {
      return consumer.storedOffset();
    } catch (NoOffsetException none) {
      return -1;
    }
  }

  @Test
  void storedOffsetsAreFoundAgain() throws Exception {
    publish(0, 100);
    Queue<String> found = new ConcurrentLinkedQueue<>();
    ConsumerBuilder app =
        environment.consumerBuilder().stream(stream)
            .name("app")
            .offset(OffsetSpecification.first())
            .messageHandler((context, message) -> found.add(text(message)));
    try (com.rabbitmq.stream.Consumer consumer =
        app.manualTrackingStrategy().builder().build()) {
      until(() -> found.size() == 100, "all messages");
      // The client stores 0 by itself if its own timer comes first.
      assertTrue(storedOffset(consumer) <= 0);
      consumer.store(59);
      until(() -> storedOffset(consumer) == 59, "the stored offset");
    }
    found.clear();
    try (com.rabbitmq.stream.Consumer consumer =
        app.manualTrackingStrategy().builder().build()) {
      until(() -> found.size() >= 40, "the rest");
    }
    assertEquals(numbers(60, 100), new ArrayList<>(found));
  }

  @Test
  void offsetsAreStoredByThemselves() throws Exception {
    publish(0, 1_000);
    Queue<String> found = new ConcurrentLinkedQueue<>();
    ConsumerBuilder app =
        environment.consumerBuilder().stream(stream)
            .name("auto")
            .offset(OffsetSpecification.first())
            .messageHandler((context, message) -> found.add(text(message)));
    try (AutoCloseable consumer =
        app.autoTrackingStrategy().messageCountBeforeStorage(100).builder().build()) {
      until(() -> found.size() == 1_000, "all messages");
    }
    publish(1_000, 1_010);
    found.clear();
    try (AutoCloseable consumer =
        app.autoTrackingStrategy().messageCountBeforeStorage(100).builder().build()) {
      until(() -> found.contains("1009"), "the rest");
    }
    assertEquals(numbers(1_000, 1_010), new ArrayList<>(found));
  }

  @Test
  void whatAPublisherSaysTwiceIsStoredOnce() throws Exception {
    for (int round = 0; round < 2; round++) {
      // This client's producers leave only with their connection, as it closes them.
      try (Environment own = builder().build();
          Producer producer = own.producerBuilder().stream(stream).name("p").build()) {
        assertEquals(round == 0 ? 0 : 99, producer.getLastPublishingId());
        int last = round == 0 ? 100 : 150;
        CountDownLatch confirms = new CountDownLatch(last);
        for (int n = 0; n < last; n++) {
          Message message = producer.messageBuilder().publishingId(n).addData(bytes(n)).build();
          producer.send(message, status -> confirms.countDown());
        }
        assertTrue(confirms.await(10, TimeUnit.SECONDS), "all confirms");
      }
    }
    publish(150, 151);
    assertEquals(numbers(0, 151), read(151, OffsetSpecification.first()));
  }

  @Test
  void batchesWithinAnEntryInEachCompression() throws Exception {
    int sent = 0;
    for (Compression compression :
        List.of(Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4,
            Compression.ZSTD)) {
      try (Producer producer =
          environment.producerBuilder().stream(stream)
              .subEntrySize(50)
              .compression(compression)
              .build()) {
        publish(producer, sent, sent + 1_000);
        sent += 1_000;
      }
    }
    assertEquals(numbers(0, sent), read(sent, OffsetSpecification.first()));
    assertEquals(numbers(2_525, sent), read(sent - 2_525, OffsetSpecification.offset(2_525)));
  }

  @Test
  void onlyWhatMayMatchAFilterIsSent() throws Exception {
    sinceThen();
    ProducerBuilder filtered =
        environment.producerBuilder().stream(stream)
            .filterValue(message -> message.getApplicationProperties().get("area").toString());
    for (String area : List.of("east", "west", "")) {
      try (Producer producer =
          area.isEmpty() ? environment.producerBuilder().stream(stream).build()
              : filtered.build()) {
        CountDownLatch confirms = new CountDownLatch(500);
        for (int n = 0; n < 500; n++) {
          Message message =
              producer
                  .messageBuilder()
                  .applicationProperties()
                  .entry("area", area)
                  .messageBuilder()
                  .addData(bytes(n))
                  .build();
          producer.send(message, status -> confirms.countDown());
        }
        assertTrue(confirms.await(10, TimeUnit.SECONDS), "all confirms");
      }
    }
    for (boolean unfiltered : new boolean[] {false, true}) {
      Set<String> wanted = unfiltered ? Set.of("west", "") : Set.of("west");
      // What the server sends, before the client drops what does not match.
      Queue<String> sent = new ConcurrentLinkedQueue<>();
      Queue<String> found = new ConcurrentLinkedQueue<>();
      try (AutoCloseable consumer =
          environment.consumerBuilder().stream(stream)
              .offset(OffsetSpecification.first())
              .filter()
              .values("west")
              .matchUnfiltered(unfiltered)
              .postFilter(
                  message -> {
                    String area = message.getApplicationProperties().get("area").toString();
                    sent.add(area);
                    return wanted.contains(area);
                  })
              .builder()
              .messageHandler((context, message) -> found.add(text(message)))
              .build()) {
        int expected = 500 * wanted.size();
        until(() -> found.size() >= expected, "all that match");
        assertEquals(expected, found.size());
        assertEquals(wanted, new HashSet<>(sent));
      }
    }
  }

  @Test
  void streamsAndTheirFiguresAreFound() throws Exception {
    sinceThen();
    assertTrue(environment.streamExists(stream));
    assertFalse(environment.streamExists(stream + "-none"));
    // The same again is no error of this client's, other arguments are.
    environment.streamCreator().stream(stream).create();
    StreamException other =
        assertThrows(
            StreamException.class,
            () ->
                environment.streamCreator().stream(stream)
                    .maxLengthBytes(ByteCapacity.MB(77))
                    .create());
    assertEquals(Constants.RESPONSE_CODE_PRECONDITION_FAILED, other.getCode());
    StreamStats empty = environment.queryStreamStats(stream);
    assertThrows(NoOffsetException.class, empty::firstOffset);
    assertThrows(NoOffsetException.class, empty::committedOffset);
    publish(0, 10);
    StreamStats stats = environment.queryStreamStats(stream);
    assertEquals(0, stats.firstOffset());
    assertEquals(9, stats.committedOffset());
    StreamException none =
        assertThrows(StreamException.class, () -> environment.deleteStream(stream + "-none"));
    assertEquals(Constants.RESPONSE_CODE_STREAM_DOES_NOT_EXIST, none.getCode());
  }

  @Test
  void argumentsOfAStreamAreTaken() {
    sinceThen();
    String name = stream + "-arguments";
    environment.streamCreator().stream(name)
        .maxLengthBytes(ByteCapacity.MB(100))
        .maxSegmentSizeBytes(ByteCapacity.MB(10))
        .maxAge(Duration.ofHours(1))
        .filterSize(32)
        .initialMemberCount(1)
        .create();
    assertTrue(environment.streamExists(name));
    environment.deleteStream(name);
    assertFalse(environment.streamExists(name));
  }

  @Test
  void oldSegmentsGoAndConsumersBeginBehindThem() throws Exception {
    sinceThen();
    String name = stream + "-retained";
    environment.streamCreator().stream(name)
        .maxLengthBytes(ByteCapacity.MB(2))
        .maxSegmentSizeBytes(ByteCapacity.MB(1))
        .create();
    try (Producer producer = environment.producerBuilder().stream(name).build()) {
      byte[] body = new byte[10_000];
      for (int round = 0; round < 10; round++) {
        CountDownLatch confirms = new CountDownLatch(100);
        for (int n = 0; n < 100; n++) {
          producer.send(
              producer.messageBuilder().addData(body).build(), status -> confirms.countDown());
        }
        assertTrue(confirms.await(10, TimeUnit.SECONDS), "all confirms");
      }
    }
    until(() -> environment.queryStreamStats(name).firstOffset() > 0, "the oldest go");
    long first = environment.queryStreamStats(name).firstOffset();
    Queue<Long> offsets = new ConcurrentLinkedQueue<>();
    try (AutoCloseable consumer =
        environment.consumerBuilder().stream(name)
            .offset(OffsetSpecification.offset(0))
            .messageHandler((context, message) -> offsets.add(context.offset()))
            .build()) {
      until(() -> offsets.size() >= 1_000 - first, "all that is there");
      assertEquals(first, offsets.peek());
    }
    environment.deleteStream(name);
  }

  @Test
  void aWrongPasswordIsRefused() {
    assertThrows(
        AuthenticationFailureException.class, () -> builder().password("wrong").build().close());
  }

  @Test
  void aDeletedStreamEndsItsProducer() throws Exception {
    try (Producer producer = environment.producerBuilder().stream(stream).build()) {
      publish(producer, 0, 10);
      environment.deleteStream(stream);
      Queue<Short> codes = new ConcurrentLinkedQueue<>();
      until(
          () -> {
            try {
              producer.send(
                  producer.messageBuilder().addData(bytes("late")).build(),
                  status -> codes.add(status.getCode()));
            } catch (StreamException | IllegalStateException closed) {
              return true;
            }
            return codes.stream().anyMatch(code -> code != Constants.RESPONSE_CODE_OK);
          },
          "the producer hears of it");
    }
  }

  private static String superStream(int partitions) {
    String name = "java-super-" + UUID.randomUUID();
    environment.streamCreator().name(name).superStream().partitions(partitions).creator().create();
    return name;
  }

  private static void publishToSuper(String name, int from, int to) throws Exception {
    try (Producer producer =
        environment
            .producerBuilder()
            .superStream(name)
            .routing(message -> message.getProperties().getMessageIdAsString())
            .producerBuilder()
            .build()) {
      CountDownLatch confirms = new CountDownLatch(to - from);
      for (int n = from; n < to; n++) {
        Message message =
            producer
                .messageBuilder()
                .properties()
                .messageId("" + n)
                .messageBuilder()
                .addData(bytes(n))
                .build();
        producer.send(message, status -> confirms.countDown());
      }
      assertTrue(confirms.await(10, TimeUnit.SECONDS), "all confirms");
    }
  }

  @Test
  void aSuperStreamIsSpreadOverItsPartitions() throws Exception {
    sinceThen();
    String name = superStream(3);
    publishToSuper(name, 0, 300);
    Queue<String> found = new ConcurrentLinkedQueue<>();
    Set<String> streams = java.util.concurrent.ConcurrentHashMap.newKeySet();
    try (AutoCloseable consumer =
        environment
            .consumerBuilder()
            .superStream(name)
            .offset(OffsetSpecification.first())
            .messageHandler(
                (context, message) -> {
                  found.add(text(message));
                  streams.add(context.stream());
                })
            .build()) {
      until(() -> found.size() >= 300, "all messages");
    }
    assertEquals(new HashSet<>(numbers(0, 300)), new HashSet<>(found));
    assertEquals(Set.of(name + "-0", name + "-1", name + "-2"), streams);
    environment.deleteSuperStream(name);
    assertFalse(environment.streamExists(name + "-0"));
  }

  @Test
  void aSuperStreamIsRoutedByKeys() throws Exception {
    sinceThen();
    String name = "java-super-" + UUID.randomUUID();
    environment
        .streamCreator()
        .name(name)
        .superStream()
        .bindingKeys("amer", "emea", "apac")
        .creator()
        .create();
    try (Producer producer =
        environment
            .producerBuilder()
            .superStream(name)
            .routing(message -> message.getProperties().getMessageIdAsString())
            .key()
            .producerBuilder()
            .build()) {
      Queue<Short> codes = new ConcurrentLinkedQueue<>();
      for (String key : List.of("emea", "apac", "nowhere", "emea")) {
        Message message =
            producer
                .messageBuilder()
                .properties()
                .messageId(key)
                .messageBuilder()
                .addData(bytes(key))
                .build();
        producer.send(message, status -> codes.add(status.getCode()));
      }
      until(() -> codes.size() == 4, "all answers");
      assertEquals(
          1,
          codes.stream()
              .filter(code -> code == Constants.CODE_NO_ROUTE_FOUND)
              .count());
    }
    assertEquals(1, environment.queryStreamStats(name + "-emea").committedOffset());
    assertEquals(0, environment.queryStreamStats(name + "-apac").committedOffset());
    environment.deleteSuperStream(name);
  }

  /** A consumer of a super stream of which one per partition is active. */
  private static AutoCloseable member(String name, Collection<String> found, Set<String> active) {
    return environment
        .consumerBuilder()
        .superStream(name)
        .name("group")
        .singleActiveConsumer()
        .offset(OffsetSpecification.first())
        .consumerUpdateListener(
            context -> {
              if (context.isActive()) {
                active.add(context.stream());
              } else {
                active.remove(context.stream());
              }
              return OffsetSpecification.first();
            })
        .manualTrackingStrategy()
        .builder()
        .messageHandler((context, message) -> found.add(context.stream() + ":" + text(message)))
        .build();
  }

  @Test
  void partitionsAreSharedByTheMembersOfAGroup() throws Exception {
    sinceThen();
    String name = superStream(3);
    publishToSuper(name, 0, 90);
    Queue<String> first = new ConcurrentLinkedQueue<>();
    Queue<String> second = new ConcurrentLinkedQueue<>();
    Set<String> ofFirst = java.util.concurrent.ConcurrentHashMap.newKeySet();
    Set<String> ofSecond = java.util.concurrent.ConcurrentHashMap.newKeySet();
    AutoCloseable one = member(name, first, ofFirst);
    until(() -> first.size() == 90 && ofFirst.size() == 3, "the first one has all");
    AutoCloseable two = member(name, second, ofSecond);
    until(() -> ofSecond.size() == 1 && ofFirst.size() == 2, "a partition changes hands");
    until(() -> !second.isEmpty(), "the second one reads");
    assertTrue(second.stream().allMatch(found -> ofSecond.contains(found.split(":")[0])));
    one.close();
    until(() -> ofSecond.size() == 3, "the second one has all");
    until(() -> second.size() == 90, "the second one reads all");
    two.close();
    environment.deleteSuperStream(name);
  }

  @Test
  void ofAGroupOneConsumerIsActive() throws Exception {
    sinceThen();
    // Two chunks: this client takes the whole chunk that a member begins in.
    publish(0, 5);
    publish(5, 10);
    Queue<String> first = new ConcurrentLinkedQueue<>();
    Queue<String> second = new ConcurrentLinkedQueue<>();
    ConsumerBuilder group =
        environment.consumerBuilder().stream(stream)
            .name("group")
            .singleActiveConsumer()
            .offset(OffsetSpecification.first());
    com.rabbitmq.stream.Consumer one =
        group
            .manualTrackingStrategy()
            .builder()
            .messageHandler((context, message) -> first.add(text(message)))
            .build();
    until(() -> first.size() == 10, "the first one's messages");
    com.rabbitmq.stream.Consumer two =
        group
            .manualTrackingStrategy()
            .builder()
            .messageHandler((context, message) -> second.add(text(message)))
            .build();
    one.store(4);
    until(() -> one.storedOffset() == 4, "the stored offset");
    one.close();
    until(() -> second.size() == 5, "the second one goes on behind it");
    assertEquals(numbers(5, 10), new ArrayList<>(second));
    two.close();
  }

  @Test
  void amqpAndStreamClientsReadEachOther() throws Exception {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setUri(System.getenv("AMQP_URL"));
    try (Connection connection = factory.newConnection();
        Channel channel = connection.createChannel()) {
      channel.confirmSelect();
      channel.basicPublish(
          "",
          stream,
          new AMQP.BasicProperties.Builder()
              .messageId("from-amqp")
              .headers(Map.of("header", "value"))
              .build(),
          bytes("one"));
      assertTrue(channel.waitForConfirms(10_000));
      Queue<Message> found = new ConcurrentLinkedQueue<>();
      try (AutoCloseable consumer =
          environment.consumerBuilder().stream(stream)
              .offset(OffsetSpecification.first())
              .messageHandler((context, message) -> found.add(message))
              .build()) {
        until(() -> found.size() == 1, "what AMQP published");
      }
      Message message = found.remove();
      assertEquals("from-amqp", message.getProperties().getMessageIdAsString());
      assertEquals("value", message.getApplicationProperties().get("header"));
      assertEquals("one", text(message));

      try (Producer producer =
          environment.producerBuilder().stream(stream)
              .subEntrySize(5)
              .compression(Compression.GZIP)
              .build()) {
        publish(producer, 0, 10);
      }
      Queue<String> bodies = new ConcurrentLinkedQueue<>();
      channel.basicQos(10);
      channel.basicConsume(
          stream,
          false,
          Map.of("x-stream-offset", "first"),
          new DefaultConsumer(channel) {
            @Override
            public void handleDelivery(
                String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body)
                throws java.io.IOException {
              assertInstanceOf(Long.class, properties.getHeaders().get("x-stream-offset"));
              channel.basicAck(envelope.getDeliveryTag(), false);
              // Last: the channel may be closed once this has been seen.
              bodies.add(new String(body, StandardCharsets.UTF_8));
            }
          });
      until(() -> !bodies.isEmpty(), "what is there");
      assertEquals("one", bodies.peek());
    }
  }
}
