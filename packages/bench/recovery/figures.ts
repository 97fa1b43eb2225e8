/** Figures of one fault, from what clients saw and where their requests were placed. */
import type { ClientCall } from './client.ts'
import { firstOverdueAt } from './overdue-sign.ts'
import type { AttemptOnEngine } from './site.ts'

export interface Observation {
  readonly sent: readonly ClientCall[]
  readonly placed: readonly AttemptOnEngine[]
  readonly sick: string
  readonly faultAt: number
  readonly healedAt: number
}

export interface Figures {
  /** Seconds from the fault to the last placement on the sick engine before it was healthy; null: none. */
  readonly last_placement_s: number | null
  /** Seconds from the fault to the first overdue output there; null: none was overdue. */
  readonly overdue_s: number | null
  /** Requests placed on the sick engine during the fault. */
  readonly placed: number
  /** Requests that got no token: refused, failed, or left by their client. */
  readonly lost: number
  /** Streams that broke after a token. */
  readonly streams_ended: number
  /** Requests later than twice the p99 before the fault. */
  readonly late: number
  readonly p99_before_ms: number | null
  /** p99 of the time to first token during the fault, of requests that other engines answered. */
  readonly siblings_p99_ms: number | null
  /** Seconds from the end of the fault to the first placement; null: never. */
  readonly back_in_use_s: number | null
}

export function figuresOf({ sent, placed, sick, faultAt, healedAt }: Observation): Figures {
  const there = placed.filter(({ engine }) => engine === sick)
  const times = there.map(({ at }) => at)
  const during = times.filter((at) => at > faultAt && at < healedAt)
  const back = times.filter((at) => at >= healedAt)
  const overdueAt = firstOverdueAt({ sent, there: there.filter(({ at }) => at < healedAt), faultAt })
  const before = sent.filter(({ sentAt }) => sentAt < faultAt)
  const after = sent.filter(({ sentAt }) => sentAt >= faultAt)
  const p99Before = p99(ttftsOf(before))
  return {
    last_placement_s: during.length === 0 ? null : (Math.max(...during) - faultAt) / 1000,
    overdue_s: overdueAt === null || overdueAt >= healedAt ? null : (overdueAt - faultAt) / 1000,
    placed: during.length,
    lost: sent.filter(({ firstTokenAt }) => firstTokenAt === null).length,
    streams_ended: sent.filter(({ firstTokenAt, isComplete }) => firstTokenAt !== null && !isComplete).length,
    late: p99Before === null ? 0 : ttftsOf(after).filter((ms) => ms > 2 * p99Before).length,
    p99_before_ms: p99Before,
    siblings_p99_ms: p99(ttftsOf(after.filter((one) => one.sentAt < healedAt && one.engine !== sick))),
    back_in_use_s: back.length === 0 ? null : (Math.min(...back) - healedAt) / 1000,
  }
}

/** Seconds from the first overdue output, or from the fault if none was overdue, to the last placement; 0: none later. */
export const placedTooLongS = ({ last_placement_s: lastS, overdue_s: overdueS }: Figures): number =>
  Math.max(0, (lastS ?? 0) - (overdueS ?? 0))

const ttftsOf = (sent: readonly ClientCall[]): number[] =>
  sent.flatMap(({ sentAt, firstTokenAt }) => (firstTokenAt === null ? [] : [firstTokenAt - sentAt]))

/** null: too few values. */
function p99(values: readonly number[]): number | null {
  if (values.length < MIN_VALUES) return null
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(0.99 * sorted.length))]!
}

const MIN_VALUES = 20
