// What all pages are made of: the address, texts of figures, tables, forms, dialogs.
//
// Names and texts of clients only ever become text nodes and attribute values: there is no way
// here to make markup from a string.

import { h } from './vendor/preact.js'
import { useEffect, useId, useRef, useState } from './vendor/preact-hooks.js'
import htm from './vendor/htm.js'
import { call, cell, path, query, refresh, useCell, usePoll } from './api.js'
import { Exact, numberOf, parse } from './exact.js'

export const html = htm.bind(h)

// ---- the address bar holds where one is: `#/queues/%2F/name?sort=messages`

function parsePlace () {
  const [route, text = ''] = location.hash.replace(/^#\/?/, '').split('?')
  try {
    const segments = route.split('/').filter(Boolean).map(decodeURIComponent)
    return { segments, params: new URLSearchParams(text) }
  } catch {
    return { segments: ['nowhere'], params: new URLSearchParams() }
  }
}

export const place = cell(parsePlace())
addEventListener('hashchange', () => place.set(parsePlace()))

export const to = (segments, params = {}) =>
  '#/' + segments.map(encodeURIComponent).join('/') + query(params)

export const go = (segments, params) => { location.hash = to(segments, params) }

// Changes parts of the query; an empty value removes one. Typing leaves no trail of steps back.
export function setParams (changes) {
  const params = Object.fromEntries(place.value.params)
  history.replaceState(null, '', to(place.value.segments, { ...params, ...changes }))
  place.set(parsePlace())
}

// ---- texts

const whole = new Intl.NumberFormat('en')
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 })

export const count = (n) => n == null ? '–' : whole.format(n)
export const compact = (n) => n == null ? '–' : n < 10000 ? whole.format(Math.round(n * 10) / 10) : short.format(n)
export const rate = (n) => n == null ? '–' : n < 10 ? `${Math.round(n * 10) / 10}/s` : `${compact(Math.round(n))}/s`
export const yesNo = (flag) => flag ? 'yes' : 'no'

export function bytes (n) {
  if (n == null || Number.isNaN(n)) return '–'
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']
  let at = 0
  while (n >= 1024 && at < units.length - 1) { n /= 1024; at++ }
  return `${at && n < 100 ? n.toFixed(1) : Math.round(n)} ${units[at]}`
}

export function duration (ms) {
  if (ms == null) return '–'
  const seconds = Math.floor(ms / 1000)
  const parts = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']]
  const at = Math.max(0, parts.findIndex(([size]) => seconds >= size))
  const [size, unit] = seconds < 1 ? [1, 's'] : parts[at]
  const first = `${Math.floor(seconds / size)} ${unit}`
  const next = seconds < 1 ? undefined : parts[at + 1]
  return next ? `${first} ${Math.floor(seconds % size / next[0])} ${next[1]}` : first
}

export const when = (time) => time == null ? '–' : new Date(time).toLocaleString()

// A value of JSON as text.
export const text = (value) => typeof value === 'string' ? value : JSON.stringify(value)

// A name as people see it: control characters and those that turn the reading direction are shown.
export function shown (name) {
  if (name === '') return '(default)'
  return String(name).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
    (c) => c < ' ' ? String.fromCharCode(0x2400 + c.charCodeAt(0)) : `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

// Where a queue is shown: streams have a page of their own.
export const queueAt = ({ type, vhost, name }) => [type === 'stream' ? 'streams' : 'queues', vhost, name]

// ---- small parts

export function Name ({ name, at }) {
  const label = html`<bdi class="name">${shown(name)}</bdi>`
  return at ? html`<a href=${to(at)}>${label}</a>` : label
}

export const Badge = ({ kind = '', title, children }) =>
  html`<span class=${'badge ' + kind} title=${title}>${children}</span>`

const WELL = ['running', 'up', 'flow', 'ok', 'enabled', 'leader', 'follower', 'blocking']

export const State = ({ state }) => state == null
  ? '–'
  : html`<${Badge} kind=${WELL.includes(state) ? state === 'running' || state === 'up' ? 'good' : '' : 'bad'}>${text(state)}</>`

export const Stat = ({ label, value, note, kind = '' }) => html`
  <div class=${'stat ' + kind}><dt>${label}</dt><dd>${value}${note && html` <small>${note}</small>`}</dd></div>`

export const Stats = ({ children }) => html`<dl class="stats">${children}</dl>`

export const Section = ({ title, tools, children, id }) => html`
  <section class="card" id=${id}>
    ${title && html`<header><h2>${title}</h2>${tools && html`<div class="tools">${tools}</div>`}</header>`}
    ${children}
  </section>`

export const Head = ({ title, kind, children }) => html`
  <header class="head"><h1>${kind && html`<small>${kind}</small> `}${title}</h1><div class="tools">${children}</div></header>`

export const Facts = ({ rows }) => html`
  <dl class="facts">${rows.filter(Boolean).map(([label, value]) => html`
    <div><dt>${label}</dt><dd>${value == null || value === '' ? '–' : value}</dd></div>`)}</dl>`

// An object of JSON: arguments, properties, a policy's definition.
export function Fields ({ of }) {
  const entries = Object.entries(of ?? {})
  if (entries.length === 0) return '–'
  return html`<ul class="fields">${entries.map(([key, value]) => html`
    <li><bdi>${shown(key)}</bdi>: <bdi class="value">${shown(text(value) || '""')}</bdi></li>`)}</ul>`
}

export const Meter = ({ value, most, label, bad }) => html`
  <meter class=${bad ? 'bad' : ''} min="0" max=${most || 1} value=${Math.min(value ?? 0, most || 1)} aria-label=${label}></meter>`

export const Failure = ({ error }) => error
  ? html`<p class="failure" role="alert">${error.status === 404 ? 'This does not exist (any more).' : error.message}</p>`
  : null

export const Loading = () => html`<p class="quiet">Loading…</p>`

export const Empty = ({ children }) => html`<p class="quiet">${children}</p>`

export const Button = ({ kind = '', onClick, children, ...rest }) =>
  html`<button type="button" class=${kind} onClick=${onClick} ...${rest}>${children}</button>`

// ---- tables

// `columns`: `{id, title, cell(row), sort, number, hidden}`.
export function Table ({ label, rows, columns, keyOf, empty, sort, reverse, onSort }) {
  const order = (column) => column.sort && column.sort === sort ? (reverse ? 'descending' : 'ascending') : undefined
  return html`
    <div class="table" role="region" aria-label=${label} tabindex="0">
      <table>
        <thead><tr>${columns.map((column) => html`
          <th scope="col" class=${column.number ? 'number' : ''} aria-sort=${order(column)}>
            ${column.sort && onSort
              ? html`<button type="button" class="sort" onClick=${() => onSort(column.sort)}>${column.title}</button>`
              : column.title || html`<span class="unseen">Actions</span>`}
          </th>`)}</tr></thead>
        <tbody>${rows.map((row, at) => html`
          <tr key=${keyOf ? keyOf(row) : at}>${columns.map((column) => html`
            <td class=${column.number ? 'number' : column.title ? '' : 'actions'}>${column.cell(row)}</td>`)}</tr>`)}
        </tbody>
      </table>
      ${rows.length === 0 && html`<${Empty}>${empty ?? 'None.'}</>`}
    </div>`
}

const PAGE_SIZES = ['25', '100', '500']

// Rows up to which a list among other things has no tools.
const FEW = Number(PAGE_SIZES[0])

const idOf = (column) => column.id ?? column.title

// What the address bar says of a list, with its defaults; `part` begins the names of its parameters.
function listState (params, columns, part) {
  const shownByDefault = columns.filter((column) => !column.hidden).map(idOf)
  const get = (name) => params.get(part + name)
  return {
    name: get('name') ?? '',
    regex: get('use_regex') === 'true',
    vhost: get('vhost') ?? '',
    sort: get('sort') ?? '',
    reverse: get('sort_reverse') === 'true',
    page: get('page') ?? '1',
    size: get('page_size') ?? '100',
    chosen: get('columns')?.split(',') ?? shownByDefault,
    set: (changes) => setParams(Object.fromEntries(Object.entries(changes).map(([name, value]) => [part + name, value])))
  }
}

// The fields that the chosen columns are drawn from, in the API's words.
function wantedFields (columns, always) {
  const fields = columns.flatMap((column) => column.fields ?? [column.sort ?? column.id])
  return [...new Set([...always, ...fields])].join(',')
}

const same = (rows) => rows

// A list that the node filters, sorts and cuts into pages; `only` are fixed filters of its own. One
// that is a `part` of a page has no tools where there is little to look for; `rowsOf` makes rows of
// what the node lists; without `search` there is nothing to filter by.
export function List ({ label, address, only = {}, columns, always = [], keyOf, empty, vhosts = true, tools, onData, search = 'Filter by name', part = '', rowsOf = same }) {
  const state = listState(useCell(place).params, columns, part)
  const visible = columns.filter((column) => state.chosen.includes(idOf(column)))
  const listed = vhosts && state.vhost ? `${address}/${path(state.vhost)}` : address
  const asked = listed + query({
    ...only,
    page: state.page,
    page_size: state.size,
    name: state.name,
    use_regex: state.regex,
    sort: state.sort,
    sort_reverse: state.reverse,
    columns: always.length ? wantedFields(visible, always) : ''
  })
  const { data, error } = usePoll(asked, true)
  useEffect(() => {
    if (error?.status === 400 && state.page !== '1') state.set({ page: '' })
  }, [error])
  useEffect(() => { if (data && onData) onData(data) }, [data])
  const rows = rowsOf(Array.isArray(data) ? data : data?.items ?? [])
  const onSort = (sort) => state.set({ sort, sort_reverse: state.sort === sort && !state.reverse ? 'true' : '', page: '' })
  const isFew = part && !state.name && !(data?.total_count > FEW)
  return html`
    ${!isFew && html`<${ListTools} state=${state} columns=${part ? null : columns} vhosts=${vhosts} tools=${tools} data=${data} search=${search} />`}
    <${Failure} error=${error} />
    ${data
      ? html`<${Table} label=${label} rows=${rows} columns=${visible} keyOf=${keyOf} empty=${state.name ? 'None that fits.' : empty}
          sort=${state.sort} reverse=${state.reverse} onSort=${onSort} /><${Pages} data=${data} state=${state} />`
      : !error && html`<${Loading} />`}
    <${ApiNote} address=${asked} />`
}

function ListTools ({ state, columns, vhosts, tools, data, search }) {
  const total = data?.total_count
  return html`<div class="listtools">
    ${search && html`<label class="search"><span class="unseen">${search}</span>
      <input type="search" placeholder=${search} value=${state.name} onInput=${(e) => state.set({ name: e.target.value, page: '' })} /></label>
    <label class="check"><input type="checkbox" checked=${state.regex} onChange=${(e) => state.set({ use_regex: e.target.checked, page: '' })} /> Regex</label>`}
    ${vhosts && html`<${VhostFilter} state=${state} />`}
    ${columns && html`<${ColumnChooser} columns=${columns} state=${state} />`}
    <span class="quiet" aria-live="polite">${total == null ? '' : state.name ? `${count(data.filtered_count)} of ${count(total)}` : count(total)}</span>
    <span class="tools">${tools}</span>
  </div>`
}

function VhostFilter ({ state }) {
  const vhosts = useVhosts()
  if (vhosts.length < 2 && !state.vhost) return null
  return html`<label><span class="unseen">Virtual host</span>
    <select value=${state.vhost} onChange=${(e) => state.set({ vhost: e.target.value, page: '' })}>
      <option value="">All virtual hosts</option>
      ${vhosts.map((name) => html`<option value=${name}>${shown(name)}</option>`)}
    </select></label>`
}

function ColumnChooser ({ columns, state }) {
  const { chosen } = state
  const toggle = (id) => {
    const next = columns.map(idOf).filter((other) => chosen.includes(other) !== (other === id))
    if (next.length) state.set({ columns: next.join(',') })
  }
  return html`<details class="menu"><summary>Columns</summary><div class="sheet">
    ${columns.map((column) => html`<label class="check"><input type="checkbox" checked=${chosen.includes(idOf(column))} onChange=${() => toggle(idOf(column))} /> ${column.title || 'Actions'}</label>`)}
    </div></details>`
}

function Pages ({ data, state }) {
  const pages = data.page_count ?? 1
  const page = data.page ?? 1
  if (pages <= 1 && (data.total_count ?? 0) <= FEW) return null
  return html`<nav class="pages" aria-label="Pages">
    <${Button} disabled=${page <= 1} onClick=${() => state.set({ page: page - 1 })}>Previous</>
    <span>Page ${count(page)} of ${count(pages)}</span>
    <${Button} disabled=${page >= pages} onClick=${() => state.set({ page: page + 1 })}>Next</>
    <label>Rows <select value=${state.size} onChange=${(e) => state.set({ page_size: e.target.value, page: '' })}>
      ${PAGE_SIZES.map((size) => html`<option>${size}</option>`)}</select></label>
  </nav>`
}

// The documented call behind what is shown.
export const ApiNote = ({ method = 'GET', address }) =>
  html`<p class="apinote"><code>${method} /api/${address}</code></p>`

// The names of all virtual hosts that the user may see.
export function useVhosts () {
  const [names, setNames] = useState([])
  useEffect(() => {
    call('GET', 'vhosts?columns=name&disable_stats=true').then((all) => setNames(all.map((one) => one.name).sort()), () => {})
  }, [])
  return names
}

// ---- notices

const notices = cell([])
let noticeId = 0

export function notify (message, kind = 'good') {
  const id = ++noticeId
  notices.set([...notices.value, { id, message, kind }].slice(-4))
  setTimeout(() => notices.set(notices.value.filter((one) => one.id !== id)), kind === 'bad' ? 12000 : 5000)
}

export function Notices () {
  return html`<div class="notices" role="status" aria-live="polite">${useCell(notices).map((one) => html`
    <p key=${one.id} class=${'notice ' + one.kind}>${one.message}</p>`)}</div>`
}

// ---- dialogs: one at a time, closed by Escape

const dialog = cell(null)
export const openDialog = (content) => dialog.set(content)
export const closeDialog = () => dialog.set(null)

export function Dialogs () {
  const content = useCell(dialog)
  const element = useRef()
  const opened = useRef()
  const title = useId()
  useEffect(() => {
    if (content && !element.current.open) element.current.showModal()
    opened.current = content
    if (!content && element.current.open) element.current.close()
  }, [content])
  // The browser tells of it late: by then another may have been asked for.
  const closed = () => { if (dialog.value === opened.current) closeDialog() }
  return html`<dialog ref=${element} class=${content?.wide ? 'wide' : ''} aria-labelledby=${title} onClose=${closed}>
    ${content && html`
      <header><h2 id=${title}>${content.title}</h2>
        <button type="button" class="plain" aria-label="Close" onClick=${closeDialog}>✕</button></header>
      ${content.body}`}
  </dialog>`
}

// Asks before something that cannot be taken back.
export function askFirst ({ title, explanation, label, request, done, reason }) {
  openDialog({
    title,
    body: html`<${Form} fields=${reason ? [{ name: 'reason', label: 'Reason', hint: 'The client is told.' }] : []}
      submit=${label} kind="danger" request=${request} done=${done}>
      <p>${explanation}</p></>`
  })
}

export function openForm ({ title, intro, wide, ...form }) {
  openDialog({ title, wide, body: html`<${Form} ...${form}>${intro && html`<p>${intro}</p>`}</>` })
}

// ---- forms

// `fields`: `{name, label, type, value, options, hint, required, when(values)}`.
// `request(values)` gives `{method, address, body, reason, isLong}`; the form shows it before it is sent.
// `check()` says right before that why it must not be sent any more, if so.
export function Form ({ fields, submit, kind = 'primary', request, check, done, message, children, stay }) {
  const initial = () => Object.fromEntries(fields.map((field) => [field.name, field.value ?? (field.type === 'check' ? false : field.type === 'arguments' ? [] : '')]))
  const [values, setValues] = useState(initial)
  const [error, setError] = useState('')
  const [told, setTold] = useState('')
  const [busy, setBusy] = useState(false)
  const planned = plan(request, values)
  const send = async (event) => {
    event.preventDefault()
    if (planned.problem) return setError(planned.problem)
    setBusy(true)
    setError('')
    setTold('')
    try {
      const outdated = await check?.()
      if (outdated) return setError(outdated)
      const { method, address, body, reason, isLong } = planned
      const answer = await call(method, address, body, { reason, isLong })
      const said = (typeof message === 'function' ? message(answer) : message) ?? `${submit}: done.`
      if (stay) {
        setTold(said)
      } else {
        closeDialog()
        notify(said)
      }
      refresh()
      done?.(answer, values)
    } catch (failed) {
      setError(failed.message)
    } finally {
      setBusy(false)
    }
  }
  return html`<form onSubmit=${send}>
    ${children}
    ${fields.filter((field) => !field.when || field.when(values)).map((field) => html`
      <${Field} key=${field.name} field=${field} value=${values[field.name]} values=${values}
        onValue=${(value) => setValues((old) => ({ ...old, [field.name]: value }))} />`)}
    ${error && html`<p class="failure" role="alert">${error}</p>`}
    <p class="told" role="status">${told}</p>
    <footer>
      ${planned.address && html`<code class="quiet">${planned.method} /api/${planned.address}</code>`}
      <button type="submit" class=${kind} disabled=${busy}>${submit}</button>
    </footer>
  </form>`
}

function plan (request, values) {
  try {
    return typeof request === 'function' ? request(values) : request
  } catch (problem) {
    return { problem: problem.message }
  }
}

function Field ({ field, value, values, onValue }) {
  const id = useId()
  const hint = field.hint && html`<small id=${id + 'h'}>${field.hint}</small>`
  if (field.type === 'check') {
    return html`<label class="check"><input type="checkbox" checked=${value} onChange=${(e) => onValue(e.target.checked)} /> ${field.label} ${hint}</label>`
  }
  if (field.type === 'arguments') {
    return html`<${Arguments} field=${field} value=${value} values=${values} onValue=${onValue} />`
  }
  return html`<div class="field"><label for=${id}>${field.label}</label>
    <${Input} id=${id} field=${field} value=${value} onValue=${onValue} />${hint}</div>`
}

function Input ({ id, field, value, onValue }) {
  const described = field.hint ? id + 'h' : undefined
  const onInput = (e) => onValue(e.target.value)
  if (field.type === 'select') {
    return html`<select id=${id} value=${value} onChange=${onInput} aria-describedby=${described}>
      ${field.options.map((option) => Array.isArray(option)
        ? html`<option value=${option[0]}>${option[1]}</option>`
        : html`<option value=${option}>${shown(option)}</option>`)}</select>`
  }
  if (field.type === 'area') {
    return html`<textarea id=${id} rows=${field.rows ?? 5} value=${value} onInput=${onInput} spellcheck="false" required=${field.required} aria-describedby=${described}></textarea>`
  }
  if (field.type === 'file') {
    return html`<input id=${id} type="file" accept=${field.accept} required=${field.required} aria-describedby=${described} onChange=${(e) => chosen(e.target, field, onValue)} />`
  }
  return html`<input id=${id} type=${field.type ?? 'text'} value=${value} onInput=${onInput} required=${field.required} min=${field.min} max=${field.max}
    autocomplete=${field.autocomplete ?? 'off'} spellcheck="false" aria-describedby=${described} />`
}

// `field.read(file)` gives what becomes of a file, if that is not its text, or throws a text for people.
async function chosen (input, field, onValue) {
  const file = input.files[0]
  const read = field.read ?? ((file) => file.text())
  // A form that is sent meanwhile would be without it.
  input.setCustomValidity('The file is still being read.')
  let [value, problem] = ['', '']
  try {
    if (file) value = await read(file)
  } catch (failed) {
    problem = failed.message
  }
  // Another one may have been chosen since.
  if (input.files[0] !== file) return
  onValue(value)
  input.setCustomValidity(problem)
  if (problem) input.reportValidity()
}

const ARGUMENT_TYPES = ['string', 'number', 'boolean', 'JSON']

// Rows of key, type and value; `field.known(values)` gives `[key, type, hint, value]` to fill in.
export function Arguments ({ field, value, values, onValue }) {
  const change = (at, part) => onValue(value.map((row, other) => other === at ? { ...row, ...part } : row))
  const add = (row) => onValue([...value, { key: '', type: 'string', value: '', ...row }])
  const known = (field.known?.(values) ?? []).filter(([key]) => !value.some((row) => row.key === key))
  return html`<fieldset class="arguments"><legend>${field.label}</legend>
    ${value.map((row, at) => html`<div class="argument" key=${at}>
      <input aria-label=${`Key ${at + 1}`} placeholder="key" value=${row.key} onInput=${(e) => change(at, { key: e.target.value })} spellcheck="false" />
      <input aria-label=${`Value ${at + 1}`} placeholder="value" value=${row.value} onInput=${(e) => change(at, { value: e.target.value })} spellcheck="false" />
      <select aria-label=${`Type ${at + 1}`} value=${row.type} onChange=${(e) => change(at, { type: e.target.value })}>
        ${ARGUMENT_TYPES.map((type) => html`<option>${type}</option>`)}</select>
      <button type="button" class="plain" aria-label=${`Remove row ${at + 1}`} onClick=${() => onValue(value.filter((_, other) => other !== at))}>✕</button>
    </div>`)}
    <div class="chips">
      <button type="button" class="chip" onClick=${() => add({})}>+ row</button>
      ${known.map(([key, type, hint, preset]) => html`
        <button type="button" class="chip" title=${hint} onClick=${() => add({ key, type, value: preset ?? '' })}>${key}</button>`)}
    </div></fieldset>`
}

// The rows of an `arguments` field as an object. Throws a text for people.
export function argumentsOf (rows) {
  const out = {}
  for (const { key, type, value } of rows) {
    if (key !== '') Object.defineProperty(out, key, { value: argumentOf(key, type, value), enumerable: true, configurable: true })
  }
  return out
}

function argumentOf (key, type, value) {
  if (type === 'string') return value
  if (type === 'boolean') return value.trim() === 'true'
  const number = numberOf(value)
  if (type === 'number' && Number.isFinite(Number(number))) return number
  if (type === 'number') throw new Error(`"${key}" must be a number`)
  try {
    return parse(value)
  } catch {
    throw new Error(`"${key}" must be JSON`)
  }
}

// The other way round, for what is edited.
export const rowsOf = (object) => Object.entries(object ?? {}).map(([key, value]) =>
  typeof value === 'string'
    ? { key, type: 'string', value }
    : typeof value === 'number' || value instanceof Exact
      ? { key, type: 'number', value: String(value) }
      : typeof value === 'boolean'
        ? { key, type: 'boolean', value: String(value) }
        : { key, type: 'JSON', value: JSON.stringify(value) })

export function download (name, kind, content) {
  const address = URL.createObjectURL(new Blob([content], { type: kind }))
  const anchor = Object.assign(document.createElement('a'), { href: address, download: name })
  anchor.click()
  URL.revokeObjectURL(address)
}
