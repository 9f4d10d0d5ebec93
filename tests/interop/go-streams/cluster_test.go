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
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/message"
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
		count, refused := 0, false
		// To the end, whatever came: the client reads nothing more of a connection while nobody
		// takes what it has to tell, so that closing the producer would wait for good.
		for statuses := range confirms {
			for _, status := range statuses {
				refused = refused || !status.IsConfirmed()
				count++
			}
			if refused || count >= to {
				select {
				case done <- !refused:
				default:
				}
			}
		}
		select {
		case done <- false:
		default:
		}
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

// A group of consumers, of which each says whether it is the active one.
type group struct {
	mutex     sync.Mutex
	active    map[int]bool
	delivered map[string]int
	closed    []int
}

func (g *group) actives() int {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	count := 0
	for _, active := range g.active {
		if active {
			count++
		}
	}
	return count
}

// How many of these bodies were delivered, and whether any was delivered twice.
func (g *group) has(bodies []string) (count int, twice bool) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	for _, body := range bodies {
		if g.delivered[body] > 0 {
			count++
		}
		twice = twice || g.delivered[body] > 1
	}
	return count, twice
}

func (g *group) takeClosed() []int {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	closed := g.closed
	g.closed = nil
	return closed
}

// A consumer joins, from an environment of its own, which goes to any node that has the stream.
func (g *group) join(t *testing.T, env *stream.Environment, name string, number int) error {
	t.Helper()
	update := func(_ string, active bool) stream.OffsetSpecification {
		g.mutex.Lock()
		defer g.mutex.Unlock()
		g.active[number] = active
		return stream.OffsetSpecification{}.Next()
	}
	deliver := func(_ stream.ConsumerContext, message *amqp.Message) {
		g.mutex.Lock()
		defer g.mutex.Unlock()
		g.delivered[string(message.GetData())]++
	}
	consumer, err := env.NewConsumer(name, deliver, stream.NewConsumerOptions().SetConsumerName("group").
		SetOffset(stream.OffsetSpecification{}.Next()).
		SetSingleActiveConsumer(stream.NewSingleActiveConsumer(update)))
	if err != nil {
		return err
	}
	closed := consumer.NotifyClose()
	go func() {
		if _, open := <-closed; open {
			g.mutex.Lock()
			defer g.mutex.Unlock()
			g.active[number] = false
			g.closed = append(g.closed, number)
		}
	}()
	return nil
}

// The consumers of a group are connected to whichever nodes have the stream: one of them is active
// in all, before and after the stream's leader is killed, and each message is delivered to one.
func TestClusterHasOneActiveConsumerInAGroupWhicheverNodesItsConsumersUse(t *testing.T) {
	env := clusterEnvironment(t)
	name := newStream(t, env)
	const members = 6
	g := &group{active: map[int]bool{}, delivered: map[string]int{}}
	var envs []*stream.Environment
	for number := 0; number < members; number++ {
		envs = append(envs, clusterEnvironment(t))
		until(t, "a consumer", func() bool { return g.join(t, envs[number], name, number) == nil })
	}
	shared := func(round string) {
		until(t, "one active consumer", func() bool {
			for _, number := range g.takeClosed() {
				if g.join(t, envs[number], name, number) != nil {
					g.mutex.Lock()
					g.closed = append(g.closed, number)
					g.mutex.Unlock()
				}
			}
			return g.actives() == 1
		})
		var bodies []string
		until(t, "a producer", func() bool {
			producer, err := env.NewProducer(name, stream.NewProducerOptions())
			if err != nil {
				return false
			}
			defer producer.Close()
			bodies = nil
			for number := 0; number < 200; number++ {
				bodies = append(bodies, fmt.Sprintf("%s-%d-%d", round, number, time.Now().UnixNano()))
				if producer.Send(amqp.NewMessage([]byte(bodies[number]))) != nil {
					return false
				}
			}
			delivered := false
			until(t, "each message", func() bool {
				count, _ := g.has(bodies)
				delivered = count == len(bodies)
				return delivered
			})
			return delivered
		})
		// A second active consumer would be sent them at the same time.
		time.Sleep(500 * time.Millisecond)
		if _, twice := g.has(bodies); twice || g.actives() != 1 {
			t.Fatalf("%s: %d consumers are active, messages delivered twice: %v", round, g.actives(), twice)
		}
	}
	shared("before")
	crash(t, leaderPort(t, env, name))
	shared("after")
}

// A producer with a name publishes all numbers up to this one, those that are there already again.
func publishAll(t *testing.T, env *stream.Environment, name string, to int) {
	t.Helper()
	until(t, "a producer", func() bool {
		producer, err := env.NewProducer(name, stream.NewProducerOptions().SetProducerName("p"))
		if err != nil {
			return false
		}
		defer producer.Close()
		return publishNumbered(producer, to)
	})
}

func TestClusterIsReadFromEveryKindOfOffsetAfterTheLeadersNodeIsKilled(t *testing.T) {
	env := clusterEnvironment(t)
	name := newStream(t, env)
	publishAll(t, env, name, 1_000)
	// Chunks' times are in milliseconds: what comes next has a later one.
	time.Sleep(50 * time.Millisecond)
	between := time.Now().UnixMilli()
	time.Sleep(50 * time.Millisecond)
	crash(t, leaderPort(t, env, name))
	publishAll(t, env, name, 2_000)
	spec := stream.OffsetSpecification{}
	found, _ := consume(t, env, name, at(spec.First()))
	found.expect(t, 0, 2_000)
	found, _ = consume(t, env, name, at(spec.Offset(1_234)))
	found.expect(t, 1_234, 2_000)
	found, _ = consume(t, env, name, at(spec.Timestamp(between)))
	found.expect(t, 1_000, 2_000)
	last, _ := consume(t, env, name, at(spec.Last()))
	until(t, "the last chunk", func() bool {
		all := last.all()
		return len(all) > 0 && all[len(all)-1] == "1999"
	})
	if len(last.all()) >= 2_000 {
		t.Fatal("the last chunk is the whole stream")
	}
	next, _ := consume(t, env, name, at(spec.Next()))
	publishAll(t, env, name, 2_100)
	next.expect(t, 2_000, 2_100)
}

// Messages that are published by producers of some options, once before and once after the leader's
// node is killed.
func publishOverACrash(t *testing.T, env *stream.Environment, name string, publish func(part int)) {
	t.Helper()
	publish(0)
	crash(t, leaderPort(t, env, name))
	// The client finds the new leader by itself, once all nodes know of it.
	until(t, "a producer", func() bool {
		producer, err := env.NewProducer(name, nil)
		return err == nil && producer.Close() == nil
	})
	publish(1)
}

func TestClusterFiltersBeforeAndAfterTheLeadersNodeIsKilled(t *testing.T) {
	env := clusterEnvironment(t)
	name := newStream(t, env)
	publishOverACrash(t, env, name, func(part int) {
		for _, area := range []string{"east", "west"} {
			filter := stream.NewProducerFilter(func(message.StreamMessage) string { return area })
			publish(t, env, name, stream.NewProducerOptions().SetFilter(filter), 100*part, 100*part+100)
		}
	})
	wanted := stream.NewConsumerFilter([]string{"west"}, false, func(*amqp.Message) bool { return true })
	found, _ := consume(t, env, name, at(first).SetFilter(wanted))
	found.expect(t, 0, 200)
}

func TestClusterKeepsBatchesWithinAnEntryBeforeAndAfterTheLeadersNodeIsKilled(t *testing.T) {
	env := clusterEnvironment(t)
	name := newStream(t, env)
	compressions := []stream.Compression{
		stream.Compression{}.None(),
		stream.Compression{}.Gzip(),
		stream.Compression{}.Snappy(),
		stream.Compression{}.Lz4(),
		stream.Compression{}.Zstd(),
	}
	publishOverACrash(t, env, name, func(part int) {
		for round, compression := range compressions {
			options := stream.NewProducerOptions().SetSubEntrySize(50).SetCompression(compression)
			from := 1_000*part + 200*round
			publish(t, env, name, options, from, from+200)
		}
	})
	found, _ := consume(t, env, name, at(first))
	found.expect(t, 0, 2_000)
}

// Publishes keys to a super stream; false unless all are confirmed.
func tryPublishToSuper(env *stream.Environment, name string, keys []string) bool {
	producer, err := env.NewSuperStreamProducer(name,
		stream.NewSuperStreamProducerOptions(stream.NewHashRoutingStrategy(keyOf)))
	if err != nil {
		return false
	}
	defer producer.Close()
	confirms := producer.NotifyPublishConfirmation(1)
	counted := make(chan int, 1)
	go func() {
		count := 0
		for confirm := range confirms {
			for _, status := range confirm.ConfirmationStatus {
				if status.IsConfirmed() {
					count++
				}
			}
			if count >= len(keys) {
				select {
				case counted <- count:
				default:
				}
			}
		}
	}()
	for _, key := range keys {
		if producer.Send(keyed(key)) != nil {
			return false
		}
	}
	select {
	case <-counted:
		return true
	case <-time.After(10 * time.Second):
		return false
	}
}

// Two members share the partitions before and after the leader of one is killed. The client says
// that a partition is lost and leaves the rest to its user: members that have lost one begin anew.
func TestClusterHasOneReaderOfEachPartitionInAGroupWhenALeadersNodeIsKilled(t *testing.T) {
	env := clusterEnvironment(t)
	name := superStream(t, env, stream.NewPartitionsOptions(3))
	var members []*member
	var consumers []*stream.SuperStreamConsumer
	joinAll := func() {
		members, consumers = nil, nil
		for number := 0; number < 2; number++ {
			own := clusterEnvironment(t)
			until(t, "a member", func() bool {
				m := &member{active: map[string]bool{}}
				consumer, err := own.NewSuperStreamConsumer(name, m.found.handler,
					stream.NewSuperStreamConsumerOptions().SetConsumerName("group").
						SetSingleActiveConsumer(stream.NewSingleActiveConsumer(m.update)).
						SetOffset(stream.OffsetSpecification{}.Next()))
				if err != nil {
					return false
				}
				members, consumers = append(members, m), append(consumers, consumer)
				return true
			})
		}
	}
	shared := func() {
		until(t, "messages that go to one member each", func() bool {
			var keys []string
			for _, number := range numbers(90) {
				keys = append(keys, fmt.Sprintf("%s-%d", number, time.Now().UnixNano()))
			}
			if !tryPublishToSuper(env, name, keys) {
				return false
			}
			count := func() map[string]int {
				counts := map[string]int{}
				for _, m := range members {
					for _, key := range m.found.all() {
						counts[key]++
					}
				}
				return counts
			}
			// What comes late, or twice, is no reason to wait for long: there is another round.
			time.Sleep(time.Second)
			counts := count()
			for _, key := range keys {
				if counts[key] != 1 {
					return false
				}
			}
			return true
		})
	}
	joinAll()
	shared()
	crash(t, leaderPort(t, env, name+"-0"))
	for _, consumer := range consumers {
		_ = consumer.Close()
	}
	joinAll()
	shared()
	for _, consumer := range consumers {
		_ = consumer.Close()
	}
}

// Says that what comes next is to be read, and notes whether the member is active.
func (m *member) update(partition string, active bool) stream.OffsetSpecification {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.active[partition] = active
	return stream.OffsetSpecification{}.Next()
}
