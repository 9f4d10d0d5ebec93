"""One publisher or consumer with pika, moved by frames on standard input.

`cargo xtask crash --cluster --netns` starts one for each connection, and keeps the books. Frames in
are `S` (confirms, please), `C` queue prefetch transactional (consume), `P` queue body (publish) and
`A` tag transactional (acknowledge all up to it); frames out are `O` (the channel is open), `K` number
multiple refused (a confirm), `D` tag redelivered body (a delivery), `T` (a commit was answered) and
`E` text (why this ends). Numbers are big-endian; a queue's name follows a byte with its length, and
other bytes four with theirs.
"""

import os
import struct
import sys
import threading

import pika


class Connection:
    """A connection with one channel."""

    def __init__(self, host, port):
        # As one `write` each, so that frames never mix.
        self.output = sys.stdout.buffer
        self.channel = None
        self.connection = pika.SelectConnection(
            pika.ConnectionParameters(host, port, socket_timeout=5, stack_timeout=8),
            on_open_callback=self.connected,
            on_open_error_callback=lambda _, error: self.end(error),
            on_close_callback=lambda _, error: self.end(error),
        )

    def run(self):
        self.connection.ioloop.start()

    def say(self, frame):
        self.output.write(frame)
        self.output.flush()

    def end(self, error):
        """Says why, and ends the program."""
        code = getattr(error, "reply_code", None)
        text = f"closed with {code} {error.reply_text}" if code else repr(error)
        text = text.encode()
        self.say(struct.pack(">cI", b"E", len(text)) + text)
        os._exit(1)

    def connected(self, connection):
        connection.channel(on_open_callback=self.opened)

    def opened(self, channel):
        self.channel = channel
        channel.add_on_close_callback(lambda _, error: self.end(error))
        self.say(b"O")
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        """Reads commands, on a thread of its own, and carries them out on the connection's."""
        commands = {b"S": self.confirms, b"C": self.consume, b"P": self.publish, b"A": self.ack}
        while kind := sys.stdin.buffer.read(1):
            command, arguments = commands[kind], self.arguments(kind)
            self.connection.ioloop.add_callback_threadsafe(
                lambda command=command, arguments=arguments: command(*arguments)
            )
        os._exit(0)

    def arguments(self, kind):
        def take(layout):
            return struct.unpack(layout, sys.stdin.buffer.read(struct.calcsize(layout)))

        if kind == b"A":
            return take(">Q?")
        if kind == b"S":
            return ()
        queue = sys.stdin.buffer.read(take(">B")[0]).decode()
        if kind == b"C":
            return (queue, *take(">H?"))
        return (queue, sys.stdin.buffer.read(take(">I")[0]))

    def confirms(self):
        def confirmed(frame):
            refused = isinstance(frame.method, pika.spec.Basic.Nack)
            method = frame.method
            self.say(struct.pack(">cQ??", b"K", method.delivery_tag, method.multiple, refused))

        self.channel.confirm_delivery(confirmed)

    def consume(self, queue, prefetch, in_transactions):
        if in_transactions:
            self.channel.tx_select()
        self.channel.basic_qos(prefetch_count=prefetch)
        self.channel.basic_consume(queue, self.delivered)

    def delivered(self, _channel, method, _properties, body):
        head = struct.pack(">cQ?I", b"D", method.delivery_tag, method.redelivered, len(body))
        self.say(head + body)

    def publish(self, queue, body):
        if self.channel.is_open:
            properties = pika.BasicProperties(delivery_mode=2)
            self.channel.basic_publish("", queue, body, properties)

    def ack(self, tag, in_transaction):
        if self.channel.is_open:
            self.channel.basic_ack(tag, multiple=True)
            if in_transaction:
                self.channel.tx_commit(lambda _: self.say(b"T"))


if __name__ == "__main__":
    Connection(sys.argv[1], int(sys.argv[2])).run()
