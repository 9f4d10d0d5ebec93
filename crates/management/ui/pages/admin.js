// Users and their permissions, virtual hosts, policies, limits, definitions.

import { useState } from '../vendor/preact-hooks.js'
import { call, isAdministrator, isPolicymaker, path, session, useCell, usePoll } from '../api.js'
import { compacted, indented, Verbatim } from '../exact.js'
import {
  ApiNote, argumentsOf, askFirst, Badge, Button, bytes, compact, count, download, Failure, Facts, Fields, Form, go, Head, html, List, Loading, Name, notify, openForm, place, queueAt, rate, rowsOf,
  Section, setParams, shown, State, Table, useVhosts
} from '../parts.js'
import { below, Chart, RangeChoice, useHistory, usePast } from '../charts.js'
import { vhostField } from './exchanges.js'

const TAGS = 'management, policymaker, monitoring, administrator, impersonator; several with commas between'
const named = (name) => html`<bdi class="name">${shown(name)}</bdi>`
const tagsOf = (tags) => (typeof tags === 'string' ? tags.split(',') : tags ?? []).filter(Boolean)

const COUNTERS = ['publish', 'confirm', 'deliver_get', 'ack']
const TOTALS = ['messages', 'messages_ready', 'messages_unacknowledged']
// The first connections of a user or virtual host.
const SOME_CONNECTIONS = '?page=1&page_size=25&columns=name,user,vhost,state,channels'
const CONNECTION = [
  { title: 'Name', cell: (c) => html`<${Name} name=${c.name} at=${['connections', c.name]} />` }, { title: 'User', cell: (c) => named(c.user) },
  { title: 'Virtual host', cell: (c) => named(c.vhost) }, { title: 'State', cell: (c) => html`<${State} state=${c.state} />` }, { title: 'Channels', number: true, cell: (c) => count(c.channels) }
]

// Columns of regular expressions.
const expressions = (names) => names.map((what) => ({ title: what[0].toUpperCase() + what.slice(1), cell: (row) => html`<bdi class="value">${shown(row[what] || ' ')}</bdi>` }))

// ---- users

export function Users ({ segments: [name] }) {
  const [chosen, setChosen] = useState([])
  const isWithout = useCell(place).params.get('without') === 'true'
  if (name !== undefined) return html`<${User} name=${name} />`
  const choose = (user, isChosen) => setChosen(chosen.filter((other) => other !== user).concat(isChosen ? user : []))
  const remove = () => askFirst({
    title: `Delete these ${count(chosen.length)} users?`,
    explanation: html`<bdi class="name">${chosen.map(shown).join(', ')}</bdi> go, with their permissions. Their connections are closed.`,
    label: 'Delete users',
    request: { method: 'POST', address: 'users/bulk-delete', body: { users: chosen } },
    done: () => setChosen([])
  })
  const tools = html`<label class="check"><input type="checkbox" checked=${isWithout} onChange=${(e) => setParams({ without: e.target.checked, page: '' })} /> Only those that may enter no virtual host</label>
    <${Button} kind="danger" disabled=${chosen.length === 0} onClick=${remove}>Delete the chosen</><${Button} kind="primary" onClick=${() => userForm()}>Add user</>`
  return html`<${Head} title="Users" />
    <${List} label="Users" address=${isWithout ? 'users/without-permissions' : 'users'} vhosts=${false} keyOf=${(user) => user.name} tools=${tools} columns=${[
      {
        title: 'Choose',
        cell: ({ name }) => name === session.value.name
          ? ''
          : html`<input type="checkbox" aria-label=${`Choose ${shown(name)}`} checked=${chosen.includes(name)} onChange=${(e) => choose(name, e.target.checked)} />`
      },
      { title: 'Name', sort: 'name', cell: (user) => html`<${Name} name=${user.name} at=${['users', user.name]} />` },
      { title: 'Tags', cell: (user) => tagsOf(user.tags).map((tag) => html`<${Badge}>${shown(tag)}</> `) },
      { title: 'Password', cell: (user) => user.password_hash ? 'yes' : 'none' },
      { title: 'Limits', cell: (user) => html`<${Fields} of=${user.limits} />` }
    ]} />`
}

function userForm (user) {
  openForm({
    title: user ? html`Change ${named(user.name)}` : 'Add user',
    submit: user ? 'Change user' : 'Add user',
    fields: [
      { name: 'name', label: 'Name', required: true, when: () => !user, value: user?.name },
      { name: 'how', label: 'Password', type: 'select', options: [['password', user ? 'a new password' : 'a password'], ['hash', 'the hash of a password'], ...(user ? [['keep', 'as it is']] : []), ['none', 'none: cannot log in with one']], value: user ? 'keep' : 'password' },
      { name: 'password', label: 'The password', type: 'password', required: true, autocomplete: 'new-password', when: (v) => v.how === 'password' },
      { name: 'hash', label: 'The hash', required: true, when: (v) => v.how === 'hash' },
      { name: 'tags', label: 'Tags', hint: TAGS, value: tagsOf(user?.tags).join(',') }
    ],
    // What is left as it is goes back as it was read: it must be so still.
    check: async () => {
      if (!user) return
      const now = await call('GET', path('users', user.name))
      const isSame = now.password_hash === user.password_hash && tagsOf(now.tags).join() === tagsOf(user.tags).join()
      return isSame ? '' : 'Somebody has changed this user since this was opened: close it and open it again.'
    },
    request: (v) => ({
      method: 'PUT',
      address: path('users', v.name),
      body: {
        tags: v.tags,
        ...{
          password: { password: v.password },
          hash: { password_hash: v.hash },
          keep: { password_hash: user?.password_hash ?? '', hashing_algorithm: user?.hashing_algorithm },
          none: { password_hash: '' }
        }[v.how]
      }
    })
  })
}

function User ({ name }) {
  const address = path('users', name)
  const { data: user, error } = usePoll(address)
  const connections = usePoll(path('connections', 'username', name) + SOME_CONNECTIONS)
  const vhosts = useVhosts()
  const title = html`<bdi>${shown(name)}</bdi>`
  if (!user) return html`<${Head} kind="User" title=${title} />${error ? html`<${Failure} error=${error} />` : html`<${Loading} />`}`
  const remove = () => askFirst({
    title: 'Delete this user?',
    explanation: html`${named(name)} goes, with its permissions. Its connections are closed.`,
    label: 'Delete user',
    request: { method: 'DELETE', address },
    done: () => go(['users'])
  })
  const drop = (what, row) => askFirst({
    title: 'Take this permission away?',
    explanation: html`${named(name)} in ${named(row.vhost)}`,
    label: 'Take away',
    request: { method: 'DELETE', address: path(what, row.vhost, name) }
  })
  const tryPassword = () => openForm({
    title: html`Does a password of ${named(name)} fit?`,
    submit: 'Try',
    stay: true,
    fields: [{ name: 'password', label: 'The password', type: 'password', required: true }],
    request: (v) => ({ method: 'POST', address: 'leveret/authenticate', body: { username: name, password: v.password } }),
    message: ({ ok }) => ok ? 'It fits.' : 'It does not fit.'
  })
  const disconnect = () => askFirst({
    title: 'Close its connections?',
    explanation: html`Every client that is logged in as ${named(name)} is told why and disconnected.`,
    label: 'Close connections',
    reason: true,
    request: (v) => ({ method: 'DELETE', address: path('connections', 'username', name), reason: v.reason })
  })
  return html`<${Head} kind="User" title=${title}><${Button} onClick=${() => userForm(user)}>Change</><${Button} onClick=${tryPassword}>Try a password</>
      <${Button} onClick=${disconnect}>Close connections</>
      ${name !== session.value.name && html`<${Button} kind="danger" onClick=${remove}>Delete</>`}</>
    <${Section}><${Facts} rows=${[['Tags', tagsOf(user.tags).map(shown).join(', ')], ['Password', user.password_hash ? 'yes' : 'none'], ['Hash', user.hashing_algorithm], ['Limits', html`<${Fields} of=${user.limits} />`]]} /></>
    <${Section} title="Permissions" tools=${html`<${Button} onClick=${() => permissionForm(name, vhosts)}>Set permission</>`}>
      <${List} part="permissions-" label="Permissions" address=${`${address}/permissions`} vhosts=${false} search="Filter by virtual host" keyOf=${(row) => row.vhost} empty="It may enter no virtual host." columns=${[
        { title: 'Virtual host', cell: (row) => html`<${Name} name=${row.vhost} at=${['vhosts', row.vhost]} />` },
        ...expressions(['configure', 'write', 'read']),
        { title: '', cell: (row) => html`<${Button} kind="small" onClick=${() => permissionForm(name, [row.vhost], row)}>Change</><${Button} kind="small" onClick=${() => drop('permissions', row)}>Take away</>` }
      ]} /></>
    <${Section} title="Topic permissions" tools=${html`<${Button} onClick=${() => topicForm(name, vhosts)}>Set topic permission</>`}>
      <${List} part="topic-" label="Topic permissions" address=${`${address}/topic-permissions`} vhosts=${false} search="Filter topic permissions by virtual host" keyOf=${(row) => `${row.vhost} ${row.exchange}`} empty="Every key may be used where writing and reading are allowed." columns=${[
        { title: 'Virtual host', cell: (row) => named(row.vhost) }, { title: 'Exchange', cell: (row) => named(row.exchange) },
        ...expressions(['write', 'read']),
        { title: '', cell: (row) => html`<${Button} kind="small" onClick=${() => drop('topic-permissions', row)}>Take away</>` }
      ]} /></>
    <${LimitTable} title="Limits" subject="user" only=${name} />
    <${Section} title="Its connections"><${Table} label="Its connections" rows=${connections.data?.items ?? []} keyOf=${(c) => c.name} empty="It is not connected." columns=${CONNECTION} />
      ${connections.data?.total_count > connections.data?.items.length && html`<p class="quiet">The first ${count(connections.data.items.length)} of ${count(connections.data.total_count)} are shown.</p>`}</>
    <${Section} title="Exclusive queues of its connections"><${List} part="queues-" label="Exclusive queues of its connections" address=${`${address}/queues`} vhosts=${false} search="Filter queues by name" keyOf=${(q) => `${q.vhost} ${q.name}`} empty="None. Who declared another queue is not kept." columns=${[
      { title: 'Name', cell: (q) => html`<${Name} name=${q.name} at=${queueAt(q)} />` }, { title: 'Virtual host', cell: (q) => named(q.vhost) },
      { title: 'Messages', number: true, cell: (q) => compact(q.messages) }, { title: 'Consumers', number: true, cell: (q) => compact(q.consumers) }
    ]} /></>
    <${ApiNote} address=${address} />`
}

const expression = (name, label, value = '.*') => ({ name, label, value, hint: name === 'configure' ? 'A regular expression of names. Empty: none.' : undefined })

function permissionForm (user, vhosts, row) {
  openForm({
    title: user === undefined ? html`Permission in ${named(vhosts[0])}` : html`Permission of ${named(user)}`,
    submit: 'Set permission',
    fields: [{ name: 'user', label: 'User', required: true, value: user, when: () => user === undefined }, { ...vhostField(vhosts), ...(row ? { value: row.vhost } : {}) }, expression('configure', 'Configure', row?.configure), expression('write', 'Write', row?.write), expression('read', 'Read', row?.read)],
    request: (v) => ({ method: 'PUT', address: path('permissions', v.vhost, v.user), body: { configure: v.configure, write: v.write, read: v.read } })
  })
}

function topicForm (user, vhosts) {
  openForm({
    title: html`Topic permission of ${named(user)}`,
    submit: 'Set topic permission',
    fields: [vhostField(vhosts), { name: 'exchange', label: 'Exchange', value: 'amq.topic', required: true }, expression('write', 'Write'), expression('read', 'Read')],
    request: (v) => ({ method: 'PUT', address: path('topic-permissions', v.vhost, user), body: { exchange: v.exchange, write: v.write, read: v.read } })
  })
}

// ---- virtual hosts

export function Vhosts ({ segments: [name] }) {
  if (name !== undefined) return html`<${Vhost} name=${name} />`
  return html`<${Head} title="Virtual hosts" />
    <${List} label="Virtual hosts" address="vhosts" vhosts=${false} keyOf=${(one) => one.name}
      tools=${isAdministrator() && html`<${Button} kind="primary" onClick=${() => vhostForm()}>Add virtual host</>`} columns=${[
        { title: 'Name', sort: 'name', cell: (one) => html`<${Name} name=${one.name} at=${['vhosts', one.name]} />` },
        { title: 'Description', sort: 'description', cell: (one) => html`<bdi>${shown(one.description || ' ')}</bdi>` },
        { title: 'Tags', cell: (one) => tagsOf(one.tags).map((tag) => html`<${Badge}>${shown(tag)}</> `) },
        { title: 'Default type', sort: 'default_queue_type', cell: (one) => one.default_queue_type ?? '' },
        { title: 'Ready', number: true, sort: 'messages_ready', cell: (one) => compact(one.messages_ready) },
        { title: 'Unacked', number: true, sort: 'messages_unacknowledged', cell: (one) => compact(one.messages_unacknowledged) },
        { title: 'In', number: true, sort: 'message_stats.publish_details.rate', cell: (one) => rate(one.message_stats?.publish_details?.rate) },
        { title: 'Delivered', number: true, sort: 'message_stats.deliver_get_details.rate', cell: (one) => rate(one.message_stats?.deliver_get_details?.rate) },
        { title: 'From clients', number: true, sort: 'recv_oct_details.rate', cell: (one) => `${bytes(one.recv_oct_details?.rate)}/s` },
        { title: 'To clients', number: true, sort: 'send_oct_details.rate', cell: (one) => `${bytes(one.send_oct_details?.rate)}/s` },
        { title: 'State', cell: (one) => Object.entries(one.cluster_state ?? {}).map(([node, state]) => html`<span title=${node}><${State} state=${state} /></span> `) },
        { title: 'Protected', sort: 'protected_from_deletion', cell: (one) => one.protected_from_deletion ? 'yes' : '' }
      ]} />`
}

function vhostForm (vhost) {
  openForm({
    title: vhost ? html`Change ${named(vhost.name)}` : 'Add virtual host',
    submit: vhost ? 'Change virtual host' : 'Add virtual host',
    fields: [
      { name: 'name', label: 'Name', required: true, when: () => !vhost, value: vhost?.name },
      { name: 'description', label: 'Description', value: vhost?.description ?? '' },
      { name: 'tags', label: 'Tags', value: tagsOf(vhost?.tags).join(','), hint: 'With commas between.' },
      { name: 'type', label: 'Default queue type', type: 'select', options: [['', 'the node\'s default'], 'classic', 'quorum', 'stream'], value: vhost?.default_queue_type ?? '' },
      { name: 'tracing', label: 'Firehose: copies of its messages go to amq.rabbitmq.trace', type: 'check', value: vhost?.tracing ?? false }
    ],
    request: (v) => ({ method: 'PUT', address: path('vhosts', v.name), body: { description: v.description, tags: v.tags, default_queue_type: v.type, tracing: v.tracing } })
  })
}

function Vhost ({ name }) {
  const address = path('vhosts', name)
  const { data: vhost, error, at } = usePoll(address)
  const limits = usePoll(path('vhost-limits', name))
  const connections = usePoll(`${address}/connections` + SOME_CONNECTIONS)
  const past = usePast(address, below('message_stats', COUNTERS), below('', TOTALS))
  const picked = (of, names) => Object.fromEntries(names.map((one) => [one, of?.[one]]))
  const history = useHistory(address, at, picked(vhost?.message_stats, COUNTERS), picked(vhost, TOTALS), past)
  const title = html`<bdi>${shown(name)}</bdi>`
  if (!vhost) return html`<${Head} kind="Virtual host" title=${title} />${error ? html`<${Failure} error=${error} />` : html`<${Loading} />`}`
  const remove = () => askFirst({
    title: 'Delete this virtual host?',
    explanation: html`${named(name)} goes, with all of its exchanges, queues, messages, policies and permissions. Its connections are closed.`,
    label: 'Delete virtual host',
    request: { method: 'DELETE', address },
    done: () => go(['vhosts'])
  })
  const isProtected = vhost.protected_from_deletion
  const protect = () => askFirst({
    title: isProtected ? 'End the protection?' : 'Protect from deletion?',
    explanation: isProtected ? 'It can be deleted again.' : 'It cannot be deleted until the protection ends.',
    label: isProtected ? 'End protection' : 'Protect',
    request: { method: isProtected ? 'DELETE' : 'POST', address: `${address}/deletion/protection` }
  })
  return html`<${Head} kind="Virtual host" title=${title}><${RangeChoice} />${isAdministrator() && html`<${Button} onClick=${() => vhostForm(vhost)}>Change</><${Button} onClick=${protect}>${isProtected ? 'End protection' : 'Protect'}</>
      <${Button} kind="danger" disabled=${isProtected} onClick=${remove}>Delete</>`}</>
    <div class="charts">
      <${Chart} title="Message rates" history=${history} lines=${[{ name: 'publish', label: 'Published', fill: true }, { name: 'confirm', label: 'Confirmed' }, { name: 'deliver_get', label: 'Delivered' }, { name: 'ack', label: 'Acknowledged' }]} />
      <${Chart} title="Backlog" unit="count" history=${history} lines=${[{ name: 'messages', label: 'Total', fill: true }, { name: 'messages_ready', label: 'Ready' }, { name: 'messages_unacknowledged', label: 'Unacknowledged' }]} />
    </div>
    <${Section}><${Facts} rows=${[['Description', vhost.description && html`<bdi>${shown(vhost.description)}</bdi>`], ['Tags', tagsOf(vhost.tags).map(shown).join(', ')], ['Default queue type', vhost.default_queue_type ?? 'the node\'s'],
      ['Protected from deletion', isProtected ? 'yes' : 'no'], ['Firehose', vhost.tracing ? 'on' : 'off'], ['Limits', html`<${Fields} of=${limits.data?.[0]?.value} />`], ['State', html`<${Fields} of=${vhost.cluster_state} />`]]} />
      <p><a href=${`#/queues?vhost=${encodeURIComponent(name)}`}>Queues</a> · <a href=${`#/exchanges?vhost=${encodeURIComponent(name)}`}>Exchanges</a> · <a href=${`#/topology?vhost=${encodeURIComponent(name)}`}>Topology</a></p></>
    ${isAdministrator() && html`<${Section} title="Permissions" tools=${html`<${Button} onClick=${() => permissionForm(undefined, [name])}>Set permission</>`}><${List} part="permissions-" label="Permissions" address=${`${address}/permissions`} vhosts=${false} search="Filter by user" keyOf=${(row) => row.user} empty="Nobody may enter it." columns=${[
      { title: 'User', cell: (row) => html`<${Name} name=${row.user} at=${['users', row.user]} />` },
      ...expressions(['configure', 'write', 'read']),
      { title: '', cell: (row) => html`<${Button} kind="small" onClick=${() => permissionForm(row.user, [name], row)}>Change</>` }
    ]} /></>`}
    ${isAdministrator() && html`<${LimitTable} title="Limits" subject="vhost" only=${name} />`}
    <${Section} title="Its connections"><${Table} label="Its connections" rows=${connections.data?.items ?? []} keyOf=${(c) => c.name} empty="Nobody is connected to it." columns=${CONNECTION} />
      ${connections.data?.total_count > connections.data?.items.length && html`<p class="quiet">The first ${count(connections.data.items.length)} of ${count(connections.data.total_count)} are shown.</p>`}</>
    ${isAdministrator() && html`<${Section} title="Topic permissions"><${List} part="topic-" label="Topic permissions" address=${`${address}/topic-permissions`} vhosts=${false} search="Filter topic permissions by user" keyOf=${(row) => `${row.user} ${row.exchange}`} empty="Every key may be used where writing and reading are allowed." columns=${[
      { title: 'User', cell: (row) => html`<${Name} name=${row.user} at=${['users', row.user]} />` }, { title: 'Exchange', cell: (row) => named(row.exchange) },
      ...expressions(['write', 'read'])
    ]} /></>`}
    <${ApiNote} address=${address} />`
}

// ---- policies

const DEFINITIONS = [
  ['max-length', 'number', 'Messages that a queue holds at most'], ['max-length-bytes', 'number', 'Bytes that a queue holds at most'], ['overflow', 'string', 'drop-head, reject-publish, reject-publish-dlx', 'reject-publish'],
  ['message-ttl', 'number', 'Milliseconds after which a message expires'], ['expires', 'number', 'Milliseconds without use after which a queue deletes itself'],
  ['dead-letter-exchange', 'string', 'Where rejected and expired messages go'], ['dead-letter-routing-key', 'string', 'The key that they go with'],
  ['delivery-limit', 'number', 'Deliveries of a message at most'], ['consumer-timeout', 'number', 'Milliseconds that a consumer has to acknowledge'],
  ['queue-leader-locator', 'string', 'client-local or balanced', 'balanced'], ['alternate-exchange', 'string', 'For exchanges: takes what no binding wants']
]
const APPLY_TO = ['all', 'queues', 'classic_queues', 'quorum_queues', 'streams', 'exchanges']

export const Policies = () => html`<${Head} title="Policies" />
  <${PolicyTable} title="Policies" kind="policies" allowed=${isPolicymaker()} targets=${APPLY_TO} />
  <${PolicyTable} title="Operator policies" kind="operator-policies" allowed=${isAdministrator()} targets=${APPLY_TO.filter((one) => !['all', 'exchanges'].includes(one))} />`

function PolicyTable ({ title, kind, allowed, targets }) {
  const vhosts = useVhosts()
  const one = title.replace('icies', 'icy').toLowerCase()
  const edit = (policy) => openForm({
    title: policy ? html`Change ${named(policy.name)}` : `Add ${one}`,
    submit: policy ? `Change ${one}` : `Add ${one}`,
    fields: [
      { ...vhostField(vhosts), ...(policy ? { value: policy.vhost, when: () => false } : {}) },
      { name: 'name', label: 'Name', required: true, value: policy?.name, when: () => !policy },
      { name: 'pattern', label: 'Pattern', required: true, value: policy?.pattern, hint: 'A regular expression of names: ^orders matches all that begin with it.' },
      { name: 'target', label: 'Applies to', type: 'select', options: targets, value: policy?.['apply-to'] ?? targets[0] },
      { name: 'priority', label: 'Priority', type: 'number', value: String(policy?.priority ?? 0), hint: 'The matching policy with the highest one is in force.' },
      { name: 'definition', label: 'Definition', type: 'arguments', value: rowsOf(policy?.definition), known: () => DEFINITIONS }
    ],
    request: (v) => ({
      method: 'PUT',
      address: path(kind, v.vhost, v.name),
      body: { pattern: v.pattern, 'apply-to': v.target, priority: Number(v.priority), definition: argumentsOf(v.definition) }
    })
  })
  const remove = (policy) => askFirst({
    title: `Delete this ${one}?`,
    explanation: html`${named(policy.name)} is no longer in force anywhere.`,
    label: `Delete ${one}`,
    request: { method: 'DELETE', address: path(kind, policy.vhost, policy.name) }
  })
  return html`<${Section} title=${title} tools=${allowed && html`<${Button} onClick=${() => edit()}>Add ${one}</>`}>
    <${List} part=${`${kind}-`} label=${title} address=${kind} search=${`Filter ${title.toLowerCase()} by name`} keyOf=${(row) => `${row.vhost} ${row.name}`} empty="None." columns=${[
      { title: 'Name', sort: 'name', cell: (row) => named(row.name) }, { title: 'Virtual host', sort: 'vhost', cell: (row) => named(row.vhost) }, { title: 'Pattern', sort: 'pattern', cell: (row) => html`<bdi class="value">${shown(row.pattern)}</bdi>` },
      { title: 'Applies to', sort: 'apply-to', cell: (row) => row['apply-to'] }, { title: 'Definition', cell: (row) => html`<${Fields} of=${row.definition} />` }, { title: 'Priority', number: true, sort: 'priority', cell: (row) => row.priority },
      { title: '', cell: (row) => allowed && html`<${Button} kind="small" onClick=${() => edit(row)}>Change</><${Button} kind="small" onClick=${() => remove(row)} aria-label=${`Delete ${shown(row.name)}`}>Delete</>` }
    ]} /></>`
}

// ---- limits

export const Limits = () => html`<${Head} title="Limits" />
  <${LimitTable} title="Of virtual hosts" subject="vhost" />
  <${LimitTable} title="Of users" subject="user" />`

const LIMITS = { vhost: ['max-connections', 'max-queues'], user: ['max-connections', 'max-channels'] }

// The limits of all virtual hosts or users; or of one, whose name is `only`.
function LimitTable ({ title, subject, only }) {
  const address = `${subject}-limits`
  const names = LIMITS[subject]
  const asked = only === undefined ? address : path(address, only)
  const rowsOf = (limited) => limited.flatMap((row) => Object.entries(row.value).map(([name, value]) => ({ of: row[subject], name, value })))
  const add = () => openForm({
    title: 'Set a limit',
    submit: 'Set limit',
    fields: [
      { name: 'of', label: subject === 'vhost' ? 'Virtual host' : 'User', value: only ?? (subject === 'vhost' ? '/' : ''), required: true, when: () => only === undefined },
      { name: 'name', label: 'Limit', type: 'select', options: names, value: names[0] },
      { name: 'value', label: 'At most', type: 'number', required: true, hint: '-1: none.' }
    ],
    request: (v) => ({ method: 'PUT', address: path(address, v.of, v.name), body: { value: Number(v.value) } })
  })
  const clear = (row) => askFirst({ title: 'Clear this limit?', explanation: html`${row.name} of ${named(row.of)}`, label: 'Clear limit', request: { method: 'DELETE', address: path(address, row.of, row.name) } })
  return html`<${Section} title=${title} tools=${html`<${Button} onClick=${add}>Set limit</>`}>
    <${List} part=${`${subject}-limits-`} label=${only === undefined ? `Limits ${title}` : title} address=${asked} vhosts=${false} search=${`Filter by ${subject === 'vhost' ? 'virtual host' : 'user'}`} rowsOf=${rowsOf} keyOf=${(row) => `${row.of} ${row.name}`} empty="None." columns=${[
      only === undefined && { title: subject === 'vhost' ? 'Virtual host' : 'User', cell: (row) => named(row.of) },
      { title: 'Limit', cell: (row) => row.name }, { title: 'At most', number: true, cell: (row) => row.value },
      { title: '', cell: (row) => html`<${Button} kind="small" onClick=${() => clear(row)}>Clear</>` }
    ].filter(Boolean)} /></>`
}

// ---- definitions

const PASSED_OVER_SHOWN = 100
const IMPORT_BYTES_MAX = 50_000_000
// Characters of an export that is indented: a longer one nobody reads.
const INDENTED_MAX = 5_000_000
const TOO_LARGE = 'The file has more than the 50 MB that one request takes: import it on a node with `leveret import FILE`, which sends it in pieces.'

export function Definitions () {
  const vhosts = useVhosts()
  const [vhost, setVhost] = useState('')
  const [passedOver, setPassedOver] = useState([])
  const address = vhost ? path('definitions', vhost) : 'definitions'
  const save = async () => {
    try {
      const found = await call('GET', address, undefined, { isLong: true, isText: true })
      download('definitions.json', 'application/json', found.length > INDENTED_MAX ? found : indented(found))
    } catch (error) {
      notify(error.message, 'bad')
    }
  }
  const scope = { name: 'vhost', label: 'Of', type: 'select', options: [['', 'all virtual hosts, users and policies'], ...vhosts.map((name) => [name, shown(name)])], value: '' }
  return html`<${Head} title="Definitions" />
    <div class="columns">
      <${Section} title="Export">
        <form onSubmit=${(event) => { event.preventDefault(); save() }}>
          <p>Users, virtual hosts, permissions, exchanges, queues, bindings and policies as one file. Messages are not part of it.</p>
          <div class="field"><label for="scope">Of</label><select id="scope" value=${vhost} onChange=${(e) => setVhost(e.target.value)}>
            ${scope.options.map(([value, label]) => html`<option value=${value}>${label}</option>`)}</select></div>
          <footer><code class="quiet">GET /api/${address}</code><button class="primary">Save the file</button></footer>
        </form></>
      <${Section} title="Import">
        <${Form} stay=${true} submit="Import" fields=${[{ name: 'file', label: 'File', type: 'file', accept: '.json,application/json', required: true, read: definitionsOf, hint: 'Up to 50 MB. Import a larger one on a node with: leveret import FILE' }, scope, { name: 'skip', label: 'Leave out what is not supported', type: 'check', value: false }]}
          message=${(answer) => { const lines = notTaken(answer); return lines.length ? `Imported, but for ${count(lines.length)} that are passed over.` : 'Imported.' }}
          request=${(v) => ({ method: 'POST', address: (v.vhost ? path('definitions', v.vhost) : 'definitions') + '?passed_over=true' + (v.skip ? '&skip_unsupported=true' : ''), body: v.file || undefined, isLong: true })}
          done=${(answer) => setPassedOver(notTaken(answer))}>
          <p>What the file names is made or changed; nothing is deleted. A file that RabbitMQ exported will do.</p></>
        ${passedOver.length > 0 && html`<h3>Passed over</h3><ul class="fields">${passedOver.slice(0, PASSED_OVER_SHOWN).map((line) => html`<li><bdi>${shown(line)}</bdi></li>`)}</ul>
          ${passedOver.length > PASSED_OVER_SHOWN && html`<p class="quiet">The first ${count(PASSED_OVER_SHOWN)} of ${count(passedOver.length)} are shown; all are in the node's log.</p>`}`}</>
    </div>`
}

// A line for all that an import made nothing of.
function notTaken ({ passed_over: passedOver, left_out: leftOut = [] }) {
  return [...leftOut, ...passedOver]
}

// The definitions in a file that one request takes.
async function definitionsOf (file) {
  // Without the spaces that people like it may be small enough.
  if (file.size > 4 * IMPORT_BYTES_MAX) throw new Error(TOO_LARGE)
  let text = await file.text()
  try {
    JSON.parse(text)
  } catch {
    throw new Error('The file is not JSON.')
  }
  if (file.size > IMPORT_BYTES_MAX) text = compacted(text)
  if (file.size > IMPORT_BYTES_MAX && new Blob([text]).size > IMPORT_BYTES_MAX) throw new Error(TOO_LARGE)
  // Numbers in it would be others if they were read and written again.
  return new Verbatim(text)
}
