// The page's way to the HTTP API: the session, single calls, and the figures that stay live.

import { useEffect, useRef, useState } from './vendor/preact-hooks.js'
import { parse, Verbatim } from './exact.js'

const STORE = 'leveret-session'
const POLL_MS = 1000
const CALL_DEADLINE_MS = 10000
// Paths that the node sends over one connection; each, encoded, is no longer than a parameter may be.
const LIVE_PATHS_MAX = 16
const LIVE_PATH_CHARS_MAX = 1000
// A connection that brings nothing for so long is held back on its way, or its node stands still.
const LIVE_FIRST_MS = 2500
const LIVE_SILENCE_MS = 5000
// After a connection that brought nothing another one is tried, each time later.
const LIVE_AGAIN_MS = [2000, 4000, 8000, 16000, 32000, 60000]
// What comes and goes within this (parts of a page that is being drawn) opens one connection.
const SETTLE_MS = 30
// Whether a session is over is looked at so often: a machine that slept has not counted.
const END_CHECK_MS = 10000
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

// Who is logged in: `{authorization, name, tags, begun, minutes}`, or null. It ends with the browser's
// tab, and so many minutes after the login, if the node says how many.
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
  const opened = { authorization, name: who.name, tags, begun: Date.now(), minutes: who.login_session_timeout ?? 0 }
  sessionStorage.setItem(STORE, JSON.stringify(opened))
  farewell.set('')
  session.set(opened)
}

export function logOut (reason = '') {
  sessionStorage.removeItem(STORE)
  farewell.set(reason)
  session.set(null)
}

let ending = null
function endInTime () {
  clearTimeout(ending)
  const { minutes, begun } = session.value ?? {}
  if (!minutes) return
  const left = begun + minutes * 60000 - Date.now()
  if (left <= 0) return logOut(`The session has ended: it lasts ${minutes} minutes. Please log in again.`)
  ending = setTimeout(endInTime, Math.min(left, END_CHECK_MS))
}
session.followers.add(endInTime)
document.addEventListener('visibilitychange', endInTime)
endInTime()

export const may = (...tags) => tags.some((tag) => session.value?.tags.includes(tag))
export const isAdministrator = () => may('administrator')
export const isMonitor = () => may('administrator', 'monitoring')
export const isPolicymaker = () => may('administrator', 'policymaker')

// A segment that holds anything. Browsers take dots alone for a way up the path, escaped or not: the
// API takes them behind %FF, an octet that no name has.
const segment = (text) => /^\.\.?$/.test(text) ? '%FF' + text : encodeURIComponent(text)

// A path below /api from segments.
export const path = (...segments) => segments.map(segment).join('/')

// The default exchange has no name, and a path has no empty segment.
export const exchangeSegment = (name) => name === '' ? 'amq.default' : name

// A query from what is not empty.
export function query (entries) {
  const kept = Object.entries(entries).filter(([, value]) => value !== '' && value != null && value !== false)
  const text = new URLSearchParams(kept.map(([name, value]) => [name, String(value)])).toString()
  // A comma may stand as it is, which people read better.
  return text && '?' + text.replaceAll('%2C', ',')
}

async function send (method, address, body, { authorization, reason, isLong }) {
  const headers = { accept: 'application/json', 'x-requested-with': 'leveret' }
  headers.authorization = authorization ?? session.value?.authorization ?? ''
  if (body !== undefined) headers['content-type'] = 'application/json'
  if (reason) headers['x-reason'] = reason
  try {
    return await fetch(new URL('api/' + address, document.baseURI), {
      method,
      headers,
      body: body === undefined ? undefined : body instanceof Verbatim ? body.text : JSON.stringify(body),
      // The browser is to add no credentials of its own, and to ask nobody for any.
      credentials: 'omit',
      cache: 'no-store',
      // What takes as long as there is of it may do so.
      signal: isLong ? undefined : AbortSignal.timeout(CALL_DEADLINE_MS)
    })
  } catch {
    throw new Unreachable('the node does not answer')
  }
}

async function read (response, isText) {
  let text
  try {
    text = await response.text()
  } catch {
    throw new Unreachable('the node stopped answering')
  }
  try {
    if (isText && response.ok) return text
    return text === '' ? null : parse(text)
  } catch {
    return text
  }
}

// One call; of `isText` the answer as it stands. Throws `ApiError` or `Unreachable`.
export async function call (method, address, body, options = {}) {
  const response = await send(method, address, body, options)
  const answer = await read(response, options.isText)
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

// ---- figures that stay live: over one connection the node sends each answer that has changed, and
// every second which are still the same. Where that connection brings nothing (a proxy may hold it
// back) each address is asked for every second, one after the other.

const subscriptions = new Set()
// What is sent over a connection, or null: `polled` are the addresses that are asked for all the same, `zero` is when it began.
let stream = null
let failures = 0
let notBefore = 0
let settling = null
let polling = false
// Whether somebody asked for news while a round was under way.
let wantedMeanwhile = false
let timer = null

const addressesWanted = () => [...new Set([...subscriptions].map((one) => one.address))]
const listens = () => !document.hidden && session.value && subscriptions.size > 0
const found = () => { if (link.value.lost) link.set({ lost: false }) }
const lose = (since = Date.now()) => { if (!link.value.lost) link.set({ lost: true, since }) }

function deliver (address, news) {
  for (const one of subscriptions) if (one.address === address) one.deliver(news)
}

// Begins anew with what is wanted now: over a connection if one may bring something, else by asking.
function begin () {
  clearTimeout(settling)
  clearTimeout(timer)
  end()
  if (!listens()) return
  if (Date.now() < notBefore || link.value.lost) schedule(0)
  else listen()
}

function end () {
  stream?.controller.abort()
  clearInterval(stream?.watch)
  stream = null
}

async function listen () {
  const wanted = addressesWanted()
  const addresses = wanted.filter((one) => one.length < LIVE_PATH_CHARS_MAX).slice(0, LIVE_PATHS_MAX)
  const others = new Set(wanted.filter((one) => !addresses.includes(one)))
  // After one that brought nothing the next one is not waited for.
  const mine = { controller: new AbortController(), addresses, others, polled: failures ? new Set(wanted) : others, last: new Map(), zero: null, ticked: false, heard: Date.now() }
  stream = mine
  mine.watch = setInterval(() => {
    if (Date.now() - mine.heard > (mine.zero === null ? LIVE_FIRST_MS : LIVE_SILENCE_MS)) broken(mine)
  }, 500)
  if (mine.polled.size) schedule(0)
  try {
    const parameters = addresses.map((one) => 'path=' + encodeURIComponent(one)).join('&')
    const response = await fetch(new URL('api/leveret/live?' + parameters, document.baseURI), {
      headers: { accept: 'text/event-stream', 'x-requested-with': 'leveret', authorization: session.value.authorization },
      credentials: 'omit',
      cache: 'no-store',
      signal: mine.controller.signal
    })
    if (response.ok) await hear(mine, response.body)
  } catch {
    // What there is to say about it, asking will tell.
  }
  broken(mine)
}

// A connection has ended, or brings nothing: whoever is asked next tells why. One that did not last
// for a tick is not begun anew at once.
function broken (mine) {
  if (stream !== mine) return
  if (!mine.ticked) {
    notBefore = Date.now() + LIVE_AGAIN_MS[Math.min(failures, LIVE_AGAIN_MS.length - 1)]
    failures++
  } else if (Date.now() - mine.heard > LIVE_SILENCE_MS) lose(mine.heard)
  end()
  schedule(0)
}

async function hear (mine, body) {
  const decoder = new TextDecoder()
  const reader = body.getReader()
  let kept = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done || stream !== mine) return
    kept += decoder.decode(value, { stream: true })
    for (let at = kept.indexOf('\n\n'); at >= 0; at = kept.indexOf('\n\n')) {
      const fields = Object.fromEntries(kept.slice(0, at).split('\n').map((line) => {
        const colon = line.indexOf(':')
        return [line.slice(0, colon), line.slice(colon + 2)]
      }))
      kept = kept.slice(at + 2)
      mine.heard = Date.now()
      if (fields.event) heard(mine, fields.event, parse(fields.data))
      if (stream !== mine) return
    }
  }
}

function heard (mine, event, data) {
  const { at_ms: since, path: number, status, body } = data
  const address = mine.addresses[number]
  if (since !== undefined && mine.zero === null) {
    mine.zero = Date.now() - since
    mine.polled = mine.others
    found()
    // What changed of the user before this connection began, it does not tell.
    meet().catch(() => {})
  }
  // Figures are as old as the node says, however late they come.
  const at = Math.min(Date.now(), mine.zero + since)
  if (event === 'answer') {
    const reason = body?.reason ?? body?.error ?? ''
    const news = status < 400 ? { data: body, error: null, at } : { error: new ApiError(status, text(reason)) }
    mine.last.set(address, news)
    deliver(address, news)
  } else if (event === 'tick') {
    mine.ticked = true
    failures = 0
    for (const [same, made] of data.same) {
      const before = mine.last.get(mine.addresses[same])
      if (!before?.data) continue
      before.at = Math.min(Date.now(), mine.zero + made)
      deliver(mine.addresses[same], { ...before })
    }
  } else if (event === 'ask') {
    mine.polled.add(address)
    schedule(0)
  } else if (event === 'end') {
    end()
    meetAgain()
  }
}

const text = (reason) => typeof reason === 'string' ? reason : JSON.stringify(reason)

// The user is not who they were: other tags, or nobody any more, which ends the session.
async function meetAgain () {
  try {
    if (await meet()) return
  } catch {
    // Asking for figures will tell why.
  }
  schedule(0)
}

// Asks who the user is; whether they have other tags than before.
async function meet () {
  const before = session.value
  const { tags, login_session_timeout: minutes = 0 } = await call('GET', 'whoami')
  const now = typeof tags === 'string' ? tags.split(',') : tags
  // Somebody else may have logged in meanwhile.
  if (session.value !== before || (String(now) === String(before?.tags) && minutes === before?.minutes)) return false
  const met = { ...before, tags: now, begun: before.begun ?? Date.now(), minutes }
  sessionStorage.setItem(STORE, JSON.stringify(met))
  session.set(met)
  return true
}

function schedule (delay) {
  clearTimeout(timer)
  timer = setTimeout(poll, delay)
}

async function poll () {
  if (polling) {
    wantedMeanwhile = true
    return
  }
  if (!listens()) return
  if (!stream && !link.value.lost && Date.now() >= notBefore) return begin()
  const asked = stream ? [...stream.polled] : addressesWanted()
  if (asked.length === 0) return
  polling = true
  wantedMeanwhile = false
  const begun = performance.now()
  try {
    await everyAddress(asked)
  } finally {
    polling = false
  }
  if (stream && stream.polled.size === 0) return
  // A node that takes long to answer is left the same time for its own work.
  const took = performance.now() - begun
  schedule(wantedMeanwhile ? 0 : Math.max(POLL_MS - took, Math.min(took, POLL_MS), 100))
}

async function everyAddress (asked) {
  const due = asked.filter((address) => [...subscriptions].some((one) => one.address === address && one.notBefore <= Date.now()))
  let reached = null
  for (const address of due) {
    try {
      const data = await call('GET', address)
      reached = true
      deliver(address, { data, error: null, at: Date.now() })
    } catch (error) {
      if (error instanceof Unreachable) {
        reached = false
        break
      }
      for (const one of subscriptions) if (one.address === address && error.status === 404) one.notBefore = Date.now() + ABSENT_MS
      deliver(address, { error })
    }
  }
  if (reached === false) lose()
  if (reached === true) found()
}

// Asks again at once: after an action, and when the tab is looked at again.
export function refresh () {
  for (const one of subscriptions) one.notBefore = 0
  begin()
}
document.addEventListener('visibilitychange', refresh)
session.followers.add(refresh)

// What is wanted has changed, or may have.
function settle () {
  clearTimeout(settling)
  settling = setTimeout(() => {
    const now = new Set(stream ? [...stream.addresses, ...stream.polled] : [])
    const wanted = addressesWanted()
    if (!stream || wanted.length !== now.size || !wanted.every((one) => now.has(one))) begin()
  }, SETTLE_MS)
}

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
    const known = stream?.last.get(address)
    if (known) deliver(known)
    else settle()
    return () => {
      subscriptions.delete(one)
      settle()
    }
  }, [address])
  return state
}
