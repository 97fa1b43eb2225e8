/** A key that sends ten times its share beside a quiet one: what the quiet key gets, relative to being alone. */
import type { FleetPlan } from '../../replay/src/replay/plan.ts'
import { speedsOn } from '../../replay/src/replay/sustained-speed.ts'
import { type Figures, figuresOf } from '../../replay/src/replay/statistics.ts'
import type { Job } from '../../replay/src/replay/job.ts'
import { spread, type Trace } from '../../replay/src/replay/trace.ts'
import type { BenchRow } from '../result.ts'
import { overloadKind, runOnce, SLO } from './run.ts'

const LOAD = 2.75
/** One session in eleven belongs to the quiet key. */
const SHARE = 11
const GOOD = { ttftMs: SLO.ttftMs!, itlMs: SLO.itlMs! }

/** By the third block of the prompt, which the turns of a session share. */
const isQuiet = (blocks: Uint32Array): boolean => (blocks[4] ?? blocks[0] ?? 0) % SHARE === 0

const tenantOf = ({ blocks }: Pick<Job, 'blocks'>): string => (isQuiet(blocks) ? 'quiet' : 'noisy')

const of = (jobs: readonly Job[]) =>
  figuresOf(
    {
      router: 'slo',
      jobs,
      refused: 0,
      computedTokens: new Float64Array(8),
      decisionsMs: new Float64Array(1),
      spanMs: 1,
    },
    GOOD,
  )

interface IsolationRun {
  readonly alone: Figures
  readonly quiet: Figures
  readonly noisy: Figures
}

function runOf(trace: Trace, fleet: FleetPlan, seed: number): IsolationRun {
  const speedAt = speedsOn(fleet)
  const kind = overloadKind('slo', SLO, { tenantOf })
  const pace = { closedLoop: false, concurrency: Infinity, holdAt: null, seed, clockMs: null }
  const speed = speedAt(LOAD, trace, pace)
  const fixed = (): number => speed
  const together = runOnce({ trace, fleet, kind, load: LOAD, seed, speedAt: fixed })
  const quiet = { ...trace, requests: trace.requests.filter(({ blocks }) => isQuiet(blocks)) }
  const alone = runOnce({ trace: quiet, fleet, kind, load: LOAD, seed, speedAt: fixed })
  return {
    alone: of(alone.jobs),
    quiet: of(together.jobs.filter((job) => tenantOf(job) === 'quiet')),
    noisy: of(together.jobs.filter((job) => tenantOf(job) === 'noisy')),
  }
}

/** Means of several seeds: the ratio of one seed differs from them by up to 0.02. */
export function isolation(
  trace: Trace,
  fleet: FleetPlan,
  seeds: number,
): { rows: BenchRow[]; headline: Record<string, number> } {
  const runs = Array.from({ length: seeds }, (_, at) => runOf(spread(trace, at + 1), fleet, at + 1))
  const mean = (who: keyof IsolationRun, figure: 'goodput' | 'ttftMeanMs'): number =>
    runs.reduce((sum, run) => sum + run[who][figure], 0) / seeds
  const row = (key: string, who: keyof IsolationRun): BenchRow => ({
    trace: trace.name,
    load: LOAD,
    policy: key,
    goodput: Number(mean(who, 'goodput').toFixed(3)),
    ttft_mean_ms: Math.round(mean(who, 'ttftMeanMs')),
  })
  return {
    rows: [row('quiet key alone', 'alone'), row('quiet key', 'quiet'), row('noisy key', 'noisy')],
    headline: {
      quiet_key_goodput_ratio: Number((mean('quiet', 'goodput') / mean('alone', 'goodput')).toFixed(3)),
      quiet_key_ttft_ratio: Number((mean('quiet', 'ttftMeanMs') / mean('alone', 'ttftMeanMs')).toFixed(3)),
    },
  }
}
