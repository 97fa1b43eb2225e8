import { describe, expect, it } from 'vitest'
import { PromptAnalyzers, type PoolVocabulary } from '../../../src/api/prompt/prompt-analyzers.ts'
import { parseConfig } from '../../../src/config/parse.ts'
import type { PromptRequest } from '../../../src/core/tokens/prompt-request.ts'
import type { PoolRoute } from '../../../src/origin/pool-route.ts'

/** Route of a configuration that was parsed again. */
function routeOf(more: object = {}, cluster = 'c'): PoolRoute {
  const config = parseConfig(
    { clusters: [{ id: cluster, pools: [{ model: 'm', engines: [{ id: 'a', url: 'http://a' }], ...more }] }] },
    {},
    { defaultVersion: 1, defaultObserveShare: 1, listens: true },
  )
  return { cluster: config.clusters[0]!, pool: config.clusters[0]!.pools[0]!, targets: new Map() }
}

const prompt = 'one and two and three and four. '.repeat(200)
const request: PromptRequest = {
  prompt: { form: 'texts', texts: [prompt], addSpecial: true },
  bodyBytes: prompt.length,
  adapter: null,
  salts: [],
  tenant: null,
}
const bytes = () => null
const tokensBy = (analyzers: PromptAnalyzers, route: PoolRoute): number =>
  analyzers.measure(route, request).promptTokens

/** A measurer that has learned one token for every eight bytes. */
function taught(route: PoolRoute): PromptAnalyzers {
  const analyzers = new PromptAnalyzers(() => 0, bytes)
  for (let at = 0; at < 50; at += 1)
    analyzers.learn(route, analyzers.measure(route, request), Math.round(prompt.length / 8))
  return analyzers
}

describe('the learned bytes per token of a pool', () => {
  const fresh = tokensBy(new PromptAnalyzers(() => 0, bytes), routeOf())
  const learned = tokensBy(taught(routeOf()), routeOf())

  it('the learned bytes per token of a pool outlives the configuration it learned it under', () => {
    expect(learned).toBeLessThan(fresh * 0.7)
    expect(tokensBy(new PromptAnalyzers(() => 0, bytes, taught(routeOf())), routeOf())).toBe(learned)
  })

  it('belong to that pool, and are discarded if its blocks or token counts change', () => {
    const before = taught(routeOf())
    expect(tokensBy(new PromptAnalyzers(() => 0, bytes, before), routeOf({}, 'other'))).toBe(fresh)
    expect(tokensBy(new PromptAnalyzers(() => 0, bytes, before), routeOf({ block_tokens: 32 }))).toBe(fresh)
    const vocabulary = { tokenizer: null, template: null } as unknown as PoolVocabulary
    expect(
      tokensBy(
        new PromptAnalyzers(
          () => 0,
          () => vocabulary,
          before,
        ),
        routeOf(),
      ),
    ).toBe(fresh)
  })
})
