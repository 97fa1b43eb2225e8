/** A real vLLM server on the CPU with random weights. */
import { existsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Environment } from './environment.ts'
import type { EngineSpec } from './engine-spec.ts'
import { freePorts, send } from './http.ts'
import type { Command, Processes, RunningProcess } from './processes.ts'

export interface RealEngine {
  readonly name: string
  readonly url: string
  /** null: it was started before the run and continues. */
  readonly process: RunningProcess | null
  /** Sum of one of its metrics over all label sets that contain these labels. */
  metric(name: string, labels?: Readonly<Record<string, string>>): Promise<number>
  stop(): Promise<void>
  /** The same server at the same address, with an empty cache. Not ready yet. */
  again(): RealEngine
}

/** The key of every engine, so that the gateway must add it. */
export const engineKey = 'engine-secret'
export const servedModel = 'tiny'

/** Flags that rows rely on. Block sizes on a CPU are multiples of 32; float32 is the fast type there. */
export const engineFlags: readonly string[] = [
  '--served-model-name',
  servedModel,
  '--load-format',
  'dummy',
  '--dtype',
  'float32',
  '--enforce-eager',
  '--max-model-len',
  '4096',
  '--max-num-seqs',
  '4',
  '--max-num-queued-reqs',
  '8',
  '--block-size',
  '32',
  '--num-gpu-blocks-override',
  '2000',
  '--enable-prefix-caching',
  '--prefix-caching-hash-algo',
  'sha256_cbor',
  '--enable-prompt-tokens-details',
  '--enable-request-id-headers',
  '--enable-per-request-metrics',
  '--enable-server-load-tracking',
  '--enable-auto-tool-choice',
  '--tool-call-parser',
  'hermes',
]

const engineEnv = {
  // Dev mode opens /sleep, /pause and /reset_prefix_cache; the seed makes block hashes reproducible; usage reports are
  // off.
  VLLM_SERVER_DEV_MODE: '1',
  PYTHONHASHSEED: '0',
  VLLM_CPU_KVCACHE_SPACE: '1',
  VLLM_CPU_OMP_THREADS_BIND: 'nobind',
  OMP_NUM_THREADS: '1',
  VLLM_ENABLE_RESPONSES_API_STORE: '1',
  HF_HUB_OFFLINE: '1',
  VLLM_NO_USAGE_STATS: '1',
  DO_NOT_TRACK: '1',
  LMCACHE_TRACK_USAGE: 'false',
  NO_GPU_EXT: '1',
}

/** Without `taskset` or a second core, engines share all cores. */
const canPin = existsSync('/usr/bin/taskset') && availableParallelism() > 1

/** Starts a server; `ready` waits for it. */
export async function startEngine(
  processes: Processes,
  environment: Environment,
  { name, spec }: { readonly name: string; readonly spec: EngineSpec },
): Promise<RealEngine> {
  const { model = 'tiny', args = [], env = {}, host = '127.0.0.1', core } = spec
  const [port, publish, replay] = await freePorts(3)
  // With a star the publisher binds; otherwise it would connect to the address.
  const events = {
    enable_kv_cache_events: true,
    publisher: 'zmq',
    endpoint: `tcp://*:${publish}`,
    replay_endpoint: `tcp://127.0.0.1:${replay}`,
  }
  const command: Command = {
    what: `vllm ${name}`,
    command: [
      ...(core === undefined || !canPin ? [] : ['taskset', '-c', String(core)]),
      environment.bin('vllm'),
      'serve',
      `models/${model}`,
      '--host',
      host,
      '--port',
      String(port),
      '--api-key',
      engineKey,
      ...engineFlags,
      '--kv-events-config',
      JSON.stringify(events),
      ...args,
    ],
    folder: environment.folder,
    env: { ...engineEnv, ...env },
  }
  const start = (): RealEngine => ({
    ...engineAt(name, `http://${host}:${port}`, processes.start(command)),
    again: start,
  })
  return start()
}

export function engineAt(name: string, url: string, running: RunningProcess | null): RealEngine {
  const metric: RealEngine['metric'] = (family, labels) => metricOf(url, family, labels)
  return {
    name,
    url,
    process: running,
    metric,
    stop: async () => running?.stop(),
    again: () => engineAt(name, url, running),
  }
}

/** Resolves when /health returns 200. A start takes about 40 s of one core, and longer beside other work. */
export async function ready(engine: RealEngine, note: (line: string) => void, limitS = 600): Promise<void> {
  const began = performance.now()
  const log = () => engine.process?.tail(30) ?? '(no log)'
  for (let ticks = 1; ; ticks++) {
    const seconds = Math.round((performance.now() - began) / 1000)
    const exit = engine.process?.exitCode() ?? null
    if (exit !== null) throw new Error(`vLLM ${engine.name} ended while starting (${exit}):\n${log()}`)
    const health = await send({ url: engine.url, method: 'GET', path: '/health', limitMs: 2000 }).catch(() => null)
    if (health?.status === 200) return note(`vLLM ${engine.name} is up after ${seconds} s: ${engine.url}`)
    if (seconds > limitS) throw new Error(`vLLM ${engine.name} is not up after ${limitS} s:\n${log()}`)
    if (ticks % 15 === 0) note(`  … vLLM ${engine.name} starting, ${seconds} s`)
    await sleep(1000)
  }
}

/** On two shared cores, an engine may take five seconds to respond during a stream. */
async function metricOf(url: string, name: string, labels: Readonly<Record<string, string>> = {}): Promise<number> {
  const { body } = await send({ url, method: 'GET', path: '/metrics', limitMs: 20_000 })
  let sum = 0
  for (const line of body.toString('utf8').split('\n')) {
    if (!line.startsWith(name) || !/^[ {]/.test(line.slice(name.length))) continue
    if (Object.entries(labels).every(([key, value]) => line.includes(`${key}="${value}"`)))
      sum += Number(line.slice(line.lastIndexOf(' ')))
  }
  return sum
}
