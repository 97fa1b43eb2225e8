/** How long the processes of a server waited for a CPU, from Linux' scheduler statistics. */
import { readdirSync, readFileSync } from 'node:fs'
import type { Running } from './processes.ts'

const intervalMs = 100

export class CpuWaits {
  /** Files of the processes in the server's process group. */
  readonly #files: readonly string[]
  /** Milliseconds of `performance.now()`, and of waiting so far. */
  readonly #samples: { readonly at: number; readonly waitedMs: number }[] = []
  readonly #timer: NodeJS.Timeout

  constructor({ pid }: Running) {
    this.#files = readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name) && groupOf(name) === pid)
      .map((name) => `/proc/${name}/schedstat`)
    this.#sample()
    this.#timer = setInterval(() => this.#sample(), intervalMs)
  }

  /** Milliseconds that they waited, in all, between two times. */
  between(from: number, to: number): number {
    return this.#waitedBy(to) - this.#waitedBy(from)
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#sample()
  }

  #sample(): void {
    const waitedMs = this.#files.reduce((sum, file) => sum + Number(read(file).split(' ')[1] ?? 0) / 1e6, 0)
    this.#samples.push({ at: performance.now(), waitedMs })
  }

  #waitedBy(time: number): number {
    const next = this.#samples.findIndex(({ at }) => at >= time)
    const [after, before] = [this.#samples.at(next)!, this.#samples[Math.max(0, next - 1)]!]
    if (next <= 0) return after.waitedMs
    const share = (time - before.at) / (after.at - before.at)
    return before.waitedMs + share * (after.waitedMs - before.waitedMs)
  }
}

/** The process group in `/proc/PID/stat`, the third field after the name in brackets. */
function groupOf(pid: string): number {
  return Number(read(`/proc/${pid}/stat`).split(') ').at(-1)?.split(' ')[2])
}

/** Empty if the process has ended. */
function read(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
