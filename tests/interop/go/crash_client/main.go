// One publisher or consumer with amqp091-go, moved by frames on standard input.
//
// `cargo xtask crash --cluster --netns` starts one for each connection, and keeps the books. Frames in
// are `S` (confirms, please), `C` queue prefetch transactional (consume), `P` queue body (publish) and
// `A` tag transactional (acknowledge all up to it); frames out are `O` (the channel is open), `K` number
// multiple refused (a confirm), `D` tag redelivered body (a delivery), `T` (a commit was answered) and
// `E` text (why this ends). Numbers are big-endian; a queue's name follows a byte with its length, and
// other bytes four with theirs.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// commandsMax is how many commands may wait for the broker to take what was sent before.
const commandsMax = 4096

// output keeps frames whole.
var output sync.Mutex

func say(kind byte, parts ...any) {
	output.Lock()
	defer output.Unlock()
	frame := bytes.NewBuffer([]byte{kind})
	for _, part := range parts {
		binary.Write(frame, binary.BigEndian, part)
	}
	os.Stdout.Write(frame.Bytes())
}

// end says why, and ends the program.
func end(err error) {
	text := err.Error()
	var closed *amqp.Error
	// A code that the broker sent; what the library makes up when a socket breaks has no such words.
	if errors.As(err, &closed) && closed.Server {
		text = fmt.Sprintf("closed with %d %s", closed.Code, closed.Reason)
	}
	say('E', uint32(len(text)), []byte(text))
	os.Exit(1)
}

func check(err error) {
	if err != nil {
		end(err)
	}
}

func number[T any](input io.Reader) (value T) {
	check(binary.Read(input, binary.BigEndian, &value))
	return value
}

func take(input io.Reader, length int) []byte {
	read := make([]byte, length)
	_, err := io.ReadFull(input, read)
	check(err)
	return read
}

func name(input io.Reader) string {
	return string(take(input, int(number[uint8](input))))
}

func main() {
	address := net.JoinHostPort(os.Args[1], os.Args[2])
	config := amqp.Config{Dial: amqp.DefaultDial(5 * time.Second)}
	connection, err := amqp.DialConfig("amqp://guest:guest@"+address+"/", config)
	check(err)
	channel, err := connection.Channel()
	check(err)
	connectionClosed := connection.NotifyClose(make(chan *amqp.Error, 1))
	channelClosed := channel.NotifyClose(make(chan *amqp.Error, 1))
	go func() {
		var closed *amqp.Error
		select {
		case closed = <-channelClosed:
		case closed = <-connectionClosed:
		}
		if closed == nil {
			os.Exit(0)
		}
		end(closed)
	}()
	say('O')
	commands := make(chan func() error, commandsMax)
	go read(channel, commands)
	for command := range commands {
		if err := command(); err != nil {
			// Why the channel closed is told above, if it was the broker's word.
			time.Sleep(time.Second)
			end(err)
		}
	}
}

// read gives commands to whoever carries them out, and ends with its input.
func read(channel *amqp.Channel, commands chan<- func() error) {
	input := bufio.NewReader(os.Stdin)
	for {
		kind, err := input.ReadByte()
		if err != nil {
			os.Exit(0)
		}
		switch kind {
		case 'S':
			commands <- func() error { return confirms(channel) }
		case 'C':
			queue, prefetch, transactional := name(input), number[uint16](input), number[bool](input)
			commands <- func() error { return consume(channel, queue, int(prefetch), transactional) }
		case 'P':
			queue := name(input)
			body := take(input, int(number[uint32](input)))
			commands <- func() error {
				message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body}
				return channel.PublishWithContext(context.Background(), "", queue, false, false, message)
			}
		case 'A':
			tag, transactional := number[uint64](input), number[bool](input)
			commands <- func() error {
				if err := channel.Ack(tag, true); err != nil || !transactional {
					return err
				}
				if err := channel.TxCommit(); err != nil {
					return err
				}
				say('T')
				return nil
			}
		}
	}
}

func confirms(channel *amqp.Channel) error {
	// The library tells each message that a confirm covers on its own.
	confirmations := channel.NotifyPublish(make(chan amqp.Confirmation, commandsMax))
	go func() {
		for confirmation := range confirmations {
			say('K', confirmation.DeliveryTag, false, !confirmation.Ack)
		}
	}()
	return channel.Confirm(false)
}

func consume(channel *amqp.Channel, queue string, prefetch int, transactional bool) error {
	if transactional {
		if err := channel.Tx(); err != nil {
			return err
		}
	}
	if err := channel.Qos(prefetch, 0, false); err != nil {
		return err
	}
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	go func() {
		for delivery := range deliveries {
			say('D', delivery.DeliveryTag, delivery.Redelivered, uint32(len(delivery.Body)), delivery.Body)
		}
	}()
	return err
}
