import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { readEventBatch } from '../../../src/core/kv-events/event-batch.ts'
import { publishedFrames, replayedFrames, replayRequest, seqFrame } from '../../../src/core/kv-events/event-frames.ts'
import { MsgpackError } from '../../../src/core/kv-events/msgpack.ts'
import { batchBytes } from '../../../packages/simulator/src/kv-event-bytes.ts'
import { cleared, engineHashes, removed, span, stored } from './events.ts'

const recorded = JSON.parse(readFileSync(new URL('../../vectors/kv-events.json', import.meta.url), 'utf8')) as {
  readonly batches: readonly { readonly payload_hex: string; readonly events: readonly Record<string, unknown>[] }[]
}

const decimal = (hash: string): string =>
  [...Array(4).keys()].reduce((value, at) => value * 65_536n + BigInt(hash.charCodeAt(at)), 0n).toString()

describe('readEventBatch', () => {
  it('readEventBatch reads every field of batches recorded from vLLM', () => {
    expect(recorded.batches.length).toBeGreaterThan(3)
    for (const { payload_hex, events } of recorded.batches) {
      const batch = readEventBatch(Buffer.from(payload_hex, 'hex'))
      expect(batch).toMatchObject({ atS: 0, unknown: 0 })
      expect(batch.events.map((event) => event.kind)).toEqual(
        events.map(
          ({ type }) =>
            ({ AllBlocksCleared: 'cleared', BlockStored: 'stored', BlockRemoved: 'removed' })[type as string],
        ),
      )
      for (const [at, event] of batch.events.entries()) {
        if (event.kind !== 'stored') continue
        expect(event.hashes.map(decimal)).toEqual(events[at]!['block_hashes'])
        expect(event.parent === null ? null : decimal(event.parent)).toBe(events[at]!['parent_block_hash'])
        expect(event.tokens).toEqual(events[at]!['token_ids'])
        expect([event.blockTokens, event.medium, event.group, event.adapter]).toEqual([32, 'GPU', 0, { kind: 'none' }])
        expect(event.extraKeys).toEqual(events[at]!['extra_keys'])
      }
    }
  })

  it('readEventBatch returns the same events for arrays and maps', () => {
    const prompt = { prompt: span(7, 70), blockTokens: 16, salt: 'pepper', adapter: 'french' }
    const events = [cleared, stored(prompt), stored({ ...prompt, from: 2 }), removed(prompt, 3)]
    expect(readEventBatch(batchBytes(5, events, 'arrays'))).toEqual(readEventBatch(batchBytes(5, events, 'maps')))
  })

  it('readEventBatch rejects a hash of 300,000 bytes without exhausting the stack', () => {
    // [5, [['BlockRemoved', [300,000 bytes]]]]
    const head = Buffer.concat([
      Buffer.from([0x92, 5, 0x91, 0x92, 0xac]),
      Buffer.from('BlockRemoved'),
      Buffer.from([0x91, 0xc6, 0, 4, 0x93, 0xe0]),
    ])
    expect(() => readEventBatch(Buffer.concat([head, Buffer.alloc(300_000)]))).toThrow(MsgpackError)
  })

  it('readEventBatch distinguishes hashes that are byte strings', () => {
    const digest = (fill: number) => new Uint8Array(32).fill(fill)
    const event = { ...stored({ prompt: span(0, 16), blockTokens: 16 }), block_hashes: [digest(200), digest(201)] }
    const read = readEventBatch(batchBytes(5, [event as ReturnType<typeof stored>], 'maps')).events[0]!
    expect(read.kind === 'stored' && new Set(read.hashes).size).toBe(2)
  })

  it('readEventBatch counts and skips events of unknown kinds', () => {
    const odd = { ...cleared, type: 'BlockMoved' } as unknown as typeof cleared
    expect(readEventBatch(batchBytes(5, [odd, cleared], 'maps'))).toEqual({
      atS: 5,
      rank: 0,
      events: [{ kind: 'cleared' }],
      unknown: 1,
    })
    expect(readEventBatch(batchBytes(5, [odd, cleared], 'arrays'))).toEqual({
      atS: 5,
      rank: 0,
      events: [{ kind: 'cleared' }],
      unknown: 1,
    })
  })

  it('readEventBatch marks an adapter as unnamed if the event has only its number', () => {
    const event = { ...stored({ prompt: span(0, 16), blockTokens: 16 }), lora_id: 3, lora_name: null }
    expect(readEventBatch(batchBytes(5, [event as ReturnType<typeof stored>], 'arrays')).events[0]).toMatchObject({
      adapter: { kind: 'unnamed' },
    })
  })
})

describe('ZeroMQ frames', () => {
  const payload = batchBytes(1, [cleared], 'maps')
  const topic = Buffer.from('kv')

  it('ZeroMQ frames have the same content in both replay framings', () => {
    const empty = new Uint8Array(0)
    expect(replayedFrames([empty, seqFrame(9), payload])).toEqual({ seq: 9, payload })
    expect(replayedFrames([empty, topic, seqFrame(9), payload])).toEqual({ seq: 9, payload })
    const end = new Uint8Array(8).fill(0xff)
    expect(replayedFrames([empty, end, empty])).toBe('end')
    expect(replayedFrames([empty, topic, end, empty])).toBe('end')
  })

  it('ZeroMQ frames carry sequence numbers beyond 32 bits', () => {
    const seq = 2 ** 40 + 5
    expect(publishedFrames([topic, seqFrame(seq), payload])?.seq).toBe(seq)
    expect(replayRequest(seq)[1]).toEqual(seqFrame(seq))
  })

  it('ZeroMQ frames of another shape are rejected', () => {
    expect(publishedFrames([topic, payload])).toBeNull()
    expect(publishedFrames([topic, Uint8Array.of(1), payload])).toBeNull()
    expect(replayedFrames([payload])).toBeNull()
  })

  it('ZeroMQ frames contain distinct 64-bit block hashes', () => {
    expect(
      new Set(engineHashes({ prompt: span(0, 320), blockTokens: 16 }).map((hash) => JSON.stringify(hash))).size,
    ).toBe(20)
  })
})
