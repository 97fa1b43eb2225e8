/**
 * Several gateways on Node with the same engines. They are killed, end gracefully, are suspended for longer than a
 * lease, and come back. So does the server that they share, or the primary of a cluster.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { until } from '../conformance/until.ts'
import { ChildGateway } from './child-gateway.ts'
import { keyOf } from './document.ts'
import { added, fetchAsAdmin, fleetLedger, type Ledger } from './ledger.ts'
import type { Deployment, Kill } from './deployment.ts'
import { LogReader } from './log.ts'
import type { ValkeyDeployment } from './valkey.ts'

/** `lease_ms` of replicas and pools. */
const LEASE_MS = 3000
const REPLICAS = 3
/** Longest time until replicas follow each other again, on a machine that is busy with other work, ms. */
const JOIN_MS = 120_000
const KINDS = ['killed', 'ended', 'asleep'] as const

export class Replicas implements Deployment {
  readonly log = new LogReader()
  readonly kills: Kill[] = []
  readonly key = keyOf(1)
  readonly #folder = mkdtempSync(join(tmpdir(), 'firstlight-chaos-'))
  readonly #random: () => number
  readonly #document: object
  /** null: it is away. */
  readonly #serving: (ChildGateway | null)[]
  readonly #shared: ValkeyDeployment
  readonly #kinds: readonly string[]
  #disruptions = 0

  static async start(document: object, shared: ValkeyDeployment, random: () => number): Promise<Replicas> {
    const subject = new Replicas(document, shared, random)
    await Promise.all(subject.#serving.map((_, at) => subject.#serve(at)))
    await subject.#joined()
    return subject
  }

  private constructor(document: object, shared: ValkeyDeployment, random: () => number) {
    this.#random = random
    this.#shared = shared
    this.#document = document
    // A gateway and the server, in turn.
    this.#kinds = shared.kinds.flatMap((kind, at) => [KINDS[at % KINDS.length]!, kind])
    this.#serving = Array.from({ length: REPLICAS }, () => null)
  }

  target(): string {
    const here = this.#serving.filter((one) => one !== null)
    return here[Math.floor(this.#random() * here.length)]!.url
  }

  rss(): number {
    const all = this.#serving.flatMap((one) => one?.rss ?? [])
    // One that is away counts as the average of the others.
    return (all.reduce((sum, bytes) => sum + bytes, 0) / all.length) * this.#serving.length
  }

  async disrupt(random: () => number): Promise<string> {
    const how = this.#kinds[this.#disruptions++ % this.#kinds.length]!
    if (!isOfReplica(how)) {
      await this.#shared.disturb(how, random)
      await this.#joined()
      return how
    }
    const at = Math.floor(random() * this.#serving.length)
    const one = this.#serving[at]!
    // New requests go to the others.
    if (how === 'killed') this.kills.push({ at: performance.now(), url: one.url })
    this.#serving[at] = null
    this.#serving[at] = await one.leave(how, how === 'asleep' ? 1.5 * LEASE_MS : random() * 500)
    await this.#joined()
    return `replica ${at} ${how}`
  }

  /** Sum over all gateways: each includes the bookings of all. */
  async ledger(): Promise<Ledger> {
    return added(await Promise.all(this.#serving.map((one) => fleetLedger(one!.url))))
  }

  /** The log of replicas shows the order of events of a leaked booking. */
  async holdings(): Promise<readonly string[]> {
    const views = this.#serving.map(async (one, at) => {
      const { bookings } = await fleetLedger(one!.url)
      return `replica ${at}: ${bookings} bookings and requests; ${JSON.stringify(await replicasOf(one!.url))}`
    })
    return [...this.log.replicaLines, ...(await Promise.all(views)), ...(await this.#shared.holdings())]
  }

  async stop(): Promise<void> {
    await Promise.all(this.#serving.map((one) => one?.end()))
    await this.#shared.stop()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  async #serve(at: number): Promise<void> {
    const document = { ...this.#document, replicas: { ...this.#shared.config, lease_ms: LEASE_MS } }
    this.#serving[at] = await ChildGateway.start({
      name: `replica ${at}`,
      file: join(this.#folder, `replica-${at}.yaml`),
      document,
      log: this.log,
    })
  }

  /** Resolves when every gateway follows all others. */
  async #joined(): Promise<void> {
    const others = this.#serving.length - 1
    for (const one of this.#serving)
      await until(async () => (await following(one!.url)) === others, 'replicas to follow each other', {
        limitMs: JOIN_MS,
      })
  }
}

const isOfReplica = (how: string): how is (typeof KINDS)[number] => KINDS.some((kind) => kind === how)

const following = async (url: string): Promise<number> =>
  (await replicasOf(url)).filter(({ state }) => state === 'following').length

/** Other replicas in the view of this one. */
async function replicasOf(url: string): Promise<readonly { readonly state: string }[]> {
  const answer = await fetchAsAdmin(`${url}/v1/firstlight/fleet`).catch(() => null)
  if (answer === null || !answer.ok) return []
  return ((await answer.json()) as { readonly replicas: readonly { readonly state: string }[] }).replicas
}
