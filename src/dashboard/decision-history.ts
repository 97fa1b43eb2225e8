/** Decisions of the views that the page was sent. */
import { isMeasured, keyOf } from './decision.ts'
import type { Decision } from './wire.ts'

/** Enough points for a chart, and small for a page that stays open for weeks. */
const MAX_DECISIONS = 400

export interface DecisionHistory {
  /** The newest decisions, newest first: many may still wait for their first token. */
  readonly latest: readonly Decision[]
  /** Decisions with a first token or an outcome, newest first. Requests that still wait do not displace them. */
  readonly measured: readonly Decision[]
}

export const noHistory: DecisionHistory = { latest: [], measured: [] }

export function addDecisions({ latest, measured }: DecisionHistory, sent: readonly Decision[]): DecisionHistory {
  return {
    latest: mergeDecisions(latest, sent),
    measured: mergeDecisions(measured, sent.filter(isMeasured)),
  }
}

/** At 500 requests/s the newest decisions all wait for their first token, and nothing else would be listed. */
const MAX_WAITING = 5

/** Decisions to list, newest first: of those that wait for their first token only a few. */
export const decisionsToList = ({ latest, measured }: DecisionHistory, rows: number): Decision[] =>
  mergeDecisions(measured, latest.filter((decision) => !isMeasured(decision)).slice(0, MAX_WAITING)).slice(0, rows)

/** Merges known and new decisions, newest first. Of duplicates the newer is kept, because its outcome is known. */
function mergeDecisions(known: readonly Decision[], sent: readonly Decision[]): Decision[] {
  const newer = new Set(sent.map(keyOf))
  return [...sent, ...known.filter((decision) => !newer.has(keyOf(decision)))]
    .toSorted((a, b) => b.at - a.at)
    .slice(0, MAX_DECISIONS)
}
