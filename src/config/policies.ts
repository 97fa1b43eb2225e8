/** How the document names a policy and its options. Made from the core's list of policies, so it cannot lag behind. */
import * as z from 'zod/mini'
import type { OptionSpec, PolicyKind } from '../core/routing/options.ts'
import { policyKinds } from '../core/routing/policies/index.ts'
import { didYouMean } from './problem.ts'
import { number, oneOf, describe, strict, words } from './fields.ts'

/** What a pool uses when it names none. */
export const defaultPolicy = 'predicted'

const names = policyKinds.map((kind) => kind.name)

const withOptions = z.union(atLeastOne(policyKinds.map(schemaOf)))

/** A name, or `{ name, option: value, … }`. */
export const policy = z.union([z.enum(names, { error: (issue) => unknownPolicy(issue.input) }), withOptions])

export type PolicyDocument = z.output<typeof policy>

function schemaOf({ name, doc, options }: PolicyKind) {
  const shape: Record<string, z.ZodMiniOptional<z.ZodMiniType<number | string | boolean>>> = {}
  for (const [option, spec] of Object.entries(options)) {
    const schema = z.optional(optionSchema(spec))
    shape[snake(option)] = schema.check(z.meta({ description: spec.doc, default: spec.default }))
  }
  return describe(doc, strict({ ...shape, name: z.enum([name], { error: (issue) => unknownPolicy(issue.input) }) }))
}

function optionSchema(spec: OptionSpec): z.ZodMiniType<number | string | boolean> {
  const { values, min = -Infinity, max = Infinity } = spec
  if (typeof spec.default === 'boolean') return z.boolean()
  if (typeof spec.default === 'number') return number(min, max)
  return values === undefined || values.length === 0 ? words(255) : oneOf(atLeastOne([...values]))
}

function atLeastOne<Item>(items: readonly Item[]): [Item, ...Item[]] {
  const [first, ...rest] = items
  if (first === undefined) throw new RangeError('An empty list of alternatives.')
  return [first, ...rest]
}

function unknownPolicy(name: unknown): string {
  return `must be a policy: ${names.join(', ')}${typeof name === 'string' ? didYouMean(name, names) : ''}`
}

/** The option's name in the document. */
export function snake(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/** The option's name in the core. */
export function camel(name: string): string {
  return name.replaceAll(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())
}
