import type { PoolSettings } from '../config.ts'
import { inCrumbs } from '../core/tokens/crumbs.ts'
import { PromptMeter, type ChatTemplate, type ExactTokenizer, type PromptMeasure, type PromptRequest } from '../core/tokens/measure.ts'
import type { PoolRoute } from '../origin/exchange.ts'
import { measureByEngine, type EngineTokenizer, type Measured, type TokenizeCall } from '../origin/tokenize.ts'

/** A model's own vocabulary and chat template, loaded by the entry. */
export interface Vocabulary {
  readonly tokenizer: ExactTokenizer
  readonly template: ChatTemplate | null
}

/** The vocabulary a pool names; null: measure in bytes. */
export type VocabularyOf = (pool: PoolSettings) => Vocabulary | null

const utf8 = new TextEncoder()

/** A prompt in crumbs counts by the size of its body alone. */
const readable = (request: PromptRequest): PromptRequest => (inCrumbs(request) ? { ...request, endpoint: 'other' } : request)

/** One meter a pool: vocabularies, block sizes and learned ratios belong to pools. */
export class Meters {
  readonly #meters = new Map<PoolSettings, PromptMeter>()
  readonly #now: () => number
  readonly #vocabularyOf: VocabularyOf

  constructor(now: () => number, vocabularyOf: VocabularyOf) {
    this.#now = now
    this.#vocabularyOf = vocabularyOf
  }

  measure({ pool }: PoolRoute, request: PromptRequest): PromptMeasure {
    return this.#meter(pool).measure(readable(request))
  }

  /** `own`, or a measure by an engine's own ids where they can be had within the call's budget. Never rejects. */
  measureByEngine({ pool }: PoolRoute, { request, own }: Omit<Measured, 'meter'>, tokenizer: EngineTokenizer, call: TokenizeCall): Promise<PromptMeasure> {
    return measureByEngine({ meter: this.#meter(pool), request: readable(request), own }, tokenizer, call)
  }

  /** Takes in what the engine counted, for the ratio of bytes to tokens. */
  learn({ pool }: PoolRoute, measure: PromptMeasure, promptTokens: number): void {
    this.#meter(pool).learn(measure, promptTokens)
  }

  #meter(pool: PoolSettings): PromptMeter {
    const known = this.#meters.get(pool)
    if (known !== undefined) return known
    const vocabulary = this.#vocabularyOf(pool)
    const meter = new PromptMeter({
      model: pool.model,
      blockTokens: pool.blockTokens,
      encodeUtf8: (text, into) => utf8.encodeInto(text, into).written,
      now: this.#now,
      tokenizer: vocabulary?.tokenizer ?? null,
      template: vocabulary?.template ?? null,
    })
    this.#meters.set(pool, meter)
    return meter
  }
}
