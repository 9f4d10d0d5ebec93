// The JavaScript stream client's own idioms against the broker at port $STREAM_PORT.

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import streams from 'rabbitmq-stream-js-client'
import compressions from 'rabbitmq-stream-js-client/dist/compression.js'

const { Offset, connect } = streams
const { CompressionType } = compressions
const port = Number(process.env.STREAM_PORT)
// The host that the broker gives out too: this client keeps its connections by host, and takes one
// up again that it has closed where the two differ.
const at = { hostname: 'localhost', port, username: 'guest', password: 'guest', vhost: '/' }
// Debian's RabbitMQ 3.10 does not know filters, groups of consumers and super streams made by clients.
const sinceThen = process.env.BROKER === 'rabbitmq' ? { skip: 'RabbitMQ 3.10 does not have this' } : {}
let client

before(async () => {
  client = await connect(at)
})
after(() => client.close())

async function until (what, condition) {
  const deadline = Date.now() + 20_000
  while (!await condition()) {
    if (Date.now() > deadline) throw new Error(`${what} did not come true`)
    await sleep(10)
  }
}

async function newStream (args) {
  const stream = `js-${randomUUID()}`
  await client.createStream({ stream, arguments: args })
  return stream
}

async function newSuperStream (keys, partitions) {
  const streamName = `js-${randomUUID()}`
  await client.createSuperStream({ streamName }, keys, partitions)
  return streamName
}

/** Counts the confirms of a publisher; `all(n)` waits until so many of its ids are confirmed. */
function confirms (publisher) {
  const seen = new Set()
  let failure = null
  publisher.on('publish_confirm', (error, ids) => {
    if (error) failure = error
    else ids.forEach((id) => seen.add(id))
  })
  return {
    seen,
    all: (count) => until(`${count} confirms`, () => {
      assert.equal(failure, null)
      return seen.size >= count
    })
  }
}

const numbers = (from, to) => Array.from({ length: to - from }, (_, at) => String(from + at))

/** Publishes numbers as bodies, and waits for all of their confirms. */
async function publish (stream, from, to, params = {}, options = () => ({}), filter) {
  const publisher = await client.declarePublisher({ stream, ...params }, filter)
  const confirmed = confirms(publisher)
  for (const body of numbers(from, to)) await publisher.send(Buffer.from(body), options(body))
  await publisher.flush()
  await confirmed.all(to - from)
  await publisher.close()
}

/** A consumer, and the bodies that it has been given. */
async function consume (stream, offset, params = {}) {
  const bodies = []
  const handle = (message) => { bodies.push(message.content.toString()) }
  const consumer = await client.declareConsumer({ stream, offset, ...params }, handle)
  return { bodies, consumer }
}

/** That a consumer from there is given exactly these. */
async function expect (stream, offset, wanted, params) {
  const { bodies, consumer } = await consume(stream, offset, params)
  await until(`${wanted.length} messages`, () => bodies.length >= wanted.length)
  await consumer.close()
  assert.deepEqual(bodies, wanted)
}

test('every message is confirmed and read in order', async () => {
  const stream = await newStream()
  await publish(stream, 0, 10_000)
  await expect(stream, Offset.first(), numbers(0, 10_000))
  await client.deleteStream({ stream })
})

test('consumers begin where they ask', async () => {
  const stream = await newStream()
  await publish(stream, 0, 100)
  // Chunks' times are in milliseconds: what comes now has a later one.
  await sleep(50)
  const between = new Date()
  await publish(stream, 100, 200)
  await expect(stream, Offset.first(), numbers(0, 200))
  await expect(stream, Offset.offset(150n), numbers(150, 200))
  await expect(stream, Offset.timestamp(between), numbers(100, 200))
  const last = await consume(stream, Offset.last())
  await until('the last chunk', () => last.bodies.at(-1) === '199')
  assert(last.bodies.length < 200)
  await last.consumer.close()
  const next = await consume(stream, Offset.next())
  await publish(stream, 200, 210)
  await until('what is new', () => next.bodies.length >= 10)
  assert.deepEqual(next.bodies, numbers(200, 210))
  await next.consumer.close()
  await client.deleteStream({ stream })
})

test('properties come back as they were sent', async () => {
  const stream = await newStream()
  const publisher = await client.declarePublisher({ stream })
  const confirmed = confirms(publisher)
  await publisher.send(Buffer.from('ü'), {
    messageProperties: { messageId: 'm', correlationId: 'c', contentType: 'text/plain', subject: 's' },
    applicationProperties: { name: 'value', number: 7 },
    messageAnnotations: { 'x-own': 'annotation' }
  })
  await publisher.flush()
  await confirmed.all(1)
  const found = []
  const consumer = await client.declareConsumer({ stream, offset: Offset.first() }, (message) => { found.push(message) })
  await until('the message', () => found.length === 1)
  const [message] = found
  assert.equal(message.content.toString(), 'ü')
  assert.equal(message.messageProperties.messageId, 'm')
  assert.equal(message.messageProperties.correlationId, 'c')
  assert.equal(message.messageProperties.contentType, 'text/plain')
  assert.deepEqual(message.applicationProperties, { name: 'value', number: 7 })
  assert.equal(message.messageAnnotations['x-own'], 'annotation')
  assert.equal(message.offset, 0n)
  await consumer.close()
  await client.deleteStream({ stream })
})

test('stored offsets are found again', async () => {
  const stream = await newStream()
  await publish(stream, 0, 100)
  await assert.rejects(client.queryOffset({ reference: 'app', stream }))
  const { bodies, consumer } = await consume(stream, Offset.first(), { consumerRef: 'app' })
  await until('all', () => bodies.length === 100)
  await consumer.storeOffset(59n)
  await until('the stored offset', async () => {
    try { return await consumer.queryOffset() === 59n } catch { return false }
  })
  await consumer.close()
  assert.equal(await client.queryOffset({ reference: 'app', stream }), 59n)
  await expect(stream, Offset.offset(60n), numbers(60, 100), { consumerRef: 'app' })
  await client.deleteStream({ stream })
})

test('what a publisher says twice is stored once', async () => {
  const stream = await newStream()
  const ids = (body) => ({ publishingId: BigInt(body) + 1n })
  await publish(stream, 0, 100, { publisherRef: 'p' }, ids)
  await publish(stream, 0, 150, { publisherRef: 'p' }, ids)
  const publisher = await client.declarePublisher({ stream, publisherRef: 'p' })
  assert.equal(await publisher.getLastPublishingId(), 150n)
  await publisher.close()
  await publish(stream, 150, 151)
  await expect(stream, Offset.first(), numbers(0, 151))
  await client.deleteStream({ stream })
})

test('batches within an entry, plain and compressed', async () => {
  const stream = await newStream()
  const publisher = await client.declarePublisher({ stream })
  let [sent, confirmed] = [0, 0]
  publisher.on('publish_confirm', (_error, ids) => { confirmed += ids.length })
  for (const compression of [CompressionType.None, CompressionType.Gzip]) {
    for (let batch = 0; batch < 10; batch += 1) {
      const messages = numbers(sent, sent + 50).map((body) => ({ content: Buffer.from(body) }))
      await publisher.sendSubEntries(messages, compression)
      sent += 50
      // Of a chunk with several batches this client reads the first one alone.
      await until('the confirm', () => confirmed === sent / 50)
    }
  }
  await expect(stream, Offset.first(), numbers(0, 1_000))
  await publisher.close()
  await client.deleteStream({ stream })
})

test('only what may match a filter is sent', sinceThen, async () => {
  const stream = await newStream()
  const filter = (message) => message.applicationProperties.area
  for (const area of ['east', 'west']) {
    await publish(stream, 0, 500, {}, () => ({ applicationProperties: { area } }), filter)
  }
  await publish(stream, 500, 600)
  // What the server sends, before the client drops what does not match.
  const sent = new Set()
  const postFilterFunc = (message) => {
    const area = message.applicationProperties?.area
    sent.add(area)
    return area === 'west'
  }
  const wanted = { values: ['west'], matchUnfiltered: false, postFilterFunc }
  await expect(stream, Offset.first(), numbers(0, 500), { filter: wanted })
  assert.deepEqual([...sent], ['west'])
  const { bodies, consumer } = await consume(stream, Offset.first(), {
    filter: { values: ['west'], matchUnfiltered: true, postFilterFunc: () => true }
  })
  await until('both', () => bodies.length >= 600)
  assert.deepEqual(bodies, [...numbers(0, 500), ...numbers(500, 600)])
  await consumer.close()
  await client.deleteStream({ stream })
})

test('a stream and its figures are found', sinceThen, async () => {
  const stream = await newStream({ 'max-length-bytes': 10_000_000 })
  await publish(stream, 0, 10)
  const statistics = await client.streamStatsRequest(stream)
  assert.equal(statistics.firstChunkId, 0n)
  assert(statistics.committedChunkId >= 0n && statistics.committedChunkId < 10n)
  const [metadata] = await client.queryMetadata({ streams: [stream] })
  assert.equal(metadata.leader.port, port)
  assert.deepEqual(metadata.replicas, [])
  // The same again is no error of this client's; other arguments are.
  await client.createStream({ stream, arguments: { 'max-length-bytes': 10_000_000 } })
  await assert.rejects(client.createStream({ stream, arguments: { 'max-length-bytes': 77_000_000 } }))
  await client.deleteStream({ stream })
  await assert.rejects(client.deleteStream({ stream }))
})

// Of a wrong password or virtual host this client tells nobody who waits for it: no test of these here.

test('a super stream is spread over its partitions by hash', sinceThen, async () => {
  const name = await newSuperStream(undefined, 3)
  const partitions = [0, 1, 2].map((number) => `${name}-${number}`)
  assert.deepEqual(await client.queryPartitions({ superStream: name }), partitions)
  const key = (_content, options) => options.messageProperties.messageId
  const publisher = await client.declareSuperStreamPublisher({ superStream: name }, key)
  for (const messageId of numbers(0, 300)) await publisher.send(Buffer.from(messageId), { messageProperties: { messageId } })
  const found = []
  const consumer = await client.declareSuperStreamConsumer(
    { superStream: name, consumerRef: 'group', offset: Offset.first() }, (message) => { found.push(message.content.toString()) })
  await until('all', () => found.length >= 300)
  assert.deepEqual(found.map(Number).sort((a, b) => a - b).map(String), numbers(0, 300))
  for (const stream of partitions) assert((await client.streamStatsRequest(stream)).committedChunkId >= 0n)
  await consumer.close()
  await publisher.close()
  await client.deleteSuperStream({ streamName: name })
  await assert.rejects(client.queryPartitions({ superStream: name }))
})

test('a super stream is routed by keys', sinceThen, async () => {
  const name = await newSuperStream(['amer', 'emea', 'apac'])
  assert.deepEqual(await client.routeQuery({ routingKey: 'emea', superStream: name }), [`${name}-emea`])
  const key = (_content, options) => options.applicationProperties.key
  const publisher = await client.declareSuperStreamPublisher({ superStream: name, routingStrategy: 'key' }, key)
  for (const key of ['emea', 'apac', 'emea']) await publisher.send(Buffer.from(key), { applicationProperties: { key } })
  await expect(`${name}-emea`, Offset.first(), ['emea', 'emea'])
  await expect(`${name}-apac`, Offset.first(), ['apac'])
  await publisher.close()
  await client.deleteSuperStream({ streamName: name })
})

test('of a group one consumer is active, and the next one goes on where it was', sinceThen, async () => {
  const stream = await newStream()
  await publish(stream, 0, 10)
  const join = async () => {
    const own = await connect(at)
    const bodies = []
    let consumer
    const consumerUpdateListener = async (reference, stream) => {
      try {
        return Offset.offset(await client.queryOffset({ reference, stream }) + 1n)
      } catch {
        return Offset.first()
      }
    }
    const params = { stream, offset: Offset.first(), singleActive: true, consumerRef: 'group', consumerUpdateListener }
    consumer = await own.declareConsumer(params, (message) => { bodies.push(message.content.toString()) })
    return { own, bodies, consumer }
  }
  const one = await join()
  await until('the first one reads all', () => one.bodies.length === 10)
  const two = await join()
  await one.consumer.storeOffset(4n)
  await until('the stored offset', async () => {
    try { return await client.queryOffset({ reference: 'group', stream }) === 4n } catch { return false }
  })
  assert.deepEqual(two.bodies, [])
  await one.own.close()
  await until('the second one takes over', () => two.bodies.length >= 5)
  assert.deepEqual(two.bodies, numbers(5, 10))
  await two.own.close()
  await client.deleteStream({ stream })
})

test('a deleted stream ends its publisher and consumer', async () => {
  const stream = await newStream()
  const ended = []
  const listeners = { metadata_update: (update) => ended.push(update.metadataInfo.stream) }
  const own = await connect({ ...at, listeners })
  await own.declarePublisher({ stream })
  await own.declareConsumer({ stream, offset: Offset.first() }, () => {})
  assert.equal(own.publisherCounts() + own.consumerCounts(), 2)
  await client.deleteStream({ stream })
  await until('both have ended', () => own.publisherCounts() + own.consumerCounts() === 0)
  await own.close()
})

// --- what operators see and do -------------------------------------------------------------------

const ownApi = process.env.BROKER === 'rabbitmq' ? { skip: 'an API of Leveret alone' } : {}

/** What the HTTP API answers; an error's status where it refuses. */
async function api (method, path, body) {
  const answer = await fetch(`${process.env.HTTP_URL}/api/leveret/${path}`, {
    method,
    headers: { authorization: `Basic ${btoa('guest:guest')}` },
    body: body && JSON.stringify(body)
  })
  if (!answer.ok) return answer.status
  return answer.status === 204 ? null : await answer.json()
}

async function stored (reference, stream, offset) {
  await until(`the offset ${offset}`, async () => {
    try { return await client.queryOffset({ reference, stream }) === offset } catch { return false }
  })
}

// Of a consumer that is not a single active one this client does not say the name.
test('a group that nobody is connected under is seen, set and deleted', ownApi, async () => {
  const stream = await newStream()
  await publish(stream, 0, 100)
  const { bodies, consumer } = await consume(stream, Offset.first(), { consumerRef: 'app' })
  await until('all', () => bodies.length === 100)
  await consumer.storeOffset(89n)
  await stored('app', stream, 89n)
  const path = `stream-groups/%2F/${stream}/app`
  let group
  // What is stored is committed as part of the stream, at any moment: between the looks at both, too.
  await until('the lag', async () => {
    group = await api('GET', path)
    return group.lag === group.partitions[0].committed_offset - 89
  })
  assert.deepEqual([group.members, group.unused, group.partitions[0].offset], [[], true, 89])
  assert(group.lag >= 10)
  assert((await api('GET', 'stream-groups?unused=true')).some((row) => row.stream === stream && row.name === 'app'))
  for (const [to, offset] of [['first', 0], [39, 39], ['last', 99]]) {
    const [set] = (await api('PUT', path, { offset: to })).partitions
    assert.equal(set.stream, stream)
    assert(set.offset >= offset)
    assert.equal(await client.queryOffset({ reference: 'app', stream }), BigInt(set.offset))
  }
  assert.equal(await api('DELETE', path), null)
  assert.equal(await api('GET', path), 404)
  await assert.rejects(client.queryOffset({ reference: 'app', stream }))
  await consumer.close()
  await client.deleteStream({ stream })
})

test('of a group of single active consumers the next one begins where an operator says', ownApi, async () => {
  const stream = await newStream()
  for (let from = 0; from < 100; from += 20) await publish(stream, from, from + 20)
  const bodies = []
  const consumerUpdateListener = async (reference, stream) => {
    try {
      return Offset.offset(await client.queryOffset({ reference, stream }) + 1n)
    } catch {
      return Offset.first()
    }
  }
  const params = { stream, offset: Offset.first(), singleActive: true, consumerRef: 'group', consumerUpdateListener }
  const consumer = await client.declareConsumer(params, (message) => { bodies.push(message.content.toString()) })
  await until('all', () => bodies.length === 100)
  await consumer.storeOffset(99n)
  await stored('group', stream, 99n)
  const seen = await api('GET', `stream-groups/%2F/${stream}/group`)
  assert.deepEqual([seen.unused, seen.members[0].active], [false, true])
  assert.equal(await api('DELETE', `stream-groups/%2F/${stream}/group`), 412)
  bodies.length = 0
  const answer = await api('PUT', `stream-groups/%2F/${stream}/group`, { offset: 59 })
  assert.deepEqual(answer.partitions, [{ stream, offset: 59 }])
  await until('it begins there', () => bodies.length >= 40)
  assert.deepEqual(bodies, numbers(60, 100))
  await consumer.close()
  await client.deleteStream({ stream })
})

test('messages are browsed without consuming them', ownApi, async () => {
  const stream = await newStream()
  const publisher = await client.declarePublisher({ stream }, (message) => message.applicationProperties.area)
  const confirmed = confirms(publisher)
  const before = Date.now()
  await publisher.send(Buffer.from('{"a":[1]}'), { applicationProperties: { area: 'east' }, messageProperties: { messageId: 'm' } })
  await publisher.flush()
  await confirmed.all(1)
  await sleep(20)
  const between = Date.now()
  await publisher.send(Buffer.from([255, 0]), { applicationProperties: { area: 'west' } })
  await publisher.flush()
  await confirmed.all(2)
  await publisher.sendSubEntries(numbers(0, 3).map((body) => ({ content: Buffer.from(body) })), CompressionType.Gzip)
  const browse = (query) => api('GET', `streams/%2F/${stream}/messages?${query}`)
  await until('the batch', async () => (await browse('')).messages.length === 5)
  const { messages, ...rest } = await browse('')
  assert.deepEqual(rest, { next_offset: 5, first_offset: 0, committed_offset: 4 })
  assert.deepEqual(messages.map((message) => message.offset), [0, 1, 2, 3, 4])
  const shown = messages.map((message) => [message.payload_encoding, message.payload])
  assert.deepEqual(shown.slice(0, 3), [['json', '{\n  "a": [\n    1\n  ]\n}'], ['hex', 'ff00'], ['string', '0']])
  assert.equal(messages[0].properties.message_id, 'm')
  assert.equal(messages[0].properties.headers.area, 'east')
  assert(messages[0].timestamp >= before)
  const offsets = async (query) => (await browse(query)).messages.map((message) => message.offset)
  assert.deepEqual(await offsets('offset=3'), [3, 4])
  assert.deepEqual(await offsets('offset=last&count=2'), [3, 4])
  assert.deepEqual(await offsets('count=2'), [0, 1])
  assert.deepEqual(await offsets('filter=west'), [1])
  assert.deepEqual(await offsets(`timestamp=${between}`), [1, 2, 3, 4])
  assert.deepEqual(await offsets('offset=5'), [])
  assert.deepEqual(await offsets(`timestamp=${Date.now() + 60_000}`), [])
  assert.equal((await browse('count=2')).next_offset, 2)
  await publisher.close()
  await client.deleteStream({ stream })
  assert.equal(await browse(''), 404)
})
