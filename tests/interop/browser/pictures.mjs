// Pictures for the documents: HTTP_URL=… AMQP_URL=… CHROMIUM=… node pictures.mjs FOLDER
//
// One of each page goes to `pages` in the folder, those that the text shows to the folder itself. The
// broker should be an empty one on loopback: what is shown is made here, under load.

import { mkdirSync } from 'node:fs'
import amqplib from 'amqplib'
import { chromium } from 'playwright-core'
import { api, button, http, logIn, open } from './browser.mjs'

const folder = process.argv[2]
const SIZE = { width: 1280, height: 800 }
// Seconds of figures that the charts show.
const LOAD_SECONDS = 45

const PAGES = {
  overview: '',
  nodes: 'nodes',
  node: 'nodes/$NODE',
  alarms: 'alarms',
  connections: 'connections',
  connection: 'connections/$CONNECTION',
  channel: 'channels/$CHANNEL',
  channels: 'channels',
  exchanges: 'exchanges',
  exchange: 'exchanges/%2F/orders',
  queues: 'queues',
  queue: 'queues/%2F/invoices',
  streams: 'streams',
  stream: 'streams/%2F/events?browse=offset%3Dfirst',
  consumers: 'consumers',
  users: 'users',
  user: 'users/shop',
  'virtual-hosts': 'vhosts',
  'virtual-host': 'vhosts/%2F',
  policies: 'policies',
  limits: 'limits',
  definitions: 'definitions',
  'feature-flags': 'features',
  cluster: 'cluster',
  audit: 'audit',
  'route-tester': 'route?exchange=orders&key=order.paid',
  topology: 'topology',
  'delayed-messages': 'delayed'
}

// Pictures that the text shows: the page, the theme, how large it is, and the button that is clicked.
const SHOWN = {
  'overview-light': { route: '', theme: 'light', height: 900 },
  'overview-dark': { route: '', theme: 'dark', height: 900 },
  'queue-dark': { route: 'queues/%2F/orders', theme: 'dark', height: 1500, click: 'Ask the node' },
  'queue-narrow': { route: 'queues/%2F/orders', theme: 'light', width: 360, height: 900 },
  'topology-light': { route: 'topology?vhost=%2F', theme: 'light', height: 520 },
  'audit-light': { route: 'audit', theme: 'light', height: 620 },
  login: { route: null, theme: 'light', height: 620 },
  'growth-light': { route: 'queues/%2F/orders?why=true', theme: 'light', height: 1500 },
  'move-light': { route: 'queues/%2F/dead', theme: 'light', height: 900, click: 'Move messages' },
  'node-dark': { route: 'nodes/$NODE', theme: 'dark', height: 1700, click: 'What would break?' }
}

async function make () {
  const put = (path, body) => api('PUT', path, body)
  await put('vhosts/shop', {})
  await put('users/shop', { password: 'shop', tags: 'monitoring' })
  await put('permissions/%2F/shop', { configure: '^shop', write: '.*', read: '.*' })
  await put('vhost-limits/shop/max-connections', { value: 500 })
  await put('exchanges/%2F/orders', { type: 'topic', durable: true })
  await put('exchanges/%2F/later', { type: 'x-delayed-message', durable: true, arguments: { 'x-delayed-type': 'direct' } })
  await put('policies/%2F/dead-letters', { pattern: '^(orders|invoices)$', definition: { 'dead-letter-exchange': '', 'dead-letter-routing-key': 'dead' }, 'apply-to': 'queues' })
  const queues = { orders: 'classic', invoices: 'quorum', mails: 'quorum', dead: 'classic', events: 'stream' }
  for (const [name, type] of Object.entries(queues)) {
    await put(`queues/%2F/${name}`, { durable: true, arguments: { 'x-queue-type': type } })
  }
  const keys = { orders: 'order.#', invoices: 'order.paid', mails: 'order.shipped', events: '#' }
  for (const [queue, key] of Object.entries(keys)) {
    await api('POST', `bindings/%2F/e/orders/q/${queue}`, { routing_key: key })
  }
  await api('POST', 'bindings/%2F/e/later/q/mails', { routing_key: 'mail' })
}

async function load (connection) {
  const publisher = await connection.createConfirmChannel()
  const [consumer, slow] = [await connection.createChannel(), await connection.createChannel()]
  await consumer.prefetch(100)
  for (const queue of ['mails', 'invoices']) {
    await consumer.consume(queue, (message) => consumer.ack(message))
  }
  // It takes a third of a second for each message, twenty at a time, which are fewer than arrive.
  await slow.prefetch(20)
  await slow.consume('orders', (message) => setTimeout(() => slow.ack(message), 333), { consumerTag: 'orders-worker' })
  for (let n = 1; n <= 3; n++) publisher.publish('later', 'mail', Buffer.from('a reminder'), { headers: { 'x-delay': 3600000 * n } })
  let turn = 0
  const timer = setInterval(() => {
    const swell = 20 + Math.round(15 * Math.sin(turn++ / 15))
    for (let n = 0; n < swell; n++) {
      const key = `order.${['placed', 'paid', 'shipped'][n % 3]}`
      publisher.publish('orders', key, Buffer.from(JSON.stringify({ order: turn * 100 + n, amount: 1900 + n })), { persistent: true })
    }
  }, 100)
  return () => clearInterval(timer)
}

const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000))

mkdirSync(`${folder}/pages`, { recursive: true })
await make()
const connection = await amqplib.connect(process.env.AMQP_URL, { clientProperties: { connection_name: 'shop' } })
const stop = await load(connection)
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'] })
const [{ name: node }] = (await api('GET', 'nodes')).json

async function picture (page, name, route, click) {
  if (route !== null) await open(page, await named(route))
  if (click) await button(page, click).click()
  // Rates in charts are of two looks at the counters.
  await page.waitForTimeout(4000)
  await page.screenshot({ path: `${folder}/${name}.png` })
  console.log(name)
}

// A route with the names of what is there now.
async function named (route) {
  const [connection] = (await api('GET', 'connections')).json
  const [channel] = (await api('GET', 'channels')).json
  const names = { $NODE: node, $CONNECTION: connection.name, $CHANNEL: channel.name }
  return route.replace(/\$[A-Z]+/, (name) => encodeURIComponent(names[name]))
}

async function pageOf (theme, viewport, isLoggedIn = true) {
  const page = await browser.newPage({ viewport, colorScheme: theme })
  await page.goto(`${http}/`)
  if (isLoggedIn) await logIn(page)
  return page
}

const page = await pageOf('light', SIZE)
await pause(LOAD_SECONDS)
for (const [name, route] of Object.entries(PAGES)) await picture(page, `pages/${name}`, route)
await page.close()
for (const [name, { route, theme, width = SIZE.width, height, click }] of Object.entries(SHOWN)) {
  const page = await pageOf(theme, { width, height }, route !== null)
  await picture(page, name, route, click)
  await page.close()
}
stop()
await browser.close()
await connection.close()
// The tests' own browser, which comes with what is imported, is not waited for.
process.exit()
