import type { PoolSettings } from '../../config.ts'
import type { ChainState } from '../../core/tokens/block-hash.ts'
import {
  PromptAnalyzer,
  type ChatTemplate,
  type ExactTokenizer,
  type PromptProfile,
} from '../../core/tokens/prompt-analyzer.ts'
import type { PromptRequest, PromptScope } from '../../core/tokens/prompt-request.ts'
import type { PoolRoute } from '../../origin/pool-route.ts'
import {
  measureByEngine,
  type EngineTokenizer,
  type EngineMeasurement,
  type TokenizeOptions,
} from '../../origin/engine-tokenizer.ts'

/** A model's vocabulary and chat template, loaded by the entry point. @testing */
export interface PoolVocabulary {
  readonly tokenizer: ExactTokenizer
  readonly template: ChatTemplate | null
}

/** Returns the vocabulary of a pool. null: measure in bytes. */
export type VocabularyOf = (pool: PoolSettings) => PoolVocabulary | null

const utf8 = new TextEncoder()

/** One analyzer per pool, because vocabularies, block sizes and learned ratios belong to pools. */
export class PromptAnalyzers {
  readonly #analyzers = new Map<PoolSettings, PromptAnalyzer>()
  /** Keyed by cluster and model, so that learned ratios outlive a configuration. */
  readonly #named: Map<string, NamedAnalyzer>
  readonly #now: () => number
  readonly #vocabularyOf: VocabularyOf

  /** @param before analyzers of the gateway that this one replaces */
  constructor(now: () => number, vocabularyOf: VocabularyOf, before: PromptAnalyzers | null = null) {
    this.#now = now
    this.#vocabularyOf = vocabularyOf
    this.#named = before === null ? new Map() : before.#named
  }

  measure(route: PoolRoute, request: PromptRequest): PromptProfile {
    return this.#analyzerOf(route).measure(request)
  }

  /** As `PromptAnalyzer.scopeOf`. */
  scopeOf(route: PoolRoute, scope: PromptScope): ChainState {
    return this.#analyzerOf(route).scopeOf(scope)
  }

  /** Measures by an engine's token ids if they arrive within the call's budget, else returns `own`. Never rejects. */
  measureByEngine(
    route: PoolRoute,
    { request, own }: Omit<EngineMeasurement, 'analyzer'>,
    tokenizer: EngineTokenizer,
    call: TokenizeOptions,
  ): Promise<PromptProfile> {
    return measureByEngine({ analyzer: this.#analyzerOf(route), request, own }, tokenizer, call)
  }

  /** Learns the ratio of bytes to tokens from the engine's count. */
  learn(route: PoolRoute, profile: PromptProfile, promptTokens: number): void {
    this.#analyzerOf(route).learn(profile, promptTokens)
  }

  #analyzerOf({ cluster, pool }: PoolRoute): PromptAnalyzer {
    const known = this.#analyzers.get(pool)
    if (known !== undefined) return known
    const name = JSON.stringify([cluster.id, pool.model])
    const vocabulary = this.#vocabularyOf(pool)
    const named = this.#named.get(name)
    const analyzer =
      named?.blockTokens === pool.blockTokens && named.vocabulary === vocabulary
        ? named.analyzer
        : this.#createAnalyzer(pool, vocabulary)
    this.#named.set(name, { blockTokens: pool.blockTokens, vocabulary, analyzer })
    this.#analyzers.set(pool, analyzer)
    return analyzer
  }

  #createAnalyzer(pool: PoolSettings, vocabulary: PoolVocabulary | null): PromptAnalyzer {
    return new PromptAnalyzer({
      model: pool.model,
      blockTokens: pool.blockTokens,
      encodeUtf8: (text, into) => utf8.encodeInto(text, into).written,
      now: this.#now,
      tokenizer: vocabulary?.tokenizer ?? null,
      template: vocabulary?.template ?? null,
    })
  }
}

interface NamedAnalyzer {
  readonly blockTokens: number
  readonly vocabulary: PoolVocabulary | null
  readonly analyzer: PromptAnalyzer
}
