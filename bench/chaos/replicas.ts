/**
 * Several gateways on Node with the same engines. They are killed, end gracefully, are suspended for longer than a
 * lease, and come back.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '@redis/client'
import { findServer, ValkeyServer } from '../../scripts/valkey-server.ts'
import { until } from '../conformance/until.ts'
import { ChildGateway } from './child-gateway.ts'
import { changedDocument, keyOf } from './document.ts'
import { added, asked, fleetLedger, type Ledger } from './ledger.ts'
import type { Deployment, Kill } from './deployment.ts'
import { LogReader } from './log.ts'

/** `lease_ms` of replicas and pools. */
const LEASE_MS = 3000
const KINDS = ['killed', 'ended', 'asleep'] as const
const SERVER_KINDS = ['server killed', 'server frozen', 'connections cut', 'keys lost', 'scripts flushed'] as const
type Kind = (typeof KINDS | typeof SERVER_KINDS)[number]
const FROZEN_MS = 2_000

export class Replicas implements Deployment {
  readonly log = new LogReader()
  readonly kills: Kill[] = []
  readonly key = keyOf(1)
  readonly #folder = mkdtempSync(join(tmpdir(), 'firstlight-chaos-'))
  readonly #random: () => number
  readonly #document: object
  /** null: it is away. */
  readonly #serving: (ChildGateway | null)[]
  readonly #server: ValkeyServer
  readonly #kinds: readonly Kind[]
  #disruptions = 0

  static async start(urls: readonly string[], replicas: number, random: () => number): Promise<Replicas> {
    const binary = await findServer()
    if (binary === null) throw new Error('Replicas need a Valkey or Redis server.')
    const kinds = KINDS.flatMap((kind, at) => [kind, ...SERVER_KINDS.slice(2 * at, 2 * at + 2)])
    const subject = new Replicas(urls, { count: replicas, server: await ValkeyServer.start(binary), kinds }, random)
    await Promise.all(subject.#serving.map((_, at) => subject.#serve(at)))
    await subject.#joined()
    return subject
  }

  private constructor(
    urls: readonly string[],
    {
      count,
      server,
      kinds,
    }: { readonly count: number; readonly server: ValkeyServer; readonly kinds: readonly Kind[] },
    random: () => number,
  ) {
    this.#random = random
    this.#server = server
    this.#kinds = kinds
    this.#document = changedDocument(urls, 1, random)
    this.#serving = Array.from({ length: count }, () => null)
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
      await this.#disturb(how, random)
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

  async #disturb(how: (typeof SERVER_KINDS)[number], random: () => number): Promise<void> {
    if (how === 'server killed') {
      await this.#server.kill()
      await sleep(random() * 2_000)
      return this.#server.start()
    }
    if (how === 'server frozen') {
      this.#server.signal('SIGSTOP')
      await sleep(FROZEN_MS)
      return this.#server.signal('SIGCONT')
    }
    const client = createClient({ url: this.#server.url })
    client.on('error', () => undefined)
    await client.connect()
    if (how === 'connections cut') {
      await client.sendCommand(['CLIENT', 'KILL', 'TYPE', 'pubsub'])
      await client.sendCommand(['CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'])
    } else await client.sendCommand(how === 'keys lost' ? ['FLUSHALL'] : ['SCRIPT', 'FLUSH'])
    client.destroy()
  }

  /** Sum over all gateways: each includes the bookings of all. */
  async ledger(): Promise<Ledger> {
    return added(await Promise.all(this.#serving.map((one) => fleetLedger(one!.url))))
  }

  async stop(): Promise<void> {
    await Promise.all(this.#serving.map((one) => one?.end()))
    await this.#server.stop()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  async #serve(at: number): Promise<void> {
    const document = { ...this.#document, replicas: { url: this.#server.url, lease_ms: LEASE_MS } }
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
      await until(async () => (await following(one!.url)) === others, 'replicas to follow each other')
  }
}

const isOfReplica = (how: string): how is (typeof KINDS)[number] => KINDS.some((kind) => kind === how)

async function following(url: string): Promise<number> {
  const answer = await asked(`${url}/v1/firstlight/fleet`).catch(() => null)
  if (answer === null || !answer.ok) return 0
  const { replicas } = (await answer.json()) as { readonly replicas: readonly { readonly state: string }[] }
  return replicas.filter(({ state }) => state === 'following').length
}
