/**
 * `npm run screenshots`: takes the pictures of docs/dashboard.md in a real browser, with simulated engines and
 * traffic.
 */
import type { Page } from 'playwright-core'
import { startRecordedWorld } from '../test/browser/recorded.ts'
import { chat, openBrowser, openPage } from '../test/browser/world.ts'
import { shoot } from './screenshot.ts'

const whole = ['paris-0', 'paris-1', 'paris-2', 'paris-3'].map((id) => ({ id }))
const split = [
  { id: 'tokyo-p0', role: 'prefill' },
  { id: 'tokyo-p1', role: 'prefill' },
  { id: 'tokyo-d0', role: 'decode' },
  { id: 'tokyo-d1', role: 'decode' },
] as const

/** Traffic that rises and falls, as by day and night. */
const shareAt = (second: number): number => 0.75 + 0.25 * Math.sin(second / 140)

const world = await startRecordedWorld(
  [
    { id: 'paris', region: 'eu-west', engines: whole },
    { id: 'tokyo', region: 'ap-northeast', engines: split },
  ],
  { requestsPerS: 24, streamS: 12, lastS: 920, shareAt },
)
const browser = await openBrowser()
const open = async (scheme: 'light' | 'dark', width: number, height: number): Promise<Page> => {
  const { page } = await openPage(browser, `${world.url}/dashboard`, {
    viewport: { width, height },
    colorScheme: scheme,
  })
  await page.locator('.waterfall').first().waitFor()
  return page
}
try {
  const light = await open('light', 1280, 940)
  await chat(world.url, 40, 4)
  // Ended requests are a point of the chart only after their step of 10 s.
  await light.waitForTimeout(11_000)
  await shoot(light, 'dashboard-light.png')
  await fetch(`${world.url}/v1/firstlight/engines/paris-3/drain`, { method: 'POST' })
  await fetch(`${world.fleet.controlUrl}/_sim/engines/paris-1/fault`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: '{"kind":"refuse"}',
  })
  world.gateway.configRefused(Date.now() - 120_000)
  await light.getByText('no connection').first().waitFor()
  await shoot(light, 'dashboard-problems.png')
  await light.close()
  const dark = await open('dark', 1280, 940)
  await dark.locator('tr[data-decision] button').first().click()
  await dark.locator('.candidates').waitFor()
  await dark.locator('#waterfall').evaluate((heading) => heading.scrollIntoView())
  await dark.waitForTimeout(1500)
  await shoot(dark, 'dashboard-dark.png')
  await dark.close()
  const phone = await open('light', 390, 844)
  await phone.waitForTimeout(500)
  await shoot(phone, 'dashboard-phone.png')
} finally {
  await browser.close()
  await world.close()
}
