/** Work of a failed attempt that a retry repeats. The retry budget limits it. */
import type { Admission } from '../contract/admission.ts'
import type { EarlyLegRole } from '../contract/legs.ts'
import type { Placement } from '../contract/placement.ts'
import type { SplitConfig } from '../contract/pool-config.ts'

/** Whether the attempt may repeat work of an earlier one. */
export const isRetry = ({ attempt, moved }: Admission): boolean => attempt > 0 && moved !== true

/** Whether the placement repeats work of a failed attempt. */
export function repeats(admission: Admission, placement: Placement): boolean {
  const { failedLegs } = admission
  return (
    isRetry(admission) && (failedLegs === undefined || earlyLegsOf(placement).some((leg) => failedLegs.includes(leg)))
  )
}

function earlyLegsOf(placement: Placement): readonly EarlyLegRole[] {
  if (placement.kind === 'whole') return []
  if (placement.kind === 'split') return ['prefill']
  return placement.prefill === null ? ['encode'] : ['encode', 'prefill']
}

/** Returns the request without the legs that failed; null: every placement would be a retry. */
export function withoutFailedLegs(admission: Admission, { fallback }: SplitConfig): Admission | null {
  const { failedLegs } = admission
  if (failedLegs === undefined || (failedLegs.includes('prefill') && fallback === 'fail')) return null
  return {
    ...admission,
    ...(failedLegs.includes('prefill') ? { unsplittable: 'the retry budget is spent' } : {}),
    ...(failedLegs.includes('encode') ? { encodeItems: 0 } : {}),
  }
}
