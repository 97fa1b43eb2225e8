import fc from 'fast-check'
import { expect, it } from 'vitest'
import { readFields } from '../../../src/api/body/request-fields.ts'
import type { Failure } from '../../../src/failure.ts'

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
    messages: value,
    stream_options: value,
  },
  { requiredKeys: [] },
)

/** Whether a field may have this value. Other fields are the engine's. */
const RULES: Readonly<Record<string, (value: unknown) => boolean>> = {
  model: (one) => typeof one === 'string',
  stream: (one) => typeof one === 'boolean',
  priority: (one) => Number.isSafeInteger(one),
  cache_salt: (one) => typeof one === 'string',
  previous_response_id: (one) => typeof one === 'string',
  stream_options: (one) => JSON.stringify(one) === '{}' || JSON.stringify(one) === '{"include_usage":true}',
}

it('the fields of a request are read unchanged, or the first one with a bad value is named', () => {
  fc.assert(
    fc.property(body, (given) => {
      const json = JSON.parse(JSON.stringify(given)) as Record<string, unknown>
      const names = Object.keys(RULES).filter((name) => json[name] !== undefined)
      const isGood = (name: string): boolean => json[name] === null || RULES[name]!(json[name])
      const bad = names.filter((name) => !isGood(name))
      if (bad.length === 0) {
        // Nothing reads this one here.
        const read = names.filter((name) => name !== 'stream_options')
        expect(readFields(json)).toEqual(Object.fromEntries(read.map((name) => [name, json[name]])))
        return
      }
      let failed: Failure | null = null
      try {
        readFields(json)
      } catch (error) {
        failed = error as Failure
      }
      expect([failed?.reason, failed?.message.split(/[ .]/)[0]]).toEqual(['bad_value', bad[0]])
    }),
    { numRuns: 2_000 },
  )
})
