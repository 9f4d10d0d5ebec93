// What operators have changed: who, when, what, how it was before and is after.

import { useCell } from '../api.js'
import { Badge, Button, Fields, Head, html, List, Name, openDialog, place, setParams, shown, text, when } from '../parts.js'

// Differences that a row names.
const SHOWN = 4

const isObject = (value) => value != null && typeof value === 'object' && !Array.isArray(value)

// `[path, value]` of all that is in a value.
const flat = (value, at = '') => isObject(value)
  ? Object.entries(value).flatMap(([key, inner]) => flat(inner, at ? `${at}.${key}` : key))
  : [[at, value]]

// `[path, before, after]` of what differs between two objects.
export function differences (before, after) {
  const [was, is] = [new Map(flat(before)), new Map(flat(after))]
  return [...new Set([...was.keys(), ...is.keys()])]
    .map((at) => [at, was.get(at), is.get(at)])
    .filter(([, a, b]) => JSON.stringify(a) !== JSON.stringify(b))
}

const worth = (value) => value === undefined ? '–' : shown(text(value) || '""')

function What ({ change }) {
  const { before, after, asked, reason } = change
  if (change.status >= 400) return html`<bdi>${shown(text(reason ?? 'refused'))}</bdi>`
  if (isObject(before) && after == null) return html`<${Badge}>gone</>`
  if (!isObject(before) || !isObject(after)) return html`${isObject(after) && html`<${Badge}>made</> `}${isObject(asked) ? html`<${Fields} of=${asked} />` : ''}`
  const found = differences(before, after)
  if (found.length === 0) return html`<span class="quiet">as before</span>`
  return html`<ul class="fields">${found.slice(0, SHOWN).map(([at, a, b]) => html`
    <li><bdi>${shown(at)}</bdi>: <bdi class="value">${worth(a)}</bdi> → <bdi class="value">${worth(b)}</bdi></li>`)}
    ${found.length > SHOWN && html`<li class="quiet">and ${found.length - SHOWN} more</li>`}</ul>`
}

function show (change) {
  const part = (title, value) => html`<div><h3>${title}</h3>${value == null ? html`<p class="quiet">nothing</p>` : html`<pre tabindex="0" aria-label=${title}>${JSON.stringify(value, null, 2)}</pre>`}</div>`
  openDialog({
    title: html`<bdi>${change.method} ${shown(change.path)}</bdi>`,
    wide: true,
    body: html`<p>${when(change.time)}, by <bdi class="name">${shown(change.user)}</bdi> from ${change.from}, on <bdi>${change.node}</bdi></p>
      ${part('What was asked', change.asked)}${part('Before', change.before)}${part('After', change.after)}`
  })
}

const COLUMNS = [
  { id: 'time', title: 'Time', sort: 'time', cell: (c) => when(c.time) },
  { id: 'user', title: 'Who', sort: 'user', cell: (c) => html`<button type="button" class="sort" title="Only what this user changed" onClick=${() => setParams({ user: c.user, page: '' })}><${Name} name=${c.user} /></button>` },
  { id: 'from', title: 'From', hidden: true, sort: 'from', cell: (c) => c.from },
  { id: 'node', title: 'Node', hidden: true, sort: 'node', cell: (c) => html`<bdi>${c.node}</bdi>` },
  { id: 'path', title: 'What', sort: 'path', cell: (c) => html`<code>${c.method} ${shown(c.path)}</code>` },
  { id: 'status', title: 'Answer', sort: 'status', cell: (c) => html`<${Badge} kind=${c.status < 400 ? 'good' : 'bad'}>${c.status}</>` },
  { id: 'change', title: 'Before and after', cell: (c) => html`<${What} change=${c} />` },
  { id: 'show', title: '', cell: (c) => html`<${Button} kind="small" onClick=${() => show(c)}>Show</>` }
]

export function Audit () {
  const user = useCell(place).params.get('user') ?? ''
  return html`<${Head} title="Audit" />
    <p class="quiet">What was changed over HTTP, by this page and by the command line, newest first: each node keeps its last ones in memory, and its log has a line of each.</p>
    <${List} label="Changes" address="leveret/changes" vhosts=${false} only=${{ user }} columns=${COLUMNS} keyOf=${(c) => `${c.node} ${c.time} ${c.method} ${c.path}`} empty="Nothing was changed."
      search="Filter by path" tools=${user && html`<${Button} onClick=${() => setParams({ user: '' })}>Of everybody, not only ${shown(user)}</>`} />`
}
