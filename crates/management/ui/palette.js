// Ctrl-K: to any page, queue or exchange by a few letters of its name.

import { useEffect, useState } from './vendor/preact-hooks.js'
import { call, exchangeSegment, logOut, query } from './api.js'
import { theme } from './charts.js'
import { closeDialog, html, openDialog, queueAt, shown, to } from './parts.js'
import { NAVIGATION } from './app.js'

const FOUND_MAX = 8
const TYPING_MS = 150

export const openPalette = () => openDialog({ title: 'Go to', body: html`<${Palette} />` })

function fixed (typed) {
  const pages = NAVIGATION.flatMap(([, items]) => items)
    .filter(([, , allowed]) => !allowed || allowed())
    .map(([route, title]) => ({ kind: 'page', label: title, run: () => { location.hash = to([route]) } }))
  const actions = [
    { kind: 'action', label: 'Light theme', run: () => theme.set('light') },
    { kind: 'action', label: 'Dark theme', run: () => theme.set('dark') },
    { kind: 'action', label: 'Log out', run: () => logOut() }
  ]
  return [...pages, ...actions].filter((one) => one.label.toLowerCase().includes(typed.toLowerCase()))
}

async function named (kind, typed) {
  const found = await call('GET', kind + query({ name: typed, page: 1, page_size: FOUND_MAX, columns: kind === 'queues' ? 'name,vhost,type' : 'name,vhost' }))
  return found.items.map((one) => ({
    kind: one.type === 'stream' ? 'stream' : kind.slice(0, -1),
    label: `${shown(one.name)}${one.vhost === '/' ? '' : ` in ${shown(one.vhost)}`}`,
    run: () => { location.hash = to(kind === 'queues' ? queueAt(one) : [kind, one.vhost, exchangeSegment(one.name)]) }
  }))
}

function Palette () {
  const [typed, setTyped] = useState('')
  const [objects, setObjects] = useState([])
  const [at, setAt] = useState(0)
  useEffect(() => {
    setAt(0)
    let current = true
    setObjects([])
    if (!typed) return
    const timer = setTimeout(async () => {
      const both = await Promise.all(['queues', 'exchanges'].map((kind) => named(kind, typed).catch(() => [])))
      if (current) setObjects(both.flat())
    }, TYPING_MS)
    return () => { current = false; clearTimeout(timer) }
  }, [typed])
  const entries = [...fixed(typed), ...objects]
  const choose = (entry) => { closeDialog(); entry?.run() }
  const onKeyDown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step) setAt(Math.max(0, Math.min(entries.length - 1, at + step)))
    else if (event.key === 'Enter') choose(entries[at])
    else return
    event.preventDefault()
  }
  return html`<div class="gotobox">
    <input autofocus role="combobox" aria-label="Page, queue or exchange" aria-expanded="true" aria-controls="found" aria-activedescendant=${`found-${at}`}
      placeholder="Page, queue or exchange" value=${typed} onInput=${(e) => setTyped(e.target.value)} onKeyDown=${onKeyDown} />
    <ul id="found" role="listbox" aria-label="Found">${entries.map((entry, index) => html`
      <li id=${`found-${index}`} role="option" aria-selected=${index === at} onClick=${() => choose(entry)}>${entry.label} <small>${entry.kind}</small></li>`)}</ul>
  </div>`
}
