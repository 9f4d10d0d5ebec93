// What tests of the operators' page have in common: a browser, the API past the page, and what is
// done to a page.
//
// Whatever is waited for has a long deadline: the machine may be slow. A test fails by what it
// finds, never by how soon.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import net from 'node:net'
import { after, before, test } from 'node:test'
import { chromium } from 'playwright-core'

export const http = process.env.HTTP_URL
const DEADLINE_MS = 60000
export const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

let browser
before(async () => {
  // The sandbox wants a user that is not the superuser, and namespaces that a container may lack.
  const args = ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu']
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args, timeout: DEADLINE_MS })
})
after(() => browser?.close())

/** Calls the API, past the page. */
export async function api (method, path, body, base = http) {
  const response = await fetch(`${base}/api/${path}`, {
    method,
    headers: { authorization: 'Basic ' + btoa('guest:guest'), 'content-type': 'application/json' },
    body: body === undefined ? undefined : JSON.stringify(body)
  })
  const text = await response.text()
  return { status: response.status, json: text && JSON.parse(text) }
}

/** A name as one segment of the API's paths, also where it is dots alone. */
export const part = (name) => /^\.\.?$/.test(name) ? '%FF' + name : encodeURIComponent(name)

/** Asks the tool that runs the broker. */
export function control (command, at = process.env.CONTROL) {
  const [host, port] = at.split(':')
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
export async function until (what, condition) {
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
export function inPage (name, body, { expected = null, login = true, at = http, ...options } = {}) {
  test(name, async () => {
    const context = await browser.newContext(options)
    try {
      const page = await context.newPage()
      page.setDefaultTimeout(DEADLINE_MS)
      const errors = []
      const note = (text) => { if (!expected?.test(text)) errors.push(text) }
      page.on('pageerror', (error) => note(String(error.stack ?? error)))
      page.on('console', (message) => { if (message.type() === 'error') note(message.text()) })
      await page.goto(`${at}/`)
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

export async function logIn (page, name = 'guest', password = 'guest') {
  await page.getByLabel('Name').fill(name)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.locator('.shell').waitFor()
}

/** Shows a part of the page and waits until its figures are there. */
export async function open (page, route) {
  await page.evaluate((hash) => { location.hash = hash }, `#/${route}`)
  const path = route.split('?')[0]
  await page.waitForFunction((path) => document.querySelector('.content')?.dataset.route === path, path)
  await page.locator('main h1').first().waitFor()
  await until('all figures', async () => await page.getByText('Loading…').count() === 0)
}

export const button = (within, name) => within.getByRole('button', { name, exact: true })
export const row = (page, text) => page.getByRole('row').filter({ hasText: text })
export const gone = (locator) => locator.waitFor({ state: 'detached' })

/** Fills the open dialog and sends it. */
export async function submit (page, name, fields = {}) {
  const dialog = page.getByRole('dialog')
  for (const [label, value] of Object.entries(fields)) {
    const field = dialog.getByLabel(label, { exact: true })
    const tag = await field.evaluate((element) => element.tagName)
    await (tag === 'SELECT' ? field.selectOption(value) : field.fill(value))
  }
  await button(dialog, name).click()
}
