/** Processes of the attacks: fake engines and gateways, each a child that ends with this process at the latest. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { guard } from '../proxy/processes.ts'
import type { EngineStats } from './engine.ts'

const path = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url))

export interface Engines {
  readonly urls: readonly string[]
  stats(at?: number): Promise<EngineStats>
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>
  /** Starts the process again on the same ports. */
  restart(): Promise<void>
}

/** Everything one attack started; `stop` ends all of it. */
export class Site {
  readonly #folder = mkdtempSync(join(tmpdir(), 'firstlight-attacks-'))
  readonly #children = new Set<ChildProcess>()
  #serial = 0

  /** One process that serves `count` engines. */
  async engines(count: number): Promise<Engines> {
    let { child, ports } = await this.#engineProcess(Array<number>(count).fill(0))
    const urls = ports.map((port) => `http://127.0.0.1:${port}`)
    return {
      urls,
      stats: async (at = 0) => (await (await fetch(`${urls[at]}/attack-stats`)).json()) as EngineStats,
      kill: () => this.#kill(child),
      restart: async () => void ({ child, ports } = await this.#engineProcess(ports)),
    }
  }

  /** `firstlight serve` with this document, on a free port. */
  async gateway(
    document: object,
    { descriptors, cpu }: { readonly descriptors?: number; readonly cpu?: number } = {},
  ): Promise<Gateway> {
    const file = join(this.#folder, `gateway-${this.#serial++}.yaml`)
    writeFileSync(file, JSON.stringify({ listen: '127.0.0.1:0', log: { level: 'info' }, ...document }))
    const command = [process.execPath, path('../../../bin/firstlight.mjs'), 'serve', '--config', file]
    const pinned = cpu === undefined ? command : ['taskset', '-c', String(cpu), ...command]
    const limited =
      descriptors === undefined ? pinned : ['sh', '-c', `ulimit -n ${descriptors}; exec "$@"`, 'sh', ...pinned]
    const child = this.#spawn(limited)
    const gateway = new Gateway(child)
    await gateway.listening
    return gateway
  }

  /** A process of this command line until `stop`. */
  run(command: readonly string[]): ChildProcess {
    return this.#spawn(command)
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#children].map((child) => this.#kill(child)))
    rmSync(this.#folder, { recursive: true, force: true })
  }

  async #engineProcess(ports: readonly number[]): Promise<{ child: ChildProcess; ports: readonly number[] }> {
    const child = this.#spawn([process.execPath, path('engine.ts'), ...ports.map(String)])
    const [line] = (await once(createInterface(child.stdout!), 'line')) as [string]
    return { child, ports: (JSON.parse(line) as { ports: number[] }).ports }
  }

  #spawn([program, ...args]: readonly string[]): ChildProcess {
    const child = spawn(program!, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    this.#children.add(child)
    guard(child)
    return child
  }

  async #kill(child: ChildProcess): Promise<void> {
    this.#children.delete(child)
    if (child.exitCode !== null || child.signalCode !== null) return
    const gone = once(child, 'exit')
    child.kill('SIGKILL')
    await gone
  }
}

export type LogLine = Readonly<Record<string, unknown>> & { readonly event?: string }

export class Gateway {
  readonly pid: number
  readonly log: LogLine[] = []
  /** Resolves once it accepts connections; rejects if the process ends first. */
  readonly listening: Promise<void>
  readonly #child: ChildProcess
  port = 0

  constructor(child: ChildProcess) {
    this.#child = child
    this.pid = child.pid!
    this.listening = new Promise((resolve, reject) => {
      createInterface(child.stdout!).on('line', (text) => {
        const line = lineOf(text)
        this.log.push(line)
        if (line.event !== 'listening') return
        this.port = Number(new URL(String(line['url'])).port)
        resolve()
      })
      child.once('exit', (code) =>
        reject(
          new Error(`firstlight serve ended with ${code} before it listened: ${JSON.stringify(this.log.at(-1) ?? '')}`),
        ),
      )
    })
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  get alive(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name)
  }

  /** SIGKILL; resolves when the process is gone. */
  async kill(): Promise<void> {
    if (!this.alive) return
    const gone = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await gone
  }

  count(event: string): number {
    return this.log.filter((line) => line.event === event).length
  }

  /** Samples of `/metrics`, one per label set. */
  async metrics(): Promise<Sample[]> {
    const text = await (await fetch(`${this.url}/metrics`)).text()
    return [...text.matchAll(/^(\w+)(\{[^}]*\})? ([\d.eE+-]+)$/gm)].map(([, name, labels, value]) => ({
      name: name!,
      labels: labels ?? '',
      value: Number(value),
    }))
  }

  async sum(metric: string): Promise<number> {
    return (await this.metrics()).reduce((total, { name, value }) => (name === metric ? total + value : total), 0)
  }

  /** Resident memory now, in bytes; null where there is no /proc. */
  get rssBytes(): number | null {
    return this.#status('VmRSS')
  }

  /** The largest resident memory since `resetPeak`, in bytes. */
  get peakBytes(): number | null {
    return this.#status('VmHWM')
  }

  resetPeak(): void {
    try {
      writeFileSync(`/proc/${this.pid}/clear_refs`, '5')
    } catch {
      // Without it the peak is the one since the start.
    }
  }

  #status(field: string): number | null {
    try {
      const kib = new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(readFileSync(`/proc/${this.pid}/status`, 'latin1'))
      return kib === null ? null : Number(kib[1]) * 1024
    } catch {
      return null
    }
  }
}

export interface Sample {
  readonly name: string
  readonly labels: string
  readonly value: number
}

function lineOf(text: string): LogLine {
  try {
    return JSON.parse(text) as LogLine
  } catch {
    return { text }
  }
}
