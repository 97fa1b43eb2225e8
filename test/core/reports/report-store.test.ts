import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readPartial, type ReportPartial } from '../../../src/core/reports/report-partial.ts'
import { ReportStore } from '../../../src/core/reports/report-store.ts'

const LIMITS = { maxRequests: 1000, maxBytes: 10_000_000, ttlMs: 600_000 }
const partial = (given: object): ReportPartial => {
  const read = readPartial(given)
  if ('detail' in read) throw new Error(read.detail)
  return read
}
const store = (limits = LIMITS) => new ReportStore(limits)
const combinedOf = (reports: readonly object[], id: string) => {
  const kept = store()
  for (const one of reports) kept.add(partial(one), 0)
  return kept.find(id, 0)?.combined ?? null
}
const FIVE = [
  { role: 'encoder', request_id: 'a', enc_queue_time_ms: 1 },
  { role: 'encoder', request_id: 'a', enc_compute_time_ms: 10 },
  { role: 'pd', request_id: 'a', prefill_queue_time_ms: 2 },
  { role: 'pd', request_id: 'a', emb_cache_transfer_time_ms: 3, prefill_compute_time_ms: 100 },
]

describe('limits of the store', () => {
  it('limits of the store apply to bytes with few requests; the oldest are removed first', () => {
    const kept = store({ ...LIMITS, maxBytes: 20_000 })
    for (let at = 0; at < 100; at++) {
      kept.add(partial({ role: 'pd', request_id: `request-${at}`, prefill_queue_time_ms: at }), at)
      expect(kept.bytes).toBeLessThanOrEqual(20_000)
    }
    expect(kept.size).toBeGreaterThan(10)
    expect(kept.find('request-0', 100)).toBeNull()
    expect(kept.find('request-99', 100)?.combined.prefill_queue_time_ms).toBe(99)
  })
})

describe('combinedOf', () => {
  it('combinedOf sums all five stages, and has no sum before the last one', () => {
    const kept = store()
    const news = FIVE.map((one) => kept.add(partial(one), 0).news)
    expect(news).toEqual(['stage', 'stage', 'stage', 'complete'])
    expect(kept.find('a', 0)?.combined.ttft_ms).toBe(116)
    expect(combinedOf(FIVE.slice(0, 3), 'a')?.ttft_ms).toBeNull()
  })

  it('combinedOf waits for both stages of the encoder, but not for the transfer of its embeddings', () => {
    const pd = { role: 'pd', request_id: 'a', prefill_queue_time_ms: 2, prefill_compute_time_ms: 100 }
    const [queued, computed] = FIVE as [object, object]
    expect(combinedOf([queued, pd], 'a')?.ttft_ms).toBeNull()
    expect(combinedOf([computed, pd], 'a')?.ttft_ms).toBeNull()
    expect(combinedOf([queued, computed, pd], 'a')).toMatchObject({ ttft_ms: 113, emb_cache_transfer_time_ms: null })
    const transferred = { role: 'pd', request_id: 'a', emb_cache_transfer_time_ms: 3 }
    expect(combinedOf([queued, computed, pd, transferred], 'a')?.ttft_ms).toBe(116)
  })

  it("combinedOf takes pd's value over the encoder's, and the encoder's over that of meta", () => {
    const of = (role: string, ms: number) => ({ role, request_id: 'a', enc_compute_time_ms: ms })
    const [meta, encoder, pd] = [of('meta', 1), of('encoder', 10), of('pd', 7)]
    expect(combinedOf([pd, encoder, meta], 'a')?.enc_compute_time_ms).toBe(7)
    expect(combinedOf([encoder, meta], 'a')?.enc_compute_time_ms).toBe(10)
  })

  it('combinedOf does not wait for an encoder if the gateway reports 0 encoder items', () => {
    const pd = { role: 'pd', request_id: 'a', prefill_queue_time_ms: 2, prefill_compute_time_ms: 100 }
    expect(combinedOf([pd], 'a')?.ttft_ms).toBeNull()
    expect(combinedOf([pd, { role: 'meta', request_id: 'a', encoder_items: 0 }], 'a')?.ttft_ms).toBe(102)
  })

  it('combinedOf accepts a transfer time of 0 without an encoder for a text request', () => {
    const pd = {
      role: 'pd',
      request_id: 'a',
      prefill_queue_time_ms: 2,
      emb_cache_transfer_time_ms: 0,
      prefill_compute_time_ms: 100,
    }
    expect(combinedOf([pd], 'a')?.ttft_ms).toBe(102)
    expect(combinedOf([pd, FIVE[0]!], 'a')?.ttft_ms).toBeNull()
  })

  it('combinedOf keeps the first of two values', () => {
    expect(
      combinedOf(
        [
          { role: 'pd', request_id: 'a', prefill_queue_time_ms: 2 },
          { role: 'pd', request_id: 'a', prefill_queue_time_ms: 7 },
        ],
        'a',
      )?.prefill_queue_time_ms,
    ).toBe(2)
  })

  it('sums distinct chunks once all have arrived', () => {
    const chunk = (at: number, ms: number, more = {}) => ({
      role: 'pd',
      request_id: 'a',
      prefill_compute_time_ms: ms,
      chunk: at,
      ...more,
    })
    expect(
      combinedOf([chunk(0, 5, { chunks: 3 }), chunk(1, 6, { chunks: 3 })], 'a')?.prefill_compute_time_ms,
    ).toBeNull()
    expect(
      combinedOf([chunk(0, 5, { chunks: 3 }), chunk(1, 6), chunk(1, 6), chunk(2, 7)], 'a')?.prefill_compute_time_ms,
    ).toBe(18)
    expect(combinedOf([chunk(0, 5), chunk(1, 6)], 'a')?.prefill_compute_time_ms).toBeNull()
    expect(combinedOf([chunk(2, 7, { last: true }), chunk(0, 5)], 'a')?.prefill_compute_time_ms).toBeNull()
    expect(combinedOf([chunk(2, 7, { last: true }), chunk(0, 5), chunk(1, 6)], 'a')?.prefill_compute_time_ms).toBe(18)
    expect(combinedOf([chunk(1, 5), chunk(2, 7, { last: true })], 'a')?.prefill_compute_time_ms).toBe(12)
  })

  it('combinedOf uses the longest of parallel encoder items and the sum of serial ones', () => {
    const child = (at: number, ms: number, more = {}) => ({
      role: 'encoder',
      request_id: `a:${at}:0f0f0f`,
      enc_compute_time_ms: ms,
      ...more,
    })
    const item = (at: number, ms: number, more = {}) => ({
      role: 'encoder',
      request_id: 'a',
      item: at,
      enc_compute_time_ms: ms,
      ...more,
    })
    expect(combinedOf([child(0, 5), child(1, 9), child(2, 7)], 'a')?.enc_compute_time_ms).toBe(9)
    expect(combinedOf([child(0, 5, { serial: true }), child(1, 9, { serial: true })], 'a')?.enc_compute_time_ms).toBe(
      14,
    )
    expect(combinedOf([item(0, 5), item(1, 9)], 'a')?.enc_compute_time_ms).toBe(14)
    expect(combinedOf([item(0, 5, { serial: false }), item(1, 9, { serial: false })], 'a')?.enc_compute_time_ms).toBe(9)
  })

  it('combinedOf waits for the reported number of encoder items', () => {
    const items = { role: 'meta', request_id: 'a', encoder_items: 2 }
    const child = (at: number) => ({
      role: 'encoder',
      request_id: `a:${at}:0f0f0f`,
      enc_queue_time_ms: 1,
      enc_compute_time_ms: 5 + at,
    })
    const pd = FIVE.slice(2)
    expect(combinedOf([items, child(0), ...pd], 'a')?.ttft_ms).toBeNull()
    expect(combinedOf([items, child(0), child(1), ...pd], 'a')?.ttft_ms).toBe(1 + 6 + 2 + 3 + 100)
  })
})

describe('ids', () => {
  const UUID = '3a8713d1-494c-4ec2-8848-672b4571b72d'
  const spelling = (id: string) => ({ role: 'pd', request_id: id, prefill_queue_time_ms: 4 })

  it.each([`chatcmpl-${UUID}`, `cmpl-${UUID}-0`, `chatcmpl-${UUID}-1a2b3c4d`, `cmpl-${UUID}-0-1a2b3c4d`, UUID])(
    '%s is the request an engine was sent',
    (id) => {
      expect(combinedOf([spelling(id)], UUID)?.prefill_queue_time_ms).toBe(4)
      expect(combinedOf([spelling(UUID)], id)?.prefill_queue_time_ms).toBe(4)
    },
  )

  it('report ids keep each suffix of ids that engines cannot have extended', () => {
    expect(combinedOf([spelling('job-1a2b3c4d')], 'job')).toBeNull()
    expect(combinedOf([spelling('job-1a2b3c4d')], 'job-1a2b3c4d')?.prefill_queue_time_ms).toBe(4)
  })

  it('report ids are read as encoder items only in encoder reports, so that a request id of that form stays separate', () => {
    const alike = ['trace:1:0aff', 'trace:2:0bff'].map((id, at) => ({
      role: 'pd',
      request_id: `chatcmpl-${id}-1a2b3c4d`,
      prefill_queue_time_ms: 4 + at,
    }))
    const own = { role: 'meta', request_id: 'trace:1:0aff', t_request_ingress_ns: 7 }
    for (const reports of [
      [own, ...alike],
      [...alike, own],
    ]) {
      expect(combinedOf(reports, 'trace:1:0aff')).toMatchObject({ prefill_queue_time_ms: 4, t_request_ingress_ns: 7 })
      expect(combinedOf(reports, 'trace:2:0bff')).toMatchObject({
        prefill_queue_time_ms: 5,
        t_request_ingress_ns: null,
      })
      expect(combinedOf(reports, 'trace')).toBeNull()
    }
    const item = { role: 'encoder', request_id: 'chatcmpl-trace:1:0aff:0:77-1a2b3c4d', enc_queue_time_ms: 9 }
    expect(combinedOf([...alike, item], 'trace:1:0aff')).toMatchObject({
      prefill_queue_time_ms: 4,
      enc_queue_time_ms: 9,
    })
    expect(combinedOf([spelling('a'), { ...item, request_id: 'a:0:77' }], 'a:0:77')).toMatchObject({
      prefill_queue_time_ms: 4,
      enc_queue_time_ms: 9,
    })
  })

  it('report ids match the last 128 spellings, which bounds the cost of one id for all requests', () => {
    const kept = store()
    const lengthened = (at: number) => `chatcmpl-same-${at.toString(16).padStart(8, '0')}`
    const addReport = (at: number, more: object = { prefill_queue_time_ms: at }) =>
      kept.add(partial({ role: 'pd', request_id: lengthened(at), ...more }), 0)
    for (let at = 1; at <= 500; at++) addReport(at)
    expect(kept.find('same', 0)?.combined.prefill_queue_time_ms).toBe(500 - 128 + 1)
    // A spelling that had left the last 128 is among them again.
    expect(addReport(1, { prefill_compute_time_ms: 7 }).combined.prefill_compute_time_ms).toBe(7)
    expect(kept.find('same', 0)?.combined).toMatchObject({ prefill_queue_time_ms: 1, prefill_compute_time_ms: 7 })
    expect(kept.size).toBe(500)
  })

  it('report ids match exactly first, in any order of arrival', () => {
    const own = { role: 'meta', request_id: 'job-1a2b3c4d', encoder_items: 0 }
    for (const reports of [
      [own, spelling('chatcmpl-job-1a2b3c4d')],
      [spelling('chatcmpl-job-1a2b3c4d'), own],
    ]) {
      expect(combinedOf(reports, 'job-1a2b3c4d')?.prefill_queue_time_ms).toBe(4)
      expect(combinedOf(reports, 'job')).toBeNull()
    }
  })
})

/** Consistent reports: no field has two values. */
const slots = fc.uniqueArray(
  fc.record({
    role: fc.constantFrom('meta', 'encoder', 'pd'),
    id: fc.constantFrom(
      'a',
      'chatcmpl-a',
      'a-00000001',
      'chatcmpl-a-00000001',
      'chatcmpl-a-00000002',
      'a:0:0f0f0f',
      'a:1:0f0f0f',
      'cmpl-a-0-00000001',
    ),
    field: fc.constantFrom(
      'enc_queue_time_ms',
      'enc_compute_time_ms',
      'emb_cache_transfer_time_ms',
      'prefill_queue_time_ms',
      'prefill_compute_time_ms',
    ),
    chunk: fc.option(fc.nat(4), { nil: undefined }),
    last: fc.boolean(),
    item: fc.option(fc.nat(2), { nil: undefined }),
    value: fc.double({ min: 0, max: 1000, noNaN: true }),
  }),
  // Spellings of one request share its fields, so they must be consistent too.
  {
    selector: ({ role, field, chunk, item, id }) => JSON.stringify([role, field, chunk, item, /:\d:/.exec(id)?.[0]]),
    maxLength: 24,
  },
)

it('reports give the same result in any order and repetition', () => {
  fc.assert(
    fc.property(slots, fc.infiniteStream(fc.nat()), (chosen, dice) => {
      const roll = (limit: number) => dice.next().value! % limit
      const hasLast = new Set<string>()
      const reports = chosen.map(({ role, id, field, chunk, last, item, value }) => {
        // At most one last chunk per stage, or `last` would be contradictory.
        const isLast = chunk !== undefined && last && !hasLast.has(role + field)
        if (isLast) hasLast.add(role + field)
        return partial({
          role,
          request_id: id,
          [field]: value,
          ...(chunk === undefined ? {} : { chunk }),
          ...(isLast ? { last: true } : {}),
          ...(item === undefined ? {} : { item }),
        })
      })
      const inOrder = store()
      for (const one of reports) inOrder.add(one, 0)
      const shuffled = [...reports, ...reports.filter(() => roll(2) === 0)]
      for (let at = shuffled.length - 1; at > 0; at--) {
        const other = roll(at + 1)
        ;[shuffled[at], shuffled[other]] = [shuffled[other]!, shuffled[at]!]
      }
      const anyhow = store()
      for (const one of shuffled) anyhow.add(one, 0)
      for (const id of ['a', 'a-00000001', 'chatcmpl-a-00000001', 'chatcmpl-a-00000002']) {
        const expected = inOrder.find(id, 0)
        const found = anyhow.find(id, 0)
        expect(found?.id).toEqual(expected?.id)
        expect(found?.combined).toEqual(expected?.combined)
        expect(found?.byRole).toEqual(expected?.byRole)
      }
    }),
    { numRuns: 300 },
  )
})

describe('retention', () => {
  const one = (id: string) => partial({ role: 'pd', request_id: id, prefill_queue_time_ms: 1 })

  it('retention removes a request after its time to live', () => {
    const kept = store()
    kept.add(one('a'), 0)
    expect(kept.find('a', 599_999)).not.toBeNull()
    expect(kept.find('a', 600_000)).toBeNull()
    expect([kept.size, kept.bytes]).toEqual([0, 0])
  })

  it('retention applies a shortened time to live to requests before and after the change', () => {
    const kept = store()
    kept.add(one('before'), 0)
    kept.setLimits({ ...LIMITS, ttlMs: 60_000 })
    kept.add(one('after'), 1000)
    expect(kept.find('after', 60_999)).not.toBeNull()
    expect(kept.find('after', 61_000)).toBeNull()
    expect(kept.size).toBe(0)
  })

  it('retention stays within the request limit and removes the oldest first', () => {
    const kept = store({ ...LIMITS, maxRequests: 3 })
    for (const id of ['a', 'b', 'c', 'd']) kept.add(one(id), 0)
    expect(kept.size).toBe(3)
    expect(kept.find('a', 0)).toBeNull()
    expect(kept.find('d', 0)).not.toBeNull()
  })

  it('retention stays within the byte limit for any reports', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(50), fc.nat(3000), fc.boolean())), (reports) => {
        const kept = store({ ...LIMITS, maxBytes: 20_000 })
        for (const [id, chunk, engine] of reports) {
          kept.add(
            partial({
              role: 'pd',
              request_id: engine ? `chatcmpl-${id}-0000000a` : `r${id}`,
              prefill_compute_time_ms: 1,
              chunk,
            }),
            0,
          )
          expect(kept.bytes).toBeLessThanOrEqual(20_000)
        }
      }),
    )
  })

  it('retention counts 0 bytes after everything expired', () => {
    const kept = new ReportStore<string>(LIMITS, (note) => note.length)
    for (let at = 0; at < 100; at++) {
      kept.add(one(`chatcmpl-${at}-0000000a`), at)
      kept.note(`${at}`, 'a note', at)
    }
    kept.expire(1e9)
    expect([kept.size, kept.bytes]).toEqual([0, 0])
  })
})

describe('readPartial rejects', () => {
  it.each([
    [{ role: 'pd' }, 'role or request_id missing'],
    [{ request_id: 'a' }, 'role or request_id missing'],
    [{ role: 'decoder', request_id: 'a' }, 'role must be one of'],
    [{ role: 'pd', request_id: 'a b' }, 'request_id must have'],
    [{ role: 'pd', request_id: 'a'.repeat(257) }, 'request_id must have'],
    [{ role: 'pd', request_id: 7 }, 'request_id must have'],
    [{ role: 'pd', request_id: 'a', prefill_queue_time_ms: -1 }, 'prefill_queue_time_ms must be'],
    [{ role: 'pd', request_id: 'a', prefill_queue_time_ms: 'NaN' }, 'prefill_queue_time_ms must be'],
    [{ role: 'pd', request_id: 'a', prefill_queue_time_ms: '1e999' }, 'prefill_queue_time_ms must be'],
    [{ role: 'pd', request_id: 'a', prefill_queue_time_ms: 1e12 }, 'prefill_queue_time_ms must be'],
    [{ role: 'pd', request_id: 'a', prefill_queue_time_ms: true }, 'prefill_queue_time_ms must be'],
    [{ role: 'pd', request_id: 'a', prefill_queue_time_ms: [1] }, 'prefill_queue_time_ms must be'],
    [{ role: 'meta', request_id: 'a', t_request_ingress_ns: 1.5 }, 't_request_ingress_ns must be'],
    [{ role: 'pd', request_id: 'a', chunk: -1 }, 'chunk must be'],
    [{ role: 'pd', request_id: 'a', chunks: 2 }, 'chunks and last require chunk'],
    [[], 'must be a JSON object'],
    [null, 'must be a JSON object'],
  ])('%j', (given, detail) => {
    expect(readPartial(given)).toEqual({ detail: expect.stringContaining(detail) })
  })

  it('numbers are also accepted as strings', () => {
    expect(partial({ role: 'pd', request_id: 'a', prefill_queue_time_ms: '1.5e1' }).values).toEqual([
      ['prefill_queue_time_ms', 15],
    ])
    expect(partial({ role: 'meta', request_id: 'a', t_request_ingress_ns: '1763733784123456789' }).values[0]![1]).toBe(
      Number('1763733784123456789'),
    )
  })
})
