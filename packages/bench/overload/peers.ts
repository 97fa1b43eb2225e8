/**
 * Overload over HTTP: simulated engines behind Firstlight with and without `slo`, and behind vllm-router without limits,
 * with its queue, and with its rate limit. Real time; the program is optional.
 */
import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { drive } from '../../replay/src/load/drive.ts'
import { freeAddress } from '../../../src/platform/node/threads/free-address.ts'
import { startFleet } from '../../simulator/src/node/fleet-host.ts'
import { chance } from '../../replay/src/replay/chance.ts'
import { fleetOf } from '../../replay/src/replay/plan.ts'
import { rateAt, speedOf } from '../../replay/src/replay/sustained-speed.ts'
import { figuresOf, type Slo } from '../../replay/src/replay/statistics.ts'
import type { Trace } from '../../replay/src/replay/trace.ts'
import { sharedPrefixes } from '../../replay/src/replay/workloads.ts'
import { profileNamed } from '../../simulator/src/profiles.ts'
import { until } from '../conformance/until.ts'
import { arriving } from '../policies/workloads.ts'
import { guard, type StartedProcess, startServed } from '../proxy/processes.ts'
import type { BenchRow } from '../result.ts'

const MODEL = 'sim'
const ENGINES = 4
const PROFILE = 'demo'
const LOADS = [1.5, 2]
/** Duration of one run, which also ends the learning of Firstlight: it starts anew for each. */
const SECONDS = 25
const SLO: Slo = { ttftMs: 2_000, itlMs: 100 }
/** Limits of running requests that vllm-router is tried with, per engine. */
const CONCURRENT = [8]
/** More requests than any run has. */
const REQUESTS = 6_000

export async function overloadBesidePeers(
  note: (line: string) => void,
  program: string,
): Promise<{ readonly rows: readonly BenchRow[]; readonly headline: Readonly<Record<string, number>> }> {
  const trace = workload()
  const plan = fleetOf(ENGINES, { kind: 'vllm', profile: profileNamed(PROFILE) })
  const pace = { closedLoop: false, concurrency: Infinity, holdAt: null, seed: 1, clockMs: null }
  const sustained = speedOf(1, { ...trace, requests: trace.requests.slice(0, 1_000) }, plan, pace)
  const perS = rateAt(sustained, trace)
  const version = versionOf(program)
  if (version === null)
    note(
      `SKIPPED vllm-router: \`${program}\` does not run. Install it (pip install vllm-router) and name it in --router.`,
    )
  const rows: BenchRow[] = []
  for (const load of LOADS) {
    for (const { name, start } of [...ours, ...(version === null ? [] : peers(program, perS))]) {
      note(`load ${load} (${(load * perS).toFixed(1)} requests/s), ${name} …`)
      rows.push({ load, router: name, ...(await measure(trace, load * sustained, start)) })
    }
  }
  const best = (load: number, kind: string): number =>
    Math.max(
      0,
      ...rows
        .filter((row) => row['load'] === load && String(row['router']).startsWith(kind))
        .map((row) => Number(row['goodput'])),
    )
  const figures = LOADS.flatMap((load) => {
    const at = String(load).replace('.', '_')
    const peer = version === null ? [] : [[`vllm_router_best_goodput_at_${at}`, best(load, 'vllm-router')]]
    return [[`slo_goodput_at_${at}`, best(load, 'firstlight slo')], ...peer] as [string, number][]
  })
  return { rows, headline: Object.fromEntries(figures) }
}

/** Half of each prompt is one of twenty prefixes; arrivals are random. */
function workload(): Trace {
  const prompts = sharedPrefixes({
    name: 'overload',
    requests: REQUESTS,
    promptTokens: 1_600,
    outputTokens: 60,
    prefixes: 20,
    prefixShare: 0.5,
    varyPrompt: 0.8,
    varyOutput: 0.5,
    blockTokens: 16,
    seed: 1,
  })
  return arriving(prompts, 10, chance(7))
}

type Start = (engines: readonly string[]) => Promise<StartedProcess>

interface Contestant {
  readonly name: string
  readonly start: Start
}

const engineAt = (url: string, at: number): object => ({ id: `e${at}`, url, profile: 'l4-8b' })

const firstlight =
  (pool: object): Start =>
  async (engines) => {
    const folder = mkdtempSync(join(tmpdir(), 'firstlight-overload-'))
    const file = join(folder, 'firstlight.json')
    const clusters = [{ id: 'c', pools: [{ model: MODEL, block_tokens: 16, engines: engines.map(engineAt), ...pool }] }]
    writeFileSync(file, JSON.stringify({ open: true, log: { level: 'error' }, clusters }))
    const started = await startServed(file)
    rmSync(folder, { recursive: true })
    return started
  }

const ours: readonly Contestant[] = [
  { name: 'firstlight', start: firstlight({}) },
  { name: 'firstlight slo', start: firstlight({ slo: { ttft_ms: SLO.ttftMs, itl_ms: SLO.itlMs } }) },
]

/** Its queue holds 100 requests by default; they wait for at most the objective, because later ones are lost anyway. */
function peers(program: string, sustainedPerS: number): readonly Contestant[] {
  const router = (name: string, flags: readonly (string | number)[]): Contestant => ({
    name: `vllm-router ${name}`,
    start: (engines) => startRouter(program, [...flags.map(String), '--worker-urls', ...engines]),
  })
  const policy = ['--policy', 'cache_aware']
  const perS = Math.max(1, Math.round(sustainedPerS))
  const waits = ['--queue-timeout-secs', Math.max(1, Math.round(SLO.ttftMs / 1_000))]
  return [
    router('cache_aware', policy),
    ...CONCURRENT.map((each) =>
      router(`cache_aware, ${each} concurrent`, [...policy, '--max-concurrent-requests', each * ENGINES, ...waits]),
    ),
    router('cache_aware, rate limit', [
      ...policy,
      '--max-concurrent-requests',
      perS,
      '--rate-limit-tokens-per-second',
      perS,
      ...waits,
    ]),
  ]
}

async function startRouter(program: string, flags: readonly string[]): Promise<StartedProcess> {
  const [{ port }, metrics] = [await freePort(), await freePort()]
  const base = ['--host', '127.0.0.1', '--port', String(port), '--prometheus-port', String(metrics.port)]
  const quiet = ['--log-level', 'error', '--worker-startup-check-interval', '1']
  const child = spawn(program, [...base, ...quiet, ...flags], { stdio: ['ignore', 'ignore', 'inherit'] })
  const stop = guard(child)
  const healthy = async (): Promise<boolean> => {
    if (child.exitCode !== null) throw new Error(`${program} ended with ${child.exitCode} before it listened`)
    return fetch(`http://127.0.0.1:${port}/health`).then(
      ({ ok }) => ok,
      () => false,
    )
  }
  await until(healthy, `${program} to listen`, { everyMs: 200, limitMs: 60_000 })
  return { pid: child.pid!, port, stop }
}

const freePort = () => freeAddress({ host: '127.0.0.1', port: 0 })

/** Each run has new engines, with empty caches. */
async function measure(trace: Trace, speed: number, start: Start): Promise<BenchRow> {
  const ids = Array.from({ length: ENGINES }, (_, at) => ({ id: `e${at}` }))
  const fleet = await startFleet({ model: MODEL, profile: PROFILE, engines: ids })
  const router = await start(fleet.urls)
  try {
    const { result, lateP99Ms, problems } = await drive(trace, {
      target: { url: `http://127.0.0.1:${router.port}`, model: MODEL, key: null },
      speed,
      closedLoop: false,
      thinkFromStart: false,
      concurrency: Infinity,
      timeMs: SECONDS * 1_000,
      signal: new AbortController().signal,
      progress: () => {},
    })
    const { goodput, ttftP50Ms, ttftP99Ms, itlMeanMs, hit } = figuresOf(result, SLO)
    const busy = problems.get('status 429') ?? 0
    return {
      requests: result.jobs.length,
      goodput: round(goodput),
      refused_429: round(busy / result.jobs.length),
      other_failures: round((result.refused - busy) / result.jobs.length),
      ttft_p50_ms: Math.round(ttftP50Ms),
      ttft_p99_ms: Math.round(ttftP99Ms),
      itl_ms: round(itlMeanMs),
      hit: round(hit),
      late_p99_ms: Math.round(lateP99Ms),
    }
  } finally {
    router.stop()
    await fleet.close()
  }
}

function versionOf(program: string): string | null {
  try {
    return execFileSync(program, ['--help'], { stdio: ['ignore', 'pipe', 'ignore'] }).toString()
  } catch {
    return null
  }
}

const round = (value: number): number => Number(value.toFixed(3))
