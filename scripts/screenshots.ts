/**
 * `npm run screenshots`: takes the pictures of docs/dashboard.md in a real browser, with simulated engines and
 * traffic.
 */
import { mkdirSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import { openBrowser, openPage, startWorld } from '../test/browser/world.ts'

const folder = new URL('../docs/images/', import.meta.url)
const limitBytes = 150_000

const whole = ['paris-0', 'paris-1', 'paris-2', 'paris-3'].map((id) => ({ id }))
const split = [
  { id: 'tokyo-p0', role: 'prefill' },
  { id: 'tokyo-p1', role: 'prefill' },
  { id: 'tokyo-d0', role: 'decode' },
  { id: 'tokyo-d1', role: 'decode' },
] as const

async function shoot(page: Page, name: string): Promise<void> {
  const path = fileURLToPath(new URL(name, folder))
  await page.screenshot({ path })
  const { size } = statSync(path)
  console.log(`docs/images/${name}: ${Math.round(size / 1000)} kB`)
  if (size > limitBytes)
    throw new Error(`${name} has ${size} bytes; pictures in the documentation have at most ${limitBytes}`)
}

mkdirSync(folder, { recursive: true })
const world = await startWorld([
  { id: 'paris', region: 'eu-west', engines: whole },
  { id: 'tokyo', region: 'ap-northeast', engines: split },
])
const browser = await openBrowser()
try {
  await world.chat(120, 4)
  await fetch(`${world.url}/v1/firstlight/engines/paris-3/drain`, { method: 'POST' })
  const traffic = world.chat(240, 4)
  const { page } = await openPage(browser, `${world.url}/dashboard`, { viewport: { width: 1280, height: 1000 } })
  await page.locator('.waterfall').first().waitFor()
  await page.waitForTimeout(3000)
  await shoot(page, 'dashboard-light.png')
  await page.emulateMedia({ colorScheme: 'dark' })
  await page.locator('tr[data-decision] button').first().click()
  await page.locator('.candidates').waitFor()
  await page.locator('#waterfall').evaluate((heading) => heading.scrollIntoView())
  await page.waitForTimeout(1500)
  await shoot(page, 'dashboard-dark.png')
  const phone = await openPage(browser, `${world.url}/dashboard`, { viewport: { width: 390, height: 844 } })
  await phone.page.locator('.waterfall').first().waitFor()
  await phone.page.locator('.engines').evaluate((table) => table.scrollIntoView())
  await phone.page.waitForTimeout(500)
  await shoot(phone.page, 'dashboard-phone.png')
  await traffic
} finally {
  await browser.close()
  await world.close()
}
