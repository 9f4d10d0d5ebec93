// Exchanges: the list, one with its bindings, publishing.

import { exchangeSegment, path, usePoll } from '../api.js'
import { Chart, RangeChoice, useHistory, usePast } from '../charts.js'
import {
  ApiNote, argumentsOf, askFirst, Badge, Button, Failure, Facts, Fields, go, Head, html, List, Loading, Name, openForm,
  rate, Section, shown, useVhosts, yesNo, place
} from '../parts.js'
import { Pairs } from './pairs.js'
import { DelayedOf } from './trouble.js'

export const TYPES = ['direct', 'fanout', 'topic', 'headers', 'x-consistent-hash', 'x-modulus-hash', 'x-random', 'x-local-random', 'x-recent-history', 'x-delayed-message']

export const features = (row) => html`
  ${row.durable && html`<${Badge} title="Durable">D</>`}
  ${row.auto_delete && html` <${Badge} title="Deletes itself when no longer used">AD</>`}
  ${row.internal && html` <${Badge} title="Internal: clients may not publish to it">I</>`}
  ${row.exclusive && html` <${Badge} title="Exclusive to one connection">Excl</>`}
  ${Object.keys(row.arguments ?? {}).length > 0 && html` <${Badge} title=${JSON.stringify(row.arguments)}>Args</>`}`

const COLUMNS = [
  { id: 'name', title: 'Name', sort: 'name', cell: (e) => html`<${Name} name=${e.name} at=${['exchanges', e.vhost, exchangeSegment(e.name)]} />` },
  { id: 'vhost', title: 'Virtual host', sort: 'vhost', cell: (e) => html`<${Name} name=${e.vhost} />` },
  { id: 'type', title: 'Type', sort: 'type', cell: (e) => e.type },
  { id: 'features', title: 'Features', fields: ['durable', 'auto_delete', 'internal', 'arguments'], cell: features },
  { id: 'policy', title: 'Policy', sort: 'policy', cell: (e) => e.policy ? html`<${Name} name=${e.policy} />` : '' },
  { id: 'in', title: 'In', number: true, sort: 'message_stats.publish_in_details.rate', cell: (e) => rate(e.message_stats?.publish_in_details?.rate) },
  { id: 'out', title: 'Out', number: true, sort: 'message_stats.publish_out_details.rate', cell: (e) => rate(e.message_stats?.publish_out_details?.rate) }
]

export function Exchanges ({ segments: [vhost, name] }) {
  const vhosts = useVhosts()
  if (name !== undefined) return html`<${Exchange} vhost=${vhost} segment=${name} />`
  return html`<${Head} title="Exchanges" />
    <${List} label="Exchanges" address="exchanges" always=${['name', 'vhost']} keyOf=${(e) => `${e.vhost} ${e.name}`} columns=${COLUMNS}
      tools=${html`<${Button} kind="primary" onClick=${() => addExchange(vhosts)}>Add exchange</>`} />`
}

export const usualVhost = (vhosts) => vhosts.includes('/') || vhosts.length === 0 ? '/' : vhosts[0]

export const vhostField = (vhosts) => ({
  name: 'vhost',
  label: 'Virtual host',
  // Typed, where the list of them has not come yet.
  ...(vhosts.length ? { type: 'select', options: vhosts } : { required: true }),
  value: place.value.params.get('vhost') || usualVhost(vhosts),
  when: () => vhosts.length !== 1
})

function addExchange (vhosts) {
  openForm({
    title: 'Add exchange',
    submit: 'Add exchange',
    fields: [
      vhostField(vhosts),
      { name: 'name', label: 'Name', required: true },
      { name: 'type', label: 'Type', type: 'select', options: TYPES, value: 'direct' },
      { name: 'durable', label: 'Durable: stays over a restart', type: 'check', value: true },
      { name: 'auto_delete', label: 'Deletes itself with its last binding', type: 'check' },
      { name: 'internal', label: 'Internal: only exchanges publish to it', type: 'check' },
      {
        name: 'arguments',
        label: 'Arguments',
        type: 'arguments',
        known: ({ type }) => [
          ['alternate-exchange', 'string', 'Takes what no binding wants'],
          ...(type === 'x-delayed-message' ? [['x-delayed-type', 'string', 'The type that routes after the delay', 'direct']] : []),
          ...(type === 'x-consistent-hash' ? [['hash-header', 'string', 'The header that is hashed']] : []),
          ...(type === 'x-recent-history' ? [['x-recent-history-length', 'number', 'Messages that are kept', '20']] : [])
        ]
      }
    ],
    request: (v) => ({
      method: 'PUT',
      address: path('exchanges', v.vhost, v.name),
      body: { type: v.type, durable: v.durable, auto_delete: v.auto_delete, internal: v.internal, arguments: argumentsOf(v.arguments) }
    })
  })
}

function Exchange ({ vhost, segment }) {
  const name = segment === 'amq.default' ? '' : segment
  const address = path('exchanges', vhost, segment)
  const { data: e, error, at } = usePoll(address)
  const past = usePast(address, { in: 'message_stats.publish_in', out: 'message_stats.publish_out' }, {})
  const history = useHistory(address, at, { in: e?.message_stats?.publish_in, out: e?.message_stats?.publish_out }, {}, past)
  const title = html`<bdi>${shown(name)}</bdi>`
  if (!e) return html`<${Head} kind="Exchange" title=${title} />${error ? html`<${Failure} error=${error} />` : html`<${Loading} />`}`
  const remove = () => askFirst({
    title: 'Delete this exchange?',
    explanation: html`<bdi class="name">${shown(name)}</bdi> and its bindings go. What is published to it afterwards is refused.`,
    label: 'Delete exchange',
    request: { method: 'DELETE', address },
    done: () => go(['exchanges'])
  })
  const builtIn = name === '' || name.startsWith('amq.')
  return html`
    <${Head} kind=${`Exchange in ${shown(vhost)}`} title=${title}><${RangeChoice} />
      <${Button} kind="primary" onClick=${() => publishForm({ vhost, exchange: name })}>Publish</>
      ${!builtIn && html`<${Button} kind="danger" onClick=${remove}>Delete</>`}</>
    ${error && html`<${Failure} error=${error} />`}
    <div class="charts"><${Chart} title="Message rates" history=${history} lines=${[{ name: 'in', label: 'In', fill: true }, { name: 'out', label: 'Out to queues' }]} /></div>
    <${Section} title="Details"><${Facts} rows=${[['Type', e.type], ['Durable', yesNo(e.durable)], ['Deletes itself', yesNo(e.auto_delete)], ['Internal', yesNo(e.internal)],
      ['Policy', e.policy && html`<bdi>${shown(e.policy)}</bdi>`], ['Arguments', html`<${Fields} of=${e.arguments} />`]]} /></>
    <${Pairs} title="Publishers" rows=${e.incoming} side="channel_details" empty="No channel that is open has published here." />
    <${Pairs} title="Queues that it reaches" rows=${e.outgoing} side="queue" empty="No queue has got anything from here." />
    ${e.type === 'x-delayed-message' && html`<${DelayedOf} vhost=${vhost} exchange=${name} always=${true} />`}
    ${name === ''
      ? html`<${Section} title="Bindings"><p class="quiet">Every queue is bound to the default exchange by its own name.</p></>`
      : html`<${Bindings} vhost=${vhost} name=${name} side="source" address=${`${address}/bindings/source`} /><${Bindings} vhost=${vhost} name=${name} side="destination" address=${`${address}/bindings/destination`} />`}
    <${ApiNote} address=${address} />`
}

// A stream's address is found by its page.
const at = (kind, vhost, name) => kind === 'queue' ? ['queues', vhost, name] : ['exchanges', vhost, exchangeSegment(name)]

const bindingAddress = (b) =>
  path('bindings', b.vhost, 'e', exchangeSegment(b.source), b.destination_type === 'queue' ? 'q' : 'e', b.destination, b.properties_key)

// The bindings that leave an exchange (`side` "source"), that lead to it ("destination") or to a
// queue ("queue").
export function Bindings ({ vhost, name, side, address }) {
  const leaves = side === 'source'
  const remove = (b) => askFirst({
    title: 'Delete this binding?',
    explanation: html`<bdi class="name">${shown(b.source)}</bdi> → <bdi class="name">${shown(b.destination)}</bdi>, key <bdi class="name">${shown(b.routing_key || ' ')}</bdi>`,
    label: 'Delete binding',
    request: { method: 'DELETE', address: bindingAddress(b) }
  })
  return html`<${Section} title=${leaves ? 'Bindings from here' : 'Bindings to here'}
    tools=${html`<${Button} onClick=${() => bindForm({ vhost, name, side })}>Add binding</>`}>
    <${List} part=${`${side}-`} label=${leaves ? 'Bindings from here' : 'Bindings to here'} address=${address} vhosts=${false} search=${`Filter bindings ${leaves ? 'from' : 'to'} here by name or key`} keyOf=${(b) => bindingAddress(b)} columns=${[
      leaves
        ? { title: 'To', sort: 'destination', cell: (b) => html`<${Name} name=${b.destination} at=${at(b.destination_type, b.vhost, b.destination)} /> <small>${b.destination_type}</small>` }
        : { title: 'From', sort: 'source', cell: (b) => html`<${Name} name=${b.source} at=${at('exchange', b.vhost, b.source)} />` },
      { title: 'Routing key', sort: 'routing_key', cell: (b) => html`<bdi class="value">${b.routing_key === '' ? '' : shown(b.routing_key)}</bdi>` },
      { title: 'Arguments', cell: (b) => html`<${Fields} of=${b.arguments} />` },
      { title: '', cell: (b) => b.source === '' ? '' : html`<${Button} kind="small" onClick=${() => remove(b)} aria-label=${`Unbind the key ${shown(b.routing_key || ' ')}`}>Unbind</>` }
    ]} empty=${leaves ? 'No queue or exchange gets anything from here.' : 'No exchange sends anything here.'} />
  </>`
}

function bindForm ({ vhost, name, side }) {
  const fields = {
    source: [
      { name: 'kind', label: 'To', type: 'select', options: [['q', 'a queue'], ['e', 'an exchange']], value: 'q' },
      { name: 'other', label: 'Its name', required: true }
    ]
  }[side] ?? [{ name: 'other', label: 'From exchange', required: true }]
  openForm({
    title: 'Add binding',
    submit: 'Add binding',
    fields: [
      ...fields,
      { name: 'key', label: 'Routing key', hint: 'For a topic exchange: * is one word, # any number of words.' },
      { name: 'arguments', label: 'Arguments', type: 'arguments', known: () => [['x-match', 'string', 'For a headers exchange: whether all or any must match', 'all']] }
    ],
    request: (v) => {
      const [source, kind, destination] = side === 'source' ? [name, v.kind, v.other] : [v.other, side === 'queue' ? 'q' : 'e', name]
      return {
        method: 'POST',
        address: path('bindings', vhost, 'e', exchangeSegment(source), kind, destination),
        body: { routing_key: v.key, arguments: argumentsOf(v.arguments) }
      }
    }
  })
}

const PROPERTIES = [
  ['content_type', 'string', '', 'application/json'], ['content_encoding', 'string'], ['priority', 'number'], ['correlation_id', 'string'], ['reply_to', 'string'],
  ['expiration', 'string', 'Time to live in milliseconds'], ['message_id', 'string'], ['timestamp', 'number'], ['type', 'string'], ['user_id', 'string'], ['app_id', 'string']
]

// The form that publishes to an exchange; with a key that is given, to a queue.
export function publishForm ({ vhost, exchange, key }) {
  openForm({
    title: key === undefined ? html`Publish to <bdi>${shown(exchange)}</bdi>` : html`Publish to <bdi>${shown(key)}</bdi>`,
    wide: true,
    submit: 'Publish',
    stay: true,
    fields: [
      { name: 'key', label: 'Routing key', value: key ?? '', when: () => key === undefined },
      { name: 'payload', label: 'Body', type: 'area', rows: 6 },
      { name: 'encoding', label: 'The body is', type: 'select', options: [['string', 'text'], ['base64', 'base64']], value: 'string' },
      { name: 'persistent', label: 'Persistent', type: 'check', value: true },
      { name: 'headers', label: 'Headers', type: 'arguments' },
      { name: 'properties', label: 'Properties', type: 'arguments', known: () => PROPERTIES }
    ],
    request: (v) => ({
      method: 'POST',
      address: path('exchanges', vhost, exchangeSegment(exchange), 'publish'),
      body: {
        properties: { delivery_mode: v.persistent ? 2 : 1, ...argumentsOf(v.properties), ...(v.headers.length ? { headers: argumentsOf(v.headers) } : {}) },
        routing_key: v.key,
        payload: v.payload,
        payload_encoding: v.encoding
      }
    }),
    message: ({ routed, reason }) => routed ? 'Published.' : reason ? `Not taken: ${reason}.` : 'No queue took it: nothing is bound for this key.'
  })
}
