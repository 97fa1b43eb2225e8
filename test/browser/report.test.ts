import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { firstlight } from '../cli/run-cli.ts'
import { openBrowser } from './world.ts'

const folder = mkdtempSync(join(tmpdir(), 'report-'))
let browser: Browser
let page: Page

beforeAll(async () => {
  const rows = Array.from({ length: 60 }, (_, row) => ({
    timestamp: row * 200,
    input_length: 2100,
    output_length: 9,
    hash_ids: [row % 5, row + 10, row + 80],
  }))
  const trace = join(folder, 'trace.jsonl')
  writeFileSync(trace, rows.map((row) => JSON.stringify(row)).join('\n'))
  const html = join(folder, 'report.html')
  const { code } = await firstlight('replay', '--trace', trace, '--policies', 'all', '--seeds', '1,2', '--html', html)
  expect(code).toBe(0)
  browser = await openBrowser()
  page = await browser.newPage({ viewport: { width: 1280, height: 900 } })
  await page.goto(pathToFileURL(html).href)
})

afterAll(async () => {
  await browser.close()
  rmSync(folder, { recursive: true })
})

describe('the HTML report of a replay', () => {
  it('has no horizontal scroll bar at 1280 px, with all policies and seeds', async () => {
    const overflows = await page.evaluate<number[]>(
      '[document.documentElement, ...document.querySelectorAll(".scroll")].map((e) => e.scrollWidth - e.clientWidth)',
    )
    expect(overflows).toEqual([0, 0])
  })

  it('hides and shows the lines of a policy', async () => {
    const line = page.locator('svg path.s0p0').first()
    const box = page.locator('#s0p0')
    expect(await line.isVisible()).toBe(true)
    await box.uncheck()
    expect(await line.isVisible()).toBe(false)
    expect(await page.locator('svg path.s0p1').first().isVisible()).toBe(true)
    await box.check()
    expect(await line.isVisible()).toBe(true)
  })
})
