import { setImmediate } from 'node:timers/promises'
import type { Args, Command, Io } from '../../../../src/cli/commands/command.ts'
import { asJson, outputOf } from '../../../../src/cli/commands/output-file.ts'
import { UsageError } from '../../../../src/platform/node/usage-error.ts'
import { type AutoscaleRow, autoscaleRow } from '../autoscale/autoscale-row.ts'
import {
  autoscaledReplay,
  type AutoscaledResult,
  type Scaler,
  type UnbegunReplay,
} from '../autoscale/autoscaled-replay.ts'
import { capacityRule } from '../autoscale/capacity-rule.ts'
import { kvRule } from '../autoscale/kv-rule.ts'
import { offlineOptimum } from '../autoscale/offline-optimum.ts'
import { queueRule } from '../autoscale/queue-rule.ts'
import { ruleScaler } from '../autoscale/rule-scaler.ts'
import { startingFleet } from '../autoscale/starting-fleet.ts'
import type { FleetPlan } from '../replay/plan.ts'
import { spread, type Trace } from '../replay/trace.ts'
import { autoscaleTable } from '../report/autoscale-table.ts'
import { sloOf } from '../report/slo.ts'

const DEFAULT_START_S = 120

export const autoscaleFlags: Command['flags'] = {
  autoscale: {
    type: 'boolean',
    about:
      'Instead of policies, compare rules that set the number of engines: the capacity rule of a pool with `slo`, ' +
      'queue length, KV cache use, and the best plan for this trace. --engines is the maximum.',
  },
  'start-s': {
    type: 'string',
    value: 'N',
    about: 'With --autoscale: seconds from the order of an engine until it serves. Default: 120.',
  },
}

/** Flags without effect beside `--autoscale`. */
export const AUTOSCALE_INSTEAD = [
  'preset',
  'policies',
  'load',
  'lmcache',
  'late-binding',
  'concurrency',
  'html',
  'benchmark-report',
]

interface AutoscaleInput {
  readonly trace: Trace
  readonly fleet: FleetPlan
  readonly closedLoop: boolean
  readonly seeds: readonly number[]
}

/** Compares rules that set the number of engines. Resolves with the exit code. */
export async function replayAutoscale(
  args: Args,
  io: Io,
  { trace, fleet, closedLoop, seeds }: AutoscaleInput,
): Promise<number> {
  const write = outputOf(args, 'json')
  requireAlike(fleet)
  const runs: { readonly seed: number; readonly begins_with: number; readonly rows: readonly AutoscaleRow[] }[] = []
  for (const seed of seeds) {
    const speed = args.number('speed', { min: 1e-6, max: 1e6 }) ?? 1
    const given: UnbegunReplay = {
      trace: spread(trace, seed),
      fleet: { engines: fleet.engines, rttMs: fleet.rttMs },
      pace: { speed, closedLoop, concurrency: Infinity, holdAt: null, seed, clockMs: null },
      slo: sloOf(args),
      refuses: true,
      minReplicas: 1,
      maxReplicas: fleet.engines.length,
      startS: args.number('start-s', { min: 0, max: 86_400 }) ?? DEFAULT_START_S,
    }
    const beginsWith = startingFleet(given)
    io.out(`${trace.name}, seed ${seed}: ${trace.requests.length} requests, begins with ${beginsWith} engines`)
    const rows = await rowsOf({ ...given, beginsWith }, io)
    if (rows === null) return 130
    runs.push({ seed, begins_with: beginsWith, rows })
    for (const line of autoscaleTable(rows)) io.out(line)
    io.out('')
  }
  write(() => asJson({ name: 'replay_autoscale', trace: trace.name, runs }))
  return 0
}

/** null: stopped. */
async function rowsOf(
  given: UnbegunReplay & { readonly beginsWith: number },
  io: Io,
): Promise<readonly AutoscaleRow[] | null> {
  const scalers: readonly (readonly [string, Scaler, { readonly refuses: boolean }])[] = [
    ['capacity', ruleScaler(capacityRule, given), { refuses: true }],
    ['queue', ruleScaler(queueRule(), given), { refuses: true }],
    ['queue, all wait', ruleScaler(queueRule(), given), { refuses: false }],
    ['kv_use', ruleScaler(kvRule, given), { refuses: true }],
    ['kv_use, all wait', ruleScaler(kvRule, given), { refuses: false }],
  ]
  const results: (readonly [string, AutoscaledResult])[] = []
  for (const [name, scaler, plane] of scalers) {
    await setImmediate()
    if (io.stop.aborted) return null
    results.push([name, autoscaledReplay({ ...given, ...plane }, scaler)])
  }
  const optimum = offlineOptimum(given, results[0]![1].keptShare)
  results.push([optimum.isReached ? 'optimum' : 'optimum (not reached)', optimum.result])
  return results.map(([name, result]) => autoscaleRow(name, result, optimum.result.engineHours))
}

/** A replica that starts is like the others. */
function requireAlike({ engines }: FleetPlan): void {
  const kinds = new Set(engines.map((engine) => JSON.stringify(engine)))
  const hasRoles = engines.some(({ spec }) => spec.role !== undefined && spec.role !== 'any')
  if (kinds.size === 1 && !hasRoles) return
  throw new UsageError(
    '--autoscale needs engines that are alike, with the role `any`.',
    'Use --engines and --profile instead of this configuration.',
  )
}
