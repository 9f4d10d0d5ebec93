<?php
// php-amqplib against the broker at $AMQP_URL.
require_once 'PhpAmqpLib/autoload.php';
require_once __DIR__ . '/tap.php';

use PhpAmqpLib\Channel\AMQPChannel;
use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Exception\AMQPConnectionClosedException;
use PhpAmqpLib\Exception\AMQPProtocolChannelException;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

const WAIT_S = 20;

function connect(string $mechanism = 'AMQPLAIN', string $password = 'guest', int $heartbeat = 0): AMQPStreamConnection
{
    $url = parse_url(getenv('AMQP_URL'));
    return new AMQPStreamConnection(
        $url['host'], $url['port'], 'guest', $password, '/', false, $mechanism, null, 'en_US',
        5, 30, null, true, $heartbeat
    );
}

/** Runs something with a channel of a connection of its own. */
function withChannel(callable $body): void
{
    $connection = connect();
    $body($connection->channel(), $connection);
    $connection->close();
}

function unique(string $prefix): string
{
    return $prefix . '-' . bin2hex(random_bytes(8));
}

/** A queue of this connection alone, named by the broker. */
function ownQueue(AMQPChannel $channel, array $arguments = []): string
{
    return $channel->queue_declare('', false, false, true, false, false, new AMQPTable($arguments))[0];
}

/** The next message of a queue, waited for. */
function get(AMQPChannel $channel, string $queue, bool $automatic = true): AMQPMessage
{
    $message = null;
    soon("a message in $queue", function () use ($channel, $queue, $automatic, &$message) {
        $message = $channel->basic_get($queue, $automatic);
        return $message !== null;
    });
    return $message;
}

function headers(AMQPMessage $message): array
{
    return $message->has('application_headers') ? $message->get('application_headers')->getNativeData() : [];
}

foreach (['PLAIN', 'AMQPLAIN'] as $mechanism) {
    test("a login by $mechanism, and a wrong password", function () use ($mechanism) {
        $connection = connect($mechanism);
        same($connection->isConnected(), true);
        $connection->close();
        $error = refused(AMQPConnectionClosedException::class, fn() => connect($mechanism, 'wrong'));
        same(str_contains($error->getMessage(), 'ACCESS_REFUSED'), true);
    });
}

test('a message comes back as it was sent', fn() => withChannel(function ($channel) {
    $queue = ownQueue($channel);
    $sent = [
        'text' => 'ü', 'negative' => -5, 'big' => PHP_INT_MAX, 'true' => true, 'null' => null,
        'list' => [1, 2, 'x'], 'table' => ['deep' => 'er'],
    ];
    $channel->basic_publish(new AMQPMessage('body', [
        'delivery_mode' => 2, 'message_id' => 'm', 'priority' => 3, 'timestamp' => 1700000000,
        'content_type' => 'text/plain', 'application_headers' => new AMQPTable($sent),
    ]), '', $queue);
    $message = get($channel, $queue);
    same($message->body, 'body');
    same(headers($message), $sent);
    same([$message->get('message_id'), $message->get('priority'), $message->get('delivery_mode')], ['m', 3, 2]);
    same((int) $message->get('timestamp'), 1700000000);
    same($message->isRedelivered(), false);
}));

test('confirms, also of a batch, and what has no queue', fn() => withChannel(function ($channel) {
    $queue = ownQueue($channel);
    $confirmed = 0;
    $returned = [];
    $channel->confirm_select();
    $channel->set_ack_handler(function () use (&$confirmed) { $confirmed++; });
    $channel->set_return_listener(function ($code, $text, $exchange, $key, $message) use (&$returned) {
        $returned[] = [$code, $text, $message->body];
    });
    $channel->basic_publish(new AMQPMessage('lost'), '', unique('nowhere'), true);
    foreach (range(1, 300) as $n) {
        $channel->batch_basic_publish(new AMQPMessage("$n"), '', $queue);
    }
    $channel->publish_batch();
    $channel->wait_for_pending_acks_returns(WAIT_S);
    same($confirmed, 301);
    same($returned, [[312, 'NO_ROUTE', 'lost']]);
    same($channel->queue_declare($queue, true)[1], 300);
}));

test('consumers with a prefetch acknowledge one and many', fn() => withChannel(function ($channel) {
    $queue = ownQueue($channel);
    foreach (range(0, 49) as $n) {
        $channel->basic_publish(new AMQPMessage("$n"), '', $queue);
    }
    $channel->basic_qos(0, 10, false);
    $bodies = [];
    $tag = $channel->basic_consume($queue, '', false, false, false, false, function ($message) use (&$bodies) {
        $bodies[] = (int) $message->body;
        if (count($bodies) % 10 === 0) {
            $message->ack(true);
        }
    });
    while (count($bodies) < 50) {
        $channel->wait(null, false, WAIT_S);
    }
    $channel->basic_cancel($tag);
    same($bodies, range(0, 49));
    same($channel->queue_declare($queue, true), [$queue, 0, 0]);
}));

test('a message that is refused is dead-lettered', fn() => withChannel(function ($channel) {
    $dead = ownQueue($channel);
    $queue = ownQueue($channel, ['x-dead-letter-exchange' => '', 'x-dead-letter-routing-key' => $dead]);
    $channel->basic_publish(new AMQPMessage('bad'), '', $queue);
    get($channel, $queue, false)->nack();
    $death = headers(get($channel, $dead))['x-death'][0];
    same([$death['reason'], $death['queue'], $death['count']], ['rejected', $queue, 1]);
}));

test('a headers exchange', fn() => withChannel(function ($channel) {
    $queue = ownQueue($channel);
    $exchange = unique('headers');
    $channel->exchange_declare($exchange, 'headers', false, false, false);
    $channel->queue_bind($queue, $exchange, '', false, new AMQPTable(['x-match' => 'any', 'a' => 1, 'b' => 'two']));
    foreach ([['a' => 2], ['b' => 'two'], ['a' => 1]] as $n => $headers) {
        $message = new AMQPMessage("$n", ['application_headers' => new AMQPTable($headers)]);
        $channel->basic_publish($message, $exchange);
    }
    same([get($channel, $queue)->body, get($channel, $queue)->body, $channel->basic_get($queue)], ['1', '2', null]);
    $channel->exchange_delete($exchange);
}));

test('a transaction is taken back, or carried out', fn() => withChannel(function ($channel) {
    $queue = ownQueue($channel);
    $channel->tx_select();
    $channel->basic_publish(new AMQPMessage('never'), '', $queue);
    $channel->tx_rollback();
    $channel->basic_publish(new AMQPMessage('once'), '', $queue);
    $channel->tx_commit();
    same($channel->queue_purge($queue), 1);
}));

test('a quorum queue counts how often a message came', fn() => withChannel(function ($channel) {
    $queue = unique('quorum');
    $channel->confirm_select();
    $channel->queue_declare($queue, false, true, false, false, false, new AMQPTable(['x-queue-type' => 'quorum']));
    $channel->basic_publish(new AMQPMessage('again'), '', $queue);
    $channel->wait_for_pending_acks(WAIT_S);
    $first = get($channel, $queue, false);
    $first->reject(true);
    $second = get($channel, $queue);
    same([$second->isRedelivered(), isset(headers($second)['x-delivery-count'])], [true, true]);
    $channel->queue_delete($queue);
}));

test('a stream is read from an offset', fn() => withChannel(function ($channel) {
    $queue = unique('stream');
    $channel->confirm_select();
    $channel->queue_declare($queue, false, true, false, false, false, new AMQPTable(['x-queue-type' => 'stream']));
    foreach (range(0, 4) as $n) {
        $channel->basic_publish(new AMQPMessage("$n"), '', $queue);
    }
    $channel->wait_for_pending_acks(WAIT_S);
    $channel->basic_qos(0, 100, false);
    $read = [];
    $channel->basic_consume($queue, '', false, false, false, false, function ($message) use (&$read) {
        $read[] = [headers($message)['x-stream-offset'], $message->body];
        $message->ack();
    }, null, new AMQPTable(['x-stream-offset' => 2]));
    while (count($read) < 3) {
        $channel->wait(null, false, WAIT_S);
    }
    same($read, [[2, '2'], [3, '3'], [4, '4']]);
    $channel->queue_delete($queue);
}));

test('an error closes its channel, with its code, and no other', fn() => withChannel(function ($channel, $connection) {
    $queue = unique('durable');
    $channel->queue_declare($queue, false, true, false, false);
    $errors = [
        [406, fn($other) => $other->queue_declare($queue, false, false, false, false)],
        [404, fn($other) => $other->queue_declare(unique('none'), true)],
        [403, fn($other) => $other->exchange_declare('amq.mine', 'direct')],
        [404, fn($other) => $other->basic_consume(unique('none'))],
        [406, function ($other) { $other->basic_ack(99); $other->wait(null, false, WAIT_S); }],
    ];
    foreach ($errors as [$code, $mistake]) {
        $error = refused(AMQPProtocolChannelException::class, fn() => $mistake($connection->channel()));
        same($error->getCode(), $code);
    }
    $channel->queue_delete($queue);
}));

test('ten megabytes come back whole', fn() => withChannel(function ($channel) {
    $queue = ownQueue($channel);
    $channel->confirm_select();
    $body = random_bytes(10000000);
    $channel->basic_publish(new AMQPMessage($body), '', $queue);
    $channel->wait_for_pending_acks(WAIT_S);
    same(get($channel, $queue)->body === $body, true);
}));

test('a client that only checks its heartbeats stays connected', function () {
    $connection = connect('PLAIN', 'guest', 2);
    $end = microtime(true) + 7;
    while (microtime(true) < $end) {
        usleep(500000);
        $connection->checkHeartBeat();
    }
    $channel = $connection->channel();
    same($channel->queue_declare(ownQueue($channel), true)[1], 0);
    $connection->close();
});

finish();
