import { type Overload, sustainableShare } from '../replay/overload.ts'

const secondsText = (ms: number): string => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`)

/** Text for a run that the fleet could not sustain. `remedies` are flags to try, without the final full stop. */
export function overloadNote(subject: string, { earlyMs, lateMs }: Overload, remedies: readonly string[]): string {
  return (
    `${subject} cannot sustain this pace: the median TTFT grows from ${secondsText(earlyMs)} in the second quarter ` +
    `of the run to ${secondsText(lateMs)} in the last, and would keep growing. Percentiles of such a run depend on ` +
    `its length. Try ${remedies.join(', or ')}.`
  )
}

/** A slower value of a pace that the fleet is likely to sustain, with a margin of 10 %. */
export function slower(pace: number, overload: Overload): string {
  return String(Number((pace * sustainableShare(overload) * 0.9).toPrecision(2)))
}
