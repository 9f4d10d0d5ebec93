// How quick the operators' page is: HTTP_URL=… AMQP_URL=… CHROMIUM=… QUEUES=… SECONDS=… node figures.mjs
//
// The broker should be an empty one on loopback: queues are made here, and half of them get
// messages while they are looked at. Prints one line of JSON.

import assert from 'node:assert/strict'
import amqplib from 'amqplib'
import { chromium } from 'playwright-core'
import { api, http, logIn, open } from './browser.mjs'

const QUEUES = Number(process.env.QUEUES)
const SECONDS = Number(process.env.SECONDS)
const ROUNDS = 5

const name = (number) => `queue-${String(number).padStart(6, '0')}`
const median = (figures) => figures.toSorted((a, b) => a - b)[Math.floor(figures.length / 2)]

async function declare () {
  const queues = Array.from({ length: QUEUES }, (_, number) => ({
    name: name(number), vhost: '/', durable: true, auto_delete: false, arguments: {}
  }))
  const { status, json } = await api('POST', 'definitions', { queues })
  assert.ok(status < 300, JSON.stringify(json))
}

/** Publishes to one queue after the other of the first half, until told to end. */
async function publish (ended) {
  const connection = await amqplib.connect(process.env.AMQP_URL)
  const channel = await connection.createConfirmChannel()
  let published = 0
  while (!ended.is) {
    for (let at = 0; at < 500; at++) {
      channel.sendToQueue(name(published++ % (QUEUES / 2)), Buffer.alloc(16))
    }
    await channel.waitForConfirms()
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  await connection.close()
  return published
}

/** A page in a browser without anything of an earlier one, and what it loaded. */
async function firstPaint (browser) {
  const context = await browser.newContext()
  const page = await context.newPage()
  await page.goto(`${http}/`)
  await page.getByLabel('Name').waitFor()
  const figures = await page.evaluate(() => {
    const [paint] = performance.getEntriesByName('first-contentful-paint')
    const loaded = performance.getEntriesByType('resource').filter((entry) => /\.(js|css)($|\?)/.test(entry.name))
    const bytes = (of) => loaded.reduce((sum, entry) => sum + entry[of], 0)
    return { ms: paint.startTime, bytes: bytes('decodedBodySize'), sent: bytes('transferSize') }
  })
  await context.close()
  return figures
}

/** Frames of so many seconds, and the longest time without one, in ms. */
const frames = (page, seconds) => page.evaluate((ms) => new Promise((resolve) => {
  const times = []
  const note = (now) => {
    times.push(now)
    if (now - times[0] < ms) return requestAnimationFrame(note)
    const gaps = times.slice(1).map((time, at) => time - times[at]).sort((a, b) => a - b)
    const rate = 1000 * gaps.length / (now - times[0])
    resolve({ rate, p99: gaps[Math.floor(gaps.length * 0.99)], worst: gaps.at(-1) })
  }
  requestAnimationFrame(note)
}), 1000 * seconds)

/** The times, in ms, from the click to all rows of a part of the page, again and again. */
async function opening (page, route) {
  const times = []
  for (let round = 0; round < ROUNDS; round++) {
    await open(page, 'features')
    const begun = performance.now()
    await open(page, route)
    await page.getByRole('row').nth(1).waitFor()
    times.push(performance.now() - begun)
  }
  return median(times)
}

const args = ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu']
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args })
const ended = { is: false }
try {
  await declare()
  const paints = []
  for (let round = 0; round < ROUNDS; round++) paints.push(await firstPaint(browser))
  const page = await (await browser.newContext()).newPage()
  await page.goto(`${http}/`)
  await logIn(page)
  const list = await opening(page, 'queues')
  const search = await opening(page, 'queues?name=queue-0009')
  await open(page, 'queues')
  const idle = await frames(page, SECONDS)
  const publishing = publish(ended)
  const updating = await frames(page, SECONDS)
  await open(page, '')
  const overview = await frames(page, SECONDS)
  ended.is = true
  const published = await publishing
  console.log(JSON.stringify({
    queues: QUEUES,
    first_paint_ms: median(paints.map((paint) => paint.ms)),
    script_and_style_bytes: paints[0].bytes,
    sent_bytes: paints[0].sent,
    list_ms: list,
    search_ms: search,
    frames_idle: idle,
    frames_updating: updating,
    frames_overview: overview,
    published_a_second: published / (2 * SECONDS)
  }))
} finally {
  ended.is = true
  await browser.close()
}
// What browser.mjs would have node:test wait for is not there.
process.exit(0)
