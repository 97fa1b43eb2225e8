import type { LegRole } from '../../core/contract/legs.ts'
import type { Placement } from '../../core/contract/placement.ts'

/** Leg of a split request. */
export type FailedLeg = Exclude<LegRole, 'whole'>

/** Leg that an engine has in a placement; null: all of the request, or all that follows the encode stage. */
export function legOf(placement: Placement, engine: string): FailedLeg | null {
  if (placement.kind === 'whole') return null
  if (engine === placement.prefill) return 'prefill'
  if (placement.kind === 'staged' && placement.encode.includes(engine)) return 'encode'
  return placement.prefill === null ? null : 'decode'
}
