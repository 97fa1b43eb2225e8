import { expect, it } from 'vitest'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import type { EngineDigest } from '../../../src/core/contract/pool-digest.ts'
import type { Outcome } from '../../../src/core/contract/outcome.ts'
import type { PoolConfig, SplitConfig } from '../../../src/core/contract/pool-config.ts'
import { admission, engine, outcome, pool } from '../../kit/pool-fixtures.ts'
import { chain, range } from '../prefix-index/block-chains.ts'

const BLOCK_TOKENS = 64
const onePrefillFourDecode = [
  engine('p', { role: 'prefill' }),
  ...['d0', 'd1', 'd2', 'd3'].map((id) => engine(id, { role: 'decode' })),
]
const onePair = [engine('p', { role: 'prefill' }), engine('d', { role: 'decode' })]

function open(mode: SplitConfig['mode'], changes: Partial<PoolConfig> = {}) {
  const state = new PoolState({ random: () => 0.5, epoch: 'e' })
  state.configure(
    1,
    pool({
      policy: { name: 'predicted', options: {} },
      engines: onePrefillFourDecode,
      indexEntries: 100_000,
      split: { mode, thresholdTokens: 512, fallback: 'decode_only' },
      ...changes,
    }),
    0,
  )
  const clock = { now: 0 }
  const admit = (content: readonly (string | number)[]) => {
    const answer = state.admit(
      admission({ blocks: chain(content), promptTokens: content.length * BLOCK_TOKENS + 1 }),
      clock.now,
    )
    if ('refusal' in answer) throw new Error(JSON.stringify(answer.refusal))
    const { placement, key } = answer
    return { key, placement, engine: placement.kind === 'whole' ? placement.engine : placement.decode }
  }
  const firstToken = (key: string) => state.firstToken(key, { ttft: 500 }, (clock.now += 500))
  const finish = (key: string, end: Partial<Outcome> = {}) => state.release(key, outcome(end), (clock.now += 500))
  const serve = (content: readonly (string | number)[], end: Partial<Outcome> = {}) => {
    const admitted = admit(content)
    firstToken(admitted.key)
    finish(admitted.key, end)
    return admitted
  }
  const digestOf = (id: string): EngineDigest => state.digest(clock.now).engines.find((one) => one.id === id)!
  return { admit, firstToken, finish, serve, digestOf }
}

const turn = (conversation: number, number: number) =>
  range(0, 20 + 4 * number).map((block) => `${conversation}/${block}`)

it.each(['never', 'threshold', 'uncached', 'adaptive', 'always'] as const)(
  'a split pool sends the next turn of a conversation to the decode engine that has it, mode %s',
  (mode) => {
    const { serve } = open(mode)
    const holders = range(0, 12).map((at) => serve(turn(at, 0)).engine)
    for (const number of range(1, 4))
      expect(range(0, 12).map((at) => serve(turn((at * 5) % 12, number)).engine)).toEqual(
        range(0, 12).map((at) => holders[(at * 5) % 12]),
      )
    expect(new Set(holders).size).toBe(4)
  },
)

it('a split pool splits by the uncached tokens on the best decode engine: the first turn only', () => {
  const { serve } = open('uncached')
  const kinds = range(0, 4).flatMap((number) =>
    range(0, 8).map((conversation) => serve(turn(conversation, number)).placement.kind),
  )
  expect(kinds).toEqual([...Array<string>(8).fill('split'), ...Array<string>(24).fill('whole')])
})

it('a split pool does not take blocks for cached that are still being transferred', () => {
  const { admit, firstToken } = open('uncached', { engines: onePair })
  const first = admit(range(0, 100))
  expect(first.placement.kind).toBe('split')
  const second = admit(range(0, 100))
  expect(second.placement.kind).toBe('split')
  firstToken(first.key)
  expect(admit(range(0, 100)).placement.kind).toBe('whole')
})

it('a split pool leaves nothing behind of a transfer that never arrived', () => {
  const { admit, finish } = open('uncached', { engines: onePair })
  const { key } = admit(range(0, 100))
  finish(key, { result: 'engine_failed', failure: 'connect', status: 502 })
  expect(admit(range(0, 100)).placement.kind).toBe('split')
})

it('a split pool counts a transfer as cached that completed without a reported first token', () => {
  const { admit, finish } = open('uncached', { engines: onePair })
  finish(admit(range(0, 100)).key)
  expect(admit(range(0, 100)).placement.kind).toBe('whole')
})

it('a split pool counts blocks that two requests share on a decode engine once they arrived, and releases all', () => {
  const { admit, firstToken, finish, digestOf } = open('always', { engines: onePair })
  const keys = [admit(range(0, 100)).key, admit(range(0, 100)).key]
  expect(digestOf('d').activeBlocks).toBe(202)
  for (const key of keys) firstToken(key)
  expect(digestOf('d').activeBlocks).toBe(102)
  keys.push(admit([...range(0, 100), 'more']).key)
  expect(digestOf('d').activeBlocks).toBe(104)
  for (const key of keys) finish(key)
  expect(digestOf('d').activeBlocks).toBe(0)
})

it('a split pool shares nothing on a decode engine whose prefix caching is off', () => {
  const engines = [engine('p', { role: 'prefill' }), engine('d', { role: 'decode', prefixCaching: 'off' })]
  const { serve, admit, digestOf } = open('uncached', { engines })
  serve(range(0, 100))
  expect(admit(range(0, 100)).placement.kind).toBe('split')
  admit(range(0, 100))
  expect(digestOf('d').activeBlocks).toBe(202)
})

it('a split pool learns nothing about the cache of a decode engine from the usage of split requests', () => {
  const { serve, digestOf } = open('always', { engines: onePair })
  const usage = { promptTokens: 6401, completionTokens: 5, cachedTokens: 0 }
  for (const _ of range(0, 12)) serve(range(0, 100), { usage })
  expect(digestOf('d').learned).toMatchObject({ silentMiss: null, restarts: 0 })
  expect(digestOf('p').learned).toMatchObject({ silentMiss: null, restarts: 0 })
})

it('a split pool splits again for a decode engine that does not reuse what was transferred', () => {
  const { serve } = open('uncached', { engines: onePair })
  const usage = { promptTokens: 6401, completionTokens: 5, cachedTokens: 0 }
  for (const _ of range(0, 20)) serve(range(0, 100), { usage })
  expect(serve(range(0, 100)).placement.kind).toBe('split')
})

it('a split pool does not send a split request to a busy decode engine to save the transfer of a prefix', () => {
  const { serve, admit, finish } = open('always', { engines: onePrefillFourDecode.slice(0, 3) })
  const holder = serve(range(0, 100)).engine
  const others = range(0, 60).map((at) => admit([`busy/${at}`]))
  for (const { key, engine: id } of others) if (id !== holder) finish(key)
  expect(admit([...range(0, 100), 'more']).engine).not.toBe(holder)
})

it('a split pool splits adaptively if the prefill would delay many streams of the decode engine', () => {
  const kindWith = (streams: number) => {
    const { admit, firstToken } = open('adaptive', { engines: onePair })
    for (const at of range(0, streams)) firstToken(admit([`stream/${at}`]).key)
    return admit(range(0, 100)).placement.kind
  }
  expect(kindWith(0)).toBe('whole')
  expect(kindWith(20)).toBe('split')
})
