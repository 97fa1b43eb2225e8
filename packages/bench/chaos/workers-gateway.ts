/** Two Workers with one object, which is evicted, loses alarms and gets a wrong clock. Configurations change. */
import { readFileSync } from 'node:fs'
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from 'miniflare'
import { fileURLToPath } from 'node:url'
import { buildWorker } from '../../../scripts/build-worker.ts'
import type { PoolDigest } from '../../../src/core/contract/pool-digest.ts'
import { rssBytes } from '../proxy/processes.ts'
import { collectGarbage, oneToken } from './collect-garbage.ts'
import { changedDocument, keyOf, POOLS } from './document.ts'
import { added, type Ledger } from './ledger.ts'
import { WORKERD_WARM_MS, type Deployment, type Kill } from './deployment.ts'
import { LogReader } from './log.ts'
import type { ObjectFault } from './object-fault.ts'

/** After the clock is set back, the booking of a lost edge expires this much later. */
const CLOCK_MS = 20_000
/** Longest time until an object answers, ms. */
const OBJECT_MS = 30_000
/** workerd reports a cut stream as an uncaught exception. */
const EXPECTED = /^Uncaught exception: .*the response was truncated$/
/** Names as `objectName` in src/platform/workers creates them. */
const OBJECTS = POOLS.map((pool) => `cluster:chaos:${pool}:g1`)
/** The first checks its configuration every half second, the other every two: in between, they differ. */
const TIME_SCALE = { firstlight: '60', other: '15' } as const

const ENTRY = fileURLToPath(new URL('worker.ts', import.meta.url))
const OUTDIR = fileURLToPath(new URL('../../../dist/chaos-worker', import.meta.url))

export class WorkersGateway implements Deployment {
  readonly log = new LogReader()
  readonly kills: readonly Kill[] = []
  readonly warmMs = WORKERD_WARM_MS
  readonly #urls: readonly string[]
  readonly #runtime: Miniflare
  #edges: readonly string[] = []
  #next = 0
  #turn = 0

  static async start(urls: readonly string[], random: () => number): Promise<WorkersGateway> {
    const subject = new WorkersGateway(urls, await buildWorker(OUTDIR, ENTRY))
    await subject.#open(random)
    return subject
  }

  private constructor(urls: readonly string[], script: string) {
    this.#urls = urls
    const date = /^compatibility_date = "(.*)"$/m.exec(
      readFileSync(new URL('../../../wrangler.toml', import.meta.url), 'utf8'),
    )![1]!
    const edge = (name: keyof typeof TIME_SCALE) => ({
      name,
      modules: true,
      script,
      compatibilityDate: date,
      compatibilityFlags: ['enable_request_signal'],
      kvNamespaces: { CONFIG: 'config' },
      bindings: { TIME_SCALE: TIME_SCALE[name] },
      durableObjects: Object.fromEntries(
        Object.entries({ CLUSTER: 'ClusterObject', TTFT: 'TtftObject', LIMIT: 'LimitObject', EDGE: 'EdgeObject' }).map(
          ([binding, className]) => [
            binding,
            { className, useSQLite: true, ...(name === 'other' ? { scriptName: 'firstlight' } : {}) },
          ],
        ),
      ),
      unsafeDirectSockets: [{ host: '127.0.0.1', port: 0 }],
    })
    const options = convertV4MiniflareOptions({
      workers: [edge('firstlight'), edge('other')],
      cf: false,
      inspectorPort: 0,
      host: '127.0.0.1',
      port: 0,
    } as Parameters<typeof convertV4MiniflareOptions>[0])
    const logs = {
      logRequests: false,
      log: new Log(LogLevel.NONE),
      handleStructuredLogs: (line: { level: string; message: string }) => this.#receive(line),
    }
    this.#runtime = new Miniflare({ ...options, ...logs } as ConstructorParameters<typeof Miniflare>[0])
  }

  /** Selects the two edges in turn. */
  target(): string {
    return this.#edges[this.#next++ % this.#edges.length]!
  }

  get key(): string {
    return keyOf(Math.max(1, this.#turn - 1))
  }

  rss(): number {
    // workerd is a child of this process.
    return rssBytes(process.pid) - process.memoryUsage.rss()
  }

  async collect(): Promise<void> {
    await collectGarbage(await this.#runtime.getInspectorURL(), () =>
      Promise.all(this.#edges.map((url) => oneToken(url, this.key))),
    )
  }

  async disrupt(random: () => number): Promise<string> {
    const choice = random()
    if (choice < 0.3) return this.#configure(random)
    if (choice < 0.65) return this.#disturb({ kind: 'evicted', ms: 0 }, random)
    if (choice < 0.8) return this.#disturb({ kind: 'alarms lost', ms: 5_000 }, random)
    return this.#disturb({ kind: 'clock set', ms: Math.round((random() - 0.5) * 2 * CLOCK_MS) }, random)
  }

  async ledger(): Promise<Ledger> {
    const digests = await Promise.all(
      OBJECTS.map(
        async (name) =>
          (
            await fetch(`${this.#edges[0]}/_chaos/digest?object=${encodeURIComponent(name)}`)
          ).json() as Promise<PoolDigest>,
      ),
    )
    return added(
      digests.flatMap(({ bookings, engines }) => [
        { bookings, blocks: 0, prefillS: 0 },
        ...engines.map((engine) => ({
          bookings: engine.requests,
          blocks: engine.activeBlocks,
          prefillS: engine.queuedPrefillS,
        })),
      ]),
    )
  }

  async stop(): Promise<void> {
    await this.#runtime.dispose()
  }

  async #open(random: () => number): Promise<void> {
    await this.#runtime.ready
    await this.#configure(random)
    const urls = await Promise.all(Object.keys(TIME_SCALE).map((name) => this.#runtime.unsafeGetDirectURL(name)))
    this.#edges = urls.map((url) => url.toString().replace(/\/$/, ''))
  }

  async #configure(random: () => number): Promise<string> {
    const turn = this.#turn + 1
    // Miniflare's types lack these methods unless the Workers types are loaded.
    const namespace = (await this.#runtime.getKVNamespace('CONFIG', 'firstlight')) as unknown as {
      put(name: string, value: string): Promise<void>
    }
    await namespace.put('firstlight.yaml', JSON.stringify(changedDocument(this.#urls, turn, random)))
    this.#turn = turn
    return `configuration ${turn}`
  }

  async #disturb(fault: ObjectFault, random: () => number): Promise<string> {
    const name = OBJECTS[Math.floor(random() * OBJECTS.length)]!
    await fetch(`${this.#edges[0]}/_chaos/disturb?object=${encodeURIComponent(name)}`, {
      method: 'POST',
      body: JSON.stringify(fault),
      signal: AbortSignal.timeout(OBJECT_MS),
    }).catch((error: unknown) => this.log.problems.push(`${name} did not answer "${fault.kind}": ${String(error)}`))
    return `${name} ${fault.kind} ${fault.ms}`
  }

  #receive({ level, message }: { readonly level: string; readonly message: string }): void {
    if (message.startsWith('{')) this.log.read(message)
    else if (level === 'error' && !EXPECTED.test(message)) this.log.problems.push(message)
  }
}
