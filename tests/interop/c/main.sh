#!/bin/bash
# Debian's amqp-tools, which are librabbitmq's (C), against the broker at $AMQP_URL. Prints TAP.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
count=0 failed=0

# check NAME COMMAND...: one test, which passes if the command succeeds.
check() {
    local name=$1
    shift
    count=$((count + 1))
    if "$@" > "$folder/said" 2>&1; then
        echo "ok $count - $name"
    else
        failed=$((failed + 1))
        echo "not ok $count - $name"
        sed 's/^/#   /' "$folder/said"
    fi
}

# amqp TOOL ARGUMENTS...: one of the tools at the broker, for 20 s at most.
amqp() {
    local tool=$1
    shift
    timeout 20 "amqp-$tool" --url "$AMQP_URL" "$@"
}

queue="c-$$-$RANDOM"

declared_and_published() {
    [ "$(amqp declare-queue -d -q "$queue")" = "$queue" ] || return 1
    for n in 1 2 3; do
        printf 'body %s' "$n" | amqp publish -r "$queue" -p -C text/plain || return 1
    done
}

taken_with_get() {
    [ "$(amqp get -q "$queue")" = "body 1" ]
}

consumed_by_a_command() {
    [ "$(amqp consume -q "$queue" -p 1 -c 2 cat)" = "body 2body 3" ]
}

given_back_when_the_command_fails() {
    printf 'again' | amqp publish -r "$queue" || return 1
    amqp consume -q "$queue" -c 1 false
    [ "$(amqp get -q "$queue")" = "again" ]
}

published_by_lines_through_an_exchange() {
    seq 1 100 > "$folder/lines"
    amqp consume -e amq.topic -r "lines.#" -c 100 -x cat > "$folder/taken" &
    local consumer=$!
    # The tool says nothing when its queue is bound: lines are sent until the first one arrives.
    for _ in $(seq 100); do
        printf '0\n' | amqp publish -e amq.topic -r lines.a || return 1
        [ -s "$folder/taken" ] && break
        sleep 0.1
    done
    amqp publish -e amq.topic -r lines.b -l < "$folder/lines" || return 1
    wait "$consumer" && grep -q '1' "$folder/taken"
}

five_megabytes_whole() {
    head -c 5000000 /dev/urandom > "$folder/body"
    amqp publish -r "$queue" < "$folder/body" && amqp get -q "$queue" | cmp - "$folder/body"
}

empty_queue_is_said() {
    ! amqp get -q "$queue"
}

missing_queue_is_refused() {
    ! amqp get -q "none-$queue" && amqp get -q "none-$queue" 2>&1 | grep -q "NOT_FOUND - no queue"
}

wrong_password_is_refused() {
    ! timeout 20 amqp-get --url "${AMQP_URL/guest:guest/guest:wrong}" -q "$queue" 2> "$folder/error" &&
        grep -q "ACCESS_REFUSED" "$folder/error"
}

deleted() {
    printf 'left' | amqp publish -r "$queue" || return 1
    [ "$(amqp delete-queue -q "$queue")" = 1 ]
}

check "a queue is declared and published to" declared_and_published
check "a message is taken with a get" taken_with_get
check "a command takes what is consumed" consumed_by_a_command
check "a message whose command failed is given back" given_back_when_the_command_fails
check "lines go through an exchange to a consumer" published_by_lines_through_an_exchange
check "five megabytes come back whole" five_megabytes_whole
check "an empty queue is said" empty_queue_is_said
check "a missing queue is refused" missing_queue_is_refused
check "a wrong password is refused" wrong_password_is_refused
check "a queue is deleted with what waits in it" deleted
echo "1..$count"
[ "$failed" = 0 ]
