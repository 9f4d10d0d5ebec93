// The first page: what the cluster carries now.

import { isAdministrator, isMonitor, usePoll } from '../api.js'
import { below, Chart, newest, RangeChoice, useHistory, usePast } from '../charts.js'
import {
  ApiNote, askFirst, Badge, Button, bytes, compact, duration, Failure, Head, html, Loading, Meter, Name, rate, Section, Stat, Stats, Table
} from '../parts.js'
import { HeldBackNow } from './trouble.js'

const COUNTERS = ['publish', 'confirm', 'deliver_get', 'ack', 'redeliver', 'return_unroutable', 'drop_unroutable', 'get_empty']
const CHURN = ['connection_created', 'connection_closed', 'channel_created', 'channel_closed', 'queue_declared', 'queue_created', 'queue_deleted']

const LATENCIES = ['publish_confirm_count', 'publish_confirm_ms', 'publish_deliver_count', 'publish_deliver_ms', 'deliver_ack_count', 'deliver_ack_ms']

const TOTALS = ['messages', 'messages_ready', 'messages_unacknowledged']

const picked = (from, names) => Object.fromEntries(names.map((name) => [name, from?.[name]]))

// The figures of the whole cluster over time; also kept while other pages are shown.
export function useOverview () {
  const { data, error, at } = usePoll('overview')
  const past = usePast('overview', { ...below('message_stats', COUNTERS), ...below('churn_rates', CHURN), ...below('latencies', LATENCIES) },
    below('queue_totals', TOTALS))
  const history = useHistory('overview', at,
    { ...picked(data?.message_stats, COUNTERS), ...picked(data?.churn_rates, CHURN), ...picked(data?.latencies, LATENCIES) },
    picked(data?.queue_totals, TOTALS), past)
  return { data, error, history }
}

// Counters go on: only what is reckoned from two looks at them begins anew.
function resetRates () {
  askFirst({
    title: 'Reset the statistics?',
    explanation: 'The rates that this node tells begin anew. Counters and the charts of the past stay.',
    label: 'Reset statistics',
    request: { method: 'DELETE', address: 'reset' }
  })
}

export function Overview ({ overview: { data, error, history } }) {
  const nodes = usePoll(isMonitor() ? 'nodes' : null)
  if (!data) return error ? html`<${Failure} error=${error} />` : html`<${Loading} />`
  const objects = data.object_totals ?? {}
  const totals = data.queue_totals ?? {}
  const rows = nodes.data ?? []
  return html`
    <${Head} title="Overview"><${RangeChoice} />${isAdministrator() && html`<${Button} onClick=${resetRates}>Reset statistics</>`}</>
    <${Alarms} nodes=${rows} />
    <${Stats}>
      <${Stat} label="Ready" value=${compact(totals.messages_ready)} />
      <${Stat} label="Unacked" value=${compact(totals.messages_unacknowledged)} />
      <${Stat} label="Published" value=${rate(newest(history, 'publish'))} />
      <${Stat} label="Delivered" value=${rate(newest(history, 'deliver_get'))} />
      ${['connections', 'channels', 'consumers', 'exchanges', 'queues'].map((kind) => html`
        <${Stat} label=${kind[0].toUpperCase() + kind.slice(1)} value=${html`<a href=${'#/' + kind}>${compact(objects[kind])}</a>`} />`)}
    </>
    <div class="charts">
      <${Chart} title="Message rates" history=${history} lines=${[
        { name: 'publish', label: 'Published', fill: true }, { name: 'confirm', label: 'Confirmed' },
        { name: 'deliver_get', label: 'Delivered' }, { name: 'ack', label: 'Acknowledged' },
        { name: 'redeliver', label: 'Redelivered', colour: 5 }]} />
      <${Chart} title="Backlog" unit="count" history=${history} lines=${[
        { name: 'messages', label: 'Total', fill: true }, { name: 'messages_ready', label: 'Ready' },
        { name: 'messages_unacknowledged', label: 'Unacknowledged' }]} />
      ${isMonitor() && html`<${Chart} title="How long clients and messages wait" unit="ms" history=${history} lines=${[
        { name: 'publish_confirm_ms', by: 'publish_confirm_count', label: 'Publish to confirm', fill: true },
        { name: 'publish_deliver_ms', by: 'publish_deliver_count', label: 'In the queue' },
        { name: 'deliver_ack_ms', by: 'deliver_ack_count', label: 'Delivery to acknowledgement' }]} />`}
      <${Chart} title="Connections and channels" history=${history} lines=${[
        { name: 'connection_created', label: 'Connections opened' }, { name: 'connection_closed', label: 'closed' },
        { name: 'channel_created', label: 'Channels opened' }, { name: 'channel_closed', label: 'closed', colour: 5 }]} />
      <${Chart} title="Queues" history=${history} lines=${[
        { name: 'queue_declared', label: 'Declared' }, { name: 'queue_created', label: 'Created' }, { name: 'queue_deleted', label: 'Deleted', colour: 5 }]} />
      <${Chart} title="Without a queue" history=${history} lines=${[
        { name: 'return_unroutable', label: 'Returned' }, { name: 'drop_unroutable', label: 'Dropped' },
        { name: 'get_empty', label: 'Empty gets' }]} />
    </div>
    ${isMonitor() && html`<${Section} title="Nodes"><${NodesTable} rows=${rows} /></>`}
    <div class="columns">
      <${Section} title="Listeners"><${Listeners} rows=${data.listeners ?? []} />
        <h3>Web contexts</h3><${Table} label="Web contexts" rows=${data.contexts ?? []} columns=${[
          { title: 'What', cell: (row) => row.description }, { title: 'Address', cell: (row) => html`<bdi>${row.ip}</bdi>` }, { title: 'Port', number: true, cell: (row) => row.port },
          { title: 'Path', cell: (row) => row.path }, { title: 'Protocol', cell: (row) => row.protocol }, { title: 'Node', cell: (row) => html`<bdi>${row.node}</bdi>` }]} /></>
      <${Section} title="About">
        <dl class="facts">
          <div><dt>Cluster</dt><dd><bdi>${data.cluster_name}</bdi></dd></div>
          <div><dt>Broker</dt><dd>${data.product_name} ${data.product_version}</dd></div>
          <div><dt>API as of RabbitMQ</dt><dd>${data.rabbitmq_version}</dd></div>
          <div><dt>You are on</dt><dd><bdi>${data.node}</bdi></dd></div>
          <div><dt>Default queue type</dt><dd>${data.default_queue_type}</dd></div>
        </dl>
        <p class="quiet"><a href="#/features">Feature flags and deprecated features</a></p>
        ${isAdministrator() && html`<p class="quiet"><a href="#/definitions">Export or import definitions</a></p>`}
      </>
    </div>
    <${ApiNote} address="overview" />`
}

export function alarmsOf (nodes) {
  return nodes.flatMap((node) => [
    node.running === false && [node.name, 'does not answer'],
    node.mem_alarm && [node.name, `is short of memory: publishers are held back (${bytes(node.mem_used)} used, the limit is ${bytes(node.mem_limit)})`],
    node.disk_free_alarm && [node.name, `is short of disk space: publishers are held back (${bytes(node.disk_free)} free, the limit is ${bytes(node.disk_free_limit)})`],
    node.being_drained && [node.name, 'is in maintenance'],
    node.partitions?.length > 0 && [node.name, `is parted from ${node.partitions.join(', ')}`]
  ].filter(Boolean))
}

function Alarms ({ nodes }) {
  const alarms = alarmsOf(nodes)
  if (alarms.length === 0) return null
  return html`<ul class="alarms" role="alert">${alarms.map(([name, what]) => html`<li><bdi>${name}</bdi> ${what}</li>`)}</ul>
    ${nodes.some((node) => node.mem_alarm || node.disk_free_alarm) && html`<${HeldBackNow} />`}`
}

export function NodesTable ({ rows }) {
  const used = (value, most, label, show = compact, bad = value / most > 0.9) => most
    ? html`<span class="usage">${show(value)} <small>of ${show(most)}</small><${Meter} value=${value} most=${most} label=${label} bad=${bad} /></span>`
    : show(value)
  return html`<${Table} label="Nodes" rows=${rows} keyOf=${(node) => node.name} columns=${[
    { title: 'Name', cell: (node) => html`<${Name} name=${node.name} at=${['nodes', node.name]} />` },
    {
      title: 'State',
      cell: (node) => node.running
        ? html`<${Badge} kind="good">running</> ${node.being_drained && html`<${Badge}>maintenance</>`}`
        : html`<${Badge} kind="bad">no answer</>`
    },
    { title: 'Memory', cell: (node) => used(node.mem_used, node.mem_limit, 'Memory used', bytes, node.mem_alarm) },
    {
      title: 'Disk free',
      cell: (node) => node.disk_free == null ? '–' : html`<span class="usage">${bytes(node.disk_free)} <small>alarm below ${bytes(node.disk_free_limit)}</small>${node.disk_free_alarm && html` <${Badge} kind="bad">alarm</>`}</span>`
    },
    { title: 'Processors', number: true, cell: (node) => node.cpu_ms == null ? '–' : html`${Math.round((node.cpu_ms_details?.rate ?? 0) / 10)} % <small>of one</small>` },
    { title: 'Descriptors', cell: (node) => used(node.fd_used, node.fd_total, 'File descriptors used') },
    { title: 'Connections', cell: (node) => used(node.sockets_used, node.sockets_total, 'Sockets used') },
    { title: 'Uptime', cell: (node) => duration(node.uptime) }
  ]} />`
}

const Listeners = ({ rows }) => html`<${Table} label="Listeners" rows=${rows} columns=${[
  { title: 'Protocol', cell: (row) => row.protocol },
  { title: 'Address', cell: (row) => html`<bdi>${row.ip_address}</bdi>` },
  { title: 'Port', number: true, cell: (row) => String(row.port) },
  { title: 'Node', cell: (row) => html`<bdi>${row.node}</bdi>` }
]} />`
