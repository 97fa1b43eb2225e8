/**
 * Time to first token over HTTP: the first part of each trace as chats, open loop or with its sessions, through each
 * gateway on simulated engines that are as many times faster as the trace is played faster.
 */
import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { drive } from '../../replay/src/load/drive.ts'
import { fleetOf } from '../../replay/src/replay/plan.ts'
import { figuresOf } from '../../replay/src/replay/statistics.ts'
import { speedOf } from '../../replay/src/replay/sustained-speed.ts'
import { readTrace, spread, type Trace } from '../../replay/src/replay/trace.ts'
import { profileNamed } from '../../simulator/src/profiles.ts'
import { workloadNamed } from '../policies/workloads.ts'
import { startScript } from '../proxy/processes.ts'
import type { BenchResult, BenchRow } from '../result.ts'
import { type GatewaySite, OWN, ROUND_ROBIN, SMG_POLICIES, startGateway } from './gateways.ts'
import { MODEL, PROFILE } from './simulated-fleet.ts'

const SUBJECTS = [OWN, ...SMG_POLICIES, 'vllm-router:cache_aware', ROUND_ROBIN]
/** Numbers of engines: the first that the requests can load. With few sessions, engines stay idle between their turns. */
const ENGINES = [8, 4, 2, 1]
const LOAD = 0.7
const SEED = 1
/** Beyond, the machine is too busy for a comparison. */
const MAX_LATE_MS = 50
const SLO = { ttftMs: 5_000, itlMs: 100 }

export interface FirstTokenPlan {
  /** Traces; none: generated traffic. */
  readonly files: readonly string[]
  /** Requests of each trace. */
  readonly requests: number
  /** How many times faster than recorded engines and traffic run. */
  readonly timeScale: number
  /** No request of a gateway starts later than this, s: users of sessions may think for hours. */
  readonly maxS: number
}

export async function measureFirstTokens(
  site: Omit<GatewaySite, 'engines' | 'model'>,
  { files, requests, timeScale, maxS }: FirstTokenPlan,
): Promise<BenchResult> {
  const traces =
    files.length === 0
      ? [firstOf(workloadNamed('prefixes').trace, requests)]
      : files.map((file) => readTrace(basename(file, '.jsonl'), readFileSync(file, 'utf8'), { limit: requests }))
  const rows: BenchRow[] = []
  site.note('Computing the loads …')
  for (const traffic of traces.map((trace) => trafficOf(spread(trace, SEED), timeScale))) {
    const { trace, engines } = traffic
    site.note(`${trace.name}: ${trace.requests.length} requests, ${engines} engines`)
    for (const name of SUBJECTS) {
      if (!site.chosen(name)) continue
      site.note(`${trace.name}, ${name} …`)
      const row = await measure(name, { ...traffic, maxS }, site)
      if (Number(row?.['sent_late_p99_ms']) > MAX_LATE_MS)
        site.note(`DISTURBED: requests were sent up to ${row!['sent_late_p99_ms']} ms late. Repeat on an idle machine.`)
      if (row === null) continue
      rows.push({ part: 'ttft', trace: trace.name, gateway: name, engines, ...row })
      site.note(`  mean TTFT ${row['ttft_mean_s']} s, p99 ${row['ttft_p99_s']} s`)
    }
  }
  return { rows, headline: headlineOf(rows) }
}

const firstOf = (trace: Trace, limit: number): Trace => ({ ...trace, requests: trace.requests.slice(0, limit) })

interface Traffic {
  readonly trace: Trace
  readonly engines: number
  readonly closedLoop: boolean
  readonly speed: number
  readonly timeScale: number
}

/** Its speed loads the engines to 70 % of what they sustain. */
function trafficOf(trace: Trace, timeScale: number): Traffic {
  const closedLoop = trace.requests.some(({ chain }) => chain !== null)
  const pace = { closedLoop, concurrency: Infinity, holdAt: null, seed: SEED, clockMs: null }
  const speedWith = (engines: number): number | null => {
    try {
      return speedOf(LOAD, trace, fleetOf(engines, { kind: 'vllm', profile: profileNamed(PROFILE) }), pace)
    } catch (error) {
      if (error instanceof RangeError) return null
      throw error
    }
  }
  for (const engines of ENGINES) {
    const speed = speedWith(engines)
    if (speed !== null) return { trace, engines, closedLoop, speed: timeScale * speed, timeScale }
  }
  throw new RangeError(`${trace.name}: ${trace.requests.length} requests are too few to load one engine`)
}

/** SMG's own times, as much faster: the interval of its polls, and the defaults by which it compares loads. */
const flagsOf = (name: string, timeScale: number): string[] =>
  name === 'smg:least_load'
    ? [
        ['--load-monitor-interval', Math.max(1, Math.floor(10 / timeScale))],
        ['--least-load-default-throughput', 2_000 * timeScale],
        ['--least-load-kv-pressure-weight', 0.15 / timeScale],
      ].flatMap((flag) => flag.map(String))
    : []

/** Each gateway gets new engines with empty caches. Times are those of the trace. null: the gateway does not start. */
async function measure(
  name: string,
  { trace, engines: count, closedLoop, speed, timeScale, maxS }: Traffic & Pick<FirstTokenPlan, 'maxS'>,
  site: Omit<GatewaySite, 'engines' | 'model'>,
): Promise<BenchRow | null> {
  const fleet = await startScript('../peers/simulated-engines.ts', [String(count), String(timeScale)])
  const engines = fleet.ports.map((port) => `http://127.0.0.1:${port}`)
  const gateway = await startGateway(name, { ...site, engines, model: MODEL }, flagsOf(name, timeScale))
  try {
    if (gateway === null) return null
    const { result, lateP99Ms } = await drive(trace, {
      target: { url: `http://127.0.0.1:${gateway.port}`, model: MODEL, key: null, chats: true },
      speed,
      closedLoop,
      thinkFromStart: false,
      concurrency: Infinity,
      timeMs: 1_000 * maxS,
      signal: new AbortController().signal,
      progress: () => {},
    })
    const { requests, refused, ttftMeanMs, ttftP50Ms, ttftP99Ms, hit } = figuresOf(result, SLO)
    return {
      requests,
      failed: refused,
      ttft_mean_s: round((ttftMeanMs * timeScale) / 1_000),
      ttft_p50_s: round((ttftP50Ms * timeScale) / 1_000),
      ttft_p99_s: round((ttftP99Ms * timeScale) / 1_000),
      hit: round(hit),
      sent_late_p99_ms: Math.round(lateP99Ms),
    }
  } finally {
    await gateway?.end()
    fleet.stop()
  }
}

const round = (value: number): number => Number(value.toFixed(3))

/** Worst trace: mean TTFT over that of SMG's best policy. */
function headlineOf(rows: readonly BenchRow[]): Record<string, number> {
  const ratios = rows
    .filter((row) => row['gateway'] === OWN)
    .map((own) => {
      const smg = rows.filter((row) => row['trace'] === own['trace'] && String(row['gateway']).startsWith('smg:'))
      return Number(own['ttft_mean_s']) / Math.min(...smg.map((row) => Number(row['ttft_mean_s'])))
    })
  // Without SMG a ratio is 0.
  return ratios.length === 0 || ratios.includes(0) ? {} : { http_ttft_vs_smg_best: Math.max(...ratios) }
}
