// Streams: the list, one with its replicas, publishers, consumers and stored offsets; super streams.

import { isAdministrator, path, query, usePoll } from '../api.js'
import { below, Chart, newest, RangeChoice, useHistory, usePast } from '../charts.js'
import {
  ApiNote, askFirst, Badge, Button, bytes, compact, count, Failure, Facts, Fields, go, Head, html,
  List, Loading, Name, openForm, rate, Section, shown, Stat, State, Stats, Table, useVhosts
} from '../parts.js'
import { CONSUMERS as QUEUE_CONSUMERS } from './clients.js'
import { AllGroups, Groups, Messages } from './browse.js'
import { Bindings, publishForm, vhostField } from './exchanges.js'

const figure = (id, title, field, show = count, hidden) => ({ id, title, number: true, hidden, sort: field, cell: (q) => show(q[field]) })
// RabbitMQ writes -1 where there is none.
const offset = (n) => n == null || n < 0 ? '–' : count(n)

const COLUMNS = [
  { id: 'name', title: 'Name', sort: 'name', cell: (q) => html`<${Name} name=${q.name} at=${['streams', q.vhost, q.name]} />` },
  { id: 'vhost', title: 'Virtual host', sort: 'vhost', cell: (q) => html`<${Name} name=${q.vhost} />` },
  { id: 'state', title: 'State', sort: 'state', cell: (q) => html`<${State} state=${q.state} />` },
  figure('messages', 'Messages', 'messages'),
  figure('bytes', 'Bytes', 'message_bytes', bytes),
  { id: 'publish', title: 'In', number: true, sort: 'message_stats.publish_details.rate', cell: (q) => rate(q.message_stats?.publish_details?.rate) },
  { id: 'publishers', title: 'Publishers', number: true, sort: 'publishers', cell: (q) => count(q.publishers) },
  figure('consumers', 'Consumers', 'consumers'),
  figure('first', 'First offset', 'first_offset', offset),
  figure('committed', 'Committed offset', 'committed_offset', offset),
  figure('segments', 'Segments', 'segments', count, true),
  { id: 'leader', title: 'Leader', sort: 'leader', cell: (q) => html`<bdi>${q.leader ?? '–'}</bdi>` },
  { id: 'online', title: 'Replicas', fields: ['members', 'online'], cell: (q) => q.members ? `${q.online.length} of ${q.members.length}` : '' },
  { id: 'policy', title: 'Policy', hidden: true, sort: 'policy', cell: (q) => q.policy ? html`<${Name} name=${q.policy} />` : '' }
]

export function Streams ({ segments: [vhost, name] }) {
  const vhosts = useVhosts()
  if (name !== undefined) return html`<${Stream} vhost=${vhost} name=${name} />`
  return html`<${Head} title="Streams" />
    <${List} label="Streams" address="queues" only=${{ type: 'stream' }} always=${['name', 'vhost']} keyOf=${(q) => `${q.vhost} ${q.name}`} columns=${COLUMNS}
      empty="There are no streams." tools=${html`<${Button} kind="primary" onClick=${() => addStream(vhosts)}>Add stream</>`} />
    <${SuperStreams} vhosts=${vhosts} /><${AllGroups} />`
}

// Consumers of one stream that are shown.
const READERS_MAX = 500

const RETENTION = [
  { name: 'bytes', label: 'Bytes that it keeps at most', type: 'number', min: 1 },
  { name: 'age', label: 'Age that it keeps at most', hint: 'A number with a unit: Y, M, D, h, m, s; such as 7D.' },
  { name: 'segment', label: 'Bytes of a segment', type: 'number', min: 1, hint: 'What is too old or too much goes by whole segments.' }
]

function retention (v) {
  return {
    ...(v.bytes && { 'x-max-length-bytes': Number(v.bytes) }),
    ...(v.age && { 'x-max-age': v.age }),
    ...(v.segment && { 'x-stream-max-segment-size-bytes': Number(v.segment) })
  }
}

function addStream (vhosts) {
  openForm({
    title: 'Add stream',
    submit: 'Add stream',
    intro: 'A stream keeps its messages after they were read, until it is told to forget them.',
    fields: [vhostField(vhosts), { name: 'name', label: 'Name', required: true }, ...RETENTION],
    request: (v) => ({
      method: 'PUT',
      address: path('queues', v.vhost, v.name),
      body: { durable: true, arguments: { 'x-queue-type': 'stream', ...retention(v) } }
    })
  })
}

function Stream ({ vhost, name }) {
  const address = path('queues', vhost, name)
  const { data: q, error, at } = usePoll(address)
  const consumers = usePoll(path('stream', 'consumers', vhost) + query({ page: 1, page_size: READERS_MAX, name }))
  const tracking = usePoll(path('stream', vhost, name, 'tracking'))
  const past = usePast(address, below('message_stats', ['publish']), { messages: 'messages' })
  const history = useHistory(`stream ${address}`, at, { publish: q?.message_stats?.publish }, { messages: q?.messages }, past)
  const title = html`<bdi>${shown(name)}</bdi>`
  const kind = `Stream in ${shown(vhost)}`
  if (!q) return html`<${Head} kind=${kind} title=${title} />${error ? html`<${Failure} error=${error} />` : html`<${Loading} />`}`
  const readers = (consumers.data?.items ?? []).filter((one) => one.queue?.name === name)
  return html`
    <${Head} kind=${kind} title=${title}><${RangeChoice} /><${Actions} q=${q} address=${address} /></>
    ${error && html`<${Failure} error=${error} />`}
    <${Stats}>
      <${Stat} label="Messages" value=${compact(q.messages)} note=${bytes(q.message_bytes)} />
      <${Stat} label="First offset" value=${offset(q.first_offset)} />
      <${Stat} label="Committed offset" value=${offset(q.committed_offset)} />
      <${Stat} label="In" value=${rate(newest(history, 'publish'))} />
      <${Stat} label="Publishers" value=${count(q.publishers)} />
      <${Stat} label="Consumers" value=${count(q.consumers)} />
      <${Stat} label="Segments" value=${count(q.segments)} />
    </>
    <div class="charts">
      <${Chart} title="Messages" unit="count" history=${history} lines=${[{ name: 'messages', label: 'Kept', fill: true }]} />
      <${Chart} title="Message rates" history=${history} lines=${[{ name: 'publish', label: 'In', fill: true }]} />
    </div>
    <${Section} title="Details"><${Facts} rows=${[
      ['State', html`<${State} state=${q.state} />`], ['Leader', html`<bdi>${q.leader ?? '–'}</bdi>`],
      ['Policy', q.policy && html`<bdi>${shown(q.policy)}</bdi>`], ['Operator policy', q.operator_policy && html`<bdi>${shown(q.operator_policy)}</bdi>`],
      ['Effective policy', html`<${Fields} of=${q.effective_policy_definition} />`], ['Arguments', html`<${Fields} of=${q.arguments} />`]]} /></>
    <${Replicas} q=${q} vhost=${vhost} name=${name} />
    <${Section} title="Publishers"><${List} part="publishers-" label="Publishers" address=${path('stream', 'publishers', vhost, name)} vhosts=${false} search="" columns=${PUBLISHERS}
      keyOf=${(row) => `${row.connection_details?.name} ${row.publisher_id}`} empty="Nobody publishes here by the stream protocol." /></>
    <${Section} title="Consumers"><${Table} label="Consumers" rows=${readers} columns=${CONSUMERS}
      keyOf=${(row) => `${row.connection_details?.name} ${row.subscription_id}`} empty="Nobody reads here by the stream protocol." />
      ${consumers.data?.filtered_count > READERS_MAX && html`<p class="quiet">Of ${count(consumers.data.filtered_count)} consumers of streams of such names the first ${count(READERS_MAX)} are looked at.</p>`}</>
    ${q.consumer_details?.length > 0 && html`<${Section} title="Consumers over AMQP"><${Table} label="Consumers over AMQP" rows=${q.consumer_details}
      keyOf=${(c) => `${c.channel_details?.pid} ${c.consumer_tag}`} columns=${QUEUE_CONSUMERS.filter((one) => one.id !== 'queue')} /></>`}
    <${Tracking} tracking=${tracking.data} vhost=${vhost} name=${name} />
    <${Messages} vhost=${vhost} name=${name} />
    <${Bindings} vhost=${vhost} name=${name} side="queue" address=${`${address}/bindings`} />
    <${ApiNote} address=${address} />`
}

const client = {
  title: 'Connection',
  cell: (row) => html`<${Name} name=${row.connection_details?.name ?? ''} at=${['connections', row.connection_details?.name ?? '']} />`
}
const node = { title: 'Node', cell: (row) => html`<bdi>${row.connection_details?.node ?? '–'}</bdi>` }

const PUBLISHERS = [
  client, node,
  { title: 'Id', number: true, cell: (row) => String(row.publisher_id) },
  { title: 'Reference', cell: (row) => row.reference ? html`<${Name} name=${row.reference} />` : '–' },
  { title: 'Published', number: true, cell: (row) => count(row.published) },
  { title: 'Confirmed', number: true, cell: (row) => count(row.confirmed) },
  { title: 'Refused', number: true, cell: (row) => count(row.errored) }
]

const CONSUMERS = [
  client, node,
  { title: 'Id', number: true, cell: (row) => String(row.subscription_id) },
  { title: 'Name', cell: (row) => row.properties?.name ? html`<${Name} name=${row.properties.name} />` : '–' },
  { title: 'State', cell: (row) => row.activity_status === 'waiting' ? html`<${Badge}>waits its turn</>` : html`<${Badge} kind="good">active</>` },
  { title: 'Offset', number: true, cell: (row) => offset(row.offset) },
  { title: 'Behind', number: true, cell: (row) => count(row.offset_lag) },
  { title: 'Consumed', number: true, cell: (row) => count(row.consumed) },
  { title: 'Credit', number: true, cell: (row) => count(row.credits) }
]

const stream = { title: 'Stream', cell: (row) => html`<${Name} name=${row.queue?.name ?? ''} at=${['streams', row.queue?.vhost ?? '', row.queue?.name ?? '']} />` }
const inConnection = (columns) => [stream, ...columns.slice(2)]

// What a connection of the stream protocol has.
export function OfConnection ({ vhost, name }) {
  const address = (what) => path('stream', 'connections', vhost, name, what)
  return html`
    <${Section} title="Stream publishers"><${List} part="publishers-" label="Stream publishers" address=${address('publishers')} vhosts=${false} search="" columns=${inConnection(PUBLISHERS)}
      keyOf=${(row) => row.publisher_id} empty="It publishes nothing." /></>
    <${Section} title="Stream consumers"><${List} part="consumers-" label="Stream consumers" address=${address('consumers')} vhosts=${false} search="" columns=${inConnection(CONSUMERS)}
      keyOf=${(row) => row.subscription_id} empty="It reads nothing." /></>`
}

function Actions ({ q, address }) {
  const remove = () => askFirst({
    title: 'Delete this stream?',
    explanation: html`<bdi class="name">${shown(q.name)}</bdi> goes, with its ${count(q.messages)} messages and what consumers stored. Nothing brings them back.`,
    label: 'Delete stream',
    request: { method: 'DELETE', address },
    done: () => go(['streams'])
  })
  return html`<${Button} kind="primary" onClick=${() => publishForm({ vhost: q.vhost, exchange: '', key: q.name })}>Publish</><${Button} kind="danger" onClick=${remove}>Delete</>`
}

function Replicas ({ q, vhost, name }) {
  const address = (at) => path('leveret', 'streams', vhost, name, 'replicas', at)
  const add = () => openForm({
    title: 'Add a replica',
    submit: 'Add replica',
    fields: [{ name: 'node', label: 'Node', required: true }],
    request: (v) => ({ method: 'POST', address: address(v.node), body: {} })
  })
  const remove = (at) => askFirst({
    title: 'Remove this replica?',
    explanation: html`The stream is no longer kept on <bdi class="name">${at}</bdi>.`,
    label: 'Remove replica',
    request: { method: 'DELETE', address: address(at) }
  })
  const members = q.members ?? []
  return html`<${Section} title="Replicas" tools=${isAdministrator() && html`<${Button} onClick=${add}>Add replica</>`}>
    <${Table} label="Replicas" rows=${members} keyOf=${(at) => at} columns=${[
      { title: 'Node', cell: (at) => html`<bdi>${at}</bdi>` },
      { title: 'Role', cell: (at) => at === q.leader ? html`<${Badge} kind="good">leader</>` : html`<${Badge}>replica</>` },
      { title: 'State', cell: (at) => q.online?.includes(at) ? html`<${Badge} kind="good">up</>` : html`<${Badge} kind="bad">down</>` },
      { title: 'Readers', number: true, cell: (at) => q.readers?.[at] == null ? '–' : count(q.readers[at]) },
      { title: '', cell: (at) => isAdministrator() && members.length > 1 && at !== q.leader ? html`<${Button} kind="small" onClick=${() => remove(at)}>Remove</>` : '' }
    ]} /></>`
}

// What the stream keeps by name: consumers' offsets, publishers' numbers.
function Tracking ({ tracking, vhost, name }) {
  const store = () => openForm({
    title: 'Store an offset',
    submit: 'Store offset',
    intro: 'A consumer of this name goes on there when it subscribes next; one that is subscribed stays where it is.',
    fields: [{ name: 'consumer', label: 'Consumer', required: true }, { name: 'offset', label: 'Offset', type: 'number', min: 0, required: true }],
    request: (v) => ({ method: 'PUT', address: path('leveret', 'streams', vhost, name, 'offsets', v.consumer), body: { offset: Number(v.offset) } })
  })
  return html`<${Groups} vhost=${vhost} name=${name} tools=${isAdministrator() && html`<${Button} onClick=${store}>Store an offset</>`} />
    <${Section} title="Publishing numbers"><${Table} label="Publishing numbers" rows=${Object.entries(tracking?.writers ?? {})} keyOf=${([writer]) => writer}
      empty="No publisher with a reference has published." columns=${[
        { title: 'Reference', cell: ([writer]) => html`<${Name} name=${writer} />` },
        { title: 'Last number', number: true, cell: ([, number]) => count(number) }
      ]} /></>`
}

function SuperStreams ({ vhosts }) {
  const { data, error } = usePoll('stream/super-streams')
  const add = () => openForm({
    title: 'Add super stream',
    submit: 'Add super stream',
    intro: 'A super stream is several streams, its partitions, and an exchange that gives each message to one of them.',
    fields: [
      vhostField(vhosts),
      { name: 'name', label: 'Name', required: true },
      { name: 'partitions', label: 'Partitions', type: 'number', min: 1, max: 1000, value: '3', required: true },
      ...RETENTION
    ],
    request: (v) => ({
      method: 'PUT',
      address: path('stream', 'super-streams', v.vhost, v.name),
      body: { partitions: Number(v.partitions), arguments: retention(v) }
    })
  })
  const remove = (one) => askFirst({
    title: 'Delete this super stream?',
    explanation: html`<bdi class="name">${shown(one.name)}</bdi> goes, with its ${count(one.partitions.length)} partitions and all of their messages. Nothing brings them back.`,
    label: 'Delete super stream',
    request: { method: 'DELETE', address: path('stream', 'super-streams', one.vhost, one.name) }
  })
  return html`<${Section} title="Super streams" tools=${html`<${Button} onClick=${add}>Add super stream</>`}>
    <${Failure} error=${error} />
    <${Table} label="Super streams" rows=${data ?? []} keyOf=${(one) => `${one.vhost} ${one.name}`} empty="There are no super streams." columns=${[
      { title: 'Name', cell: (one) => html`<${Name} name=${one.name} at=${['exchanges', one.vhost, one.name]} />` },
      { title: 'Virtual host', cell: (one) => html`<${Name} name=${one.vhost} />` },
      {
        title: 'Partitions, with their keys',
        cell: (one) => html`<ul class="fields">${one.partitions.map((part) => html`
          <li><${Name} name=${part.name} at=${['streams', one.vhost, part.name]} />: <bdi class="value">${shown(part.binding_key)}</bdi></li>`)}</ul>`
      },
      { title: '', cell: (one) => html`<${Button} kind="small" aria-label=${`Delete ${shown(one.name)}`} onClick=${() => remove(one)}>Delete</>` }
    ]} /></>`
}
