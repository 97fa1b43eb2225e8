/** Second part of `npm run screenshots`: the keys page and the playground of docs/dashboard.md. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { adminKey, openBrowser, openPage, startWorld } from '../test/browser/world.ts'
import { LOOKS, shoot } from './screenshot.ts'

const folder = mkdtempSync(join(tmpdir(), 'screenshots-'))
const configured = { name: 'batch', secret: 'batch-secret', team: 'data', expires: '2027-06-30' }
const world = await startWorld([{ id: 'paris', engines: [{ id: 'paris-0' }, { id: 'paris-1' }] }], {
  locked: true,
  pool: { cost: { price_per_engine_hour: 2.5 } },
  config: {
    keys: [configured],
    teams: [{ name: 'data', limits: { tokens_per_min: 100_000 } }, { name: 'search' }],
    issued_keys: { file: join(folder, 'keys.json') },
  },
})

const post = (path: string, key: string, body: object): Promise<Response> =>
  fetch(`${world.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify(body),
  })

async function makeKey(body: object): Promise<string> {
  const response = await post('/v1/firstlight/keys', adminKey, body)
  return ((await response.json()) as { readonly key: string }).key
}

async function chat(key: string, requests: number): Promise<void> {
  const messages = [{ role: 'user', content: 'When does the sun rise at 60 degrees north? '.repeat(8) }]
  for (let sent = 0; sent < requests; sent++)
    await (await post('/v1/chat/completions', key, { model: 'sim', max_tokens: 24, messages })).text()
}

async function ask(page: Page): Promise<void> {
  await page.getByLabel('Client key').fill(configured.secret)
  await page.getByLabel('Tokens at most').fill('48')
  await page.getByLabel('Message').fill('When does the sun rise at 60 degrees north?')
  await page.getByRole('button', { name: 'Send' }).click()
  await page.getByText(/^ended · first text after/).waitFor()
  await page.getByRole('button', { name: 'Why this engine?' }).click()
  await page.locator('.found .candidates').waitFor()
}

const browser = await openBrowser()
try {
  const ada = await makeKey({ name: 'ada', owner: 'Ada Lovelace', team: 'search', limits: { requests_per_min: 120 } })
  await makeKey({ name: 'notebook', owner: 'Notebook of Grace', models: ['sim'], expires: '2027-01-31' })
  await chat(ada, 12)
  await chat(configured.secret, 5)
  for (const [suffix, colorScheme, width, height] of LOOKS) {
    const { page } = await openPage(browser, `${world.url}/dashboard#keys`, {
      viewport: { width, height },
      colorScheme,
    })
    await page.getByLabel('Admin key').fill(adminKey)
    await page.getByRole('button', { name: 'Show the fleet' }).click()
    await page.locator('tr[data-key="notebook"]').waitFor()
    await shoot(page, `dashboard-keys${suffix}.png`)
    await page.getByRole('link', { name: 'Playground' }).click()
    await ask(page)
    await page.evaluate('scrollTo(0, 0)')
    await shoot(page, `dashboard-playground${suffix}.png`)
    await page.context().close()
  }
} finally {
  await browser.close()
  await world.close()
  rmSync(folder, { recursive: true })
}
