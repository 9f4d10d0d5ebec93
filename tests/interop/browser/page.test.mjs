// The operators' page in Debian's Chromium, against the broker at $HTTP_URL.
//
// $CONTROL stops and starts that broker.

import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import amqplib from 'amqplib'
import { api, axe, button, control, gone, http, inPage, logIn, open, part, row, submit, until } from './browser.mjs'

// What clients might call things to get script or confusion into the page.
const HOSTILE = [
  '<img src=x onerror="window.owned=1">',
  '"\'`><script>window.owned=1</script>',
  '{{7*7}}${7*7}<b>',
  '\u202Egnp.exe\u2066',
  'a\u0000b\u0007c',
  '../..%2f?x=1#y&z'
]

// What is looked at in both themes, wide and narrow.
const SEEN = [
  '', 'queues', 'queues/%2F/seen?why=true', 'exchanges/%2F/seen', 'topology?around=qseen', 'streams', 'streams/%2F/seen-stream?browse=offset%3Dfirst', 'exchanges/%2F/amq.topic', 'users', 'users/seen', 'policies', 'definitions',
  'route', 'topology', 'alarms', 'audit', 'delayed', 'nodes/$NODE?impact=true&disk=true&config=true'
]

const PAGES = [
  '', 'nodes', 'alarms', 'connections', 'channels', 'exchanges', 'queues', 'streams', 'consumers', 'users', 'vhosts', 'policies', 'limits',
  'definitions', 'features', 'cluster', 'audit', 'route', 'topology', 'delayed'
]

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
  await until('an age of the message', async () => /^\d+ s$/.test(await page.locator('.stat', { hasText: 'Oldest' }).locator('dd').textContent()))
  await button(page, 'Get messages').click()
  await submit(page, 'Get')
  await page.getByText('"n": 1').waitFor()
  await page.keyboard.press('Escape')
  await button(page, 'Purge').click()
  await submit(page, 'Purge')
  await page.locator('.stat', { hasText: 'Ready' }).filter({ hasText: '0' }).waitFor()
  await button(row(page, 'a.*'), 'Unbind the key a.*').click()
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

inPage('figures come over one connection as they change, and none is asked for', async (page) => {
  await api('PUT', 'queues/%2F/streamed', {})
  await open(page, 'queues/%2F/streamed')
  const ready = page.locator('.stat', { hasText: 'Ready' }).locator('dd')
  await until('the backlog', async () => await ready.textContent() === '0')
  const asked = []
  // What was before the page is no figure of now, and the connection may begin only here: then the page asks who its user is.
  page.on('request', (request) => {
    const { pathname, search } = new URL(request.url())
    if (!['/api/leveret/live', '/api/whoami'].includes(pathname) && !search.includes('_age=')) asked.push(pathname)
  })
  for (const depth of [1, 2, 3]) {
    const message = { properties: {}, routing_key: 'streamed', payload: 'x', payload_encoding: 'string' }
    await api('POST', 'exchanges/%2F/amq.default/publish', message)
    await until(`a backlog of ${depth}`, async () => await ready.textContent() === String(depth))
  }
  assert.deepEqual(asked, [])
  // Another part of the page has a connection of its own, which is begun once.
  const begun = page.waitForRequest((request) => request.url().includes('/api/leveret/live?'))
  await open(page, 'exchanges/%2F/amq.topic')
  assert.match(decodeURIComponent((await begun).url()), /path=exchanges\/%2F\/amq.topic/)
  await api('DELETE', 'queues/%2F/streamed')
}, { expected: /404/ })

for (const [what, hold] of [
  ['is held back by a proxy', () => {}],
  ['is cut', (route) => route.abort()],
  ['is refused', (route) => route.fulfill({ status: 429, json: { error: 'Too Many Requests', reason: 'too many' } })]
]) {
  inPage(`figures are asked for where the connection ${what}`, async (page) => {
    await page.route('**/api/leveret/live?*', hold)
    await api('DELETE', 'queues/%2F/asked-for')
    await api('PUT', 'queues/%2F/asked-for', {})
    await open(page, 'queues/%2F/asked-for')
    const ready = page.locator('.stat', { hasText: 'Ready' }).locator('dd')
    const message = { properties: {}, routing_key: 'asked-for', payload: 'x', payload_encoding: 'string' }
    for (const depth of [1, 2]) {
      await api('POST', 'exchanges/%2F/amq.default/publish', message)
      await until(`a backlog of ${depth}`, async () => await ready.textContent() === String(depth))
    }
    assert.equal(await page.getByText('The node does not answer').count(), 0)
    // Once it lets events through they come that way, and nothing is asked for any more.
    // The longest pause between two tries is a minute. Waited for from before they may come.
    const live = (response) => response.url().includes('/api/leveret/live?') && response.ok()
    const answered = page.waitForResponse(live, { timeout: 120000 })
    await page.unroute('**/api/leveret/live?*')
    await answered
    await api('POST', 'exchanges/%2F/amq.default/publish', message)
    await until('a backlog of 3', async () => await ready.textContent() === '3')
    await api('DELETE', 'queues/%2F/asked-for')
  }, { expected: /404|429|ERR_FAILED/ })
}

inPage('who loses a tag loses what it showed, and who is deleted is logged out', async (page) => {
  await api('PUT', 'users/watcher', { password: 'p', tags: 'monitoring' })
  await logIn(page, 'watcher', 'p')
  await page.getByRole('link', { name: 'Nodes' }).first().waitFor()
  await api('PUT', 'users/watcher', { password: 'p', tags: 'management' })
  await gone(page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Nodes' }))
  await api('DELETE', 'users/watcher')
  await page.getByText('The session has ended').waitFor()
}, { login: false, expected: /401/ })

inPage('messages are chosen, moved by what they died of, copied, and told what would become of them', async (page) => {
  const put = (name, body = {}) => api('PUT', `queues/%2F/${name}`, { durable: true, ...body })
  const send = (key, payload, properties = {}) => api('POST', 'exchanges/%2F/amq.default/publish', { properties, routing_key: key, payload, payload_encoding: 'string' })
  const depth = (name, messages) => until(`${messages} in ${name}`, async () => (await api('GET', `queues/%2F/${name}`)).json.messages === messages)
  const dying = { arguments: { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': 'graves' } }
  await put('graves')
  await put(part(HOSTILE[0]))
  await put('alive', dying)
  await put('other', { arguments: { ...dying.arguments, 'x-message-ttl': 1 } })
  for (const payload of ['one', 'two', 'three']) await send('alive', payload)
  await api('POST', 'queues/%2F/alive/get', { count: 3, ackmode: 'reject_requeue_false', encoding: 'auto' })
  await send('other', 'old')
  await depth('graves', 4)

  await open(page, 'queues/%2F/graves')
  await button(page, 'Peek').click()
  await submit(page, 'Peek')
  await page.getByRole('dialog').getByText('three').waitFor()
  await page.getByLabel('Choose message 2').check()
  await button(page.getByRole('dialog'), 'Move the chosen').click()
  await submit(page, 'Move')
  await row(page, '1 chosen').filter({ hasText: '1 to alive' }).filter({ hasText: '3: not chosen' }).filter({ hasText: 'done' }).waitFor()
  const [{ payload, properties }] = (await api('GET', 'leveret/queues/%2F/alive/messages')).json
  assert.deepEqual([payload, properties.headers['x-redriven']], ['two', 1])

  await button(page, 'Move messages').click()
  await page.getByLabel('Only say what would be done').check()
  await submit(page, 'Move', { 'Died for': 'expired' })
  await row(page, 'Only told').filter({ hasText: '1 to other' }).filter({ hasText: '2: died for another reason' }).filter({ hasText: 'done' }).waitFor()
  await depth('graves', 3)
  await button(page, 'Move messages').click()
  await submit(page, 'Move', { Messages: 'copy', 'To queue': HOSTILE[0], 'Died in queue': 'alive' })
  await row(page, 'copied to').filter({ hasText: `2 to ${HOSTILE[0]}` }).filter({ hasText: 'done' }).waitFor()
  await depth('graves', 3)
  await button(page, 'Move messages').click()
  await submit(page, 'Move', { Messages: 'move', 'To queue': 'nowhere' })
  await page.getByRole('alert').filter({ hasText: "no queue 'nowhere'" }).waitFor()
  assert.equal(await page.evaluate(() => window.owned), undefined)
  for (const name of ['graves', HOSTILE[0], 'alive', 'other']) await api('DELETE', `queues/%2F/${part(name)}`)
}, { expected: /404/ })

inPage('messages of a queue are searched for by key, header, body and age', async (page) => {
  await api('PUT', 'queues/%2F/searched', {})
  const send = (payload, headers = {}) => api('POST', 'exchanges/%2F/amq.default/publish', { properties: { headers }, routing_key: 'searched', payload, payload_encoding: 'string' })
  for (const n of [1, 2, 3]) await send(JSON.stringify({ order: { id: n } }), { shop: n === 2 ? HOSTILE[0] : 'usual' })
  await send('no JSON')
  await open(page, 'queues/%2F/searched')
  await button(page, 'Peek').click()
  const dialog = page.getByRole('dialog')
  const finds = async (fields, position) => {
    await submit(page, 'Peek', { 'Routing key has': '', Header: '', 'Body has': '', 'JSON in the body': '', 'Seconds that it has waited at least': '', ...fields })
    await dialog.getByRole('status').filter({ hasText: `, ${position ? 1 : 0} found.` }).waitFor()
    if (position) await dialog.getByLabel(`Choose message ${position}`).waitFor()
    assert.equal(await dialog.getByLabel(/Choose message/).count(), position ? 1 : 0)
  }
  await finds({ 'JSON in the body': '/order/id:3' }, 3)
  await finds({ Header: `shop:${HOSTILE[0]}` }, 2)
  await finds({ 'Body has': 'no JSON', 'Routing key has': 'search' }, 4)
  await finds({ 'Body has': 'no JSON', 'Routing key has': 'other' }, null)
  await finds({ 'Seconds that it has waited at least': '1000' }, null)
  assert.equal(await page.evaluate(() => window.owned), undefined)
  assert.equal((await api('GET', 'queues/%2F/searched')).json.messages_ready, 4)
  await page.keyboard.press('Escape')
  await api('DELETE', 'queues/%2F/searched')
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

inPage('wherever a stream is named, its own page is shown', async (page) => {
  await open(page, 'queues')
  await button(page, 'Add queue').click()
  await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill('linked-stream')
  await submit(page, 'Add queue', { Type: 'stream' })
  const asked = []
  page.on('request', (request) => asked.push(decodeURIComponent(request.url())))
  const isShown = async () => {
    await page.waitForFunction(() => location.hash === '#/streams/%2F/linked-stream')
    await page.getByRole('heading', { name: 'Stream in / linked-stream' }).waitFor()
    await page.getByRole('region', { name: 'Replicas' }).waitFor()
  }
  await row(page, 'linked-stream').getByRole('link', { name: 'linked-stream' }).click()
  await isShown()
  await page.evaluate(() => { location.hash = '#/queues/%2F/linked-stream' })
  await isShown()
  await open(page, '')
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox').fill('linked-str')
  await page.getByRole('option', { name: 'linked-stream stream' }).click()
  await isShown()
  assert.deepEqual(asked.filter((address) => address.includes('/quorum/')), [])
  await api('DELETE', 'queues/%2F/linked-stream')
}, { expected: /404/ })

inPage('samples fill what was not polled, and polls too close together give no rate', async (page) => {
  const { rates, filled, gap } = await page.evaluate(async () => {
    const { joined, record } = await import(new URL('charts.js', document.baseURI))
    const empty = () => ({ times: [], series: {}, last: null })
    const close = empty()
    for (const [at, count] of [[1000, 0], [2000, 1], [2180, 2], [3000, 2]]) record(close, at, { count }, {})
    const left = empty()
    for (const at of [10000, 11000, 30000, 31000]) record(left, at, { count: at / 1000 }, {})
    const times = [0, 5, 10, 15, 20, 25, 30, 35]
    const past = { times, series: { count: times.map(() => 7) }, step: 5 }
    return { rates: close.series.count, filled: joined(past, left), gap: joined(null, left) }
  })
  assert.deepEqual(rates, [null, 1, 1])
  assert.deepEqual(filled.times, [0, 5, 10, 11, 15, 20, 25, 30, 31])
  assert.deepEqual(filled.series.count.map((point) => point ?? '-'), [7, 7, '-', 1, 7, 7, 7, '-', 1])
  assert.equal(filled.series.count.includes(null), false)
  assert.deepEqual(gap.times, [10, 11, 12, 30, 31])
  assert.equal(gap.series.count[2], null)
})

inPage('a node shows how long confirms and acknowledgements take, and nothing where there were none', async (page) => {
  const points = await page.evaluate(async () => {
    const { pointOf } = await import(new URL('charts.js', document.baseURI))
    const series = { ms: [10, 0, null, undefined, 9], count: [4, 0, null, 5, undefined], most: [0, 7, null, undefined, 1] }
    const shown = (line) => series.ms.map((_, at) => pointOf({ series }, line, at)).map((point) => point === undefined ? 'left out' : point)
    return [shown({ name: 'ms', by: 'count', scale: 2 }), shown({ name: 'most', isTime: true }), shown({ name: 'most' })]
  })
  assert.deepEqual(points[0], [5, null, null, 'left out', 'left out'])
  assert.deepEqual(points[1], [null, 7, null, 'left out', 1])
  assert.deepEqual(points[2], [0, 7, null, 'left out', 1])
  const connection = await amqplib.connect(process.env.AMQP_URL)
  const channel = await connection.createConfirmChannel()
  await channel.assertQueue('timed', { durable: true })
  let isOver = false
  const answer = (message) => { if (!isOver) channel.ack(message) }
  await channel.consume('timed', (message) => setTimeout(answer, 20, message))
  const timer = setInterval(() => channel.sendToQueue('timed', Buffer.from('m'), { persistent: true }), 50)
  const isShown = (title, line) => {
    const legend = page.locator('figure', { hasText: title }).locator('li')
    return legend.filter({ hasText: line }).filter({ hasText: /\d ms$/ }).waitFor()
  }
  await open(page, '')
  await isShown('How long clients and messages wait', 'Publish to confirm')
  await isShown('How long clients and messages wait', 'In the queue')
  await isShown('How long clients and messages wait', 'Delivery to acknowledgement')
  await open(page, `nodes/${part((await api('GET', 'overview')).json.node)}`)
  for (const title of ['Publish to confirm', 'Time in queue', 'Delivery to acknowledgement']) {
    await isShown(title, 'Mean')
    await isShown(title, '99 % within the last minute')
  }
  clearInterval(timer)
  isOver = true
  await connection.close()
  await api('DELETE', 'queues/%2F/timed')
})

inPage('long figures stay in their boxes, and what a node does not tell is a dash', async (page) => {
  await page.setViewportSize({ width: 1366, height: 800 })
  const node = (await api('GET', 'overview')).json.node
  // What is changed on its way is asked for, and not sent live.
  await page.route('**/api/leveret/live?*', (route) => route.abort())
  const changed = (part, change) => page.route((url) => url.pathname.endsWith(part), async (route) => {
    const answer = await route.fetch()
    await route.fulfill({ response: answer, json: change(await answer.json()) })
  })
  await api('PUT', 'queues/%2F/aged', {})
  await changed('/queues/%2F/aged', (queue) => ({ ...queue, oldest_message_age: 712 }))
  await changed(`/nodes/${part(node)}`, ({ name }) => ({ name, running: false }))
  await open(page, 'queues/%2F/aged')
  await page.locator('.stat', { hasText: '11 min 52 s' }).waitFor()
  const wide = () => [...document.querySelectorAll('.stat')].filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)
  assert.deepEqual(await page.evaluate(wide), [])
  await open(page, `nodes/${part(node)}`)
  await page.locator('.facts div', { hasText: 'Mean sync' }).locator('dd').filter({ hasText: /^–$/ }).waitFor()
  await api('DELETE', 'queues/%2F/aged')
}, { expected: /404|ERR_FAILED/ })

inPage('a node alone has a page of its cluster without an error', async (page) => {
  await open(page, 'cluster')
  await page.getByText('This node is no member of a cluster.').waitFor()
})

inPage('users and virtual hosts are shown with what is theirs', async (page) => {
  const connection = await amqplib.connect(process.env.AMQP_URL)
  const channel = await connection.createChannel()
  await channel.assertQueue('of-guest', { exclusive: true })
  await api('PUT', 'vhost-limits/%2F/max-queues', { value: 4321 })
  await api('PUT', 'topic-permissions/%2F/guest', { exchange: 'amq.topic', write: '^mine', read: '.*' })
  await open(page, 'users/guest')
  await page.getByRole('link', { name: 'of-guest' }).waitFor()
  await page.getByRole('region', { name: 'Its connections' }).getByRole('link').first().waitFor()
  await open(page, 'vhosts/%2F')
  await page.getByText('max-queues: 4321').waitFor()
  await row(page, '^mine').waitFor()
  await page.getByRole('region', { name: 'Its connections' }).getByRole('link').first().waitFor()
  await page.locator('.chart canvas').first().waitFor()
  await button(page, 'Set limit').click()
  await submit(page, 'Set limit', { 'At most': '777' })
  await row(page, 'max-connections').filter({ hasText: '777' }).getByRole('button', { name: 'Clear' }).click()
  await submit(page, 'Clear limit')
  await gone(row(page, 'max-connections'))
  await open(page, '')
  await page.getByRole('region', { name: 'Web contexts' }).getByText('RabbitMQ Management').waitFor()
  assert.equal(await page.getByRole('link', { name: 'HTTP API' }).getAttribute('href'), 'api/index.html')
  await api('DELETE', 'vhost-limits/%2F/max-queues')
  await api('DELETE', 'topic-permissions/%2F/guest')
  await connection.close()
})

inPage('a chart shows what was before the page was opened', async (page) => {
  await api('PUT', 'queues/%2F/before', {})
  const message = { properties: {}, routing_key: 'before', payload: 'x', payload_encoding: 'string' }
  await api('POST', 'exchanges/%2F/amq.default/publish', message)
  const asked = 'queues/%2F/before?lengths_age=60&lengths_incr=5'
  await until('two samples', async () => (await api('GET', asked)).json.messages_details.samples?.length > 1)
  // The overview is asked for its own past at the same time.
  const past = page.waitForResponse((response) => response.url().includes('queues/%2F/before?') && response.url().includes('lengths_age=3600'))
  await open(page, 'queues/%2F/before?range=3600')
  const { messages_details: { samples } } = await (await past).json()
  assert.ok(samples.length > 0)
  await page.locator('.chart canvas').first().waitFor()
  await api('DELETE', 'queues/%2F/before')
}, { expected: /404/ })

/** What a chart of 400 pixels writes, for each second of a minute: text, begin and end. */
function chartTexts (page, { most, text, thousand }) {
  return page.evaluate(async ([most, text, thousand]) => {
    const { Plot } = await import(new URL('plot.js', document.baseURI).href)
    const holder = document.body.appendChild(document.createElement('div'))
    holder.style.width = '400px'
    const texts = []
    const canvas = CanvasRenderingContext2D.prototype
    const [{ fillText }, { now }] = [canvas, Date]
    canvas.fillText = function (text, x, y, room = Infinity) {
      const width = Math.min(this.measureText(text).width, room)
      const begin = x - { left: 0, center: width / 2, right: width }[this.textAlign]
      texts.push({ text, begin, end: begin + width })
    }
    const plot = new Plot(holder, { lines: [{ stroke: 'red' }], range: 60, format: (n) => `${n}${text}`, thousand, clock: () => '00:00:00', grid: 'grey', ink: 'grey', onHover () {} })
    for (let second = 1.7e9; second < 1.7e9 + 60; second++) {
      Date.now = () => second * 1000
      plot.set([[second - 1], [most]])
    }
    plot.destroy()
    holder.remove()
    Object.assign(canvas, { fillText })
    Object.assign(Date, { now })
    return texts
  }, [most, text, thousand])
}

inPage('what stands beside and below a chart is within it, and counts bytes in their units', async (page) => {
  const texts = await chartTexts(page, { most: 30 * 2 ** 20, text: ' bytes, which is long', thousand: 1024 })
  assert.ok(texts.length > 60)
  assert.deepEqual(texts.filter(({ begin, end }) => begin < 0 || end > 400), [])
  const values = texts.map(({ text }) => Number(text.split(' bytes')[0])).filter((value) => !Number.isNaN(value))
  assert.deepEqual([...new Set(values)], [0, 10 * 2 ** 20, 20 * 2 ** 20, 30 * 2 ** 20])
})

/** A queue with a consumer that takes one message and keeps it, and one that publishes to it. */
async function stuckConsumer (queue) {
  const connection = await amqplib.connect(process.env.AMQP_URL)
  const channel = await connection.createConfirmChannel()
  await channel.assertQueue(queue, { arguments: { 'x-queue-type': 'quorum' } })
  await channel.prefetch(1)
  await channel.consume(queue, () => {}, { consumerTag: 'stuck' })
  for (const payload of ['a', 'b', 'c']) channel.sendToQueue(queue, Buffer.from(payload))
  await channel.waitForConfirms()
  return connection
}

inPage('a queue says why it grows, with whom it waits for', async (page) => {
  const connection = await stuckConsumer('growing')
  await open(page, 'queues/%2F/growing')
  await button(page, 'Ask the node').click()
  await page.getByText('Every consumer has as many unacknowledged messages').waitFor()
  await page.getByRole('region', { name: 'Consumers, the slowest first' }).getByText('full').waitFor()
  await page.getByText('GET /api/leveret/queues/%2F/growing/growth').waitFor()
  await page.getByRole('region', { name: 'Comes from' }).getByRole('row').filter({ hasText: '(default)' }).getByText('3', { exact: true }).waitFor()
  await page.getByRole('region', { name: 'Delivered to' }).getByRole('row').filter({ hasText: 'guest' }).getByText('1', { exact: true }).waitFor()
  assert.match(page.url(), /why=true/)
  const [consumer] = (await api('GET', 'queues/%2F/growing')).json.consumer_details
  assert.equal(consumer.messages_unacknowledged, 1)
  assert.ok(Math.abs(Date.now() - consumer.oldest_unacknowledged_at) < 600000, JSON.stringify(consumer))
  const holders = page.getByRole('region', { name: 'Consumers', exact: true })
  await holders.getByRole('row').filter({ hasText: 'stuck' }).getByText(/^\d+ (s|min)/).waitFor()
  await connection.close()
  await page.getByText('messages wait, and nobody consumes.').waitFor()
  await api('DELETE', 'queues/%2F/growing')
}, { expected: /404/ })

inPage('what clients hold is shown with who holds it, and stays where it is', async (page) => {
  const connection = await stuckConsumer('holding')
  await open(page, 'queues/%2F/holding')
  await button(page, 'Unacked').click()
  const dialog = page.getByRole('dialog')
  await submit(page, 'Show', { 'Consumer tag': 'nobody' })
  await dialog.getByText('Nobody holds a message there.').waitFor()
  for (const tag of ['stuck', '']) {
    await submit(page, 'Show', { 'Consumer tag': tag })
    await dialog.getByRole('heading', { name: 'Message 1' }).waitFor()
    assert.equal(await dialog.getByRole('heading', { name: /^Message/ }).count(), 1)
    assert.equal(await dialog.getByLabel('Body', { exact: true }).textContent(), 'a')
    for (const text of ['stuck', / \(1\)$/]) await dialog.getByText(text, { exact: true }).first().waitFor()
  }
  await submit(page, 'Show', { 'Body has': 'none of it' })
  await dialog.getByText('1 held messages were looked at, 0 found.').waitFor()
  assert.equal(await dialog.getByRole('heading', { name: /^Message/ }).count(), 0)
  await submit(page, 'Show', { 'Body has': 'a' })
  await dialog.getByRole('heading', { name: 'Message 1' }).waitFor()
  const { json: [held] } = await api('GET', 'leveret/queues/%2F/holding/unacked')
  assert.deepEqual([held.consumer_tag, held.redelivered, held.payload], ['stuck', false, 'a'])
  const { json: queue } = await api('GET', 'queues/%2F/holding')
  assert.deepEqual([queue.messages_unacknowledged, queue.messages_ready], [1, 2])
  await connection.close()
  await api('DELETE', 'queues/%2F/holding')
}, { expected: /404/ })

inPage('the route tester and the map begin with a virtual host that the user may see', async (page) => {
  await api('PUT', 'vhosts/theirs', {})
  await api('PUT', 'users/elsewhere', { password: 'p', tags: 'policymaker' })
  await api('PUT', 'permissions/theirs/elsewhere', { configure: '.*', write: '.*', read: '.*' })
  await logIn(page, 'elsewhere', 'p')
  for (const route of ['route', 'topology']) {
    await open(page, route)
    const choice = page.getByLabel('Virtual host')
    await until('the virtual host', async () => await choice.inputValue() === 'theirs')
    await until('the figures', async () => await page.getByText('Loading…').count() === 0)
    assert.equal(await page.locator('.failure').count(), 0, route)
  }
  await api('DELETE', 'users/elsewhere')
  await api('DELETE', 'vhosts/theirs')
}, { login: false })

inPage('a delayed message is shown with its time, and cancelled', async (page) => {
  await api('PUT', 'exchanges/%2F/later', { type: 'x-delayed-message', arguments: { 'x-delayed-type': 'fanout' } })
  await api('PUT', 'queues/%2F/waits', {})
  await api('POST', 'bindings/%2F/e/later/q/waits', {})
  const message = (key) => ({ properties: { headers: { 'x-delay': 3600000 } }, routing_key: key, payload: HOSTILE[0], payload_encoding: 'string' })
  for (const key of ['key-1', 'key-2']) await api('POST', 'exchanges/%2F/later/publish', message(key))
  await open(page, 'queues/%2F/waits')
  await row(page, 'key-2').getByText(/in (59 min|1 h)/).waitFor()
  await button(page, 'Cancel the message with key key-1').click()
  await submit(page, 'Cancel message')
  await gone(page.getByRole('region', { name: 'Delayed messages' }).getByRole('row').filter({ hasText: 'key-1' }))
  assert.equal(await page.evaluate(() => window.owned), undefined)
  await open(page, 'delayed')
  await row(page, 'key-2').waitFor()
  await open(page, 'exchanges/%2F/later')
  await button(page, 'Cancel the message with key key-2').click()
  await submit(page, 'Cancel message')
  await page.getByText('No message waits for its time.').waitFor()
  assert.equal((await api('GET', 'leveret/delayed')).json.total_count, 0)
  for (const path of ['queues/%2F/waits', 'exchanges/%2F/later']) await api('DELETE', path)
}, { expected: /404/ })

/** Answers of the API come to the page changed, and are asked for: what is sent live is not changed. */
async function changing (page, answers) {
  await page.route('**/api/leveret/live?*', (route) => route.abort())
  for (const [part, change] of Object.entries(answers)) {
    await page.route((url) => url.pathname.endsWith(part), async (route) => {
      const answer = await route.fetch()
      await route.fulfill({ status: 200, contentType: 'application/json', json: change(answer.ok() ? await answer.json() : null) })
    })
  }
}

const fact = (page, name) => page.locator('.facts div').filter({ has: page.getByText(name, { exact: true }) }).locator('dd')

inPage('a change of a virtual host leaves its default queue type to the node, or gives it back', async (page) => {
  await api('PUT', 'vhosts/plain', {})
  const type = async () => (await api('GET', 'vhosts/plain')).json.default_queue_type
  const change = async (fields) => {
    await button(page.locator('.head'), 'Change').click()
    await submit(page, 'Change virtual host', fields)
    await gone(page.locator('dialog[open]'))
  }
  await open(page, 'vhosts/plain')
  await change({ Description: 'only this' })
  await fact(page, 'Description').getByText('only this').waitFor()
  assert.equal(await type(), null)
  await change({ 'Default queue type': 'stream' })
  assert.equal(await type(), 'stream')
  await fact(page, 'Default queue type').getByText('stream').waitFor()
  await change({ 'Default queue type': '' })
  assert.equal(await type(), null)
  await api('DELETE', 'vhosts/plain')
}, { expected: /404/ })

inPage('a disk that streams fill says so, and what was set aside', async (page) => {
  const node = (await api('GET', 'overview')).json.node
  await changing(page, { [`/leveret/disk/${part(node)}`]: (disk) => ({ ...disk, stream_bytes: 3 * 2 ** 30, stream_files: 6, set_aside_files: 2, set_aside_bytes: 4096, set_aside_folder: HOSTILE[0] }) })
  const before = (await api('GET', 'leveret/disk')).json
  assert.ok('stream_bytes' in before && 'set_aside_bytes' in before, JSON.stringify(before))
  await open(page, `nodes/${part(node)}?disk=true`)
  await fact(page, 'Streams').getByText('3.0 GiB in 6 files').waitFor()
  await fact(page, 'Set aside as damaged').getByText('4.0 KiB in 2 files').waitFor()
  assert.equal(await page.evaluate(() => window.owned), undefined)
}, { expected: /ERR_FAILED/ })

inPage('a delayed message is found behind those of others, and the list goes on', async (page) => {
  const connection = await amqplib.connect(process.env.AMQP_URL)
  const channel = await connection.createConfirmChannel()
  for (const exchange of ['sooner', 'much-later']) {
    await channel.assertExchange(exchange, 'x-delayed-message', { arguments: { 'x-delayed-type': 'fanout' } })
  }
  await channel.assertQueue('of-much-later')
  await channel.bindQueue('of-much-later', 'much-later', '')
  const send = (exchange, key, hours) => channel.publish(exchange, key, Buffer.from('m'), { headers: { 'x-delay': hours * 3600000 } })
  for (let n = 0; n < 201; n++) send('sooner', `sooner-${n}`, 1)
  send('much-later', 'the-last', 9)
  await channel.waitForConfirms()
  await open(page, 'queues/%2F/of-much-later')
  await row(page, 'the-last').waitFor()
  assert.equal(await row(page, 'sooner-').count(), 0)
  await open(page, 'delayed')
  await page.getByText(/^202 messages are kept back: 202 on /).waitFor()
  await row(page, 'sooner-0').first().waitFor()
  assert.equal(await row(page, 'the-last').count(), 0)
  await button(page, 'Later ones').click()
  await row(page, 'the-last').waitFor()
  await button(page, 'The first').click()
  await row(page, 'sooner-0').first().waitFor()
  for (const one of (await api('GET', 'leveret/delayed?limit=500')).json.messages) await api('DELETE', `leveret/delayed/${part(one.id)}`)
  await page.getByText('No message waits for its time.').waitFor()
  await channel.deleteQueue('of-much-later')
  for (const exchange of ['sooner', 'much-later']) await channel.deleteExchange(exchange)
  await connection.close()
}, { expected: /404/ })

inPage('what is printed is dark on white, whatever the theme, and without what is for clicking', async (page) => {
  await page.getByRole('button', { name: /^Theme: auto/ }).click()
  await page.getByRole('button', { name: /^Theme: light/ }).click()
  await page.getByRole('button', { name: /^Theme: dark/ }).waitFor()
  const colours = () => page.evaluate(() => [document.body, document.querySelector('.card'), document.querySelector('th')].map((one) => {
    const { color, backgroundColor } = getComputedStyle(one)
    return [color, backgroundColor].map((colour) => Number(colour.match(/\d+/)[0]))
  }))
  await open(page, 'nodes')
  const [[ink, paper]] = await colours()
  assert.ok(ink > 128 && paper < 128, `the theme is dark: ${ink} on ${paper}`)
  await page.emulateMedia({ media: 'print' })
  const [body, card, head] = await colours()
  for (const [ink] of [body, card, head]) assert.ok(ink < 128, `ink ${ink}`)
  for (const [, paper] of [body, card]) assert.ok(paper > 200, `paper ${paper}`)
  assert.equal(await page.getByRole('navigation', { name: 'Main' }).isVisible(), false)
  assert.equal(await page.getByRole('banner').isVisible(), false)
  await page.getByRole('region', { name: 'Nodes' }).getByText('running').waitFor()
  await page.emulateMedia({ media: 'screen' })
})

inPage('a session ends as long after its login as the node says, whatever is done', async (page) => {
  await page.clock.install({ time: Date.now() })
  await page.reload()
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  const minutes = (await api('GET', 'whoami')).json.login_session_timeout
  assert.equal(minutes, 480)
  const left = () => page.evaluate(() => JSON.parse(sessionStorage.getItem('leveret-session')))
  const { begun, authorization } = await left()
  assert.ok(authorization && Date.now() - begun < 600000, String(begun))
  await page.clock.fastForward((minutes - 11) * 60000)
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  await page.clock.fastForward(12 * 60000)
  await page.getByText('The session has ended: it lasts 480 minutes.').waitFor()
  await page.getByLabel('Password').waitFor()
  assert.equal(await left(), null)
})

inPage('of many bindings a page is asked for, which is filtered by name and key', async (page) => {
  const connection = await amqplib.connect(process.env.AMQP_URL)
  const channel = await connection.createChannel()
  await channel.assertExchange('hub', 'direct')
  await channel.assertQueue('spoke')
  for (let n = 100; n < 230; n++) await channel.bindQueue('spoke', 'hub', `key-${n}`)
  const watched = []
  page.on('request', (request) => watched.push(...new URL(request.url()).searchParams.getAll('path')))
  await open(page, 'exchanges/%2F/hub')
  const bindings = page.getByRole('region', { name: 'Bindings from here' })
  await until('a page of them', async () => await bindings.getByRole('row').count() === 101)
  await page.getByText('Page 1 of 2').waitFor()
  await page.getByLabel('Filter bindings from here by name or key').fill('KEY-22')
  await until('those that fit', async () => await bindings.getByRole('row').count() === 11)
  await page.getByText('10 of 130').waitFor()
  assert.match(page.url(), /source-name=KEY-22/)
  const asked = watched.filter((address) => address.includes('/bindings/'))
  assert.ok(asked.length > 0 && asked.every((address) => address.includes('page=1')), asked.join())
  await open(page, 'queues/%2F/spoke')
  await page.getByLabel('Filter bindings to here by name or key').fill('key-229')
  await button(row(page, 'key-229'), 'Unbind the key key-229').click()
  await submit(page, 'Delete binding')
  await page.getByText('None that fits.').waitFor()
  await channel.deleteQueue('spoke')
  await channel.deleteExchange('hub')
  await connection.close()
}, { expected: /404/ })

inPage('users are filtered, those without access found, and several deleted at once', async (page) => {
  for (const user of ['many-a', 'many-b', 'many-c']) await api('PUT', `users/${user}`, { password: 'p', tags: '' })
  await api('PUT', 'permissions/%2F/many-c', { configure: '', write: '', read: '' })
  await open(page, 'users')
  await page.getByLabel('Filter by name').fill('many-')
  await until('three', async () => await row(page, 'many-').count() === 3)
  await page.getByLabel('Only those that may enter no virtual host').check()
  await until('two', async () => await row(page, 'many-').count() === 2)
  assert.equal(await button(page, 'Delete the chosen').isDisabled(), true)
  for (const user of ['many-a', 'many-b']) await page.getByLabel(`Choose ${user}`).check()
  await button(page, 'Delete the chosen').click()
  await submit(page, 'Delete users')
  await page.getByText('None that fits.').waitFor()
  await page.getByLabel('Only those that may enter no virtual host').uncheck()
  await row(page, 'many-c').waitFor()
  assert.equal(await page.getByLabel('Choose guest').count(), 0)
  assert.deepEqual((await api('GET', 'users')).json.map((one) => one.name).filter((name) => name.startsWith('many-')), ['many-c'])
  await api('DELETE', 'users/many-c')
})

inPage('an import names all that is not supported, and leaves it out where that is asked for', async (page) => {
  const file = { parameters: [{ component: 'shovel', vhost: '/', name: 'to-b', value: {} }], queues: [{ name: 'shoveled', vhost: '/', durable: true, auto_delete: false, arguments: {} }] }
  await open(page, 'definitions')
  await page.getByLabel('File', { exact: true }).setInputFiles({ name: 'some.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify(file)) })
  await button(page, 'Import').click()
  await page.getByText("shovel 'to-b' in vhost '/': there are no shovels").first().waitFor()
  assert.equal((await api('GET', 'queues/%2F/shoveled')).status, 404)
  await page.getByLabel('Leave out what is not supported').check()
  await button(page, 'Import').click()
  await page.getByText('Imported, but for 1 that are passed over.').waitFor()
  assert.equal((await api('GET', 'queues/%2F/shoveled')).status, 200)
  await api('DELETE', 'queues/%2F/shoveled')
}, { expected: /400|Failed to load/ })

inPage('an import says what it passed over, and takes as long as it takes', async (page) => {
  const file = { queues: [{ name: 'amq.gen-import', vhost: '/', durable: true, auto_delete: false, arguments: {} }, { name: 'imported', vhost: '/', durable: true, auto_delete: false, arguments: {} }] }
  await open(page, 'definitions')
  const load = (content) => page.getByLabel('File', { exact: true }).setInputFiles({ name: 'some.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify(content)) })
  await load(file)
  // A call with a deadline is over at once.
  await page.evaluate(() => {
    const { timeout } = AbortSignal
    AbortSignal.timeout = () => AbortSignal.abort()
    window.restore = () => { AbortSignal.timeout = timeout }
  })
  await button(page, 'Import').click()
  await page.getByText('Imported, but for 1 that are passed over.').waitFor()
  await page.getByText("queue 'amq.gen-import' in vhost '/'").waitFor()
  await page.evaluate(() => window.restore())
  assert.equal((await api('GET', 'queues/%2F/imported')).status, 200)
  assert.equal((await api('GET', 'queues/%2F/amq.gen-import')).status, 404)
  await load({ queues: file.queues.slice(1) })
  await button(page, 'Import').click()
  await page.getByText('Imported.', { exact: true }).waitFor()
  assert.equal(await page.getByText('amq.gen-import').count(), 0)
  await api('DELETE', 'queues/%2F/imported')
})

inPage('definitions that no request takes are told so before they are sent', async (page) => {
  await open(page, 'definitions')
  await page.getByText('Import a larger one on a node with: leveret import FILE').waitFor()
  const choose = (spaces, letters) => page.evaluate(([spaces, letters]) => {
    const input = document.querySelector('input[type=file]')
    const files = new DataTransfer()
    files.items.add(new File(['{"permissions": [],' + ' '.repeat(spaces) + '"explanation": "' + 'x'.repeat(letters) + '"}'], 'large.json'))
    input.files = files.files
    input.dispatchEvent(new Event('change', { bubbles: true }))
    input.form.requestSubmit()
    return input.validationMessage
  }, [spaces, letters])
  const said = () => page.evaluate(() => document.querySelector('input[type=file]').validationMessage)
  let sent = 0
  page.on('request', (request) => { if (request.method() === 'POST') sent++ })
  await choose(0, 50_000_000)
  await page.waitForFunction(() => document.querySelector('input[type=file]').validationMessage.includes('leveret import FILE'))
  await button(page, 'Import').click()
  assert.equal(sent, 0)
  // What makes it large are spaces, which are not sent. Nothing is sent before that is read.
  assert.match(await choose(50_000_000, 10), /still being read/)
  await page.waitForFunction(() => document.querySelector('input[type=file]').validationMessage === '')
  await button(page, 'Import').click()
  await page.getByText('Imported.', { exact: true }).waitFor()
  assert.deepEqual([sent, await said()], [1, ''])
})

inPage('a connection of the stream protocol is shown with what it publishes and reads', async (page) => {
  const connection = await amqplib.connect(process.env.AMQP_URL)
  let name
  await until('a connection', async () => (name = (await api('GET', 'connections')).json[0]?.name))
  const of = { connection_details: { name }, queue: { name: HOSTILE[0], vhost: '/' } }
  await changing(page, {
    [`/connections/${part(name)}`]: (one) => ({ ...one, protocol: 'stream', vhost: '/' }),
    [`/stream/connections/%2F/${part(name)}/publishers`]: () => ({ items: [{ ...of, publisher_id: 3, reference: 'writer', published: 70, confirmed: 60, errored: 1 }], total_count: 1 }),
    [`/stream/connections/%2F/${part(name)}/consumers`]: () => ({ items: [{ ...of, subscription_id: 4, properties: { name: 'reader' }, offset: 5, offset_lag: 2, consumed: 9, credits: 1 }], total_count: 1 })
  })
  await open(page, `connections/${part(name)}`)
  await page.getByRole('region', { name: 'Stream publishers' }).getByRole('row').filter({ hasText: 'writer' }).filter({ hasText: '70' }).waitFor()
  await page.getByRole('region', { name: 'Stream consumers' }).getByRole('row').filter({ hasText: 'reader' }).getByRole('link', { name: HOSTILE[0] }).waitFor()
  assert.equal(await page.getByRole('region', { name: 'Channels' }).count(), 0)
  assert.equal(await page.evaluate(() => window.owned), undefined)
  await connection.close()
}, { expected: /404|ERR_FAILED/ })

inPage('of the limits of arguments and policies those in force are shown', async (page) => {
  await api('PUT', 'queues/%2F/limited', { durable: true, arguments: { 'x-queue-type': 'quorum', 'x-max-length': 9, 'x-message-ttl': 5000 } })
  await api('PUT', 'policies/%2F/limited', { pattern: '^limited$', 'apply-to': 'queues', definition: { 'max-length': 7, 'message-ttl': 6000, expires: 3600000 } })
  await open(page, 'queues/%2F/limited')
  const limits = fact(page, 'Limits in force')
  await until('the limits', async () => await limits.innerText() === 'max-length: 7\nmessage-ttl: 5000\nexpires: 3600000\ndelivery-limit: 20')
  await api('DELETE', 'policies/%2F/limited')
  await until('those of the arguments', async () => await limits.innerText() === 'max-length: 9\nmessage-ttl: 5000\ndelivery-limit: 20')
  await api('DELETE', 'queues/%2F/limited')
}, { expected: /404/ })

inPage('the overview shows how queues come and go, and its rates begin anew when they are told to', async (page) => {
  await page.locator('figure', { hasText: 'Queues' }).filter({ hasText: 'Declared' }).locator('canvas').waitFor()
  const reset = page.waitForRequest((request) => request.method() === 'DELETE')
  await button(page, 'Reset statistics').click()
  await submit(page, 'Reset statistics')
  assert.match((await reset).url(), /\/api\/reset$/)
  await page.getByText('Reset statistics: done.').waitFor()
})

inPage('a node says what breaks without it, and what is on its disk', async (page) => {
  await api('PUT', 'queues/%2F/alone', { durable: true })
  const node = (await api('GET', 'overview')).json.node
  await open(page, `nodes/${part(node)}`)
  await button(page, 'What would break?').click()
  await page.getByText('live here alone').waitFor()
  await page.getByRole('region', { name: 'Queues that this node has' }).getByRole('link', { name: 'alone' }).waitFor()
  await page.locator('section', { hasText: 'What is on its disk' }).last().getByRole('button', { name: 'Show' }).click()
  await page.getByRole('region', { name: 'Queues by what they keep' }).waitFor()
  await page.getByText(`GET /api/leveret/disk/${part(node)}`).waitFor()
  await button(page, 'Check now').click()
  await row(page, 'Takes clients').getByText('passed').waitFor()
  await api('DELETE', 'queues/%2F/alone')
})

inPage('an alarm names the connections that it holds back', async (page) => {
  const node = (await api('GET', 'overview')).json.node
  const { disk_free_limit: limit } = (await api('GET', `nodes/${part(node)}`)).json
  await open(page, `nodes/${part(node)}`)
  await page.getByRole('button', { name: /^Disk limit/ }).click()
  await submit(page, 'Set limit', { Bytes: String(2 ** 50) })
  await page.getByText('is short of disk space').waitFor()
  const connection = await amqplib.connect(process.env.AMQP_URL, { clientProperties: { connection_name: HOSTILE[0] } })
  const channel = await connection.createChannel()
  channel.publish('', 'nowhere', Buffer.from('held back'))
  await open(page, 'alarms')
  const held = page.getByRole('region', { name: 'Connections that are held back' })
  await held.getByRole('link').first().waitFor()
  await held.getByText(/block/).first().waitFor()
  await open(page, '')
  await page.getByRole('heading', { name: 'Connections that are held back: 1' }).waitFor()
  assert.equal(await page.evaluate(() => window.owned), undefined)
  await api('PUT', 'leveret/disk-free-limit', { absolute: limit })
  await gone(page.getByText('is short of disk space').first())
  await open(page, 'alarms')
  await page.getByText('Nobody is held back.').waitFor()
  await connection.close()
})

inPage('the audit says who changed what, before and after', async (page) => {
  const name = HOSTILE[1]
  await api('PUT', `policies/%2F/${part(name)}`, { pattern: '^audited$', definition: { 'max-length': 7 } })
  await api('PUT', `policies/%2F/${part(name)}`, { pattern: '^audited$', definition: { 'max-length': 8 } })
  await api('PUT', 'vhost-limits/%2F/max-queues', { value: 4000 })
  await api('PUT', 'vhost-limits/%2F/max-queues', { value: 5000 })
  await api('PUT', 'users/audited', { password: 'geheim', tags: 'management' })
  await open(page, 'audit')
  await row(page, 'definition.max-length: 7 → 8').filter({ hasText: 'guest' }).waitFor()
  await row(page, 'vhost-limits').getByText('4000').first().waitFor()
  await page.getByLabel('Filter by path').fill('users/audited')
  await button(row(page, 'PUT /api/users/audited').first(), 'Show').click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('What was asked').getByText('(hidden)').waitFor()
  assert.equal((await dialog.innerText()).includes('geheim'), false)
  await page.keyboard.press('Escape')
  await button(row(page, 'PUT /api/users/audited').first(), 'guest').click()
  await page.getByRole('button', { name: 'Of everybody, not only guest' }).click()
  assert.equal(await page.evaluate(() => window.owned), undefined)
  await api('DELETE', `policies/%2F/${part(name)}`)
  await api('DELETE', 'vhost-limits/%2F/max-queues')
  await api('DELETE', 'users/audited')
  await page.getByLabel('Filter by path').fill('policies')
  await row(page, 'DELETE /api/policies').getByText('gone').first().waitFor()
})

inPage('a stream is browsed, and a group is set back', async (page) => {
  await api('PUT', 'queues/%2F/read', { arguments: { 'x-queue-type': 'stream' } })
  const connection = await amqplib.connect(process.env.AMQP_URL)
  const channel = await connection.createConfirmChannel()
  const bodies = [[...Array(25).keys()].map((n) => `{"n":${n}}`), [HOSTILE[0]]].flat()
  for (const body of bodies) {
    const headers = { 'x-stream-filter-value': body === HOSTILE[0] ? 'odd' : 'even' }
    channel.sendToQueue('read', Buffer.from(body), { headers })
  }
  await channel.waitForConfirms()
  await connection.close()
  await open(page, 'streams/%2F/read')
  await page.locator('.stat', { hasText: 'Committed offset' }).filter({ hasText: '25' }).waitFor()
  await button(page, 'Look').click()
  await page.getByText('"n": 0').waitFor()
  await page.getByRole('button', { name: 'Go on from offset 20' }).click()
  await page.getByText('"n": 24').waitFor()
  await page.getByLabel('Filter values').fill('odd')
  await button(page, 'Look').click()
  await page.getByText('1 messages; the stream').waitFor()
  await page.getByLabel('Body', { exact: true }).filter({ hasText: HOSTILE[0] }).waitFor()
  await page.getByText('GET /api/leveret/streams/%2F/read/messages?offset=first&count=20&filter=odd').first().waitFor()
  assert.equal(await page.evaluate(() => window.owned), undefined)
  await page.getByLabel('Filter values').fill('')
  await page.getByLabel('From', { exact: true }).selectOption('timestamp')
  await page.getByLabel('Time', { exact: true }).fill('2020-01-01T00:00')
  await button(page, 'Look').click()
  await page.getByText('"n": 0').waitFor()
  await button(page, 'Store an offset').click()
  await submit(page, 'Store offset', { Consumer: 'readers', Offset: '20' })
  const groups = page.getByRole('region', { name: 'Groups of consumers' })
  await groups.getByRole('row').filter({ hasText: 'readers' }).getByRole('cell', { name: '20' }).waitFor()
  await button(page, 'Set offset of readers').click()
  await submit(page, 'Set offset', { From: 'offset', Offset: '3' })
  await groups.getByRole('row').filter({ hasText: 'readers' }).getByRole('cell', { name: '3', exact: true }).waitFor()
  await open(page, 'streams')
  await row(page, 'readers').waitFor()
  await button(page, 'Forget readers').click()
  await submit(page, 'Forget group')
  await gone(row(page, 'readers'))
  await api('DELETE', 'queues/%2F/read')
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

inPage('what is named by dots alone is shown, and its buttons act on nothing else', async (page) => {
  const kinds = { queues: 'Queues', exchanges: 'Exchanges' }
  for (const name of ['.', '..']) {
    for (const kind of Object.keys(kinds)) await api('PUT', `${kind}/%2F/${part(name)}`, {})
    await api('PUT', `users/${part(name)}`, { password: 'p', tags: '' })
    await api('PUT', `vhosts/${part(name)}`, {})
  }
  await api('PUT', 'queues/%2F/contents', {})
  const send = (key) => api('POST', 'exchanges/%2F/amq.default/publish', { properties: {}, routing_key: key, payload: 'x', payload_encoding: 'string' })
  for (const key of ['.', '..', 'contents']) await send(key)
  for (const name of ['.', '..']) {
    await open(page, `queues/%2F/${name}`)
    await button(page, 'Purge').click()
    await submit(page, 'Purge')
    await until('it is purged', async () => (await api('GET', `queues/%2F/${part(name)}`)).json.messages === 0)
    for (const [kind, title] of Object.entries(kinds)) {
      await open(page, `${kind}/%2F/${name}`)
      await button(page, 'Delete').click()
      await submit(page, `Delete ${kind.slice(0, -1)}`)
      await page.getByRole('heading', { level: 1, name: title }).waitFor()
      assert.equal((await api('GET', `${kind}/%2F/${part(name)}`)).status, 404)
    }
    for (const kind of ['users', 'vhosts']) {
      await open(page, `${kind}/${name}`)
      await page.getByRole('heading', { level: 1 }).filter({ hasText: name }).waitFor()
      assert.equal((await api('DELETE', `${kind}/${part(name)}`)).status, 204)
    }
  }
  assert.equal((await api('GET', 'queues/%2F/contents')).json.messages, 1)
  await api('DELETE', 'queues/%2F/contents')
}, { expected: /404/ })

inPage('numbers stay what they are, in what is shown, saved, imported and changed', async (page) => {
  const exact = (method, path, body) => fetch(`${http}/api/${path}`, { method, body, headers: { authorization: 'Basic ' + btoa('guest:guest'), 'content-type': 'application/json' } })
  const sent = '{"account": 1234567890123456789, "rate": 1.0}'
  await exact('PUT', 'queues/%2F/exact', '{}')
  await exact('POST', 'bindings/%2F/e/amq.headers/q/exact', `{"arguments": ${sent}}`)
  await exact('PUT', 'policies/%2F/exact', '{"pattern": "^exact$", "definition": {"max-length": 9007199254740993}}')
  const body = '{"id":12345678901234567890,"a":1.0,"dup":1,"dup":2,"empty":{},"turn":"\\u202e"}'
  await exact('POST', 'exchanges/%2F/amq.default/publish', JSON.stringify({ properties: {}, routing_key: 'exact', payload: body, payload_encoding: 'string' }).replace('"properties":{}', '"properties":{"headers":{"big":9007199254740993}}'))
  await open(page, 'queues/%2F/exact')
  await page.getByText('1234567890123456789').first().waitFor()
  await button(page, 'Get messages').click()
  await submit(page, 'Get')
  const shown = page.getByLabel('Body', { exact: true })
  await shown.waitFor()
  assert.equal(await shown.textContent(), '{\n  "id": 12345678901234567890,\n  "a": 1.0,\n  "dup": 1,\n  "dup": 2,\n  "empty": {},\n  "turn": "\\u202e"\n}')
  await page.getByText('9007199254740993').first().waitFor()
  await page.keyboard.press('Escape')
  await open(page, 'policies')
  await button(row(page, 'exact'), 'Change').click()
  await submit(page, 'Change policy')
  await until('it is sent', async () => await page.getByRole('dialog').count() === 0)
  assert.match(await (await exact('GET', 'policies/%2F/exact')).text(), /9007199254740993/)
  await open(page, 'definitions')
  const [download] = await Promise.all([page.waitForEvent('download'), button(page, 'Save the file').click()])
  const file = await download.path()
  const saved = await readFile(file, 'utf8')
  assert.match(saved, /"account": 1234567890123456789,\s+"rate": 1\.0\n/)
  await exact('DELETE', 'queues/%2F/exact')
  await page.getByLabel('File').setInputFiles({ name: 'definitions.json', mimeType: 'application/json', buffer: Buffer.from(saved) })
  await button(page, 'Import').click()
  await page.getByText('Imported').first().waitFor()
  const bindings = await (await exact('GET', 'queues/%2F/exact/bindings')).text()
  assert.match(bindings, /"account":1234567890123456789/)
  assert.equal(bindings.match(/account/g).length, 1)
  await exact('DELETE', 'queues/%2F/exact')
  await exact('DELETE', 'policies/%2F/exact')
})

inPage('who changes a user that somebody else has changed meanwhile is told so', async (page) => {
  await api('PUT', 'users/ed', { password: 'old', tags: '' })
  await open(page, 'users/ed')
  await button(page, 'Change').click()
  await api('PUT', 'users/ed', { password: 'new', tags: '' })
  const { password_hash: hash } = (await api('GET', 'users/ed')).json
  await submit(page, 'Change user', { Tags: 'monitoring' })
  await page.getByRole('alert').filter({ hasText: 'Somebody has changed this user' }).waitFor()
  assert.equal((await api('GET', 'users/ed')).json.password_hash, hash)
  await page.keyboard.press('Escape')
  await page.reload()
  await button(page, 'Change').click()
  await submit(page, 'Change user', { Tags: 'monitoring' })
  await until('the tags are changed', async () => (await api('GET', 'users/ed')).json.tags.includes('monitoring'))
  assert.equal((await api('GET', 'users/ed')).json.password_hash, hash)
  await api('DELETE', 'users/ed')
})

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
})

inPage('the route tester knows policies, and headers with colons and types', async (page) => {
  const reached = page.getByRole('region', { name: 'Queues that it reaches' })
  const nowhere = page.getByText('No queue: it is returned')
  await api('PUT', 'exchanges/%2F/main', { type: 'direct' })
  await api('PUT', 'exchanges/%2F/rest', { type: 'fanout' })
  await api('PUT', 'exchanges/%2F/by-header', { type: 'headers' })
  for (const queue of ['rescued', 'linked', 'numbered']) await api('PUT', `queues/%2F/${queue}`, {})
  await api('POST', 'bindings/%2F/e/rest/q/rescued', { routing_key: '' })
  await api('POST', 'bindings/%2F/e/by-header/q/linked', { arguments: { url: 'a:b:c' } })
  await api('POST', 'bindings/%2F/e/by-header/q/numbered', { arguments: { n: 1 } })
  await api('PUT', 'policies/%2F/rescue', { pattern: '^main$', definition: { 'alternate-exchange': 'rest' }, 'apply-to': 'exchanges' })
  await open(page, 'route?exchange=main&key=unknown')
  await reached.getByRole('link', { name: 'rescued' }).waitFor()
  await page.getByText('its alternate exchange, by the policy "rescue"').waitFor()

  await open(page, 'route?exchange=by-header')
  await nowhere.waitFor()
  await button(page, '+ row').click()
  await page.getByLabel('Key 1').fill('url')
  await page.getByLabel('Value 1').fill('a:b:c')
  await reached.getByRole('link', { name: 'linked' }).waitFor()
  await page.getByLabel('Key 1').fill('n')
  await page.getByLabel('Value 1').fill('1')
  await nowhere.waitFor()
  await page.getByText('it wants n: 1, and not "1"').waitFor()
  await page.getByLabel('Type 1').selectOption('number')
  await reached.getByRole('link', { name: 'numbered' }).waitFor()
  await open(page, 'route?key=linked')
  await reached.getByRole('link', { name: 'linked' }).waitFor()
  await api('DELETE', 'policies/%2F/rescue')
})

inPage('the route tester says how many ways it does not show', async (page) => {
  await api('PUT', 'vhosts/chained', {})
  await api('PUT', 'permissions/chained/guest', { configure: '.*', write: '.*', read: '.*' })
  // Each exchange leads to the next and to the queue: the ways are as many as they are long.
  const names = Array.from({ length: 150 }, (_, at) => `link-${String(at).padStart(4, '0')}-${'x'.repeat(200)}`)
  const bind = (source, destination, type) => ({ source, destination, destination_type: type, routing_key: '', arguments: {} })
  await api('POST', 'definitions/chained', {
    queues: [{ name: 'end', durable: true, auto_delete: false, arguments: {} }],
    exchanges: names.map((name) => ({ name, type: 'fanout', durable: true, auto_delete: false, internal: false, arguments: {} })),
    bindings: names.flatMap((name, at) => [bind(name, 'end', 'queue'), ...names.slice(at + 1, at + 2).map((next) => bind(name, next, 'exchange'))])
  })
  await open(page, `route?vhost=chained&exchange=${names.at(-1)}`)
  await page.getByRole('region', { name: 'Queues that it reaches' }).getByRole('link', { name: 'end' }).waitFor()
  const left = page.getByText('more ways lead to these queues')
  assert.equal(await left.count(), 0)
  await open(page, `route?vhost=chained&exchange=${names[0]}`)
  await left.waitFor()
  const found = (await api('GET', `leveret/exchanges/chained/${names[0]}/route`)).json
  assert.ok(found.ways_left_out > 0)
  assert.equal(found.ways_left_out + found.queues[0].by.length, names.length)
  const told = Number((await left.textContent()).replaceAll(/[^0-9]/g, ''))
  assert.equal(told, found.ways_left_out)
  await api('DELETE', 'vhosts/chained')
})

inPage('the map leaves out what is unbound, and shows one object with its neighbours', async (page) => {
  await api('PUT', 'vhosts/mapped', {})
  await api('PUT', 'permissions/mapped/guest', { configure: '.*', write: '.*', read: '.*' })
  await api('PUT', 'exchanges/mapped/source', { type: 'topic' })
  await api('PUT', 'exchanges/mapped/lone', { type: 'fanout' })
  await api('PUT', 'exchanges/mapped/behind', { type: 'fanout' })
  for (const queue of ['near', 'busy', 'single', 'last', 'alone-1', 'alone-2']) await api('PUT', `queues/mapped/${queue}`, {})
  await api('POST', 'bindings/mapped/e/source/q/near', { routing_key: 'never' })
  await api('POST', 'bindings/mapped/e/source/q/busy', { routing_key: 'often' })
  await api('POST', 'bindings/mapped/e/lone/q/single', { routing_key: 'only' })
  await api('POST', 'bindings/mapped/e/lone/e/behind', { routing_key: 'onward' })
  await api('POST', 'bindings/mapped/e/behind/q/last', { routing_key: 'further' })
  const connection = await amqplib.connect(new URL('mapped', process.env.AMQP_URL).href)
  const channel = await connection.createChannel()
  await channel.consume('near', () => {}, { consumerTag: 'reader' })
  const flow = setInterval(() => {
    channel.publish('source', 'often', Buffer.from('x'))
    channel.publish('lone', 'only', Buffer.from('x'))
    channel.publish('', 'near', Buffer.from('x'))
  }, 100)
  await open(page, 'topology?vhost=mapped')
  const map = page.getByRole('region', { name: 'Map of exchanges and queues' })
  await map.getByRole('link', { name: 'near' }).waitFor()
  await page.getByText('2 queues are left out').waitFor()
  assert.equal(await map.getByRole('link', { name: 'alone' }).count(), 0)
  // What comes to a queue is counted by the exchange that it was published to; by which others it came is not known.
  const line = (key) => map.locator('path', { hasText: key })
  await until('a line that is sure', async () => await line('only').getAttribute('class') === 'live')
  await until('one of two', async () => await line('often').getAttribute('class') === 'live')
  await until('a guess', async () => await line('further').getAttribute('class') === 'perhaps')
  assert.equal(await line('onward').getAttribute('class'), 'perhaps')
  assert.equal(await line('never').getAttribute('class') ?? '', '')
  await page.getByLabel('Around').selectOption('qnear')
  await map.getByRole('link', { name: 'reader' }).waitFor()
  assert.equal(await map.getByRole('link', { name: 'busy' }).count(), 0)
  await map.getByRole('link', { name: 'source' }).waitFor()
  clearInterval(flow)
  await connection.close()
  await api('DELETE', 'vhosts/mapped')
})

inPage('the keyboard goes anywhere', async (page) => {
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox').fill('virtual')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Virtual hosts', exact: true }).waitFor()
})

for (const [name, width] of [['orders.payment_retry.dead_letter_queue', 320], ['w'.repeat(255), 1400]]) {
  inPage(`dialogs of an object with ${name.length} letters are not cut at ${width} pixels`, async (page) => {
    await api('PUT', `queues/%2F/${name}`, {})
    await open(page, `queues/%2F/${name}`)
    for (const opener of ['Publish', 'Get messages', 'Peek', 'Move messages']) {
      await button(page, opener).first().click()
      const dialog = page.getByRole('dialog')
      await dialog.waitFor()
      const [shown, content, left] = await dialog.evaluate((one) => [one.clientWidth, one.scrollWidth, one.scrollLeft])
      assert.deepEqual([content <= shown, left], [true, 0], `${opener}: ${content} in ${shown}`)
      await page.keyboard.press('Escape')
      await gone(dialog)
    }
    await api('DELETE', `queues/%2F/${name}`)
  }, { viewport: { width, height: 800 } })
}

for (const [theme, width] of [['light', 1280], ['dark', 320], ['light', 3840]]) {
  inPage(`${theme} at ${width} pixels: readable, named, not wider than the window`, async (page) => {
    const node = (await api('GET', 'overview')).json.node
    await api('PUT', 'queues/%2F/seen', {})
    await api('PUT', 'queues/%2F/seen-stream', { arguments: { 'x-queue-type': 'stream' } })
    await api('POST', 'exchanges/%2F/amq.default/publish', { properties: {}, routing_key: 'seen-stream', payload: '{"a": 1}', payload_encoding: 'string' })
    await api('PUT', 'users/seen', { tags: '' })
    await api('PUT', 'exchanges/%2F/seen', { type: 'topic' })
    await api('POST', 'bindings/%2F/e/seen/q/seen', { routing_key: 'a.#' })
    await api('PUT', 'leveret/streams/%2F/seen-stream/offsets/lookers', { offset: 0 })
    for (const route of SEEN.map((route) => route.replace('$NODE', part(node)))) {
      await open(page, route)
      await page.evaluate(axe)
      const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }))
      assert.deepEqual(violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(' ')}`), [], route)
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
