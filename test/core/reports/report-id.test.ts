import fc from 'fast-check'
import { expect, it } from 'vitest'
import { shardKeyOf, readItemId, readReportId } from '../../../src/core/reports/report-id.ts'

const hex = (length: number) =>
  fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: length, maxLength: length })
const own = fc.oneof(fc.uuid(), fc.stringMatching(/^[a-z][a-z0-9_.]{0,30}(-[a-z0-9]{1,7})?$/))

it('every spelling of an id by engines and proxies maps to the same store', () => {
  fc.assert(
    fc.property(own, hex(8), hex(6), fc.nat(99), (id, tail, key, index) => {
      const made = [
        `chatcmpl-${id}`,
        `chatcmpl-${id}:1:ab:${index}:${key}-${tail}`,
        `chatcmpl-${id}-${tail}`,
        `${id}:${index}:${key}`,
        `chatcmpl-${id}:${index}:${key}-${tail}`,
        `cmpl-${id}-${index}`,
        `cmpl-${id}-${index}-${tail}`,
      ]
      for (const one of made) expect([one, shardKeyOf(one)]).toEqual([one, shardKeyOf(id)])
    }),
  )
})

it('the candidates of every spelling include the request id', () => {
  fc.assert(
    fc.property(own, hex(8), fc.nat(99), (id, tail, index) => {
      for (const one of [
        id,
        `chatcmpl-${id}`,
        `chatcmpl-${id}-${tail}`,
        `cmpl-${id}-${index}`,
        `cmpl-${id}-${index}-${tail}`,
      ]) {
        expect(readReportId(one).candidates).toContain(id)
      }
      expect(readItemId(`chatcmpl-${id}:${index}:${tail}`)).toEqual({ candidates: [id], child: index })
      expect(readItemId(id)).toBeNull()
    }),
  )
})

it('no id has an empty candidate', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string({ minLength: 1 }),
        fc.constantFrom('chatcmpl-', 'cmpl-', 'chatcmpl-cmpl-', 'cmpl--00000000', 'chatcmpl--1a2b3c4d'),
      ),
      (id) => {
        const { candidates } = readReportId(id)
        expect(candidates.length).toBeGreaterThan(0)
        for (const candidate of candidates) expect(candidate).not.toBe('')
      },
    ),
  )
})

it('requests with numbered ids are spread over many stores', () => {
  const shards = new Set(Array.from({ length: 1000 }, (_, at) => shardKeyOf(`load-${at}`)))
  expect(shards.size).toBe(1000)
})
