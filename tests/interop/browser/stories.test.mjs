// The stories of $OPERATORS, told on the page: one test each, in their order.

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { after, test } from 'node:test'
import amqplib from 'amqplib'
import { api, button, inPage, open, part, row, submit, until } from './browser.mjs'
import { NOT_ON_THE_PAGE, STORIES } from './stories.mjs'

/** The title of each story, by its number. */
function titles () {
  const folder = process.env.OPERATORS
  const pages = readdirSync(folder).map((name) => readFileSync(`${folder}/${name}`, 'utf8'))
  return new Map(pages.flatMap((page) => [...page.matchAll(/^## (\d+)\. (.*)$/gm)].map(([, number, title]) => [Number(number), title])))
}

const TITLES = titles()

test('each story is told on the page, or it is said why not', () => {
  const told = [...Object.keys(STORIES), ...Object.keys(NOT_ON_THE_PAGE)].map(Number)
  assert.deepEqual(told.sort((a, b) => a - b), [...TITLES.keys()].sort((a, b) => a - b))
})

const connections = []
after(async () => { for (const one of connections) await one.close().catch(() => {}) })

/** A client that takes a message and keeps it; two more wait. */
async function consumer (queue) {
  const connection = await amqplib.connect(process.env.AMQP_URL)
  // It is closed by the page.
  connection.on('error', () => {})
  connections.push(connection)
  const channel = await connection.createConfirmChannel()
  await channel.prefetch(1)
  await channel.consume(queue, () => {}, { consumerTag: 'stuck' })
  for (const payload of ['a', 'b', 'c']) channel.sendToQueue(queue, Buffer.from(payload))
  await channel.waitForConfirms()
}

/** Where a button is: in the open dialog if it has one, anywhere, in a row, or in a section. */
async function named (page, name, where) {
  if (!where) {
    const within = button(page.locator('dialog[open]'), name)
    return (await within.count() ? within : button(page, name)).first()
  }
  const section = page.locator('section', { has: page.getByRole('heading', { name: where, exact: true }) })
  return button(row(page, where), name).or(button(section, name)).first()
}

/** What was saved, to be loaded again. */
let saved

const DO = {
  open: (page, [route]) => open(page, route),
  click: async (page, [name, where]) => await (name instanceof RegExp ? page.getByRole('button', { name }) : await named(page, name, where)).click(),
  follow: (page, [name]) => page.locator('td a', { hasText: name }).first().click(),
  press: (page, [key]) => page.keyboard.press(key),
  submit: (page, [name, fields]) => submit(page, name, fields),
  choose: (page, [label, value]) => page.getByLabel(label, { exact: true }).selectOption(value),
  check: (page, [label]) => page.getByRole('dialog').getByLabel(label).check(),
  uncheck: (page, [label]) => page.getByRole('dialog').getByLabel(label).uncheck(),
  see: (page, [text]) => page.getByText(text).first().waitFor(),
  stat: (page, [label, value]) => until(`${label}: ${value}`, async () => {
    const stat = page.locator('.stat').filter({ has: page.getByText(label, { exact: true }) }).locator('dd')
    return await stat.evaluate((shown) => shown.firstChild.textContent) === value
  }),
  row: (page, texts) => texts.reduce((rows, text) => rows.filter({ hasText: text }), page.getByRole('row')).first().waitFor(),
  gone: (page, texts) => {
    const rows = texts.reduce((rows, text) => rows.filter({ has: page.getByText(text, { exact: true }) }), page.getByRole('row'))
    return until(`no row has ${texts}`, async () => await rows.count() === 0)
  },
  heading: (page, [name]) => page.getByRole('heading', { name, exact: true }).waitFor(),
  disabled: (page, [name]) => until(`${name} is disabled`, () => button(page, name).isDisabled()),
  api: async (page, [method, path, body]) => assert.ok((await api(method, path, body)).status < 300, `${method} ${path}`),
  is: (page, [path, field, value]) => until(`${field} of ${path} is ${value}`, async () => (await api('GET', path)).json[field] === value),
  consumer: (page, [queue]) => consumer(queue),
  save: async (page, [name]) => {
    const download = page.waitForEvent('download')
    await button(page, name).click()
    saved = readFileSync(await (await download).path(), 'utf8')
  },
  load: (page, [label]) => page.getByLabel(label, { exact: true }).setInputFiles({ name: 'saved.json', mimeType: 'application/json', buffer: Buffer.from(saved) })
}

for (const [number, steps] of Object.entries(STORIES)) {
  inPage(`story ${number}: ${TITLES.get(Number(number))}`, async (page) => {
    const { json: { node } } = await api('GET', 'overview')
    for (const [verb, ...what] of steps) {
      const own = verb === 'open' || verb === 'is' ? part(node) : node
      const words = what.map((word) => typeof word === 'string' ? word.replace('$NODE', own) : word)
      await DO[verb](page, words).catch((failure) => {
        failure.message = `${verb} ${JSON.stringify(what)}: ${failure.message}`
        throw failure
      })
    }
    // What is asked for of something that has gone is answered so; checks fail where they are to.
  }, { expected: /40[0-9]|503/ })
}
