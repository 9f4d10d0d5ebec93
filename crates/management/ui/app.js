// The page: login, navigation, and which part is shown.

import { render } from './vendor/preact.js'
import { useEffect, useState } from './vendor/preact-hooks.js'
import { ApiError, farewell, isAdministrator, isMonitor, link, logIn, logOut, session, useCell } from './api.js'
import { theme, THEMES } from './charts.js'
import { Dialogs, duration, html, Notices, place, shown } from './parts.js'
import { openPalette } from './palette.js'
import { Overview, useOverview } from './pages/overview.js'
import { PAGES } from './pages/all.js'

function Login () {
  const [name, setName] = useState('')
  const [password, setPassword] = useState('')
  const [error, setError] = useState('')
  const [busy, setBusy] = useState(false)
  const ended = useCell(farewell)
  const submit = async (event) => {
    event.preventDefault()
    setBusy(true)
    setError('')
    try {
      await logIn(name, password)
    } catch (failed) {
      const refused = failed instanceof ApiError && [401, 403].includes(failed.status)
      setError(!refused
        ? `${failed.message}.`
        : failed.message === 'Login failed'
          ? 'The name or the password is wrong.'
          : 'This user may not use the management page: it needs the tag management, policymaker, monitoring or administrator.')
      setBusy(false)
    }
  }
  return html`<main class="login"><form onSubmit=${submit} class="card">
    <img src="icon.svg" alt="" width="44" height="44" /><h1>Leveret</h1>
    ${ended && html`<p class="quiet" role="status">${ended}</p>`}
    <div class="field"><label for="name">Name</label>
      <input id="name" autocomplete="username" autofocus required value=${name} onInput=${(e) => setName(e.target.value)} /></div>
    <div class="field"><label for="password">Password</label>
      <input id="password" type="password" autocomplete="current-password" value=${password} onInput=${(e) => setPassword(e.target.value)} /></div>
    ${error && html`<p class="failure" role="alert">${error}</p>`}
    <button class="primary" disabled=${busy}>Log in</button>
  </form></main>`
}

// `[route, title, whether it is shown]`, in groups.
export const NAVIGATION = [
  [null, [['overview', 'Overview'], ['nodes', 'Nodes', isMonitor], ['alarms', 'Alarms', isMonitor]]],
  ['Traffic', [['connections', 'Connections'], ['channels', 'Channels'], ['exchanges', 'Exchanges'], ['queues', 'Queues'], ['streams', 'Streams'], ['consumers', 'Consumers']]],
  ['Insight', [['route', 'Route tester'], ['topology', 'Topology'], ['delayed', 'Delayed messages', isAdministrator]]],
  ['Admin', [['users', 'Users', isAdministrator], ['vhosts', 'Virtual hosts'], ['policies', 'Policies'],
    ['limits', 'Limits', isAdministrator], ['definitions', 'Definitions', isAdministrator], ['features', 'Feature flags'], ['cluster', 'Cluster', isMonitor], ['audit', 'Audit', isAdministrator]]]
]

function Navigation ({ current }) {
  return html`<nav aria-label="Main">${NAVIGATION.map(([group, items]) => {
    const visible = items.filter(([route, , allowed]) => (PAGES[route] || route === 'overview') && (!allowed || allowed()))
    return visible.length > 0 && html`${group && html`<h2>${group}</h2>`}<ul>${visible.map(([route, title]) => html`
      <li><a href=${'#/' + route} aria-current=${route === current ? 'page' : undefined}>${title}</a></li>`)}</ul>`
  })}<ul><li><a href="api/index.html">HTTP API</a></li></ul></nav>`
}

function ThemeButton () {
  const now = useCell(theme)
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]
  return html`<button type="button" class="plain" onClick=${() => theme.set(next)} title=${`Theme: ${now}`}>
    <span aria-hidden="true">${{ auto: '◐', light: '☀', dark: '☾' }[now]}</span><span class="unseen">Theme: ${now}. Change to ${next}</span></button>`
}

function Lost ({ since }) {
  const [, tick] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => tick((n) => n + 1), 1000)
    return () => clearInterval(timer)
  }, [])
  return html`<p class="lost" role="alert">The node does not answer. The figures are ${duration(Date.now() - since)} old; it is asked again every second.</p>`
}

function Shell () {
  const { segments } = useCell(place)
  const lost = useCell(link)
  const overview = useOverview()
  const [open, setOpen] = useState(false)
  const route = segments[0] ?? 'overview'
  const Page = PAGES[route]
  useEffect(() => {
    setOpen(false)
    document.title = `${segments.slice(1).map(shown).join(' ') || (route[0].toUpperCase() + route.slice(1))} · Leveret`
    scrollTo(0, 0)
  }, [segments.join('/')])
  return html`<div class=${'shell' + (open ? ' open' : '') + (lost.lost ? ' stale' : '')}>
    <a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.getElementById('main').focus() }}>Skip to content</a>
    <header class="top">
      <button type="button" class="plain burger" aria-expanded=${open} aria-label="Menu" onClick=${() => setOpen(!open)}>☰</button>
      <a class="brand" href="#/" aria-label="Leveret: overview"><img src="icon.svg" alt="" width="26" height="26" /> <span>Leveret</span></a>
      <span class="cluster"><bdi>${overview.data?.cluster_name ?? ''}</bdi></span>
      <span class="grow"></span>
      <button type="button" class="palette" onClick=${openPalette}>Go to… <kbd>Ctrl K</kbd></button>
      <${ThemeButton} />
      <span class="who"><bdi>${session.value.name}</bdi></span>
      <button type="button" onClick=${() => logOut()}>Log out</button>
    </header>
    <aside><${Navigation} current=${route} /></aside>
    <main id="main" tabindex="-1">
      ${lost.lost && html`<${Lost} since=${lost.since} />`}
      <div class="content" data-route=${segments.map(encodeURIComponent).join('/')}>${route === 'overview'
        ? html`<${Overview} overview=${overview} />`
        : Page
          ? html`<${Page} key=${segments.join('/')} segments=${segments.slice(1)} />`
          : html`<h1>There is no such page</h1><p><a href="#/">Overview</a></p>`}</div>
    </main>
  </div>`
}

function App () {
  const user = useCell(session)
  return html`${user ? html`<${Shell} key=${user.name} />` : html`<${Login} />`}<${Dialogs} /><${Notices} />`
}

addEventListener('keydown', (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k' && session.value) {
    event.preventDefault()
    openPalette()
  }
})

render(html`<${App} />`, document.getElementById('app'))
