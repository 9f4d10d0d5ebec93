// The JavaScript stream client over three nodes, of which the one that leads a stream is killed.
//
// The client's own `restart` connects to the addresses that it had, and it keeps its connections by
// host: three nodes on one host are one to it. So who has lost a connection is begun anew by hand,
// with another client at another node.

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import net from 'node:net'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import streams from 'rabbitmq-stream-js-client'
import compressions from 'rabbitmq-stream-js-client/dist/compression.js'

const { Offset, connect } = streams
const { CompressionType } = compressions
const ports = process.env.CLUSTER_STREAMS.split(',').map((address) => Number(address.split(':').at(-1)))
const controls = process.env.CLUSTER_CONTROLS.split(',')
// How long the loss of a node may take to get over, and a step before it is begun anew.
const patience = 90_000
const step = 10_000
const options = { timeout: 220_000 }

// Connections to a node that has gone leave their heartbeats behind, which keep the process.
after(() => { setTimeout(() => process.exit(), 2_000).unref() })

async function until (what, condition, milliseconds = patience) {
  const deadline = Date.now() + milliseconds
  while (!await condition()) {
    if (Date.now() > deadline) throw new Error(`${what} did not come true`)
    await sleep(10)
  }
}

/** What comes of it, in time. */
async function within (milliseconds, what, promise) {
  const ending = new AbortController()
  const late = sleep(milliseconds, null, { signal: ending.signal })
    .then(() => { throw new Error(`${what}: not within ${milliseconds} ms`) })
  try {
    return await Promise.race([promise, late])
  } finally {
    ending.abort()
    late.catch(() => {})
  }
}

/** Closes a client, though its nodes may have gone. */
async function end (client) {
  await within(step, 'close', client.close()).catch(() => {})
}

/** Tries with a client at one node after the other until it succeeds. */
async function byHand (what, work, at = ports) {
  const deadline = Date.now() + patience
  for (let number = 0; ; number += 1) {
    let client
    try {
      const port = at[number % at.length]
      const login = { hostname: 'localhost', port, username: 'guest', password: 'guest', vhost: '/' }
      client = await within(step, 'connect', connect(login))
      // Where a stream has moved, this client takes back a subscription that the broker has ended
      // already, and leaves the refusal to nobody.
      const closeConsumer = client.closeConsumer.bind(client)
      client.closeConsumer = (id) => closeConsumer(id).catch(() => {})
      return await work(client)
    } catch (error) {
      if (client) await end(client)
      if (Date.now() > deadline) throw new Error(`${what}: ${error}`)
      await sleep(100)
    }
  }
}

/** Does something with a client of its own. */
const once = (what, work) => byHand(what, async (client) => {
  const result = await within(patience, what, work(client))
  await end(client)
  return result
})

const leader = (stream) => once('a leader', async (client) => {
  const [metadata] = await client.queryMetadata({ streams: [stream] })
  const at = ports.indexOf(metadata.leader?.port)
  if (at < 0) throw new Error('no leader')
  return at
})

/** kill -9 of a node, and a start on what it has; returns when it accepts. */
async function crash (node) {
  const [host, port] = controls[node].split(':')
  const socket = net.connect(Number(port), host)
  socket.write('crash\n')
  let answer = ''
  for await (const part of socket) {
    answer += part
    if (answer.endsWith('\n')) break
  }
  assert(answer.startsWith('ok'), answer)
}

const killLeader = async (stream) => crash(await leader(stream))

async function newStream () {
  const stream = `js-${randomUUID()}`
  await once('a stream', (client) => client.createStream({ stream, arguments: {} }))
  return stream
}

const numbers = (from, to) => Array.from({ length: to - from }, (_, at) => from + at)

/** Sends messages with their ids in one go, by what is returned, which waits for all confirms. */
function confirming (publisher) {
  let wanted = new Set()
  let failure = null
  publisher.on('publish_confirm', (error, ids) => {
    if (error) failure = error
    else ids.forEach((id) => wanted.delete(BigInt(id)))
  })
  return async (messages) => {
    wanted = new Set(messages.map(({ publishingId }) => publishingId))
    for (const { body, ...rest } of messages) await publisher.send(Buffer.from(String(body)), rest)
    await publisher.flush()
    await until('the confirms', () => {
      if (failure) throw new Error(`refused: ${failure}`)
      return wanted.size === 0
    }, step)
  }
}

/** Publishes numbers under a name, some at a time; what is not confirmed is said again. */
class Publishing {
  constructor (stream) {
    this.stream = stream
    this.confirmed = 0
  }

  async run (isEnough) {
    await byHand('a publisher', async (client) => {
      const declaring = client.declarePublisher({ stream: this.stream, publisherRef: 'publisher' })
      const publish = confirming(await within(step, 'a publisher', declaring))
      while (!isEnough()) {
        const from = this.confirmed
        await publish(numbers(from, from + 100).map((body) => ({ publishingId: BigInt(body + 1), body })))
        this.confirmed += 100
      }
      await end(client)
    })
  }
}

/** Publishes messages under a name of their own until all are confirmed. */
const publishOnce = (stream, publisherRef, messages, filter) => once('a publisher', async (client) => {
  const declaring = client.declarePublisher({ stream, publisherRef }, filter)
  const publish = confirming(await within(step, 'a publisher', declaring))
  await publish(messages)
})

/** What a consumer is given: offsets and numbers. It goes on behind them where it has lost its node. */
async function reading (stream, offset, params = {}) {
  const found = []
  let ending = false
  let client
  const begin = async (from) => {
    // Not through the leader, which is killed: the client asks where it logged in on closing.
    const led = await leader(stream)
    client = await byHand('a consumer', async (client) => {
      const connectionClosedListener = () => {
        if (ending) return
        ending = true
        // Where the stream has moved the client itself closes the consumer meanwhile.
        lost = sleep(1_000).then(() => end(client)).then(() => {
          ending = false
          return begin(found.length ? Offset.offset(found.at(-1)[0] + 1n) : offset)
        })
      }
      const handle = (message) => { found.push([message.offset, Number(message.content.toString())]) }
      const declaring = client.declareConsumer({ stream, offset: from, connectionClosedListener, ...params }, handle)
      await within(step, 'a consumer', declaring)
      return client
    }, ports.filter((_, at) => at !== led))
  }
  let lost = begin(offset)
  await lost
  return {
    found,
    close: async () => {
      ending = true
      await lost
      await end(client)
    }
  }
}

/** What comes from there on to this number. */
async function read (stream, offset, last, params) {
  const { found, close } = await reading(stream, offset, params)
  await until(`the number ${last}`, () => found.at(-1)?.[1] === last)
  await close()
  return found
}

test('what is confirmed is there once though the leader\'s node is killed', options, async () => {
  const stream = await newStream()
  const publishing = new Publishing(stream)
  const reader = await reading(stream, Offset.first())
  await publishing.run(() => publishing.confirmed >= 1_000)
  // Chunks' times are in milliseconds: what comes now has a later one.
  await sleep(50)
  const between = new Date()
  await sleep(50)
  let killed = false
  const killing = killLeader(stream).finally(() => { killed = true })
  await publishing.run(() => killed)
  await killing
  const enough = publishing.confirmed + 1_000
  await publishing.run(() => publishing.confirmed >= enough)
  const total = publishing.confirmed
  // The consumer that was there all the while has got over it too.
  await until('all numbers', () => reader.found.length >= total)
  assert.deepEqual(reader.found.map(([, number]) => number), numbers(0, total))
  await reader.close()
  const whole = await read(stream, Offset.first(), total - 1)
  assert.deepEqual(whole.map(([, number]) => number), numbers(0, total))
  // Whatever a consumer asks to begin with.
  assert.deepEqual(await read(stream, Offset.offset(whole[1_234][0]), total - 1), whole.slice(1_234))
  assert.deepEqual(await read(stream, Offset.timestamp(between), total - 1), whole.slice(1_000))
  const last = await read(stream, Offset.last(), total - 1)
  assert(last.length < total)
  assert.deepEqual(last, whole.slice(-last.length))
  const next = await reading(stream, Offset.next())
  await publishing.run(() => publishing.confirmed > total)
  await until('what is new', () => next.found.length >= 100)
  assert.deepEqual(next.found.map(([, number]) => number), numbers(total, publishing.confirmed))
  await next.close()
})

test('filters before and after the leader\'s node is killed', options, async () => {
  const stream = await newStream()
  const filter = (message) => message.applicationProperties.area
  for (const part of [0, 1]) {
    for (const area of ['east', 'west']) {
      const messages = numbers(0, 100).map((at) => (
        { publishingId: BigInt(at + 1), body: 100 * part + at, applicationProperties: { area } }))
      await publishOnce(stream, `${area}-${part}`, messages, filter)
    }
    if (part === 0) await killLeader(stream)
  }
  const sent = new Set()
  const postFilterFunc = (message) => {
    sent.add(message.applicationProperties.area)
    return true
  }
  const wanted = { values: ['west'], matchUnfiltered: false, postFilterFunc }
  const found = await read(stream, Offset.first(), 199, { filter: wanted })
  assert.deepEqual(found.map(([, number]) => number), numbers(0, 200))
  assert.deepEqual([...sent], ['west'])
})

test('batches within an entry before and after the leader\'s node is killed', options, async () => {
  const stream = await newStream()
  const publish = (from) => once('a publisher', async (client) => {
    const publisher = await within(step, 'a publisher', client.declarePublisher({ stream }))
    let count = 0
    publisher.on('publish_confirm', (_error, ids) => { count += ids.length })
    for (const [at, compression] of [CompressionType.None, CompressionType.Gzip].entries()) {
      const bodies = numbers(from + 50 * at, from + 50 * at + 50)
      await publisher.sendSubEntries(bodies.map((body) => ({ content: Buffer.from(String(body)) })), compression)
      // Of a chunk with several batches this client reads the first one alone.
      await until('the confirm', () => count === at + 1, step)
    }
  })
  await publish(0)
  await killLeader(stream)
  await publish(100)
  const found = (await read(stream, Offset.first(), 199)).map(([, number]) => number)
  // What was confirmed before is there once; what comes after may have been sent twice.
  assert.deepEqual(found.slice(0, 100), numbers(0, 100))
  assert.deepEqual([...new Set(found)], numbers(0, 200))
})

test('a super stream\'s group has one reader of each partition when a leader is killed', options, async () => {
  const superStream = `js-${randomUUID()}`
  await once('a super stream', (client) => client.createSuperStream({ streamName: superStream }, undefined, 3))
  const counts = new Map()
  const led = await leader(`${superStream}-0`)
  const others = ports.filter((_, at) => at !== led)
  const join = () => byHand('a member', async (client) => {
    const handle = (message) => {
      const body = message.content.toString()
      counts.set(body, (counts.get(body) ?? 0) + 1)
    }
    const params = { superStream, consumerRef: 'group', offset: Offset.next() }
    await within(step, 'a member', client.declareSuperStreamConsumer(params, handle))
    return client
  }, others)
  const key = (_content, options) => options.messageProperties.messageId
  const publish = (bodies) => once('a publisher', async (client) => {
    const publisher = await within(step, 'a publisher', client.declareSuperStreamPublisher({ superStream }, key))
    for (const messageId of bodies) {
      await within(step, 'a message', publisher.send(Buffer.from(messageId), { messageProperties: { messageId } }))
    }
    await publisher.close()
  })
  // Until each of the messages that were published together goes to one member.
  const shared = () => until('a message to one member each', async () => {
    const bodies = numbers(0, 90).map(() => randomUUID())
    await publish(bodies)
    await until('all messages', () => bodies.every((body) => counts.has(body)), step).catch(() => {})
    // A second active consumer would be given them at the same time.
    await sleep(300)
    return bodies.every((body) => counts.get(body) === 1)
  })
  let members = [await join(), await join()]
  await shared()
  await crash(led)
  // Nobody is told of a partition's consumer that has lost its node.
  await Promise.all(members.map(end))
  members = [await join(), await join()]
  await shared()
  await Promise.all(members.map(end))
})
