/** Several gateways on Node before the same engines, which are killed, end in order, fall asleep for longer than a lease, and come back. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { servingEnv, servingFlags } from '../../bin/serving-flags.mjs'
import { until } from '../conformance/until.ts'
import { guard, rssBytes } from '../proxy/processes.ts'
import { changedDocument, keyOf } from './document.ts'
import { added, asked, fleetLedger, type Ledger } from './ledger.ts'
import type { Subject } from './subjects.ts'

/** As in the document. */
const LEASE_MS = 3000
/** What faults of engines come to, and a gateway that slept. */
const EXPECTED = /"reason":"(?:no_engine|engines_full|engine_unreachable|engine_timeout)"/
/** None of those that Linux deals out. */
const FIRST_PORT = 21_000 + (process.pid % 300) * 10
const port = (at: number): string => `127.0.0.1:${FIRST_PORT + at}`

interface Served {
  readonly url: string
  readonly process: ChildProcess
  readonly stop: () => void
}

export class Replicas implements Subject {
  readonly complaints: string[] = []
  readonly key = keyOf(1)
  readonly #folder = mkdtempSync(join(tmpdir(), 'firstlight-soak-'))
  readonly #random: () => number
  readonly #document: object
  /** null: it is away. */
  readonly #serving: (Served | null)[]
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
    return this.#serving.reduce((sum, one) => sum + (one === null ? 0 : rssBytes(one.process.pid!)), 0)
  }

  async upheave(random: () => number): Promise<string> {
    const how = (['killed', 'ended', 'asleep'] as const)[this.#upheavals++ % 3]!
    const at = Math.floor(random() * this.#serving.length)
    const one = this.#serving[at]!
    // Its clients go to the others.
    this.#serving[at] = null
    if (how === 'asleep') {
      one.process.kill('SIGSTOP')
      await sleep(1.5 * LEASE_MS)
      one.process.kill('SIGCONT')
      this.#serving[at] = one
    } else {
      const gone = once(one.process, 'exit')
      if (how === 'ended') one.stop()
      else one.process.kill('SIGKILL')
      const [code] = await gone
      if (how === 'ended' && code !== 0) this.complaints.push(`replica ${at} ended with ${code}`)
      await sleep(random() * 500)
      await this.#serve(at)
    }
    await this.#joined()
    return `replica ${at} ${how}`
  }

  /** Of all together: each knows of the bookings of all. */
  async ledger(): Promise<Ledger> {
    return added(await Promise.all(this.#serving.map((one) => fleetLedger(one!.url))))
  }

  async stop(): Promise<void> {
    const ended = this.#serving.filter((one) => one !== null).map((one) => {
      const gone = once(one.process, 'exit')
      one.stop()
      return gone
    })
    for (const [code, signal] of await Promise.all(ended)) if (code !== 0) this.complaints.push(`a replica ended with ${code ?? signal}`)
    rmSync(this.#folder, { recursive: true, force: true })
  }

  async #serve(at: number): Promise<void> {
    const file = join(this.#folder, `replica-${at}.yaml`)
    writeFileSync(file, JSON.stringify({ listen: '127.0.0.1:0', ...this.#document, replicas: { listen: port(at), peers: this.#serving.map((_, other) => port(other)), secret: 'soak-replicas' } }))
    const child = spawn(process.execPath, [...servingFlags, fileURLToPath(new URL('../../src/node.ts', import.meta.url)), 'serve', '--config', file], { stdio: ['ignore', 'pipe', 'pipe'], env: servingEnv(process.env) })
    const stop = guard(child)
    child.stderr.on('data', (bytes) => this.complaints.push(`replica ${at}: ${String(bytes)}`))
    const url = await new Promise<string>((resolve, reject) => {
      createInterface(child.stdout).on('line', (line) => {
        const said = JSON.parse(line) as Record<string, unknown>
        if (said['event'] === 'listening') resolve(String(said['url']))
        if ((said['level'] === 'error' && !EXPECTED.test(line)) || line.includes('soak-replicas')) this.complaints.push(`replica ${at}: ${line}`)
      })
      child.once('exit', (code) => reject(new Error(`replica ${at} ended with ${code} before it listened: ${this.complaints.join('\n')}`)))
    })
    this.#serving[at] = { url, process: child, stop }
  }

  /** All follow all. */
  async #joined(): Promise<void> {
    const others = this.#serving.length - 1
    for (const one of this.#serving) await until(async () => (await following(one!.url)) === others, 'replicas to follow each other')
  }
}

async function following(url: string): Promise<number> {
  const answer = await asked(`${url}/v1/firstlight/fleet`).catch(() => null)
  if (answer === null || !answer.ok) return 0
  const { replicas } = (await answer.json()) as { readonly replicas: readonly { readonly state: string }[] }
  return replicas.filter(({ state }) => state === 'following').length
}
