/** Token ids from an engine, by the calls of its type, for pools without a vocabulary: exact, but a round trip. */
import { chainText } from '../core/tokens/block-hash.ts'
import type { PromptProfile, PromptAnalyzer } from '../core/tokens/prompt-analyzer.ts'
import type { PromptRequest } from '../core/tokens/prompt-request.ts'
import type { Prompt } from '../core/tokens/prompt.ts'
import { SegmentCache } from '../core/tokens/segment-cache.ts'
import type { EngineType, TokenizeCall } from '../engines/engine-type.ts'
import type { EngineTarget } from '../ports/engine-target.ts'
import type { Origin } from '../ports/origin.ts'
import { ServiceCircuit } from './service-circuit.ts'
import { jsonOf } from './probes/engine-detection.ts'
import { knownEngines } from './known-engines.ts'
import { ownRequest } from './own-request.ts'

export interface TokenizeOptions {
  readonly target: EngineTarget
  /** Name under which the engine serves the model. */
  readonly model: string
  /** Deadline of this call and the cache lookup that follows. */
  readonly signal: AbortSignal
  readonly budgetMs: number
}

interface EngineTokenizerOptions {
  readonly origin: Origin
  readonly now: () => number
  /** Limit of the cache of ids, bytes. Default: 8 MB. */
  readonly cacheBytes?: number
}

const CACHE_BYTES = 8 * 1024 * 1024
const ANSWER_BYTES = 16 * 1024 * 1024
/** Pause, ms, of an engine without the endpoint. */
const MISSING_PAUSE_MS = 600_000
/** Time, ms, after which other requests do not join a call. On Workers a call ends with the request that started it. */
const LOST_AFTER_MS = 1_000

/**
 * Fetches token ids from engines and caches them per text and per conversation (an engine applies its template to a
 * whole conversation, so a single message has no ids). Equal concurrent calls are joined.
 */
export class EngineTokenizer {
  readonly #options: EngineTokenizerOptions
  readonly #cache: SegmentCache
  readonly #pending = new Map<number, { readonly answer: Promise<Uint32Array | null>; readonly since: number }>()
  readonly #circuits = new Map<string, ServiceCircuit>()
  /** Engine without the endpoint → end of its pause. */
  readonly #missingUntil = new Map<string, number>()

  constructor(options: EngineTokenizerOptions) {
    this.#options = options
    this.#cache = new SegmentCache(options.cacheBytes ?? CACHE_BYTES)
  }

  /** Ids of each prompt. null: not available within the deadline. Never rejects. */
  async ids(prompt: Prompt, call: TokenizeOptions): Promise<readonly Uint32Array[] | null> {
    const calls = this.#rulesOf(call.target)?.calls(prompt, call.model) ?? null
    if (calls === null) return null
    const lists = await Promise.all(calls.map((one) => this.#one(one, call)))
    return lists.includes(null) ? null : (lists as Uint32Array[])
  }

  /** false: its last calls failed or were late, several in a row, or it has no such endpoint. */
  mayAsk(target: EngineTarget): boolean {
    if (this.#rulesOf(target) === null) return false
    const now = this.#options.now()
    return (this.#missingUntil.get(target.id) ?? 0) <= now && !this.#circuit(target).isOpen(now)
  }

  #rulesOf(target: EngineTarget): EngineType['tokenize'] {
    return knownEngines(this.#options.origin).typeOf(target).tokenize
  }

  async #one(one: TokenizeCall, call: TokenizeOptions): Promise<Uint32Array | null> {
    const key = keyOf(one, call.model)
    const known = this.#cache.get(key)
    if (known !== undefined) return known
    if (!this.mayAsk(call.target)) return null
    const pending = this.#pending.get(key)
    const isLost = pending === undefined || this.#options.now() - pending.since > LOST_AFTER_MS
    return await (isLost ? this.#request(one, key, call) : pending.answer)
  }

  #request(one: TokenizeCall, key: number, call: TokenizeOptions): Promise<Uint32Array | null> {
    const answer = this.#fetch(one, call).then((ids) => {
      this.#pending.delete(key)
      if (ids !== null) this.#cache.set(key, ids)
      return ids
    })
    this.#pending.set(key, { answer, since: this.#options.now() })
    return answer
  }

  async #fetch(
    { path, body }: TokenizeCall,
    { target, signal, budgetMs }: TokenizeOptions,
  ): Promise<Uint32Array | null> {
    try {
      const answer = await this.#options.origin.send(
        ownRequest(target, path, { json: body, limitMs: budgetMs, signal }),
      )
      if (answer.status !== 200) {
        answer.discard()
        this.#recordRejection(target, answer.status)
        return null
      }
      const json = jsonOf(new TextDecoder().decode(await answer.read(ANSWER_BYTES)))
      const ids = this.#rulesOf(target)?.ids(json) ?? null
      this.#circuit(target).succeeded()
      return ids
    } catch {
      this.#circuit(target).failed(this.#options.now())
      return null
    }
  }

  #recordRejection(target: EngineTarget, status: number): void {
    const now = this.#options.now()
    if ([404, 405, 501].includes(status)) this.#missingUntil.set(target.id, now + MISSING_PAUSE_MS)
    // 400: the engine rejects this prompt; others may succeed.
    else if (status !== 400) this.#circuit(target).failed(now)
  }

  #circuit({ id }: EngineTarget): ServiceCircuit {
    const known = this.#circuits.get(id) ?? new ServiceCircuit()
    this.#circuits.set(id, known)
    return known
  }
}

export interface EngineMeasurement {
  readonly analyzer: PromptAnalyzer
  readonly request: PromptRequest
  /** The gateway's own measure. */
  readonly own: PromptProfile
}

/**
 * Measures by an engine's ids if they arrive within the deadline; else returns the gateway's own measure. Never
 * rejects.
 */
export async function measureByEngine(
  { analyzer, request, own }: EngineMeasurement,
  tokenizer: EngineTokenizer,
  call: TokenizeOptions,
): Promise<PromptProfile> {
  if (own.tokenSource !== 'bytes' || own.items > 0) return own
  const lists = await tokenizer.ids(request.prompt, call)
  return lists === null ? own : { ...analyzer.measureIds(request, lists, 'engine'), stages: own.stages }
}

/** Calls of some types do not name the model. */
function keyOf({ path, body }: TokenizeCall, model: string): number {
  const state = { lo: 0x7a3d19c5, hi: 0x1b56c4e9 }
  chainText(state, path)
  chainText(state, model)
  chainText(state, body)
  return (state.hi & 0x1fffff) * 2 ** 32 + state.lo
}
