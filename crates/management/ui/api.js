// The page's way to the HTTP API: the session, single calls, and the poll that keeps figures live.

import { useEffect, useRef, useState } from './vendor/preact-hooks.js'

const STORE = 'leveret-session'
const POLL_MS = 1000
const CALL_DEADLINE_MS = 10000
// What does not exist is asked for again after this.
const ABSENT_MS = 10000

// What the API said against a call.
export class ApiError extends Error {
  constructor (status, reason) {
    super(reason)
    this.status = status
  }
}

// The node gave no answer at all.
export class Unreachable extends Error {}

// A value that components follow.
class Cell {
  constructor (value) {
    this.value = value
    this.followers = new Set()
  }

  set (value) {
    this.value = value
    for (const follower of [...this.followers]) follower(value)
  }
}

export const cell = (value) => new Cell(value)

export function useCell (followed) {
  const [value, setValue] = useState(followed.value)
  useEffect(() => {
    // It may have changed between the first drawing and now.
    setValue(followed.value)
    followed.followers.add(setValue)
    return () => followed.followers.delete(setValue)
  }, [followed])
  return value
}

// Who is logged in: `{authorization, name, tags}`, or null. It ends with the browser's tab.
export const session = cell(restore())
// Why the last session ended, for the login form.
export const farewell = cell('')
// Whether the node answers: `{lost: false}`, or `{lost: true, since}`.
export const link = cell({ lost: false })

function restore () {
  try {
    return JSON.parse(sessionStorage.getItem(STORE))
  } catch {
    return null
  }
}

function basic (name, password) {
  const bytes = new TextEncoder().encode(`${name}:${password}`)
  return 'Basic ' + btoa(String.fromCharCode(...bytes))
}

export async function logIn (name, password) {
  const authorization = basic(name, password)
  const who = await call('GET', 'whoami', undefined, { authorization })
  const tags = typeof who.tags === 'string' ? who.tags.split(',') : who.tags
  const opened = { authorization, name: who.name, tags }
  sessionStorage.setItem(STORE, JSON.stringify(opened))
  farewell.set('')
  session.set(opened)
}

export function logOut (reason = '') {
  sessionStorage.removeItem(STORE)
  farewell.set(reason)
  session.set(null)
}

export const may = (...tags) => tags.some((tag) => session.value?.tags.includes(tag))
export const isAdministrator = () => may('administrator')
export const isMonitor = () => may('administrator', 'monitoring')
export const isPolicymaker = () => may('administrator', 'policymaker')

// A path below /api from segments, each of which may hold anything.
export const path = (...segments) => segments.map(encodeURIComponent).join('/')

// The default exchange has no name, and a path has no empty segment.
export const exchangeSegment = (name) => name === '' ? 'amq.default' : name

// A query from what is not empty.
export function query (entries) {
  const kept = Object.entries(entries).filter(([, value]) => value !== '' && value != null && value !== false)
  const text = new URLSearchParams(kept.map(([name, value]) => [name, String(value)])).toString()
  // A comma may stand as it is, which people read better.
  return text && '?' + text.replaceAll('%2C', ',')
}

async function send (method, address, body, { authorization, reason }) {
  const headers = { accept: 'application/json', 'x-requested-with': 'leveret' }
  headers.authorization = authorization ?? session.value?.authorization ?? ''
  if (body !== undefined) headers['content-type'] = 'application/json'
  if (reason) headers['x-reason'] = reason
  try {
    return await fetch(new URL('api/' + address, document.baseURI), {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      // The browser is to add no credentials of its own, and to ask nobody for any.
      credentials: 'omit',
      cache: 'no-store',
      signal: AbortSignal.timeout(CALL_DEADLINE_MS)
    })
  } catch {
    throw new Unreachable('the node does not answer')
  }
}

async function read (response) {
  let text
  try {
    text = await response.text()
  } catch {
    throw new Unreachable('the node stopped answering')
  }
  try {
    return text === '' ? null : JSON.parse(text)
  } catch {
    return text
  }
}

// One call. Throws `ApiError` or `Unreachable`.
export async function call (method, address, body, options = {}) {
  const response = await send(method, address, body, options)
  const answer = await read(response)
  if (response.ok) return answer
  const reason = answer?.reason ?? answer?.error ?? response.statusText
  const text = typeof reason === 'string' ? reason : JSON.stringify(reason)
  if (response.status === 401 && !options.authorization && text === 'Login failed') {
    logOut('The session has ended: the node does not know this name and password any more.')
  }
  // A proxy in front answers so for a node that is down.
  if ([502, 504].includes(response.status)) throw new Unreachable(text)
  throw new ApiError(response.status, text)
}

// ---- polling: every second each subscribed address is asked, one after the other

const subscriptions = new Set()
let polling = false
// Whether somebody asked for news while a round was under way.
let wantedMeanwhile = false
let timer = null

function schedule (delay) {
  clearTimeout(timer)
  timer = setTimeout(poll, delay)
}

async function poll () {
  if (polling) {
    wantedMeanwhile = true
    return
  }
  if (document.hidden || !session.value || subscriptions.size === 0) return
  polling = true
  wantedMeanwhile = false
  const begun = performance.now()
  try {
    await everyAddress()
  } finally {
    polling = false
  }
  // A node that takes long to answer is left the same time for its own work.
  const took = performance.now() - begun
  schedule(wantedMeanwhile ? 0 : Math.max(POLL_MS - took, Math.min(took, POLL_MS), 100))
}

async function everyAddress () {
  const due = [...subscriptions].filter((one) => one.notBefore <= Date.now())
  const asked = new Set(due.map((one) => one.address))
  let reached = null
  for (const address of asked) {
    const told = [...subscriptions].filter((one) => one.address === address)
    if (told.length === 0) continue
    try {
      const data = await call('GET', address)
      reached = true
      for (const one of told) one.deliver({ data, error: null, at: Date.now() })
    } catch (error) {
      if (error instanceof Unreachable) {
        reached = false
        break
      }
      for (const one of told) {
        if (error.status === 404) one.notBefore = Date.now() + ABSENT_MS
        one.deliver({ error })
      }
    }
  }
  if (reached === false && !link.value.lost) link.set({ lost: true, since: Date.now() })
  if (reached === true && link.value.lost) link.set({ lost: false })
}

// Asks again at once: after an action, and when the tab is looked at again.
export function refresh () {
  for (const one of subscriptions) one.notBefore = 0
  schedule(0)
}
document.addEventListener('visibilitychange', refresh)
session.followers.add(refresh)

// The answer at an address, asked again every second: `{data, error, at}`. While another address
// is asked for the first time the data is that of the last one, if `keep` says so.
export function usePoll (address, keep = false) {
  const [state, setState] = useState({ data: null, error: null })
  const current = useRef(address)
  current.current = address
  useEffect(() => {
    if (!keep) setState({ data: null, error: null })
    if (!address) return
    const deliver = (news) => {
      if (current.current === address) setState((old) => ({ ...old, ...news }))
    }
    const one = { address, deliver, notBefore: 0 }
    subscriptions.add(one)
    refresh()
    return () => subscriptions.delete(one)
  }, [address])
  return state
}
