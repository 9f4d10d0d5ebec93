package streams

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/amqp"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/ha"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/stream"
)

// The nodes of the cluster: where each serves the stream protocol, and where it is told to crash.
func nodesOfCluster() (addresses, controls []string) {
	return strings.Split(os.Getenv("CLUSTER_STREAMS"), ","), strings.Split(os.Getenv("CLUSTER_CONTROLS"), ",")
}

// An environment that knows all nodes, and goes where they say that a stream is.
func clusterEnvironment(t *testing.T) *stream.Environment {
	t.Helper()
	addresses, _ := nodesOfCluster()
	var uris []string
	for _, address := range addresses {
		uris = append(uris, "rabbitmq-stream://guest:guest@"+address+"/%2f")
	}
	env, err := stream.NewEnvironment(stream.NewEnvironmentOptions().SetUris(uris))
	check(t, err)
	t.Cleanup(func() { _ = env.Close() })
	return env
}

// kill -9 of the node at this port, and a start on what it has; returns when it accepts.
func crash(t *testing.T, port string) {
	t.Helper()
	addresses, controls := nodesOfCluster()
	for number, address := range addresses {
		if !strings.HasSuffix(address, ":"+port) {
			continue
		}
		connection, err := net.DialTimeout("tcp", controls[number], patience)
		check(t, err)
		defer connection.Close()
		check(t, connection.SetDeadline(time.Now().Add(150*time.Second)))
		_, err = connection.Write([]byte("crash\n"))
		check(t, err)
		answer, err := bufio.NewReader(connection).ReadString('\n')
		check(t, err)
		if !strings.HasPrefix(answer, "ok") {
			t.Fatal(answer)
		}
		return
	}
	t.Fatalf("no node serves streams at port %s", port)
}

func leaderPort(t *testing.T, env *stream.Environment, name string) string {
	t.Helper()
	port := ""
	until(t, "a leader", func() bool {
		metadata, err := env.StreamMetaData(name)
		if err == nil && metadata.Leader != nil {
			port = metadata.Leader.Port
		}
		return port != ""
	})
	return port
}

// Bodies that were confirmed, or read, by how often.
type tally struct {
	mutex  sync.Mutex
	bodies map[string]int
}

func (t *tally) add(body string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.bodies[body]++
}

func (t *tally) size() int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return len(t.bodies)
}

func (t *tally) missing(of *tally) []string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	of.mutex.Lock()
	defer of.mutex.Unlock()
	var missing []string
	for body := range of.bodies {
		if t.bodies[body] == 0 {
			missing = append(missing, body)
		}
	}
	return missing
}

// The node that leads the stream is killed while a producer and a consumer are at work.
func TestClusterKeepsWhatItConfirmedAndClientsGoOnWhenTheLeadersNodeIsKilled(t *testing.T) {
	env := clusterEnvironment(t)
	name := newStream(t, env)
	confirmed, read := &tally{bodies: map[string]int{}}, &tally{bodies: map[string]int{}}
	producer, err := ha.NewReliableProducer(env, name, stream.NewProducerOptions(),
		func(statuses []*stream.ConfirmationStatus) {
			for _, status := range statuses {
				if status.IsConfirmed() {
					confirmed.add(string(status.GetMessage().GetData()[0]))
				}
			}
		})
	check(t, err)
	consumer, err := ha.NewReliableConsumer(env, name, at(first),
		func(_ stream.ConsumerContext, message *amqp.Message) { read.add(string(message.GetData())) })
	check(t, err)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for number := 0; ; number++ {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
				// What is refused while there is no leader is not confirmed, and that is all.
				_ = producer.Send(amqp.NewMessage([]byte(strconv.Itoa(number))))
			}
		}
	}()
	until(t, "the first confirms", func() bool { return confirmed.size() > 500 && read.size() > 500 })
	crash(t, leaderPort(t, env, name))
	before := confirmed.size()
	until(t, "confirms after the crash", func() bool { return confirmed.size() > before+500 })
	close(stop)
	<-stopped
	until(t, "all that was confirmed", func() bool { return len(read.missing(confirmed)) == 0 })
	check(t, consumer.Close())
	_ = producer.Close()
	// And whoever comes later reads it too, each message where the others have it.
	late, _ := consume(t, env, name, at(first))
	until(t, "all that was confirmed, from the beginning", func() bool {
		found := &tally{bodies: map[string]int{}}
		for _, body := range late.all() {
			found.add(body)
		}
		return len(found.missing(confirmed)) == 0
	})
}

// Each node is killed once: what is stored under a name is found on the others, and nothing that
// is published under a name twice is there twice.
func TestClusterKeepsOffsetsAndSequencesWhenEachNodeIsKilledOnce(t *testing.T) {
	env := clusterEnvironment(t)
	name := newStream(t, env)
	published := 0
	addresses, _ := nodesOfCluster()
	for round, address := range addresses {
		until(t, "a producer", func() bool {
			producer, err := env.NewProducer(name, stream.NewProducerOptions().SetProducerName("p"))
			if err != nil {
				return false
			}
			defer producer.Close()
			return publishNumbered(producer, published+100)
		})
		published += 100
		offset := int64(round)*100 + 50
		until(t, "the offset is stored", func() bool {
			consumer, err := env.NewConsumer(name, func(stream.ConsumerContext, *amqp.Message) {},
				at(first).SetConsumerName("app").SetManualCommit())
			if err != nil {
				return false
			}
			defer consumer.Close()
			_ = consumer.StoreCustomOffset(offset)
			stored, err := env.QueryOffset("app", name)
			return err == nil && stored == offset
		})
		// What was stored is durable with what comes after it.
		time.Sleep(500 * time.Millisecond)
		_, port, _ := net.SplitHostPort(address)
		crash(t, port)
		until(t, "the stored offset", func() bool {
			stored, err := env.QueryOffset("app", name)
			if errors.Is(err, stream.OffsetNotFoundError) {
				t.Fatal("the offset is lost")
			}
			return err == nil && stored == offset
		})
	}
	var wanted []string
	for number := 0; number < published; number++ {
		wanted = append(wanted, strconv.Itoa(number))
	}
	until(t, "every message once", func() bool {
		found := &seen{}
		consumer, err := env.NewConsumer(name, found.handler, at(first))
		if err != nil {
			return false
		}
		defer consumer.Close()
		until(t, "as many", func() bool { return len(found.all()) >= published })
		return fmt.Sprint(found.all()) == fmt.Sprint(wanted)
	})
}

// Publishes all numbers up to this one under their own ids, those that are there already again;
// false unless all are confirmed.
func publishNumbered(producer *stream.Producer, to int) bool {
	confirms := producer.NotifyPublishConfirmation()
	done := make(chan bool, 1)
	go func() {
		for count := 0; count < to; {
			statuses, open := <-confirms
			if !open {
				done <- false
				return
			}
			for _, status := range statuses {
				if !status.IsConfirmed() {
					done <- false
					return
				}
				count++
			}
		}
		done <- true
	}()
	for number := 0; number < to; number++ {
		message := amqp.NewMessage([]byte(strconv.Itoa(number)))
		message.SetPublishingId(int64(number))
		if producer.Send(message) != nil {
			return false
		}
	}
	select {
	case all := <-done:
		return all
	case <-time.After(patience):
		return false
	}
}
