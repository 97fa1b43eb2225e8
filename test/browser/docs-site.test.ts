/** The documentation as static pages, in Chromium. The files are served from the folder by the test itself. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { writeSite, type WrittenSite } from '../../scripts/docs-site/write-site.ts'
import { minContrast } from './contrast.ts'
import { openBrowser } from './world.ts'

const folder = mkdtempSync(join(tmpdir(), 'docs-site-'))
const origin = 'http://docs.example'
const types: Record<string, string> = {
  html: 'text/html',
  css: 'text/css',
  js: 'text/javascript',
  json: 'application/json',
  png: 'image/png',
}
let browser: Browser
let site: WrittenSite

async function open(path: string, dark = false): Promise<Page> {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, colorScheme: dark ? 'dark' : 'light' })
  await page.route(`${origin}/**`, (route) => {
    const { pathname } = new URL(route.request().url())
    const file = join(folder, pathname.endsWith('/') ? `${pathname}index.html` : pathname)
    const contentType = types[file.split('.').at(-1)!] ?? 'text/plain'
    return existsSync(file) ? route.fulfill({ path: file, contentType }) : route.fulfill({ status: 404 })
  })
  await page.goto(`${origin}${path}`)
  return page
}

beforeAll(async () => {
  ;[browser, site] = await Promise.all([openBrowser(), writeSite(folder)])
})

afterAll(async () => {
  await browser.close()
  rmSync(folder, { recursive: true })
})

describe('the site of the documentation', () => {
  it('the site has no broken link', () => {
    expect(site.broken).toEqual([])
    expect(site.pages).toBeGreaterThan(60)
  })

  it('the search finds the section about rate limits of a key, and Enter opens it', async () => {
    const page = await open('/docs/index.html')
    await page.keyboard.press('/')
    await page.keyboard.type('requests per minute key')
    const first = page.locator('#results a').first()
    await first.waitFor()
    expect(await page.locator('#results a').allTextContents()).toContainEqual(expect.stringMatching(/limit/i))
    await page.keyboard.press('Enter')
    await page.waitForURL(/\.html#/)
    await page.close()
  })

  it('the search reports that no page has the words', async () => {
    const page = await open('/index.html')
    await page.locator('.search input').fill('xyzzyplugh')
    await page.locator('#results', { hasText: 'No page has these words.' }).waitFor()
    await page.close()
  })

  it('links from page to page lead to the heading', async () => {
    const page = await open('/docs/sizing.html')
    await page.locator('main a[href="../SECURITY.html#limits"]').click()
    await page.waitForURL(`${origin}/SECURITY.html#limits`)
    expect(await page.locator('#limits').textContent()).toBe('Limits')
    await page.close()
  })

  it.each([
    ['light', false],
    ['dark', true],
  ])('text of a page in %s mode can be read', async (_, dark) => {
    const page = await open('/docs/routing.html', dark)
    expect((await minContrast(page)).ratio).toBeGreaterThanOrEqual(4.5)
    await page.close()
  })

  it('pages have no horizontal scroll bar on a phone', async () => {
    const page = await open('/docs/config.html')
    await page.setViewportSize({ width: 390, height: 800 })
    const overflow = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
    expect(overflow).toBeLessThanOrEqual(0)
    await page.close()
  })

  it('llms.txt lists the pages as Markdown files that exist', () => {
    const links = [...readFileSync(join(folder, 'llms.txt'), 'utf8').matchAll(/\]\(\/([^)]+)\)/g)].map(
      ([, path]) => path!,
    )
    expect(links.length).toBeGreaterThan(40)
    expect(links.filter((path) => !existsSync(join(folder, path)))).toEqual([])
  })
})
