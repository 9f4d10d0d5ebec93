// Quorum queues with amqp091-go, over connections to all three nodes of a cluster.
package cluster

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const deadline = 60 * time.Second

var quorum = amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}

func addresses() []string {
	return strings.Split(os.Getenv("CLUSTER_AMQP"), ",")
}

// dial connects to a node, by its number.
func dial(t *testing.T, node int) *amqp.Connection {
	t.Helper()
	connection, err := amqp.Dial(fmt.Sprintf("amqp://guest:guest@%s/", addresses()[node]))
	if err != nil {
		t.Fatalf("connect to node %d: %v", node, err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

func channel(t *testing.T, connection *amqp.Connection) *amqp.Channel {
	t.Helper()
	channel, err := connection.Channel()
	if err != nil {
		t.Fatalf("open a channel: %v", err)
	}
	return channel
}

// declare makes a quorum queue that goes with the test.
func declare(t *testing.T, node int, extra amqp.Table) string {
	t.Helper()
	arguments := amqp.Table{}
	for _, table := range []amqp.Table{quorum, extra} {
		for name, value := range table {
			arguments[name] = value
		}
	}
	name := fmt.Sprintf("%s-%d", strings.ToLower(t.Name()), time.Now().UnixNano())
	at := channel(t, dial(t, node))
	if _, err := at.QueueDeclare(name, true, false, false, false, arguments); err != nil {
		t.Fatalf("declare: %v", err)
	}
	t.Cleanup(func() {
		connection, err := amqp.Dial(fmt.Sprintf("amqp://guest:guest@%s/", addresses()[node]))
		if err != nil {
			t.Fatalf("connect to delete: %v", err)
		}
		defer connection.Close()
		if channel, err := connection.Channel(); err == nil {
			_, _ = channel.QueueDelete(name, false, false, false)
		}
	})
	// A node hears of a queue a moment after the one at which it was declared.
	for other := range addresses() {
		until(t, "the queue at every node", func() bool {
			asking := channel(t, dial(t, other))
			_, err := asking.QueueDeclarePassive(name, true, false, false, false, nil)
			return err == nil
		})
	}
	return name
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("waited in vain for %s", what)
}

// crash kills a node with kill -9 and starts it on what it has; returns when it accepts.
func crash(node int) error {
	control := strings.Split(os.Getenv("CLUSTER_CONTROLS"), ",")[node]
	connection, err := net.Dial("tcp", control)
	if err != nil {
		return err
	}
	defer connection.Close()
	if _, err := fmt.Fprintln(connection, "crash"); err != nil {
		return err
	}
	answer, err := bufio.NewReader(connection).ReadString('\n')
	if err == nil && !strings.HasPrefix(answer, "ok") {
		err = fmt.Errorf("%s", answer)
	}
	return err
}

func message(body string) amqp.Publishing {
	return amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)}
}

// publish sends messages and waits for the confirm of each.
func publish(t *testing.T, at *amqp.Channel, queue string, bodies ...string) {
	t.Helper()
	if err := at.Confirm(false); err != nil {
		t.Fatalf("confirm.select: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	for _, body := range bodies {
		confirm, err := at.PublishWithDeferredConfirmWithContext(
			ctx, "", queue, true, false, message(body))
		if err != nil {
			t.Fatalf("publish: %v", err)
		}
		if acked, err := confirm.WaitContext(ctx); err != nil || !acked {
			t.Fatalf("%s: confirmed %v, %v", body, acked, err)
		}
	}
}

func consume(t *testing.T, at *amqp.Channel, queue string) <-chan amqp.Delivery {
	t.Helper()
	if err := at.Qos(10, 0, false); err != nil {
		t.Fatalf("qos: %v", err)
	}
	deliveries, err := at.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatalf("consume: %v", err)
	}
	return deliveries
}

func next(t *testing.T, deliveries <-chan amqp.Delivery) amqp.Delivery {
	t.Helper()
	select {
	case delivery, open := <-deliveries:
		if !open {
			t.Fatal("the consumer's channel is closed")
		}
		return delivery
	case <-time.After(deadline):
		t.Fatal("nothing was delivered")
	}
	panic("unreachable")
}

func TestAnyNodeServesPublishersAndConsumers(t *testing.T) {
	queue := declare(t, 0, nil)
	waiting := map[string]bool{}
	for node := range addresses() {
		bodies := []string{}
		for number := 0; number < 20; number++ {
			body := fmt.Sprintf("%d-%d", node, number)
			waiting[body] = true
			bodies = append(bodies, body)
		}
		publish(t, channel(t, dial(t, node)), queue, bodies...)
	}
	got := make(chan string)
	for node := range addresses() {
		deliveries := consume(t, channel(t, dial(t, node)), queue)
		go func() {
			for delivery := range deliveries {
				_ = delivery.Ack(false)
				got <- string(delivery.Body)
			}
		}()
	}
	for len(waiting) > 0 {
		select {
		case body := <-got:
			if !waiting[body] {
				t.Fatalf("%s was not waiting", body)
			}
			delete(waiting, body)
		case <-time.After(deadline):
			t.Fatalf("%d never came", len(waiting))
		}
	}
}

func TestReturnsAreCountedWhereverTheyHappen(t *testing.T) {
	queue := declare(t, 0, amqp.Table{"x-delivery-limit": 2})
	publish(t, channel(t, dial(t, 1)), queue, "poison")
	for returns := 0; returns < 3; returns++ {
		connection := dial(t, returns)
		delivery := next(t, consume(t, channel(t, connection), queue))
		count, _ := delivery.Headers["x-delivery-count"].(int64)
		if int(count) != returns {
			t.Fatalf("x-delivery-count is %v after %d returns", delivery.Headers, returns)
		}
		if err := delivery.Nack(false, true); err != nil {
			t.Fatal(err)
		}
		_ = connection.Close()
	}
	at := channel(t, dial(t, 0))
	until(t, "the poison to be dropped", func() bool {
		state, err := at.QueueDeclarePassive(queue, true, false, false, false, nil)
		return err == nil && state.Messages == 0
	})
}

func TestASingleActiveConsumerIsFollowedByOneAtAnotherNode(t *testing.T) {
	queue := declare(t, 0, amqp.Table{"x-single-active-consumer": true})
	first := dial(t, 1)
	active := consume(t, channel(t, first), queue)
	publish(t, channel(t, dial(t, 0)), queue, "one")
	held := next(t, active)
	second := consume(t, channel(t, dial(t, 2)), queue)
	publish(t, channel(t, dial(t, 0)), queue, "two")
	next(t, active)
	_ = first.Close()
	for _, wanted := range []string{string(held.Body), "two"} {
		delivery := next(t, second)
		if string(delivery.Body) != wanted || !delivery.Redelivered {
			t.Fatalf("got %s, redelivered %v", delivery.Body, delivery.Redelivered)
		}
		_ = delivery.Ack(false)
	}
}

func TestAPublisherThatChangesItsNodeLosesNothing(t *testing.T) {
	queue := declare(t, 0, nil)
	for victim := range addresses() {
		publisher := &publisher{queue: queue, life: victim, ending: make(chan struct{})}
		confirmed := make(chan []string, 1)
		go func() { confirmed <- publisher.publish() }()
		until(t, "confirms", func() bool { return publisher.count.Load() > 20 })
		if err := crash(victim); err != nil {
			t.Fatalf("crash of node %d: %v", victim, err)
		}
		before := publisher.count.Load()
		until(t, "confirms after it", func() bool { return publisher.count.Load() > before+20 })
		close(publisher.ending)
		bodies := <-confirmed
		found := map[string]bool{}
		at := channel(t, dial(t, (victim+1)%3))
		deliveries := consume(t, at, queue)
		for missing(bodies, found) > 0 {
			delivery := next(t, deliveries)
			found[string(delivery.Body)] = true
			_ = delivery.Ack(false)
		}
		_ = at.Close()
	}
}

func missing(wanted []string, found map[string]bool) int {
	count := 0
	for _, body := range wanted {
		if !found[body] {
			count++
		}
	}
	return count
}

// publisher sends messages of one life, each once the one before is confirmed.
type publisher struct {
	queue  string
	life   int
	number int
	count  atomic.Int64
	ending chan struct{}
}

// publish sends until it is to end, at the next node whenever a connection breaks. It gives what
// was confirmed.
func (p *publisher) publish() []string {
	confirmed := []string{}
	for node := p.life; ; node++ {
		p.publishAt(node%3, &confirmed)
		select {
		case <-p.ending:
			return confirmed
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (p *publisher) publishAt(node int, confirmed *[]string) {
	connection, err := amqp.Dial(fmt.Sprintf("amqp://guest:guest@%s/", addresses()[node]))
	if err != nil {
		return
	}
	defer connection.Close()
	at, err := connection.Channel()
	if err != nil || at.Confirm(false) != nil {
		return
	}
	for {
		select {
		case <-p.ending:
			return
		default:
		}
		body := fmt.Sprintf("%d-%d", p.life, p.number)
		p.number++
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		confirm, err := at.PublishWithDeferredConfirmWithContext(
			ctx, "", p.queue, true, false, message(body))
		acked := false
		if err == nil {
			acked, err = confirm.WaitContext(ctx)
		}
		cancel()
		if err != nil || !acked {
			return
		}
		*confirmed = append(*confirmed, body)
		p.count.Add(1)
	}
}
