/** Frames of SGLang's publisher (disaggregation/kv_events.py) beside vLLM's for the same prompts. */
import { describe, expect, it } from 'vitest'
import { pack, type Packable, type Wide } from '../../../packages/simulator/src/message-pack.ts'
import { publishedFrames, replayedFrames, seqFrame } from '../../../src/core/kv-events/event-frames.ts'
import { engineHashes, framed, indexOf, removed, signed, span, stored, type StoredBlocks } from './events.ts'

const batch = (fields: readonly (readonly [string, Packable])[]): Uint8Array =>
  pack([{ float: 1000 }, [{ map: fields }], 0])

function storedBySglang(what: StoredBlocks, medium = 'GPU'): Uint8Array {
  const { prompt, blockTokens, salt = null, adapter = null } = what
  const hashes = engineHashes(what).map(signed)
  return batch([
    ['type', 'BlockStored'],
    ['block_hashes', hashes],
    ['parent_block_hash', null],
    ['token_ids', prompt.slice(0, hashes.length * blockTokens)],
    ['block_size', blockTokens],
    ['lora_id', adapter === null ? null : 'a3f1'],
    ['medium', medium],
    ['cache_salt', salt],
    ['session_id', null],
    ['lora_name', adapter],
  ])
}

function removedBySglang(what: StoredBlocks, at: number, medium = 'GPU'): Uint8Array {
  return batch([
    ['type', 'BlockRemoved'],
    ['block_hashes', [signed(engineHashes(what)[at]!)]],
    ['medium', medium],
  ])
}

const byVllm = (what: StoredBlocks): readonly string[] => indexOf(framed(0, [stored(what)]).payload)

describe('frames of SGLang', () => {
  it.each([1, 16, 64])('SGLang’s frames give the same index as vLLM’s, with pages of %i tokens', (blockTokens) => {
    const what = { prompt: span(5, 200), blockTokens }
    const expected = byVllm({ ...what, blockTokens: 16 })
    expect(expected).toHaveLength(3)
    expect(indexOf(storedBySglang(what))).toEqual(expected)
  })

  it('SGLang’s frames name hashes by signed integers, of which a removal drops the right one', () => {
    const what = { prompt: span(5, 256), blockTokens: 64 }
    expect(engineHashes(what).some((hash) => (hash as Wide).hi >= 2 ** 31)).toBe(true)
    for (const at of [0, 1, 2, 3])
      expect(indexOf(storedBySglang(what), removedBySglang(what, at))).toEqual(
        indexOf(framed(0, [stored(what)]).payload, framed(1, [removed(what, at)]).payload),
      )
    expect(indexOf(storedBySglang(what), removedBySglang(what, 3))).toHaveLength(3)
  })

  it('SGLang’s frames of a removal at page size 1 end the block that lost a token', () => {
    const what = { prompt: span(5, 128), blockTokens: 1 }
    expect(indexOf(storedBySglang(what), removedBySglang(what, 127))).toEqual(
      byVllm({ ...what, prompt: span(5, 64), blockTokens: 16 }),
    )
  })

  it.each([
    ['a salt', { salt: 'pepper' }],
    ['an adapter', { adapter: 'sql' }],
    ['both', { salt: 'pepper', adapter: 'sql' }],
  ])('SGLang’s frames of prompts with %s give the same index as vLLM’s', (_, scope) => {
    const what = { prompt: span(5, 200), blockTokens: 64, ...scope }
    expect(indexOf(storedBySglang(what))).toEqual(byVllm(what))
    expect(indexOf(storedBySglang(what))).not.toEqual(byVllm({ prompt: span(5, 200), blockTokens: 64 }))
  })

  it.each(['CPU_PINNED', 'DISK', 'EXTERNAL'])(
    'SGLang’s frames of the medium %s change nothing on the device',
    (medium) => {
      const what = { prompt: span(5, 128), blockTokens: 64 }
      expect(indexOf(storedBySglang(what, medium))).toEqual([])
      expect(indexOf(storedBySglang(what), removedBySglang(what, 0, medium))).toEqual(byVllm(what))
    },
  )

  it('SGLang’s frames are framed like vLLM’s, and a replay ends with the same mark', () => {
    const payload = storedBySglang({ prompt: span(5, 64), blockTokens: 64 })
    const topic = new TextEncoder().encode('kv-events')
    const empty = new Uint8Array(0)
    expect(publishedFrames([topic, seqFrame(7), payload])).toEqual({ seq: 7, payload })
    expect(replayedFrames([empty, topic, seqFrame(7), payload])).toEqual({ seq: 7, payload })
    expect(replayedFrames([empty, empty, new Uint8Array(8).fill(0xff), empty])).toBe('end')
  })
})
