/**
 * Frames of TensorRT-LLM's publisher (_torch/pyexecutor/kv_cache_events.py, KV cache manager V2): vLLM's frames, signed
 * hashes, events as maps without the fields that have their default, and the attention rank in the batch.
 */
import { describe, expect, it } from 'vitest'
import { pack, type Packable, type Wide } from '../../../packages/simulator/src/message-pack.ts'
import { readEventBatch } from '../../../src/core/kv-events/event-batch.ts'
import { publishedFrames, replayedFrames, seqFrame } from '../../../src/core/kv-events/event-frames.ts'
import { engineHashes, framed, indexOf, removed, signed, span, stored, type StoredBlocks } from './events.ts'

const batch = (rank: number, ...events: readonly (readonly (readonly [string, Packable])[])[]): Uint8Array =>
  pack([{ float: 1000.5 }, events.map((fields) => ({ map: fields })), rank])

const storedFields = (what: StoredBlocks): readonly (readonly [string, Packable])[] => {
  const { prompt, blockTokens, from = 0 } = what
  const hashes = engineHashes(what).map(signed)
  return [
    ['type', 'BlockStored'],
    ['block_hashes', hashes.slice(from)],
    ['parent_block_hash', from === 0 ? null : hashes[from - 1]!],
    ['token_ids', prompt.slice(from * blockTokens, hashes.length * blockTokens)],
    ['block_size', blockTokens],
    ['lora_id', null],
    ['medium', 'GPU'],
    ['lora_name', null],
  ]
}

const removedFields = (what: StoredBlocks, ...at: readonly number[]): readonly (readonly [string, Packable])[] => [
  ['type', 'BlockRemoved'],
  ['block_hashes', at.map((one) => signed(engineHashes(what)[one]!))],
  ['medium', 'GPU'],
]

const byVllm = (what: StoredBlocks): readonly string[] => indexOf(framed(0, [stored(what)]).payload)

describe('frames of TensorRT-LLM', () => {
  it.each([32, 64])('TensorRT-LLM’s frames give the same index as vLLM’s, with blocks of %i tokens', (blockTokens) => {
    const what = { prompt: span(5, 200), blockTokens }
    const expected = byVllm({ ...what, blockTokens: 16 })
    expect(expected).toHaveLength(3)
    expect(indexOf(batch(0, storedFields(what)))).toEqual(expected)
  })

  it('TensorRT-LLM’s frames of a later iteration continue a prompt, and a removal drops the right blocks', () => {
    const what = { prompt: span(5, 256), blockTokens: 32 }
    expect(engineHashes(what).some((hash) => (hash as Wide).hi >= 2 ** 31)).toBe(true)
    const first = batch(0, storedFields({ ...what, prompt: span(5, 128) }))
    const rest = batch(0, storedFields({ ...what, from: 4 }))
    expect(indexOf(first, rest)).toEqual(byVllm({ ...what, blockTokens: 64 }))
    expect(indexOf(first, rest, batch(0, removedFields(what, 6, 7)))).toEqual(
      indexOf(framed(0, [stored(what)]).payload, framed(1, [removed(what, 6), removed(what, 7)]).payload),
    )
    expect(indexOf(first, rest, batch(0, [['type', 'AllBlocksCleared']]))).toEqual([])
  })

  it('TensorRT-LLM’s frames name the attention rank, and have vLLM’s frames and end of a replay', () => {
    const payload = batch(3, storedFields({ prompt: span(5, 32), blockTokens: 32 }))
    expect(readEventBatch(payload)).toMatchObject({ atS: 1000.5, rank: 3, unknown: 0, events: [{ kind: 'stored' }] })
    const empty = new Uint8Array(0)
    expect(publishedFrames([empty, seqFrame(7), payload])).toEqual({ seq: 7, payload })
    expect(replayedFrames([empty, empty, seqFrame(7), payload])).toEqual({ seq: 7, payload })
    expect(replayedFrames([empty, empty, new Uint8Array(8).fill(0xff), empty])).toBe('end')
  })
})
