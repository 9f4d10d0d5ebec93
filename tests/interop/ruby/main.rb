# Bunny against the broker at $AMQP_URL, which $CONTROL stops and starts.
require "bunny"
require "securerandom"
require "socket"
require_relative "tap"

URL = ENV.fetch("AMQP_URL")

def connect(**options)
  connection = Bunny.new(URL, log_level: Logger::FATAL, **options).start
  yield connection
ensure
  connection&.close
end

def with_channel
  connect { |connection| yield connection.create_channel, connection }
end

def unique(prefix) = "#{prefix}-#{SecureRandom.uuid}"

# Tells the tool that runs the broker to restart, stop or start it.
def control(command)
  TCPSocket.open(*ENV.fetch("CONTROL").split(":")) do |socket|
    socket.puts(command)
    answer = socket.gets
    raise answer unless answer.start_with?("ok")
  end
end

test "a message comes back as it was sent" do
  with_channel do |channel|
    queue = channel.queue("", exclusive: true)
    at = Time.at(1_700_000_000)
    headers = {
      "text" => "some", "number" => -7, "big" => 2**40, "half" => 1.5, "at" => at,
      "list" => [1, "two", { "deep" => true }], "none" => nil
    }
    queue.publish("body", headers: headers, message_id: "m", correlation_id: "c", reply_to: "r",
                          priority: 3, timestamp: at.to_i, app_id: "a", type: "t",
                          content_type: "text/plain", content_encoding: "utf-8", persistent: true)
    delivery, properties, body = queue.pop
    same body, "body"
    same properties.headers, headers
    same [properties.message_id, properties.priority, properties.delivery_mode], ["m", 3, 2]
    same properties.timestamp, at
    same delivery.redelivered?, false
  end
end

test "confirms arrive for many publishes, of several threads with a channel each" do
  connect do |connection|
    counts = Array.new(8) do
      Thread.new do
        channel = connection.create_channel
        channel.confirm_select
        queue = channel.queue("", exclusive: true)
        200.times { |n| queue.publish(n.to_s, persistent: true) }
        [channel.wait_for_confirms, channel.nacked_set.size, queue.message_count]
      end
    end
    same counts.map(&:value), [[true, 0, 200]] * 8
  end
end

test "what has no queue is returned before it is confirmed" do
  with_channel do |channel|
    returned = []
    channel.confirm_select
    exchange = channel.default_exchange
    exchange.on_return { |why, _, body| returned << [why.reply_code, why.reply_text, body] }
    exchange.publish("lost", routing_key: unique("nowhere"), mandatory: true)
    same channel.wait_for_confirms, true
    soon("the message comes back") { returned.size == 1 }
    same returned, [[312, "NO_ROUTE", "lost"]]
  end
end

test "acknowledged, refused and given back" do
  with_channel do |channel|
    queue = channel.queue("", exclusive: true)
    channel.prefetch(2)
    3.times { |n| queue.publish(n.to_s) }
    seen = Queue.new
    queue.subscribe(manual_ack: true) { |delivery, _, body| seen << [delivery, body] }
    first, second = seen.pop, seen.pop
    same [first[1], second[1]], %w[0 1]
    same seen.empty?, true
    channel.nack(first[0].delivery_tag, false, true)
    again = seen.pop
    same [again[1], again[0].redelivered?], ["0", true]
    channel.reject(second[0].delivery_tag)
    third = seen.pop
    same third[1], "2"
    channel.ack(third[0].delivery_tag, true)
    soon("the queue is empty") { queue.message_count.zero? }
  end
end

test "exchanges of each type, bound to each other" do
  with_channel do |channel|
    channel.confirm_select
    topic = channel.topic(unique("topic"))
    fanout = channel.fanout(unique("fanout"))
    headers = channel.headers(unique("headers"))
    fanout.bind(topic, routing_key: "a.#")
    queue = channel.queue("", exclusive: true).bind(fanout)
    queue.bind(headers, arguments: { "x-match" => "all", "kind" => 1 })
    topic.publish("by topic", routing_key: "a.b.c")
    topic.publish("by nothing", routing_key: "b")
    headers.publish("by header", headers: { "kind" => 1, "other" => "x" })
    headers.publish("by no header", headers: { "kind" => 2 })
    channel.wait_for_confirms
    same [queue.pop.last, queue.pop.last, queue.pop.last], ["by topic", "by header", nil]
    queue.unbind(fanout)
    topic.publish("unbound", routing_key: "a")
    channel.wait_for_confirms
    same queue.message_count, 0
    [topic, fanout, headers].each(&:delete)
  end
end

test "an exchange that deletes itself goes with its last binding" do
  with_channel do |channel, connection|
    topic = channel.topic(unique("topic"), auto_delete: true)
    queue = channel.queue("", exclusive: true).bind(topic, routing_key: "a")
    same connection.exchange_exists?(topic.name), true
    queue.unbind(topic, routing_key: "a")
    same connection.exchange_exists?(topic.name), false
  end
end

test "an expired message is dead-lettered" do
  with_channel do |channel|
    dead = channel.queue("", exclusive: true)
    queue = channel.queue("", exclusive: true, arguments: {
      "x-message-ttl" => 20, "x-dead-letter-exchange" => "", "x-dead-letter-routing-key" => dead.name
    })
    queue.publish("late")
    soon("it is dead") { dead.message_count == 1 }
    _, properties, body = dead.pop
    death = properties.headers["x-death"].first
    same [body, death["reason"], death["queue"], death["count"]], ["late", "expired", queue.name, 1]
  end
end

test "priorities go first" do
  with_channel do |channel|
    channel.confirm_select
    queue = channel.queue("", exclusive: true, arguments: { "x-max-priority" => 5 })
    [0, 5, 2].each { |priority| queue.publish(priority.to_s, priority: priority) }
    channel.wait_for_confirms
    same Array.new(3) { queue.pop.last }, %w[5 2 0]
  end
end

test "a transaction is taken back, or carried out" do
  with_channel do |channel|
    queue = channel.queue("", exclusive: true)
    channel.tx_select
    queue.publish("never")
    channel.tx_rollback
    queue.publish("once")
    channel.tx_commit
    same [queue.pop.last, queue.pop.last], ["once", nil]
  end
end

test "a quorum queue counts how often a message came" do
  with_channel do |channel|
    channel.confirm_select
    name = unique("quorum")
    queue = channel.queue(name, durable: true, arguments: { "x-queue-type" => "quorum" })
    queue.publish("once more", persistent: true)
    same channel.wait_for_confirms, true
    first, = queue.pop(manual_ack: true)
    channel.reject(first.delivery_tag, true)
    found = nil
    soon("it comes again") { (found = queue.pop(manual_ack: true)).last }
    same [found[0].redelivered?, found[1].headers.key?("x-delivery-count")], [true, true]
    channel.ack(found[0].delivery_tag)
    queue.delete
  end
end

test "errors close the channel and nothing else" do
  connect do |connection|
    name = unique("durable")
    connection.create_channel.queue(name, durable: true)
    text = refused(Bunny::PreconditionFailed) { connection.create_channel.queue(name) }
    same text.include?("inequivalent arg 'durable' for queue '#{name}' in vhost '/'"), true
    text = refused(Bunny::NotFound) { connection.create_channel.queue(unique("none"), passive: true) }
    same text.start_with?("NOT_FOUND - no queue 'none-"), true
    refused(Bunny::AccessRefused) { connection.create_channel.direct("amq.mine") }
    same [connection.queue_exists?(name), connection.exchange_exists?(unique("none"))], [true, false]
    connection.create_channel.queue_delete(name)
    same connection.queue_exists?(name), false
  end
end

test "a wrong password is refused" do
  wrong = Bunny.new(URL.sub("guest:guest", "guest:wrong"), log_level: Logger::FATAL,
                                                          recover_from_connection_close: false)
  refused(Bunny::AuthenticationFailureError) { wrong.start }
end

test "ten megabytes come back whole" do
  with_channel do |channel|
    channel.confirm_select
    queue = channel.queue("", exclusive: true)
    body = Random.new(7).bytes(10_000_000)
    queue.publish(body)
    same channel.wait_for_confirms, true
    same queue.pop.last == body, true
  end
end

test "consumers and topology are recovered after a restart of the broker" do
  # A connection and its channels say that they are open before what they declared is there again.
  recovered = Queue.new
  connect(network_recovery_interval: 0.2, recovery_attempts: 100,
          recovery_completed: -> { recovered << true }) do |connection|
    channel = connection.create_channel
    exchange = channel.topic(unique("topic"), auto_delete: true)
    durable = channel.queue(unique("durable"), durable: true).bind(exchange, routing_key: "#")
    named = channel.queue("", exclusive: true).bind(exchange, routing_key: "#")
    kept, own = Queue.new, Queue.new
    durable.subscribe(manual_ack: true) do |delivery, _, body|
      channel.ack(delivery.delivery_tag)
      kept << body
    end
    named.subscribe { |_, _, body| own << body }
    exchange.publish("before", routing_key: "k")
    same [kept.pop, own.pop], %w[before before]
    same durable.message_count, 0 # and the acknowledgement before this question has arrived
    control("restart")
    recovered.pop
    soon("the consumers are back") do
      exchange.publish("after", routing_key: "k", persistent: true)
      sleep 0.1
      !kept.empty? && !own.empty?
    end
    same [kept.pop, own.pop], %w[after after]
    durable.delete
  end
end
