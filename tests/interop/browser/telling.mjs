// How a story is told: what each of its steps does on the page.

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { after } from 'node:test'
import amqplib from 'amqplib'
import { api, button, control, http, inPage, logIn, open, part, row, submit, until } from './browser.mjs'

/** The title of each story, by its number. */
function titles () {
  const folder = process.env.OPERATORS
  const pages = readdirSync(folder).map((name) => readFileSync(`${folder}/${name}`, 'utf8'))
  return new Map(pages.flatMap((page) => [...page.matchAll(/^## (\d+)\. (.*)$/gm)].map(([, number, title]) => [Number(number), title])))
}

export const TITLES = titles()

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

/** The node whose page is shown, of a cluster. */
let base = http

const DO = {
  open: (page, [route]) => open(page, route),
  at: async (page, [number]) => {
    base = process.env.CLUSTER_HTTP.split(',')[number - 1]
    await page.goto(`${base}/`)
    await page.locator('.shell').or(page.getByLabel('Password')).waitFor()
    if (await page.getByLabel('Password').count()) await logIn(page)
  },
  node: (page, [number, command]) => control(command, process.env.CLUSTER_CONTROLS.split(',')[number - 1]),
  broker: (page, [command]) => control(command),
  click: async (page, [name, where]) => await (name instanceof RegExp ? page.getByRole('button', { name }) : await named(page, name, where)).click(),
  follow: (page, [name]) => page.locator('td a', { hasText: name }).first().click(),
  press: (page, [key]) => page.keyboard.press(key),
  submit: (page, [name, fields]) => submit(page, name, fields),
  choose: (page, [label, value]) => page.getByLabel(label, { exact: true }).selectOption(value),
  check: (page, [label]) => page.getByRole('dialog').getByLabel(label).check(),
  uncheck: (page, [label]) => page.getByRole('dialog').getByLabel(label).uncheck(),
  see: (page, [text]) => page.getByText(text).first().waitFor(),
  unsee: (page, [text]) => page.getByText(text).first().waitFor({ state: 'detached' }),
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
  api: async (page, [method, path, body]) => assert.ok((await api(method, path, body, base)).status < 300, `${method} ${path}`),
  is: (page, [path, field, value]) => until(`${field} of ${path} is ${value}`, async () => (await api('GET', path, undefined, base)).json[field] === value),
  consumer: (page, [queue]) => consumer(queue),
  save: async (page, [name]) => {
    const download = page.waitForEvent('download')
    await button(page, name).click()
    saved = readFileSync(await (await download).path(), 'utf8')
  },
  saved: async (page, parts) => { for (const one of parts) assert.ok(one in JSON.parse(saved), `${one} is saved`) },
  load: (page, [label]) => page.getByLabel(label, { exact: true }).setInputFiles({ name: 'saved.json', mimeType: 'application/json', buffer: Buffer.from(saved) })
}

/** The names of the nodes of a cluster by their number from 1 on; 0 is the one at `at`. */
const known = new Map()
async function nodeNames (at) {
  if (!known.has(at)) {
    const cluster = process.env.CLUSTER_HTTP.split(',')
    const pages = cluster.includes(at) ? [at, ...cluster] : [at]
    known.set(at, await Promise.all(pages.map(async (page) => (await api('GET', 'overview', undefined, page)).json.node)))
  }
  return known.get(at)
}

/** One test for each story, in their order; `at`: the page that each begins on. */
export function tell (stories, at = http) {
  for (const [number, steps] of Object.entries(stories)) {
    inPage(`story ${number}: ${TITLES.get(Number(number))}`, async (page) => {
      base = at
      const names = await nodeNames(at)
      for (const [verb, ...what] of steps) {
        // What stands first may be a path.
        const name = (place) => (_, number) => ['open', 'is'].includes(verb) && place === 0 ? part(names[number || 0]) : names[number || 0]
        const words = what.map((word, place) => typeof word === 'string' ? word.replace(/\$NODE(\d?)/, name(place)) : word)
        await DO[verb](page, words).catch((failure) => {
          failure.message = `${verb} ${JSON.stringify(what)}: ${failure.message}`
          throw failure
        })
      }
      // What is asked for of something that has gone is answered so; checks fail where they are to.
      // A node that is stopped does not answer.
    }, { expected: /40[0-9]|503|ERR_CONNECTION_REFUSED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET|ERR_INCOMPLETE_CHUNKED_ENCODING/, at })
  }
}
