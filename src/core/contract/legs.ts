import type { Placement } from './placement.ts'

/**
 * Work that an engine does for a booking. `encode` and `prefill` end at the first token, the others with the booking.
 */
export type LegRole = 'whole' | 'encode' | 'prefill' | 'decode'

/** Roles that end at the first token or before it. */
export type EarlyLegRole = 'encode' | 'prefill'

/** Engines of a placement by id, each with its role. */
export function legsOf(placement: Placement): readonly { readonly engine: string; readonly legRole: LegRole }[] {
  switch (placement.kind) {
    case 'whole':
      return [{ engine: placement.engine, legRole: 'whole' }]
    case 'split':
      return [
        { engine: placement.prefill, legRole: 'prefill' },
        { engine: placement.decode, legRole: 'decode' },
      ]
    case 'staged':
      return [
        ...placement.encode.map((engine) => ({ engine, legRole: 'encode' as const })),
        ...(placement.prefill === null ? [] : [{ engine: placement.prefill, legRole: 'prefill' as const }]),
        { engine: placement.decode, legRole: placement.prefill === null ? ('whole' as const) : ('decode' as const) },
      ]
  }
}

/** Ids of the engines of a placement. */
export const engineIdsOf = (placement: Placement): readonly string[] => legsOf(placement).map(({ engine }) => engine)

/** Whether a leg of this role ends at the first token or before it. */
export function endsAtFirstToken(legRole: LegRole): legRole is EarlyLegRole {
  return legRole === 'encode' || legRole === 'prefill'
}
