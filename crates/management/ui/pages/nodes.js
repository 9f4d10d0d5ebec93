// Nodes of the cluster: the list, one with its figures; what is done to the cluster as a whole.

import { isAdministrator, path, usePoll } from '../api.js'
import { below, Chart, RangeChoice, useHistory, usePast } from '../charts.js'
import {
  ApiNote, askFirst, Badge, Button, bytes, compact, count, duration, Failure, Facts, Fields, Head, html, Loading, openForm, Section, shown,
  Stat, State, Stats, Table
} from '../parts.js'
import { alarmsOf, NodesTable } from './overview.js'
import { Checks, Configuration, Settings, useOwnNode } from './operate.js'
import { Disk, Impact } from './trouble.js'

export function Nodes ({ segments }) {
  const { data, error } = usePoll(segments.length ? null : 'nodes')
  if (segments.length) return html`<${Node} name=${segments[0]} />`
  return html`<${Head} title="Nodes" />
    <${Failure} error=${error} />
    ${data ? html`<${Section}><${NodesTable} rows=${data} /></>` : !error && html`<${Loading} />`}
    <${ApiNote} address="nodes" />`
}

const COUNTERS = [
  'cpu_ms', 'io_write_count', 'io_write_bytes', 'io_read_bytes', 'io_sync_count', 'io_sync_us',
  'publish_confirm_count', 'publish_confirm_ms', 'publish_deliver_count', 'publish_deliver_ms', 'deliver_ack_count', 'deliver_ack_ms']
// By name in the charts.
const GAUGES = {
  memory: 'mem_used', disk: 'disk_free', sockets: 'sockets_used', descriptors: 'fd_used', confirmMost: 'publish_confirm_p99_ms', waitMost: 'publish_deliver_p99_ms', ackMost: 'deliver_ack_p99_ms'
}
const LATELY = { label: '99 % within the last minute', isTime: true }

const mean = (ms) => ms == null ? '–' : `${ms.toFixed(2)} ms`

function Node ({ name }) {
  const address = path('nodes', name)
  const { data: n, error, at } = usePoll(address)
  const memory = usePoll(`${address}/memory`)
  const isOwn = useOwnNode() === name
  const past = usePast(address, below('', COUNTERS), GAUGES)
  const history = useHistory(address, at, Object.fromEntries(COUNTERS.map((one) => [one, n?.[one]])),
    Object.fromEntries(Object.entries(GAUGES).map(([name, field]) => [name, n?.[field]])), past)
  if (!n) return html`<${Head} kind="Node" title=${html`<bdi>${shown(name)}</bdi>`} />${error ? html`<${Failure} error=${error} />` : html`<${Loading} />`}`
  const alarms = alarmsOf([n])
  return html`
    <${Head} kind="Node" title=${html`<bdi>${shown(name)}</bdi>`}><${RangeChoice} /></>
    ${error && html`<${Failure} error=${error} />`}
    ${alarms.length > 0 && html`<ul class="alarms" role="alert">${alarms.map(([, what]) => html`<li>It ${what}</li>`)}</ul>`}
    <${Stats}>
      <${Stat} label="State" value=${html`<${State} state=${n.running ? 'running' : 'no answer'} />`} />
      <${Stat} label="Memory" value=${bytes(n.mem_used)} kind=${n.mem_alarm ? 'bad' : ''} />
      <${Stat} label="Disk free" value=${bytes(n.disk_free)} kind=${n.disk_free_alarm ? 'bad' : ''} />
      <${Stat} label="Connections" value=${compact(n.sockets_used)} />
      <${Stat} label="Descriptors" value=${compact(n.fd_used)} />
      <${Stat} label="Uptime" value=${duration(n.uptime)} />
    </>
    <div class="charts">
      <${Chart} title="Memory" unit="bytes" history=${history} lines=${[{ name: 'memory', label: 'Used', fill: true }]} />
      <${Chart} title="Processors" unit="cpu" history=${history} lines=${[{ name: 'cpu_ms', label: `Of one; there are ${count(n.processors)}`, fill: true }]} />
      <${Chart} title="Disk written" unit="bytes" history=${history} lines=${[{ name: 'io_write_bytes', label: 'Bytes/s', fill: true }]} />
      <${Chart} title="Disk operations" history=${history} lines=${[{ name: 'io_write_count', label: 'Writes', fill: true }, { name: 'io_sync_count', label: 'Syncs' }]} />
      <${Chart} title="Mean sync" unit="ms" history=${history} lines=${[{ name: 'io_sync_us', by: 'io_sync_count', scale: 0.001, label: 'A sync takes', fill: true }]} />
      <${Chart} title="Publish to confirm" unit="ms" history=${history} lines=${[{ name: 'publish_confirm_ms', by: 'publish_confirm_count', label: 'Mean', fill: true }, { name: 'confirmMost', ...LATELY }]} />
      <${Chart} title="Time in queue" unit="ms" history=${history} lines=${[{ name: 'publish_deliver_ms', by: 'publish_deliver_count', label: 'Mean', fill: true }, { name: 'waitMost', ...LATELY }]} />
      <${Chart} title="Delivery to acknowledgement" unit="ms" history=${history} lines=${[{ name: 'deliver_ack_ms', by: 'deliver_ack_count', label: 'Mean', fill: true }, { name: 'ackMost', ...LATELY }]} />
      <${Chart} title="Connections and descriptors" unit="count" history=${history} lines=${[{ name: 'sockets', label: 'Connections' }, { name: 'descriptors', label: 'Descriptors' }]} />
    </div>
    <${Impact} name=${name} /><${Disk} name=${name} />
    ${isOwn && html`<${Checks} />${isAdministrator() && html`<${Settings} node=${n} /><${Configuration} />`}`}
    <div class="columns">
      <${Section} title="Memory by use"><${Memory} memory=${memory.data?.memory} /></>
      <${Section} title="Details"><${Facts} rows=${[
        ['Memory limit', bytes(n.mem_limit)], ['Disk limit', bytes(n.disk_free_limit)], ['Mean sync', mean(n.io_sync_avg_time)], ['Mean write', mean(n.io_write_avg_time)],
        ['Processors', count(n.processors)], ['Process', n.os_pid], ['Data', html`<bdi>${n.db_dir}</bdi>`], ['Log files', (n.log_files ?? []).join(', ')],
        ['Configuration', (n.config_files ?? []).join(', ')], ['Authentication', (n.auth_mechanisms ?? []).map((one) => one.name).join(', ')], ['Exchange types', (n.exchange_types ?? []).map((one) => one.name).join(', ')]]} /></>
    </div>
    <${ApiNote} address=${address} />`
}

const MEMORY = {
  binary: 'Message bodies', msg_index: 'Index of messages', queue_procs: 'Classic queues', quorum_queue_procs: 'Quorum queues', connection_writers: 'Waiting to be sent',
  other_proc: 'Connections, catalogue, figures', code: 'Program', allocated_unused: 'Allocated, unused', other_system: 'Stacks and the kernel\'s'
}

function Memory ({ memory }) {
  if (!memory || typeof memory !== 'object') return html`<p class="quiet">The node does not tell.</p>`
  const whole = memory.total?.rss ?? 0
  const rows = Object.entries(memory).filter(([, value]) => typeof value === 'number' && value > 0).sort((a, b) => b[1] - a[1])
  return html`<${Table} label="Memory by use" rows=${rows} keyOf=${([part]) => part} columns=${[
    { title: 'Use', cell: ([part]) => MEMORY[part] ?? part },
    { title: 'Bytes', number: true, cell: ([, value]) => bytes(value) },
    { title: 'Share', number: true, cell: ([, value]) => whole ? `${Math.round(value / whole * 100)} %` : '–' }
  ]} />`
}

export function Cluster () {
  const name = usePoll('cluster-name')
  // A node that is in none says so without an error.
  const { data, error, at } = usePoll('leveret/cluster?optional=true')
  const rename = () => openForm({
    title: 'Name of the cluster',
    submit: 'Rename',
    fields: [{ name: 'name', label: 'Name', value: name.data?.name, required: true }],
    request: (v) => ({ method: 'PUT', address: 'cluster-name', body: { name: v.name } })
  })
  const rebalance = () => askFirst({
    title: 'Spread the leaders?',
    explanation: 'Leaders of quorum queues move until every node leads about as many.',
    label: 'Rebalance',
    request: { method: 'POST', address: 'rebalance/queues' }
  })
  return html`<${Head} title="Cluster">
      ${isAdministrator() && html`<${Button} onClick=${rename}>Rename</>${data && html`<${Button} onClick=${rebalance}>Rebalance leaders</>`}`}</>
    <${Section}><${Facts} rows=${[['Name', html`<bdi>${shown(name.data?.name ?? ' ')}</bdi>`], data && ['Leader of the catalogue', data.nodes.find((one) => one.number === data.leader)?.name ?? 'none'],
      data && ['Term', count(data.term)], data && ['Committed', count(data.committed)], data && ['Queues without a known leader', count(data.leaders_unknown)]]} /></>
    ${data
      ? html`<${Section} title="Members"><${Members} rows=${data.nodes} own=${data.own} /></>`
      : at && html`<${Section}><p class="quiet">This node is no member of a cluster.</p></>`}
    <${Failure} error=${error} /><${ApiNote} address="leveret/cluster" />`
}

function Members ({ rows, own }) {
  const drain = (node) => askFirst({
    title: node.draining ? 'End the maintenance?' : 'Begin maintenance?',
    explanation: node.draining ? `${node.name} may lead queues again.` : `${node.name} gives up the queues that it leads; clients stay connected.`,
    label: node.draining ? 'End maintenance' : 'Begin maintenance',
    request: { method: 'POST', address: 'leveret/cluster/drain', body: { node: node.name, draining: !node.draining } }
  })
  const forget = (node) => askFirst({
    title: 'Forget this node?',
    explanation: `${node.name} is removed from the cluster for good. Queues that are only there are lost.`,
    label: 'Forget node',
    request: { method: 'POST', address: 'leveret/cluster/forget', body: { node: node.name } }
  })
  return html`<${Table} label="Members" rows=${rows} keyOf=${(node) => node.number} columns=${[
    { title: 'Name', cell: (node) => html`<bdi>${node.name}</bdi>${node.number === own ? html` <${Badge}>this one</>` : ''}` },
    { title: 'Address', cell: (node) => html`<bdi>${node.address}</bdi>` },
    { title: 'State', cell: (node) => html`<${Badge} kind=${node.up ? 'good' : 'bad'}>${node.up ? 'up' : 'down'}</>${node.draining ? html` <${Badge}>maintenance</>` : ''}` },
    { title: 'Votes', cell: (node) => node.votes ? 'yes' : 'no' },
    { title: 'Replicas', number: true, cell: (node) => count(node.queue_members) },
    { title: 'Leads', number: true, cell: (node) => count(node.queues_leading) },
    { title: 'Only here', number: true, cell: (node) => count(node.queues_alone) },
    {
      title: '',
      cell: (node) => isAdministrator() && html`<${Button} kind="small" onClick=${() => drain(node)}>${node.draining ? 'End maintenance' : 'Maintenance'}</>
        ${!node.up && html`<${Button} kind="small" onClick=${() => forget(node)}>Forget</>`}`
    }
  ]} />`
}

export function Features () {
  const flags = usePoll('feature-flags')
  const deprecated = usePoll('deprecated-features')
  const enable = (flag) => askFirst({
    title: 'Enable this feature?',
    explanation: `${flag.name} cannot be disabled again.`,
    label: 'Enable',
    request: { method: 'PUT', address: path('feature-flags', flag.name, 'enable'), body: {} }
  })
  return html`<${Head} title="Feature flags" />
    <${Failure} error=${flags.error} />
    <${Section}><${Table} label="Feature flags" rows=${flags.data ?? []} keyOf=${(flag) => flag.name} columns=${[
      { title: 'Name', cell: (flag) => html`<bdi class="name">${flag.name}</bdi>` },
      { title: 'State', cell: (flag) => html`<${State} state=${flag.state} />` },
      { title: 'Stability', cell: (flag) => flag.stability },
      { title: 'Description', cell: (flag) => flag.desc },
      { title: '', cell: (flag) => flag.state !== 'enabled' && isAdministrator() ? html`<${Button} kind="small" onClick=${() => enable(flag)}>Enable</>` : '' }
    ]} /></>
    <${Section} title="Deprecated features"><${Table} label="Deprecated features" rows=${deprecated.data ?? []} columns=${[
      { title: 'Name', cell: (one) => one.name }, { title: 'Phase', cell: (one) => one.deprecation_phase }, { title: 'Description', cell: (one) => html`<${Fields} of=${{ text: one.desc ?? '' }} />` }
    ]} empty="None." /></>
    <${ApiNote} address="feature-flags" />`
}
