/** On the wire every key is snake_case; inside, camelCase. This is the one bridge for answers. */

/** Of names of our own, which are few. */
const known = new Map<string, string>()

function snake(name: string): string {
  let wired = known.get(name)
  if (wired === undefined) known.set(name, (wired = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)))
  return wired
}

/**
 * A deep copy of plain data with snake_case keys. For keys that are names of our own, not of users. `shown`: how
 * numbers go.
 */
export function toSnakeCase(value: unknown, shown?: (value: number) => number): unknown {
  if (shown !== undefined && typeof value === 'number') return shown(value)
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return value
  if (Array.isArray(value)) return value.map((one) => toSnakeCase(one, shown))
  const wired: Record<string, unknown> = {}
  for (const key in value) wired[snake(key)] = toSnakeCase((value as Record<string, unknown>)[key], shown)
  return wired
}
