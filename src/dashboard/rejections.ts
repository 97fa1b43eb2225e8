/** Reasons of the latest rejections. */
import type { Figures, Traffic, View } from './wire.ts'

/** Totals of a view. */
export interface TrafficSample {
  readonly at: number
  readonly traffic: Traffic | undefined
}

/** Long enough to catch a reason at 1 rejection/s. */
const WINDOW_MS = 10_000

/** Adds a view to those of the last 10 s, oldest first. */
export function addSample(samples: readonly TrafficSample[], { at, traffic }: View): TrafficSample[] {
  return [...samples.filter((mark) => mark.at > at - WINDOW_MS && mark.at < at), { at, traffic }]
}

/** Reasons of the rejections of the last 10 s, most frequent first. */
export function rejectionReasons(samples: readonly TrafficSample[]): readonly string[] {
  const [before, now] = [samples[0]?.traffic?.rejected_total, samples.at(-1)?.traffic?.rejected_total]
  if (before === undefined || now === undefined) return []
  return Object.entries(now)
    .map(([reason, total]): readonly [string, number] => [reason, total - (before[reason] ?? 0)])
    .filter(([, grown]) => grown > 0)
    .toSorted(([, a], [, b]) => b - a)
    .map(([reason]) => reason.replaceAll('_', ' '))
}

/** Share of rejected requests from which they are a problem and no warning. */
const HIGH_SHARE = 0.05

/** Share of the requests that the gateway rejects now, 0..1; null: not known. */
export function rejectedShare(now: Partial<Figures> | undefined): number | null {
  const { rejected_per_s: rejected = null, requests_per_s: placed = null } = now ?? {}
  if (rejected === null || placed === null || rejected + placed === 0) return null
  return rejected / (rejected + placed)
}

export const isHighRejection = (now: Partial<Figures> | undefined): boolean => (rejectedShare(now) ?? 0) >= HIGH_SHARE
