// What is asked when something is wrong: who is held back, what waits to be due, why a queue
// grows, what breaks if a node stops, and what fills its disk.

import { isAdministrator, path, query, useCell, usePoll } from '../api.js'
import {
  ApiNote, askFirst, Badge, Button, bytes, count, duration, Failure, Facts, Head, html, Loading, Name, place, queueAt, rate, Section, setParams, shown, State, Table, when
} from '../parts.js'

// Rows of a table that nobody turns the pages of.
const ROWS_MAX = 200

export const first = (rows) => rows.slice(0, ROWS_MAX)

export const More = ({ of }) => of > ROWS_MAX ? html`<p class="quiet">The first ${count(ROWS_MAX)} of ${count(of)} are shown.</p>` : null

const client = { title: 'Connection', cell: (row) => html`<${Name} name=${row.connection ?? row.name ?? ''} at=${['connections', row.connection ?? row.name ?? '']} />` }
const user = { title: 'User', cell: (row) => html`<${Name} name=${row.user ?? ''} />` }
const node = { title: 'Node', cell: (row) => html`<bdi>${row.node ?? '–'}</bdi>` }

// A section that asks the node once somebody wants to know, and then every second; that it is open
// stands in the address bar.
export function Asked ({ title, label, name, address, show }) {
  const isOpen = useCell(place).params.get(name) === 'true'
  const { data, error } = usePoll(isOpen ? address : null)
  const toggle = () => setParams({ [name]: isOpen ? '' : 'true' })
  return html`<${Section} title=${title} tools=${html`<${Button} aria-expanded=${isOpen} onClick=${toggle}>${isOpen ? 'Hide' : label}</>`}>
    ${isOpen && html`<${Failure} error=${error} />${data ? show(data) : !error && html`<${Loading} />`}<${ApiNote} address=${address} />`}</>`
}

const Advice = ({ rows }) => html`<ul class="advice">${rows.filter(Boolean).map(([kind, sentence]) => html`<li class=${kind}>${sentence}</li>`)}</ul>`

// ---- why a queue grows

const WEIGHTS = { no_leader: 'bad', no_consumers: 'bad', nothing_acknowledged: 'bad', not_growing: 'good', single_active: '' }

export const Why = ({ vhost, name }) => html`<${Asked} title="Why does this queue grow?" label="Ask the node" name="why"
  address=${path('leveret', 'queues', vhost, name, 'growth')} show=${(found) => html`<${Cause} found=${found} />`} />`

function Cause ({ found }) {
  const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`
  return html`
    <${Advice} rows=${[found.alarm && ['bad', 'A node is short of memory or disk: publishers are held back.'],
      ...found.findings.map((one) => [WEIGHTS[one.finding] ?? 'warn', sentence(one.says)])]} />
    <${Facts} rows=${[['In', rate(found.published_per_second)], ['Delivered', rate(found.delivered_per_second)], ['Acknowledged', rate(found.acknowledged_per_second)],
      ['Redelivered', rate(found.redelivered_per_second)], ['Change', rate(found.messages_per_second)]]} />
    <h3>Consumers, the slowest first</h3>
    <${Table} label="Consumers, the slowest first" rows=${first(found.consumers)} keyOf=${(row) => `${row.channel} ${row.consumer_tag}`} empty="Nobody consumes." columns=${[
      client, { title: 'Tag', cell: (row) => html`<${Name} name=${row.consumer_tag} />` }, user,
      { title: 'State', cell: (row) => html`<${State} state=${row.activity_status} />${row.full ? html` <${Badge} kind="warn">full</>` : ''}` },
      { title: 'Prefetch', number: true, cell: (row) => row.prefetch_count || '∞' },
      { title: 'Unacked', number: true, cell: (row) => count(row.channel_unacknowledged) },
      { title: 'Oldest unacked', number: true, cell: (row) => row.oldest_unacknowledged_at == null ? '–' : duration(Math.max(0, Date.now() - row.oldest_unacknowledged_at)) },
      { title: 'Acked', number: true, cell: (row) => rate(row.acks_per_second) }
    ]} /><${More} of=${found.consumers.length} />
    <h3>Publishers of what comes here, the fastest first</h3>
    <${Table} label="Publishers of what comes here, the fastest first" rows=${first(found.publishers)} keyOf=${(row) => `${row.channel} ${row.exchange}`} empty="Nobody publishes to it." columns=${[
      client, user, node, { title: 'Exchange', cell: (row) => html`<${Name} name=${row.exchange ?? ''} />` }, { title: 'Published', number: true, cell: (row) => rate(row.publishes_per_second) }, { title: 'Unconfirmed', number: true, cell: (row) => count(row.unconfirmed) }
    ]} /><${More} of=${found.publishers.length} />`
}

// ---- what breaks if a node stops

export const Impact = ({ name }) => html`<${Asked} title="If this node stops" label="What would break?" name="impact"
  address=${path('leveret', 'nodes', name, 'impact')} show=${(found) => html`<${Breakage} found=${found} />`} />`

function Breakage ({ found }) {
  const kinds = [['Unusable until it is back', found.queues_gone], ['Without a majority', found.queues_without_majority], ['Going on elsewhere', found.queues_going_on]]
  const rows = kinds.flatMap(([fate, { queues }]) => queues.map((queue) => ({ fate, ...queue })))
  const [gone, still, goesOn] = kinds.map(([, { count: many }]) => many)
  return html`
    <${Advice} rows=${[
      found.harmless && ['good', 'No queue stands still, and things can still be declared.'],
      found.declarations_stop && ['bad', 'Nothing can be declared or deleted until it is back: the catalogue has no majority without it.'],
      gone > 0 && ['bad', `${count(gone)} queues live here alone: nobody can use them until it is back.`],
      still > 0 && ['bad', `${count(still)} queues lose their majority: they stand still until it is back.`],
      goesOn > 0 && ['', `${count(goesOn)} queues go on with a replica less.`],
      ['', `${count(found.connections_closed)} connections are closed.`]]} />
    <${Table} label="Queues that this node has" rows=${first(rows)} keyOf=${(row) => `${row.vhost} ${row.name}`} empty="It has no queue." columns=${[
      { title: 'Queue', cell: (row) => html`<${Name} name=${row.name} at=${queueAt(row)} />` },
      { title: 'Virtual host', cell: (row) => html`<${Name} name=${row.vhost} />` }, { title: 'Type', cell: (row) => row.type },
      { title: 'What becomes of it', cell: (row) => row.fate }
    ]} /><${More} of=${gone + still + goesOn} />`
}

// ---- what fills a node's disk

export const Disk = ({ name }) => html`<${Asked} title="What is on its disk" label="Show" name="disk"
  address=${path('leveret', 'disk', name)} show=${(found) => html`<${Filled} found=${found} />`} />`

const Filled = ({ found }) => html`
  <${Facts} rows=${[['Free', bytes(found.disk_free)], ['Alarm below', bytes(found.disk_free_limit)],
    ['Write-ahead log', `${bytes(found.wal_bytes)} in ${count(found.wal_files)} files`], ['Segments', `${bytes(found.segment_bytes)} in ${count(found.segment_files)} files`],
    ['Of segments, still needed', bytes(found.segment_live_bytes)], ['Streams', `${bytes(found.stream_bytes)} in ${count(found.stream_files)} files`],
    ['Set aside as damaged', found.set_aside_files > 0 && html`${bytes(found.set_aside_bytes)} in ${count(found.set_aside_files)} files: <bdi>${found.set_aside_folder}</bdi>`]]} />
  <h3>What keeps it, the largest first</h3>
  <${Table} label="Queues by what they keep" rows=${first(found.queues)} keyOf=${(row) => `${row.vhost} ${row.name}`} empty="No queue has anything on the disk." columns=${[
    { title: 'Queue', cell: (row) => html`<${Name} name=${row.name} at=${queueAt(row)} />` },
    { title: 'Virtual host', cell: (row) => html`<${Name} name=${row.vhost} />` }, { title: 'Type', cell: (row) => row.type },
    { title: 'Entries', number: true, cell: (row) => count(row.entries) }, { title: 'Bytes', number: true, cell: (row) => bytes(row.bytes) },
    { title: 'In segments', number: true, cell: (row) => `${count(row.segment_entries)} (${bytes(row.segment_bytes)})` }
  ]} /><${More} of=${found.queues.length} />`

// ---- alarms, and whom they hold back

const HELD_BACK = [client, user, { title: 'Virtual host', cell: (row) => html`<${Name} name=${row.vhost} />` }, node,
  { title: 'State', cell: (row) => html`<${State} state=${row.state} />` }, { title: 'Channels', number: true, cell: (row) => count(row.channels) },
  { title: 'Connected', cell: (row) => when(row.connected_at) }]

export function HeldBack ({ rows }) {
  return html`<${Section} title=${`Connections that are held back: ${count(rows.length)}`}>
    <${Table} label="Connections that are held back" rows=${first(rows)} columns=${HELD_BACK} keyOf=${(row) => row.name} empty="Nobody is held back." />
    <${More} of=${rows.length} /></>`
}

// On the overview: only while there is an alarm.
export function HeldBackNow () {
  const { data } = usePoll('leveret/alarms')
  return data && html`<${HeldBack} rows=${data.held_back} /><${ApiNote} address="leveret/alarms" />`
}

export function Alarms () {
  const { data, error } = usePoll('leveret/alarms')
  const alarm = (on) => on ? html`<${Badge} kind="bad">alarm</>` : html`<${Badge} kind="good">none</>`
  return html`<${Head} title="Alarms" />
    <${Failure} error=${error} />
    ${data
      ? html`<${Section} title="Nodes"><${Table} label="Nodes" rows=${data.nodes} keyOf=${(one) => one.name} columns=${[
        { title: 'Name', cell: (one) => html`<${Name} name=${one.name} at=${['nodes', one.name]} />` },
        { title: 'Memory', cell: (one) => alarm(one.mem_alarm) }, { title: 'Used', number: true, cell: (one) => bytes(one.mem_used) }, { title: 'Limit', number: true, cell: (one) => bytes(one.mem_limit) },
        { title: 'Disk', cell: (one) => alarm(one.disk_free_alarm) }, { title: 'Free', number: true, cell: (one) => bytes(one.disk_free) }, { title: 'Limit', number: true, cell: (one) => bytes(one.disk_free_limit) }
      ]} /></><${HeldBack} rows=${data.held_back} />`
      : !error && html`<${Loading} />`}
    <${ApiNote} address="leveret/alarms" />`
}

// ---- messages that are not due yet

function cancel (message) {
  askFirst({
    title: 'Cancel this message?',
    explanation: html`The message for <bdi class="name">${shown(message.exchange)}</bdi> with key <bdi class="name">${shown(message.routing_key || ' ')}</bdi>, due ${when(message.due)}, is dropped. It never reaches a queue.`,
    label: 'Cancel message',
    request: { method: 'DELETE', address: path('leveret', 'delayed', message.id) }
  })
}

const DUE = [
  { title: 'Due', cell: (row) => html`${when(row.due)} <small>in ${duration(Math.max(0, new Date(row.due) - Date.now()))}</small>` },
  { title: 'Exchange', cell: (row) => html`<${Name} name=${row.exchange} at=${['exchanges', row.vhost, row.exchange]} />` },
  { title: 'Virtual host', cell: (row) => html`<${Name} name=${row.vhost} />` },
  { title: 'Routing key', cell: (row) => html`<bdi class="value">${shown(row.routing_key || ' ')}</bdi>` },
  { title: 'Body', cell: (row) => html`<bdi class="value">${shown(row.payload || ' ')}</bdi>${row.payload_bytes > row.payload.length ? '…' : ''} <small>${bytes(row.payload_bytes)}</small>` },
  node,
  { title: '', cell: (row) => html`<${Button} kind="small" aria-label=${`Cancel the message with key ${shown(row.routing_key || ' ')}`} onClick=${() => cancel(row)}>Cancel</>` }
]

// Those that are due first, of some of them; `from` is where to go on. The address bar keeps that.
function useDelayed (only, isWanted = true) {
  const from = useCell(place).params.get('from') ?? ''
  const address = 'leveret/delayed' + query({ ...only, from, limit: ROWS_MAX, truncate: 64 })
  return { from, address, ...usePoll(isWanted ? address : null, true) }
}

function DelayedTable ({ from, address, data }) {
  const { total_count: total, nodes, silent_nodes: silent, next, messages } = data
  return html`
    <p class="quiet">${count(total)} messages are kept back: ${nodes.map((one) => `${count(one.total_count)} on ${one.name}`).join(', ')}.</p>
    ${silent.length > 0 && html`<p class="failure" role="alert">${silent.join(', ')} did not tell. What is kept back there is not shown.</p>`}
    <${Table} label="Delayed messages" rows=${messages} columns=${DUE} keyOf=${(row) => row.id}
      empty=${next ? 'None of those that were looked at.' : from ? 'No message waits that is due later.' : 'No message waits for its time.'} />
    ${(from || next) && html`<nav class="pages" aria-label="By when they are due">
      <${Button} disabled=${!from} onClick=${() => setParams({ from: '' })}>The first</><${Button} disabled=${!next} onClick=${() => setParams({ from: next })}>Later ones</></nav>`}
    <${ApiNote} address=${address} />`
}

export function Delayed () {
  const found = useDelayed({})
  return html`<${Head} title="Delayed messages" />
    <${Failure} error=${found.error} />
    ${found.data ? html`<${Section}><${DelayedTable} ...${found} /></>` : !found.error && html`<${Loading} />`}`
}

// Those of an exchange of a virtual host, or on their way to a queue there; nothing where none is, unless they are always shown.
export function DelayedOf ({ vhost, exchange, queue, always = false }) {
  const found = useDelayed({ vhost, exchange, queue }, isAdministrator())
  const { from, data } = found
  if (!data || (!always && !from && !data.next && data.messages.length === 0)) return null
  return html`<${Section} title="Delayed messages"><${DelayedTable} ...${found} /></>`
}
