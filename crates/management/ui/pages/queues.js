// Queues: the list, one with what is done to it.

import { useEffect, useState } from '../vendor/preact-hooks.js'
import { isAdministrator, path, usePoll } from '../api.js'
import { indented } from '../exact.js'
import { below, Chart, newest, RangeChoice, useHistory, usePast } from '../charts.js'
import {
  ApiNote, argumentsOf, askFirst, Badge, Button, bytes, compact, count, download, duration, Failure, Facts, Fields, Form, go, Head, html,
  List, Loading, Name, openDialog, openForm, queueAt, rate, Section, shown, Stat, State, Stats, Table, to, useVhosts, when, yesNo
} from '../parts.js'
import { CONSUMERS } from './clients.js'
import { Bindings, features, publishForm, vhostField } from './exchanges.js'
import { Growth } from './growth.js'
import { Held, Look, moveForm, Moves } from './moves.js'
import { Pairs } from './pairs.js'
import { DelayedOf, first, More, Why } from './trouble.js'

// Of the ready message that has waited longest.
const age = (seconds) => seconds == null ? '–' : duration(seconds * 1000)
const statRate = (name) => (q) => rate(q.message_stats?.[`${name}_details`]?.rate)
const rated = (id, title, name, hidden) => ({ id, title, number: true, hidden, sort: `message_stats.${name}_details.rate`, cell: statRate(name) })
const figure = (id, title, field, show = count, hidden) => ({ id, title, number: true, hidden, sort: field, cell: (q) => show(q[field]) })

const COLUMNS = [
  { id: 'name', title: 'Name', sort: 'name', cell: (q) => html`<${Name} name=${q.name} at=${queueAt(q)} />` },
  { id: 'vhost', title: 'Virtual host', sort: 'vhost', cell: (q) => html`<${Name} name=${q.vhost} />` },
  { id: 'type', title: 'Type', sort: 'type', cell: (q) => q.type },
  { id: 'features', title: 'Features', fields: ['durable', 'auto_delete', 'exclusive', 'arguments'], cell: features },
  { id: 'policy', title: 'Policy', sort: 'policy', cell: (q) => q.policy ? html`<${Name} name=${q.policy} />` : '' },
  { id: 'state', title: 'State', sort: 'state', cell: (q) => html`<${State} state=${q.state} />` },
  figure('ready', 'Ready', 'messages_ready'),
  figure('unacked', 'Unacked', 'messages_unacknowledged'),
  figure('total', 'Total', 'messages'),
  figure('oldest', 'Oldest', 'oldest_message_age', age),
  figure('consumers', 'Consumers', 'consumers'),
  rated('publish', 'In', 'publish'),
  rated('deliver', 'Delivered', 'deliver_get'),
  rated('ack', 'Acked', 'ack'),
  rated('redeliver', 'Redelivered', 'redeliver', true),
  { id: 'change', title: 'Change', number: true, hidden: true, sort: 'messages_details.rate', cell: (q) => `${q.messages_details?.rate > 0 ? '+' : ''}${rate(q.messages_details?.rate)}` },
  figure('bytes', 'Bytes', 'message_bytes', bytes, true),
  figure('persistent', 'Persistent', 'messages_persistent', count, true),
  figure('in_memory', 'In memory', 'messages_ram', count, true),
  figure('memory', 'Memory', 'memory', bytes, true),
  { id: 'capacity', title: 'Consumer capacity', number: true, hidden: true, sort: 'consumer_capacity', cell: (q) => q.consumer_capacity == null ? '–' : `${Math.round(q.consumer_capacity * 100)} %` },
  { id: 'idle', title: 'Idle since', hidden: true, sort: 'idle_since', cell: (q) => q.idle_since ? when(q.idle_since) : '' },
  { id: 'node', title: 'Node', hidden: true, sort: 'node', cell: (q) => html`<bdi>${q.node}</bdi>` },
  { id: 'online', title: 'Replicas', hidden: true, fields: ['members', 'online'], cell: (q) => q.members ? `${q.online.length} of ${q.members.length}` : '' }
]

export function Queues ({ segments: [vhost, name] }) {
  const vhosts = useVhosts()
  if (name !== undefined) return html`<${Queue} vhost=${vhost} name=${name} />`
  return html`<${Head} title="Queues" />
    <${List} label="Queues" address="queues" always=${['name', 'vhost', 'type']} keyOf=${(q) => `${q.vhost} ${q.name}`} columns=${COLUMNS} empty="There are no queues."
      tools=${html`<${Button} kind="primary" onClick=${() => addQueue(vhosts)}>Add queue</>`} />`
}

const ARGUMENTS = [
  ['x-message-ttl', 'number', 'Milliseconds after which a message expires'],
  ['x-expires', 'number', 'Milliseconds without use after which the queue deletes itself'],
  ['x-max-length', 'number', 'Messages that it holds at most'],
  ['x-max-length-bytes', 'number', 'Bytes that it holds at most'],
  ['x-overflow', 'string', 'What becomes of messages beyond: drop-head, reject-publish, reject-publish-dlx', 'reject-publish'],
  ['x-dead-letter-exchange', 'string', 'Where rejected and expired messages go'],
  ['x-dead-letter-routing-key', 'string', 'The key that they go with'],
  ['x-single-active-consumer', 'boolean', 'One consumer at a time', 'true']
]
const CLASSIC_ARGUMENTS = [['x-max-priority', 'number', 'The highest priority, up to 255', '10']]
const QUORUM_ARGUMENTS = [
  ['x-delivery-limit', 'number', 'Deliveries after which a message is dead-lettered', '20'],
  ['x-quorum-initial-group-size', 'number', 'Replicas at first', '3'],
  ['x-dead-letter-strategy', 'string', 'at-most-once or at-least-once', 'at-least-once'],
  ['x-queue-leader-locator', 'string', 'client-local or balanced', 'balanced']
]

const STREAM_ARGUMENTS = [
  ['x-max-length-bytes', 'number', 'Bytes that it keeps at most'],
  ['x-max-age', 'string', 'Age that it keeps at most: a number with a unit, Y, M, D, h, m, s', '7D'],
  ['x-stream-max-segment-size-bytes', 'number', 'Bytes of a segment: what is too old or too much goes by whole segments']
]
const KNOWN = {
  quorum: [...ARGUMENTS, ...QUORUM_ARGUMENTS],
  stream: STREAM_ARGUMENTS
}
const isReplicated = (type) => type === 'quorum' || type === 'stream'

function addQueue (vhosts) {
  openForm({
    title: 'Add queue',
    submit: 'Add queue',
    fields: [
      vhostField(vhosts),
      { name: 'name', label: 'Name', required: true },
      { name: 'type', label: 'Type', type: 'select', options: [['', 'default of the virtual host'], 'classic', 'quorum', 'stream'], hint: 'Quorum queues and streams are replicated over the nodes of a cluster. A stream keeps what was read.' },
      { name: 'durable', label: 'Durable: stays over a restart', type: 'check', value: true, when: (v) => !isReplicated(v.type) },
      { name: 'auto_delete', label: 'Deletes itself with its last consumer', type: 'check', when: (v) => !isReplicated(v.type) },
      { name: 'arguments', label: 'Arguments', type: 'arguments', known: (v) => KNOWN[v.type] ?? [...ARGUMENTS, ...CLASSIC_ARGUMENTS] }
    ],
    request: (v) => ({
      method: 'PUT',
      address: path('queues', v.vhost, v.name),
      body: {
        durable: isReplicated(v.type) || v.durable,
        auto_delete: !isReplicated(v.type) && v.auto_delete,
        arguments: { ...(v.type ? { 'x-queue-type': v.type } : {}), ...argumentsOf(v.arguments) }
      }
    })
  })
}

const COUNTERS = ['publish', 'deliver_get', 'ack', 'redeliver', 'get_empty']

// For how many seconds the consumer has had its oldest unacknowledged message that has had it longest; none where none has any.
function heldFor (q) {
  const since = (q?.consumer_details ?? []).map((one) => one.oldest_unacknowledged_at).filter((at) => at != null)
  return since.length ? Math.max(0, Date.now() - Math.min(...since)) / 1000 : null
}

const LIMITS = ['max-length', 'max-length-bytes', 'message-ttl', 'expires']

// The limits in force: of an argument's and a policy's the lower one, as the node has it. Of a view, how much is kept is its stream's to say.
function limitsOf (q) {
  const { arguments: own = {}, effective_policy_definition: policy } = q
  const isOfStream = own['x-stream-source'] !== undefined
  const limits = (isOfStream ? ['expires'] : LIMITS).map((name) => [name, Math.min(...[own[`x-${name}`], policy?.[name]].filter((one) => typeof one === 'number'))])
  const deliveries = q.type === 'quorum' ? [own['x-delivery-limit'], policy?.['delivery-limit']].filter((one) => typeof one === 'number').map((one) => one < 0 ? Infinity : one) : []
  if (q.type === 'quorum') limits.push(['delivery-limit', deliveries.length ? Math.min(...deliveries) : q.delivery_limit])
  return Object.fromEntries(limits.filter(([, limit]) => limit < Infinity))
}

function Queue ({ vhost, name }) {
  const address = path('queues', vhost, name)
  const { data: q, error, at } = usePoll(address)
  const past = usePast(address, below('message_stats', COUNTERS), { messages: 'messages', ready: 'messages_ready', unacked: 'messages_unacknowledged' })
  const history = useHistory(address, at, Object.fromEntries(COUNTERS.map((one) => [one, q?.message_stats?.[one]])),
    { messages: q?.messages, ready: q?.messages_ready, unacked: q?.messages_unacknowledged, bytes: q?.message_bytes, oldest: q?.oldest_message_age, held: heldFor(q) }, past)
  const title = html`<bdi>${shown(name)}</bdi>`
  const kind = `Queue in ${shown(vhost)}`
  const isStream = q?.type === 'stream'
  useEffect(() => { if (isStream) location.replace(to(queueAt(q))) }, [isStream])
  if (!q || isStream) return html`<${Head} kind=${kind} title=${title} />${error ? html`<${Failure} error=${error} />` : html`<${Loading} />`}`
  return html`
    <${Head} kind=${kind} title=${title}><${RangeChoice} /><${Actions} q=${q} address=${address} /></>
    ${error && html`<${Failure} error=${error} />`}
    <${Stats}>
      <${Stat} label="Ready" value=${compact(q.messages_ready)} />
      <${Stat} label="Unacked" value=${compact(q.messages_unacknowledged)} />
      <${Stat} label="Total" value=${compact(q.messages)} note=${bytes(q.message_bytes)} />
      <${Stat} label="In" value=${rate(newest(history, 'publish'))} />
      <${Stat} label="Delivered" value=${rate(newest(history, 'deliver_get'))} />
      <${Stat} label="Acked" value=${rate(newest(history, 'ack'))} />
      <${Stat} label="Oldest" value=${age(q.oldest_message_age)} />
      <${Stat} label="Consumers" value=${count(q.consumers)} />
    </>
    <div class="charts">
      <${Chart} title="Messages" unit="count" history=${history} lines=${[{ name: 'messages', label: 'Total', fill: true }, { name: 'ready', label: 'Ready' }, { name: 'unacked', label: 'Unacked' }]} />
      <${Chart} title="Message rates" history=${history} lines=${[{ name: 'publish', label: 'In', fill: true }, { name: 'deliver_get', label: 'Delivered' }, { name: 'ack', label: 'Acknowledged' }, { name: 'redeliver', label: 'Redelivered', colour: 5 }]} />
      <${Chart} title="How long messages wait" unit="age" history=${history} lines=${[{ name: 'oldest', label: 'Oldest ready', fill: true }, { name: 'held', label: 'Oldest unacked' }]} />
    </div>
    <${Growth} q=${q} history=${history} />
    <${Why} vhost=${vhost} name=${name} />
    <${Section} title="Details"><${Facts} rows=${[
      ['Type', q.type], ['State', html`<${State} state=${q.state} />`], ['Durable', yesNo(q.durable)], ['Deletes itself', yesNo(q.auto_delete)],
      q.exclusive && ['Exclusive to', html`<bdi>${shown(q.owner_pid_details?.name ?? 'a connection')}</bdi>`],
      ['Policy', q.policy && html`<bdi>${shown(q.policy)}</bdi>`], ['Operator policy', q.operator_policy && html`<bdi>${shown(q.operator_policy)}</bdi>`],
      ['Effective policy', html`<${Fields} of=${q.effective_policy_definition} />`], ['Arguments', html`<${Fields} of=${q.arguments} />`],
      ['Limits in force', html`<${Fields} of=${limitsOf(q)} />`], ['Node', html`<bdi>${q.node}</bdi>`], ['Ready', bytes(q.message_bytes_ready)], ['Unacked', bytes(q.message_bytes_unacknowledged)],
      ['Persistent', count(q.messages_persistent)], ['In memory', `${count(q.messages_ram)} (${bytes(q.message_bytes_ram)})`], ['Memory of the queue', bytes(q.memory)],
      q.oldest_message_age != null && ['Oldest message', when(Date.now() - q.oldest_message_age * 1000)],
      q.messages_dlx > 0 && ['Being dead-lettered', count(q.messages_dlx)], ['Idle since', q.idle_since ? when(q.idle_since) : '–']]} /></>
    ${q.members && html`<${Replicas} q=${q} vhost=${vhost} name=${name} />`}
    <${Section} title="Consumers"><${Table} label="Consumers" rows=${first(q.consumer_details ?? [])} keyOf=${(c) => `${c.channel_details?.pid} ${c.consumer_tag}`} columns=${CONSUMERS.filter((one) => one.id !== 'queue')} empty="Nobody consumes from here." />
      <${More} of=${q.consumer_details?.length ?? 0} /></>
    <${Pairs} title="Comes from" rows=${q.incoming} side="exchange" empty="Nothing has come here from an exchange." />
    <${Pairs} title="Delivered to" rows=${q.deliveries} side="channel_details" delivered=${true} empty="Nobody consumes from here." />
    <${Moves} q=${q} />
    <${DelayedOf} vhost=${vhost} queue=${name} />
    <${Bindings} vhost=${vhost} name=${name} side="queue" address=${`${address}/bindings`} />
    <${ApiNote} address=${address} />`
}

function Actions ({ q, address }) {
  const named = html`<bdi class="name">${shown(q.name)}</bdi>`
  const purge = () => askFirst({
    title: 'Purge this queue?',
    explanation: html`The ${count(q.messages_ready)} messages of ${named} that are ready are deleted. Those that consumers hold stay.`,
    label: 'Purge',
    request: { method: 'DELETE', address: `${address}/contents` }
  })
  const remove = () => openForm({
    title: 'Delete this queue?',
    intro: html`${named} goes, with its ${count(q.messages)} messages and its bindings. Nothing brings them back.`,
    submit: 'Delete queue',
    kind: 'danger',
    fields: [{ name: 'unused', label: 'Only if nobody consumes', type: 'check' }, { name: 'empty', label: 'Only if it is empty', type: 'check' }],
    request: (v) => {
      const only = [v.unused && 'if-unused=true', v.empty && 'if-empty=true'].filter(Boolean).join('&')
      return { method: 'DELETE', address: address + (only && `?${only}`) }
    },
    done: () => go(['queues'])
  })
  return html`
    <${Button} kind="primary" onClick=${() => publishForm({ vhost: q.vhost, exchange: '', key: q.name })}>Publish</>
    <${Button} onClick=${() => openDialog({ title: html`Get from <bdi>${shown(q.name)}</bdi>`, wide: true, body: html`<${GetMessages} address=${address} />` })}>Get messages</>
    <${Button} onClick=${() => openDialog({ title: html`Look into <bdi>${shown(q.name)}</bdi>`, wide: true, body: html`<${Look} q=${q} />` })}>Peek</>
    <${Button} onClick=${() => openDialog({ title: html`Unacknowledged messages of <bdi>${shown(q.name)}</bdi>`, wide: true, body: html`<${Held} q=${q} />` })}>Unacked</>
    <${Button} onClick=${() => moveForm(q)}>Move messages</>
    <${Button} onClick=${purge}>Purge</>
    <${Button} kind="danger" onClick=${remove}>Delete</>`
}

const AFTER_GET = [
  ['ack_requeue_true', 'Put back (nack)'], ['reject_requeue_true', 'Put back (reject)'],
  ['ack_requeue_false', 'Remove (ack)'], ['reject_requeue_false', 'Remove or dead-letter (reject)']
]

function GetMessages ({ address }) {
  const [found, setFound] = useState(null)
  return html`<${Form} submit="Get" stay=${true} message=${(found) => found.length === 0 ? 'The queue gave no message.' : `${count(found.length)} ${found.length === 1 ? 'message' : 'messages'}`}
    fields=${[
      { name: 'count', label: 'How many', type: 'number', value: '1', min: 1, max: 1000, required: true },
      { name: 'ackmode', label: 'And then', type: 'select', options: AFTER_GET, value: 'ack_requeue_true', hint: 'A message that is put back counts as redelivered.' },
      { name: 'encoding', label: 'Bodies', type: 'select', options: [['auto', 'as text where they are UTF-8'], ['base64', 'as bytes']], value: 'auto' }
    ]}
    request=${(v) => ({ method: 'POST', address: `${address}/get`, body: { count: Number(v.count), ackmode: v.ackmode, encoding: v.encoding, truncate: 50000 } })}
    done=${(messages) => setFound(messages)} />
    ${found?.map((one, at) => html`<${Message} key=${at} message=${one} />`)}`
}

// The body of a message as the API shows it: text, or bytes.
function bodyOf ({ payload, payload_encoding: encoding }) {
  if (encoding === 'base64') return Uint8Array.from(atob(payload), (c) => c.charCodeAt(0))
  if (encoding === 'hex') return Uint8Array.from(payload.match(/../g) ?? [], (pair) => parseInt(pair, 16))
  return payload
}

// Bytes, sixteen to a line.
function hex (raw) {
  const lines = []
  for (let at = 0; at < raw.length; at += 16) {
    const row = [...raw.subarray(at, at + 16)]
    const digits = row.map((byte) => byte.toString(16).padStart(2, '0')).join(' ')
    const letters = row.map((byte) => byte >= 32 && byte < 127 ? String.fromCharCode(byte) : '.').join('')
    lines.push(`${at.toString(16).padStart(6, '0')}  ${digits.padEnd(47)}  ${letters}`)
  }
  return lines.join('\n')
}

function pretty (body) {
  if (typeof body !== 'string') return hex(body)
  try {
    JSON.parse(body)
    return indented(body)
  } catch {
    return body
  }
}

export function Message ({ message }) {
  const { headers, ...properties } = message.properties ?? {}
  const body = bodyOf(message)
  return html`<article class="message">
    <${Facts} rows=${[message.offset != null && ['Offset', count(message.offset)], message.timestamp != null && ['Taken', when(message.timestamp)], ['Exchange', html`<bdi>${shown(message.exchange)}</bdi>`], ['Routing key', html`<bdi>${shown(message.routing_key || ' ')}</bdi>`], message.redelivered != null && ['Redelivered', yesNo(message.redelivered)],
      ['Size', bytes(message.payload_bytes)], message.message_count != null && ['Left behind it', count(message.message_count)]]} />
    <div><h3>Properties</h3><${Fields} of=${properties} /></div>
    ${headers && html`<div><h3>Headers</h3><${Fields} of=${headers} /></div>`}
    <div><h3>Body</h3><pre tabindex="0" aria-label="Body">${pretty(body)}</pre></div>
    <div><${Button} kind="small" onClick=${() => download('message', 'application/octet-stream', body)}>Save the body</></div>
  </article>`
}

// The replicas of a quorum queue: their Raft state, and who leads.
function Replicas ({ q, vhost, name }) {
  const status = usePoll(path('queues', 'quorum', vhost, name, 'status'))
  const address = (what) => path('queues', 'quorum', vhost, name, 'replicas', what)
  const rows = status.data ?? q.members.map((node) => ({ 'Node Name': node }))
  const change = (title, submit, request) => openForm({ title, submit, fields: [{ name: 'node', label: 'Node', required: true }], request })
  const transfer = (node) => askFirst({
    title: 'Move the leader?',
    explanation: html`<bdi class="name">${node}</bdi> is asked to lead. Clients notice a short pause at most.`,
    label: 'Move leader',
    request: { method: 'POST', address: 'leveret/cluster/transfer', body: { vhost, queue: name, node } }
  })
  const remove = (node) => askFirst({
    title: 'Remove this replica?',
    explanation: html`The queue is no longer kept on <bdi class="name">${node}</bdi>.`,
    label: 'Remove replica',
    request: { method: 'DELETE', address: address('delete'), body: { node } }
  })
  return html`<${Section} title="Replicas" tools=${isAdministrator() && html`<${Button} onClick=${() => change('Add a replica', 'Add replica', (v) => ({ method: 'POST', address: address('add'), body: { node: v.node } }))}>Add replica</>`}>
    <${Table} label="Replicas" rows=${rows} keyOf=${(row) => row['Node Name']} columns=${[
      { title: 'Node', cell: (row) => html`<bdi>${row['Node Name']}</bdi> ${q.online?.includes(row['Node Name']) ? '' : html`<${Badge} kind="bad">down</>`}` },
      { title: 'Role', cell: (row) => html`<${State} state=${row['Raft State']} />` },
      { title: 'Membership', cell: (row) => row.Membership ?? '–' },
      { title: 'Last entry', number: true, cell: (row) => count(row['Last Log Index']) },
      { title: 'Written', number: true, cell: (row) => count(row['Last Written']) },
      { title: 'Committed', number: true, cell: (row) => count(row['Commit Index']) },
      { title: 'Applied', number: true, cell: (row) => count(row['Last Applied']) },
      { title: 'Term', number: true, cell: (row) => count(row.Term) },
      {
        title: '',
        cell: (row) => isAdministrator() && rows.length > 1 && row['Node Name'] !== q.leader
          ? html`<${Button} kind="small" onClick=${() => transfer(row['Node Name'])}>Move leader here</><${Button} kind="small" onClick=${() => remove(row['Node Name'])}>Remove</>`
          : ''
      }
    ]} /></>`
}
