/** A key that sends ten times its share beside a quiet one: what the quiet key gets, relative to being alone. */
import type { FleetPlan } from '../../replay/src/replay/plan.ts'
import { speedsOn } from '../../replay/src/replay/sustained-speed.ts'
import { figuresOf } from '../../replay/src/replay/statistics.ts'
import type { Job } from '../../replay/src/replay/job.ts'
import type { Trace } from '../../replay/src/replay/trace.ts'
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

export function isolation(trace: Trace, fleet: FleetPlan): { rows: BenchRow[]; headline: Record<string, number> } {
  const speedAt = speedsOn(fleet)
  const kind = overloadKind('slo', SLO, { tenantOf })
  const pace = { closedLoop: false, concurrency: Infinity, holdAt: null, seed: 1, clockMs: null }
  const speed = speedAt(LOAD, trace, pace)
  const fixed = (): number => speed
  const together = runOnce({ trace, fleet, kind, load: LOAD, seed: 1, speedAt: fixed })
  const quiet = { ...trace, requests: trace.requests.filter(({ blocks }) => isQuiet(blocks)) }
  const alone = runOnce({ trace: quiet, fleet, kind, load: LOAD, seed: 1, speedAt: fixed })
  const mine = of(together.jobs.filter((job) => tenantOf(job) === 'quiet'))
  const noisy = of(together.jobs.filter((job) => tenantOf(job) === 'noisy'))
  const own = of(alone.jobs)
  const row = (key: string, figures: ReturnType<typeof of>): BenchRow => ({
    trace: trace.name,
    load: LOAD,
    policy: key,
    goodput: Number(figures.goodput.toFixed(3)),
    ttft_mean_ms: Math.round(figures.ttftMeanMs),
  })
  return {
    rows: [row('quiet key alone', own), row('quiet key', mine), row('noisy key', noisy)],
    headline: {
      quiet_key_goodput_ratio: Number((mine.goodput / own.goodput).toFixed(3)),
      quiet_key_ttft_ratio: Number((mine.ttftMeanMs / own.ttftMeanMs).toFixed(3)),
    },
  }
}
