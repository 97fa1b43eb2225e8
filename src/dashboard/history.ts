import type { Decision } from './wire.ts'

/** Enough for charts with a shape, little enough for a page that is open for weeks. */
const KEPT = 400

/** A retry is a decision of its own. */
export const keyOf = ({ id, attempt }: Pick<Decision, 'id' | 'attempt'>): string => `${id}#${attempt}`

/** What was known and what came, newest first; of one decision the newer word counts, since its outcome comes later. */
export function remembered(known: readonly Decision[], latest: readonly Decision[]): Decision[] {
  const newer = new Set(latest.map(keyOf))
  return [...latest, ...known.filter((decision) => !newer.has(keyOf(decision)))]
    .toSorted((a, b) => b.at - a.at)
    .slice(0, KEPT)
}
