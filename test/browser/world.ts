/** A gateway on a port, simulated engines behind it, traffic, and a real Chromium. */
import chromium from '@sparticuz/chromium'
import { chromium as playwright, type Browser, type BrowserContextOptions, type Page } from 'playwright-core'
import { parseConfig } from '../../src/config/parse.ts'
import { openLog } from '../../src/platform/node/log.ts'
import { startFleet, type RunningFleet } from '../../src/platform/node/simulator-host.ts'
import { startGateway, type RunningGateway } from '../../src/platform/node/start-gateway.ts'
import type { EngineOptions } from '../../src/simulator/engine-options.ts'

export const adminKey = 'admin-secret'

export interface Cluster {
  readonly id: string
  readonly region?: string
  readonly engines: readonly EngineOptions[]
}

export interface World {
  readonly fleet: RunningFleet
  readonly url: string
  /** Asks the admin surface. */
  admin(path: string): Promise<unknown>
  /** Sends this many streamed chats, so many at once, of a few conversations that grow. */
  chat(requests: number, atOnce?: number): Promise<void>
  close(): Promise<void>
}

/** Every cluster serves `sim`. `locked`: the admin surface asks for a key. */
export async function startWorld(clusters: readonly Cluster[], { locked = false } = {}): Promise<World> {
  const fleet = await startFleet({ engines: clusters.flatMap(({ engines }) => engines), model: 'sim' })
  let gateway: RunningGateway
  try {
    gateway = await startGateway(configOf(clusters, fleet, locked), openLog('error'))
  } catch (error) {
    await fleet.close()
    throw error
  }
  return {
    fleet,
    url: gateway.url,
    admin: async (path) => (await fetch(`${gateway.url}/v1/firstlight/${path}`, { headers: { authorization: `Bearer ${adminKey}` } })).json(),
    chat: (requests, atOnce = 4) => chat(gateway.url, requests, atOnce),
    close: async () => {
      await gateway.stop(AbortSignal.abort())
      await fleet.close()
    },
  }
}

function configOf(clusters: readonly Cluster[], fleet: RunningFleet, locked: boolean) {
  const urls = new Map(fleet.engines.map(({ settings }, index) => [settings.id, fleet.urls[index]]))
  const document = {
    clusters: clusters.map(({ id, region, engines }) => ({
      id,
      ...(region === undefined ? {} : { region }),
      pools: [{ model: 'sim', stats_interval_ms: 1000, engines: engines.map(({ id: name, role = 'any' }) => ({ id: name, role, url: urls.get(name!) })) }],
    })),
    ...(locked ? { admin: { secret: adminKey } } : {}),
    limits: { drain_ms: 2000 },
  }
  const config = parseConfig(document, {}, { defaultVersion: 1, defaultObserveShare: 1, listens: true })
  return { ...config, listen: { host: '127.0.0.1', port: 0 } }
}

const PREFACES = ['You help sailors plan a crossing. ', 'You explain the law of the sea. ', 'You are a patient tutor of astronomy. '].map((text) => text.repeat(60))

async function chat(url: string, requests: number, atOnce: number): Promise<void> {
  let next = 0
  const one = async () => {
    for (let turn = next++; turn < requests; turn = next++) {
      const messages = [
        { role: 'system', content: PREFACES[turn % PREFACES.length] },
        { role: 'user', content: `Question ${turn}: when does the sun rise at ${turn % 24} degrees north? `.repeat(1 + (turn % 7)) },
      ]
      const response = await fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'sim', stream: true, max_tokens: 8 + (turn % 9), messages }),
      })
      const text = await response.text()
      if (!response.ok) throw new Error(`a chat failed with ${response.status}: ${text}`)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, one))
}

export async function openBrowser(): Promise<Browser> {
  return playwright.launch({ executablePath: await chromium.executablePath(), args: chromium.args, headless: true })
}

export interface Watched {
  readonly page: Page
  /** Errors of the console and of scripts; violations of the content security policy are among them. */
  readonly errors: string[]
}

/** A fresh profile on the dashboard. The locale is said, since that of a bare machine (`en-US@posix`) is none to `Intl`. */
export async function openPage(browser: Browser, address: string, options: BrowserContextOptions = {}): Promise<Watched> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, locale: 'en-US', ...options })
  const page = await context.newPage()
  const errors: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') errors.push(message.text())
  })
  page.on('pageerror', (error) => errors.push(String(error)))
  await page.addInitScript("globalThis.violations = []; addEventListener('securitypolicyviolation', (event) => violations.push(event.violatedDirective + ' ' + event.blockedURI))")
  await page.goto(address)
  return { page, errors }
}
