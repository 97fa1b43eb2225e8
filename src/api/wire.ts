/** On the wire every key is snake_case; inside, camelCase. This is the one bridge for answers. */

const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** A deep copy of plain data with snake_case keys. For keys that are names of our own, not of users. */
export function toWire(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toWire)
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [snake(key), toWire(inner)]))
}
