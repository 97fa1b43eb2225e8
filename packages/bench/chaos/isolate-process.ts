/** One workerd process as a grandchild, which can be killed and suspended by its pid. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { childNamed, guard, rssBytes } from '../proxy/processes.ts'
import { collectGarbage, oneToken } from './collect-garbage.ts'
import type { LogReader } from './log.ts'

const HOST = fileURLToPath(new URL('isolate-host.ts', import.meta.url))

export interface IsolateSpec {
  readonly name: string
  /** Folder in which the processes find each other. */
  readonly registry: string
  /** Worker whose Durable Objects it uses. null: its own. */
  readonly objectsOf: string | null
  readonly document: object
}

interface Addresses {
  readonly url: string
  readonly inspector: string
}

export class IsolateProcess {
  readonly url: string
  readonly #inspector: string
  readonly #host: ChildProcess
  readonly #workerd: number
  readonly #stop: () => void

  static async start(spec: IsolateSpec, log: LogReader): Promise<IsolateProcess> {
    const child = spawn(process.execPath, [HOST, JSON.stringify(spec)], { stdio: ['ignore', 'pipe', 'inherit'] })
    const stop = guard(child)
    const addresses = await new Promise<Addresses>((resolve, reject) => {
      createInterface(child.stdout).on('line', (line) => {
        const fields = log.read(line, `${spec.name}: `)
        if (fields?.['event'] === 'listening') resolve(fields as unknown as Addresses)
      })
      child.once('exit', (code) => reject(new Error(`${spec.name} ended with ${code} before it listened`)))
    })
    return new IsolateProcess(addresses, child, stop)
  }

  private constructor({ url, inspector }: Addresses, host: ChildProcess, stop: () => void) {
    this.url = url
    this.#inspector = inspector
    this.#host = host
    this.#workerd = childNamed(host.pid!, 'workerd')
    this.#stop = stop
  }

  get rss(): number {
    return rssBytes(this.#workerd)
  }

  /** @param key of a client */
  collect(key: string): Promise<void> {
    return collectGarbage(this.#inspector, () => oneToken(this.url, key))
  }

  suspend(): void {
    process.kill(this.#workerd, 'SIGSTOP')
  }

  resume(): void {
    process.kill(this.#workerd, 'SIGCONT')
  }

  /** The host first: it would report the end of workerd. */
  async kill(): Promise<void> {
    const gone = once(this.#host, 'exit')
    this.#host.kill('SIGKILL')
    process.kill(this.#workerd, 'SIGKILL')
    await gone
  }

  async end(): Promise<void> {
    const gone = once(this.#host, 'exit')
    this.#stop()
    await gone
  }
}
