import type { PolicyConfig } from '../contract/pool-config.ts'
import type { Policy, Signal } from './policy.ts'

/** Option of a policy, for the config schema and the docs. */
export interface OptionSpec<Value extends number | string | boolean = number | string | boolean> {
  readonly default: Value
  /** Numbers only: inclusive range. */
  readonly min?: number
  readonly max?: number
  /** Strings only: allowed values. */
  readonly values?: readonly string[]
  /** Description, one line. */
  readonly doc: string
}

/** camelCase names; the config document spells them in snake_case. */
type OptionTable = Readonly<Record<string, OptionSpec>>

type WidenLiteral<Value> = Value extends number
  ? number
  : Value extends boolean
    ? boolean
    : Value extends string
      ? string
      : never
export type OptionValues<Table extends OptionTable> = {
  readonly [Name in keyof Table]: WidenLiteral<Table[Name]['default']>
}

/** Policy with its options, for the list of policies, the schema and the docs. */
export interface PolicyKind {
  readonly name: string
  /** Description, one line. */
  readonly doc: string
  /** Source of the rule. */
  readonly source: string
  readonly options: OptionTable
  /** Creates the policy. Throws a RangeError for an unknown option or a value out of range. */
  create(options: PolicyConfig['options']): Policy<Signal>
}

/**
 * Returns the options with defaults. The schema has validated configured values; a request's overrides may be invalid.
 * Throws a RangeError.
 */
export function readOptions<const Table extends OptionTable>(
  table: Table,
  options: PolicyConfig['options'],
): OptionValues<Table> {
  const values: Record<string, number | string | boolean> = {}
  for (const [name, spec] of Object.entries(table)) values[name] = spec.default
  for (const [name, value] of Object.entries(options)) {
    const spec = table[name]
    if (spec === undefined)
      throw new RangeError(`Unknown policy option '${name}'; known: ${Object.keys(table).join(', ') || 'none'}`)
    const rule = violatedRule(spec, value)
    if (rule !== null) throw new RangeError(`Policy option ${name} must be ${rule}, got ${JSON.stringify(value)}`)
    values[name] = value
  }
  return values as OptionValues<Table>
}

/** Returns the rule that the value violates; null: valid. */
export function violatedRule(spec: OptionSpec, value: unknown): string | null {
  if (typeof value !== typeof spec.default) return `a ${typeof spec.default}`
  if (typeof value === 'string') {
    return spec.values === undefined || spec.values.includes(value) ? null : `one of ${spec.values.join(', ')}`
  }
  if (typeof value !== 'number') return null
  const { min = -Infinity, max = Infinity } = spec
  return Number.isFinite(value) && value >= min && value <= max ? null : `a number from ${min} to ${max}`
}
