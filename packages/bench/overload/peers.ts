/**
 * Overload over HTTP: simulated engines behind Firstlight with and without `slo`, and behind vllm-router and SMG without
 * limits, with their queues, their rate limits and SMG's refusals of overload. Real time; the peers are optional.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { drive } from '../../replay/src/load/drive.ts'
import { startFleet } from '../../simulator/src/node/fleet-host.ts'
import { chance } from '../../replay/src/replay/chance.ts'
import { fleetOf } from '../../replay/src/replay/plan.ts'
import { rateAt, speedOf } from '../../replay/src/replay/sustained-speed.ts'
import { figuresOf, type Slo } from '../../replay/src/replay/statistics.ts'
import type { Trace } from '../../replay/src/replay/trace.ts'
import { sharedPrefixes } from '../../replay/src/replay/workloads.ts'
import { profileNamed } from '../../simulator/src/profiles.ts'
import { arriving } from '../policies/workloads.ts'
import { startPeer } from '../peers/start-peer.ts'
import { startServed } from '../proxy/processes.ts'
import type { BenchRow } from '../result.ts'

const MODEL = 'sim'
const ENGINES = 4
const PROFILE = 'demo'
const LOADS = [1.5, 2]
/** Duration of one run, which also ends the learning of Firstlight: it starts anew for each. */
const SECONDS = 25
const SLO: Slo = { ttftMs: 2_000, itlMs: 100 }
const PEERS = ['vllm-router', 'smg'] as const
/** Limits of running requests that peers are tried with, per engine. */
const CONCURRENT = [8]
/** More requests than any run has. */
const REQUESTS = 6_000

export async function overloadBesidePeers(
  note: (line: string) => void,
  installed: string | null,
): Promise<{ readonly rows: readonly BenchRow[]; readonly headline: Readonly<Record<string, number>> }> {
  const trace = workload()
  const plan = fleetOf(ENGINES, { kind: 'vllm', profile: profileNamed(PROFILE) })
  const pace = { closedLoop: false, concurrency: Infinity, holdAt: null, seed: 1, clockMs: null }
  const sustained = speedOf(1, { ...trace, requests: trace.requests.slice(0, 1_000) }, plan, pace)
  const perS = rateAt(sustained, trace)
  const work = mkdtempSync(join(tmpdir(), 'firstlight-overload-'))
  const skipped = new Set<string>()
  const rows: BenchRow[] = []
  try {
    for (const load of LOADS) {
      for (const { name, start } of [...ours(work), ...peers({ perS, work, installed })]) {
        if (skipped.has(name)) continue
        note(`load ${load} (${(load * perS).toFixed(1)} requests/s), ${name} …`)
        const row = await measure(trace, load * sustained, start).catch((error: unknown) => {
          if (name.startsWith('firstlight')) throw error
          note(`SKIPPED ${name}: ${String(error)}`)
          skipped.add(name)
        })
        if (row !== undefined) rows.push({ load, router: name, ...row })
      }
    }
  } finally {
    rmSync(work, { recursive: true, force: true })
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
    const peerFigures = PEERS.filter((peer) => rows.some(({ router }) => String(router).startsWith(peer))).map(
      (peer): [string, number] => [`${peer.replace('-', '_')}_best_goodput_at_${at}`, best(load, peer)],
    )
    return [[`slo_goodput_at_${at}`, best(load, 'firstlight slo')] as [string, number], ...peerFigures]
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

/** A started router. */
interface Router {
  readonly port: number
  end(): Promise<void> | void
}

type Start = (engines: readonly string[]) => Promise<Router>

interface Contestant {
  readonly name: string
  readonly start: Start
}

const engineAt = (url: string, at: number): object => ({ id: `e${at}`, url, profile: 'l4-8b' })

const firstlight =
  (pool: object, work: string): Start =>
  async (engines) => {
    const file = join(work, 'firstlight.json')
    const clusters = [{ id: 'c', pools: [{ model: MODEL, block_tokens: 16, engines: engines.map(engineAt), ...pool }] }]
    writeFileSync(file, JSON.stringify({ open: true, log: { level: 'error' }, clusters }))
    const { port, stop } = await startServed(file)
    return { port, end: stop }
  }

const ours = (work: string): readonly Contestant[] => [
  { name: 'firstlight', start: firstlight({}, work) },
  { name: 'firstlight slo', start: firstlight({ slo: { ttft_ms: SLO.ttftMs, itl_ms: SLO.itlMs } }, work) },
]

interface PeerPlan {
  /** Requests per second that the engines sustain. */
  readonly perS: number
  readonly work: string
  /** Folder of Python environments; null: programs on the path. */
  readonly installed: string | null
}

/** Their queues hold 100 requests by default; they wait for at most the objective, because later ones are lost anyway. */
function peers({ perS, work, installed }: PeerPlan): readonly Contestant[] {
  const router = (name: string, limits: string, flags: readonly (string | number)[]): Contestant => ({
    name: `${name.replace(':', ' ')}${limits}`,
    start: (engines) => startPeer({ name, engines, work, installed, model: MODEL, flags: flags.map(String) }),
  })
  const rate = Math.max(1, Math.round(perS))
  const limitedRate = ['--max-concurrent-requests', rate, '--rate-limit-tokens-per-second', rate]
  const waits = ['--queue-timeout-secs', Math.max(1, Math.round(SLO.ttftMs / 1_000))]
  const limited = PEERS.flatMap((peer) => {
    const name = `${peer}:cache_aware`
    return [
      router(name, '', []),
      ...CONCURRENT.map((each) =>
        router(name, `, ${each} concurrent`, ['--max-concurrent-requests', each * ENGINES, ...waits]),
      ),
      router(name, ', rate limit', [...limitedRate, ...waits]),
    ]
  })
  // SMG reads loads every 10 s by default, which is half of a run.
  const shed = ['--worker-overload-shed', '--load-monitor-interval', '1']
  return [
    ...limited,
    ...['smg:cache_aware', 'smg:least_load'].map((name) => router(name, ', shed', shed)),
    router('smg:prefix_hash', '', []),
  ]
}

/** Each run has new engines, with empty caches. */
async function measure(trace: Trace, speed: number, start: Start): Promise<BenchRow> {
  const ids = Array.from({ length: ENGINES }, (_, at) => ({ id: `e${at}` }))
  const fleet = await startFleet({ model: MODEL, profile: PROFILE, engines: ids })
  let router: Router | null = null
  try {
    router = await start(fleet.urls)
    const { result, lateP99Ms, problems } = await drive(trace, {
      target: { url: `http://127.0.0.1:${router.port}`, model: MODEL, key: null, chats: true },
      speed,
      closedLoop: false,
      thinkFromStart: false,
      concurrency: Infinity,
      timeMs: SECONDS * 1_000,
      signal: new AbortController().signal,
      progress: () => {},
    })
    const { goodput, ttftP50Ms, ttftP99Ms, itlMeanMs, hit } = figuresOf(result, SLO)
    // SMG answers 503 for overload.
    const busy = (problems.get('status 429') ?? 0) + (problems.get('status 503') ?? 0)
    return {
      requests: result.jobs.length,
      goodput: round(goodput),
      refused: round(busy / result.jobs.length),
      other_failures: round((result.refused - busy) / result.jobs.length),
      ttft_p50_ms: Math.round(ttftP50Ms),
      ttft_p99_ms: Math.round(ttftP99Ms),
      itl_ms: round(itlMeanMs),
      hit: round(hit),
      late_p99_ms: Math.round(lateP99Ms),
    }
  } finally {
    await router?.end()
    await fleet.close()
  }
}

const round = (value: number): number => Number(value.toFixed(3))
