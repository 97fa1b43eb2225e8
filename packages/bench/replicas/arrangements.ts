/** How several gateways before the same engines may know of each other. */
import type { ReplicasOptions } from '../../replay/src/replay/replicated-router.ts'

export interface Arrangement {
  readonly name: string
  readonly replicas: number
  readonly delayMs: number | null
  readonly upset?: ReplicasOptions['disruption']
}

export const ONE: Arrangement = { name: 'one', replicas: 1, delayMs: 0 }
export const KINDS = ['alone', 'log', 'dies', 'restarts'] as const
export type Kind = (typeof KINDS)[number]

/** What goes wrong goes wrong with the log as late as in a data centre. */
const USUAL_DELAY_MS = 1
/** As soon as the connection breaks; a short lease; the default one. */
const LAPSES_MS = [0, 15_000, 60_000]

export function arrangementsOf(
  kind: Kind,
  {
    replicas,
    delaysMs,
    middle,
  }: { readonly replicas: number; readonly delaysMs: readonly number[]; readonly middle: number },
): readonly Arrangement[] {
  switch (kind) {
    case 'alone':
      return [{ name: 'alone', replicas, delayMs: null }]
    case 'log':
      return delaysMs.map((delayMs) => ({ name: 'log', replicas, delayMs }))
    case 'dies':
      return LAPSES_MS.map((lapseMs) => ({
        name: `dies_${lapseMs / 1000}s`,
        replicas,
        delayMs: USUAL_DELAY_MS,
        upset: { kind: 'dies', lapseMs, at: middle },
      }))
    case 'restarts':
      return (['nothing', 'bookings', 'learned', 'prompts'] as const).map((knows) => ({
        name: `restarts_${knows}`,
        replicas,
        delayMs: USUAL_DELAY_MS,
        upset: { kind: 'restarts', knows, at: middle },
      }))
  }
}
