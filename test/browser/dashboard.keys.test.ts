import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { minContrast } from './contrast.ts'
import { adminKey, openBrowser, openPage, startWorld, type Watched, type World } from './world.ts'

const slow = { timeout: 20_000 }
const secret = 'configured-secret'

let browser: Browser
let folder: string
let world: World
const opened: Watched[] = []

beforeAll(async () => {
  browser = await openBrowser()
  folder = mkdtempSync(join(tmpdir(), 'dashboard-keys-'))
  world = await startWorld([{ id: 'paris', engines: [{ id: 'engine-0' }, { id: 'engine-1' }] }], {
    locked: true,
    pool: { cost: { price_per_engine_hour: 3600 } },
    config: {
      keys: [{ name: 'configured', secret, team: 'research' }],
      teams: [{ name: 'research', limits: { requests_per_min: 1000 } }],
      issued_keys: { file: join(folder, 'keys.json') },
    },
  })
}, 60_000)

afterEach(async () => {
  for (const { page, errors, violations } of opened.splice(0)) {
    expect(await violations()).toEqual([])
    // The browser itself logs a rejected request.
    expect(errors.filter((error) => !error.includes('Failed to load resource'))).toEqual([])
    await page.context().close()
  }
})

afterAll(async () => {
  await browser.close()
  await world.close()
  rmSync(folder, { recursive: true })
})

/** Opens a view of the dashboard with the admin key. */
async function open(tab: string, options: Parameters<typeof openPage>[2] = {}, url = world.url): Promise<Page> {
  const watched = await openPage(browser, `${url}/dashboard#${tab}`, options)
  opened.push(watched)
  const { page } = watched
  await page.getByLabel('Admin key').fill(adminKey)
  await page.getByRole('button', { name: 'Show the fleet' }).click()
  await page.locator('.link.live').waitFor(slow)
  return page
}

async function chat(key: string): Promise<number> {
  const response = await fetch(`${world.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: 'sim', max_tokens: 4, messages: [{ role: 'user', content: 'Hello' }] }),
  })
  await response.text()
  return response.status
}

async function makeKey(name: string): Promise<string> {
  const response = await fetch(`${world.url}/v1/firstlight/keys`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${adminKey}` },
    body: JSON.stringify({ name }),
  })
  return ((await response.json()) as { readonly key: string }).key
}

const row = (page: Page, name: string) => page.locator(`tr[data-key="${name}"]`)
const overflow = (page: Page) => page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')

describe('the keys page of the dashboard', { timeout: 60_000 }, () => {
  it('the keys page creates a key, and shows its secret once', async () => {
    const page = await open('keys')
    await row(page, 'configured').waitFor(slow)
    for (const [label, value] of [
      ['Name', 'ada'],
      ['Owner', 'Ada Lovelace'],
      ['Team', 'research'],
      ['Models', 'sim'],
      ['Expires', '2099-01-31'],
      ['Requests per minute', '100'],
    ] as const)
      await page.getByLabel(label, { exact: true }).fill(value)
    await page.getByRole('button', { name: 'Create key' }).click()
    const shown = page.locator('[data-secret]')
    await shown.waitFor(slow)
    const made = await shown.innerText()
    expect(made).toMatch(/^sk-fl-[0-9a-f]{64}$/)
    expect(await chat(made)).toBe(200)
    await row(page, 'ada').waitFor(slow)
    const text = await row(page, 'ada').innerText()
    for (const part of ['Ada Lovelace', 'research', 'sim', '100 requests/min', '2099-01-31'])
      expect(text).toContain(part)
    await page.getByRole('button', { name: 'I have it' }).click()
    expect(await page.content()).not.toContain(made)
    expect(
      await page.evaluate<string>('JSON.stringify([localStorage, sessionStorage, document.cookie])'),
    ).not.toContain(made)
    await page.reload()
    await row(page, 'ada').waitFor(slow)
    expect(await shown.count()).toBe(0)
  })

  it('the keys page shows the message of the gateway about a field, and keeps the form', async () => {
    const page = await open('keys')
    await row(page, 'configured').waitFor(slow)
    await page.getByLabel('Name', { exact: true }).fill('configured')
    await page.getByRole('button', { name: 'Create key' }).click()
    await page.getByRole('alert').getByText('there is a key with this name').waitFor(slow)
    expect(await page.getByLabel('Name', { exact: true }).inputValue()).toBe('configured')
    expect(await page.locator('[data-secret]').count()).toBe(0)
  })

  it('the keys page revokes a key only after a confirmation, and none of the configuration', async () => {
    const made = await makeKey('bob')
    const page = await open('keys')
    await row(page, 'bob').waitFor(slow)
    await page.getByRole('button', { name: 'revoke bob', exact: true }).click()
    await page.getByRole('button', { name: 'keep bob' }).click()
    expect(await chat(made)).toBe(200)
    await page.getByRole('button', { name: 'revoke bob', exact: true }).click()
    await page.getByRole('button', { name: 'revoke bob now' }).click()
    await row(page, 'bob').waitFor({ ...slow, state: 'detached' })
    expect(await chat(made)).toBe(401)
    expect(await row(page, 'configured').getByRole('button').count()).toBe(0)
    expect(await row(page, 'configured').innerText()).toContain('in the configuration')
  })

  it('the keys page sums the usage by key, team and model', async () => {
    for (let at = 0; at < 3; at++) expect(await chat(secret)).toBe(200)
    const page = await open('keys')
    const usageOf = async (by: string, name: string, label: string) =>
      Number(
        await page.locator(`[data-usage="${by}"] tr`, { hasText: name }).locator(`[data-label="${label}"]`).innerText(),
      )
    await page.locator('[data-usage="model"] tr', { hasText: 'sim' }).waitFor(slow)
    const refreshed = async () => {
      await page.getByRole('button', { name: 'Refresh' }).click()
      return usageOf('key', 'configured', 'requests')
    }
    await expect.poll(refreshed, slow).toBeGreaterThanOrEqual(3)
    expect(await usageOf('team', 'research', 'requests')).toBeGreaterThanOrEqual(3)
    // One unit of money is one engine second.
    for (const [by, name] of [
      ['key', 'configured'],
      ['team', 'research'],
      ['model', 'sim'],
    ] as const) {
      const money = await usageOf(by, name, 'money')
      expect(money).toBeGreaterThan(0)
      expect(await usageOf(by, name, 'engine seconds')).toBeCloseTo(money, 5)
    }
  })

  it('the keys page shows nothing without the admin key', async () => {
    const watched = await openPage(browser, `${world.url}/dashboard#keys`)
    opened.push(watched)
    const { page } = watched
    await page.getByLabel('Admin key').fill(secret)
    await page.getByRole('button', { name: 'Show the fleet' }).click()
    await page.getByRole('alert').waitFor(slow)
    expect(await page.locator('[data-key]').count()).toBe(0)
    expect(await page.content()).not.toContain('configured')
  })

  it('the keys page explains what is missing if keys cannot be made at run time', async () => {
    const other = await startWorld([{ id: 'paris', engines: [{ id: 'engine-0' }] }], {
      locked: true,
      config: { keys: [{ name: 'configured', secret }] },
    })
    try {
      const page = await open('keys', {}, other.url)
      await page.getByText('Keys cannot be created here').waitFor(slow)
      expect(await row(page, 'configured').count()).toBe(1)
      expect(await page.getByText('Usage by model').count()).toBe(1)
      expect(await page.getByRole('button', { name: 'Create key' }).count()).toBe(0)
    } finally {
      await other.close()
    }
  })

  it.each(['light', 'dark'] as const)(
    'the keys page is readable in %s, without a sideways scroll',
    async (colorScheme) => {
      const page = await open('keys', { colorScheme })
      await row(page, 'configured').waitFor(slow)
      const { ratio, ...text } = await minContrast(page)
      expect(ratio, JSON.stringify(text)).toBeGreaterThanOrEqual(4.5)
      for (const width of [320, 390, 1000, 1280, 1920]) {
        await page.setViewportSize({ width, height: 800 })
        expect(await overflow(page), `${width} px`).toBeLessThanOrEqual(0)
      }
    },
  )
})

describe('the playground of the dashboard', { timeout: 60_000 }, () => {
  it('the playground streams an answer with the key of a client, and explains the decision', async () => {
    const page = await open('playground')
    await page.getByLabel('Client key').fill(secret)
    await page.getByLabel('Tokens at most').fill('16')
    await page.getByLabel('Message').fill('When does the sun rise?')
    await page.getByRole('button', { name: 'Send' }).click()
    await page.getByText(/^ended · first text after/).waitFor(slow)
    expect((await page.locator('[data-answer]').innerText()).length).toBeGreaterThan(0)
    await page.getByRole('button', { name: 'Why this engine?' }).click()
    await page.locator('.found .candidates').waitFor(slow)
    expect(await page.locator('.sentence').innerText()).toMatch(/chose engine-[01]/)
    expect(await page.evaluate<string>('JSON.stringify([localStorage, sessionStorage])')).not.toContain(secret)
    expect((await minContrast(page)).ratio).toBeGreaterThanOrEqual(4.5)
    for (const width of [320, 1920]) {
      await page.setViewportSize({ width, height: 800 })
      expect(await overflow(page), `${width} px`).toBeLessThanOrEqual(0)
    }
    // The key is kept while other views of the page are open.
    await page.getByRole('link', { name: 'Fleet' }).click()
    await page.locator('tr[data-engine]').first().waitFor(slow)
    await page.getByRole('link', { name: 'Playground' }).click()
    expect(await page.getByLabel('Client key').inputValue()).toBe(secret)
  })

  it('the playground shows why the gateway refuses a request', async () => {
    const page = await open('playground')
    await page.getByLabel('Client key').fill('no-such-key')
    await page.getByLabel('Message').fill('Hello')
    await page.getByRole('button', { name: 'Send' }).click()
    await page.getByRole('alert').getByText(/key/i).waitFor(slow)
    expect(await page.locator('[data-answer]').count()).toBe(0)
  })
})
