import fc from 'fast-check'
import { expect, it } from 'vitest'
import { validatedFields, readFields } from '../../../src/api/body/request-fields.ts'

const value = fc.oneof(
  fc.string(),
  fc.boolean(),
  fc.integer(),
  fc.double(),
  fc.constantFrom(null, undefined, [], {}, { include_usage: true }, { include_usage: 1 }),
)
const body = fc.record(
  {
    model: fc.oneof(fc.string(), value),
    stream: fc.oneof(fc.boolean(), value),
    priority: value,
    cache_salt: value,
    previous_response_id: value,
    stream_options: value,
    messages: value,
  },
  { requiredKeys: [] },
)

const outcome = (read: () => unknown): unknown => {
  try {
    return { fields: read() }
  } catch (error) {
    return { message: (error as Error).message }
  }
}

it('fields have the same values with and without the schema', () => {
  fc.assert(
    fc.property(body, (given) => {
      const json = JSON.parse(JSON.stringify(given)) as Record<string, unknown>
      expect(outcome(() => readFields(json))).toEqual(outcome(() => validatedFields(json)))
    }),
    { numRuns: 2_000 },
  )
})
