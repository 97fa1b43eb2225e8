import { describe, expect, it } from 'vitest'
import { CacheFeedback, type CacheFinding } from '../../../../src/core/pool/estimators/cache-feedback.ts'
import { CacheCapacity } from '../../../../src/core/pool/estimators/cache-capacity.ts'
import { PoolState } from '../../../../src/core/pool/pool-state.ts'
import { admission, engine, outcome, pool } from '../../../kit/pool-fixtures.ts'
import { chain, range } from '../../prefix-index/block-chains.ts'

const TOKENS = 6400
/** Verdict on a prompt whose prefix was last used `idleEnds` requests ago. */
const judge = (feedback: CacheFeedback, idleEnds: number, cachedShare: number): CacheFinding =>
  feedback.judge({
    predictedTokens: TOKENS,
    actualTokens: cachedShare * TOKENS,
    uncertainTokens: 0,
    blockTokens: 64,
    idleEnds,
    beforeAway: false,
  })

describe('missed prompts', () => {
  it('missed prompts are evictions if they are older than the oldest hit, however many in a row', () => {
    const feedback = new CacheFeedback()
    for (let hit = 0; hit < 20; hit++) expect(judge(feedback, 5, 1)).toEqual({ kind: 'fine' })
    for (let miss = 0; miss < 20; miss++) expect(judge(feedback, 40, 0)).toEqual({ kind: 'outlived' })
    expect(feedback.report.restarts).toBe(0)
  })

  it('missed prompts are a restart if they were used recently, even with old ones among them', () => {
    const feedback = new CacheFeedback()
    for (let hit = 0; hit < 20; hit++) judge(feedback, 5, 1)
    expect([5, 40, 5, 40, 5].map((idleEnds) => judge(feedback, idleEnds, 0).kind)).toEqual([
      'fine',
      'outlived',
      'fine',
      'outlived',
      'restarted',
    ])
  })

  it('missed prompts are not judged by age before the first full hit', () => {
    const feedback = new CacheFeedback()
    judge(feedback, 5, 0.5)
    expect([90, 90, 90].map((idleEnds) => judge(feedback, idleEnds, 0).kind)).toEqual(['fine', 'fine', 'restarted'])
  })
})

describe('an engine that recomputes the last cached block, as with speculative decoding', () => {
  it.each([64, 256, 1056])(
    'in blocks of %d tokens is taken neither for a small cache nor for a restart nor for a silent miss',
    (blockTokens) => {
      const feedback = new CacheFeedback()
      for (let request = 0; request < 200; request++) {
        const predictedTokens = (1 + (request % 8)) * blockTokens
        expect(
          feedback.judge({
            predictedTokens,
            actualTokens: predictedTokens - blockTokens,
            uncertainTokens: 0,
            blockTokens,
            idleEnds: 5,
            beforeAway: false,
          }),
        ).toEqual({ kind: 'fine' })
      }
      expect(feedback.report).toMatchObject({
        restarts: 0,
        silentMiss: false,
        errorTokens: expect.closeTo(blockTokens, 0) as number,
      })
    },
  )

  it('an engine that recomputes its last cached block is still detected as evicting or restarted if it misses more than the last block', () => {
    const feedback = new CacheFeedback()
    const verdict = (actualTokens: number) =>
      feedback.judge({
        predictedTokens: 640,
        actualTokens,
        uncertainTokens: 0,
        blockTokens: 64,
        idleEnds: 5,
        beforeAway: false,
      }).kind
    expect([576, 512, 576, 0, 0, 0].map(verdict)).toEqual(['fine', 'evicted', 'fine', 'fine', 'fine', 'restarted'])
  })
})

describe('CacheCapacity', () => {
  it('CacheCapacity falls without a declared size to the blocks used since, by at most half at first and by 8 % later', () => {
    const capacity = new CacheCapacity()
    capacity.limit(300, 1000)
    expect(capacity.blocks).toBe(500)
    capacity.limit(300, 1000)
    expect(capacity.blocks).toBe(460)
    for (let report = 0; report < 20; report++) capacity.limit(300, 460)
    expect(capacity.blocks).toBe(300)
  })

  it('CacheCapacity is not lowered by a miss after more blocks than the capacity were used', () => {
    const capacity = new CacheCapacity()
    capacity.limit(800, 1000)
    capacity.limit(900, 800)
    expect(capacity.blocks).toBe(800)
  })

  it('CacheCapacity is detected again after a restart', () => {
    const capacity = new CacheCapacity()
    capacity.declare(5000)
    capacity.limit(300, 1000)
    capacity.forget()
    expect([capacity.blocks, capacity.learned]).toEqual([5000, null])
  })
})

/** An engine that keeps the most recently used prompts. */
class Keeper {
  readonly #kept = new Map<number, true>()
  readonly #prompts: number

  constructor(prompts: number) {
    this.#prompts = prompts
  }

  serve(prompt: number): boolean {
    const hit = this.#kept.delete(prompt)
    this.#kept.set(prompt, true)
    for (const oldest of this.#kept.keys()) if (this.#kept.size > this.#prompts) this.#kept.delete(oldest)
    return hit
  }

  restart(): void {
    this.#kept.clear()
  }
}

const PROMPT_BLOCKS = 20
const KEPT_PROMPTS = 50

/** A gateway without a configured cache size, and prompts that repeat after any time. */
function watch() {
  let state = 1
  const random = (): number => (state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0) / 2 ** 32
  const cluster = new PoolState({ random, epoch: 'e' })
  cluster.configure(
    1,
    pool({ policy: { name: 'predicted', options: {} }, engines: [engine('a')], indexEntries: 100_000 }),
    0,
  )
  const authenticator = new Keeper(KEPT_PROMPTS)
  let now = 0
  const serve = (prompt: number): void => {
    const promptTokens = PROMPT_BLOCKS * 64 + 1
    const admitted = cluster.admit(
      admission({ blocks: chain(range(0, PROMPT_BLOCKS).map((at) => `${prompt}/${at}`)), promptTokens }),
      now,
    )
    if ('refusal' in admitted) throw new Error('refused')
    cluster.firstToken(admitted.key, { ttft: 500 }, (now += 500))
    const cachedTokens = authenticator.serve(prompt) ? promptTokens - 1 : 0
    cluster.release(
      admitted.key,
      outcome({ usage: { promptTokens, completionTokens: 20, cachedTokens } }),
      (now += 500),
    )
  }
  const learned = () => cluster.digest(now).engines[0]!.learned!
  const probe = (healthy: boolean): void =>
    void cluster.observe([{ kind: 'probe', engine: 'a', at: (now += 500), healthy, asleep: false, stats: null }], now)
  const believed = () => cluster.digest(now).engines[0]!.cachedBlocks
  return { serve, learned, believed, authenticator, random, probe }
}

describe('an engine that keeps fewer blocks than reported', () => {
  it('an engine with a smaller cache is not mistaken for a restart, and its real size is learned', () => {
    const { serve, learned, random } = watch()
    // Prompts used a hundred requests ago or earlier are all evicted, often several in a row.
    for (let round = 0; round < 1500; round++)
      serve(round < 200 || random() < 0.5 ? round % 200 : Math.floor(random() * 200))
    expect(learned().restarts).toBe(0)
    expect(learned().cacheBlocks! / (KEPT_PROMPTS * PROMPT_BLOCKS)).toBeGreaterThan(0.7)
    expect(learned().cacheBlocks! / (KEPT_PROMPTS * PROMPT_BLOCKS)).toBeLessThan(1.3)
  })

  it('an engine with a smaller cache is still detected if it restarts', () => {
    const { serve, learned, authenticator } = watch()
    for (let round = 0; round < 400; round++) serve(round % 30)
    authenticator.restart()
    for (let round = 0; round < 10; round++) serve(round % 30)
    expect(learned()).toMatchObject({ restarts: 1, cacheBlocks: null })
  })

  it('an engine with a smaller cache is detected as restarted by three misses after an outage, whatever their age', () => {
    const { serve, learned, believed, authenticator, probe } = watch()
    for (let round = 0; round < 400; round++) serve(round % 30)
    probe(false)
    authenticator.restart()
    probe(true)
    // Most of the following prompts are new, then repeated.
    for (let other = 1_000; other < 1_045; other++) for (let turn = 0; turn < 2; turn++) serve(other)
    for (let round = 0; round < 3; round++) {
      expect(learned().restarts).toBe(0)
      serve(round)
      serve(1_000 + round)
    }
    expect(learned()).toMatchObject({ restarts: 1, cacheBlocks: null })
    // Blocks booked after the restart are cached.
    expect(believed()).toBe((45 + 3) * PROMPT_BLOCKS)
  })

  it('an engine with a smaller cache is not detected as restarted after an outage in which it kept its cache', () => {
    const { serve, learned, probe } = watch()
    for (let round = 0; round < 400; round++) serve(round % 30)
    probe(false)
    probe(true)
    serve(0)
    for (let other = 1_000; other < 1_049; other++) serve(other)
    for (let round = 5; round < 15; round++) serve(round)
    expect(learned().restarts).toBe(0)
  })
})
