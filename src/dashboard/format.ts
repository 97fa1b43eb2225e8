const UNKNOWN = '–'

type Maybe = number | null | undefined

/** Below it, JavaScript writes an exponent. */
const SMALLEST = 1e-6

/** Three significant digits are readable at a glance. */
function short(value: number): string {
  const size = Math.abs(value)
  if (size < SMALLEST) return '0'
  if (size >= 100) return String(Math.round(value))
  return String(Number(value.toPrecision(size >= 1 ? 3 : 2)))
}

export const count = (value: Maybe): string =>
  value === null || value === undefined ? UNKNOWN : Math.round(value).toLocaleString('en')

export function ms(value: Maybe): string {
  if (value === null || value === undefined) return UNKNOWN
  return value >= 10_000 ? `${short(value / 1000)} s` : `${short(value)} ms`
}

export type DurationUnit = 'ms' | 's'

/** One unit for a column of durations, ms, so that they compare. */
export const durationUnit = (valuesMs: readonly Maybe[]): DurationUnit =>
  valuesMs.some((value) => (value ?? 0) >= 10_000) ? 's' : 'ms'

export function inUnit(valueMs: Maybe, unit: DurationUnit): string {
  if (valueMs === null || valueMs === undefined) return UNKNOWN
  return unit === 's' ? `${short(valueMs / 1000)} s` : `${short(valueMs)} ms`
}

export function seconds(value: Maybe): string {
  if (value === null || value === undefined) return UNKNOWN
  return value > 0 && value < 1 ? `${short(value * 1000)} ms` : `${short(value)} s`
}

export const percent = (share: Maybe): string =>
  share === null || share === undefined ? UNKNOWN : `${Math.round(share * 100)}%`

export const number = (value: Maybe): string => (value === null || value === undefined ? UNKNOWN : short(value))

/** Significant digits at most. */
const MAX_DIGITS = 8

/** Two numbers side by side, with as many digits as tell them apart. */
export function numbersApart(one: Maybe, other: Maybe): readonly [string, string] {
  const texts = [number(one), number(other)] as const
  if (texts[0] !== texts[1] || one == null || other == null) return texts
  for (let digits = 3; digits <= MAX_DIGITS; digits++) {
    const [first, second] = [one, other].map((value) => String(Number(value.toPrecision(digits))))
    if (first !== second) return [first!, second!]
  }
  return texts
}

export const clock = (at: number): string => new Date(at).toLocaleTimeString('en-GB')

/** With the date, if it is another day. */
export function dayAndClock(at: number): string {
  const day = new Date(at).toDateString()
  return day === new Date().toDateString() ? clock(at) : `${new Date(at).toISOString().slice(0, 10)} ${clock(at)}`
}

export const plural = (value: number, one: string, many = `${one}s`): string =>
  `${count(value)} ${value === 1 ? one : many}`

/** Quantile of the values: 0 minimum, 1 maximum; null for none. */
export function quantile(values: readonly number[], share: number): number | null {
  if (values.length === 0) return null
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!
}
