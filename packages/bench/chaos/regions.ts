/**
 * An edge in front of regional gateways that share the engines. Regions are killed, end gracefully, are suspended, and
 * come back.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { until } from '../conformance/until.ts'
import { ChildGateway, type Absence } from './child-gateway.ts'
import { edgeDocument, keyOf, plainDocument } from './document.ts'
import { added, fetchAsAdmin, fleetLedger, type Ledger } from './ledger.ts'
import type { Deployment, Kill } from './deployment.ts'
import { LogReader } from './log.ts'

const HOW: readonly Absence[] = ['killed', 'ended', 'asleep']
const EDGE_KEY = 'chaos-edge-key-of-no-use-elsewhere'
/** Long enough that the edge's queries fail, and short enough that it keeps the region. */
const ASLEEP_MS = 5_000
/** Ports that Linux does not assign. A region that comes back has its previous address. */
const FIRST_PORT = 24_000 + (process.pid % 300) * 10

export class Regions implements Deployment {
  readonly log = new LogReader()
  readonly kills: Kill[] = []
  readonly key = keyOf(1)
  readonly #folder = mkdtempSync(join(tmpdir(), 'firstlight-chaos-'))
  #regions: ChildGateway[] = []
  #edge!: ChildGateway
  #disruptions = 0

  static async start(urls: readonly string[], count: number): Promise<Regions> {
    const subject = new Regions()
    // The engine without faults belongs to all regions, so that one is always available.
    const [whole, ...others] = urls
    for (let at = 0; at < count; at++)
      subject.#regions.push(await subject.#region(at, [whole!, ...others.filter((_, i) => i % count === at)]))
    const document = edgeDocument(
      subject.#regions.map(({ url }) => url),
      EDGE_KEY,
    )
    subject.#edge = await ChildGateway.start({
      name: 'edge',
      file: join(subject.#folder, 'edge.yaml'),
      document,
      log: subject.log,
    })
    return subject
  }

  target(): string {
    return this.#edge.url
  }

  rss(): number {
    return this.#edge.rss
  }

  async disrupt(random: () => number): Promise<string> {
    const how = HOW[this.#disruptions++ % HOW.length]!
    const at = Math.floor(random() * this.#regions.length)
    if (how === 'killed') this.kills.push({ at: performance.now(), url: null })
    this.#regions[at] = await this.#regions[at]!.leave(how, how === 'asleep' ? ASLEEP_MS : random() * 3_000, {
      version: Date.now(),
    })
    // One at a time is away, so that no request has to be refused.
    await until(async () => this.#isWhole(), 'the edge to know that all regions are back')
    return `region ${at} ${how}`
  }

  /** Ledger of the edge and of each region. */
  async ledger(): Promise<Ledger> {
    return added([
      await fleetLedger(this.#edge.url),
      ...(await Promise.all(this.#regions.map(({ url }) => fleetLedger(url)))),
    ])
  }

  async stop(): Promise<void> {
    await this.#edge.end()
    await Promise.all(this.#regions.map((one) => one.end()))
    rmSync(this.#folder, { recursive: true, force: true })
  }

  async #isWhole(): Promise<boolean> {
    const answer = await fetchAsAdmin(`${this.#edge.url}/v1/firstlight/fleet`).catch(() => null)
    if (answer === null || !answer.ok) return false
    const { pools } = (await answer.json()) as {
      readonly pools: readonly {
        readonly engines: readonly { readonly available: boolean }[]
        readonly gateway: { readonly reachable: boolean } | null
      }[]
    }
    return pools.every(
      ({ engines, gateway }) => gateway?.reachable === true && engines.every(({ available }) => available),
    )
  }

  #region(at: number, urls: readonly string[]): Promise<ChildGateway> {
    const document = {
      ...plainDocument(urls, at === 0 ? 'auto' : 'off'),
      listen: `127.0.0.1:${FIRST_PORT + at}`,
      keys: [{ name: 'edge', secret: EDGE_KEY, edge: true, allow_overrides: true }],
      log: { level: 'info' },
    }
    return ChildGateway.start({
      name: `region ${at}`,
      file: join(this.#folder, `region-${at}.yaml`),
      document,
      log: this.log,
    })
  }
}
