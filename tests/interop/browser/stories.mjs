// What operators do, on the page: the stories of tests/operators by their numbers, in the order in
// which they follow each other. A step is a list: what is done, and to what.
//
// - open ROUTE: shows a part of the page.
// - click NAME [ROW]: a button, or that of the row with this text.
// - follow NAME: a link.
// - press KEY.
// - submit BUTTON {LABEL: VALUE}: fills the open dialog and sends it.
// - fill LABEL VALUE, choose LABEL VALUE: a field outside of a dialog.
// - see TEXT: it is shown; unsee TEXT: it is not; stat LABEL VALUE: a figure; row TEXT...: a row with all of these.
// - gone TEXT...: no row has all of these; heading TEXT: the part of the page with this heading is shown.
// - check LABEL, uncheck LABEL: a box of the open dialog; disabled NAME: a button cannot be used.
// - save BUTTON, load FIELD: a file is kept, and given back; saved PART...: its object has these.
// - broker COMMAND, node NUMBER COMMAND: the broker, or a node of the cluster, is stopped or started.
// - at NUMBER: the page of another node of the cluster is shown.
// - consumer QUEUE: a client takes a message and keeps it.
// - api METHOD PATH BODY: what others have done before, or what clients do.
// - is PATH FIELD VALUE: what the API says then.

const publish = (key, payload) => ['api', 'POST', 'exchanges/%2F/amq.default/publish', { routing_key: key, payload, payload_encoding: 'string', properties: {} }]

export const STORIES = {
  1: [
    ['api', 'PUT', 'queues/%2F/orders', { durable: true }], publish('orders', 'one'),
    ['open', 'queues/%2F/orders'], ['stat', 'Ready', '1']
  ],
  2: [
    ['api', 'PUT', 'queues/%2F/empty', { durable: true }],
    ['open', 'queues?sort=messages&sort_reverse=true&page_size=25'], ['row', 'orders', '1']
  ],
  3: [['open', 'queues/%2F/orders'], ['click', 'Ask the node'], ['see', '1 messages wait, and nobody consumes.']],
  4: [
    ['open', 'queues/%2F/orders'], ['click', 'Publish'], ['submit', 'Publish', { Body: 'two' }], ['see', 'Published.'], ['press', 'Escape'], ['stat', 'Ready', '2']
  ],
  5: [
    ['open', 'exchanges/%2F/amq.topic'], ['click', 'Add binding'], ['submit', 'Add binding', { 'Its name': 'orders', 'Routing key': 'order.#' }], ['row', 'orders', 'order.#'],
    ['open', 'route?exchange=amq.topic&key=order.new'], ['row', 'orders']
  ],
  6: [['open', 'route?exchange=amq.topic&key=orders.new'], ['see', '"order.#" does not match']],
  7: [
    ['open', 'queues/%2F/orders'], ['click', 'Unbind the key order.#'], ['submit', 'Delete binding'], ['gone', 'order.#']
  ],
  8: [['open', 'queues/%2F/orders'], ['click', 'Purge'], ['submit', 'Purge'], ['stat', 'Ready', '0']],
  9: [
    ['open', 'policies'], ['click', 'Add policy'], ['click', 'max-length'],
    ['submit', 'Add policy', { Name: 'bounded', Pattern: '^orders$', 'Applies to': 'queues', 'Value 1': '3' }], ['row', 'bounded', 'max-length: 3']
  ],
  10: [['open', 'queues/%2F/orders'], ['see', 'bounded'], ['see', 'max-length: 3']],
  11: [
    ['open', 'policies'], ['click', 'Add operator policy'], ['click', 'message-ttl'],
    ['submit', 'Add operator policy', { Name: 'ttl', Pattern: '.*', 'Applies to': 'queues', 'Value 1': '3600000' }], ['row', 'ttl', 'message-ttl: 3600000'],
    ['click', 'Delete ttl'], ['submit', 'Delete operator policy'], ['gone', 'message-ttl']
  ],
  12: [['open', 'policies'], ['click', 'Delete bounded'], ['submit', 'Delete policy'], ['gone', 'bounded']],
  13: [
    ['api', 'PUT', 'queues/%2F/dead', { durable: true }],
    ['api', 'PUT', 'policies/%2F/dead', { pattern: '^orders$', 'apply-to': 'queues', definition: { 'dead-letter-exchange': '', 'dead-letter-routing-key': 'dead' } }],
    publish('orders', 'bad'), publish('orders', 'bad'), publish('orders', 'bad'), ['open', 'queues/%2F/orders'], ['stat', 'Ready', '3'],
    ['click', 'Get messages'], ['submit', 'Get', { 'How many': '3', 'And then': 'reject_requeue_false' }], ['see', '3 messages'], ['press', 'Escape'],
    ['open', 'queues/%2F/dead'], ['stat', 'Ready', '3']
  ],
  14: [
    ['open', 'queues/%2F/dead'], ['click', 'Get messages'], ['submit', 'Get'], ['see', 'x-first-death-queue: orders'], ['see', 'x-first-death-reason: rejected']
  ],
  15: [
    ['open', 'queues/%2F/dead'], ['click', 'Move messages'], ['submit', 'Move', { 'How many to look at': '2' }], ['row', 'back to where they died', '2 to orders', 'done'],
    ['stat', 'Ready', '1'], ['is', 'queues/%2F/orders', 'messages', 2]
  ],
  16: [
    ['api', 'PUT', 'queues/%2F/later', { durable: true }],
    ['open', 'queues/%2F/dead'], ['click', 'Move messages'], ['submit', 'Move', { Messages: 'move', 'To queue': 'later' }], ['row', 'moved to later', '1 to later', 'done'],
    ['stat', 'Ready', '0'], ['is', 'queues/%2F/later', 'messages', 1], ['api', 'DELETE', 'queues/%2F/later']
  ],
  17: [
    ['api', 'PUT', 'queues/%2F/quorum', { durable: true, arguments: { 'x-queue-type': 'quorum' } }], publish('quorum', 'stays'),
    ['open', 'queues/%2F/quorum'], ['stat', 'Ready', '1'], ['click', 'Peek'], ['submit', 'Peek'], ['see', 'stays'], ['press', 'Escape'],
    ['is', 'queues/%2F/quorum', 'messages', 1]
  ],
  18: [
    ['open', 'queues/%2F/quorum'], ['click', 'Delete'], ['check', 'Only if it is empty'], ['submit', 'Delete queue'], ['see', 'not empty'], ['press', 'Escape'],
    ['open', 'queues/%2F/empty'], ['click', 'Delete'], ['check', 'Only if it is empty'], ['submit', 'Delete queue'], ['heading', 'Queues'], ['gone', 'empty'],
    ['api', 'DELETE', 'queues/%2F/quorum'], ['api', 'DELETE', 'queues/%2F/orders'], ['api', 'DELETE', 'queues/%2F/dead'], ['api', 'DELETE', 'policies/%2F/dead']
  ],
  19: [
    ['open', 'vhosts'], ['click', 'Add virtual host'], ['submit', 'Add virtual host', { Name: 'shop' }], ['row', 'shop'],
    ['open', 'users'], ['click', 'Add user'], ['submit', 'Add user', { Name: 'shop', 'The password': 'first' }], ['row', 'shop'],
    ['open', 'users/shop'], ['click', 'Set permission'], ['submit', 'Set permission', { 'Virtual host': 'shop', Configure: '^shop-' }], ['row', 'shop', '^shop-']
  ],
  20: [
    ['open', 'users/shop'], ['click', 'Try a password'], ['submit', 'Try', { 'The password': 'first' }], ['see', 'It fits.'],
    ['submit', 'Try', { 'The password': 'wrong' }], ['see', 'It does not fit.']
  ],
  21: [
    ['open', 'users/shop'], ['click', 'Change'], ['choose', 'Password', 'password'], ['submit', 'Change user', { 'The password': 'second' }],
    ['click', 'Try a password'], ['submit', 'Try', { 'The password': 'second' }], ['see', 'It fits.']
  ],
  22: [['open', 'vhosts/shop'], ['row', 'shop', '^shop-']],
  23: [
    ['open', 'users'], ['click', 'Add user'], ['submit', 'Add user', { Name: 'watcher', 'The password': 'secret', Tags: 'monitoring' }], ['row', 'watcher', 'monitoring']
  ],
  24: [['open', 'users'], ['row', 'guest', 'administrator']],
  25: [
    ['open', 'limits'], ['click', 'Set limit', 'Of users'], ['submit', 'Set limit', { User: 'shop', Limit: 'max-connections', 'At most': '2' }], ['row', 'shop', 'max-connections', '2']
  ],
  26: [['open', 'limits'], ['click', 'Clear', 'shop'], ['submit', 'Clear limit'], ['gone', 'shop', 'max-connections']],
  27: [
    ['open', 'users/shop'], ['click', 'Set topic permission'], ['submit', 'Set topic permission', { 'Virtual host': 'shop', Exchange: 'amq.topic', Write: '^orders' }], ['row', 'amq.topic', '^orders']
  ],
  28: [
    ['open', 'users/shop'], ['click', 'Change'], ['submit', 'Change user', { Password: 'none' }],
    ['click', 'Close connections'], ['submit', 'Close connections', { Reason: 'locked out' }],
    ['click', 'Try a password'], ['submit', 'Try', { 'The password': 'second' }], ['see', 'It does not fit.']
  ],
  29: [
    ['api', 'PUT', 'permissions/shop/guest', { configure: '.*', write: '.*', read: '.*' }],
    ['open', 'limits'], ['click', 'Set limit', 'Of virtual hosts'], ['submit', 'Set limit', { 'Virtual host': 'shop', Limit: 'max-queues', 'At most': '1' }], ['row', 'shop', 'max-queues', '1'],
    ['open', 'queues?vhost=shop'], ['click', 'Add queue'], ['submit', 'Add queue', { 'Virtual host': 'shop', Name: 'a' }], ['row', 'shop', 'a'],
    ['click', 'Add queue'], ['submit', 'Add queue', { 'Virtual host': 'shop', Name: 'b' }], ['see', "queue limit in vhost 'shop' (1) is reached"], ['press', 'Escape'],
    ['open', 'limits'], ['click', 'Clear', 'shop'], ['submit', 'Clear limit'], ['gone', 'shop', 'max-queues']
  ],
  30: [
    ['open', 'vhosts/shop'], ['click', 'Change'], ['submit', 'Change virtual host', { 'Default queue type': 'quorum' }], ['see', 'quorum'],
    ['open', 'queues?vhost=shop'], ['click', 'Add queue'], ['submit', 'Add queue', { 'Virtual host': 'shop', Name: 'safe' }], ['row', 'safe', 'quorum']
  ],
  31: [['open', 'vhosts/shop'], ['click', 'Protect'], ['submit', 'Protect'], ['disabled', 'Delete']],
  32: [
    ['open', 'vhosts/shop'], ['click', 'End protection'], ['submit', 'End protection'], ['click', 'Delete'], ['submit', 'Delete virtual host'], ['heading', 'Virtual hosts'], ['gone', 'shop']
  ],
  33: [
    ['open', 'users/shop'], ['click', 'Delete'], ['submit', 'Delete user'], ['heading', 'Users'], ['gone', 'shop'],
    ['open', 'users/watcher'], ['click', 'Delete'], ['submit', 'Delete user'], ['heading', 'Users'], ['gone', 'watcher']
  ],
  34: [['open', 'nodes/$NODE'], ['click', 'Check now'], ['row', 'Takes clients', 'passed'], ['row', 'No alarm in the cluster', 'passed']],
  35: [['open', ''], ['see', 'Leveret'], ['row', '$NODE', 'running']],
  36: [['open', ''], ['row', 'amqp', '127.0.0.1'], ['row', 'stream', '127.0.0.1'], ['row', 'http/prometheus', '127.0.0.1']],
  37: [
    ['api', 'PUT', 'queues/%2F/work', { durable: true }], ['consumer', 'work'], ['open', 'queues/%2F/work?why=true'],
    ['see', 'Every consumer has as many unacknowledged messages'], ['row', 'stuck', 'full']
  ],
  38: [
    ['open', 'queues/%2F/work?why=true'], ['follow', '127.0.0.1'], ['click', 'Close'], ['submit', 'Close connection', { Reason: 'stuck' }], ['heading', 'Connections'],
    ['open', 'queues/%2F/work'], ['stat', 'Unacked', '0'], ['stat', 'Ready', '3']
  ],
  39: [['open', 'nodes/$NODE'], ['click', /^Disk limit/], ['submit', 'Set limit', { Bytes: '20000000' }], ['is', 'nodes/$NODE', 'disk_free_limit', 20000000]],
  40: [['open', 'nodes/$NODE'], ['click', /^Memory limit/], ['submit', 'Set limit', { Bytes: '2000000000' }], ['is', 'nodes/$NODE', 'mem_limit', 2000000000]],
  41: [['open', 'nodes/$NODE'], ['row', 'Program']],
  42: [
    ['open', 'nodes/$NODE'], ['click', 'New clients'], ['submit', 'Set', { 'New clients are': 'no' }], ['gone', 'Set:'],
    ['click', 'New clients'], ['submit', 'Set', { 'New clients are': 'yes' }]
  ],
  43: [
    ['open', 'nodes/$NODE'], ['click', 'Clients'], ['submit', 'Set', { 'The node serves clients': 'no' }], ['click', 'Check now'], ['row', 'Takes clients', 'failed'],
    ['click', 'Clients'], ['submit', 'Set', { 'The node serves clients': 'yes' }], ['is', 'health/checks/is-in-service', 'status', 'ok']
  ],
  44: [
    ['open', 'nodes/$NODE'], ['click', 'Log level'], ['submit', 'Set level', { Level: 'debug' }], ['see', 'Set level: done.'], ['click', 'Log level'], ['submit', 'Set level', { Level: 'info' }]
  ],
  45: [['open', 'nodes/$NODE?config=true'], ['row', 'heartbeat', '60']],
  46: [['open', 'nodes/$NODE'], ['click', 'Check now'], ['row', 'Certificates last another month', 'passed']],
  47: [['open', 'cluster'], ['click', 'Rename'], ['submit', 'Rename', { Name: 'hares' }], ['is', 'cluster-name', 'name', 'hares']],
  48: [
    ['open', 'definitions'], ['save', 'Save the file'], ['open', 'queues/%2F/work'], ['click', 'Delete'], ['submit', 'Delete queue'], ['heading', 'Queues'], ['gone', 'work'],
    ['open', 'definitions'], ['load', 'File'], ['click', 'Import'], ['see', 'Imported.'], ['is', 'queues/%2F/work', 'name', 'work'], ['api', 'DELETE', 'queues/%2F/work']
  ],
  49: [
    ['open', 'vhosts/%2F'], ['click', 'Change'], ['check', 'Firehose'], ['submit', 'Change virtual host'], ['is', 'vhosts/%2F', 'tracing', true],
    ['click', 'Change'], ['uncheck', 'Firehose'], ['submit', 'Change virtual host'], ['is', 'vhosts/%2F', 'tracing', false]
  ],
  50: [['open', 'nodes/$NODE'], ['save', 'Save a report'], ['saved', 'overview', 'queues', 'users', 'config/effective']],
  51: [
    ['open', 'nodes/$NODE'], ['click', 'Stop node'], ['submit', 'Stop node'], ['see', 'The node does not answer. The figures are'], ['press', 'Escape'],
    ['broker', 'stop'], ['broker', 'start'], ['unsee', 'The node does not answer. The figures are']
  ]
}

// Those that need three nodes: `at` one of them, whose page is shown; `$NODE1` to `$NODE3` by name.
const QUEUE = 'queues/%2F/orders'
export const CLUSTER_STORIES = {
  52: [
    ['open', 'nodes'], ['row', '$NODE1', 'running'], ['row', '$NODE2', 'running'], ['row', '$NODE3', 'running'], ['open', 'cluster'], ['row', '$NODE3', 'up', 'yes']
  ],
  53: [
    ['api', 'PUT', QUEUE, { durable: true, arguments: { 'x-queue-type': 'quorum' } }],
    ['open', QUEUE], ['row', '$NODE1', 'voter'], ['row', '$NODE2', 'voter'], ['row', '$NODE3', 'voter'], ['row', 'leader', 'voter']
  ],
  54: [['open', QUEUE], ['click', 'Move leader here', '$NODE2'], ['submit', 'Move leader'], ['is', QUEUE, 'leader', '$NODE2'], ['row', '$NODE2', 'leader']],
  55: [['at', 2], ['open', 'nodes/$NODE2'], ['click', 'Check now'], ['row', 'No quorum queue needs this node', 'passed']],
  56: [['node', 3, 'stop'], ['open', 'cluster'], ['row', '$NODE3', 'down'], ['open', 'nodes'], ['row', '$NODE3', 'no answer'], ['row', '$NODE2', 'running']],
  57: [
    ['open', QUEUE], ['click', 'Publish'], ['submit', 'Publish', { Body: 'x' }], ['see', 'Published.'], ['press', 'Escape'], ['row', '$NODE3', 'down'],
    ['open', 'nodes/$NODE1'], ['click', 'Check now'], ['row', 'No quorum queue needs this node', 'failed']
  ],
  58: [['node', 3, 'start'], ['open', 'cluster'], ['row', '$NODE3', 'up'], ['at', 3], ['open', 'queues'], ['row', 'orders', '1']],
  59: [['open', 'cluster'], ['click', 'Rebalance leaders'], ['submit', 'Rebalance'], ['see', 'Rebalance: done.']],
  60: [
    ['node', 3, 'stop'], ['open', 'cluster'], ['row', '$NODE3', 'down'], ['click', 'Forget', '$NODE3'], ['submit', 'Forget node'], ['gone', '$NODE3'],
    ['open', QUEUE], ['row', '$NODE1', 'voter'], ['row', '$NODE2', 'voter'], ['gone', '$NODE3']
  ]
}
