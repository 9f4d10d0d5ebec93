// Connections, channels, consumers.

import { path, usePoll } from '../api.js'
import { below, Chart, RangeChoice, useHistory, usePast } from '../charts.js'
import {
  ApiNote, askFirst, Badge, Button, bytes, count, duration, Failure, Facts, Fields, go, Head, html, List, Loading, Name, rate, Section, shown,
  State, Table, when, yesNo
} from '../parts.js'
import { Pairs } from './pairs.js'
import { OfConnection } from './streams.js'

const connectionName = (row) => row.name
const label = (row) => row.user_provided_name ? html` <small><bdi>${shown(row.user_provided_name)}</bdi></small>` : null

const CONNECTIONS = [
  { id: 'name', title: 'Name', sort: 'name', fields: ['name', 'user_provided_name'], cell: (c) => html`<${Name} name=${c.name} at=${['connections', c.name]} />${label(c)}` },
  { id: 'user', title: 'User', sort: 'user', cell: (c) => html`<${Name} name=${c.user} />` },
  { id: 'vhost', title: 'Virtual host', sort: 'vhost', cell: (c) => html`<${Name} name=${c.vhost} />` },
  { id: 'state', title: 'State', sort: 'state', cell: (c) => html`<${State} state=${c.state} />` },
  { id: 'tls', title: 'TLS', sort: 'ssl', fields: ['ssl', 'ssl_protocol'], cell: (c) => c.ssl ? c.ssl_protocol ?? 'yes' : 'no' },
  { id: 'protocol', title: 'Protocol', sort: 'protocol', cell: (c) => c.protocol },
  { id: 'channels', title: 'Channels', number: true, sort: 'channels', cell: (c) => count(c.channels) },
  { id: 'received', title: 'From client', number: true, sort: 'recv_oct_details.rate', cell: (c) => `${bytes(c.recv_oct_details?.rate)}/s` },
  { id: 'sent', title: 'To client', number: true, sort: 'send_oct_details.rate', cell: (c) => `${bytes(c.send_oct_details?.rate)}/s` },
  { id: 'pending', title: 'Waiting to be sent', number: true, hidden: true, sort: 'send_pend', cell: (c) => bytes(c.send_pend) },
  { id: 'heartbeat', title: 'Heartbeat', number: true, hidden: true, sort: 'timeout', cell: (c) => `${c.timeout} s` },
  { id: 'mechanism', title: 'Mechanism', hidden: true, sort: 'auth_mechanism', cell: (c) => c.auth_mechanism },
  { id: 'connected', title: 'Connected', hidden: true, sort: 'connected_at', cell: (c) => when(c.connected_at) },
  { id: 'node', title: 'Node', hidden: true, sort: 'node', cell: (c) => html`<bdi>${c.node}</bdi>` }
]

export function Connections ({ segments }) {
  if (segments.length) return html`<${Connection} name=${segments[0]} />`
  return html`<${Head} title="Connections" />
    <${List} label="Connections" address="connections" vhosts=${false} always=${['name']} keyOf=${connectionName} columns=${CONNECTIONS} empty="No client is connected." />`
}

function Connection ({ name }) {
  const address = path('connections', name)
  const { data: c, error, at } = usePoll(address)
  const past = usePast(address, { received: 'recv_oct', sent: 'send_oct' }, {})
  const history = useHistory(address, at, { received: c?.recv_oct, sent: c?.send_oct }, {}, past)
  if (!c) return html`<${Head} kind="Connection" title=${html`<bdi>${shown(name)}</bdi>`} />${error ? html`<${Failure} error=${error} />` : html`<${Loading} />`}`
  const close = () => askFirst({
    title: 'Close this connection?',
    explanation: html`The client <bdi class="name">${shown(name)}</bdi> is told why and disconnected. Most clients connect again by themselves.`,
    label: 'Close connection',
    reason: true,
    request: (values) => ({ method: 'DELETE', address, reason: values.reason }),
    done: () => go(['connections'])
  })
  return html`
    <${Head} kind="Connection" title=${html`<bdi>${shown(name)}</bdi>`}><${RangeChoice} /><${Button} kind="danger" onClick=${close}>Close</></>
    ${error && html`<${Failure} error=${error} />`}
    <div class="charts"><${Chart} title="Traffic" unit="bytes" history=${history} lines=${[{ name: 'received', label: 'From client/s', fill: true }, { name: 'sent', label: 'To client/s' }]} /></div>
    <${Section} title="Details"><${Facts} rows=${[
      ['User', html`<bdi>${shown(c.user)}</bdi>`], ['Virtual host', html`<bdi>${shown(c.vhost)}</bdi>`], ['State', html`<${State} state=${c.state} />`],
      ['Node', html`<bdi>${c.node}</bdi>`], ['Protocol', c.protocol], ['Mechanism', c.auth_mechanism], ['Connected', when(c.connected_at)],
      ['Heartbeat', `${c.timeout} s`], ['Largest frame', bytes(c.frame_max)], ['Channels at most', count(c.channel_max)],
      ['TLS', c.ssl ? `${c.ssl_protocol ?? ''} ${c.ssl_cipher ?? ''}` : 'no'], c.peer_cert_subject && ['Certificate', html`<bdi>${shown(c.peer_cert_subject)}</bdi>`],
      ['Received', bytes(c.recv_oct)], ['Sent', bytes(c.send_oct)], ['Waiting to be sent', bytes(c.send_pend)]]} /></>
    ${c.protocol === 'stream'
      ? html`<${OfConnection} vhost=${c.vhost} name=${name} />`
      : html`<${Section} title="Channels"><${List} part="channels-" label="Channels" address=${`${address}/channels`} vhosts=${false} search="Filter channels by name" keyOf=${connectionName} columns=${CHANNELS.filter((one) => !one.hidden && !['user', 'vhost'].includes(one.id))} empty="It has no channel." /></>`}
    <${Section} title="What the client says of itself"><${Fields} of=${c.client_properties} /></>
    <${ApiNote} address=${address} />`
}

const CHANNELS = [
  { id: 'name', title: 'Channel', sort: 'name', cell: (c) => html`<${Name} name=${c.name} at=${['channels', c.name]} />` },
  { id: 'user', title: 'User', sort: 'user', cell: (c) => html`<${Name} name=${c.user} />` },
  { id: 'vhost', title: 'Virtual host', hidden: true, sort: 'vhost', cell: (c) => html`<${Name} name=${c.vhost} />` },
  {
    id: 'mode',
    title: 'Mode',
    fields: ['confirm', 'transactional'],
    cell: (c) => html`${c.confirm && html`<${Badge} title="Publishes are confirmed">confirms</>`} ${c.transactional && html`<${Badge}>transactions</>`}`
  },
  { id: 'state', title: 'State', sort: 'state', cell: (c) => html`<${State} state=${c.state} />` },
  { id: 'consumers', title: 'Consumers', number: true, sort: 'consumer_count', cell: (c) => count(c.consumer_count) },
  { id: 'prefetch', title: 'Prefetch', number: true, sort: 'prefetch_count', fields: ['prefetch_count', 'global_prefetch_count'], cell: (c) => `${c.prefetch_count || '∞'}${c.global_prefetch_count ? ` (${c.global_prefetch_count} for the channel)` : ''}` },
  { id: 'unacked', title: 'Unacked', number: true, sort: 'messages_unacknowledged', cell: (c) => count(c.messages_unacknowledged) },
  { id: 'unconfirmed', title: 'Unconfirmed', number: true, sort: 'messages_unconfirmed', cell: (c) => count(c.messages_unconfirmed) },
  { id: 'publish', title: 'Published', number: true, sort: 'message_stats.publish_details.rate', cell: (c) => rate(c.message_stats?.publish_details?.rate) },
  { id: 'confirm', title: 'Confirmed', number: true, hidden: true, sort: 'message_stats.confirm_details.rate', cell: (c) => rate(c.message_stats?.confirm_details?.rate) },
  { id: 'deliver', title: 'Delivered', number: true, sort: 'message_stats.deliver_get_details.rate', cell: (c) => rate(c.message_stats?.deliver_get_details?.rate) },
  { id: 'ack', title: 'Acked', number: true, sort: 'message_stats.ack_details.rate', cell: (c) => rate(c.message_stats?.ack_details?.rate) },
  { id: 'node', title: 'Node', hidden: true, sort: 'node', cell: (c) => html`<bdi>${c.node}</bdi>` }
]

const COUNTERS = ['publish', 'confirm', 'deliver_get', 'ack', 'redeliver']

export function Channels ({ segments }) {
  if (segments.length) return html`<${Channel} name=${segments[0]} />`
  return html`<${Head} title="Channels" />
    <${List} label="Channels" address="channels" vhosts=${false} always=${['name']} keyOf=${connectionName} columns=${CHANNELS} empty="No channel is open." />`
}

function Channel ({ name }) {
  const address = path('channels', name)
  const { data: c, error, at } = usePoll(address)
  const past = usePast(address, below('message_stats', COUNTERS), {})
  const history = useHistory(address, at, Object.fromEntries(COUNTERS.map((one) => [one, c?.message_stats?.[one]])),
    { unacked: c?.messages_unacknowledged, unconfirmed: c?.messages_unconfirmed }, past)
  if (!c) return html`<${Head} kind="Channel" title=${html`<bdi>${shown(name)}</bdi>`} />${error ? html`<${Failure} error=${error} />` : html`<${Loading} />`}`
  const connection = c.connection_details?.name
  return html`
    <${Head} kind="Channel" title=${html`<bdi>${shown(name)}</bdi>`}><${RangeChoice} /></>
    ${error && html`<${Failure} error=${error} />`}
    <div class="charts">
      <${Chart} title="Message rates" history=${history} lines=${[{ name: 'publish', label: 'Published', fill: true }, { name: 'confirm', label: 'Confirmed' }, { name: 'deliver_get', label: 'Delivered' }, { name: 'ack', label: 'Acknowledged' }, { name: 'redeliver', label: 'Redelivered' }]} />
      <${Chart} title="Open" unit="count" history=${history} lines=${[{ name: 'unacked', label: 'Unacked', fill: true }, { name: 'unconfirmed', label: 'Unconfirmed' }]} />
    </div>
    <${Section} title="Details"><${Facts} rows=${[
      ['Connection', html`<${Name} name=${connection} at=${['connections', connection]} />`], ['User', html`<bdi>${shown(c.user)}</bdi>`],
      ['Virtual host', html`<bdi>${shown(c.vhost)}</bdi>`], ['State', html`<${State} state=${c.state} />`], ['Confirms', yesNo(c.confirm)], ['Transactions', yesNo(c.transactional)],
      ['Prefetch of a consumer', c.prefetch_count || 'unlimited'], ['Prefetch of the channel', c.global_prefetch_count || 'unlimited'],
      ['Unacknowledged', count(c.messages_unacknowledged)], ['Unconfirmed', count(c.messages_unconfirmed)], ['Uncommitted', count(c.messages_uncommitted)],
      ['Idle since', c.idle_since ? when(c.idle_since) : '–']]} /></>
    <${Section} title="Consumers"><${Table} label="Consumers" rows=${c.consumer_details ?? []} columns=${CONSUMERS.filter((one) => one.id !== 'channel')} empty="This channel consumes nothing." /></>
    <${Pairs} title="Published to" rows=${c.publishes} side="exchange" empty="This channel has published nothing." />
    <${Pairs} title="Delivered from" rows=${c.deliveries} side="queue" delivered=${true} empty="This channel has no consumer." />
    <${ApiNote} address=${address} />`
}

export const CONSUMERS = [
  { id: 'queue', title: 'Queue', sort: 'queue.name', fields: ['queue'], cell: (c) => html`<${Name} name=${c.queue?.name} at=${['queues', c.queue?.vhost, c.queue?.name]} />` },
  { id: 'channel', title: 'Channel', sort: 'channel_details.name', fields: ['channel_details'], cell: (c) => html`<${Name} name=${c.channel_details?.name ?? ''} at=${['channels', c.channel_details?.name ?? '']} />` },
  { id: 'tag', title: 'Tag', sort: 'consumer_tag', cell: (c) => html`<${Name} name=${c.consumer_tag} />` },
  { id: 'state', title: 'State', sort: 'activity_status', cell: (c) => html`<${State} state=${c.activity_status} />` },
  { id: 'ack', title: 'Acknowledges', sort: 'ack_required', cell: (c) => yesNo(c.ack_required) },
  { id: 'exclusive', title: 'Exclusive', sort: 'exclusive', cell: (c) => yesNo(c.exclusive) },
  { id: 'prefetch', title: 'Prefetch', number: true, sort: 'prefetch_count', cell: (c) => c.prefetch_count || '∞' },
  { id: 'unacked', title: 'Unacked', number: true, sort: 'messages_unacknowledged', cell: (c) => count(c.messages_unacknowledged) },
  { id: 'since', title: 'Oldest unacked', number: true, sort: 'oldest_unacknowledged_at', cell: (c) => c.oldest_unacknowledged_at == null ? '–' : duration(Math.max(0, Date.now() - c.oldest_unacknowledged_at)) },
  { id: 'arguments', title: 'Arguments', cell: (c) => html`<${Fields} of=${c.arguments} />` }
]

export const Consumers = () => html`<${Head} title="Consumers" />
  <${List} label="Consumers" address="consumers" columns=${CONSUMERS} keyOf=${(c) => `${c.channel_details?.pid} ${c.consumer_tag}`} empty="Nobody consumes." />`
