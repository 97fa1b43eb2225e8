/** A gateway on a port, simulated engines, traffic, and a real Chromium. */
import chromium from '@sparticuz/chromium'
import { chromium as playwright, type Browser, type BrowserContextOptions, type Page } from 'playwright-core'
import { startFleet, type RunningFleet } from '../../packages/simulator/src/node/fleet-host.ts'
import type { EngineOptions } from '../../packages/simulator/src/engine-options.ts'
import { startNodeGateway, type NodeGateway } from '../kit/node-gateway.ts'
import { ownPorts } from '../own-ports.ts'

export const adminKey = 'admin-secret'

export interface Cluster {
  readonly id: string
  readonly region?: string
  readonly engines: readonly EngineOptions[]
}

export interface World {
  readonly fleet: RunningFleet
  readonly url: string
  /** Requests a path of the admin API. */
  admin(path: string): Promise<unknown>
  chat(requests: number, atOnce?: number): Promise<void>
  /** Stops the gateway while pages are open; `startGateway` starts a new one at the same address. */
  stopGateway(): Promise<void>
  startGateway(): Promise<void>
  close(): Promise<void>
}

export interface WorldOptions {
  /** The admin API requires a key. */
  readonly locked?: boolean
  readonly statsIntervalMs?: number
  /** Its engines refuse connections and recover on request. */
  readonly faults?: boolean
  /** Other settings of the gateway, and of its pools. */
  readonly config?: object
  readonly pool?: object
}

/** Every cluster serves `sim`. */
export async function startWorld(clusters: readonly Cluster[], options: WorldOptions = {}): Promise<World> {
  const engines = clusters.flatMap((cluster) => cluster.engines)
  const fleet = await startFleet({
    engines,
    model: 'sim',
    port: options.faults === true ? ownPorts(engines.length + 1) : 0,
  })
  let gateway: NodeGateway
  const document = documentOf(clusters, fleet, options)
  const port = ownPorts(1)
  const start = () => startNodeGateway(document, { port })
  try {
    gateway = await start()
  } catch (error) {
    await fleet.close()
    throw error
  }
  const { url } = gateway
  return {
    fleet,
    url,
    admin: async (path) =>
      (await fetch(`${url}/v1/firstlight/${path}`, { headers: { authorization: `Bearer ${adminKey}` } })).json(),
    chat: (requests, atOnce = 4) => chat(url, requests, atOnce),
    stopGateway: async () => void (await gateway.stop(AbortSignal.abort())),
    startGateway: async () => void (gateway = await start()),
    close: async () => {
      await gateway.stop(AbortSignal.abort())
      await fleet.close()
    },
  }
}

/** Configuration of these clusters, with the addresses of the simulated engines. */
export function documentOf(
  clusters: readonly Cluster[],
  fleet: RunningFleet,
  { locked = false, statsIntervalMs = 1000, config = {}, pool = {} }: WorldOptions,
) {
  const urls = new Map(fleet.engines.map(({ settings }, index) => [settings.id, fleet.urls[index]]))
  return {
    clusters: clusters.map(({ id, region, engines }) => ({
      id,
      ...(region === undefined ? {} : { region }),
      pools: [
        {
          model: 'sim',
          stats_interval_ms: statsIntervalMs,
          ...pool,
          engines: engines.map(({ id: name, role = 'any' }) => ({ id: name, role, url: urls.get(name!) })),
        },
      ],
    })),
    ...(locked ? { admin: { secret: adminKey } } : {}),
    limits: { drain_ms: 2000 },
    ...config,
  }
}

const PREFACES = [
  'You help sailors plan a crossing. ',
  'You explain the law of the sea. ',
  'You are a patient tutor of astronomy. ',
].map((text) => text.repeat(60))

/** Sends streamed chats of a few growing conversations, with limited concurrency. */
export async function chat(url: string, requests: number, atOnce: number): Promise<void> {
  let next = 0
  const one = async () => {
    for (let turn = next++; turn < requests; turn = next++) {
      const messages = [
        { role: 'system', content: PREFACES[turn % PREFACES.length] },
        {
          role: 'user',
          content: `Question ${turn}: when does the sun rise at ${turn % 24} degrees north? `.repeat(1 + (turn % 7)),
        },
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
  // With a single process, the first closed page ends the browser. Real browsers isolate pages too.
  const args = chromium.args.filter(
    (arg) => !['--single-process', '--no-zygote', '--disable-web-security'].includes(arg),
  )
  return playwright.launch({ executablePath: await chromium.executablePath(), args, headless: true })
}

export interface Watched {
  readonly page: Page
  /** Errors of the console and of scripts. */
  readonly errors: string[]
  /** Violations of the content security policy. */
  violations(): Promise<string[]>
}

/**
 * Opens the dashboard in a fresh profile. The locale is set, because a bare machine's `en-US@posix` is invalid in
 * `Intl`.
 */
export async function openPage(
  browser: Browser,
  address: string,
  options: BrowserContextOptions = {},
): Promise<Watched> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, locale: 'en-US', ...options })
  const page = await context.newPage()
  const errors: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') errors.push(message.text())
  })
  page.on('pageerror', (error) => errors.push(String(error)))
  await page.addInitScript(
    "globalThis.violations = []; addEventListener('securitypolicyviolation', (event) => violations.push(event.violatedDirective + ' ' + event.blockedURI))",
  )
  await page.goto(address)
  return { page, errors, violations: () => page.evaluate<string[]>('violations') }
}
