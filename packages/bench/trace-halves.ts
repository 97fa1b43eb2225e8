/** Halves of recorded traces, by time. Constants may be fitted to the first half only; the second shows what they are worth. */
import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { readTrace, type Trace } from '../replay/src/replay/trace.ts'

const HALVES = ['first', 'second', 'both'] as const
export type Halves = (typeof HALVES)[number]

/** The name of a trace's second half ends so. */
const SECOND = ', second half'
/** A figure of second halves is named like that of the first ones, with this after it. */
const SECOND_FIGURE = '_second_half'

export const isSecondHalf = (name: string): boolean => name.endsWith(SECOND)

/** Value of `--half`. Throws a RangeError that lists the values. */
export function halvesNamed(flag: string | true | undefined, byDefault: Halves): Halves {
  if (flag === undefined) return byDefault
  const found = HALVES.find((half) => half === flag)
  if (found === undefined) throw new RangeError(`--half: "${String(flag)}" is none of ${HALVES.join(', ')}.`)
  return found
}

/** The first `limit` requests of the chosen halves of a trace file. */
export function halvesIn(file: string, limit: number, halves: Halves): Trace[] {
  const trace = readTrace(basename(file), readFileSync(file, 'utf8'))
  return halvesOf(trace, limit).filter(({ name }) => halves === 'both' || isSecondHalf(name) === (halves === 'second'))
}

/** Both halves start at time 0. */
function halvesOf(trace: Trace, limit: number): readonly [first: Trace, second: Trace] {
  const { name, requests } = trace
  const middle = Math.ceil(requests.length / 2)
  const startMs = requests[middle]?.atMs ?? 0
  const later = requests.slice(middle, middle + limit).map((one) => ({ ...one, atMs: one.atMs - startMs }))
  return [
    { ...trace, requests: requests.slice(0, Math.min(limit, middle)) },
    { ...trace, name: `${name}${SECOND}`, requests: later },
  ]
}

/** Figures of the first halves and those of the second ones beside them. */
export function withSecondHalves(
  first: Readonly<Record<string, number>>,
  second: Readonly<Record<string, number>>,
): Record<string, number> {
  const renamed = Object.entries(second).map(([name, value]) => [`${name}${SECOND_FIGURE}`, value] as const)
  return { ...first, ...Object.fromEntries(renamed) }
}
