/** Child processes of a benchmark: their CPU, their memory, and their end. */
import { fork, spawn, type ChildProcess } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { servingEnv, servingFlags } from '../../../bin/serving-flags.mjs'
import { bundleNode } from '../../../scripts/bundle-node.ts'
import { freeAddress } from '../../../src/platform/node/threads/free-address.ts'
import { until } from '../conformance/until.ts'

const here = (file: string): string => fileURLToPath(new URL(file, import.meta.url))
const running = new Set<ChildProcess>()
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

export interface StartedProcess {
  readonly pid: number
  readonly port: number
  stop(): void
}

export interface StartedScript extends StartedProcess {
  /** All ports that it listens on. */
  readonly ports: readonly number[]
}

/** Starts a script that prints a line with `{"port":N}` once it listens, and with `"ports":[…]` if it has several. */
export async function startScript(file: string, args: readonly string[]): Promise<StartedScript> {
  const child = spawn(process.execPath, [here(file), ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
  const stop = guard(child)
  const line = await new Promise<string>((resolve, reject) => {
    let text = ''
    child.stdout.on('data', (bytes) => {
      text += String(bytes)
      const found = /^.*"(?:port|url)":.*\n/m.exec(text)
      if (found !== null) resolve(found[0])
    })
    child.once('exit', (code) => reject(new Error(`${file} ended with ${code} before it listened: ${text}`)))
  })
  const port = Number(/"(?:port|url)":(?:"[^"]*:)?(\d+)/.exec(line)![1])
  const ports = /"ports":\[([\d,]+)\]/.exec(line)?.[1]!.split(',').map(Number) ?? [port]
  return { pid: child.pid!, port, ports, stop }
}

export interface ServedProcess extends StartedProcess {
  /** Resolves with the exit code; null: a signal ended it. */
  readonly exited: Promise<number | null>
}

interface ServedOptions {
  /** Started in place of the package's bundle. */
  readonly script?: string
  /** File of its log. */
  readonly stdout?: number | 'ignore'
  /** Further environment variables. */
  readonly env?: Readonly<Record<string, string>>
}

/** `firstlight serve` with this configuration file, as a package ships and starts it. */
export async function startServed(
  file: string,
  { script = `${BUNDLE}/program.mjs`, stdout = 'ignore', env = {} }: ServedOptions = {},
): Promise<ServedProcess> {
  bundled ??= bundleNode(BUNDLE)
  await bundled
  const { port } = await freeAddress({ host: '127.0.0.1', port: 0 })
  const child = spawn(
    process.execPath,
    [...servingFlags, script, 'serve', '--config', file, '--listen', `127.0.0.1:${port}`],
    { stdio: ['ignore', stdout, 'inherit'], env: { ...servingEnv(process.env), ...env } },
  )
  const stop = guard(child)
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve))
  const listens = async (): Promise<boolean> => {
    const ended = child.exitCode ?? child.signalCode
    if (ended !== null) throw new Error(`firstlight serve ended with ${ended} before it listened`)
    return answers(port)
  }
  await until(listens, 'firstlight serve to listen', { everyMs: 20 })
  return { pid: child.pid!, port, stop, exited }
}

/** In this folder for the packages beside it. */
const BUNDLE = here('../../../.cache/bench/node')
let bundled: Promise<unknown> | null = null

const answers = (port: number): Promise<boolean> =>
  fetch(`http://127.0.0.1:${port}/health`).then(
    ({ ok }) => ok,
    () => false,
  )

/** Ends the child with this process at the latest. Returns a function that ends it earlier. */
export function guard(child: ChildProcess): () => void {
  running.add(child)
  return () => {
    running.delete(child)
    child.kill('SIGTERM')
  }
}

export type LoadPlan = Load &
  (
    | { readonly ms: number; readonly warmMs: number }
    /** Not before `connections` requests have ended, and as many afterwards. */
    | { readonly requests: number; readonly warmRequests: number }
  )

export interface Load {
  readonly port: number
  readonly connections: number
  readonly bytes: number
  /** Absent: that of the engine. */
  readonly pace?: readonly [ttftMs: number, itlMs: number]
  /** Default: true. */
  readonly stream?: boolean
  /** `max_tokens` of the requests. Default: none. */
  readonly maxTokens?: number
  /** Prompts differ from their first word on. Default: they share all but their last words. */
  readonly distinct?: boolean
  /** Time over which the clients start. Default: all at once. */
  readonly rampMs?: number
  /** Additional lines of the request's head. */
  readonly head?: string
  /** Path of the requests, `/v1/messages` or `/v1/responses`. Absent: chat. */
  readonly path?: string
}

export interface LoadResult {
  readonly requests: number
  readonly errors: number
  readonly ttfb_ms_p50: number
  readonly ttfb_ms_p99: number
  readonly total_ms_p50: number
  /** CPU of the measured process tree per counted request. */
  readonly cpu_us: number | null
}

/** Runs one load; the CPU is that of `pid` and its children between the first and last counted request. */
export async function runLoad(plan: LoadPlan, pid: number | null): Promise<LoadResult> {
  const child = fork(here('load.ts'), [JSON.stringify(plan)], { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] })
  running.add(child)
  let from = 0
  let to = 0
  child.on('message', (word) => {
    if (pid === null) return
    if (word === 'counting') from = cpuSeconds(pid)
    if (word === 'counted') to = cpuSeconds(pid)
  })
  let text = ''
  child.stdout!.on('data', (bytes) => (text += String(bytes)))
  await new Promise((resolve) => child.once('exit', resolve))
  running.delete(child)
  const result = JSON.parse(text) as Omit<LoadResult, 'cpu_us'>
  return { ...result, cpu_us: pid === null ? null : ((to - from) / result.requests) * 1e6 }
}

/** User and system time of the running threads of a process and its children (Linux). */
export function cpuSeconds(pid: number): number {
  let ns = 0
  for (const id of tree(pid)) for (const thread of threadsOf(id)) ns += runNs(`/proc/${id}/task/${thread}/schedstat`)
  return ns / 1e9
}

function threadsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`)
  } catch {
    return []
  }
}

/** `stat` has this time too, but in ticks of 10 ms, a tenth of a slice of 300 requests. 0: the thread has ended. */
function runNs(file: string): number {
  try {
    return Number(readFileSync(file, 'latin1').split(' ')[0])
  } catch {
    return 0
  }
}

export function rssBytes(pid: number): number {
  let pages = 0
  for (const id of tree(pid)) pages += Number(statOf(id)?.[21] ?? 0)
  return pages * 4096
}

/** Process of this name (/proc/PID/comm) among a process's descendants. */
export function childNamed(root: number, name: string): number {
  const found = tree(root).find((pid) => readFileSync(`/proc/${pid}/comm`, 'utf8').trim() === name)
  if (found === undefined) throw new Error(`process ${root} has no child ${name}`)
  return found
}

/** Fields of /proc/PID/stat after the command's closing bracket. */
function statOf(pid: number): string[] | null {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]!.split(' ')
  } catch {
    return null
  }
}

function tree(root: number): number[] {
  const found = [root]
  const parents = new Map<number, number>()
  for (const entry of readdirSync('/proc')) {
    const pid = Number(entry)
    if (!Number.isInteger(pid)) continue
    const fields = statOf(pid)
    if (fields !== null) parents.set(pid, Number(fields[1]))
  }
  for (let i = 0; i < found.length; i++) for (const [pid, parent] of parents) if (parent === found[i]) found.push(pid)
  return found
}
