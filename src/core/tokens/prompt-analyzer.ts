/** Computes token count and block hashes of a parsed request body. */
import type { TokenSource } from '../contract/admission.ts'
import type { StageTimes } from '../contract/stages.ts'
import { chainBlocks, chainSeed, type ChainState } from './block-hash.ts'
import { BytesPerToken } from './bytes-per-token.ts'
import { chatPieces } from './chat-pieces.ts'
import type { ChatMessage, ChatPrompt } from './chat.ts'
import { IdBuffer } from './id-buffer.ts'
import type { PromptRequest, PromptScope } from './prompt-request.ts'
import type { Prompt } from './prompt.ts'
import { Utf8Buffer } from './utf8-buffer.ts'
import { isLonger } from './utf8-text.ts'
import type { EncodeUtf8 } from './utf8.ts'

/** Renders a conversation as the engine does. Throws if the model's template throws. */
export type ChatTemplate = (chat: ChatPrompt) => string

/** Converts text to the engine's token ids. */
export interface ExactTokenizer {
  /** Appends the ids of `text`, with the model's start and end tokens if `addSpecial`. */
  encode(text: string, addSpecial: boolean, out: IdBuffer): void
}

/** @testing */
export interface PromptAnalyzerOptions {
  /** Base model of the pool. */
  readonly model: string
  readonly blockTokens: number
  readonly encodeUtf8: EncodeUtf8
  /** Clock in milliseconds, for the stage time. */
  readonly now: () => number
  /** null: prompts are measured in bytes. */
  readonly tokenizer: ExactTokenizer | null
  /** null: chats are measured in bytes even if texts are exact. */
  readonly template: ChatTemplate | null
  /**
   * Bytes of a block per token of its size, if prompts are measured in bytes. Default: 4. Never learned: hashes must
   * be equal on every edge and over time, so block boundaries must not move with the traffic.
   */
  readonly chunkBytesPerToken?: number
}

export interface PromptProfile {
  readonly promptTokens: number
  readonly tokenSource: TokenSource
  /** [lo0, hi0, lo1, hi1, …], full blocks only. */
  readonly blocks: Uint32Array
  readonly stages: StageTimes
  /** Multimodal items in the prompt. */
  readonly items: number
  /** Input of `learn`. null: ids were counted, or the prompt is unreadable. */
  readonly promptBytes: number | null
  /**
   * Token ids, if `withIds` is set, they are known and there is one prompt. Of a chat with images those before the
   * first image: engines put their own tokens in its place.
   */
  readonly ids: Uint32Array | null
  /** Why a pool with a vocabulary did not measure the prompt exactly. null: it did, or it has none. */
  readonly inexact: string | null
}

type ReadablePrompt = Exclude<Prompt, { form: 'unreadable' | 'sound' }>

type PromptMeasure = Omit<PromptProfile, 'stages'>

/**
 * Longer prompts (all texts of a batch together) are measured in bytes, so that no request blocks the thread for long.
 */
const MAX_EXACT_CHARS = 4 * 1024 * 1024

const DEFAULT_BYTES_PER_TOKEN = 4

/**
 * Limit of hashed bytes per request (all texts of a batch together), if measured in bytes: some 2 million tokens, more
 * than engines have room for. The rest counts by its length alone. 31 MB would take 65 ms to hash, and half of a usual
 * index.
 */
const MAX_HASHED_BYTES = 8 * 1024 * 1024

/**
 * Speech encoders read windows of 30 seconds with 1500 positions each; the last one is padded. The duration of an
 * upload is unknown without decoding it. The estimate is 16 kB per second: MP3 at 128 kbit/s, or half of plain 16-bit
 * sound at 16 kHz.
 */
const WINDOW_TOKENS = 1500

const WINDOW_BYTES = 480_000

const PLAIN = { adapter: null, salts: [], tenant: null }

/** Measures the prompts of one pool, by its vocabulary and template or its learned ratio. */
export class PromptAnalyzer {
  readonly #options: PromptAnalyzerOptions
  readonly #text: Utf8Buffer
  readonly #ids = new IdBuffer()
  readonly #ratio: BytesPerToken
  readonly #chunkWords: number
  /** Initial state of most chains: base model, no salt, no tenant. */
  readonly #plainSeeds: Readonly<Record<'ids' | 'bytes', ChainState>>

  constructor(options: PromptAnalyzerOptions) {
    const bytesPerToken = options.chunkBytesPerToken ?? DEFAULT_BYTES_PER_TOKEN
    this.#options = options
    this.#text = new Utf8Buffer(options.encodeUtf8)
    this.#ratio = new BytesPerToken(bytesPerToken)
    this.#chunkWords = Math.max(1, Math.round((options.blockTokens * bytesPerToken) / 4))
    this.#plainSeeds = { ids: this.#chainSeed(PLAIN, 'ids'), bytes: this.#chainSeed(PLAIN, 'bytes') }
  }

  /** Learned bytes per token. */
  get bytesPerToken(): number {
    return this.#ratio.value
  }

  /** Learns from the engine's count of a prompt that was measured here. */
  learn(profile: Pick<PromptProfile, 'promptBytes' | 'items'>, promptTokens: number): void {
    // The tokens of an image are unrelated to its bytes.
    if (profile.promptBytes !== null && profile.items === 0) this.#ratio.learn(profile.promptBytes, promptTokens)
  }

  measure(request: PromptRequest): PromptProfile {
    const start = this.#options.now()
    const measured = this.#measure(request.prompt, request)
    return { ...measured, stages: { tokens: Math.max(0, this.#options.now() - start) } }
  }

  /** Initial state of the chain of blocks of token ids: covers model, adapter, salts and tenant. */
  scopeOf(scope: PromptScope): ChainState {
    return this.#seed(scope, 'ids')
  }

  /** Measures by given ids, such as from the engine's `/tokenize`; one list per prompt. */
  measureIds(request: PromptRequest, lists: readonly ArrayLike<number>[], source: 'engine' | 'ids'): PromptMeasure {
    this.#ids.clear()
    const spans = lists.flatMap((list) => {
      const from = this.#ids.length
      this.#ids.append(list)
      return [from, this.#ids.length]
    })
    return this.#byIds(request, spans, source)
  }

  #measure(prompt: Prompt, request: PromptRequest): PromptMeasure {
    if (prompt.form === 'unreadable' || prompt.form === 'sound') return this.#bySize(request)
    if (prompt.form === 'ids') return this.measureIds(request, prompt.lists, 'ids')
    const { tokenizer } = this.#options
    if (tokenizer === null) return this.#byBytes(request, prompt, null)
    try {
      return this.#exactly(request, prompt, tokenizer)
    } catch (error) {
      // A template may reject a conversation. The engine will report that; here only precision is lost.
      return this.#byBytes(request, prompt, error instanceof Error ? error.message : 'the template failed')
    }
  }

  #exactly(
    request: PromptRequest,
    prompt: Exclude<ReadablePrompt, { form: 'ids' }>,
    tokenizer: ExactTokenizer,
  ): PromptMeasure {
    // Checked first, because rendering a template takes as long as reading the prompt.
    if (request.bodyBytes > MAX_EXACT_CHARS)
      refuseLonger(prompt.form === 'texts' ? prompt.texts : [prompt.messages.map(printedFields), prompt.tools])
    const texts = prompt.form === 'texts' ? prompt.texts.map(String) : [this.#render(prompt)]
    refuseLonger(texts)
    this.#ids.clear()
    const spans: number[] = []
    for (const text of texts) {
      spans.push(this.#ids.length)
      tokenizer.encode(text, prompt.addSpecial, this.#ids)
      spans.push(this.#ids.length)
    }
    const measured = this.#byIds(request, spans, 'exact')
    if (prompt.form !== 'chat' || prompt.items === 0) return measured
    const ids = request.withIds === true ? this.#leadingIds(texts[0]!, prompt, tokenizer) : null
    return { ...measured, items: prompt.items, ids }
  }

  /** Token ids of the text before the first image. null: there is none. */
  #leadingIds(text: string, { firstItem = '', addSpecial }: ChatPrompt, tokenizer: ExactTokenizer): Uint32Array | null {
    const end = firstItem === '' ? 0 : text.indexOf(firstItem)
    if (end <= 0) return null
    this.#ids.clear()
    tokenizer.encode(text.slice(0, end), addSpecial, this.#ids)
    return this.#ids.ids.slice(0, this.#ids.length)
  }

  #render(chat: ChatPrompt): string {
    if (this.#options.template === null) throw new Error('the vocabulary has no chat template')
    if (chat.ownTemplate) throw new Error('the request brings its own chat template')
    return this.#options.template(chat)
  }

  #byIds(request: PromptRequest, spans: readonly number[], tokenSource: TokenSource): PromptMeasure {
    const state = this.#seed(request, 'ids')
    return {
      promptTokens: this.#ids.length,
      tokenSource,
      blocks: chainBlocks(state, this.#ids.ids, spans, this.#options.blockTokens),
      items: 0,
      promptBytes: null,
      ids: request.withIds === true && spans.length === 2 ? this.#ids.ids.slice(0, this.#ids.length) : null,
      inexact: null,
    }
  }

  #byBytes(
    request: PromptRequest,
    prompt: Exclude<ReadablePrompt, { form: 'ids' }>,
    inexact: string | null,
  ): PromptMeasure {
    const prompts = prompt.form === 'texts' ? prompt.texts.map((text) => [text]) : [chatPieces(prompt)]
    const text = this.#text
    text.clear()
    const spans: number[] = []
    let promptBytes = 0
    for (const pieces of prompts) {
      const from = text.length
      let unhashedBytes = 0
      for (const piece of pieces) unhashedBytes += text.addUpTo(piece, MAX_HASHED_BYTES)
      promptBytes += text.length - from + unhashedBytes
      spans.push(from >>> 2, text.length >>> 2)
      text.align()
    }
    return {
      promptTokens: this.#estimate(promptBytes),
      tokenSource: 'bytes',
      blocks: chainBlocks(this.#seed(request, 'bytes'), text.words, spans, this.#chunkWords),
      items: prompt.form === 'chat' ? prompt.items : 0,
      promptBytes,
      ids: null,
      inexact,
    }
  }

  #bySize(request: PromptRequest): PromptMeasure {
    const isAudio = request.prompt.form === 'sound'
    const promptTokens = isAudio
      ? WINDOW_TOKENS * Math.ceil(request.bodyBytes / WINDOW_BYTES)
      : this.#estimate(request.bodyBytes)
    const inexact = isAudio || this.#options.tokenizer === null ? null : 'the prompt could not be read'
    return {
      promptTokens,
      tokenSource: 'bytes',
      blocks: new Uint32Array(0),
      items: 0,
      promptBytes: null,
      ids: null,
      inexact,
    }
  }

  #estimate(bytes: number): number {
    return Math.ceil(bytes / this.#ratio.value)
  }

  #seed(scope: PromptScope, unit: 'ids' | 'bytes'): ChainState {
    const { adapter, salts, tenant } = scope
    if (adapter !== null || salts.length > 0 || tenant !== null) return this.#chainSeed(scope, unit)
    const { lo, hi } = this.#plainSeeds[unit]
    return { lo, hi }
  }

  #chainSeed({ adapter, salts, tenant }: PromptScope, unit: 'ids' | 'bytes'): ChainState {
    return chainSeed({
      model: this.#options.model,
      adapter,
      salts,
      tenant,
      unit,
      blockTokens: this.#options.blockTokens,
    })
  }
}

/** Reasoning has two names, for two kinds of templates; none prints it twice. */
const printedFields = ({ parts, extra }: ChatMessage) => [parts, { ...extra, reasoning_content: null }]

function refuseLonger(texts: unknown): void {
  if (isLonger(texts, MAX_EXACT_CHARS)) throw new Error(`the prompt has more than ${MAX_EXACT_CHARS} characters`)
}
