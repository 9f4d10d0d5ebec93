// amqplib against the broker at $AMQP_URL: the promise API and, where it differs, the callback API.

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import amqplib from 'amqplib'
import callbackApi from 'amqplib/callback_api'

const url = process.env.AMQP_URL
let connection

before(async () => {
  connection = await amqplib.connect(url)
})
after(() => connection.close())

const unique = (prefix) => `${prefix}-${randomUUID()}`

/** A promise for the next so many deliveries of a queue. */
function take (channel, queue, count, options = { noAck: true }) {
  return new Promise((resolve, reject) => {
    const found = []
    const timer = setTimeout(() => reject(new Error(`${found.length} of ${count} came`)), 10000)
    channel.consume(queue, (message) => {
      found.push(message)
      if (found.length === count) {
        clearTimeout(timer)
        resolve(found)
      }
    }, options)
  })
}

/** A promise for a channel's error. */
const errorOf = (channel) => new Promise((resolve) => channel.once('error', resolve))

test('a message comes back as it was sent', async () => {
  const channel = await connection.createChannel()
  const { queue } = await channel.assertQueue('', { exclusive: true })
  const headers = { text: 'ü', number: 7, big: 2 ** 40, list: [1, 'two'], flag: true, none: null }
  channel.sendToQueue(queue, Buffer.from('body'), {
    headers, messageId: 'm', correlationId: 'c', priority: 3, timestamp: 1700000000, persistent: true
  })
  const [message] = await take(channel, queue, 1)
  assert.equal(message.content.toString(), 'body')
  assert.deepEqual(message.properties.headers, headers)
  assert.equal(message.properties.messageId, 'm')
  assert.equal(message.properties.deliveryMode, 2)
  assert.equal(message.properties.timestamp, 1700000000)
  await channel.close()
})

test('confirms arrive for many publishes', async () => {
  const channel = await connection.createConfirmChannel()
  const { queue } = await channel.assertQueue('', { exclusive: true })
  for (let n = 0; n < 1000; n++) channel.sendToQueue(queue, Buffer.from(`${n}`))
  await channel.waitForConfirms()
  assert.equal((await channel.checkQueue(queue)).messageCount, 1000)
  const found = await take(channel, queue, 1000)
  assert.deepEqual(found.map((message) => Number(message.content)), [...Array(1000).keys()])
  await channel.close()
})

test('a refused publish is a nack', async () => {
  const channel = await connection.createConfirmChannel()
  const { queue } = await channel.assertQueue('', {
    exclusive: true, maxLength: 1, arguments: { 'x-overflow': 'reject-publish' }
  })
  channel.sendToQueue(queue, Buffer.from('a'))
  await channel.waitForConfirms()
  channel.sendToQueue(queue, Buffer.from('b'))
  await assert.rejects(channel.waitForConfirms())
  await channel.close()
})

test('an unroutable mandatory message is returned before its confirm', async () => {
  const channel = await connection.createConfirmChannel()
  const events = []
  channel.on('return', (message) => events.push(message.fields.replyText))
  channel.publish('', unique('nowhere'), Buffer.from('x'), { mandatory: true }, () => events.push('confirm'))
  await channel.waitForConfirms()
  assert.deepEqual(events, ['NO_ROUTE', 'confirm'])
  await channel.close()
})

test('prefetch holds deliveries back', async () => {
  const channel = await connection.createChannel()
  const { queue } = await channel.assertQueue('', { exclusive: true })
  await channel.prefetch(2)
  for (let n = 0; n < 5; n++) channel.sendToQueue(queue, Buffer.from(`${n}`))
  const found = await take(channel, queue, 2, {})
  assert.equal((await channel.checkQueue(queue)).messageCount, 3)
  channel.ackAll()
  assert.equal(found.length, 2)
  await channel.close()
})

test('rejected messages go to the dead letters', async () => {
  const channel = await connection.createChannel()
  const dead = await channel.assertQueue('', { exclusive: true })
  const { queue } = await channel.assertQueue('', {
    exclusive: true, deadLetterExchange: '', deadLetterRoutingKey: dead.queue
  })
  channel.sendToQueue(queue, Buffer.from('x'))
  const [message] = await take(channel, queue, 1, {})
  channel.nack(message, false, false)
  const [letter] = await take(channel, dead.queue, 1)
  const [death] = letter.properties.headers['x-death']
  assert.equal(death.reason, 'rejected')
  assert.equal(death.count, 1)
  assert.equal(death.queue, queue)
  assert.deepEqual(death['routing-keys'], [queue])
  await channel.close()
})

test('a missing queue closes the channel with 404', async () => {
  const channel = await connection.createChannel()
  const error = errorOf(channel)
  await assert.rejects(channel.checkQueue(unique('missing')))
  assert.equal((await error).code, 404)
})

test('a missing exchange closes the channel with 404', async () => {
  const channel = await connection.createChannel()
  const error = errorOf(channel)
  channel.publish(unique('missing'), 'k', Buffer.from('x'))
  assert.equal((await error).code, 404)
})

test('an inequivalent declaration closes the channel with 406', async () => {
  const channel = await connection.createChannel()
  const queue = unique('q')
  await channel.assertQueue(queue, { exclusive: true })
  const error = errorOf(channel)
  await assert.rejects(channel.assertQueue(queue, { exclusive: true, messageTtl: 5 }))
  assert.equal((await error).code, 406)
})

test('a deleted queue cancels its consumers', async () => {
  const channel = await connection.createChannel()
  const queue = unique('doomed')
  await channel.assertQueue(queue)
  const cancelled = new Promise((resolve) => channel.consume(queue, resolve))
  await channel.prefetch(1)
  await channel.deleteQueue(queue)
  assert.equal(await cancelled, null)
  await channel.close()
})

test('direct reply-to carries an answer', async () => {
  const channel = await connection.createChannel()
  const { queue } = await channel.assertQueue('', { exclusive: true })
  const answer = take(channel, 'amq.rabbitmq.reply-to', 1)
  channel.sendToQueue(queue, Buffer.from('q'), { replyTo: 'amq.rabbitmq.reply-to', correlationId: '5' })
  const [question] = await take(channel, queue, 1)
  channel.sendToQueue(question.properties.replyTo, Buffer.from('a'), { correlationId: '5' })
  const [message] = await answer
  assert.equal(message.content.toString(), 'a')
  assert.equal(message.properties.correlationId, '5')
  await channel.close()
})

test('exchanges route to exchanges', async () => {
  const channel = await connection.createChannel()
  const [first, second] = [unique('x'), unique('x')]
  await channel.assertExchange(first, 'topic', { autoDelete: true })
  await channel.assertExchange(second, 'fanout', { autoDelete: true })
  await channel.bindExchange(second, first, 'a.*')
  const { queue } = await channel.assertQueue('', { exclusive: true })
  await channel.bindQueue(queue, second, '')
  channel.publish(first, 'a.b', Buffer.from('x'))
  const [message] = await take(channel, queue, 1)
  assert.equal(message.fields.exchange, first)
  assert.equal(message.fields.routingKey, 'a.b')
  await channel.close()
})

test('a large body crosses in frames', async () => {
  const channel = await connection.createConfirmChannel()
  const { queue } = await channel.assertQueue('', { exclusive: true })
  const body = Buffer.alloc(3_000_000, 'ab')
  channel.sendToQueue(queue, body)
  const [message] = await take(channel, queue, 1)
  assert.ok(message.content.equals(body))
  await channel.close()
})

test('get answers empty and full', async () => {
  const channel = await connection.createConfirmChannel()
  const { queue } = await channel.assertQueue('', { exclusive: true })
  assert.equal(await channel.get(queue), false)
  channel.sendToQueue(queue, Buffer.from('x'))
  await channel.waitForConfirms()
  const message = await channel.get(queue, { noAck: true })
  assert.equal(message.fields.messageCount, 0)
  await channel.close()
})

test('a wrong password is refused', async () => {
  await assert.rejects(amqplib.connect(url.replace('guest:guest', 'guest:wrong')), /403|ACCESS_REFUSED/)
})

test('the callback API works too', (_, done) => {
  callbackApi.connect(url, (error, other) => {
    assert.ifError(error)
    other.createChannel((error, channel) => {
      assert.ifError(error)
      channel.assertQueue('', { exclusive: true }, (error, { queue }) => {
        assert.ifError(error)
        channel.consume(queue, (message) => {
          assert.equal(message.content.toString(), 'x')
          other.close(done)
        }, { noAck: true })
        channel.sendToQueue(queue, Buffer.from('x'))
      })
    })
  })
})
