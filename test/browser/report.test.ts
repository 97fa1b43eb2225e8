import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startFleet, type RunningFleet } from '../../packages/simulator/src/node/fleet-host.ts'
import { firstlight } from '../cli/run-cli.ts'
import { startNodeGateway, type NodeGateway } from '../kit/node-gateway.ts'
import { openBrowser } from './world.ts'

const folder = mkdtempSync(join(tmpdir(), 'report-'))
const policies = ['--policies', 'all', '--seeds', '1,2']
let browser: Browser
let gateway: NodeGateway
let fleet: RunningFleet

/** Runs a command with a trace of 60 requests, and opens its report. */
async function reportOf(...argv: string[]): Promise<Page> {
  const rows = Array.from({ length: 60 }, (_, row) => ({
    timestamp: row * (argv[0] === 'load' ? 10 : 200),
    input_length: 2100,
    output_length: 9,
    hash_ids: [row % 5, row + 10, row + 80],
  }))
  const trace = join(folder, 'trace.jsonl')
  writeFileSync(trace, rows.map((row) => JSON.stringify(row)).join('\n'))
  const html = join(folder, `${argv[0]}.html`)
  const { code, err } = await firstlight(...argv, '--trace', trace, '--html', html)
  expect({ code, err }).toMatchObject({ code: 0 })
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } })
  await page.goto(pathToFileURL(html).href)
  return page
}

beforeAll(async () => {
  browser = await openBrowser()
  fleet = await startFleet({ engines: 8, profile: 'test', model: 'sim' })
  const engines = fleet.urls.map((url, index) => ({ id: `an-engine-with-a-long-name-${index}`, url }))
  gateway = await startNodeGateway({ open: true, clusters: [{ id: 'c', pools: [{ model: 'sim', engines }] }] })
})

afterAll(async () => {
  await browser.close()
  await gateway.close()
  await fleet.close()
  rmSync(folder, { recursive: true })
})

describe.each([
  ['replay', true, () => reportOf('replay', ...policies)],
  ['load', false, () => reportOf('load', '--url', gateway.url, '--model', 'sim', '--slo-ttft-ms', '500')],
])('the HTML report of %s', (_, hasPolicies, openReport) => {
  let page: Page

  beforeAll(async () => void (page = await openReport()))

  it('the HTML report has no horizontal scroll bar at 1280 px, with all rows and columns', async () => {
    const overflows = await page.evaluate<number[]>(
      '[document.documentElement, ...document.querySelectorAll(".scroll")].map((e) => e.scrollWidth - e.clientWidth)',
    )
    expect(overflows).toEqual([0, 0])
  })

  it('the HTML report names its command, version, trace hash, profile or gateway, and date', async () => {
    const about = await page.locator('.about').innerText()
    expect(about).toMatch(/firstlight (replay|load) /)
    expect(about).toMatch(/\b0\.1\.0\b/)
    expect(about).toMatch(/\b[0-9a-f]{64}\b/)
    expect(about).toMatch(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/)
  })

  it('the HTML report hides and shows a line of its plots', async () => {
    const line = page.locator('svg path.s0p0').first()
    const box = page.locator('#s0p0')
    expect(await line.isVisible()).toBe(true)
    await box.uncheck()
    expect(await line.isVisible()).toBe(false)
    if (hasPolicies) expect(await page.locator('svg path.s0p1').first().isVisible()).toBe(true)
    await box.check()
    expect(await line.isVisible()).toBe(true)
  })
})
