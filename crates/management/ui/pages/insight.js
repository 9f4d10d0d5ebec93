// What a virtual host looks like from inside: where a publish would go, which the node says, and
// how things hang together.

import { useState } from '../vendor/preact-hooks.js'
import { exchangeSegment, path, query, useCell, usePoll } from '../api.js'
import { parse } from '../exact.js'
import {
  ApiNote, argumentsOf, Arguments, Badge, compact, count, Empty, Failure, Head, html, Loading, Name, place, queueAt, rate, rowsOf, Section, setParams, shown, Table, to, useVhosts
} from '../parts.js'
import { usualVhost } from './exchanges.js'

// Lists longer than this are not asked for as a whole.
const LISTED_MAX = 500

// Where the bindings are found that the map shows: all, or those of what it is drawn around.
function bindingsOf (vhost, around, page) {
  if (!vhost) return [null, null]
  const [kind, name] = [around[0], around.slice(1)]
  if (kind === 'q') return [`queues/${path(vhost, name)}/bindings` + query(page), null]
  if (kind === 'e') return ['source', 'destination'].map((side) => `exchanges/${path(vhost, exchangeSegment(name))}/bindings/${side}` + query(page))
  return [`bindings/${path(vhost)}` + query(page), null]
}

// All that the map is drawn from.
function useWiring (vhost, around) {
  const page = { page: 1, page_size: LISTED_MAX }
  const exchanges = usePoll(vhost && `exchanges/${path(vhost)}` + query({ ...page, columns: 'name,type,message_stats.publish_in_details.rate,message_stats.publish_out_details.rate' }))
  const queues = usePoll(vhost && `queues/${path(vhost)}` + query({ ...page, columns: 'name,vhost,type,messages,consumers,message_stats.publish_details.rate' }))
  const sides = bindingsOf(vhost, around, page).map((address) => ({ ...usePoll(address), isAsked: address !== null }))
  const asked = sides.filter((side) => side.isAsked)
  const flows = usePoll(vhost && path('leveret', 'flows', vhost))
  const items = (polled) => polled.data?.items ?? polled.data
  const all = [exchanges, queues, flows, ...asked]
  return {
    error: all.find((one) => one.error)?.error,
    ready: all.every((one) => one.data),
    truncated: [exchanges, queues, ...asked].some((one) => one.data?.page_count > 1),
    exchanges: items(exchanges),
    queues: items(queues),
    bindings: asked.flatMap((side) => items(side) ?? []),
    flows: flows.data
  }
}

// The one that is chosen, else the first that the user may see; none until these are known.
function useChosenVhost (params) {
  const vhosts = useVhosts()
  const chosen = params.get('vhost')
  return [chosen ?? (vhosts.length ? usualVhost(vhosts) : null), vhosts]
}

function VhostChoice ({ value, vhosts }) {
  return html`<label>Virtual host <select value=${value} onChange=${(e) => setParams({ vhost: e.target.value, exchange: '', around: '' })}>
    ${vhosts.map((name) => html`<option value=${name}>${shown(name)}</option>`)}</select></label>`
}

// ---- the route tester

function headersOf (text) {
  try {
    return rowsOf(parse(text || '{}'))
  } catch {
    return []
  }
}

export function RouteTester () {
  const params = useCell(place).params
  const [vhost, vhosts] = useChosenVhost(params)
  const [exchange, key] = [params.get('exchange') ?? '', params.get('key') ?? '']
  const [headers, setHeaders] = useState(() => headersOf(params.get('headers')))
  const exchanges = usePoll(vhost && `exchanges/${path(vhost)}` + query({ page: 1, page_size: LISTED_MAX, sort: 'name', columns: 'name,type' }))
  const address = vhost && path('leveret', 'exchanges', vhost, exchangeSegment(exchange), 'route') + query({ routing_key: key, headers: params.get('headers') })
  const { data, error } = usePoll(address, true)
  const [problem, setProblem] = useState('')
  const names = exchanges.data?.items ?? []
  const change = (rows) => {
    setHeaders(rows)
    try {
      setParams({ headers: rows.length ? JSON.stringify(argumentsOf(rows)) : '' })
      setProblem('')
    } catch (failed) {
      setProblem(`${failed.message}.`)
    }
  }
  return html`<${Head} title="Route tester"><${VhostChoice} value=${vhost} vhosts=${vhosts} /></>
    <${Section}><div class="inline">
      <div class="field"><label for="exchange">Exchange</label><select id="exchange" value=${exchange} onChange=${(e) => setParams({ exchange: e.target.value })}>
        ${[...new Set([exchange, ...names.map((one) => one.name)])].map((name) => html`<option value=${name}>${shown(name)}</option>`)}</select></div>
      <div class="field"><label for="key">Routing key</label><input id="key" value=${key} onInput=${(e) => setParams({ key: e.target.value })} spellcheck="false" /></div>
    </div>
    <${Arguments} field=${{ label: 'Headers' }} value=${headers} onValue=${change} />
    ${problem && html`<p class="failure" role="alert">${problem}</p>`}</>
    ${error ? html`<p class="failure" role="alert">${shown(error.message)}</p>` : exchanges.error && html`<${Failure} error=${exchanges.error} />`}
    ${exchanges.data?.page_count > 1 && html`<p class="quiet">The first ${count(LISTED_MAX)} exchanges are offered.</p>`}
    ${data ? !error && html`<${Routed} vhost=${vhost} found=${data} />` : !error && html`<${Loading} />`}
    ${address && html`<${ApiNote} address=${address} />`}`
}

function Routed ({ vhost, found }) {
  const chance = found.steps.some((step) => step.taken === null)
  const typeOf = (name) => found.queues.find((one) => one.queue === name)?.type
  return html`<${Section} title=${chance ? 'It may reach' : 'It reaches'}>
      ${found.queues.length === 0
        ? html`<${Empty}>No queue: it is returned to the publisher if it is mandatory, and dropped otherwise.</>`
        : html`<${Table} label="Queues that it reaches" rows=${found.queues} keyOf=${(one) => one.queue} columns=${[
          { title: 'Queue', cell: (one) => html`<${Name} name=${one.queue} at=${queueAt({ vhost, name: one.queue, type: one.type })} />` },
          { title: 'Type', cell: (one) => one.type }, { title: 'Policy', cell: (one) => one.policy ? html`<${Name} name=${one.policy} />` : '' },
          { title: 'By', cell: (one) => html`<ul class="fields">${one.by.map((by) => html`<li><bdi class="value">${shown(by)}</bdi></li>`)}</ul>` }
        ]} />`}
      ${found.ways_left_out > 0 && html`<p class="quiet">${count(found.ways_left_out)} more ${found.ways_left_out === 1 ? 'way leads' : 'ways lead'} to these queues: together they are too long to be shown.</p>`}</>
    <${Section} title="Why"><${Table} label="Bindings looked at" rows=${found.steps} empty="The exchange has no bindings that concern this key." columns=${[
      { title: 'From', cell: ({ binding }) => html`<${Name} name=${binding.source} at=${['exchanges', vhost, exchangeSegment(binding.source)]} />` },
      { title: 'To', cell: ({ binding }) => html`<${Name} name=${binding.destination} at=${binding.destination_type === 'queue' ? queueAt({ vhost, name: binding.destination, type: typeOf(binding.destination) }) : ['exchanges', vhost, exchangeSegment(binding.destination)]} /> <small>${binding.destination_type}</small>` },
      { title: 'Taken', cell: ({ taken }) => html`<${Badge} kind=${taken ? 'good' : taken === null ? 'warn' : ''}>${taken ? 'yes' : taken === null ? 'perhaps' : 'no'}</>` },
      { title: 'Because', cell: (step) => html`<bdi class="value">${shown(step.why)}</bdi>` }
    ]} />${found.left_out > 0 && html`<p class="quiet">${count(found.left_out)} more bindings were looked at.</p>`}</>`
}

// ---- the map

const BOX = { width: 230, height: 40, gap: 14, column: 360 }
// Consumers that are drawn around one object.
const CONSUMERS_MAX = 50

const idOf = (binding) => `${binding.destination_type[0]}${binding.destination}`

// What of a virtual host is drawn: what is bound, or one object and what is next to it.
function picked ({ exchanges, queues, bindings, flows }, around) {
  const all = bindings.filter((one) => one.source !== '')
  const edges = around ? all.filter((one) => `e${one.source}` === around || idOf(one) === around) : all
  const used = new Set([around, ...edges.flatMap((one) => [`e${one.source}`, idOf(one)])])
  return {
    exchanges: exchanges.filter((one) => one.name !== '' && used.has(`e${one.name}`)),
    queues: queues.filter((one) => used.has(`q${one.name}`)),
    bindings: edges,
    flows
  }
}

// Where each object stands: exchanges that nothing leads to on the left, then queues, then their
// consumers.
export function layout ({ exchanges, queues, bindings, flows = [] }, consumers = []) {
  const depth = new Map(exchanges.map((one) => [one.name, 0]))
  const inner = bindings.filter((one) => one.destination_type === 'exchange')
  for (let round = 0; round < 4; round++) {
    for (const one of inner) {
      if (depth.get(one.destination) <= depth.get(one.source) && round < 3) depth.set(one.destination, depth.get(one.source) + 1)
    }
  }
  const columns = Math.max(0, ...depth.values()) + 1
  const rows = Array(columns + 2).fill(0)
  const boxes = new Map()
  const put = (id, kind, object, column) => boxes.set(id, { id, kind, object, x: 20 + column * BOX.column, y: 20 + rows[column]++ * (BOX.height + BOX.gap) })
  for (const one of exchanges) put(`e${one.name}`, 'exchange', one, depth.get(one.name))
  for (const one of queues) put(`q${one.name}`, 'queue', one, columns)
  const passes = passing(flows, bindings)
  const bound = bindings.map((one) => ({ label: one.routing_key || '(no key)', passes: passes(one), from: boxes.get(`e${one.source}`), to: boxes.get(idOf(one)) }))
  const reading = consumers.map((one, at) => {
    const from = boxes.get(`q${one.queue.name}`)
    if (!from) return {}
    put(`c${at}`, 'consumer', one, columns + 1)
    return { label: one.consumer_tag, passes: '', from, to: boxes.get(`c${at}`) }
  })
  const width = 40 + (columns + (rows[columns + 1] > 0 ? 1 : 0)) * BOX.column + BOX.width
  return { boxes: [...boxes.values()], edges: [...bound, ...reading].filter((one) => one.from && one.to), width, height: 40 + Math.max(1, ...rows) * (BOX.height + BOX.gap) }
}

const FLOWS = { exchange: 'publish_in_details', queue: 'publish_details' }
const flowOf = ({ kind, object }) => object.message_stats?.[FLOWS[kind]]?.rate ?? 0

// Whether messages come by a binding. They are counted by exchange and queue: surely where they come
// from its exchange to its queue, perhaps where they come from or to there by another exchange.
export function passing (flows, bindings) {
  const flowing = flows.filter(({ stats }) => stats?.publish_details?.rate > 0).map((one) => [one.exchange.name, one.queue.name])
  const bound = new Set(bindings.filter((one) => one.destination_type === 'queue').map((one) => `${one.source}\0${one.destination}`))
  const direct = new Set(flowing.map((pair) => pair.join('\0')).filter((pair) => bound.has(pair)))
  const around = flowing.filter((pair) => pair[0] !== '' && !bound.has(pair.join('\0')))
  const fed = new Set(bindings.filter((one) => one.destination_type === 'exchange').map((one) => one.destination))
  return ({ source, destination, destination_type: type }) => {
    if (type === 'queue' && direct.has(`${source}\0${destination}`)) return 'live'
    const comes = around.some(([exchange, queue]) => type === 'queue' ? queue === destination && fed.has(source) : exchange === source || fed.has(source))
    return comes ? 'perhaps' : ''
  }
}

const cut = (name) => name.length > 26 ? `${name.slice(0, 25)}…` : name

export function Topology () {
  const params = useCell(place).params
  const [vhost, vhosts] = useChosenVhost(params)
  const around = params.get('around') ?? ''
  const wiring = useWiring(vhost, around)
  const consumers = usePoll(around && vhost ? `consumers/${path(vhost)}` + query({ columns: 'consumer_tag,queue.name,channel_details.name' }) : null)
  const drawn = wiring.ready && picked(wiring, around)
  const near = (consumers.data ?? []).filter((one) => drawn && drawn.queues.some((queue) => queue.name === one.queue?.name))
  const choices = (kind, rows) => rows.filter((one) => one.name !== '').map((one) => html`<option value=${kind + one.name}>${shown(one.name)}</option>`)
  const left = wiring.ready ? wiring.queues.length - drawn.queues.length : 0
  return html`<${Head} title="Topology"><${VhostChoice} value=${vhost} vhosts=${vhosts} />
      <label>Around <select value=${around} onChange=${(e) => setParams({ around: e.target.value })}><option value="">everything</option>
        ${wiring.ready && html`<optgroup label="Exchanges">${choices('e', wiring.exchanges)}</optgroup><optgroup label="Queues">${choices('q', wiring.queues)}</optgroup>`}</select></label></>
    <${Failure} error=${wiring.error} />
    ${wiring.truncated && html`<p class="quiet">The first ${LISTED_MAX} exchanges, queues and bindings are shown.</p>`}
    ${wiring.ready ? html`<${Diagram} vhost=${vhost} map=${layout(drawn, near.slice(0, CONSUMERS_MAX))} />` : html`<${Loading} />`}
    ${near.length > CONSUMERS_MAX && html`<p class="quiet">${count(CONSUMERS_MAX)} of ${count(near.length)} consumers are shown.</p>`}
    ${!around && left > 0 && html`<p class="quiet">${count(left)} ${left === 1 ? 'queue is' : 'queues are'} left out: bound to the default exchange alone.</p>`}
    <p class="quiet">Exchanges on the left, queues on the right, and around one object their consumers. A blue line: messages that are published to the exchange come to the queue now. They are counted by exchange and queue, not by binding: a dashed line is a guess, where they come by another exchange.</p>`
}

function Diagram ({ vhost, map }) {
  if (map.boxes.length === 0) return html`<${Section}><${Empty}>There are no bindings.</></>`
  return html`<div class="map" tabindex="0" role="region" aria-label="Map of exchanges and queues">
    <svg width=${map.width} height=${map.height}>
      ${map.edges.map(({ label, passes, from, to: target }) => {
        const [x1, y1, x2, y2] = [from.x + BOX.width, from.y + BOX.height / 2, target.x, target.y + BOX.height / 2]
        return html`<path class=${passes} d=${`M${x1} ${y1} C${x1 + 60} ${y1} ${x2 - 60} ${y2} ${x2} ${y2}`}><title>${shown(label)}</title></path>`
      })}
      ${map.boxes.map((box) => html`<${Box} key=${box.id} box=${box} vhost=${vhost} />`)}
    </svg></div>`
}

const BOXES = {
  queue: (q) => [queueAt(q), q.name, `${compact(q.messages)} waiting · ${compact(q.consumers)} consumers · `],
  exchange: (e, vhost) => [['exchanges', vhost, exchangeSegment(e.name)], e.name, `${e.type} · `],
  consumer: (c) => [['channels', c.channel_details?.name ?? ''], c.consumer_tag, 'consumer']
}

function Box ({ box, vhost }) {
  const { kind, object } = box
  const [address, name, note] = BOXES[kind](object, vhost)
  return html`<a href=${to(address)} class=${kind}><title>${shown(name)}</title>
    <rect x=${box.x} y=${box.y} width=${BOX.width} height=${BOX.height} rx="8" />
    <text x=${box.x + 10} y=${box.y + 17}>${cut(shown(name))}</text>
    <text class="sub" x=${box.x + 10} y=${box.y + 32}>${note}${FLOWS[kind] ? rate(flowOf(box)) : ''}</text></a>`
}
