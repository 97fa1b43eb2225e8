import type { PolicyConfig } from '../contract/contract.ts'
import type { Policy, Signal } from './policy.ts'

/** One option of a policy: enough for the config schema to check it and for the docs to print it. */
export interface OptionSpec<Value extends number | string | boolean = number | string | boolean> {
  readonly default: Value
  /** Numbers only: the range, both ends included. */
  readonly min?: number
  readonly max?: number
  /** Strings only: what it may be. */
  readonly values?: readonly string[]
  /** One line for people. */
  readonly doc: string
}

/** camelCase names; the config document spells them in snake_case. */
export type OptionTable = Readonly<Record<string, OptionSpec>>

type Widened<Value> = Value extends number
  ? number
  : Value extends boolean
    ? boolean
    : Value extends string
      ? string
      : never
export type OptionValues<Table extends OptionTable> = {
  readonly [Name in keyof Table]: Widened<Table[Name]['default']>
}

/** A policy with its options: what the list of policies holds, and what schema and docs are made from. */
export interface PolicyKind {
  readonly name: string
  /** One line for people. */
  readonly doc: string
  /** Where the rule comes from. */
  readonly source: string
  readonly options: OptionTable
  /** Throws a RangeError for an unknown option or a value out of range. */
  create(options: PolicyConfig['options']): Policy<Signal>
}

/** Fills in defaults. The schema has checked the values before; a wrong one here is a bug or a request's override. */
export function readOptions<const Table extends OptionTable>(
  table: Table,
  given: PolicyConfig['options'],
): OptionValues<Table> {
  const values: Record<string, number | string | boolean> = {}
  for (const [name, spec] of Object.entries(table)) values[name] = spec.default
  for (const [name, value] of Object.entries(given)) {
    const spec = table[name]
    if (spec === undefined)
      throw new RangeError(`Unknown policy option '${name}'; known: ${Object.keys(table).join(', ') || 'none'}`)
    const wrong = problemOf(spec, value)
    if (wrong !== null) throw new RangeError(`Policy option ${name} must be ${wrong}, got ${JSON.stringify(value)}`)
    values[name] = value
  }
  return values as OptionValues<Table>
}

/** What the value should have been; null when it is fine. */
export function problemOf(spec: OptionSpec, value: unknown): string | null {
  if (typeof value !== typeof spec.default) return `a ${typeof spec.default}`
  if (typeof value === 'string') {
    return spec.values === undefined || spec.values.includes(value) ? null : `one of ${spec.values.join(', ')}`
  }
  if (typeof value !== 'number') return null
  const { min = -Infinity, max = Infinity } = spec
  return Number.isFinite(value) && value >= min && value <= max ? null : `a number from ${min} to ${max}`
}
