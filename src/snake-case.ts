/** Conversion of responses: keys are camelCase in the code and snake_case on the wire. */

type SnakeName<Name extends string> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${SnakeName<Rest>}`
  : Name

/** Type of a copy by `toSnakeCase`. */
export type SnakeCase<Value> = Value extends readonly (infer Item)[]
  ? readonly SnakeCase<Item>[]
  : Value extends object
    ? { readonly [Key in keyof Value as SnakeName<Key & string>]: SnakeCase<Value[Key]> }
    : Value

/** Converted names of our own, which are few. */
const snakeNames = new Map<string, string>()

function snake(name: string): string {
  let converted = snakeNames.get(name)
  if (converted === undefined)
    snakeNames.set(name, (converted = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)))
  return converted
}

/**
 * Copies plain data with snake_case keys. Only for keys that are our own names, not names from users. `convertNumber`:
 * conversion of numbers.
 */
export function toSnakeCase<Value>(value: Value, convertNumber?: (value: number) => number): SnakeCase<Value>
export function toSnakeCase(value: unknown, convertNumber?: (value: number) => number): unknown {
  if (convertNumber !== undefined && typeof value === 'number') return convertNumber(value)
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return value
  if (Array.isArray(value)) return value.map((one) => toSnakeCase(one, convertNumber))
  const converted: Record<string, unknown> = {}
  for (const key in value) converted[snake(key)] = toSnakeCase((value as Record<string, unknown>)[key], convertNumber)
  return converted
}
