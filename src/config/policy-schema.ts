/** Schema of a routing policy and its options, generated from the core's list of policies. */
import * as z from 'zod/mini'
import type { PolicyConfig } from '../core/contract/pool-config.ts'
import type { OptionSpec, PolicyKind } from '../core/routing/policy-options.ts'
import { policyKinds } from '../core/routing/policies/policies.ts'
import { describe, number, oneOf, strict, text, toSnakeKey } from './fields.ts'
import { didYouMean } from './suggest.ts'

/** Policy of a pool that names none. */
export const defaultPolicy = 'predicted'

const policyNames = policyKinds.map((kind) => kind.name)

const policyWithOptions = z.union(atLeastOne(policyKinds.map(policySchema)))

/** Schema of a policy: a name, or `{ name, option: value, … }`. Options that are absent keep the policy's defaults. */
export const policy = z.pipe(
  z.union([z.enum(policyNames, { error: (issue) => unknownPolicy(issue.input) }), policyWithOptions]),
  z.transform((written): PolicyConfig => {
    if (typeof written === 'string') return { name: written, options: {} }
    const { name, ...options } = written
    return {
      name,
      options: Object.fromEntries(
        Object.entries(options).filter(([, value]) => value !== null),
      ) as PolicyConfig['options'],
    }
  }),
)

function policySchema({ name, doc, options }: PolicyKind) {
  const shape: Record<string, z.ZodMiniOptional<z.ZodMiniType<number | string | boolean>>> = {}
  for (const [option, spec] of Object.entries(options)) {
    const schema = z.optional(optionSchema(spec))
    shape[toSnakeKey(option)] = schema.check(z.meta({ description: spec.doc, default: spec.default }))
  }
  return describe(doc, strict({ ...shape, name: z.enum([name], { error: (issue) => unknownPolicy(issue.input) }) }))
}

function optionSchema(spec: OptionSpec): z.ZodMiniType<number | string | boolean> {
  const { values, min = -Infinity, max = Infinity } = spec
  if (typeof spec.default === 'boolean') return z.boolean()
  if (typeof spec.default === 'number') return number(min, max)
  return values === undefined || values.length === 0 ? text(255) : oneOf(atLeastOne([...values]))
}

function atLeastOne<Item>(items: readonly Item[]): [Item, ...Item[]] {
  const [first, ...rest] = items
  if (first === undefined) throw new RangeError('An empty list of alternatives.')
  return [first, ...rest]
}

function unknownPolicy(name: unknown): string {
  return `must be a policy: ${policyNames.join(', ')}${typeof name === 'string' ? didYouMean(name, policyNames) : ''}`
}
