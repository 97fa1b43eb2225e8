import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { JsonMembers } from '../../src/protocols/stream/json-members.ts'
import { encode } from './read-stream.ts'

function read(text: string, size: number, within: string | null = null): Record<string, unknown> {
  const members = new JsonMembers(['usage', 'status'], within)
  const bytes = encode(text)
  for (let at = 0; at < bytes.length; at += size) members.take(bytes, at, Math.min(bytes.length, at + size))
  return Object.fromEntries([...members.found].map(([key, value]) => [key, JSON.parse(value) as unknown]))
}

const key = fc.oneof(fc.constantFrom('usage', 'status', 'response', 'a', '', 'us"age'), fc.string({ maxLength: 4 }))
const json = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.oneof(
      fc.string({ unit: 'binary', maxLength: 8 }),
      fc.constantFrom('"usage":{', '\\', '{', ']', ','),
      fc.integer(),
    ),
    fc.constantFrom<unknown>(null, true, -1.5e3),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(key, tie('value'), { maxKeys: 5, noNullPrototype: true }),
  ),
})).value

describe('members of a document', () => {
  it('members of a document are those of its top level, however the bytes are divided', () => {
    fc.assert(
      fc.property(
        fc.dictionary(key, json, { maxKeys: 6, noNullPrototype: true }),
        fc.integer({ min: 1, max: 60 }),
        fc.boolean(),
        (object, size, isWide) => {
          const text = JSON.stringify(object, null, isWide ? 2 : 0)
          const same = JSON.parse(text) as Record<string, unknown>
          const wanted = Object.fromEntries(
            ['usage', 'status'].flatMap((name) => (Object.hasOwn(same, name) ? [[name, same[name]]] : [])),
          )
          expect(read(text, size)).toEqual(wanted)
        },
      ),
      { numRuns: 1000 },
    )
  })

  it('members of a document may be those of one member', () => {
    fc.assert(
      fc.property(
        fc.dictionary(key, json, { maxKeys: 6, noNullPrototype: true }),
        fc.integer({ min: 1, max: 60 }),
        (object, size) => {
          const text = JSON.stringify(object)
          const { response } = JSON.parse(text) as { response?: unknown }
          const inner =
            typeof response === 'object' && response !== null && !Array.isArray(response)
              ? (response as Record<string, unknown>)
              : {}
          const wanted = Object.fromEntries(
            ['usage', 'status'].flatMap((name) => (Object.hasOwn(inner, name) ? [[name, inner[name]]] : [])),
          )
          expect(read(text, size, 'response')).toEqual(wanted)
        },
      ),
      { numRuns: 1000 },
    )
  })

  it('members of a document are left out if they are too large to be usage', () => {
    expect(read(JSON.stringify({ usage: 'x'.repeat(9000), status: 'a' }), 1000)).toEqual({ status: 'a' })
  })
})
