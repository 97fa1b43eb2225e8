/** Conversion of responses: keys are camelCase in the code and snake_case on the wire. */

/** Converted names of our own, which are few. */
const known = new Map<string, string>()

function snake(name: string): string {
  let wired = known.get(name)
  if (wired === undefined) known.set(name, (wired = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)))
  return wired
}

/**
 * Copies plain data with snake_case keys. Only for keys that are our own names, not names from users. `shown`:
 * conversion of numbers.
 */
export function toSnakeCase(value: unknown, shown?: (value: number) => number): unknown {
  if (shown !== undefined && typeof value === 'number') return shown(value)
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return value
  if (Array.isArray(value)) return value.map((one) => toSnakeCase(one, shown))
  const wired: Record<string, unknown> = {}
  for (const key in value) wired[snake(key)] = toSnakeCase((value as Record<string, unknown>)[key], shown)
  return wired
}
