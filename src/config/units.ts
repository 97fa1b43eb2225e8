/** Formats quantities of a configuration for people. Exact: a value that no larger unit divides keeps its unit. */

const SIZES: readonly (readonly [string, number])[] = [
  ['GiB', 2 ** 30],
  ['MiB', 2 ** 20],
  ['KiB', 2 ** 10],
]

const DURATIONS: readonly (readonly [string, number])[] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1000],
]

/** Formats a size in bytes, as in `32 MiB`. */
export const sizeText = (bytes: number): string => inUnits(bytes, SIZES, 'bytes')

/** Formats a number, as in `500,000`. */
export const countText = (count: number): string => count.toLocaleString('en')

/** Formats a duration in milliseconds, as in `10 min`. */
export const durationText = (ms: number): string => inUnits(ms, DURATIONS, 'ms')

/** Uses the largest unit in which the value has at most one decimal place. */
function inUnits(value: number, units: readonly (readonly [string, number])[], base: string): string {
  for (const [unit, size] of units) {
    const tenths = (value * 10) / size
    if (value >= size && Number.isInteger(tenths)) return `${tenths / 10} ${unit}`
  }
  return `${value} ${base}`
}

/** Versions above this value are times in milliseconds: the modification time of the configuration file. */
const FIRST_TIME = Date.UTC(2001)

/** Formats a configuration version. A version that is a time is shown as one. */
export const versionText = (version: number): string =>
  version < FIRST_TIME || version > 8.64e15
    ? String(version)
    : `${version} (${new Date(version).toISOString().slice(0, 19).replace('T', ' ')} UTC)`
