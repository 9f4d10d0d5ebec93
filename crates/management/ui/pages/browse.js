// Messages of a stream, looked at without consuming them; the groups of its consumers.

import { useEffect, useState } from '../vendor/preact-hooks.js'
import { call, isAdministrator, path, query, useCell, usePoll } from '../api.js'
import { ApiNote, askFirst, Badge, Button, count, Failure, Form, html, Loading, Name, openForm, place, rate, Section, setParams, shown, Table } from '../parts.js'
import { Message } from './queues.js'

const PLACES = [['first', 'the first message'], ['last', 'the last messages'], ['offset', 'an offset'], ['timestamp', 'a time']]
const PAGE = 20

const placeFields = [
  { name: 'how', label: 'From', type: 'select', options: PLACES, value: 'first' },
  { name: 'offset', label: 'Offset', type: 'number', min: 0, required: true, when: (v) => v.how === 'offset' },
  { name: 'time', label: 'Time', type: 'datetime-local', required: true, when: (v) => v.how === 'timestamp' }
]

// Where in a stream somebody means, in the API's words.
function placeOf (v) {
  if (v.how === 'offset') return { offset: Number(v.offset) }
  if (v.how !== 'timestamp') return { offset: v.how }
  if (!v.time) return { timestamp: '' }
  return { timestamp: new Date(v.time).getTime() }
}

// ---- messages

export function Messages ({ vhost, name }) {
  const asked = useCell(place).params.get('browse')
  const base = path('leveret', 'streams', vhost, name, 'messages')
  const look = (v) => query({ ...placeOf(v), count: PAGE, filter: v.filter, match_unfiltered: Boolean(v.filter) && v.unfiltered })
  return html`<${Section} title="Messages">
    <${Form} submit="Look" stay=${true} message=${() => ''}
      fields=${[...placeFields, { name: 'filter', label: 'Filter values', hint: 'With commas between. Empty: every message.' },
        { name: 'unfiltered', label: 'Also messages without a filter value', type: 'check', when: (v) => v.filter !== '' }]}
      request=${(v) => ({ method: 'GET', address: base + look(v) })} done=${(_, v) => setParams({ browse: look(v).slice(1) })} />
    ${asked && html`<${Found} address=${`${base}?${asked}`} asked=${asked} />`}</>`
}

function Found ({ address, asked }) {
  const [state, setState] = useState({})
  useEffect(() => {
    let isGone = false
    setState({})
    call('GET', address).then((data) => { if (!isGone) setState({ data }) }, (error) => { if (!isGone) setState({ error }) })
    return () => { isGone = true }
  }, [address])
  const { data, error } = state
  if (!data) return error ? html`<${Failure} error=${error} />` : html`<${Loading} />`
  const goOn = () => {
    const next = new URLSearchParams(asked)
    next.delete('timestamp')
    next.set('offset', data.next_offset)
    setParams({ browse: String(next) })
  }
  return html`<p role="status">${count(data.messages.length)} messages; the stream has offsets ${count(data.first_offset)} to ${count(data.committed_offset)}.</p>
    ${data.messages.map((one) => one.unreadable
      ? html`<p class="quiet">Offset ${count(one.offset)}: ${count(one.messages)} messages cannot be shown: ${shown(one.unreadable)}</p>`
      : html`<${Message} key=${one.offset} message=${one} />`)}
    <p><${Button} disabled=${data.next_offset == null || data.next_offset > data.committed_offset} onClick=${goOn}>Go on from offset ${count(data.next_offset)}</></p>
    <${ApiNote} address=${address} />`
}

// ---- groups

const columnsOf = (withStream) => [
  { title: 'Group', cell: (group) => html`<${Name} name=${group.name} />` },
  withStream && { title: 'Stream', cell: (group) => html`<${Name} name=${group.stream} at=${[group.super_stream ? 'exchanges' : 'streams', group.vhost, group.stream]} />` },
  withStream && { title: 'Virtual host', cell: (group) => html`<${Name} name=${group.vhost} />` },
  { title: 'Offset', number: true, cell: (group) => group.partitions.length === 1 ? count(group.partitions[0].offset) : `${count(group.partitions.length)} partitions` },
  { title: 'Behind', number: true, cell: (group) => count(group.lag) },
  { title: 'Reads', number: true, cell: (group) => rate(group.rate) },
  { title: 'Consumers', number: true, cell: (group) => group.unused ? html`<${Badge}>none</>` : count(group.members.length) },
  {
    title: '',
    cell: (group) => isAdministrator() && html`<${Button} kind="small" aria-label=${`Set offset of ${shown(group.name)}`} onClick=${() => setOffset(group)}>Set offset</>
      ${group.unused && html`<${Button} kind="small" aria-label=${`Forget ${shown(group.name)}`} onClick=${() => forget(group)}>Forget</>`}`
  }
].filter(Boolean)

const addressOf = (group) => path('leveret', 'stream-groups', group.vhost, group.stream, group.name)

function setOffset (group) {
  openForm({
    title: html`Offset of <bdi>${shown(group.name)}</bdi>`,
    submit: 'Set offset',
    intro: group.unused ? 'Its consumers go on there when they come.' : 'Its consumers go on there at once.',
    fields: placeFields,
    request: (v) => ({ method: 'PUT', address: addressOf(group), body: placeOf(v) })
  })
}

function forget (group) {
  askFirst({
    title: 'Forget this group?',
    explanation: html`What <bdi class="name">${shown(group.name)}</bdi> has stored goes: consumers of this name begin where they ask to.`,
    label: 'Forget group',
    request: { method: 'DELETE', address: addressOf(group) }
  })
}

const keyOf = (group) => `${group.vhost} ${group.stream} ${group.name}`

// The groups of a stream; `tools` stand beside them.
export function Groups ({ vhost, name, tools }) {
  const address = path('leveret', 'stream-groups', vhost, name)
  const { data, error } = usePoll(address)
  return html`<${Section} title="Groups of consumers" tools=${tools}><${Failure} error=${error} />
    <${Table} label="Groups of consumers" rows=${data ?? []} keyOf=${keyOf} columns=${columnsOf(false)} empty="No consumer has stored an offset." />
    <${ApiNote} address=${address} /></>`
}

const FURTHEST = 'leveret/stream-groups?page=1&page_size=100&sort=lag&sort_reverse=true'

export function AllGroups () {
  const { data, error } = usePoll(FURTHEST)
  return html`<${Section} title="Groups of consumers, the furthest behind first"><${Failure} error=${error} />
    <${Table} label="Groups of consumers" rows=${data?.items ?? []} keyOf=${keyOf} columns=${columnsOf(true)} empty="No consumer of a stream has stored an offset." />
    ${data?.total_count > data?.items.length && html`<p class="quiet">The first ${count(data.items.length)} of ${count(data.total_count)} are shown.</p>`}
    <${ApiNote} address=${FURTHEST} /></>`
}
