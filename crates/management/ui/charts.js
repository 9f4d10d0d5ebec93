// Figures over time: what the node has kept of the time before, then what the page polled; drawn.

import { useEffect, useRef, useState } from './vendor/preact-hooks.js'
import { call, cell, useCell } from './api.js'
import { bytes, compact, duration, html, place, rate, setParams } from './parts.js'
import { Plot } from './plot.js'

const POINTS_MAX = 3600
const HISTORIES_MAX = 60
// Polls further apart than this say nothing of the time between, which samples may fill.
const GAP_MS = 5000
// Polls closer than this are one: a rate over less time jumps with each single message.
const APART_MS = 800

export const RANGES = [['60', '1 min'], ['600', '10 min'], ['3600', '1 h'], ['21600', '6 h'], ['86400', '1 day']]
// By range: the seconds between two samples that are asked for.
const PAST_STEPS = { 60: 5, 600: 5, 3600: 10, 21600: 60, 86400: 180 }
const PAST_KINDS = ['msg_rates', 'lengths', 'data_rates', 'node_stats']
// What is kept of the time before is asked for again after this, or after its distance.
const PAST_AGAIN_S = 60

// By subject: `{times, series, last, step}`; `step` is set for samples, the seconds between two. The subject used longest ago goes first.
const histories = new Map()

function historyOf (subject) {
  const found = histories.get(subject) ?? { times: [], series: {}, last: null }
  histories.delete(subject)
  histories.set(subject, found)
  if (histories.size > HISTORIES_MAX) histories.delete(histories.keys().next().value)
  return found
}

// Adds what was seen at a time: gauges as they are, counters as the rate since the last time.
export function record (history, at, counters, gauges) {
  const { last } = history
  if (last && at < last.at + APART_MS) return
  const rates = {}
  for (const [name, value] of Object.entries(counters)) {
    const before = last?.counters[name]
    const isKnown = before != null && value != null && value >= before && at - last.at <= GAP_MS
    rates[name] = isKnown ? (value - before) * 1000 / (at - last.at) : null
  }
  push(history, at, { ...rates, ...gauges })
  history.last = { at, counters }
}

function push (history, at, values) {
  for (const name of Object.keys(values)) {
    history.series[name] ??= history.times.map(() => null)
  }
  history.times.push(at / 1000)
  for (const [name, points] of Object.entries(history.series)) {
    points.push(values[name] ?? null)
    if (points.length > POINTS_MAX) points.shift()
  }
  if (history.times.length > POINTS_MAX) history.times.shift()
}

// The history of a subject: what was just polled, behind what is known of the time before.
export function useHistory (subject, at, counters, gauges, past = null) {
  const [, redraw] = useState(0)
  useEffect(() => {
    if (!at) return
    record(historyOf(subject), at, counters, gauges)
    redraw(at)
  }, [subject, at])
  return joined(past, historyOf(subject))
}

// Polls in their order, and samples wherever there is no poll. What is known of neither is a gap;
// a figure that one point lacks (a rate needs two polls) is left out of the line.
export function joined (past, live) {
  const points = []
  let nextPast = 0
  const take = (from, at, apart) => {
    const before = points.at(-1)
    const time = from.times[at]
    if (before && time - before.time > Math.max(apart, before.apart)) points.push({ time: before.time + 1, from: null })
    points.push({ time, from, at, apart })
  }
  const takePast = (after, before) => {
    for (; past && nextPast < past.times.length && past.times[nextPast] < before; nextPast++) {
      if (past.times[nextPast] > after) take(past, nextPast, 1.5 * past.step)
    }
  }
  for (const [at, time] of live.times.entries()) {
    const before = live.times[at - 1] ?? -Infinity
    // Samples between two polls that follow each other are passed over.
    takePast(time - before > GAP_MS / 1000 ? before : Infinity, time)
    take(live, at, GAP_MS / 1000)
  }
  takePast(live.times.length ? live.times.at(-1) + GAP_MS / 1000 : -Infinity, Infinity)
  const names = new Set([...Object.keys(past?.series ?? {}), ...Object.keys(live.series)])
  const series = {}
  for (const name of names) series[name] = points.map((one) => one.from === null ? null : one.from.series[name]?.[one.at] ?? undefined)
  return { times: points.map((one) => one.time), series, last: live.last }
}

const at = (from, path) => path.split('.').reduce((found, name) => found?.[name], from)

// What samples say of the figures at these paths of an answer.
function pastOf (data, counters, gauges, step) {
  const found = new Map()
  const gather = (paths, isCounter) => {
    for (const [name, path] of Object.entries(paths)) {
      let last = null
      for (const { sample, timestamp } of (at(data, `${path}_details`)?.samples ?? []).toReversed()) {
        const seconds = timestamp / 1000
        const isNext = last && seconds - last.seconds < 1.5 * step
        const grown = isNext && sample >= last.sample ? (sample - last.sample) / (seconds - last.seconds) : null
        if (!found.has(seconds)) found.set(seconds, {})
        found.get(seconds)[name] = isCounter ? grown : sample
        last = { seconds, sample }
      }
    }
  }
  gather(counters, true)
  gather(gauges, false)
  const history = { times: [], series: {}, step }
  const names = [...Object.keys(counters), ...Object.keys(gauges)]
  for (const name of names) history.series[name] = []
  for (const [seconds, values] of [...found].sort(([a], [b]) => a - b)) {
    history.times.push(seconds)
    for (const name of names) history.series[name].push(values[name] ?? null)
  }
  return history
}

// What the node has kept of the figures at these paths of an answer, for the chosen time. What it
// does not keep is missing: the polls say what goes wrong.
export function usePast (address, counters, gauges) {
  const range = useRange()
  const [past, setPast] = useState(null)
  useEffect(() => {
    setPast(null)
    if (!address) return
    let isGone = false
    const step = PAST_STEPS[range]
    const ages = PAST_KINDS.map((kind) => `${kind}_age=${range}&${kind}_incr=${step}`).join('&')
    const ask = () => call('GET', `${address}?${ages}`).then((data) => {
      if (!isGone) setPast(pastOf(data, counters, gauges, step))
    }, () => {})
    ask()
    const timer = setInterval(ask, Math.max(step, PAST_AGAIN_S) * 1000)
    // Nothing is polled while nobody looks.
    const again = () => { if (!document.hidden) ask() }
    document.addEventListener('visibilitychange', again)
    return () => { isGone = true; clearInterval(timer); document.removeEventListener('visibilitychange', again) }
  }, [address, range])
  return past
}

// Paths of figures that are called in an answer as they are here.
export const below = (parent, names) => Object.fromEntries(names.map((name) => [name, parent ? `${parent}.${name}` : name]))

// A line's value at a point of a history: of a series, or, with `by`, a mean: what one series grew by over what the other did,
// `scale` times. Where nothing happened there is no mean, nor where a time is 0 (`isTime`): a gap.
export function pointOf ({ series }, { name, by, scale = 1, isTime }, at) {
  const value = series[name]?.[at]
  if (!by) return isTime && value === 0 ? null : value
  const count = series[by]?.[at]
  if (value == null || count == null) return value === undefined || count === undefined ? undefined : null
  return count > 0 ? scale * value / count : null
}

// The newest point of a series.
export const newest = (history, name) => history.series[name]?.at(-1) ?? null

// ---- themes

const STORE = 'leveret-theme'
export const THEMES = ['auto', 'light', 'dark']
export const theme = cell(THEMES.includes(localStorage.getItem(STORE)) ? localStorage.getItem(STORE) : 'auto')

function applyTheme () {
  document.documentElement.dataset.theme = theme.value
  localStorage.setItem(STORE, theme.value)
}
theme.followers.add(applyTheme)
applyTheme()

const systemTheme = cell(0)
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => systemTheme.set(systemTheme.value + 1))

// A colour of the style sheet as a canvas wants it.
function colour (element, name) {
  element.style.color = `var(${name})`
  const found = getComputedStyle(element).color
  element.style.color = ''
  return found
}

// ---- drawing

const FORMATS = { rate, count: compact, bytes, age: (n) => duration(n == null ? null : n * 1000), cpu: (n) => n == null ? '–' : `${Math.round(n / 10)} %`, ms: (n) => n == null ? '–' : `${n < 10 ? n.toFixed(1) : Math.round(n)} ms` }

// How many of a unit make the next one.
const THOUSANDS = { bytes: 1024, age: 60 }

export function useRange () {
  const chosen = useCell(place).params.get('range')
  return Number(RANGES.some(([seconds]) => seconds === chosen) ? chosen : '60')
}

export function RangeChoice () {
  const range = String(useRange())
  return html`<div class="segments" role="group" aria-label="Time that the charts show">${RANGES.map(([seconds, label]) => html`
    <button type="button" aria-pressed=${seconds === range} onClick=${() => setParams({ range: seconds === '60' ? '' : seconds })}>${label}</button>`)}</div>`
}

const twoDigits = (n) => String(n).padStart(2, '0')

function clock (seconds, range) {
  const at = new Date(seconds * 1000)
  const minutes = `${twoDigits(at.getHours())}:${twoDigits(at.getMinutes())}`
  return range > 60 ? minutes : `${minutes}:${twoDigits(at.getSeconds())}`
}

// `lines`: `{name, label, colour, fill}`, and what `pointOf` takes; `unit`: rate, count, bytes, ms, age (seconds), or cpu (milliseconds a second).
export function Chart ({ title, history, lines, unit = 'rate' }) {
  const range = useRange()
  const themed = useCell(theme)
  const system = useCell(systemTheme)
  const element = useRef()
  const plot = useRef()
  const [hovered, setHovered] = useState(null)
  const format = FORMATS[unit]
  useEffect(() => {
    const holder = element.current
    const inked = lines.map((line, at) => ({
      stroke: colour(holder, `--c${line.colour ?? at + 1}`),
      fill: line.fill && colour(holder, `--f${line.colour ?? at + 1}`)
    }))
    const [grid, ink] = [colour(holder, '--line'), colour(holder, '--muted')]
    plot.current = new Plot(holder, { lines: inked, range, format, thousand: THOUSANDS[unit] ?? 1000, clock: (seconds) => clock(seconds, range), grid, ink, onHover: setHovered })
    plot.current.set(dataOf(history, lines))
    return () => plot.current.destroy()
  }, [themed, system, range, lines.map((line) => line.name).join()])
  useEffect(() => { plot.current?.set(dataOf(history, lines)) }, [history, history.times.at(-1)])
  const value = (line) => pointOf(history, line, hovered ?? history.times.length - 1)
  return html`<figure class="chart">
    <figcaption><strong>${title}</strong><ul>${lines.map((line, at) => html`
      <li><span class=${`swatch s${line.colour ?? at + 1}`}></span>${line.label} <b>${format(value(line))}</b></li>`)}</ul></figcaption>
    <div ref=${element} class="plot" aria-hidden="true"></div>
  </figure>`
}

const dataOf = (history, lines) => [history.times, ...lines.map((line) =>
  history.series[line.name] ? history.times.map((_, at) => pointOf(history, line, at)) : history.times.map(() => null))]
