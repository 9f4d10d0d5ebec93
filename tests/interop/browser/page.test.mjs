// The operators' page in Debian's Chromium, against the broker at $HTTP_URL.
//
// $CONTROL stops and starts that broker. Whatever is waited for has a long deadline: the machine
// may be slow. A test fails by what it finds, never by how soon.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import net from 'node:net'
import { after, before, test } from 'node:test'
import amqplib from 'amqplib'
import { chromium } from 'playwright-core'

const http = process.env.HTTP_URL
const DEADLINE_MS = 60000
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

// What clients might call things to get script or confusion into the page.
const HOSTILE = [
  '<img src=x onerror="window.owned=1">',
  '"\'`><script>window.owned=1</script>',
  '{{7*7}}${7*7}<b>',
  '\u202Egnp.exe\u2066',
  'a\u0000b\u0007c',
  '../..%2f?x=1#y&z'
]

const PAGES = [
  '', 'nodes', 'connections', 'channels', 'exchanges', 'queues', 'streams', 'consumers', 'users', 'vhosts', 'policies', 'limits',
  'definitions', 'features', 'cluster', 'route', 'topology'
]

let browser
before(async () => {
  // The sandbox wants a user that is not the superuser, and namespaces that a container may lack.
  const args = ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu']
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args, timeout: DEADLINE_MS })
})
after(() => browser?.close())

/** Calls the API, past the page. */
async function api (method, path, body) {
  const response = await fetch(`${http}/api/${path}`, {
    method,
    headers: { authorization: 'Basic ' + btoa('guest:guest'), 'content-type': 'application/json' },
    body: body === undefined ? undefined : JSON.stringify(body)
  })
  const text = await response.text()
  return { status: response.status, json: text && JSON.parse(text) }
}

const part = encodeURIComponent

/** Asks the tool that runs the broker. */
function control (command) {
  const [host, port] = process.env.CONTROL.split(':')
  return new Promise((resolve, reject) => {
    const socket = net.connect(Number(port), host, () => socket.write(`${command}\n`))
    socket.on('error', reject)
    socket.once('data', (data) => {
      socket.end()
      const answer = String(data).trim()
      answer.startsWith('ok') ? resolve(answer) : reject(new Error(answer))
    })
  })
}

/** Waits until something is true. */
async function until (what, condition) {
  const end = Date.now() + DEADLINE_MS
  while (!await condition()) {
    assert.ok(Date.now() < end, `not within ${DEADLINE_MS} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/**
 * A test with a page of its own, logged in unless told otherwise. It fails on anything that the
 * page writes to the console as an error, except what `expected` matches.
 */
function inPage (name, body, { expected = null, login = true, ...options } = {}) {
  test(name, async () => {
    const context = await browser.newContext(options)
    try {
      const page = await context.newPage()
      page.setDefaultTimeout(DEADLINE_MS)
      const errors = []
      const note = (text) => { if (!expected?.test(text)) errors.push(text) }
      page.on('pageerror', (error) => note(String(error.stack ?? error)))
      page.on('console', (message) => { if (message.type() === 'error') note(message.text()) })
      await page.goto(`${http}/`)
      if (login) await logIn(page)
      await body(page).catch(async (failure) => {
        const shown = await page.locator('body').innerText().catch(() => '')
        failure.message += `\nconsole: ${errors.join('\n')}\nthe page at ${page.url()}:\n${shown}`
        throw failure
      })
      assert.deepEqual(errors, [])
    } finally {
      await context.close()
    }
  })
}

async function logIn (page, name = 'guest', password = 'guest') {
  await page.getByLabel('Name').fill(name)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.locator('.shell').waitFor()
}

/** Shows a part of the page and waits until its figures are there. */
async function open (page, route) {
  await page.evaluate((hash) => { location.hash = hash }, `#/${route}`)
  const path = route.split('?')[0]
  await page.waitForFunction((path) => document.querySelector('.content')?.dataset.route === path, path)
  await page.locator('main h1').first().waitFor()
  await page.getByText('Loading…').waitFor({ state: 'detached' })
}

const button = (within, name) => within.getByRole('button', { name, exact: true })
const row = (page, text) => page.getByRole('row').filter({ hasText: text })
const gone = (locator) => locator.waitFor({ state: 'detached' })

/** Fills the open dialog and sends it. */
async function submit (page, name, fields = {}) {
  const dialog = page.getByRole('dialog')
  for (const [label, value] of Object.entries(fields)) {
    const field = dialog.getByLabel(label, { exact: true })
    const tag = await field.evaluate((element) => element.tagName)
    await (tag === 'SELECT' ? field.selectOption(value) : field.fill(value))
  }
  await button(dialog, name).click()
}

inPage('a wrong password is told, a right one lets in, logging out forgets it', async (page) => {
  await page.getByLabel('Name').fill('guest')
  await page.getByLabel('Password').fill('wrong')
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.getByRole('alert').filter({ hasText: 'The name or the password is wrong.' }).waitFor()
  await logIn(page)
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  await page.reload()
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  await page.getByRole('button', { name: 'Log out' }).click()
  await page.getByLabel('Password').waitFor()
  assert.equal(await page.evaluate(() => JSON.stringify(sessionStorage) + JSON.stringify(localStorage).replace(/theme/, '')).then((kept) => /Basic/.test(kept)), false)
}, { login: false, expected: /401/ })

inPage('a user without a tag is not let in', async (page) => {
  await api('PUT', 'users/untagged', { password: 'p', tags: '' })
  await page.getByLabel('Name').fill('untagged')
  await page.getByLabel('Password').fill('p')
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.getByRole('alert').filter({ hasText: 'may not use the management page' }).waitFor()
}, { login: false, expected: /401/ })

inPage('every part of the page shows itself without an error', async (page) => {
  for (const route of PAGES) {
    await open(page, route)
    assert.equal(await page.locator('.failure').count(), 0, route)
  }
  await open(page, 'nowhere')
  await page.getByRole('heading', { name: 'There is no such page' }).waitFor()
}, { expected: /404/ })

inPage('an exchange and a queue are made, bound, used and deleted', async (page) => {
  await open(page, 'exchanges')
  await button(page, 'Add exchange').click()
  await submit(page, 'Add exchange', { Name: 'made', Type: 'topic' })
  await row(page, 'made').waitFor()
  await open(page, 'queues')
  await button(page, 'Add queue').click()
  await button(page.getByRole('dialog'), 'x-max-length').click()
  await submit(page, 'Add queue', { Name: 'made-too', 'Value 1': '7' })
  await row(page, 'made-too').getByRole('link', { name: 'made-too' }).click()
  await page.getByText('x-max-length: 7').waitFor()

  await button(page, 'Add binding').click()
  await submit(page, 'Add binding', { 'From exchange': 'made', 'Routing key': 'a.*' })
  await row(page, 'a.*').waitFor()
  await open(page, 'exchanges/%2F/made')
  await button(page, 'Publish').click()
  await submit(page, 'Publish', { 'Routing key': 'a.b', Body: '{"n":1}' })
  await page.getByText('Published.').waitFor()
  await submit(page, 'Publish', { 'Routing key': 'b' })
  await page.getByText('No queue took it').waitFor()
  await page.keyboard.press('Escape')

  await open(page, 'queues/%2F/made-too')
  await page.locator('.stat', { hasText: 'Ready' }).filter({ hasText: '1' }).waitFor()
  await button(page, 'Get messages').click()
  await submit(page, 'Get')
  await page.getByText('"n": 1').waitFor()
  await page.keyboard.press('Escape')
  await button(page, 'Purge').click()
  await submit(page, 'Purge')
  await page.locator('.stat', { hasText: 'Ready' }).filter({ hasText: '0' }).waitFor()
  await button(row(page, 'a.*'), 'Delete the binding with key a.*').click()
  await submit(page, 'Delete binding')
  await gone(row(page, 'a.*'))
  await button(page, 'Delete').click()
  await submit(page, 'Delete queue')
  await page.getByRole('heading', { name: 'Queues', exact: true }).waitFor()
  await gone(row(page, 'made-too'))
  await open(page, 'exchanges/%2F/made')
  await button(page, 'Delete').click()
  await submit(page, 'Delete exchange')
  await page.getByRole('heading', { name: 'Exchanges', exact: true }).waitFor()
  await gone(row(page, 'made'))
  assert.equal((await api('GET', 'queues/%2F/made-too')).status, 404)
}, { expected: /404/ })

inPage('a user gets a permission, a virtual host and a policy are made and deleted', async (page) => {
  await open(page, 'vhosts')
  await button(page, 'Add virtual host').click()
  await submit(page, 'Add virtual host', { Name: 'shop', Description: 'of the shop' })
  await row(page, 'of the shop').waitFor()
  await open(page, 'users')
  await button(page, 'Add user').click()
  await submit(page, 'Add user', { Name: 'anna', 'The password': 'secret', Tags: 'monitoring' })
  await row(page, 'anna').getByRole('link', { name: 'anna' }).click()
  await button(page, 'Set permission').click()
  await submit(page, 'Set permission', { 'Virtual host': 'shop', Write: '^only' })
  await row(page, '^only').waitFor()
  const set = await api('GET', 'permissions/shop/anna')
  assert.deepEqual([set.json.configure, set.json.write, set.json.read], ['.*', '^only', '.*'])
  await button(page, 'Delete').click()
  await submit(page, 'Delete user')
  await page.getByRole('heading', { name: 'Users', exact: true }).waitFor()
  await gone(row(page, 'anna'))

  await open(page, 'policies')
  await page.getByRole('button', { name: 'Add policy' }).click()
  await button(page.getByRole('dialog'), 'max-length').click()
  await submit(page, 'Add policy', { Name: 'short', Pattern: '^q', 'Virtual host': 'shop', 'Value 1': '9' })
  await row(page, 'max-length: 9').waitFor()
  await button(row(page, 'short'), 'Delete short').click()
  await submit(page, 'Delete policy')
  await gone(row(page, 'max-length: 9'))
  await open(page, 'vhosts/shop')
  await button(page, 'Delete').click()
  await submit(page, 'Delete virtual host')
  await page.getByRole('heading', { name: 'Virtual hosts', exact: true }).waitFor()
  await gone(row(page, 'of the shop'))
}, { expected: /404/ })

inPage('the address bar holds filter, order and page of a list', async (page) => {
  await Promise.all([...Array(30).keys()].map((n) => api('PUT', `queues/%2F/many-${String(n).padStart(2, '0')}`, {})))
  await open(page, 'queues')
  await page.getByLabel('Filter by name').fill('many-')
  const heading = page.getByRole('columnheader', { name: 'Name' })
  await button(heading, 'Name').click()
  await button(heading, 'Name').click()
  await page.locator('th[aria-sort="descending"]').waitFor()
  await page.getByLabel('Rows').selectOption('25')
  await button(page, 'Next').click()
  await page.getByText('Page 2 of 2').waitFor()
  await row(page, 'many-00').waitFor()
  const address = page.url()
  const other = await page.context().newPage()
  await other.goto(address)
  await logIn(other)
  await other.getByText('Page 2 of 2').waitFor()
  await until('the rest of the rows', async () => await row(other, 'many-').count() === 5)
  await Promise.all([...Array(30).keys()].map((n) => api('DELETE', `queues/%2F/many-${String(n).padStart(2, '0')}`)))
})

inPage('a rate moves by itself while messages are published', async (page) => {
  await api('PUT', 'queues/%2F/live', {})
  await open(page, 'queues/%2F/live')
  const stat = page.locator('.stat').filter({ has: page.getByText('In', { exact: true }) }).locator('dd')
  const ready = page.locator('.stat', { hasText: 'Ready' }).locator('dd')
  await until('a rate above zero', async () => {
    const message = { properties: {}, routing_key: 'live', payload: 'x', payload_encoding: 'string' }
    await api('POST', 'exchanges/%2F/amq.default/publish', message)
    return !['0/s', '–'].includes(await stat.textContent())
  })
  await until('a backlog above zero', async () => Number(await ready.textContent()) > 0)
  await page.getByText('Nobody consumes from it').waitFor()
  await until('a rate of zero again', async () => await stat.textContent() === '0/s')
  await api('DELETE', 'queues/%2F/live')
}, { expected: /404/ })

inPage('a stream is made, written to, shown with what it keeps, and deleted', async (page) => {
  await open(page, 'streams')
  await button(page, 'Add stream').click()
  await submit(page, 'Add stream', { Name: 'flow', 'Age that it keeps at most': '1D' })
  await row(page, 'flow').getByRole('link', { name: 'flow' }).click()
  await page.getByText('x-max-age: 1D').waitFor()
  await page.getByRole('region', { name: 'Replicas' }).getByText('leader').waitFor()
  const connection = await amqplib.connect(process.env.AMQP_URL)
  const channel = await connection.createConfirmChannel()
  for (const payload of ['a', 'b', 'c']) channel.sendToQueue('flow', Buffer.from(payload))
  await channel.waitForConfirms()
  await connection.close()
  await page.locator('.stat', { hasText: 'Committed offset' }).filter({ hasText: '2' }).waitFor()
  await button(page, 'Store an offset').click()
  await submit(page, 'Store offset', { Consumer: HOSTILE[0], Offset: '1' })
  await row(page, HOSTILE[0]).getByRole('cell', { name: '1' }).first().waitFor()
  assert.equal(await page.evaluate(() => window.owned), undefined)

  await open(page, 'streams')
  await button(page, 'Add super stream').click()
  await submit(page, 'Add super stream', { Name: 'orders', Partitions: '2' })
  await page.getByRole('region', { name: 'Super streams' }).getByRole('link', { name: 'orders-1' }).waitFor()
  await button(page, 'Delete orders').click()
  await submit(page, 'Delete super stream')
  await gone(page.getByRole('region', { name: 'Super streams' }).getByRole('link', { name: 'orders-1' }))
  await open(page, 'streams/%2F/flow')
  await button(page, 'Delete').click()
  await submit(page, 'Delete stream')
  await page.getByRole('heading', { name: 'Streams', exact: true }).waitFor()
  await gone(row(page, 'flow'))
}, { expected: /404/ })

inPage('a chart shows what was before the page was opened', async (page) => {
  await api('PUT', 'queues/%2F/before', {})
  const message = { properties: {}, routing_key: 'before', payload: 'x', payload_encoding: 'string' }
  await api('POST', 'exchanges/%2F/amq.default/publish', message)
  const asked = 'queues/%2F/before?lengths_age=60&lengths_incr=5'
  await until('two samples', async () => (await api('GET', asked)).json.messages_details.samples?.length > 1)
  const past = page.waitForResponse((response) => response.url().includes('lengths_age=3600'))
  await open(page, 'queues/%2F/before?range=3600')
  const { messages_details: { samples } } = await (await past).json()
  assert.ok(samples.length > 0)
  await page.locator('.chart canvas').first().waitFor()
  await api('DELETE', 'queues/%2F/before')
}, { expected: /404/ })

/** Makes one object of each kind with this name; those that the API refuses are left out. */
async function makeHostile (name, n) {
  const q = part(name)
  await api('PUT', `vhosts/${q}`, { description: name, tags: '' })
  await api('PUT', `users/${q}`, { password: 'p', tags: name.replaceAll(',', '') })
  await api('PUT', `permissions/%2F/${q}`, { configure: '', write: '', read: '' })
  await api('PUT', `queues/%2F/${q}`, { arguments: { [name]: name } })
  await api('PUT', `exchanges/%2F/${q}`, { type: 'topic', arguments: { [name]: name } })
  await api('POST', `bindings/%2F/e/${q}/q/${q}`, { routing_key: name, arguments: { [name]: name } })
  await api('PUT', `policies/%2F/${q}`, { pattern: `^nothing${n}`, definition: { 'dead-letter-exchange': name } })
  await api('PUT', `operator-policies/%2F/${q}`, { pattern: `^nothing${n}`, 'apply-to': 'queues', definition: { 'max-length': 5 } })
  await api('PUT', `user-limits/${q}/max-channels`, { value: 5 })
  await api('PUT', `vhost-limits/${q}/max-queues`, { value: 5 })
  const message = { properties: { type: name, headers: { [name]: name } }, routing_key: name, payload: name, payload_encoding: 'string' }
  await api('POST', 'exchanges/%2F/amq.default/publish', message)
}

inPage('names of clients are never markup', async (page) => {
  for (const [n, name] of HOSTILE.entries()) await makeHostile(name, n)
  const properties = { connection_name: HOSTILE[0], product: HOSTILE[1], [HOSTILE[2]]: HOSTILE[0] }
  const connection = await amqplib.connect(process.env.AMQP_URL, { clientProperties: properties })
  const channel = await connection.createChannel()
  await channel.assertQueue('consumed')
  await channel.consume('consumed', () => {}, { consumerTag: HOSTILE[0], arguments: { [HOSTILE[1]]: HOSTILE[0] } })
  await until('the connection is listed', async () => (await api('GET', 'connections')).json.length > 0)
  const checked = async (where) => {
    assert.equal(await page.evaluate(() => window.owned), undefined, where)
    // Images and scripts of the page's own are outside of this.
    assert.equal(await page.locator('.content img, .content script, .content b.x, dialog img, dialog script').count(), 0, where)
  }
  for (const route of PAGES) {
    await open(page, route)
    await checked(route)
  }
  const [first] = (await api('GET', 'connections')).json
  await open(page, `connections/${part(first.name)}`)
  await page.getByText(HOSTILE[1]).first().waitFor()
  await checked('a connection')
  for (const name of HOSTILE) {
    const q = part(name)
    for (const route of [`queues/%2F/${q}`, `exchanges/%2F/${q}`, `users/${q}`, `vhosts/${q}`]) {
      if ((await api('GET', route)).status !== 200) continue
      await open(page, route)
      await page.getByRole('heading', { level: 1 }).waitFor()
      await checked(route)
    }
  }
  await open(page, 'queues')
  await page.getByRole('link', { name: HOSTILE[0], exact: true }).click()
  await button(page, 'Get messages').click()
  await submit(page, 'Get')
  await page.getByLabel('Body', { exact: true }).filter({ hasText: HOSTILE[0] }).waitFor()
  await checked('a message')
  await page.keyboard.press('Escape')
  await button(page, 'Delete').click()
  await checked('a dialog')
  await page.keyboard.press('Escape')
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox').fill('<img')
  await page.getByRole('option', { name: HOSTILE[0] }).first().waitFor()
  await checked('the palette')
  await connection.close()
}, { expected: /404|400/ })

inPage('the route tester says which queues a message reaches, and why', async (page) => {
  await api('PUT', 'exchanges/%2F/first', { type: 'topic' })
  await api('PUT', 'exchanges/%2F/second', { type: 'fanout' })
  for (const queue of ['routed', 'spared']) await api('PUT', `queues/%2F/${queue}`, {})
  await api('POST', 'bindings/%2F/e/first/e/second', { routing_key: 'order.#' })
  await api('POST', 'bindings/%2F/e/second/q/routed', { routing_key: '' })
  await api('POST', 'bindings/%2F/e/first/q/spared', { routing_key: 'mail.*' })
  await open(page, 'route?exchange=first&key=order.new.eu')
  const reached = page.getByRole('region', { name: 'Queues that it reaches' })
  await reached.getByRole('link', { name: 'routed' }).waitFor()
  assert.equal(await reached.getByRole('link', { name: 'spared' }).count(), 0)
  await page.getByText('"mail.*" does not match').waitFor()
  await page.getByLabel('Routing key').fill('mail.new')
  await reached.getByRole('link', { name: 'spared' }).waitFor()
  const message = { properties: {}, routing_key: 'mail.new', payload: '', payload_encoding: 'string' }
  await api('POST', 'exchanges/%2F/first/publish', message)
  await until('the broker agrees', async () => (await api('GET', 'queues/%2F/spared')).json.messages === 1)
  assert.equal((await api('GET', 'queues/%2F/routed')).json.messages, 0)
  await open(page, 'topology')
  await page.getByRole('link', { name: 'routed' }).waitFor()
})

inPage('the keyboard goes anywhere', async (page) => {
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox').fill('virtual')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Virtual hosts', exact: true }).waitFor()
})

for (const [theme, width] of [['light', 1280], ['dark', 320]]) {
  inPage(`${theme} at ${width} pixels: readable, named, not wider than the window`, async (page) => {
    for (const route of ['', 'queues', 'queues/%2F/seen', 'streams', 'exchanges/%2F/amq.topic', 'users', 'policies', 'definitions', 'route', 'topology']) {
      if (route.startsWith('queues/')) await api('PUT', route, {})
      await open(page, route)
      await page.evaluate(axe)
      const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }))
      const serious = violations.filter((one) => ['serious', 'critical'].includes(one.impact))
      assert.deepEqual(serious.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(' ')}`), [], route)
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, route)
    }
    const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor)
    const [red] = background.match(/\d+/g).map(Number)
    assert.equal(red < 128, theme === 'dark', background)
  }, { colorScheme: theme, viewport: { width, height: 800 } })
}

// The last one: the broker is another process afterwards.
inPage('a broker that is stopped is told of, and comes back by itself', async (page) => {
  await page.getByText('running', { exact: true }).first().waitFor()
  await control('stop')
  await page.getByRole('alert').filter({ hasText: 'does not answer' }).waitFor()
  await control('start')
  await gone(page.getByRole('alert').filter({ hasText: 'does not answer' }))
  await page.getByText('running', { exact: true }).first().waitFor()
}, { expected: /ERR_|404|Failed to load/ })
