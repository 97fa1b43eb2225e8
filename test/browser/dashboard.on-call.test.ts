/** The dashboard as the page of whoever is on call: under load with long streams, and with several problems at once. */
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startRecordedWorld, type RecordedWorld } from './recorded.ts'
import { minContrast } from './contrast.ts'
import { openBrowser, openPage, type Watched } from './world.ts'

const ids = (count: number, name: string) => Array.from({ length: count }, (_, index) => ({ id: `${name}-${index}` }))
const slow = { timeout: 20_000 }

let browser: Browser

beforeAll(async () => {
  browser = await openBrowser()
})

afterAll(() => browser.close())

async function openLive(world: RecordedWorld, options: Parameters<typeof openPage>[2] = {}): Promise<Watched> {
  const watched = await openPage(browser, `${world.url}/dashboard`, options)
  await watched.page.locator('.link.live').waitFor(slow)
  return watched
}

const figure = (page: Page, name: string) => page.locator(`[data-figure="${name}"] dd`).first().innerText()
const numberIn = (text: string): number => Number(/[\d,.]+/.exec(text)![0].replaceAll(',', ''))
const overflow = (page: Page) => page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')

describe.each([1, 20, 500])('the dashboard at %i requests/s with streams of 20 s', { timeout: 60_000 }, (perS) => {
  const streamS = 20
  const lastS = 45
  let world: RecordedWorld
  let watched: Watched
  let page: Page

  beforeAll(async () => {
    world = await startRecordedWorld([{ id: 'paris', engines: ids(8, 'engine') }], {
      requestsPerS: perS,
      streamS,
      lastS,
    })
    watched = await openLive(world)
    ;({ page } = watched)
  }, 60_000)

  afterAll(async () => {
    expect([watched.errors, await watched.violations()]).toEqual([[], []])
    await page.context().close()
    await world.close()
  })

  it('the dashboard under load shows rates, running requests, TTFT, queue and KV use of all requests, each with its past', async () => {
    const within = (value: number, expected: number) => {
      expect(value).toBeGreaterThan(0.8 * expected)
      expect(value).toBeLessThan(1.2 * expected)
    }
    within(numberIn(await figure(page, 'requests_per_s')), perS)
    within(numberIn(await figure(page, 'output_tokens_per_s')), perS * streamS * 32)
    within(
      numberIn(
        await page
          .getByText(/requests running/)
          .first()
          .innerText(),
      ),
      perS * streamS,
    )
    // The engines take 172 to 533 ms, and three times as long for one request in 97.
    const ttft = await Promise.all(
      ['p50', 'p95', 'p99'].map(async (at) => numberIn(await figure(page, `ttft_${at}_ms`))),
    )
    expect(ttft).toEqual(ttft.toSorted((a, b) => a - b))
    within(ttft[0]!, 330)
    expect(ttft[2]!).toBeLessThan(1600)
    expect(await figure(page, 'kv_usage')).toMatch(/^[1-9]\d?%$/)
    expect(await page.locator('#verdict').innerText()).toMatch(/^The fleet is healthy/)
    for (const name of [
      'requests_per_s',
      'output_tokens_per_s',
      'ttft_p50_ms',
      'ttft_p95_ms',
      'ttft_p99_ms',
      'kv_usage',
    ])
      expect(await page.locator(`[data-figure="${name}"] .past .area`).count(), name).toBe(1)
  })

  it('the dashboard under load shows stages, prediction and decisions although nearly all requests still stream', async () => {
    expect(await page.locator('.quantiles .bar i').count()).toBeGreaterThanOrEqual(8)
    await expect.poll(() => page.locator('.waterfall:not(.quantiles) li').count(), slow).toBe(14)
    const caption = await page.locator('figcaption').first().innerText()
    expect(numberIn(/; (.*) requests in/.exec(caption)![1]!)).toBeGreaterThan(0.9 * perS * lastS)
    expect(await page.locator('tr[data-decision]').count()).toBe(20)
    const results = await page.locator('[data-label="result"]').allInnerTexts()
    expect(results.filter((text) => !/^(streaming|waiting|complete)$/.test(text))).toEqual([])
    expect(results).toContain('streaming')
  })

  it('the dashboard under load explains a request that still streams, and stays so while newer ones start', async () => {
    // In one step: a newer decision may take the place of the first at any time.
    const id = await page.evaluate<string>(`(() => {
      const line = document.querySelector('tr[data-decision]')
      line.querySelector('button').click()
      return line.dataset.decision
    })()`)
    await page.locator('.sentence').waitFor(slow)
    const seen = await figure(page, 'requests_per_s')
    await expect.poll(() => figure(page, 'requests_per_s'), slow).not.toBe(perS === 1 ? '' : seen)
    expect(await page.locator('tr.why').innerText()).toContain(id)
    expect(await overflow(page)).toBeLessThanOrEqual(0)
  })
})

describe('the dashboard of two clusters with 64 engines and several problems', { timeout: 60_000 }, () => {
  let world: RecordedWorld

  beforeAll(async () => {
    world = await startRecordedWorld(
      [
        { id: 'paris', region: 'eu-west', engines: ids(32, 'paris') },
        { id: 'tokyo', region: 'ap-northeast', engines: ids(32, 'tokyo') },
      ],
      { requestsPerS: 64, streamS: 20, lastS: 45 },
    )
    await fetch(`${world.url}/v1/firstlight/engines/tokyo-3/drain?cluster=tokyo`, { method: 'POST' })
    await fetch(`${world.fleet.controlUrl}/_sim/engines/paris-7/fault`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: '{"kind":"refuse"}',
    })
    world.gateway.configRefused(Date.now())
  }, 60_000)

  afterAll(() => world.close())

  it.each([390, 1280])(
    'the dashboard of 64 engines answers at %i px in its first line: what is wrong, and where to look',
    async (width) => {
      const { page } = await openLive(world, { viewport: { width, height: 844 } })
      const verdict = page.locator('#verdict')
      await verdict.getByText('2 problems').waitFor(slow)
      expect(await verdict.getByRole('link').allInnerTexts()).toEqual(['configuration', 'paris-7'])
      expect((await verdict.boundingBox())!.y).toBeLessThan(200)
      expect(await overflow(page)).toBeLessThanOrEqual(0)
      await verdict.getByRole('link', { name: 'paris-7' }).click()
      expect(await page.locator('tr:target').getAttribute('data-engine')).toBe('paris-7')
      await page.context().close()
    },
  )

  it('the dashboard of 64 engines shows what needs attention before the figures on a phone, and uses a wide screen', async () => {
    const { page } = await openLive(world, { viewport: { width: 390, height: 844 } })
    await page.locator('.concerns li').first().waitFor(slow)
    const box = async (selector: string) => (await page.locator(selector).boundingBox())!
    expect((await box('.attention')).y).toBeLessThan((await box('.tiles')).y)
    await page.setViewportSize({ width: 1920, height: 1080 })
    expect((await box('main')).width).toBeGreaterThan(1800)
    const [stages, prediction] = [
      await box('[aria-labelledby="waterfall"]'),
      await box('[aria-labelledby="prediction"]'),
    ]
    expect(prediction.x).toBeGreaterThan(stages.x + stages.width)
    expect(await overflow(page)).toBeLessThanOrEqual(0)
    await page.context().close()
  })

  it('the dashboard of 64 engines explains its columns in tooltips, and those of the cost of a decision', async () => {
    const { page } = await openLive(world)
    for (const head of await page.locator('.engines thead button').all())
      expect(await head.getAttribute('title')).toBeTruthy()
    await page.locator('tr[data-decision] button').first().click()
    await page.locator('.candidates').waitFor(slow)
    const heads = await page.locator('.candidates thead th').all()
    expect(heads.length).toBeGreaterThan(5)
    for (const head of heads.slice(1)) expect(await head.getAttribute('title')).toBeTruthy()
    await page.context().close()
  })

  it('the dashboard of 64 engines lists each problem with its reason, start and next step, and no intended drain', async () => {
    const { page } = await openLive(world)
    await page.locator('.concerns li').nth(1).waitFor(slow)
    const listed = await page.locator('.concerns li').allInnerTexts()
    expect(listed).toHaveLength(2)
    expect(listed[0]).toMatch(/^configuration: .* version 1 stays active\. Since \d\d:\d\d:\d\d\. Run firstlight check/)
    expect(listed[1]).toMatch(
      /^paris-7: health checks fail \(no connection\)\. Since .*run firstlight doctor\. Runbook$/,
    )
    const opened = page.context().waitForEvent('page')
    await page.locator('.concerns li').nth(1).getByRole('link', { name: 'Runbook' }).click()
    const runbook = await opened
    expect(await runbook.locator('h2:target').innerText()).toBe('Engine unhealthy')
    for (const width of [320, 1280]) {
      await runbook.setViewportSize({ width, height: 740 })
      expect(await overflow(runbook)).toBeLessThanOrEqual(0)
    }
    expect((await minContrast(runbook)).ratio).toBeGreaterThanOrEqual(4.5)
    await page.context().close()
  })

  it('the dashboard of 64 engines counts and marks the engines by state, with the reason in the row', async () => {
    const { page } = await openLive(world)
    await page.getByText('62 of 64', { exact: true }).waitFor(slow)
    expect(
      await page.locator('.dots').evaluateAll((all) => all.map((dots) => dots.getAttribute('aria-label'))),
    ).toEqual(['31 of 32 engines up', '31 of 32 engines up'])
    expect(await page.locator('.dot').count()).toBe(64)
    expect(await page.locator('.dot.unhealthy, .dot.draining').count()).toBe(2)
    await page.getByRole('combobox', { name: 'Filter by state' }).selectOption('trouble')
    expect(await page.locator('tr[data-engine] [data-label="state"]').allInnerTexts()).toEqual([
      expect.stringMatching(/^unhealthy\s+no connection$/),
      'draining',
    ])
    await page.context().close()
  })
})

it('the dashboard shows values that the metrics of an engine no longer confirm in grey, with their age', async () => {
  const world = await startRecordedWorld([{ id: 'paris', engines: ids(2, 'engine') }], {
    requestsPerS: 1,
    streamS: 1,
    lastS: 90,
    withoutMetrics: 'engine-1',
  })
  try {
    const { page } = await openLive(world)
    const usageOf = (engine: string) => page.locator(`tr[data-engine="${engine}"] [data-label="KV use"]`)
    const grey = usageOf('engine-1').locator('.stale')
    await grey.waitFor(slow)
    expect(await grey.getAttribute('title')).toMatch(/^The metrics of this engine are (9|1\d)\d s old\.$/)
    const colourOf = (selector: string) =>
      page.evaluate<string>(`getComputedStyle(document.querySelector('${selector}')).color`)
    const usual = await colourOf('tr[data-engine="engine-0"] [data-label="KV use"]')
    expect(await colourOf('tr[data-engine="engine-1"] .stale')).not.toBe(usual)
    expect(await usageOf('engine-0').locator('.stale').count()).toBe(0)
    await page
      .locator('.concerns')
      .getByText(/its metrics are \d+ s old/)
      .waitFor(slow)
    await page.context().close()
  } finally {
    await world.close()
  }
})
