/** Third part of `npm run screenshots`: the engines of a region in the dashboard of an edge. */
import { startEdgeWorld } from '../test/browser/edge-world.ts'
import { chat, openBrowser, openPage } from '../test/browser/world.ts'
import { LOOKS, shoot } from './screenshot.ts'

const engines = (name: string, count: number) => Array.from({ length: count }, (_, at) => ({ id: `${name}-${at}` }))
const world = await startEdgeWorld([
  { id: 'paris', region: 'eu-west', engines: engines('paris', 4), isOpen: true },
  { id: 'tokyo', region: 'ap-northeast', engines: engines('tokyo', 3), isOpen: true },
])
const browser = await openBrowser()
try {
  await chat(world.url, 80, 8)
  for (const [suffix, colorScheme, width, height] of LOOKS) {
    const viewport = { width, height }
    const { page } = await openPage(browser, `${world.url}/dashboard`, { viewport, colorScheme })
    await page.getByRole('button', { name: 'engines of paris' }).click()
    const button = page.getByRole('button', { name: /drain paris-1 of paris/ })
    if (suffix === '') await button.click()
    await page.getByRole('button', { name: 'undrain paris-1 of paris' }).waitFor()
    await page.locator('#engines').evaluate((heading) => heading.scrollIntoView())
    const load = chat(world.url, 500, 24)
    await page.waitForTimeout(6_000)
    await shoot(page, `dashboard-regions${suffix}.png`)
    await load
    await page.context().close()
  }
} finally {
  await browser.close()
  await world.close()
}
