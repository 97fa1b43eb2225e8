/**
 * A gateway on Node, with or without I/O threads. Threads are killed, configurations change, and new processes take
 * over.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { servingEnv, servingFlags } from '../../../bin/serving-flags.mjs'
import { guard, rssBytes } from '../proxy/processes.ts'
import { changedDocument, keyOf } from './document.ts'
import { fleetLedger, type Ledger } from './ledger.ts'
import type { Deployment, Kill } from './deployment.ts'
import { LogReader } from './log.ts'

/** Longer than a process needs to end its streams: first bytes and silences have shorter limits. */
const DRAIN_MS = 20_000
/** From the switch of the clients to the SIGTERM of the process before: requests may be on their way to it, ms. */
const SWITCH_MS = 1_000

/** One of several successive processes of a deployment. */
interface GatewayProcess {
  readonly url: string
  readonly process: ChildProcess
  readonly file: string
  /** Resolves when the process has reloaded its file. */
  adopted(): Promise<void>
  /** Resolves when it has exited after a SIGTERM. */
  end(): Promise<void>
}

export class NodeGateway implements Deployment {
  readonly log = new LogReader()
  readonly kills: Kill[] = []
  readonly #urls: readonly string[]
  readonly #workers: number
  readonly #folder = mkdtempSync(join(tmpdir(), 'firstlight-chaos-'))
  readonly #ending: Promise<void>[] = []
  #serving!: GatewayProcess
  #turn = 0

  static async start(urls: readonly string[], workers: number, random: () => number): Promise<NodeGateway> {
    const subject = new NodeGateway(urls, workers)
    await subject.#deploy(random)
    return subject
  }

  private constructor(urls: readonly string[], workers: number) {
    this.#urls = urls
    this.#workers = workers
  }

  target(): string {
    return this.#serving.url
  }

  get key(): string {
    // Clients switch to a new key later than the gateway.
    return keyOf(Math.max(1, this.#turn - 1))
  }

  rss(): number {
    return rssBytes(this.#serving.process.pid!)
  }

  async disrupt(random: () => number): Promise<string> {
    if (this.#workers > 1 && random() < 0.4) {
      this.kills.push({ at: performance.now(), url: this.#serving.url })
      this.#serving.process.send('kill')
      return 'thread killed'
    }
    if (random() < 0.5) {
      const { process: serving, file, adopted } = this.#serving
      this.#write(file, random)
      serving.kill('SIGUSR2')
      await adopted()
      return `configuration ${this.#turn} in the same process`
    }
    const before = this.#serving
    await this.#deploy(random)
    this.#ending.push(delay(SWITCH_MS).then(() => before.end()))
    return `configuration ${this.#turn}`
  }

  /** Ledger of the current process. Earlier ones have exited, which they only do after their streams ended. */
  async ledger(): Promise<Ledger> {
    await Promise.all(this.#ending)
    return fleetLedger(this.#serving.url)
  }

  async stop(): Promise<void> {
    await this.#serving.end()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  async #deploy(random: () => number): Promise<void> {
    const file = join(this.#folder, `firstlight-${this.#turn + 1}.yaml`)
    this.#write(file, random)
    this.#serving = await this.#serve(file)
  }

  /** The next configuration. */
  #write(file: string, random: () => number): void {
    const changed = changedDocument(this.#urls, ++this.#turn, random) as { readonly limits: object }
    writeFileSync(
      file,
      JSON.stringify({
        listen: '127.0.0.1:0',
        workers: this.#workers,
        ...changed,
        limits: { ...changed.limits, drain_ms: DRAIN_MS },
      }),
    )
  }

  async #serve(file: string): Promise<GatewayProcess> {
    const child = spawn(
      process.execPath,
      [...servingFlags, fileURLToPath(new URL('served.ts', import.meta.url)), 'serve', '--config', file],
      { stdio: ['ignore', 'pipe', 'pipe', 'ipc'], env: servingEnv(process.env) },
    )
    const stop = guard(child)
    let truncatedStreams: unknown = 'not logged'
    let onAdopted: (() => void) | null = null
    child.stderr!.on('data', (bytes) => this.log.problems.push(`stderr: ${String(bytes)}`))
    const url = new Promise<string>((resolve, reject) => {
      createInterface(child.stdout!).on('line', (line) => {
        const entry = this.log.read(line)
        if (entry?.['event'] === 'listening') resolve(String(entry['url']))
        if (entry?.['event'] === 'configuration_adopted') onAdopted?.()
        if (entry?.['event'] === 'stopped') truncatedStreams = entry['cut']
      })
      child.once('exit', (code) =>
        reject(new Error(`the gateway ended with ${code} before it listened: ${this.log.problems.join('\n')}`)),
      )
    })
    const gone = once(child, 'exit')
    return {
      url: await url,
      process: child,
      file,
      adopted: () => new Promise((resolve) => (onAdopted = resolve)),
      end: async () => {
        stop()
        const [code, signal] = await gone
        if (code !== 0) this.log.problems.push(`the gateway ended with ${code ?? signal}`)
        if (truncatedStreams !== false) this.log.problems.push(`streams were cut at the end: ${truncatedStreams}`)
      },
    }
  }
}
