import { execFile } from 'node:child_process'
import { connect, createServer } from 'node:net'
import { promisify } from 'node:util'
import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { startEdge, type Edge } from '../../scripts/edge.ts'
import { demoDocument, startDemoFleet } from '../../packages/simulator/src/commands/demo-fleet.ts'
import type { RunningFleet } from '../../packages/simulator/src/node/fleet-host.ts'
import { serveLocally } from '../kit/local-server.ts'
import { minContrast } from './contrast.ts'
import { adminKey, chat, openBrowser, openPage, startWorld, type Watched, type World } from './world.ts'

interface FleetEngine {
  readonly id: string
  readonly draining: boolean
  readonly requests: number
  readonly active_blocks: number
  readonly ttft_ms: number | null
  readonly hit_rate: number | null
  readonly requests_total: number
  readonly failures_total: number
}

const { round } = Math
/** Not synchronous: the gateway runs in this process. */
const run = promisify(execFile)
const ids = (count: number) => Array.from({ length: count }, (_, index) => ({ id: `engine-${index}` }))
const slow = { timeout: 20_000 }

let browser: Browser
const opened: Watched[] = []

async function open(address: string, options: Parameters<typeof openPage>[2] = {}): Promise<Watched> {
  const watched = await openPage(browser, address, options)
  opened.push(watched)
  return watched
}

beforeAll(async () => {
  browser = await openBrowser()
})

afterEach(async () => {
  for (const { page, errors, violations } of opened.splice(0)) {
    expect(await violations()).toEqual([])
    // The browser itself logs a rejected key and a lost gateway.
    expect(
      errors.filter((error) => !/Failed to load resource|ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED/.test(error)),
    ).toEqual([])
    await page.context().close()
  }
})

afterAll(() => browser.close())

const row = (page: Page, engine: string) => page.locator(`tr[data-engine="${engine}"]`)
const cell = (page: Page, engine: string, label: string) => row(page, engine).locator(`[data-label="${label}"]`)
const overflow = (page: Page) => page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
const isLive = (page: Page) => page.locator('.link.live').waitFor(slow)

/** A proxy to the gateway that can lose all packets. As with TCP, they arrive when the network is back. */
async function startNetwork(
  to: string,
): Promise<{ readonly url: string; swallow(all: boolean): void; close(): Promise<void> }> {
  const unsent: (() => void)[] = []
  let swallows = false
  const server = createServer((near) => {
    const far = connect(Number(new URL(to).port), '127.0.0.1')
    for (const [from, other] of [
      [near, far],
      [far, near],
    ] as const) {
      from.on('data', (bytes) => (swallows ? unsent.push(() => other.write(bytes)) : other.write(bytes)))
      from.on('error', () => other.destroy())
      from.on('close', () => other.destroy())
    }
  })
  const { url, close } = await serveLocally(server)
  return {
    url,
    close,
    swallow(all) {
      swallows = all
      if (!all) for (const send of unsent.splice(0)) send()
    },
  }
}

describe('the dashboard of a fleet with traffic', { timeout: 90_000 }, () => {
  let world: World

  beforeAll(async () => {
    const clusters = [
      { id: 'paris', region: 'eu-west', engines: ids(3) },
      {
        id: 'tokyo',
        engines: [
          { id: 'prefill', role: 'prefill' as const },
          { id: 'decode', role: 'decode' as const },
        ],
      },
    ]
    world = await startWorld(clusters, { faults: true })
    await world.chat(30)
  })

  afterAll(() => world.close())

  const engines = async () =>
    (
      (await world.admin('fleet')) as { readonly pools: readonly { readonly engines: readonly FleetEngine[] }[] }
    ).pools.flatMap((pool) => pool.engines)

  it('the dashboard of a fleet with traffic shows all API fields of every engine', async () => {
    const { page } = await open(`${world.url}/dashboard`)
    await isLive(page)
    const shown = (engine: string, label: string) => cell(page, engine, label).innerText()
    for (const engine of await engines()) {
      expect(await shown(engine.id, 'requests')).toBe(String(engine.requests_total))
      expect(await shown(engine.id, 'failures')).toBe(String(engine.failures_total))
      expect(await shown(engine.id, 'running')).toBe(String(engine.requests))
      expect(await shown(engine.id, 'active blocks')).toBe(String(engine.active_blocks))
      expect(await shown(engine.id, 'hit rate')).toBe(
        engine.hit_rate === null ? '–' : `${round(engine.hit_rate * 100)}%`,
      )
      if (engine.ttft_ms === null) expect(await shown(engine.id, 'TTFT')).toBe('–')
      else expect(Math.abs(Number.parseFloat(await shown(engine.id, 'TTFT')) / engine.ttft_ms - 1)).toBeLessThan(0.01)
    }
    expect(await page.locator('.pool').allInnerTexts()).toEqual([
      expect.stringContaining('3 of 3 engines up'),
      expect.stringContaining('2 of 2 engines up'),
    ])
  })

  it('the dashboard of a fleet with traffic draws its charts if the browser reports a language that Intl rejects', async () => {
    const { page } = await open(world.url)
    await page.addInitScript(
      "Object.defineProperty(Navigator.prototype, 'language', { get: () => 'en-US@posix', configurable: true })",
    )
    await page.goto(`${world.url}/dashboard`)
    await isLive(page)
    await page.locator('figure canvas').first().waitFor(slow)
  })

  it('the dashboard of a fleet with traffic updates without a reload', async () => {
    const { page } = await open(`${world.url}/dashboard`)
    await isLive(page)
    const total = async () =>
      (await page.locator('[data-label="requests"]').allInnerTexts()).reduce((sum, text) => sum + Number(text), 0)
    const before = await total()
    await world.chat(6)
    const after = (await engines()).reduce((sum, engine) => sum + engine.requests_total, 0)
    expect(after).toBeGreaterThan(before)
    await expect.poll(total, slow).toBe(after)
  })

  it('the dashboard of a fleet with traffic drains and undrains an engine', async () => {
    const { page } = await open(`${world.url}/dashboard`)
    await isLive(page)
    await page.getByRole('button', { name: 'drain engine-1', exact: true }).click()
    await expect.poll(() => cell(page, 'engine-1', 'state').innerText(), slow).toBe('draining')
    expect((await engines()).find(({ id }) => id === 'engine-1')?.draining).toBe(true)
    await page.getByRole('combobox', { name: 'Filter by state' }).selectOption('draining')
    expect(await page.locator('tr[data-engine]').count()).toBe(1)
    await page.getByRole('button', { name: 'undrain engine-1' }).click()
    await page.getByRole('combobox', { name: 'Filter by state' }).selectOption('all')
    await expect.poll(() => cell(page, 'engine-1', 'state').innerText(), slow).toBe('up')
  })

  it('the dashboard of a fleet with traffic shows the last changes of an engine, newest first', async () => {
    const { page } = await open(`${world.url}/dashboard`)
    await isLive(page)
    for (const verb of ['drain', 'undrain'])
      await fetch(`${world.url}/v1/firstlight/engines/engine-0/${verb}?cluster=paris`, { method: 'POST' })
    const button = page.getByRole('button', { name: 'history of engine-0' })
    await button.click(slow)
    const changes = page.locator('.changes li')
    const uses = async () => (await changes.allInnerTexts()).filter((text) => /use|draining/.test(text))
    await expect
      .poll(uses, slow)
      .toEqual([
        expect.stringMatching(/^\d\d:\d\d:\d\d in use again$/),
        expect.stringMatching(/^\d\d:\d\d:\d\d draining$/),
      ])
    await button.click()
    expect(await changes.count()).toBe(0)
  })

  it('the dashboard of a fleet with traffic explains a decision: every candidate with every term of its cost', async () => {
    const { page } = await open(`${world.url}/dashboard`)
    await isLive(page)
    const line = page.locator('tr[data-decision]').first()
    const id = (await line.getAttribute('data-decision'))!
    const { candidates } = (await world.admin(`decisions/${id}`)) as {
      readonly candidates: readonly { readonly engine: string; readonly terms: object }[]
    }
    await line.getByRole('button').click()
    const why = page.locator('tr.why')
    await why.locator('.candidates').waitFor(slow)
    expect(await why.innerText()).toContain(id)
    const named = await why.locator('tbody th').allInnerTexts()
    expect(named.map((text) => text.replace(' chosen', ''))).toEqual(candidates.map(({ engine }) => engine))
    expect(named.filter((text) => text.endsWith('chosen')).length).toBeGreaterThan(0)
    expect(await why.locator('thead th').allInnerTexts()).toEqual([
      'candidate',
      'cost',
      ...Object.keys(candidates[0]!.terms).map((term) => term.replaceAll('_', ' ')),
    ])
    await line.getByRole('button', { name: /^why/ }).click()
    expect(await why.count()).toBe(0)
  })

  it('the dashboard of a fleet with traffic finds a request by its id, and explains it in a sentence', async () => {
    const { page } = await open(`${world.url}/dashboard`)
    await isLive(page)
    const id = (await page.locator('tr[data-decision]').last().getAttribute('data-decision'))!
    const search = page.getByRole('searchbox', { name: 'Find a request by its id' })
    await search.fill(` ${id} `)
    await search.press('Enter')
    const found = page.locator('.found')
    await found.locator('.candidates').waitFor(slow)
    expect(await found.innerText()).toContain(id)
    expect(await found.locator('.sentence').innerText()).toMatch(/^predicted chose \S+/)
    await search.fill('no-such-request')
    await search.press('Enter')
    await found.getByRole('alert').waitFor(slow)
    await found.getByRole('button', { name: 'close' }).click()
    expect(await found.count()).toBe(0)
  })

  it('the dashboard of a fleet with traffic shows the rate, TTFT percentiles and KV use of all engines in its first row', async () => {
    const { page } = await open(`${world.url}/dashboard`)
    await isLive(page)
    const figure = (name: string) => page.locator(`[data-figure="${name}"] dd`).first()
    await world.chat(12)
    await expect.poll(async () => Number(await figure('requests_per_s').innerText()), slow).toBeGreaterThan(0)
    await expect.poll(() => figure('ttft_p99_ms').innerText(), slow).toMatch(/^[\d.]+ m?s$/)
    expect(await figure('kv_usage').innerText()).toMatch(/^\d+%$/)
    await expect.poll(() => figure('failed_share').innerText(), slow).toMatch(/^[\d.]+%$/)
  })

  it('the dashboard of a fleet with traffic splits the time to the first token into stages that add up to it', async () => {
    const { page } = await open(`${world.url}/dashboard`)
    await isLive(page)
    const bars = page.locator('.waterfall:not(.quantiles) li')
    await bars.first().waitFor(slow)
    const split: string[] = []
    for (const bar of await bars.all()) {
      const words = (await bar.locator('.bar').getAttribute('aria-label'))!
      const sum = words
        .split(', ')
        .flatMap((span) => / ([\d.]+) ms$/.exec(span)?.[1] ?? [])
        .reduce((total, ms) => total + Number(ms), 0)
      expect(Math.abs(sum - Number.parseFloat(await bar.locator('.total').innerText()))).toBeLessThan(3)
      if (words.includes('prefill leg')) split.push(await bar.locator('.who').innerText())
    }
    for (const who of split) expect(who).toBe('prefill → decode')
    expect(await page.locator('figcaption').first().innerText()).toMatch(
      /^\d+% within 10%, \d+% too low, \d+% too high; \d+ requests in/,
    )
  })

  it('the dashboard of a fleet with traffic shows cached tokens of whole requests, and none if the prefill ran elsewhere', async () => {
    const { page } = await open(`${world.url}/dashboard`)
    await isLive(page)
    const done = page.locator('tr[data-decision]', { hasText: 'complete' })
    await done.first().waitFor(slow)
    const shown = await done.evaluateAll((rows) =>
      rows.map((line) => ({ engine: line.children[1]!.textContent, cached: line.children[4]!.textContent })),
    )
    for (const { engine, cached } of shown)
      expect({ engine, cached }).toEqual({
        engine,
        cached: expect.stringMatching(engine === 'prefill → decode' ? / \/ –$/ : / \/ [\d,]+$/),
      })
    const whole = shown.some(({ engine }) => engine !== 'prefill → decode')
    const figure = page.locator('figure').nth(1)
    if (whole) expect(await figure.innerText()).toMatch(/error [\d,]+ tokens median/)
    else expect(await figure.innerText()).toContain('whose prefill was elsewhere')
  })

  it.each(['light', 'dark'] as const)(
    'the dashboard of a fleet with traffic is readable in %s: every text stands out 4.5 to 1 from what is behind it',
    async (colorScheme) => {
      const { page } = await open(`${world.url}/dashboard`, { colorScheme })
      await isLive(page)
      const [r] = /\d+/.exec(await page.evaluate<string>('getComputedStyle(document.body).backgroundColor'))!
      expect(Number(r) > 128).toBe(colorScheme === 'light')
      expect((await minContrast(page)).ratio, JSON.stringify(await minContrast(page))).toBeGreaterThanOrEqual(4.5)
    },
  )

  it('the dashboard of a fleet with traffic needs no sideways scroll at any width, open decisions included', async () => {
    const { page } = await open(`${world.url}/dashboard`)
    await isLive(page)
    for (const isOpen of [false, true]) {
      if (isOpen) {
        await page.locator('tr[data-decision] button').first().click()
        await page.locator('.candidates').waitFor(slow)
      }
      for (const width of [320, 360, 1000, 1230]) {
        await page.setViewportSize({ width, height: 740 })
        expect(await overflow(page), `${width} px`).toBeLessThanOrEqual(0)
      }
    }
  })

  it('the dashboard of a fleet with traffic works by keyboard and labels its tables', async () => {
    const { page } = await open(`${world.url}/dashboard`)
    await isLive(page)
    const head = page.getByRole('columnheader', { name: 'requests' })
    await head.getByRole('button').focus()
    await page.keyboard.press('Enter')
    expect(await head.getAttribute('aria-sort')).toBe('descending')
    const totals = (await page.locator('[data-label="requests"]').allInnerTexts()).map(Number)
    expect(totals).toEqual(totals.toSorted((a, b) => b - a))
    for (const table of await page.getByRole('table').all()) expect(await table.locator('caption').count()).toBe(1)
    for (const field of await page.locator('input, select').all())
      expect(await field.getAttribute('aria-label')).not.toBeNull()
  })

  it('the dashboard of a fleet with traffic closes the feed while the page is hidden', async () => {
    const { page } = await open(`${world.url}/dashboard`)
    await isLive(page)
    const hide = (hidden: boolean) =>
      page.evaluate(
        `Object.defineProperty(document, 'hidden', { value: ${hidden}, configurable: true }); document.dispatchEvent(new Event('visibilitychange'))`,
      )
    await hide(true)
    await page.locator('.link.paused').waitFor(slow)
    await hide(false)
    await isLive(page)
  })

  it('the dashboard of a fleet with traffic reports a lost gateway, keeps the last data, and recovers', async () => {
    const { page } = await open(`${world.url}/dashboard`)
    await isLive(page)
    await world.stopGateway()
    await page.getByRole('alert').filter({ hasText: 'The gateway does not answer' }).waitFor(slow)
    expect(await page.locator('tr[data-engine]').count()).toBe(5)
    await world.startGateway()
    await page.locator('.link.live').waitFor({ timeout: 40_000 })
    expect(await page.getByRole('alert').count()).toBe(0)
  })

  it('the dashboard of a fleet with traffic shows that an engine dies and recovers', async () => {
    const { page } = await open(`${world.url}/dashboard`)
    await isLive(page)
    expect(await cell(page, 'engine-1', 'state').innerText()).toBe('up')
    const fault = (init: RequestInit) =>
      fetch(`${world.fleet.controlUrl}/_sim/engines/engine-1/fault`, {
        headers: { 'content-type': 'application/json' },
        ...init,
      })
    await fault({ method: 'PUT', body: '{"kind":"refuse"}' })
    await cell(page, 'engine-1', 'state').getByText('unhealthy').waitFor(slow)
    expect(await page.locator('.dots').first().getAttribute('aria-label')).toBe('2 of 3 engines up')
    await fault({ method: 'DELETE' })
    await cell(page, 'engine-1', 'state').getByText('up', { exact: true }).waitFor(slow)
  })

  it('the dashboard of a fleet with traffic reports a silent gateway on both pages if the network drops all packets, and recovers', async () => {
    const network = await startNetwork(world.url)
    const { page } = await open(`${network.url}/dashboard`)
    const { page: welcome } = await open(`${network.url}/health`)
    await isLive(page)
    let polls = 0
    await welcome.route('**/fleet', (route) => {
      if (polls++ === 0) network.swallow(true)
      return route.continue()
    })
    await welcome.goto(network.url)
    const state = welcome.locator('#state')
    await Promise.all([
      page.getByRole('alert').filter({ hasText: 'No data from the gateway for 10 seconds' }).waitFor(slow),
      state.getByText('the gateway does not answer').waitFor(slow),
    ])
    expect(await page.locator('.link').innerText()).toBe('not connected')
    // One at a time.
    expect(polls).toBe(1)
    network.swallow(false)
    await Promise.all([isLive(page), state.getByText('5 of 5 engines up · sim').waitFor(slow)])
    expect(await page.getByRole('alert').count()).toBe(0)
    await network.close()
  })

  it('the dashboard of a fleet with traffic is linked from the welcome page, whose examples run as copied', async () => {
    const { page } = await open(world.url)
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await page.locator('#state').getByText('5 of 5 engines up').waitFor(slow)
    expect(await page.locator('table').count()).toBe(0)
    expect(await overflow(page)).toBeLessThanOrEqual(0)
    await page.getByRole('button', { name: 'Copy curl' }).click()
    await page.getByText('Copied').waitFor(slow)
    const command = await page.evaluate<string>('navigator.clipboard.readText()')
    expect((await run('sh', ['-c', `${command} -s`])).stdout).toContain('data: [DONE]')
    await page.getByRole('button', { name: 'Copy script' }).click()
    await expect.poll(() => page.evaluate<string>('navigator.clipboard.readText()'), slow).toContain('"sim"')
    const script = await page.evaluate<string>('navigator.clipboard.readText()')
    const cwd = new URL('../..', import.meta.url)
    expect((await run('node', ['--input-type=module', '-e', script], { cwd })).stdout).not.toBe('')
    await page.getByRole('link', { name: 'Open the dashboard' }).click()
    await isLive(page)
  })

  it('the dashboard of a fleet with traffic has a welcome page without a sideways scroll at any width, readable', async () => {
    const { page } = await open(world.url)
    await page.locator('#state').getByText('5 of 5 engines up').waitFor(slow)
    for (const width of [320, 1280]) {
      await page.setViewportSize({ width, height: 740 })
      expect(await overflow(page), `${width} px`).toBeLessThanOrEqual(0)
      expect((await minContrast(page)).ratio, JSON.stringify(await minContrast(page))).toBeGreaterThanOrEqual(4.5)
    }
  })
})

describe('the dashboard of a gateway with an admin key', { timeout: 90_000 }, () => {
  let world: World

  beforeAll(async () => {
    world = await startWorld([{ id: 'paris', engines: ids(1) }], { locked: true })
  })

  afterAll(() => world.close())

  it('the dashboard of a gateway with an admin key requires the key, rejects a wrong one, and stores the right one in this tab only', async () => {
    const { page } = await open(`${world.url}/dashboard`)
    const addresses: string[] = []
    page.on('request', (request) => addresses.push(request.url()))
    await page.getByLabel('Admin key').fill('wrong-key')
    await page.getByRole('button', { name: 'Show the fleet' }).click()
    await page.getByRole('alert').filter({ hasText: 'Invalid admin key.' }).waitFor(slow)
    await page.getByLabel('Admin key').fill(adminKey)
    await page.getByLabel('Admin key').press('Enter')
    await row(page, 'engine-0').waitFor(slow)
    expect(await page.evaluate('[localStorage.length, sessionStorage.length, document.cookie]')).toEqual([0, 1, ''])
    await page.reload()
    await row(page, 'engine-0').waitFor(slow)
    expect(addresses.filter((address) => address.includes(adminKey) || address.includes('?'))).toEqual([])
    await page.getByRole('button', { name: 'Forget key' }).click()
    await page.getByLabel('Admin key').waitFor(slow)
    expect(await page.evaluate('sessionStorage.length')).toBe(0)
    expect(await page.locator('tr[data-engine]').count()).toBe(0)
  })

  it('the dashboard of a gateway with an admin key opens the welcome page with the key, and the dashboard from there without requiring it again', async () => {
    const { page } = await open(world.url)
    await expect
      .poll(() => page.locator('#state').innerText(), slow)
      .toBe('locked: enter admin.secret of the configuration')
    await page.getByLabel('Admin key').fill(adminKey)
    await page.getByRole('button', { name: 'Show the fleet' }).click()
    await page.locator('#state').getByText('1 of 1 engine up').waitFor(slow)
    expect(await page.locator('#unlock').isVisible()).toBe(false)
    await page.getByRole('link', { name: 'Open the dashboard' }).click()
    await row(page, 'engine-0').waitFor(slow)
  })

  it('the dashboard of a gateway with an admin key shows the next step if there is no traffic yet', async () => {
    const { page } = await open(`${world.url}/dashboard`)
    await page.getByLabel('Admin key').fill(adminKey)
    await page.getByLabel('Admin key').press('Enter')
    await row(page, 'engine-0').waitFor(slow)
    const empty = (await page.locator('.empty').allInnerTexts()).join('\n')
    for (const step of ['Send one with “stream”: true', '--enable-prompt-tokens-details', '/v1/chat/completions'])
      expect(empty).toContain(step)
    await page.getByRole('searchbox', { name: 'Filter engines' }).fill('nothing is called this')
    expect(await page.locator('.empty').first().innerText()).toBe('No engine matches. Change the filter.')
  })
})

describe('the dashboard of 200 engines', { timeout: 120_000 }, () => {
  let world: World

  beforeAll(async () => {
    const engines = ids(200)
    world = await startWorld(
      [
        { id: 'paris', engines: engines.slice(0, 120) },
        { id: 'tokyo', engines: engines.slice(120) },
      ],
      { statsIntervalMs: 30_000 },
    )
    await world.chat(20)
  })

  afterAll(() => world.close())

  it('the dashboard of 200 engines shows them all, sorts and filters them, and stays live', async () => {
    const { page } = await open(`${world.url}/dashboard`)
    await isLive(page)
    expect(await page.locator('.dot').count()).toBe(200)
    expect(await page.locator('tr[data-engine]').count()).toBe(50)
    await page.getByRole('button', { name: 'Show all 200' }).click()
    expect(await page.locator('tr[data-engine]').count()).toBe(200)
    await page.getByRole('searchbox', { name: 'Filter engines' }).fill('tokyo engine-19')
    expect(await page.locator('tr[data-engine]').count()).toBe(10)
    await page.getByRole('searchbox', { name: 'Filter engines' }).fill('')
    await page.getByRole('columnheader', { name: 'requests' }).getByRole('button').click()
    const total = async () => Number(await page.locator('[data-label="requests"]').first().innerText())
    const before = await total()
    await expect.poll(async () => (await world.chat(4), total()), { timeout: 60_000 }).toBeGreaterThan(before)
  })

  it('the dashboard of 200 engines fits a phone', async () => {
    const { page } = await open(`${world.url}/dashboard`, { viewport: { width: 390, height: 844 } })
    await isLive(page)
    expect(await overflow(page)).toBeLessThanOrEqual(0)
  })
})

describe('the dashboard of 64 engines with long names', { timeout: 90_000 }, () => {
  const long = (index: number) => `qwen3-235b-a22b-instruct-2507-fp8-tp8.gpu-node-${index}.eu-west-3-`.padEnd(63, 'x')
  let world: World

  beforeAll(async () => {
    world = await startWorld(
      [
        {
          id: 'a-cluster-whose-name-is-as-long-as-it-may-be-0123456789',
          engines: Array.from({ length: 64 }, (_, index) => ({ id: long(index) })),
        },
      ],
      { statsIntervalMs: 30_000 },
    )
    await world.chat(6)
  })

  afterAll(() => world.close())

  it.each([320, 1280])(
    'the dashboard of 64 engines with long names needs no sideways scroll at %i pixels, and says every name whole',
    async (width) => {
      const { page } = await open(`${world.url}/dashboard`, { viewport: { width, height: 800 } })
      await isLive(page)
      await page.locator('tr[data-decision] button').first().click()
      await page.locator('.candidates').waitFor(slow)
      expect(await overflow(page)).toBeLessThanOrEqual(0)
      expect(await page.locator('th[scope="row"] .name').first().innerText()).toBe(long(0))
      const clipped = await page.evaluate<number>(
        "[...document.querySelectorAll('th[scope=row] .name')].filter((name) => name.scrollWidth > name.clientWidth + 1 && name.clientWidth > 0 && !name.title && getComputedStyle(name).overflow !== 'visible').length",
      )
      expect(clipped).toBe(0)
    },
  )
})

describe('the dashboard of the built Worker (npm run build:worker) under workerd', { timeout: 90_000 }, () => {
  let fleet: RunningFleet
  let edge: Edge

  beforeAll(async () => {
    fleet = await startDemoFleet(2)
    const document = {
      ...demoDocument(fleet),
      open: true,
      admin: { secret: adminKey },
      version: 1,
      log: { level: 'silent' },
    }
    edge = await startEdge({ port: 0, bindings: { FIRSTLIGHT_CONFIG: JSON.stringify(document) } })
  })

  afterAll(async () => {
    await edge.stop()
    await fleet.close()
  })

  it('the dashboard of the built Worker (npm run build:worker) under workerd is live from the cluster’s object, for two viewers at once', async () => {
    const pages = await Promise.all([open(`${edge.url}/dashboard`), open(`${edge.url}/dashboard`)])
    for (const { page } of pages) {
      await page.getByLabel('Admin key').fill(adminKey)
      await page.getByLabel('Admin key').press('Enter')
      await row(page, 'engine-0').waitFor(slow)
    }
    await chat(edge.url, 8, 2)
    for (const { page } of pages) {
      const total = async () =>
        (await page.locator('[data-label="requests"]').allInnerTexts()).reduce((sum, text) => sum + Number(text), 0)
      await expect.poll(total, slow).toBe(8)
      await expect.poll(() => page.locator('tr[data-decision]').count(), slow).toBe(8)
    }
    const [{ page }] = pages as [Watched, Watched]
    await page.getByRole('button', { name: 'drain engine-1', exact: true }).click()
    await expect.poll(() => cell(page, 'engine-1', 'state').innerText(), slow).toBe('draining')
    const past = page.locator('[data-figure="requests_per_s"] .past .area, [data-figure="ttft_p95_ms"] .past .area')
    await expect.poll(() => past.count(), slow).toBe(2)
    // The object keeps the history, so that it is in the first view of a page that is loaded later.
    const { page: later } = pages[1]!
    await later.reload()
    await row(later, 'engine-0').waitFor(slow)
    expect(await later.locator('.past .area').count()).toBeGreaterThanOrEqual(4)
    expect(await later.locator('.quantiles .bar i').count()).toBeGreaterThanOrEqual(4)
  })
})
