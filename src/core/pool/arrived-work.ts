import type { Arrivals } from '../capacity/arrivals.ts'
import type { RoleWork } from '../capacity/request-mix.ts'
import type { Admission } from '../contract/admission.ts'
import { type LegRole, legsOf } from '../contract/legs.ts'
import type { Placement } from '../contract/placement.ts'
import { isOpaque, type Role } from '../contract/pool-config.ts'
import { queueSeconds } from '../latency/prefill-cost-model.ts'
import type { EngineRef } from './booking-ref.ts'
import type { Booking } from './bookings.ts'
import type { EngineTable } from './pool-engines/engine-table.ts'
import type { SignalReader } from './signals/signal-reader.ts'

/** Counts a new booking as an arrival, with the work of its legs. Further attempts of a request are none. */
export function countArrival(arrivals: Arrivals, { admission, legs, entry }: Booking, now: number): void {
  if (isFurther(admission)) return
  // Booked again after an eviction, when they had arrived before, or on an engine whose work is unknown.
  const own = entry.legs.filter(({ isResumed }) => !isResumed)
  if (own.length > 0)
    arrivals.booked(
      own.map((leg) => workOf(arrivals, admission, { ...leg, prefillS: leg.queued?.seconds ?? 0 })),
      now,
    )
  // What a provider serves because the pool has no room needs room.
  else if (legs.some(({ engine }) => engine.spec.isExternal === true)) arrivals.add(1, now)
}

/** Records the work of a request that is refused at this placement: long ones are refused more often than others. */
export function sampleRefused(
  arrivals: Arrivals,
  placement: Placement,
  reading: SignalReader,
  engines: EngineTable,
): void {
  const { admission, now } = reading
  if (isFurther(admission)) return
  const parts = legsOf(placement).flatMap(({ engine: id, legRole }) => {
    const engine = engines.get(id)
    if (engine === undefined || legRole === 'encode' || isOpaque(engine.spec)) return []
    const size = { promptTokens: admission.promptTokens, cachedTokens: reading.prompt.cached(engine).total }
    const costModel = engine.estimators.costModel(now)
    const prefillS = legRole === 'decode' ? 0 : queueSeconds(costModel, size)
    return [workOf(arrivals, admission, { engine, legRole, prefillS })]
  })
  if (parts.length > 0) arrivals.sampled(parts, now)
}

interface LegWork {
  readonly engine: EngineRef
  readonly legRole: LegRole
  readonly prefillS: number
}

function workOf(
  arrivals: Arrivals,
  { promptTokens, sequences = 1 }: Admission,
  { engine, legRole, prefillS }: LegWork,
): readonly [Role, RoleWork] {
  const decodes = legRole !== 'prefill'
  return [
    engine.spec.role,
    {
      prefillS,
      slackS: arrivals.slackS(promptTokens, prefillS),
      promptTokens: decodes ? promptTokens : 0,
      sequences: decodes ? sequences : 0,
    },
  ]
}

const isFurther = ({ attempt }: Admission): boolean => attempt > 0
