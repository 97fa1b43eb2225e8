import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { readPartial, type ReportPartial } from '../../src/core/reports/report-partial.ts'
import type { RecordBatch, RequestRecord } from '../../src/core/reports/request-record.ts'
import { countedUpTo, groupName, Rollups } from '../../src/core/reports/rollups.ts'
import { countsUpTo } from '../../src/core/reports/sketch.ts'
import type { Ttft } from '../../src/ports/ttft.ts'

export interface OpenTtft {
  readonly ttft: Ttft
  /** Does to the object what its runtime may do between two calls; nothing for memory of one process. */
  evict(): Promise<void>
  close(): Promise<void>
}

export const record = (changes: Partial<RequestRecord> = {}): RequestRecord => ({
  id: 'gw-1',
  requestId: 'gw-1',
  receivedAt: 1_800_000_000_000,
  durationMs: 1_500,
  path: '/v1/chat/completions',
  model: 'qwen',
  cluster: 'paris',
  engine: 'a',
  prefillEngine: null,
  placement: 'whole',
  policy: 'predicted',
  notes: [],
  stream: true,
  status: 200,
  result: 'complete',
  failedAttempts: [],
  stages: { edge: 1, admit: 2, ttft: 300 },
  predictedTtftMs: 250,
  usage: { promptTokens: 100, completionTokens: 11, cachedTokens: 64 },
  textOnly: true,
  ...changes,
})

export const partial = (given: object): ReportPartial => readPartial(given) as ReportPartial

const batch = (seq: number, records: readonly RequestRecord[], changes: Partial<RecordBatch> = {}): RecordBatch => ({
  source: 'g',
  epoch: 1,
  seq,
  records,
  ...changes,
})
const PD = { role: 'pd', request_id: 'gw-1', prefill_queue_time_ms: 2, prefill_compute_time_ms: 100 }

/** Sums of all shards. */
async function totals(ttft: Ttft) {
  const rollups = new Rollups()
  for (const group of await ttft.rollups()) rollups.merge(group)
  return rollups.groups()
}

export function ttftContract(name: string, open: () => Promise<OpenTtft>): void {
  describe(name, () => {
    let opened: OpenTtft
    let ttft: Ttft

    beforeEach(async () => {
      opened = await open()
      ttft = opened.ttft
    })

    afterEach(() => opened.close())

    it('the TTFT store answers each partial in its place, wherever it is kept', async () => {
      const ids = Array.from({ length: 20 }, (_, at) => `request-${at}-x`)
      const added = await ttft.report(
        ids.map((id, at) => partial({ role: 'pd', request_id: id, prefill_queue_time_ms: at })),
      )
      expect(added.map(({ id }) => id)).toEqual(ids)
      expect(added.map(({ combined }) => combined.prefill_queue_time_ms)).toEqual(ids.map((_, at) => at))
    })

    it('the TTFT store joins reports of engines and the gateway for one request, under any of its ids', async () => {
      await ttft.report([partial({ ...PD, request_id: 'chatcmpl-label-1a2b3c4d' })])
      await ttft.flush(batch(1, [record({ id: '0a0a0a0a-0000-4000-8000-00000000000f', requestId: 'label' })]))
      for (const id of ['label', 'chatcmpl-label-1a2b3c4d', '0a0a0a0a-0000-4000-8000-00000000000f']) {
        const found = await ttft.find(id)
        expect(found?.combined).toMatchObject({ ttft_ms: 102, t_request_ingress_ns: 1_800_000_000_000_000_000 })
        expect(found?.record?.engine).toBe('a')
      }
      expect(await ttft.find('nobody')).toBeNull()
    })

    it('the TTFT store keeps the first value of a stage that is reported twice, under any id', async () => {
      await ttft.report([partial(PD)])
      const [again] = await ttft.report([partial({ ...PD, prefill_queue_time_ms: 7, prefill_compute_time_ms: 1_000 })])
      expect(again?.combined).toMatchObject({ prefill_queue_time_ms: 2, prefill_compute_time_ms: 100 })
      await ttft.report([partial({ ...PD, request_id: 'chatcmpl-gw-1-1a2b3c4d', prefill_queue_time_ms: 9 })])
      expect((await ttft.find('gw-1'))?.combined).toMatchObject({
        prefill_queue_time_ms: 2,
        prefill_compute_time_ms: 100,
      })
    })

    it('the TTFT store waits for the encoder of a multimodal request, and needs no transfer time', async () => {
      await ttft.flush(batch(1, [record({ textOnly: false })]))
      await ttft.report([partial(PD)])
      expect((await ttft.find('gw-1'))?.combined.ttft_ms).toBeNull()
      const encoder = { role: 'encoder', request_id: 'gw-1' }
      await ttft.report([partial({ ...encoder, enc_queue_time_ms: 1 })])
      expect((await ttft.find('gw-1'))?.combined.ttft_ms).toBeNull()
      await ttft.report([partial({ ...encoder, enc_compute_time_ms: 10 })])
      expect((await ttft.find('gw-1'))?.combined).toMatchObject({ ttft_ms: 113, emb_cache_transfer_time_ms: null })
    })

    it("the TTFT store takes pd's value of a stage over the encoder's, in any order", async () => {
      const of = (role: string, ms: number) => partial({ role, request_id: 'gw-1', enc_compute_time_ms: ms })
      await ttft.report([of('pd', 7)])
      await ttft.report([of('encoder', 10)])
      expect((await ttft.find('gw-1'))?.combined.enc_compute_time_ms).toBe(7)
    })

    it('the TTFT store counts a batch once, however often it arrives', async () => {
      await ttft.flush(batch(1, [record()]))
      await ttft.flush(batch(1, [record()]))
      await ttft.flush(batch(2, [record({ id: 'gw-1', stages: { ttft: 100 } })]))
      await ttft.flush(batch(1, [record()]))
      const [group] = await totals(ttft)
      expect(group?.counts).toMatchObject({ 'requests:complete': 2, prompt_tokens: 200 })
    })

    it('the TTFT store rejects an older epoch, and starts over with a newer one', async () => {
      await ttft.flush(batch(5, [record()], { epoch: 2 }))
      await ttft.flush(batch(6, [record()], { epoch: 1 }))
      await ttft.flush(batch(1, [record()], { epoch: 3 }))
      expect((await totals(ttft))[0]?.counts['requests:complete']).toBe(2)
    })

    it('the TTFT store keeps counts and their progress through an eviction', async () => {
      await ttft.flush(batch(1, [record()]))
      await opened.evict()
      await ttft.flush(batch(1, [record()]))
      await ttft.flush(batch(2, [record({ engine: 'b' })]))
      const groups = await totals(ttft)
      expect(Object.fromEntries(groups.map(({ engine, counts }) => [engine, counts['requests:complete']]))).toEqual({
        a: 1,
        b: 1,
      })
    })

    it('the TTFT store forgets names that fell silent, wherever they were counted and for good, and no others', async () => {
      const of = (engine: string, endedAt: number) =>
        Array.from({ length: 40 }, (_, at) =>
          record({ engine, id: `${engine}-${at}x`, requestId: `${engine}-${at}x`, receivedAt: endedAt, durationMs: 0 }),
        )
      await ttft.flush(batch(1, [...of('old', 1_000), ...of('busy', 3_000), ...of('kept', 1_000)]))
      const names = (await totals(ttft)).filter(({ engine }) => engine !== 'kept').map(groupName)
      await ttft.forget(names, 2_000)
      const counted = async () =>
        Object.fromEntries(
          (await totals(ttft)).map(({ engine, counts, at }) => [engine, [counts['requests:complete'], at]]),
        )
      expect(await counted()).toEqual({ busy: [40, 3_000], kept: [40, 1_000] })
      await opened.evict()
      expect(await counted()).toEqual({ busy: [40, 3_000], kept: [40, 1_000] })
      await ttft.flush(batch(2, of('old', 4_000)))
      expect((await counted())['old']).toEqual([40, 4_000])
    })

    it('the TTFT store keeps its rollups within their limits', async () => {
      await ttft.flush(batch(1, [record(), record({ stages: { ttft: 2_000 } }), record({ engine: 'b' })]))
      const limits = [100, 1_000, Infinity]
      const expected = (await totals(ttft)).map((group) => countedUpTo(group, limits))
      if (ttft.counted !== undefined) expect(await ttft.counted(limits)).toEqual(expected)
      const { stages, rows } = expected.find(({ engine }) => engine === 'a')!
      const at = 4 * stages.indexOf('ttft')
      expect([...rows.subarray(at, at + 4)]).toEqual([0, 1, 2, 2_300])
    })

    it('the TTFT store keeps reports through an eviction', async () => {
      await ttft.flush(batch(1, [record()]))
      await ttft.report([partial(PD)])
      await opened.evict()
      expect((await ttft.find('gw-1'))?.combined.ttft_ms).toBe(102)
      await opened.evict()
      expect((await totals(ttft))[0]?.sketches['reported_ttft']?.counts.reduce((sum, one) => sum + one, 0)).toBe(1)
    })

    it('the TTFT store joins reports from before and after an eviction', async () => {
      await ttft.report([partial({ role: 'pd', request_id: 'gw-1', prefill_queue_time_ms: 2 })])
      await ttft.flush(batch(1, [record()]))
      await opened.evict()
      await ttft.report([partial({ role: 'pd', request_id: 'gw-1', prefill_compute_time_ms: 100 })])
      await opened.evict()
      expect((await ttft.find('gw-1'))?.combined).toMatchObject({
        prefill_queue_time_ms: 2,
        prefill_compute_time_ms: 100,
        ttft_ms: 102,
      })
    })

    it('counts reported stages once, though the request is recorded again under its id', async () => {
      await ttft.flush(batch(1, [record()]))
      await ttft.report([partial(PD)])
      await ttft.flush(batch(2, [record()]))
      const [group] = await totals(ttft)
      expect(group?.counts['requests:complete']).toBe(2)
      expect(countsUpTo(group!.sketches['reported_ttft']!, [Infinity])).toEqual([1])
    })

    it('the TTFT store puts the stages engines report beside the gateway’s own, once', async () => {
      await ttft.report([partial(PD)])
      await ttft.flush(batch(1, [record()]))
      await ttft.report([partial(PD), partial({ ...PD, request_id: 'chatcmpl-gw-1' })])
      const [group] = await totals(ttft)
      const seen = (stage: string) => {
        const sketch = group!.sketches[stage]!
        return [countsUpTo(sketch, [Infinity])[0], sketch.sum]
      }
      expect(seen('prefill_compute')).toEqual([1, 100])
      expect(seen('reported_ttft')).toEqual([1, 102])
      expect(seen('admit')).toEqual([1, 2])
      expect(seen('ttft_error')).toEqual([1, 50])
    })
  })
}
