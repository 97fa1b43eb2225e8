/** What the page keeps of the views it was sent: decisions, and reasons of rejections. */
import type { View, Decision, Traffic } from './wire.ts'

/** Enough points for a chart, and small for a page that stays open for weeks. */
const KEPT = 400

/** What the page keeps of the views it was sent. */
export interface History {
  /** The newest decisions, newest first: many may still wait for their first token. */
  readonly latest: readonly Decision[]
  /** Decisions with a first token or an outcome, newest first: those that newer requests do not push out. */
  readonly measured: readonly Decision[]
}

export const noHistory: History = { latest: [], measured: [] }

/** A retry is a separate decision. */
export const keyOf = ({ id, attempt }: Pick<Decision, 'id' | 'attempt'>): string => `${id}#${attempt}`

export function remembered({ latest, measured }: History, sent: readonly Decision[]): History {
  return {
    latest: merged(latest, sent),
    measured: merged(measured, sent.filter(isMeasured)),
  }
}

/** Milliseconds to the first token, also while the answer still streams; null: not known. */
export const ttftOf = ({ actual, first_token: first }: Decision): number | null =>
  actual?.ttft_ms ?? first?.ttft_ms ?? null

/** Stages up to the first token. */
export const stagesOf = ({ actual, first_token: first }: Decision) => actual?.stages ?? first?.stages

/** At 500 requests/s the newest decisions all wait for their first token, and would say nothing else. */
const WAITING = 5

/** Decisions to list, newest first: of those that wait for their first token only a few. */
export const listed = ({ latest, measured }: History, rows: number): Decision[] =>
  merged(measured, latest.filter((decision) => !isMeasured(decision)).slice(0, WAITING)).slice(0, rows)

const isMeasured = ({ actual, first_token: first }: Decision): boolean => actual !== null || first !== undefined

/** Merges known and new decisions, newest first. Of duplicates the newer is kept, because its outcome is known. */
function merged(known: readonly Decision[], sent: readonly Decision[]): Decision[] {
  const newer = new Set(sent.map(keyOf))
  return [...sent, ...known.filter((decision) => !newer.has(keyOf(decision)))]
    .toSorted((a, b) => b.at - a.at)
    .slice(0, KEPT)
}

/** Totals of a view. */
export interface Mark {
  readonly at: number
  readonly traffic: Traffic | undefined
}

/** Long enough to catch a reason at 1 rejection/s. */
const WINDOW_MS = 10_000

/** Adds a view to those of the last 10 s, oldest first. */
export function remarked(marks: readonly Mark[], { at, traffic }: View): Mark[] {
  return [...marks.filter((mark) => mark.at > at - WINDOW_MS && mark.at < at), { at, traffic }]
}

/** Reasons of the rejections of the last 10 s, most frequent first. */
export function rejectionReasons(marks: readonly Mark[]): readonly string[] {
  const [before, now] = [marks[0]?.traffic?.rejected_total, marks.at(-1)?.traffic?.rejected_total]
  if (before === undefined || now === undefined) return []
  return Object.entries(now)
    .map(([reason, total]): readonly [string, number] => [reason, total - (before[reason] ?? 0)])
    .filter(([, grown]) => grown > 0)
    .toSorted(([, a], [, b]) => b - a)
    .map(([reason]) => reason.replaceAll('_', ' '))
}
