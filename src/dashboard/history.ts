import type { Decision } from './wire.ts'

/** Enough points for a chart, and small for a page that stays open for weeks. */
const KEPT = 400

/** A retry is a separate decision. */
export const keyOf = ({ id, attempt }: Pick<Decision, 'id' | 'attempt'>): string => `${id}#${attempt}`

/** Merges known and new decisions, newest first. Of duplicates the newer is kept, because its outcome is known. */
export function remembered(known: readonly Decision[], latest: readonly Decision[]): Decision[] {
  const newer = new Set(latest.map(keyOf))
  return [...latest, ...known.filter((decision) => !newer.has(keyOf(decision)))]
    .toSorted((a, b) => b.at - a.at)
    .slice(0, KEPT)
}
