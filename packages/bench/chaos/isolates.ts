/**
 * Isolates of one Worker in workerd processes of their own, and a further process with the objects of all. Isolates are
 * killed with SIGKILL, suspended for longer than a lease, and come back.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { changedDocument, keyOf } from './document.ts'
import { WORKERD_WARM_MS, type Deployment, type Kill } from './deployment.ts'
import { IsolateProcess } from './isolate-process.ts'
import { fleetLedger, type Ledger } from './ledger.ts'
import { LogReader } from './log.ts'

const HOW = ['killed', 'asleep'] as const
/** Longer than the lease of the pool (document.ts). */
const ASLEEP_MS = 4_500
const OBJECTS = 'objects'

export class Isolates implements Deployment {
  readonly log = new LogReader()
  readonly kills: Kill[] = []
  readonly warmMs = WORKERD_WARM_MS
  readonly key = keyOf(1)
  readonly #folder = mkdtempSync(join(tmpdir(), 'firstlight-chaos-'))
  readonly #random: () => number
  readonly #document: object
  #objects!: IsolateProcess
  /** null: it is away. */
  readonly #serving: (IsolateProcess | null)[] = []
  #disruptions = 0

  static async start(urls: readonly string[], count: number, random: () => number): Promise<Isolates> {
    const subject = new Isolates(urls, random)
    subject.#objects = await subject.#start(OBJECTS, null)
    for (let at = 0; at < count; at++) subject.#serving.push(await subject.#isolate(at))
    return subject
  }

  private constructor(urls: readonly string[], random: () => number) {
    this.#random = random
    this.#document = changedDocument(urls, 1, random)
  }

  target(): string {
    const here = this.#serving.filter((one) => one !== null)
    return here[Math.floor(this.#random() * here.length)]!.url
  }

  rss(): number {
    const all = this.#serving.flatMap((one) => one?.rss ?? [])
    // One that is away counts as the average of the others.
    return this.#objects.rss + (all.reduce((sum, bytes) => sum + bytes, 0) / all.length) * this.#serving.length
  }

  async collect(): Promise<void> {
    await Promise.all([this.#objects, ...this.#serving].map((one) => one?.collect(this.key)))
  }

  async disrupt(random: () => number): Promise<string> {
    const how = HOW[this.#disruptions++ % HOW.length]!
    const at = Math.floor(random() * this.#serving.length)
    const one = this.#serving[at]!
    // New requests go to the others.
    this.#serving[at] = null
    if (how === 'asleep') {
      one.suspend()
      await sleep(ASLEEP_MS)
      one.resume()
      this.#serving[at] = one
    } else {
      this.kills.push({ at: performance.now(), url: one.url })
      await one.kill()
      await sleep(random() * 2_000)
      this.#serving[at] = await this.#isolate(at)
    }
    return `isolate ${at} ${how}`
  }

  /** The object of each pool counts the bookings of all isolates. */
  ledger(): Promise<Ledger> {
    return fleetLedger(this.#objects.url)
  }

  async stop(): Promise<void> {
    await Promise.all(this.#serving.map((one) => one?.end()))
    await this.#objects.end()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  #isolate(at: number): Promise<IsolateProcess> {
    return this.#start(`isolate${at}`, OBJECTS)
  }

  #start(name: string, objectsOf: string | null): Promise<IsolateProcess> {
    return IsolateProcess.start({ name, registry: this.#folder, objectsOf, document: this.#document }, this.log)
  }
}
