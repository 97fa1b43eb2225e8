/**
 * Number of idle streams that one process can hold: opens them, leaves them idle, ends them all, and reads the
 * remaining bookings. Memory is that of the gateway's process, before the first stream and with all of them.
 *
 * Flags: --streams 10000 · --idle-s 10
 */
import { execFileSync, fork, type ChildProcess } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cpuSeconds, rssBytes, startServed, type StartedProcess } from './proxy/processes.ts'
import type { BenchOptions, BenchResult } from './result.ts'

const ENGINES = 4
/** Two for each stream in the gateway, and some for everything else. */
const SPARE_FILES = 200

export default async function streams({ flags, note }: BenchOptions): Promise<BenchResult> {
  const wanted = Number(flags['streams'] ?? 10_000)
  const idleS = Number(flags['idle-s'] ?? 10)
  const files = raiseFileLimit(2 * wanted + SPARE_FILES)
  const count = Math.min(wanted, Math.floor((files - SPARE_FILES) / 2))
  if (count < wanted) note(`this system allows ${files} open files: ${count} streams instead of ${wanted}`)
  const folder = mkdtempSync(join(tmpdir(), 'firstlight-streams-'))
  const helpers: Helper[] = []
  let gateway: StartedProcess | null = null
  try {
    const engine = new Helper('streams/engine.ts', [String(ENGINES)])
    helpers.push(engine)
    const ports = (await engine.messageOf('listening')) as readonly number[]
    gateway = await startServed(configFile(folder, ports))
    const { pid, port } = gateway
    await new Promise((resolve) => setTimeout(resolve, 2000))
    const before = rssBytes(pid)
    const client = new Helper('streams/client.ts', [String(port), String(count)])
    helpers.push(client)
    const open = (await client.messageOf('open')) as number
    note(`${open} streams are open and have had their first token`)
    const cpuFrom = cpuSeconds(pid)
    await new Promise((resolve) => setTimeout(resolve, idleS * 1000))
    const idleCpu = (cpuSeconds(pid) - cpuFrom) / idleS
    const held = rssBytes(pid)
    const bookedOpen = await booked(port)
    engine.tell('finish')
    const whole = (await client.messageOf('ended')) as number
    const bookedEnd = await booked(port)
    const row = {
      streams: open,
      rss_before_mb: megabytes(before),
      rss_open_mb: megabytes(held),
      rss_per_stream_kb: Math.round(((held - before) / open / 1024) * 10) / 10,
      idle_cpu_share: Math.round(idleCpu * 1000) / 1000,
      booked_open: bookedOpen,
      ended_whole: whole,
      booked_end: bookedEnd,
    }
    if (whole !== open || bookedEnd !== 0 || bookedOpen !== open) process.exitCode = 1
    return { rows: [row], headline: { streams: open, rss_per_stream_kb: row.rss_per_stream_kb, booked_end: bookedEnd } }
  } finally {
    for (const helper of helpers) helper.stop()
    gateway?.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

/** A child that reports its progress in words. */
class Helper {
  readonly #child: ChildProcess
  readonly #messageOf = new Map<string, unknown>()
  #onMessage: (() => void) | null = null

  constructor(file: string, args: readonly string[]) {
    this.#child = fork(fileURLToPath(new URL(file, import.meta.url)), [...args])
    this.#child.on('message', (message) => {
      const { word, value } = message as { word: string; value: unknown }
      this.#messageOf.set(word, value)
      this.#onMessage?.()
    })
    this.#child.on('exit', () => this.#onMessage?.())
  }

  async messageOf(word: string): Promise<unknown> {
    while (!this.#messageOf.has(word)) {
      if (this.#child.exitCode !== null) throw new Error(`a helper ended before its message '${word}'`)
      await new Promise<void>((resolve) => (this.#onMessage = resolve))
    }
    return this.#messageOf.get(word)
  }

  tell(word: string): void {
    this.#child.send(word)
  }

  stop(): void {
    this.#child.kill('SIGKILL')
  }
}

/** Raises the limit for child processes. Returns the resulting limit. */
function raiseFileLimit(files: number): number {
  try {
    execFileSync('prlimit', ['--pid', String(process.pid), `--nofile=${files}:${files}`], { stdio: 'ignore' })
  } catch {
    // Not permitted: Node has already raised the soft limit to the hard one.
  }
  const limits = readFileSync('/proc/self/limits', 'latin1')
  return Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1] ?? 1024)
}

function configFile(folder: string, ports: readonly number[]): string {
  const file = join(folder, 'firstlight.yaml')
  const engines = ports.map((port, i) => `          - { id: e${i}, url: "http://127.0.0.1:${port}" }`).join('\n')
  const limits = 'limits: { first_byte_ms: 120000, idle_ms: 600000 }'
  writeFileSync(
    file,
    'listen: 127.0.0.1:0\nlog: { level: warn }\nclusters:\n  - id: bench\n    pools:\n      - model: fake\n    ' +
      `    ${limits}\n        engines:\n${engines}\n`,
  )
  return file
}

/** Requests booked on all engines, by the gateway's own metrics. */
async function booked(port: number): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  let sum = 0
  for (const [, value] of text.matchAll(/^firstlight_engine_num_requests\{[^}]*\} (\d+)/gm)) sum += Number(value)
  return sum
}

const megabytes = (bytes: number): number => Math.round(bytes / 2 ** 20)
