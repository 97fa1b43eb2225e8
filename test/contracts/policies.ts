/** Costs and load that decide placements, for every implementation of the Cluster port. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Admission } from '../../src/core/contract/admission.ts'
import type { Decision } from '../../src/core/contract/decision.ts'
import type { PoolConfig } from '../../src/core/contract/pool-config.ts'
import { chain, range } from '../core/prefix-index/block-chains.ts'
import { admitted, type OpenCluster, type Source } from './cluster.ts'
import { admission, engines, outcome, pool } from '../kit/pool-fixtures.ts'

/** A cluster object whose random draws a test sets. */
export interface OpenPolicies extends OpenCluster {
  /** Sets every later draw to `value`, from 0 up to 1. */
  draw(value: number): void
}

const BLOCK_TOKENS = 64
const ACTIVE_BLOCKS = { name: 'active_blocks', options: {} } as const

export function policiesContract(name: string, open: (source: Source) => Promise<OpenPolicies>): void {
  let opened: OpenPolicies

  const restart = async (changes: Partial<PoolConfig>): Promise<void> => {
    await opened.close()
    opened = await open({
      version: 1,
      pool: pool({ policy: { name: 'ttft', options: {} }, engines: engines('a', 'b'), ...changes }),
    })
  }
  const admit = (changes: Partial<Admission> = {}) => admitted(opened.cluster.admit(admission(changes)))
  const rank = async (changes: Partial<Admission> = {}): Promise<Decision> => {
    const ranked = await opened.cluster.decisions!.dryRun(admission(changes))
    if ('refusal' in ranked) throw new Error(ranked.refusal.detail)
    return ranked.decision
  }
  const terms = async (term: string, changes: Partial<Admission> = {}): Promise<Record<string, number | undefined>> =>
    Object.fromEntries((await rank(changes)).candidates.map((one) => [one.engine, one.terms[term]]))
  const chosen = async (changes: Partial<Admission> = {}): Promise<string> => {
    const { placement } = await rank(changes)
    return placement.kind === 'whole' ? placement.engine : placement.kind
  }
  const shown = async (id: string) => (await opened.cluster.digest()).engines.find((one) => one.id === id)!
  const prompt = (blocks: number): Partial<Admission> => ({
    blocks: chain(range(0, blocks)),
    promptTokens: blocks * BLOCK_TOKENS + 1,
  })
  /** The prompt's blocks are cached on engine a afterwards. */
  const serveOnA = (changes: Partial<Admission>): Promise<void> => serveAvoiding('b', changes)
  const serveAvoiding = async (other: string, changes: Partial<Admission>): Promise<void> => {
    const { lease } = await admit({ ...changes, avoid: [other] })
    await lease.firstToken({ ttft: 100 })
    await lease.release(outcome())
  }

  beforeEach(async () => {
    opened = await open({
      version: 1,
      pool: pool({ policy: { name: 'ttft', options: {} }, engines: engines('a', 'b') }),
    })
  })
  afterEach(() => opened.close())

  describe(`${name}: the ttft policy`, () => {
    it('the ttft policy counts one query-key pair for each token and each token before it, without cached tokens', async () => {
      expect(await terms('new_work', { promptTokens: 10 })).toEqual({ a: 55, b: 55 })
      await serveOnA(prompt(2))
      // 128 of 129 tokens are cached: the last one attends to 129.
      expect(await terms('new_work', prompt(2))).toEqual({ a: 129, b: (129 * 130) / 2 })
    })

    it('the ttft policy adds the work queued on an engine until its first token, and prefers the engine without any', async () => {
      const { lease } = await admit({ promptTokens: 10, avoid: ['b'] })
      expect(await terms('queued_work', { promptTokens: 4 })).toEqual({ a: 55, b: 0 })
      // A short prompt costs less than the queue, in any turn.
      for (let at = 0; at < 4; at++) {
        const { engine, lease: short } = await admit({ promptTokens: 4 })
        expect(engine).toBe('b')
        await short.release(outcome({ result: 'client_gone' }))
      }
      await lease.firstToken({ ttft: 20 })
      expect(await terms('queued_work', { promptTokens: 4 })).toEqual({ a: 0, b: 0 })
      await lease.release(outcome())
    })

    it('the ttft policy counts the best match for every engine if they share one cache', async () => {
      await restart({ policy: { name: 'ttft', options: { sharedCache: true } } })
      await serveOnA(prompt(2))
      expect(await terms('cached_tokens', prompt(2))).toEqual({ a: 128, b: 128 })
      expect(await terms('new_work', prompt(2))).toEqual({ a: 129, b: 129 })
    })

    it('the ttft policy takes the tokens of the best engine of a shared cache, not those of the first or of all', async () => {
      await restart({ policy: { name: 'ttft', options: { sharedCache: true } } })
      await serveOnA(prompt(1))
      await serveAvoiding('a', prompt(3))
      expect(await terms('cached_tokens', prompt(4))).toEqual({ a: 3 * BLOCK_TOKENS, b: 3 * BLOCK_TOKENS })
    })

    it('the ttft policy counts nothing as cached on an engine with prefixCaching off', async () => {
      const [a, b] = engines('a', 'b')
      await restart({ engines: [{ ...a!, prefixCaching: 'off' }, b!] })
      await serveOnA(prompt(2))
      await serveAvoiding('a', prompt(2))
      expect(await terms('cached_tokens', prompt(2))).toEqual({ a: 0, b: 2 * BLOCK_TOKENS })
    })

    it('the ttft policy counts tokens of a lookup once, though each tier includes the nearer ones', async () => {
      const hints = [
        { engine: 'a', matchedTokens: 256, tier: 'host' },
        { engine: 'a', matchedTokens: 512, tier: 'disk' },
        { engine: 'a', matchedTokens: 768, tier: 'remote' },
      ] as const
      expect(await terms('cached_tokens', { promptTokens: 1_000, hints })).toEqual({ a: 768, b: 0 })
    })

    it('the ttft policy removes queued work when a request ends without a first token', async () => {
      const { lease } = await admit({ promptTokens: 10, avoid: ['b'] })
      await lease.release(outcome({ result: 'client_gone' }))
      expect(await terms('queued_work')).toEqual({ a: 0, b: 0 })
    })
  })

  describe(`${name}: pending prefill in the digest`, () => {
    it('pending prefill in the digest is the uncached tokens of prompts without a first token', async () => {
      await serveOnA(prompt(2))
      const { lease } = await admit({ ...prompt(3), avoid: ['b'] })
      expect((await shown('a')).queuedPrefillTokens).toBe(BLOCK_TOKENS + 1)
      expect((await shown('a')).queuedPrefillS).toBeGreaterThan(0)
      expect(await shown('b')).toMatchObject({ queuedPrefillTokens: 0, queuedPrefillS: 0 })
      await lease.firstToken({ ttft: 20 })
      expect(await shown('a')).toMatchObject({ queuedPrefillTokens: 0, queuedPrefillS: 0 })
    })
  })

  describe(`${name}: active blocks`, () => {
    beforeEach(() => restart({ policy: ACTIVE_BLOCKS }))

    it('active blocks grow by the output that is reported, cost that much, and are zero after the end', async () => {
      const request = { blocks: chain(range(0, 3)), promptTokens: 3 * BLOCK_TOKENS }
      const { lease } = await admit({ ...request, avoid: ['b'] })
      expect((await shown('a')).activeBlocks).toBe(3)
      await lease.firstToken({ ttft: 20 })
      await lease.progress(2)
      await lease.progress(5)
      // A late, smaller total changes nothing.
      await lease.progress(4)
      expect((await shown('a')).activeBlocks).toBe(8)
      expect(await terms('potential_blocks', { promptTokens: BLOCK_TOKENS, blocks: chain([9]) })).toEqual({
        a: 9,
        b: 1,
      })
      await lease.release(outcome())
      expect((await shown('a')).activeBlocks).toBe(0)
    })

    it('active blocks of two requests with one prompt count once', async () => {
      const first = await admit({ ...prompt(3), avoid: ['b'] })
      const second = await admit({ ...prompt(3), avoid: ['b'] })
      // Three shared blocks, and for each request the block that contains its next token.
      expect((await shown('a')).activeBlocks).toBe(5)
      await first.lease.release(outcome())
      expect((await shown('a')).activeBlocks).toBe(4)
      await second.lease.release(outcome())
      expect((await shown('a')).activeBlocks).toBe(0)
    })
  })

  describe(`${name}: temperature`, () => {
    /** The cheapest engine first, as long as the draw is 0. */
    const costs = async (): Promise<number[]> => (await rank(prompt(3))).candidates.map(({ cost }) => cost)
    /** Probability of the cheapest of two engines: exp(-cost / (largest cost * temperature)), normalised. */
    const share = ([cheap, dear]: readonly number[], temperature: number): number =>
      1 / (1 + Math.exp(-(dear! - cheap!) / (dear! * temperature)))

    it('0 chooses the cheapest engine for any random number', async () => {
      await restart({ policy: ACTIVE_BLOCKS })
      await serveOnA(prompt(3))
      for (const value of [0, 0.5, 0.999999]) {
        opened.draw(value)
        expect(await chosen(prompt(3))).toBe('a')
      }
    })

    it.each([0.2, 1, 10])('%d of the pool draws by the softmax of cost over the largest cost', async (temperature) => {
      await restart({ policy: { name: 'active_blocks', options: { temperature } } })
      await serveOnA(prompt(3))
      opened.draw(0)
      const cheapest = share(await costs(), temperature)
      expect(cheapest).toBeGreaterThan(0.5)
      opened.draw(cheapest - 1e-6)
      expect(await chosen(prompt(3))).toBe('a')
      opened.draw(cheapest + 1e-6)
      expect(await chosen(prompt(3))).toBe('b')
    })

    it('temperature of a request replaces the pool’s, higher or lower', async () => {
      await restart({ policy: ACTIVE_BLOCKS })
      await serveOnA(prompt(3))
      opened.draw(0.999999)
      expect(await chosen({ ...prompt(3), overrides: { temperature: 10 } })).toBe('b')
      await restart({ policy: { name: 'active_blocks', options: { temperature: 10 } } })
      await serveOnA(prompt(3))
      opened.draw(0.999999)
      expect(await chosen(prompt(3))).toBe('b')
      expect(await chosen({ ...prompt(3), overrides: { temperature: 0 } })).toBe('a')
    })
  })
}
