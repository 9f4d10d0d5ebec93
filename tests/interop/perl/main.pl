# AnyEvent::RabbitMQ against the broker at $AMQP_URL. Every call answers by callbacks; `done` waits for one.
use strict;
use warnings;
use AnyEvent;
use AnyEvent::RabbitMQ;
use Test::More;

my ($host, $port) = $ENV{AMQP_URL} =~ m{@([^:]+):(\d+)};
my $WAIT_S = 20;

# Calls a method of the connection or of a channel, and gives what it succeeded with; dies with the broker's text.
sub done {
    my ($object, $method, %arguments) = @_;
    my $answer = AnyEvent->condvar;
    my $timer = AnyEvent->timer(after => $WAIT_S, cb => sub { $answer->croak("$method: no answer") });
    $object->$method(
        %arguments,
        on_success => sub { $answer->send(@_) },
        on_failure => sub { $answer->croak(text(@_)) },
    );
    return $answer->recv;
}

# What a failure says: the frame of the broker's close, or words of the client's.
sub text {
    my @said = @_;
    return join ' ', @said unless ref $said[0] && $said[0]->can('method_frame');
    my $frame = $said[0]->method_frame;
    return $frame->reply_code . ' ' . $frame->reply_text;
}

# Waits until something is true, while the client's events go on.
sub soon {
    my ($what, $condition) = @_;
    my $end = AnyEvent->now + $WAIT_S;
    until ($condition->()) {
        die "not within $WAIT_S s: $what" if AnyEvent->now > $end;
        my $tick = AnyEvent->condvar;
        my $timer = AnyEvent->timer(after => 0.02, cb => sub { $tick->send });
        $tick->recv;
    }
}

sub connected {
    my ($password) = @_;
    my $client = AnyEvent::RabbitMQ->new->load_xml_spec;
    return done($client, 'connect',
        host => $host, port => $port, user => 'guest', pass => $password, vhost => '/', timeout => $WAIT_S,
        tune => { heartbeat => 5, channel_max => 100, frame_max => 65536 },
        on_read_failure => sub { }, on_return => sub { }, on_close => sub { });
}

sub unique { return join '-', $_[0], $$, int rand 1e9 }

my $client = connected('guest');

subtest 'a wrong password is refused' => sub {
    ok !eval { connected('wrong'); 1 };
};

subtest 'a topic exchange, confirms, a prefetch and acknowledgements' => sub {
    my ($exchange, $queue) = (unique('topic'), unique('queue'));
    my $channel = done($client, 'open_channel', on_close => sub { });
    done($channel, 'declare_exchange', exchange => $exchange, type => 'topic');
    done($channel, 'declare_queue', queue => $queue, durable => 1, arguments => { 'x-message-ttl' => 60_000 });
    done($channel, 'bind_queue', queue => $queue, exchange => $exchange, routing_key => 'a.*');
    done($channel, 'confirm');
    done($channel, 'qos', prefetch_count => 3);
    my ($confirmed, $returned, @bodies) = (0, 0);
    done($channel, 'consume', queue => $queue, no_ack => 0, on_consume => sub {
        my ($delivery) = @_;
        push @bodies, $delivery->{body}->to_raw_payload;
        $channel->ack(delivery_tag => $delivery->{deliver}->method_frame->delivery_tag);
    });
    for my $number (1 .. 20) {
        $channel->publish(
            exchange => $exchange, routing_key => 'a.b', body => $number, header => { delivery_mode => 2 },
            on_ack => sub { $confirmed++ }, on_nack => sub { fail("nack of $number") });
    }
    soon('all are confirmed and delivered', sub { $confirmed == 20 && @bodies == 20 });
    is_deeply \@bodies, [1 .. 20];
    $channel->publish(
        exchange => $exchange, routing_key => 'b', body => 'lost', mandatory => 1,
        on_ack => sub { $confirmed++ }, on_return => sub { $returned++ });
    soon('the message without a queue is confirmed', sub { $confirmed == 21 });
    is $returned, 1;
    done($channel, 'delete_queue', queue => $queue);
    done($channel, 'delete_exchange', exchange => $exchange);
    done($channel, 'close');
};

subtest 'a get, a refusal that gives it back, an empty queue' => sub {
    my $queue = unique('queue');
    my $channel = done($client, 'open_channel', on_close => sub { });
    done($channel, 'declare_queue', queue => $queue);
    $channel->publish(routing_key => $queue, body => 'one');
    my $first = done($channel, 'get', queue => $queue, no_ack => 0);
    is $first->{body}->to_raw_payload, 'one';
    is $first->{ok}->method_frame->redelivered, 0;
    $channel->reject(delivery_tag => $first->{ok}->method_frame->delivery_tag, requeue => 1);
    my $second = done($channel, 'get', queue => $queue, no_ack => 1);
    is $second->{ok}->method_frame->redelivered, 1;
    ok exists done($channel, 'get', queue => $queue)->{empty};
    done($channel, 'delete_queue', queue => $queue);
    done($channel, 'close');
};

subtest 'a transaction is taken back, or carried out' => sub {
    my $queue = unique('queue');
    my $channel = done($client, 'open_channel', on_close => sub { });
    done($channel, 'declare_queue', queue => $queue);
    done($channel, 'select_tx');
    $channel->publish(routing_key => $queue, body => 'never');
    done($channel, 'rollback_tx');
    $channel->publish(routing_key => $queue, body => 'once');
    done($channel, 'commit_tx');
    is done($channel, 'purge_queue', queue => $queue)->method_frame->message_count, 1;
    done($channel, 'delete_queue', queue => $queue);
    done($channel, 'close');
};

subtest 'an error closes its channel, and no other' => sub {
    my $closed = '';
    my $channel = done($client, 'open_channel', on_close => sub { $closed = text(@_) });
    ok !eval { done($channel, 'declare_queue', queue => unique('none'), passive => 1); 1 };
    soon('the channel is closed', sub { $closed || $@ });
    like "$closed $@", qr/404 NOT_FOUND - no queue 'none-/;
    my $other = done($client, 'open_channel', on_close => sub { });
    my $queue = done($other, 'declare_queue', exclusive => 1)->method_frame->queue;
    like $queue, qr/^amq\.gen-/;
    done($other, 'close');
};

done($client, 'close');
done_testing;
