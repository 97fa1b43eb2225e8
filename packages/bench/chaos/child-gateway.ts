/** One gateway on Node as a child process. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { servingEnv, servingFlags } from '../../../bin/serving-flags.mjs'
import type { LogReader } from './log.ts'
import { guard, rssBytes } from '../proxy/processes.ts'

/** The adapter of node:http prints the error that cuts a stream. */
const EXPECTED = /^\[Error: the response was truncated\]$/

export interface ChildOptions {
  /** Name in problem messages. */
  readonly name: string
  /** Path of the document. */
  readonly file: string
  readonly document: object
  readonly log: LogReader
}

/** Ways in which a gateway stops for a while. */
export type Absence = 'killed' | 'ended' | 'asleep'

export class ChildGateway {
  readonly url: string
  readonly #process: ChildProcess
  readonly #stop: () => void
  readonly #options: ChildOptions

  static async start(options: ChildOptions): Promise<ChildGateway> {
    const { name, file, document, log } = options
    writeFileSync(file, JSON.stringify({ listen: '127.0.0.1:0', ...document }))
    const child = spawn(
      process.execPath,
      [...servingFlags, fileURLToPath(new URL('../../../src/node.ts', import.meta.url)), 'serve', '--config', file],
      { stdio: ['ignore', 'pipe', 'pipe'], env: servingEnv(process.env) },
    )
    const stop = guard(child)
    createInterface(child.stderr).on('line', (line) => {
      if (!EXPECTED.test(line)) log.problems.push(`${name}: ${line}`)
    })
    const url = await new Promise<string>((resolve, reject) => {
      createInterface(child.stdout).on('line', (line) => {
        const fields = log.read(line, `${name}: `)
        if (fields?.['event'] === 'listening') resolve(String(fields['url']))
      })
      child.once('exit', (code) => reject(new Error(`${name} ended with ${code} before it listened`)))
    })
    return new ChildGateway(options, { url, process: child, stop })
  }

  private constructor(
    options: ChildOptions,
    { url, process: child, stop }: { readonly url: string; readonly process: ChildProcess; readonly stop: () => void },
  ) {
    this.#options = options
    this.url = url
    this.#process = child
    this.#stop = stop
  }

  get rss(): number {
    return rssBytes(this.#process.pid!)
  }

  /** Resolves when it is back. @param awayMs duration of the absence @returns the gateway that runs then */
  async leave(how: Absence, awayMs: number, changes: object = {}): Promise<ChildGateway> {
    if (how === 'asleep') {
      this.#process.kill('SIGSTOP')
      await sleep(awayMs)
      this.#process.kill('SIGCONT')
      return this
    }
    if (how === 'ended') await this.end()
    else {
      const gone = once(this.#process, 'exit')
      this.#process.kill('SIGKILL')
      await gone
    }
    await sleep(awayMs)
    return ChildGateway.start({ ...this.#options, document: { ...this.#options.document, ...changes } })
  }

  async end(): Promise<void> {
    const gone = once(this.#process, 'exit')
    this.#stop()
    const [code, signal] = await gone
    if (code !== 0) this.#options.log.problems.push(`${this.#options.name} ended with ${code ?? signal}`)
  }
}
