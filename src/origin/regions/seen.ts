import { hopeOf, type Outlook, TYPICAL_TOKENS } from '../../core/cluster/outlook.ts'

/** What is known of another gateway, for its operators. */
export interface RegionSeen {
  /** It told when it was last asked. */
  readonly reachable: boolean
  /** Of what it told last. */
  readonly ageMs: number
  /** There and back: as configured, or the least of the last few measured. */
  readonly rttMs: number
  /** Prompts are cut there as they are here: what its engines hold is known. */
  readonly cutAlike: boolean
  /** Engines there that may be given a prompt now. */
  readonly engines: number
  /** Booked there, whoever sent them. */
  readonly requests: number
  /** Of those, prompts whose first token has not come. */
  readonly queued: number
  /** Until the first token of `TYPICAL_TOKENS` that nobody there holds; null: nobody there may be given a prompt. */
  readonly expectedTtftMs: number | null
}

type Way = Pick<RegionSeen, 'reachable' | 'ageMs' | 'rttMs' | 'cutAlike'>

export function seenOf(outlooks: readonly Outlook[], way: Way): RegionSeen {
  const sum = (of: (outlook: Outlook) => number) => outlooks.reduce((all, one) => all + of(one), 0)
  const waits = outlooks.flatMap((one) => {
    const hope = hopeOf(one, TYPICAL_TOKENS, 0)
    return hope === null ? [] : (hope.waitS + hope.prefillS) * 1000 + way.rttMs
  })
  return {
    ...way,
    engines: sum(({ engines }) => engines),
    requests: sum(({ requests }) => requests),
    queued: Math.round(sum(({ engines, queued }) => engines * queued)),
    expectedTtftMs: waits.length === 0 ? null : Math.min(...waits),
  }
}
