#!/bin/bash
# rabbitmqadmin (at $RABBITMQADMIN) and Nagios's checks against the node at $HTTP_PORT of a cluster
# of $NODES nodes. Prints TAP.
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

at=(--host 127.0.0.1 --port "$HTTP_PORT" --username guest --password guest)
vhost="admin-$$"
user="admin-user-$$"

admin() {
    timeout 20 "$RABBITMQADMIN" --non-interactive "${at[@]}" "$@"
}

# row PATTERN COMMAND...: what a command prints has such a line, blanks counting as one.
row() {
    local pattern=$1
    shift
    admin "$@" > "$folder/rows" || return 1
    tr -s ' ' < "$folder/rows" | grep -Eq -- "$pattern" || { cat "$folder/rows"; return 1; }
}

objects() {
    admin declare vhost --name "$vhost" || return 1
    admin --vhost "$vhost" declare queue --name q --type quorum || return 1
    row '^q [^ ]+ quorum true ' --vhost "$vhost" list queues || return 1
    admin --vhost "$vhost" declare exchange --name ex --type topic || return 1
    admin --vhost "$vhost" declare binding --source ex --destination-type queue --destination q \
        --routing-key 'a.#' || return 1
    row ' ex q queue a\.# a\.%23' --vhost "$vhost" list bindings
}

policies() {
    admin --vhost "$vhost" declare policy --name cap --pattern '^q' --apply-to queues \
        --priority 2 --definition '{"max-length": 2}' || return 1
    row "^cap $vhost \\^q queues 2 max-length: 2" list policies
}

messages() {
    admin --vhost "$vhost" publish message --exchange ex --routing-key a.b --payload hello \
        || return 1
    row 'hello' --vhost "$vhost" get messages --queue q --count 1
}

users() {
    admin declare user --name "$user" --password x --tags monitoring || return 1
    row "^$user monitoring " list users || return 1
    admin --vhost "$vhost" declare permissions --user "$user" --configure '^c' --read '^r' \
        --write '^w'
}

definitions() {
    admin definitions export --file "$folder/all.json" || return 1
    grep -q "\"$vhost\"" "$folder/all.json" || return 1
    admin definitions import --file "$folder/all.json"
}

health() {
    row 'health check passed' health_check local_alarms || return 1
    [ "$(admin list nodes | grep -c .)" = "$NODES" ] || return 1
    ! admin health_check port_listener --port 1
}

nagios() {
    local plugin=$1
    shift
    timeout 20 "check_rabbitmq_$plugin" -H 127.0.0.1 --port "$HTTP_PORT" -u guest -p guest "$@"
}

alarm() {
    admin --vhost "$vhost" publish message --exchange ex --routing-key a.b --payload kept
    for _ in $(seq 100); do
        nagios queue --vhost "$vhost" --queue q -w 0 -c 5 > "$folder/queue"
        [ $? = 1 ] && grep -q 'messages=1;' "$folder/queue" && return 0
        sleep 0.1
    done
    cat "$folder/queue"
    return 1
}

deleted() {
    admin --vhost "$vhost" delete queue --name q || return 1
    admin delete user --name "$user" || return 1
    admin delete vhost --name "$vhost" || return 1
    ! row "^$vhost " list vhosts
}

check "rabbitmqadmin declares and lists objects" objects
check "rabbitmqadmin sets policies" policies
check "rabbitmqadmin publishes and gets" messages
check "rabbitmqadmin makes users with permissions" users
check "rabbitmqadmin exports and imports definitions" definitions
check "rabbitmqadmin checks health" health
check "Nagios finds the virtual host alive" nagios aliveness --vhost "$vhost"
check "Nagios warns of a message that stays" alarm
check "Nagios counts objects" nagios objects
check "Nagios counts connections" nagios connections
check "rabbitmqadmin deletes objects" deleted
exit $((failed > 0))
