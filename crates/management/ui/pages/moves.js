// Messages that go elsewhere: dead letters back to where they died, others into another queue. And
// a look at what waits, which takes nothing.

import { useEffect, useRef, useState } from '../vendor/preact-hooks.js'
import { call, path, query, usePoll } from '../api.js'
import { ApiNote, Button, count, Facts, Form, html, Meter, Name, notify, openForm, Section, shown, State, Table, when } from '../parts.js'
import { Message } from './queues.js'

const WAYS = [['back', 'go back to the queues in which they died'], ['move', 'go to another queue'], ['copy', 'are copied to another queue']]
const REASONS = [['', 'any reason'], 'rejected', 'expired', 'maxlen', 'delivery_limit']

const addressOf = (q, ...more) => path('leveret', 'queues', q.vhost, q.name, ...more)

// `chosen`: fingerprints of the messages that are meant; all where there are none.
export function moveForm (q, chosen) {
  const filters = [
    { name: 'from', label: 'Died in queue', hint: 'Empty: in any, or nowhere.' },
    { name: 'reason', label: 'Died for', type: 'select', options: REASONS },
    { name: 'limit', label: 'How many to look at', type: 'number', min: 1, hint: 'Empty: as many as wait now.' }
  ]
  openForm({
    title: html`Move messages of <bdi>${shown(q.name)}</bdi>`,
    submit: 'Move',
    intro: chosen
      ? `The ${count(chosen.length)} that you have chosen.`
      : 'From the next one on. What stays is held back from consumers until the move has ended.',
    fields: [
      { name: 'way', label: 'Messages', type: 'select', options: WAYS, value: 'back' },
      { name: 'to', label: 'To queue', required: true, when: (v) => v.way !== 'back' },
      ...(chosen ? [] : filters),
      { name: 'dry_run', label: 'Only say what would be done', type: 'check' }
    ],
    request: (v) => ({
      method: 'POST',
      address: addressOf(q, 'moves'),
      body: {
        ...(v.way === 'back' ? {} : { to: v.to, copy: v.way === 'copy' }),
        ...(chosen ? { chosen } : {}),
        ...Object.fromEntries(['from', 'reason', 'dry_run'].filter((name) => v[name]).map((name) => [name, v[name]])),
        ...(v.limit ? { limit: Number(v.limit) } : {})
      }
    }),
    message: () => 'The move has begun.'
  })
}

const counted = (counts, word) => html`<ul class="fields">${Object.entries(counts).map(([name, n]) => html`
  <li>${count(n)}${word}<bdi>${shown(name)}</bdi></li>`)}</ul>`

const what = (row) => [
  row.dry_run && 'Only told:',
  row.to == null ? 'back to where they died' : html`${row.copy ? 'copied' : 'moved'} to <bdi>${shown(row.to)}</bdi>`,
  row.chosen && `, ${count(row.chosen)} chosen`, row.from && html`, died in <bdi>${shown(row.from)}</bdi>`, row.reason && html`, for ${shown(row.reason)}`
]

const isUnderWay = (row) => row.state === 'running'

const COLUMNS = (q) => [
  { title: 'Begun', cell: (row) => html`${when(row.begun)} <bdi class="quiet">${shown(row.user)}</bdi>` },
  { title: 'What', cell: what },
  { title: 'Looked at', number: true, cell: (row) => html`${count(row.looked_at)} of ${count(row.messages)} <${Meter} value=${row.looked_at} most=${row.messages} label="Looked at" />` },
  { title: 'Went', cell: (row) => counted(row.moved, ' to ') },
  { title: 'Stayed', cell: (row) => counted(row.kept, ': ') },
  { title: 'State', cell: (row) => row.failure ? html`<${State} state="failed" /> <bdi>${shown(row.failure)}</bdi>` : isUnderWay(row) ? html`<${State} state="running" />` : row.state },
  { title: '', cell: (row) => isUnderWay(row) && html`<${Button} kind="small" onClick=${() => stop(q, row)}>Stop</>` }
]

const stop = (q, row) => openForm({
  title: 'Stop this move?',
  submit: 'Stop move',
  kind: 'danger',
  intro: 'What has gone stays where it is now.',
  fields: [],
  request: { method: 'DELETE', address: addressOf(q, 'moves', row.id) }
})

// The moves of a queue; nothing where there is none.
export function Moves ({ q }) {
  const address = addressOf(q, 'moves')
  const { data } = usePoll(address)
  return data?.length > 0 && html`<${Section} title="Moved messages">
    <${Table} label="Moved messages" rows=${data} keyOf=${(row) => row.id} columns=${COLUMNS(q)} />
    <${ApiNote} address=${address} /></>`
}

const SOUGHT = [
  { name: 'key', label: 'Routing key has' },
  { name: 'header', label: 'Header', hint: 'A name, or name:value.' },
  { name: 'body', label: 'Body has' },
  { name: 'json', label: 'JSON in the body', hint: 'A pointer, such as /order/id, or /order/id:7.' },
  { name: 'older_than', label: 'Seconds that it has waited at least', type: 'number', min: 0 }
]

// Messages that stay where they are, and are not redelivered for being looked at: from a position
// on, or those that have something.
export function Look ({ q }) {
  const [found, setFound] = useState([])
  const [chosen, setChosen] = useState([])
  const [search, setSearch] = useState(null)
  const running = useRef(0)
  useEffect(() => () => { running.current++ }, [])
  const toggle = (one) => setChosen(chosen.includes(one) ? chosen.filter((other) => other !== one) : [...chosen, one])
  const address = (v) => addressOf(q, SOUGHT.some(({ name }) => v[name]) ? 'search' : 'messages') + query(v)
  // A request looks at so many messages; others follow until there are enough, or no more.
  const goOn = async (v, answer) => {
    const mine = ++running.current
    const all = []
    let looked = 0
    let unreadable = null
    try {
      while (mine === running.current) {
        all.push(...answer.messages)
        looked += answer.looked_at
        unreadable ??= answer.unreadable
        const next = answer.next_position
        const isOver = next === null || all.length >= v.count
        setFound([...all])
        setSearch({ v, looked, next, isOver, unreadable })
        if (isOver) return
        answer = await call('GET', address({ ...v, position: next, count: v.count - all.length }))
      }
    } catch (error) {
      notify(error.message, 'bad')
      setSearch((old) => ({ ...old, isOver: true }))
    }
  }
  const stop = () => {
    running.current++
    setSearch({ ...search, isOver: true })
  }
  const nextOnes = async () => goOn(search.v, await call('GET', address({ ...search.v, position: search.next })))
  return html`<${Form} submit="Peek" stay=${true} message=${(found) => Array.isArray(found) && !found.length ? 'No message waits there.' : ''}
    fields=${[
      { name: 'position', label: 'Position, from the next to be delivered', type: 'number', value: '1', min: 1, required: true },
      { name: 'count', label: 'How many', type: 'number', value: '10', min: 1, max: 100, required: true },
      ...SOUGHT
    ]}
    request=${(v) => ({ method: 'GET', address: address(v) })}
    done=${(answer, v) => {
      setChosen([])
      setSearch(null)
      if (Array.isArray(answer)) setFound(answer)
      else goOn(v, answer)
    }} />
    ${search && html`<p role="status">${count(search.looked)} of ${count(q.messages_ready)} messages were looked at, ${count(found.length)} found. <${Meter} value=${search.looked} most=${q.messages_ready} label="Looked at" />
      ${search.unreadable && html` <bdi>${shown(search.unreadable)}</bdi>`}
      ${search.isOver
        ? search.next !== null && html`<${Button} onClick=${nextOnes}>Search on from position ${count(search.next)}</>`
        : html`<${Button} onClick=${stop}>Stop</>`}</p>`}
    ${found.length > 0 && html`<p><${Button} disabled=${chosen.length === 0} onClick=${() => moveForm(q, chosen)}>Move the chosen</></p>`}
    ${found.map((one) => html`<div key=${one.position}>
      <label class="check"><input type="checkbox" checked=${chosen.includes(one.fingerprint)} onChange=${() => toggle(one.fingerprint)} /> Choose message ${count(one.position)}</label>
      <${Message} message=${one} /></div>`)}`
}

// Messages that clients hold, and who: they stay where they are.
export function Held ({ q }) {
  const [found, setFound] = useState([])
  const isSearch = (v) => SOUGHT.some(({ name }) => v[name])
  const address = (v) => isSearch(v) ? addressOf(q, 'search') + query({ ...v, unacked: true }) : addressOf(q, 'unacked') + query(v)
  const message = (answer) => {
    if (Array.isArray(answer)) return answer.length ? '' : 'Nobody holds a message there.'
    const looked = `${count(answer.looked_at)} held messages were looked at, ${count(answer.messages.length)} found.`
    return answer.next_position === null ? looked : `${looked} Go on at position ${count(answer.next_position)}.`
  }
  return html`<${Form} submit="Show" stay=${true} message=${message}
    fields=${[
      { name: 'consumer', label: 'Consumer tag', hint: 'Empty: all that is held, by whomever.' },
      { name: 'position', label: 'Position among them', type: 'number', value: '1', min: 1, required: true },
      { name: 'count', label: 'How many', type: 'number', value: '10', min: 1, max: 100, required: true },
      ...SOUGHT
    ]}
    request=${(v) => ({ method: 'GET', address: address(v) })}
    done=${(answer) => setFound(Array.isArray(answer) ? answer : answer.messages)} />
    ${found.map((one) => html`<div key=${one.position}>
      <h3>Message ${count(one.position)}</h3>
      <${Facts} rows=${[
        ['Consumer', one.consumer_tag == null ? '–' : html`<bdi>${shown(one.consumer_tag)}</bdi>`],
        ['Channel', one.channel == null ? 'not known: its client may just have gone' : html`<${Name} name=${one.channel} at=${['channels', one.channel]} />`],
        ['Node', one.node == null ? '–' : html`<${Name} name=${one.node} at=${['nodes', one.node]} />`],
        ['Delivery tag', one.delivery_tag == null ? '–' : count(one.delivery_tag)],
        ['Held since', one.held_since == null ? '–' : when(one.held_since)]]} />
      ${one.unreadable ? html`<p>It cannot be read.</p>` : html`<${Message} message=${one} />`}</div>`)}`
}
