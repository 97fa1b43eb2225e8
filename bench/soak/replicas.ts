/** Several gateways on Node before the same engines, which are killed, end in order, fall asleep for longer than a lease, and come back. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { until } from '../conformance/until.ts'
import { ChildGateway } from './child-gateway.ts'
import { changedDocument, keyOf } from './document.ts'
import { added, asked, fleetLedger, type Ledger } from './ledger.ts'
import type { Subject } from './subjects.ts'

/** As in the document. */
const LEASE_MS = 3000
/** None of those that Linux deals out. */
const FIRST_PORT = 21_000 + (process.pid % 300) * 10
const port = (at: number): string => `127.0.0.1:${FIRST_PORT + at}`

export class Replicas implements Subject {
  readonly complaints: string[] = []
  readonly key = keyOf(1)
  readonly #folder = mkdtempSync(join(tmpdir(), 'firstlight-soak-'))
  readonly #random: () => number
  readonly #document: object
  /** null: it is away. */
  readonly #serving: (ChildGateway | null)[]
  #upheavals = 0

  static async start(urls: readonly string[], count: number, random: () => number): Promise<Replicas> {
    const subject = new Replicas(urls, count, random)
    await Promise.all(subject.#serving.map((_, at) => subject.#serve(at)))
    await subject.#joined()
    return subject
  }

  private constructor(urls: readonly string[], count: number, random: () => number) {
    this.#random = random
    this.#document = changedDocument(urls, 1, random)
    this.#serving = Array.from({ length: count }, () => null)
  }

  target(): string {
    const here = this.#serving.filter((one) => one !== null)
    return here[Math.floor(this.#random() * here.length)]!.url
  }

  rss(): number {
    return this.#serving.reduce((sum, one) => sum + (one?.rss ?? 0), 0)
  }

  async upheave(random: () => number): Promise<string> {
    const how = (['killed', 'ended', 'asleep'] as const)[this.#upheavals++ % 3]!
    const at = Math.floor(random() * this.#serving.length)
    const one = this.#serving[at]!
    // Its clients go to the others.
    this.#serving[at] = null
    this.#serving[at] = await one.leave(how, how === 'asleep' ? 1.5 * LEASE_MS : random() * 500)
    await this.#joined()
    return `replica ${at} ${how}`
  }

  /** Of all together: each knows of the bookings of all. */
  async ledger(): Promise<Ledger> {
    return added(await Promise.all(this.#serving.map((one) => fleetLedger(one!.url))))
  }

  async stop(): Promise<void> {
    await Promise.all(this.#serving.map((one) => one?.end()))
    rmSync(this.#folder, { recursive: true, force: true })
  }

  async #serve(at: number): Promise<void> {
    const secret = 'soak-replicas'
    const document = {
      ...this.#document,
      replicas: { listen: port(at), peers: this.#serving.map((_, other) => port(other)), secret },
    }
    this.#serving[at] = await ChildGateway.start({
      name: `replica ${at}`,
      file: join(this.#folder, `replica-${at}.yaml`),
      document,
      secret,
      complain: (what) => this.complaints.push(what),
    })
  }

  /** All follow all. */
  async #joined(): Promise<void> {
    const others = this.#serving.length - 1
    for (const one of this.#serving)
      await until(async () => (await following(one!.url)) === others, 'replicas to follow each other')
  }
}

async function following(url: string): Promise<number> {
  const answer = await asked(`${url}/v1/firstlight/fleet`).catch(() => null)
  if (answer === null || !answer.ok) return 0
  const { replicas } = (await answer.json()) as { readonly replicas: readonly { readonly state: string }[] }
  return replicas.filter(({ state }) => state === 'following').length
}
