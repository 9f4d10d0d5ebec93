// Package streams has the Go stream client's own idioms against the broker at port $STREAM_PORT.
package streams

import (
	"errors"
	"fmt"
	"net/http"
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

// The client itself waits for up to ten seconds before it connects again, and then once more.
const patience = 60 * time.Second

func options(t *testing.T) *stream.EnvironmentOptions {
	t.Helper()
	port, err := strconv.Atoi(os.Getenv("STREAM_PORT"))
	check(t, err)
	return stream.NewEnvironmentOptions().SetHost("127.0.0.1").SetPort(port).
		SetUser("guest").SetPassword("guest").
		SetAddressResolver(stream.AddressResolver{Host: "127.0.0.1", Port: port})
}

func environment(t *testing.T) *stream.Environment {
	t.Helper()
	env, err := stream.NewEnvironment(options(t))
	check(t, err)
	t.Cleanup(func() { _ = env.Close() })
	return env
}

// A stream of this test's own.
func newStream(t *testing.T, env *stream.Environment) string {
	t.Helper()
	name := unique(t)
	check(t, env.DeclareStream(name, stream.NewStreamOptions()))
	t.Cleanup(func() { _ = env.DeleteStream(name) })
	return name
}

func unique(t *testing.T) string {
	return fmt.Sprintf("go-%s-%d", t.Name(), time.Now().UnixNano())
}

// Skips what Debian's RabbitMQ 3.10 does not know yet.
func sinceThen(t *testing.T) {
	t.Helper()
	if os.Getenv("BROKER") == "rabbitmq" {
		t.Skip("RabbitMQ 3.10 does not have this")
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come true", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// What consumers have seen, in order.
type seen struct {
	mutex  sync.Mutex
	bodies []string
}

func (s *seen) add(body string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.bodies = append(s.bodies, body)
}

func (s *seen) all() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return append([]string(nil), s.bodies...)
}

func (s *seen) handler(_ stream.ConsumerContext, message *amqp.Message) {
	s.add(string(message.GetData()))
}

func (s *seen) expect(t *testing.T, from, to int) {
	t.Helper()
	until(t, fmt.Sprintf("%d messages", to-from), func() bool { return len(s.all()) >= to-from })
	all := s.all()
	if len(all) != to-from {
		t.Fatalf("%d messages instead of %d: from %s", len(all), to-from, all[0])
	}
	for at, body := range all {
		if body != strconv.Itoa(from+at) {
			t.Fatalf("message %d is %s instead of %d", at, body, from+at)
		}
	}
}

// Publishes numbers as bodies and waits for all confirms.
func publishWith(t *testing.T, producer *stream.Producer, from, to int) {
	t.Helper()
	confirmed := confirms(t, producer, to-from)
	for number := from; number < to; number++ {
		check(t, producer.Send(amqp.NewMessage([]byte(strconv.Itoa(number)))))
	}
	confirmed()
}

// Counts a producer's confirms from now on: it sends no more while nobody takes them. What is
// returned waits for all of them.
func confirms(t *testing.T, producer *stream.Producer, count int) func() {
	channel := producer.NotifyPublishConfirmation()
	counted := make(chan string, 1)
	go func() {
		for confirmed := 0; confirmed < count; {
			statuses, open := <-channel
			if !open {
				counted <- fmt.Sprintf("%d of %d confirmed", confirmed, count)
				return
			}
			for _, status := range statuses {
				if !status.IsConfirmed() {
					counted <- fmt.Sprintf("refused: %v", status.GetError())
					return
				}
				confirmed++
			}
		}
		counted <- ""
	}()
	return func() {
		t.Helper()
		select {
		case failure := <-counted:
			if failure != "" {
				t.Fatal(failure)
			}
		case <-time.After(patience):
			t.Fatal("not all were confirmed")
		}
	}
}

func publish(t *testing.T, env *stream.Environment, name string, options *stream.ProducerOptions, from, to int) {
	t.Helper()
	producer, err := env.NewProducer(name, options)
	check(t, err)
	publishWith(t, producer, from, to)
	check(t, producer.Close())
}

func consume(t *testing.T, env *stream.Environment, name string, options *stream.ConsumerOptions) (*seen, *stream.Consumer) {
	t.Helper()
	found := &seen{}
	consumer, err := env.NewConsumer(name, found.handler, options)
	check(t, err)
	t.Cleanup(func() { _ = consumer.Close() })
	return found, consumer
}

func at(offset stream.OffsetSpecification) *stream.ConsumerOptions {
	return stream.NewConsumerOptions().SetOffset(offset)
}

var first = stream.OffsetSpecification{}.First()

func TestEveryMessageIsConfirmedAndReadInOrder(t *testing.T) {
	env := environment(t)
	name := newStream(t, env)
	publish(t, env, name, nil, 0, 20_000)
	found, _ := consume(t, env, name, at(first))
	found.expect(t, 0, 20_000)
}

func TestConsumersBeginWhereTheyAsk(t *testing.T) {
	env := environment(t)
	name := newStream(t, env)
	publish(t, env, name, nil, 0, 100)
	// Chunks' times are in milliseconds: what comes now has a later one.
	time.Sleep(50 * time.Millisecond)
	between := time.Now().UnixMilli()
	publish(t, env, name, nil, 100, 200)
	spec := stream.OffsetSpecification{}
	found, _ := consume(t, env, name, at(spec.First()))
	found.expect(t, 0, 200)
	found, _ = consume(t, env, name, at(spec.Offset(150)))
	found.expect(t, 150, 200)
	found, _ = consume(t, env, name, at(spec.Timestamp(between)))
	found.expect(t, 100, 200)
	last, _ := consume(t, env, name, at(spec.Last()))
	until(t, "the last chunk", func() bool {
		all := last.all()
		return len(all) > 0 && all[len(all)-1] == "199"
	})
	next, _ := consume(t, env, name, at(spec.Next()))
	publish(t, env, name, nil, 200, 210)
	next.expect(t, 200, 210)
}

func TestStoredOffsetsAreFoundAgain(t *testing.T) {
	env := environment(t)
	name := newStream(t, env)
	publish(t, env, name, nil, 0, 100)
	if _, err := env.QueryOffset("app", name); !errors.Is(err, stream.OffsetNotFoundError) {
		t.Fatalf("an offset that nobody stored: %v", err)
	}
	found, consumer := consume(t, env, name, at(first).SetConsumerName("app").SetManualCommit())
	found.expect(t, 0, 100)
	check(t, consumer.StoreCustomOffset(59))
	until(t, "the stored offset", func() bool {
		offset, err := env.QueryOffset("app", name)
		return err == nil && offset == 59
	})
	check(t, consumer.Close())
	found, _ = consume(t, env, name, at(stream.OffsetSpecification{}.Offset(60)).SetConsumerName("app"))
	found.expect(t, 60, 100)
}

func TestOffsetsAreStoredByThemselves(t *testing.T) {
	env := environment(t)
	name := newStream(t, env)
	publish(t, env, name, nil, 0, 100)
	strategy := stream.NewAutoCommitStrategy().SetCountBeforeStorage(50).SetFlushInterval(time.Second)
	found, _ := consume(t, env, name, at(first).SetConsumerName("auto").SetAutoCommit(strategy))
	found.expect(t, 0, 100)
	until(t, "the stored offset", func() bool {
		offset, err := env.QueryOffset("auto", name)
		return err == nil && offset == 99
	})
}

func TestWhatAPublisherSaysTwiceIsStoredOnce(t *testing.T) {
	env := environment(t)
	name := newStream(t, env)
	for _, count := range []int{100, 150} {
		producer, err := env.NewProducer(name, stream.NewProducerOptions().SetProducerName("p"))
		check(t, err)
		confirmed := confirms(t, producer, count)
		for number := 0; number < count; number++ {
			message := amqp.NewMessage([]byte(strconv.Itoa(number)))
			message.SetPublishingId(int64(number))
			check(t, producer.Send(message))
		}
		confirmed()
		last, err := env.QuerySequence("p", name)
		check(t, err)
		if last != int64(count-1) {
			t.Fatalf("the last publishing id is %d", last)
		}
		check(t, producer.Close())
	}
	publish(t, env, name, nil, 150, 151)
	found, _ := consume(t, env, name, at(first))
	found.expect(t, 0, 151)
}

func TestBatchesWithinAnEntryInEachCompression(t *testing.T) {
	env := environment(t)
	name := newStream(t, env)
	compressions := []stream.Compression{
		stream.Compression{}.None(),
		stream.Compression{}.Gzip(),
		stream.Compression{}.Snappy(),
		stream.Compression{}.Lz4(),
		stream.Compression{}.Zstd(),
	}
	for round, compression := range compressions {
		options := stream.NewProducerOptions().SetSubEntrySize(50).SetCompression(compression)
		publish(t, env, name, options, round*1_000, round*1_000+1_000)
	}
	found, _ := consume(t, env, name, at(first))
	found.expect(t, 0, 5_000)
	found, _ = consume(t, env, name, at(stream.OffsetSpecification{}.Offset(2_525)))
	found.expect(t, 2_525, 5_000)
}

func TestOnlyWhatMayMatchAFilterIsSent(t *testing.T) {
	sinceThen(t)
	env := environment(t)
	name := newStream(t, env)
	area := func(message message.StreamMessage) string {
		return fmt.Sprint(message.GetApplicationProperties()["area"])
	}
	filter := stream.NewProducerFilter(area)
	for _, area := range []string{"east", "west"} {
		producer, err := env.NewProducer(name, stream.NewProducerOptions().SetFilter(filter))
		check(t, err)
		confirmed := confirms(t, producer, 500)
		for number := 0; number < 500; number++ {
			message := amqp.NewMessage([]byte(strconv.Itoa(number)))
			message.ApplicationProperties = map[string]any{"area": area}
			check(t, producer.Send(message))
		}
		confirmed()
		check(t, producer.Close())
	}
	// What the server sends, before the client drops what does not match.
	sent := &seen{}
	post := func(message *amqp.Message) bool {
		area := fmt.Sprint(message.ApplicationProperties["area"])
		sent.add(area)
		return area == "west"
	}
	wanted := stream.NewConsumerFilter([]string{"west"}, false, post)
	found, _ := consume(t, env, name, at(first).SetFilter(wanted))
	found.expect(t, 0, 500)
	for _, area := range sent.all() {
		if area != "west" {
			t.Fatalf("a message of the %s was sent", area)
		}
	}
}

func TestStreamsAndTheirFiguresAreFound(t *testing.T) {
	sinceThen(t)
	env := environment(t)
	name := newStream(t, env)
	exists, err := env.StreamExists(name)
	check(t, err)
	none, err := env.StreamExists(name + "-none")
	check(t, err)
	if !exists || none {
		t.Fatalf("exists: %v, the other: %v", exists, none)
	}
	// The same again is no error of this client's, other arguments are.
	check(t, env.DeclareStream(name, stream.NewStreamOptions()))
	other := stream.NewStreamOptions().SetMaxLengthBytes(stream.ByteCapacity{}.MB(77))
	if err := env.DeclareStream(name, other); !errors.Is(err, stream.PreconditionFailed) {
		t.Fatalf("with other arguments: %v", err)
	}
	if err := env.DeleteStream(name + "-none"); !errors.Is(err, stream.StreamDoesNotExist) {
		t.Fatalf("deleted though it is not there: %v", err)
	}
	stats, err := env.StreamStats(name)
	check(t, err)
	if _, err := stats.FirstOffset(); err == nil {
		t.Fatal("an empty stream has a first offset")
	}
	publish(t, env, name, nil, 0, 10)
	stats, err = env.StreamStats(name)
	check(t, err)
	if offset, err := stats.FirstOffset(); err != nil || offset != 0 {
		t.Fatalf("first offset %d, %v", offset, err)
	}
	if chunk, err := stats.CommittedChunkId(); err != nil || chunk < 0 || chunk > 9 {
		t.Fatalf("committed chunk %d, %v", chunk, err)
	}
	metadata, err := env.StreamMetaData(name)
	check(t, err)
	if metadata.Leader == nil || metadata.Leader.Port == "" {
		t.Fatalf("no leader: %v", metadata)
	}
}

func TestAWrongPasswordIsRefused(t *testing.T) {
	_, err := stream.NewEnvironment(options(t).SetPassword("wrong"))
	if !errors.Is(err, stream.AuthenticationFailure) {
		t.Fatalf("%v", err)
	}
}

func TestAHostThatIsNotThereIsRefused(t *testing.T) {
	_, err := stream.NewEnvironment(options(t).SetVHost("nowhere"))
	if !errors.Is(err, stream.VirtualHostAccessFailure) {
		t.Fatalf("%v", err)
	}
}

func TestADeletedStreamEndsItsProducerAndConsumer(t *testing.T) {
	env := environment(t)
	name := newStream(t, env)
	producer, err := env.NewProducer(name, nil)
	check(t, err)
	consumer, err := env.NewConsumer(name, (&seen{}).handler, at(first))
	check(t, err)
	ended, stopped := producer.NotifyClose(), consumer.NotifyClose()
	check(t, env.DeleteStream(name))
	for what, closed := range map[string]stream.ChannelClose{"producer": ended, "consumer": stopped} {
		select {
		case <-closed:
		case <-time.After(patience):
			t.Fatalf("the %s heard nothing", what)
		}
	}
}

func TestReliableClientsPublishAndConsume(t *testing.T) {
	env := environment(t)
	name := newStream(t, env)
	confirmed := make(chan int, 1_000)
	producer, err := ha.NewReliableProducer(env, name, stream.NewProducerOptions(),
		func(statuses []*stream.ConfirmationStatus) { confirmed <- len(statuses) })
	check(t, err)
	for number := 0; number < 1_000; number++ {
		check(t, producer.Send(amqp.NewMessage([]byte(strconv.Itoa(number)))))
	}
	for count := 0; count < 1_000; {
		select {
		case more := <-confirmed:
			count += more
		case <-time.After(patience):
			t.Fatalf("%d of 1000 confirmed", count)
		}
	}
	found := &seen{}
	consumer, err := ha.NewReliableConsumer(env, name, at(first), found.handler)
	check(t, err)
	found.expect(t, 0, 1_000)
	check(t, consumer.Close())
	check(t, producer.Close())
}

func superStream(t *testing.T, env *stream.Environment, options stream.SuperStreamOptions) string {
	t.Helper()
	name := unique(t)
	check(t, env.DeclareSuperStream(name, options))
	t.Cleanup(func() { _ = env.DeleteSuperStream(name) })
	return name
}

func keyOf(message message.StreamMessage) string {
	return fmt.Sprint(message.GetApplicationProperties()["key"])
}

func keyed(key string) *amqp.AMQP10 {
	message := amqp.NewMessage([]byte(key))
	message.ApplicationProperties = map[string]any{"key": key}
	return message
}

func publishToSuper(t *testing.T, env *stream.Environment, name string, routing stream.RoutingStrategy, keys []string) {
	t.Helper()
	producer, err := env.NewSuperStreamProducer(name, stream.NewSuperStreamProducerOptions(routing))
	check(t, err)
	confirms := producer.NotifyPublishConfirmation(1)
	counted := make(chan struct{})
	go func() {
		defer close(counted)
		for count := 0; count < len(keys); {
			confirm, open := <-confirms
			if !open {
				return
			}
			count += len(confirm.ConfirmationStatus)
		}
	}()
	for _, key := range keys {
		check(t, producer.Send(keyed(key)))
	}
	select {
	case <-counted:
	case <-time.After(patience):
		t.Fatal("not all were confirmed")
	}
	check(t, producer.Close())
}

func numbers(count int) []string {
	var keys []string
	for number := 0; number < count; number++ {
		keys = append(keys, strconv.Itoa(number))
	}
	return keys
}

func TestASuperStreamIsSpreadOverItsPartitions(t *testing.T) {
	sinceThen(t)
	env := environment(t)
	name := superStream(t, env, stream.NewPartitionsOptions(3))
	partitions, err := env.QueryPartitions(name)
	check(t, err)
	wanted := []string{name + "-0", name + "-1", name + "-2"}
	if fmt.Sprint(partitions) != fmt.Sprint(wanted) {
		t.Fatalf("partitions %v", partitions)
	}
	publishToSuper(t, env, name, stream.NewHashRoutingStrategy(keyOf), numbers(300))
	found := &seen{}
	streams := &seen{}
	consumer, err := env.NewSuperStreamConsumer(name,
		func(context stream.ConsumerContext, message *amqp.Message) {
			streams.add(context.Consumer.GetStreamName())
			found.handler(context, message)
		}, stream.NewSuperStreamConsumerOptions().SetOffset(first))
	check(t, err)
	until(t, "all messages", func() bool { return len(found.all()) >= 300 })
	count := map[string]bool{}
	for _, name := range streams.all() {
		count[name] = true
	}
	if len(count) != 3 {
		t.Fatalf("from %v", count)
	}
	check(t, consumer.Close())
}

// The broker's own hash, of which the key strategy's Route asks, is that of the hash strategy.
func TestTheBrokerHashesAKeyAsTheClientDoes(t *testing.T) {
	if os.Getenv("BROKER") == "rabbitmq" {
		t.Skip("RabbitMQ does not hash")
	}
	env := environment(t)
	name := unique(t)
	url := os.Getenv("HTTP_URL") + "/api/stream/super-streams/%2F/" + name
	body := `{"partitions": 3, "arguments": {"super-stream-routing": "hash"}}`
	request, err := http.NewRequest(http.MethodPut, url, strings.NewReader(body))
	check(t, err)
	request.SetBasicAuth("guest", "guest")
	answer, err := http.DefaultClient.Do(request)
	check(t, err)
	check(t, answer.Body.Close())
	if answer.StatusCode != http.StatusNoContent {
		t.Fatalf("status %d", answer.StatusCode)
	}
	t.Cleanup(func() { _ = env.DeleteSuperStream(name) })
	keys := append(numbers(100), "Größe", "invoice-2026-000123")
	publishToSuper(t, env, name, stream.NewHashRoutingStrategy(keyOf), keys)
	publishToSuper(t, env, name, stream.NewKeyRoutingStrategy(keyOf), keys)
	var found []*seen
	for number := 0; number < 3; number++ {
		messages, _ := consume(t, env, fmt.Sprintf("%s-%d", name, number), at(first))
		found = append(found, messages)
	}
	until(t, "all messages", func() bool {
		return len(found[0].all())+len(found[1].all())+len(found[2].all()) >= 2*len(keys)
	})
	for number, messages := range found {
		count := map[string]int{}
		for _, key := range messages.all() {
			count[key]++
		}
		for key, times := range count {
			if times != 2 {
				t.Errorf("%d messages of %q in partition %d", times, key, number)
			}
		}
	}
}

func TestASuperStreamIsRoutedByKeys(t *testing.T) {
	sinceThen(t)
	env := environment(t)
	name := superStream(t, env, stream.NewBindingsOptions([]string{"amer", "emea", "apac"}))
	route, err := env.QueryRoute(name, "emea")
	check(t, err)
	if fmt.Sprint(route) != fmt.Sprint([]string{name + "-emea"}) {
		t.Fatalf("routed to %v", route)
	}
	strategy := stream.NewKeyRoutingStrategy(keyOf)
	publishToSuper(t, env, name, strategy, []string{"emea", "apac", "emea"})
	found, _ := consume(t, env, name+"-emea", at(first))
	until(t, "two messages", func() bool { return fmt.Sprint(found.all()) == "[emea emea]" })
}

// Which partitions a member of a group has.
type member struct {
	mutex  sync.Mutex
	active map[string]bool
	found  seen
}

func (m *member) partitions() int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	count := 0
	for _, active := range m.active {
		if active {
			count++
		}
	}
	return count
}

func join(t *testing.T, env *stream.Environment, name string) (*member, *stream.SuperStreamConsumer) {
	t.Helper()
	m := &member{active: map[string]bool{}}
	update := func(partition string, active bool) stream.OffsetSpecification {
		m.mutex.Lock()
		defer m.mutex.Unlock()
		m.active[partition] = active
		return first
	}
	consumer, err := env.NewSuperStreamConsumer(name, m.found.handler,
		stream.NewSuperStreamConsumerOptions().SetConsumerName("group").
			SetSingleActiveConsumer(stream.NewSingleActiveConsumer(update)).SetOffset(first))
	check(t, err)
	return m, consumer
}

func TestPartitionsAreSharedByTheMembersOfAGroup(t *testing.T) {
	sinceThen(t)
	env := environment(t)
	name := superStream(t, env, stream.NewPartitionsOptions(3))
	publishToSuper(t, env, name, stream.NewHashRoutingStrategy(keyOf), numbers(90))
	one, consumer := join(t, env, name)
	until(t, "the first one reads all", func() bool { return len(one.found.all()) == 90 })
	two, other := join(t, env, name)
	until(t, "a partition changes hands", func() bool {
		return one.partitions() == 2 && two.partitions() == 1
	})
	check(t, consumer.Close())
	until(t, "the second one has and reads all", func() bool {
		return two.partitions() == 3 && len(two.found.all()) == 90
	})
	check(t, other.Close())
}

func TestOfAGroupOneConsumerIsActive(t *testing.T) {
	sinceThen(t)
	env := environment(t)
	name := newStream(t, env)
	publish(t, env, name, nil, 0, 10)
	group := func() *stream.ConsumerOptions {
		update := func(string, bool) stream.OffsetSpecification {
			offset, err := env.QueryOffset("group", name)
			if err != nil {
				return first
			}
			return stream.OffsetSpecification{}.Offset(offset + 1)
		}
		return at(first).SetConsumerName("group").
			SetSingleActiveConsumer(stream.NewSingleActiveConsumer(update))
	}
	one, active := consume(t, env, name, group())
	one.expect(t, 0, 10)
	two, _ := consume(t, env, name, group())
	check(t, active.StoreCustomOffset(4))
	until(t, "the stored offset", func() bool {
		offset, err := env.QueryOffset("group", name)
		return err == nil && offset == 4
	})
	check(t, active.Close())
	two.expect(t, 5, 10)
}
