package leveret;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.springframework.amqp.core.BindingBuilder;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.core.MessageBuilder;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.core.QueueBuilder;
import org.springframework.amqp.core.TopicExchange;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.connection.CorrelationData;
import org.springframework.amqp.rabbit.core.RabbitAdmin;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.rabbit.listener.SimpleMessageListenerContainer;
import org.springframework.amqp.rabbit.listener.adapter.MessageListenerAdapter;

/** Spring AMQP: its template, admin and listener containers, RPC by direct reply-to as it is by default. */
@Timeout(40)
class SpringRabbitTest {
  private CachingConnectionFactory connections;
  private RabbitTemplate template;
  private RabbitAdmin admin;

  @BeforeEach
  void connect() {
    connections = new CachingConnectionFactory(URI.create(System.getenv("AMQP_URL")));
    connections.setPublisherConfirmType(CachingConnectionFactory.ConfirmType.CORRELATED);
    connections.setPublisherReturns(true);
    template = new RabbitTemplate(connections);
    template.setReplyTimeout(10_000);
    admin = new RabbitAdmin(connections);
  }

  @AfterEach
  void close() {
    connections.destroy();
  }

  private Queue queue() {
    Queue queue = QueueBuilder.nonDurable(UUID.randomUUID().toString()).build();
    admin.declareQueue(queue);
    return queue;
  }

  /** A server that answers in upper case. */
  public static final class Shouter {
    public String handleMessage(String text) {
      return text.toUpperCase();
    }
  }

  private SimpleMessageListenerContainer serve(Queue queue) {
    SimpleMessageListenerContainer container = new SimpleMessageListenerContainer(connections);
    container.setQueues(queue);
    container.setMessageListener(new MessageListenerAdapter(new Shouter()));
    container.start();
    return container;
  }

  @Test
  void rpcByDirectReplyTo() {
    Queue queue = queue();
    SimpleMessageListenerContainer container = serve(queue);
    for (int n = 0; n < 50; n++) {
      assertEquals("HELLO " + n, template.convertSendAndReceive(queue.getName(), "hello " + n));
    }
    container.stop();
  }

  @Test
  void rpcWithOneChannelForEachReply() {
    Queue queue = queue();
    SimpleMessageListenerContainer container = serve(queue);
    template.setUseDirectReplyToContainer(false);
    assertEquals("HELLO", template.convertSendAndReceive(queue.getName(), "hello"));
    container.stop();
  }

  @Test
  void rpcByTemporaryQueue() {
    Queue queue = queue();
    SimpleMessageListenerContainer container = serve(queue);
    template.setUseTemporaryReplyQueues(true);
    assertEquals("HELLO", template.convertSendAndReceive(queue.getName(), "hello"));
    container.stop();
  }

  @Test
  void sendAndReceiveMessages() {
    Queue queue = queue();
    SimpleMessageListenerContainer container = serve(queue);
    Message request = MessageBuilder.withBody("text".getBytes()).setContentType("text/plain").build();
    Message reply = template.sendAndReceive("", queue.getName(), request);
    assertEquals("TEXT", new String(reply.getBody()));
    container.stop();
  }

  @Test
  void noReplyIsNull() {
    Queue queue = queue();
    template.setReplyTimeout(300);
    assertNull(template.convertSendAndReceive(queue.getName(), "anyone?"));
    admin.deleteQueue(queue.getName());
  }

  @Test
  void correlatedConfirms() throws Exception {
    Queue queue = queue();
    CorrelationData data = new CorrelationData("1");
    template.convertAndSend("", queue.getName(), "x", data);
    assertTrue(data.getFuture().get(10, TimeUnit.SECONDS).isAck());
    assertEquals("x", template.receiveAndConvert(queue.getName(), 5_000));
    admin.deleteQueue(queue.getName());
  }

  @Test
  void returnedMessageReachesItsPublisher() throws Exception {
    template.setMandatory(true);
    CorrelationData data = new CorrelationData("2");
    template.convertAndSend("", "nowhere-" + UUID.randomUUID(), "x", data);
    assertTrue(data.getFuture().get(10, TimeUnit.SECONDS).isAck());
    assertEquals(312, data.getReturned().getReplyCode());
  }

  @Test
  void adminDeclaresBindsAndLooks() {
    Queue queue = queue();
    TopicExchange exchange = new TopicExchange(UUID.randomUUID().toString(), false, true);
    admin.declareExchange(exchange);
    admin.declareBinding(BindingBuilder.bind(queue).to(exchange).with("a.#"));
    template.convertAndSend(exchange.getName(), "a.b", "x");
    assertEquals("x", template.receiveAndConvert(queue.getName(), 5_000));
    assertEquals(0, admin.getQueueInfo(queue.getName()).getMessageCount());
    assertNull(admin.getQueueInfo("missing-" + UUID.randomUUID()));
    assertTrue(admin.deleteQueue(queue.getName()));
  }

  @Test
  void transactedChannels() {
    Queue queue = queue();
    CachingConnectionFactory plain =
        new CachingConnectionFactory(URI.create(System.getenv("AMQP_URL")));
    RabbitTemplate transacted = new RabbitTemplate(plain);
    transacted.setChannelTransacted(true);
    transacted.convertAndSend(queue.getName(), "x");
    assertEquals("x", transacted.receiveAndConvert(queue.getName(), 5_000));
    admin.deleteQueue(queue.getName());
    plain.destroy();
  }
}
