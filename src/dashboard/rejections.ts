/** Reasons of the latest rejections. */
import type { Traffic, View } from './wire.ts'

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
