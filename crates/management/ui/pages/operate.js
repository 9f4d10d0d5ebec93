// What is set on a node while it runs, what it is asked whether it is well, and its configuration.

import { useState } from '../vendor/preact-hooks.js'
import { call, usePoll } from '../api.js'
import { askFirst, Badge, Button, bytes, download, html, openForm, Section, shown, Table } from '../parts.js'
import { Asked } from './trouble.js'

// `[what, address]` of checks that answer 200 where all is well.
const CHECKS = [
  ['Takes clients', 'health/checks/ready-to-serve-clients'],
  ['Is in service', 'health/checks/is-in-service'],
  ['No alarm in the cluster', 'health/checks/alarms'],
  ['Every quorum queue has a leader', 'health/checks/quorum-queues-without-elected-leaders/all-vhosts'],
  ['No quorum queue needs this node', 'health/checks/node-is-quorum-critical'],
  ['Certificates last another month', 'health/checks/certificate-expiration/1/months']
]

export function Checks () {
  const [rows, setRows] = useState(null)
  const check = async ([what, address]) => {
    try {
      await call('GET', address)
      return { what, address, isWell: true }
    } catch (error) {
      return { what, address, isWell: false, why: error.message }
    }
  }
  const run = async () => setRows(await Promise.all(CHECKS.map(check)))
  return html`<${Section} title="Checks" tools=${html`<${Button} onClick=${run}>Check now</>`}>
    ${rows && html`<${Table} label="Checks" rows=${rows} keyOf=${(row) => row.address} columns=${[
      { title: 'Check', cell: (row) => row.what },
      { title: 'Result', cell: (row) => row.isWell ? html`<${Badge} kind="good">passed</>` : html`<${Badge} kind="bad">failed</> <bdi>${shown(row.why)}</bdi>` },
      { title: 'Call', cell: (row) => html`<code>GET /api/${row.address}</code>` }
    ]} />`}</>`
}

const limit = (title, address, value) => openForm({
  title,
  submit: 'Set limit',
  fields: [{ name: 'value', label: 'Bytes', type: 'number', min: 0, value: String(value ?? ''), required: true, hint: 'Until the node is started again.' }],
  request: (v) => ({ method: 'PUT', address: `leveret/${address}`, body: { absolute: Number(v.value) } })
})

const LEVELS = ['debug', 'info', 'warning', 'error']

const level = () => openForm({
  title: 'What goes into the log',
  submit: 'Set level',
  fields: [{ name: 'level', label: 'Level', type: 'select', options: LEVELS, value: 'info' }],
  request: (v) => ({ method: 'PUT', address: 'leveret/log-level', body: { level: v.level } })
})

const listening = () => openForm({
  title: 'New clients',
  submit: 'Set',
  intro: 'Clients that are connected stay.',
  fields: [{ name: 'take', label: 'New clients are', type: 'select', options: [['no', 'held back'], ['yes', 'let in']], value: 'no' }],
  request: (v) => ({ method: 'PUT', address: 'leveret/listening', body: { listening: v.take === 'yes' } })
})

const serving = () => openForm({
  title: 'Clients',
  submit: 'Set',
  intro: 'A node that serves no clients closes their connections; it goes on as a member of the cluster.',
  fields: [{ name: 'serve', label: 'The node serves clients', type: 'select', options: [['no', 'no'], ['yes', 'yes']], value: 'no' }],
  request: (v) => ({ method: 'PUT', address: 'leveret/serving', body: { serving: v.serve === 'yes' } })
})

const stop = () => askFirst({
  title: 'Stop this node?',
  explanation: 'It ends in order: clients are told, and what it has is on its disk. This page goes with it until somebody starts it again, on its machine.',
  label: 'Stop node',
  request: { method: 'POST', address: 'leveret/stop' }
})

// What somebody who helps wants to see, without what is in messages and without passwords.
const REPORT = [
  'overview', 'nodes', 'leveret/cluster', 'leveret/alarms', 'leveret/damage', 'feature-flags', 'vhosts', 'users?columns=name,tags', 'permissions', 'policies',
  'connections', 'channels', 'consumers', 'queues', 'exchanges', 'bindings', 'config/effective'
]

async function report () {
  const parts = {}
  for (const address of REPORT) {
    // A node alone has no cluster: that is told too.
    parts[address.split('?')[0]] = await call('GET', address).catch((error) => ({ error: error.message }))
  }
  download('report.json', 'application/json', JSON.stringify(parts, null, 1))
}

// Only for the node that the page comes from: these calls are about the node that is asked.
export const Settings = ({ node }) => html`<${Section} title="Settings of the running node"><div class="inline">
  <${Button} onClick=${() => limit('Memory limit', 'memory-watermark', node.mem_limit)}>Memory limit: ${bytes(node.mem_limit)}</>
  <${Button} onClick=${() => limit('Disk limit', 'disk-free-limit', node.disk_free_limit)}>Disk limit: ${bytes(node.disk_free_limit)}</>
  <${Button} onClick=${level}>Log level</><${Button} onClick=${listening}>New clients</><${Button} onClick=${serving}>Clients</>
  <${Button} onClick=${report}>Save a report</><${Button} kind="danger" onClick=${stop}>Stop node</></div></>`

export const Configuration = () => html`<${Asked} title="Configuration in force" label="Show" name="config" address="config/effective" show=${(rows) => html`
  <${Table} label="Configuration in force" rows=${rows} keyOf=${(row) => row.key} columns=${[
    { title: 'Key', cell: (row) => html`<code>${row.key}</code>` }, { title: 'Value', cell: (row) => html`<bdi class="value">${shown(row.value || ' ')}</bdi>` }
  ]} />`} />`

// The node that answers, by name.
export const useOwnNode = () => usePoll('overview').data?.node
