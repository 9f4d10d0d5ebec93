// What a virtual host looks like from inside: where a publish would go, and how things hang
// together.
//
// Both are worked out here from the exchanges and bindings that the API lists.

import { useState } from '../vendor/preact-hooks.js'
import { exchangeSegment, path, query, useCell, usePoll } from '../api.js'
import { Badge, compact, Empty, Failure, Head, html, Loading, Name, place, rate, Section, setParams, shown, Table, to, useVhosts } from '../parts.js'

// Lists longer than this are not asked for as a whole.
const LISTED_MAX = 500
const HOPS_MAX = 20

// ---- routing, as the broker does it

// Whether a topic pattern matches a key: `*` is one word, `#` any number of words.
export function topicMatches (pattern, key) {
  const [parts, words] = [pattern.split('.'), key.split('.')]
  // What each prefix of the pattern matches: the numbers of words taken.
  let reached = new Set([0])
  for (const part of parts) {
    const next = new Set()
    for (const at of reached) {
      if (part === '#') for (let to = at; to <= words.length; to++) next.add(to)
      else if (at < words.length && (part === '*' || part === words[at])) next.add(at + 1)
    }
    reached = next
  }
  return reached.has(words.length) || (key === '' && parts.every((part) => part === '#'))
}

function headersMatch (wanted, headers) {
  const how = wanted['x-match'] ?? 'all'
  const asked = Object.entries(wanted).filter(([key]) => how.endsWith('with-x') ? key !== 'x-match' : !key.startsWith('x-'))
  const holds = ([key, value]) => key in headers && (value === null || String(headers[key]) === String(value))
  return how.startsWith('any') ? asked.some(holds) : asked.every(holds)
}

// `[whether it matches, why]`; null for exchanges that choose by chance or by a hash.
function judge (type, binding, key, headers) {
  const pattern = binding.routing_key
  switch (type) {
    case 'direct': return [pattern === key, pattern === key ? 'the key is the same' : `its key is "${pattern}"`]
    case 'fanout': return [true, 'a fanout exchange sends to all']
    case 'topic': return topicMatches(pattern, key) ? [true, `"${pattern}" matches`] : [false, `"${pattern}" does not match`]
    case 'headers': return headersMatch(binding.arguments, headers) ? [true, 'the headers match'] : [false, 'the headers do not match']
    case 'x-recent-history': return [true, 'it sends to all']
    default: return null
  }
}

// The same of a super stream, whose partitions may be drained, or chosen by the key's hash.
function partition (exchange, binding, key) {
  if (exchange.arguments?.['x-super-stream'] !== true) return null
  if (binding.arguments['x-stream-partition-drained'] === true) return [false, 'it is drained']
  const routing = exchange.arguments?.['x-super-stream-routing'] ?? 'key'
  if (routing === 'key' || !('x-stream-partition-order' in binding.arguments)) return null
  if (routing === 'key-or-hash' && binding.routing_key === key) return null
  return [null, 'the hash of the key chooses a partition']
}

// Follows a message from an exchange: `{queues, steps}`.
export function route ({ exchanges, bindings, queues }, from, key, headers) {
  const steps = []
  const reached = new Set()
  const seen = new Set()
  const walk = (name, hops) => {
    if (seen.has(name) || hops > HOPS_MAX) return 0
    seen.add(name)
    const exchange = exchanges.find((one) => one.name === name)
    if (!exchange) return 0
    let matched = 0
    for (const binding of name === '' ? queues.filter((queue) => queue === key).map(implied) : bindings.filter((one) => one.source === name)) {
      const type = exchange.type === 'x-delayed-message' ? exchange.arguments['x-delayed-type'] ?? 'direct' : exchange.type
      const verdict = partition(exchange, binding, key) ?? judge(type, binding, key, headers) ?? [null, `${type} chooses among its bindings`]
      steps.push({ from: name, binding, matches: verdict[0], why: verdict[1] })
      if (verdict[0] === false) continue
      matched++
      if (binding.destination_type === 'queue') reached.add(binding.destination)
      else walk(binding.destination, hops + 1)
    }
    const alternate = exchange.arguments?.['alternate-exchange']
    if (matched === 0 && alternate !== undefined) {
      steps.push({ from: name, binding: { destination: alternate, destination_type: 'exchange', routing_key: '' }, matches: true, why: 'no binding matched: its alternate exchange' })
      walk(alternate, hops + 1)
    }
    return matched
  }
  walk(from, 0)
  return { queues: [...reached], steps }
}

const implied = (queue) => ({ source: '', destination: queue, destination_type: 'queue', routing_key: queue, arguments: {} })

// All that a route is worked out from.
function useWiring (vhost) {
  const page = { page: 1, page_size: LISTED_MAX }
  const exchanges = usePoll(`exchanges/${path(vhost)}` + query({ ...page, columns: 'name,type,arguments,message_stats.publish_in_details.rate' }))
  const queues = usePoll(`queues/${path(vhost)}` + query({ ...page, columns: 'name,type,messages,consumers,message_stats.publish_details.rate,message_stats.deliver_get_details.rate' }))
  const bindings = usePoll(`bindings/${path(vhost)}`)
  const items = (polled) => polled.data?.items ?? polled.data
  const all = [exchanges, queues, bindings]
  return {
    error: all.find((one) => one.error)?.error,
    ready: all.every((one) => one.data),
    truncated: [exchanges, queues].some((one) => one.data?.page_count > 1),
    exchanges: items(exchanges),
    queues: items(queues),
    bindings: items(bindings)
  }
}

function VhostChoice ({ value }) {
  const vhosts = useVhosts()
  return html`<label>Virtual host <select value=${value} onChange=${(e) => setParams({ vhost: e.target.value, exchange: '' })}>
    ${vhosts.map((name) => html`<option value=${name}>${shown(name)}</option>`)}</select></label>`
}

// ---- the route tester

function parseHeaders (text) {
  return Object.fromEntries(text.split('\n').map((line) => line.split(/:\s*/, 2)).filter(([key, value]) => key && value !== undefined))
}

export function RouteTester () {
  const params = useCell(place).params
  const vhost = params.get('vhost') ?? '/'
  const wiring = useWiring(vhost)
  const [exchange, key] = [params.get('exchange') ?? '', params.get('key') ?? '']
  const [headers, setHeaders] = useState('')
  const found = wiring.ready && route({ ...wiring, queues: wiring.queues.map((one) => one.name) }, exchange, key, parseHeaders(headers))
  const type = wiring.exchanges?.find((one) => one.name === exchange)?.type
  return html`<${Head} title="Route tester"><${VhostChoice} value=${vhost} /></>
    <${Section}><div class="inline">
      <div class="field"><label for="exchange">Exchange</label><select id="exchange" value=${exchange} onChange=${(e) => setParams({ exchange: e.target.value })}>
        ${(wiring.exchanges ?? []).map((one) => html`<option value=${one.name}>${shown(one.name)}</option>`)}</select></div>
      <div class="field"><label for="key">Routing key</label><input id="key" value=${key} onInput=${(e) => setParams({ key: e.target.value })} spellcheck="false" /></div>
      ${type === 'headers' && html`<div class="field"><label for="headers">Headers, one on a line: name: value</label><textarea id="headers" rows="3" value=${headers} onInput=${(e) => setHeaders(e.target.value)} /></div>`}
    </div></>
    <${Failure} error=${wiring.error} />
    ${wiring.truncated && html`<p class="failure">There are more exchanges or queues than are looked at here (${LISTED_MAX}).</p>`}
    ${!found ? html`<${Loading} />` : html`<${Routed} vhost=${vhost} found=${found} queues=${wiring.queues} />`}`
}

function Routed ({ vhost, found, queues }) {
  const chance = found.steps.some((step) => step.matches === null)
  return html`<${Section} title=${chance ? 'It may reach' : 'It reaches'}>
      ${found.queues.length === 0
        ? html`<${Empty}>No queue: it is returned to the publisher if it is mandatory, and dropped otherwise.</>`
        : html`<${Table} label="Queues that it reaches" rows=${found.queues.map((name) => queues.find((one) => one.name === name) ?? { name })} keyOf=${(one) => one.name} columns=${[
          { title: 'Queue', cell: (one) => html`<${Name} name=${one.name} at=${['queues', vhost, one.name]} />` },
          { title: 'Type', cell: (one) => one.type }, { title: 'Messages', number: true, cell: (one) => one.messages ?? '–' }, { title: 'Consumers', number: true, cell: (one) => one.consumers ?? '–' }
        ]} />`}</>
    <${Section} title="Why"><${Table} label="Bindings looked at" rows=${found.steps} empty="The exchange has no bindings that concern this key." columns=${[
      { title: 'From', cell: (step) => html`<${Name} name=${step.from} at=${['exchanges', vhost, exchangeSegment(step.from)]} />` },
      { title: 'To', cell: ({ binding }) => html`<${Name} name=${binding.destination} at=${binding.destination_type === 'queue' ? ['queues', vhost, binding.destination] : ['exchanges', vhost, exchangeSegment(binding.destination)]} /> <small>${binding.destination_type}</small>` },
      { title: 'Taken', cell: (step) => html`<${Badge} kind=${step.matches ? 'good' : step.matches === null ? 'warn' : ''}>${step.matches ? 'yes' : step.matches === null ? 'perhaps' : 'no'}</>` },
      { title: 'Because', cell: (step) => html`<bdi class="value">${shown(step.why)}</bdi>` }
    ]} /></>`
}

// ---- the map

const BOX = { width: 230, height: 40, gap: 14, column: 360 }

// Where each object stands: exchanges that nothing leads to on the left, queues on the right.
function layout ({ exchanges, queues, bindings }) {
  const used = new Set(bindings.filter((one) => one.source !== '').flatMap((one) => [`e${one.source}`, `${one.destination_type[0]}${one.destination}`]))
  const depth = new Map()
  const inner = bindings.filter((one) => one.destination_type === 'exchange')
  for (const one of exchanges) if (one.name !== '' && used.has(`e${one.name}`)) depth.set(one.name, 0)
  for (let round = 0; round < 4; round++) {
    for (const one of inner) {
      if (depth.get(one.destination) <= depth.get(one.source) && round < 3) depth.set(one.destination, depth.get(one.source) + 1)
    }
  }
  const columns = Math.max(0, ...depth.values()) + 1
  const rows = Array(columns + 1).fill(0)
  const boxes = new Map()
  const put = (id, kind, object, column) => boxes.set(id, { id, kind, object, x: 20 + column * BOX.column, y: 20 + rows[column]++ * (BOX.height + BOX.gap) })
  for (const one of exchanges) if (depth.has(one.name)) put(`e${one.name}`, 'exchange', one, depth.get(one.name))
  for (const one of queues) put(`q${one.name}`, 'queue', one, columns)
  const edges = bindings.filter((one) => one.source !== '').map((one) => ({ binding: one, from: boxes.get(`e${one.source}`), to: boxes.get(`${one.destination_type[0]}${one.destination}`) })).filter((one) => one.from && one.to)
  return { boxes: [...boxes.values()], edges, width: 40 + columns * BOX.column + BOX.width, height: 40 + Math.max(1, ...rows) * (BOX.height + BOX.gap) }
}

const flowOf = ({ kind, object }) => (kind === 'queue' ? object.message_stats?.publish_details?.rate : object.message_stats?.publish_in_details?.rate) ?? 0

const cut = (name) => name.length > 26 ? `${name.slice(0, 25)}…` : name

export function Topology () {
  const vhost = useCell(place).params.get('vhost') ?? '/'
  const wiring = useWiring(vhost)
  return html`<${Head} title="Topology"><${VhostChoice} value=${vhost} /></>
    <${Failure} error=${wiring.error} />
    ${wiring.truncated && html`<p class="quiet">The first ${LISTED_MAX} exchanges and queues are shown.</p>`}
    ${wiring.ready ? html`<${Diagram} vhost=${vhost} map=${layout(wiring)} />` : html`<${Loading} />`}
    <p class="quiet">Exchanges on the left, queues on the right; edges are bindings, blue where messages come through now. What is bound to the default exchange alone stands by itself.</p>`
}

function Diagram ({ vhost, map }) {
  if (map.boxes.length === 0) return html`<${Section}><${Empty}>There are no queues, and no bindings.</></>`
  return html`<div class="map" tabindex="0" role="region" aria-label="Map of exchanges and queues">
    <svg width=${map.width} height=${map.height}>
      ${map.edges.map(({ binding, from, to: target }) => {
        const [x1, y1, x2, y2] = [from.x + BOX.width, from.y + BOX.height / 2, target.x, target.y + BOX.height / 2]
        const live = flowOf(from) > 0 && flowOf(target) > 0
        return html`<path class=${live ? 'live' : ''} d=${`M${x1} ${y1} C${x1 + 60} ${y1} ${x2 - 60} ${y2} ${x2} ${y2}`}><title>${shown(binding.routing_key || '(no key)')}</title></path>`
      })}
      ${map.boxes.map((box) => html`<${Box} key=${box.id} box=${box} vhost=${vhost} />`)}
    </svg></div>`
}

function Box ({ box, vhost }) {
  const { kind, object } = box
  const address = kind === 'queue' ? to(['queues', vhost, object.name]) : to(['exchanges', vhost, exchangeSegment(object.name)])
  const note = kind === 'queue' ? `${compact(object.messages)} waiting · ${compact(object.consumers)} consumers · ${rate(flowOf(box))}` : `${object.type} · ${rate(flowOf(box))}`
  return html`<a href=${address} class=${kind}><title>${shown(object.name)}</title>
    <rect x=${box.x} y=${box.y} width=${BOX.width} height=${BOX.height} rx="8" />
    <text x=${box.x + 10} y=${box.y + 17}>${cut(shown(object.name))}</text>
    <text class="sub" x=${box.x + 10} y=${box.y + 32}>${note}</text></a>`
}
