import { expect, it } from 'vitest'
import { lmcacheDocument } from '../../contracts/lmcache.ts'
import { parseConfig } from '../../../src/config/parse.ts'
import type { PromptProfile } from '../../../src/core/tokens/prompt-analyzer.ts'
import { CacheLookups, type LookupInput } from '../../../src/origin/lmcache/cache-lookups.ts'
import { measureByEngine } from '../../../src/origin/engine-tokenizer.ts'
import type { PoolRoute } from '../../../src/origin/pool-route.ts'
import type { Origin } from '../../../src/ports/origin.ts'
import { analyzerOf, requestOf } from '../../core/tokens/support.ts'

const request = { ...requestOf('completions', { prompt: 'a prompt in words' }), withIds: true }

/** A pool of one engine whose `/tokenize` fails as `tokenize` does. */
function open(tokenize: () => Promise<never>, changes: Partial<PromptProfile> = {}) {
  const document = lmcacheDocument({ policy: 'kv_aware', lmcache: { coordinator: 'http://beside', budget_ms: 10 } }, [
    { id: 'engine-0', url: 'http://engine' },
  ])
  const { clusters } = parseConfig(document, {}, { defaultVersion: 1, defaultObserveShare: 1, listens: true })
  const target = { kind: 'server' as const, id: 'engine-0', url: 'http://engine', headers: [], binding: null }
  const [cluster] = clusters
  const route: PoolRoute = { cluster: cluster!, pool: cluster!.pools[0]!, targets: new Map([['engine-0', target]]) }
  const origin: Origin = { send: tokenize }
  const quiet = (): void => undefined
  const log = { debug: quiet, info: quiet, warn: quiet, error: quiet }
  const lookups = new CacheLookups({ origin, log, now: () => 0 })
  const analyzer = analyzerOf()
  const own = { ...analyzer.measure(request), ...changes }
  const input: LookupInput = {
    profile: own,
    model: 'sim',
    adapter: null,
    salt: null,
    byEngine: (tokenizer, call) => measureByEngine({ analyzer, request, own }, tokenizer, call),
    background: () => {},
  }
  return {
    skipped: () => lookups.counts(route)?.skipped,
    failed: () => lookups.counts(route)?.failed,
    gather: () => lookups.gather(route, input),
  }
}

it('the counter of lookups counts each lookup that token ids are missing for, and why', async () => {
  const { gather, skipped } = open(() => Promise.reject(new Error('reset')))
  for (let at = 0; at < 7; at += 1) expect((await gather()).known).toEqual({ hints: null })
  expect(skipped()).toEqual({ tokenize_failed: 5, tokenize_paused: 2 })
})

it('the counter of lookups counts a lookup whose budget ran out in /tokenize as late', async () => {
  const { gather, skipped } = open(() => new Promise(() => {}))
  await gather()
  expect(skipped()).toEqual({ tokenize_late: 1 })
})

it.each<[string, Uint32Array | null, object]>([
  ['are looked up by the text before the first one', new Uint32Array(600), {}],
  ['are not looked up without token ids of that text', null, { unsupported: 1 }],
])('images in a prompt %s', async (_, ids, skips) => {
  const measured = { items: 1, tokenSource: 'exact', ids } as const
  const { gather, skipped, failed } = open(() => Promise.reject(new Error('away')), measured)
  await gather()
  expect(skipped()).toEqual(skips)
  // The service is away.
  expect(failed()).toBe(ids === null ? 0 : 1)
})
