/** Engines of regions in the dashboard of an edge. */
import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { minContrast } from './contrast.ts'
import { type EdgeWorld, startEdgeWorld } from './edge-world.ts'
import { chat, openBrowser, openPage, type Watched } from './world.ts'

const slow = { timeout: 20_000 }
const opened: Watched[] = []

let browser: Browser
let world: EdgeWorld

beforeAll(async () => {
  browser = await openBrowser()
  const engines = (name: string) => [{ id: `${name}-0` }, { id: `${name}-1` }]
  world = await startEdgeWorld([
    { id: 'paris', region: 'eu-west', engines: engines('paris'), isOpen: true },
    { id: 'tokyo', region: 'ap-northeast', engines: engines('tokyo'), isOpen: false },
  ])
  await chat(world.url, 12, 4)
}, 60_000)

afterEach(async () => {
  for (const { page, errors, violations } of opened.splice(0)) {
    expect(await violations()).toEqual([])
    // The browser itself logs a failed request.
    expect(errors.filter((error) => !error.includes('Failed to load resource'))).toEqual([])
    await page.context().close()
  }
})

afterAll(async () => {
  await browser.close()
  await world.close()
})

const region = (page: Page, id: string) => page.locator(`[data-region="${id}"]`)
const engine = (page: Page, id: string) => page.locator(`tr[data-region-engine="${id}"]`)
const cell = (page: Page, id: string, label: string) => engine(page, id).locator(`[data-label="${label}"]`)
const overflow = (page: Page) => page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
const focused = (page: Page) => page.evaluate<string>("document.activeElement.getAttribute('aria-label')")

/** Opens the dashboard of the edge with the engines of a region, by keyboard. */
async function openRegion(id: string, options: Parameters<typeof openPage>[2] = {}): Promise<Page> {
  const watched = await openPage(browser, `${world.url}/dashboard`, options)
  opened.push(watched)
  const { page } = watched
  const button = page.getByRole('button', { name: `engines of ${id}` })
  await button.waitFor(slow)
  await button.focus()
  await page.keyboard.press('Enter')
  expect(await button.getAttribute('aria-expanded')).toBe('true')
  return page
}

async function drainingEngines(): Promise<readonly string[]> {
  const { pools } = (await world.regions.get('paris')!.admin('fleet')) as {
    readonly pools: readonly { readonly engines: readonly { readonly id: string; readonly draining: boolean }[] }[]
  }
  return pools[0]!.engines.filter(({ draining }) => draining).map(({ id }) => id)
}

describe('a region in the dashboard of an edge', { timeout: 60_000 }, () => {
  it('a region in the dashboard of an edge opens to its engines with state, load and TTFT', async () => {
    const page = await openRegion('paris')
    await region(page, 'paris').getByText('2 of 2 engines of paris up').waitFor(slow)
    expect(await page.locator('tr[data-region-engine]').count()).toBe(2)
    expect(await cell(page, 'paris-0', 'state').innerText()).toBe('up')
    expect(await cell(page, 'paris-0', 'running').innerText()).toMatch(/^\d+$/)
    expect(await cell(page, 'paris-0', 'prefill queue').innerText()).toMatch(/^\d+ ms$/)
    expect(await region(page, 'paris').getByRole('table').locator('caption').count()).toBe(1)
    expect(await page.locator('.tiles').innerText()).toContain('regions up')
    expect(await page.locator('#prediction, [data-figure="kv_usage"]').count()).toBe(0)
    await page.getByRole('button', { name: 'engines of paris' }).click()
    expect(await region(page, 'paris').count()).toBe(0)
  })

  it('a region in the dashboard of an edge has its engines drained and undrained by keyboard, and the result in words', async () => {
    const page = await openRegion('paris')
    await page.getByRole('button', { name: 'drain paris-1 of paris', exact: true }).focus(slow)
    await page.keyboard.press('Enter')
    const result = region(page, 'paris').getByRole('status').locator('[data-result]')
    await result.getByText('paris-1 gets no new requests; none is running there.').waitFor(slow)
    await cell(page, 'paris-1', 'state').getByText('draining').waitFor(slow)
    expect(await drainingEngines()).toEqual(['paris-1'])
    await expect.poll(() => focused(page), slow).toBe('undrain paris-1 of paris')
    await page.keyboard.press('Enter')
    await result.getByText('paris-1 gets requests again.').waitFor(slow)
    await cell(page, 'paris-1', 'state').getByText('up', { exact: true }).waitFor(slow)
    expect(await drainingEngines()).toEqual([])
  })

  it('a region in the dashboard of an edge without its admin key says which setting shows its engines', async () => {
    const page = await openRegion('tokyo')
    await region(page, 'tokyo').getByText('set gateway.admin_key of the cluster').waitFor(slow)
    expect(await region(page, 'tokyo').getByRole('table').count()).toBe(0)
  })

  it.each(['light', 'dark'] as const)(
    'a region in the dashboard of an edge is readable in %s, without a sideways scroll from a phone to a desk',
    async (colorScheme) => {
      const page = await openRegion('paris', { colorScheme })
      await engine(page, 'paris-1').waitFor(slow)
      for (const width of [320, 390, 1000, 1230, 1920]) {
        await page.setViewportSize({ width, height: 800 })
        expect(await overflow(page), `${width} px`).toBeLessThanOrEqual(0)
        expect(await engine(page, 'paris-1').getByRole('button').isVisible(), `${width} px`).toBe(true)
      }
      expect((await minContrast(page)).ratio, JSON.stringify(await minContrast(page))).toBeGreaterThanOrEqual(4.5)
    },
  )

  it('a region in the dashboard of an edge that is gone says since when, keeps the last list, and explains a failed drain', async () => {
    const page = await openRegion('paris')
    await engine(page, 'paris-0').waitFor(slow)
    await world.regions.get('paris')!.stopGateway()
    await page
      .locator('tr[data-engine="paris"]')
      .getByText(/^no answer since .*\d\d:\d\d:\d\d$/)
      .waitFor(slow)
    await region(page, 'paris')
      .getByText(/^The gateway of paris has not answered since .*\d\d:\d\d:\d\d\. The list below is of/)
      .waitFor(slow)
    await page
      .locator('.attention li')
      .filter({ hasText: /the gateway of this region does not answer.*Since \d\d:\d\d:\d\d/ })
      .waitFor(slow)
    await page.setViewportSize({ width: 390, height: 844 })
    expect(await overflow(page)).toBeLessThanOrEqual(0)
    const reason = await page.locator('tr[data-engine="paris"] .reason').boundingBox()
    expect(reason!.x + reason!.width).toBeLessThanOrEqual(390)
    await page.getByRole('button', { name: 'drain paris-0 of paris', exact: true }).click()
    await engine(page, 'paris-0')
      .getByRole('alert')
      .filter({ hasText: "The gateway of cluster 'paris' cannot be reached." })
      .waitFor(slow)
  })
})
