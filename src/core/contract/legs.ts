import type { Placement } from './contract.ts'

/**
 * Work that an engine does for a booking. `encode` and `prefill` end at the first token, the others with the booking.
 */
export type LegRole = 'whole' | 'encode' | 'prefill' | 'decode'

/** Roles that end at the first token or before it. */
export type EarlyLegRole = 'encode' | 'prefill'

/** Engines of a placement by id, each with its role. */
export function partsOf(placement: Placement): readonly { readonly engine: string; readonly part: LegRole }[] {
  switch (placement.kind) {
    case 'whole':
      return [{ engine: placement.engine, part: 'whole' }]
    case 'split':
      return [
        { engine: placement.prefill, part: 'prefill' },
        { engine: placement.decode, part: 'decode' },
      ]
    case 'staged':
      return [
        ...placement.encode.map((engine) => ({ engine, part: 'encode' as const })),
        ...(placement.prefill === null ? [] : [{ engine: placement.prefill, part: 'prefill' as const }]),
        { engine: placement.decode, part: placement.prefill === null ? ('whole' as const) : ('decode' as const) },
      ]
  }
}

/** Whether a leg of this role ends at the first token or before it. */
export function endsAtFirstToken(part: LegRole): part is EarlyLegRole {
  return part === 'encode' || part === 'prefill'
}
