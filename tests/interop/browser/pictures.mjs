// Pictures of each page for the documents: HTTP_URL=… AMQP_URL=… CHROMIUM=… node pictures.mjs FOLDER
//
// The broker should be an empty one on loopback: what is shown is made here, under load.

import { mkdirSync } from 'node:fs'
import amqplib from 'amqplib'
import { chromium } from 'playwright-core'
import { api, http, logIn, open } from './browser.mjs'

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
  policies: 'policies',
  limits: 'limits',
  definitions: 'definitions',
  'feature-flags': 'features',
  cluster: 'cluster',
  audit: 'audit',
  'route-tester': 'route',
  topology: 'topology',
  'delayed-messages': 'delayed'
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
  const [publisher, consumer] = [await connection.createChannel(), await connection.createChannel()]
  await consumer.prefetch(100)
  for (const queue of ['orders', 'mails', 'invoices']) {
    await consumer.consume(queue, (message) => consumer.ack(message))
  }
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

mkdirSync(folder, { recursive: true })
await make()
const connection = await amqplib.connect(process.env.AMQP_URL, { clientProperties: { connection_name: 'shop' } })
const stop = await load(connection)
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'] })
const page = await browser.newPage({ viewport: SIZE, colorScheme: 'light' })
await page.goto(`${http}/`)
await logIn(page)
const [{ name: node }] = (await api('GET', 'nodes')).json
await page.waitForTimeout(LOAD_SECONDS * 1000)
for (const [name, route] of Object.entries(PAGES)) {
  await open(page, route.replace('$NODE', encodeURIComponent(node)))
  // Rates in charts are of two looks at the counters.
  await page.waitForTimeout(4000)
  await page.screenshot({ path: `${folder}/${name}.png` })
  console.log(name)
}
stop()
await browser.close()
await connection.close()
// The tests' own browser, which comes with what is imported, is not waited for.
process.exit()
