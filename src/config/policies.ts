/** How the document names a policy, and which options each takes. */
import * as z from 'zod'
import { didYouMean } from './suggest.ts'
import { strict } from './values.ts'

const names = ['round_robin', 'random', 'session', 'qps', 'least_loaded', 'power_of_two'] as const

/** What a pool uses when it names none. */
export const defaultPolicy = 'least_loaded'

const byName = z.discriminatedUnion(
  'name',
  [strict({ name: z.literal('round_robin') }), ...names.slice(1).map((name) => strict({ name: z.literal(name) }))],
  { error: (issue) => unknownPolicy((issue.input as { name?: unknown } | null)?.name) },
)

/** A name, or `{ name, option: value, … }`. */
export const policy = z.union([z.enum(names, { error: (issue) => unknownPolicy(issue.input) }), byName])

function unknownPolicy(name: unknown): string {
  return `must be a policy: ${names.join(', ')}${typeof name === 'string' ? didYouMean(name, names) : ''}`
}
