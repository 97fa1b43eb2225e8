/** Prompts that an edge has measured and its region does not measure again. One instance serves both ends. */
import type { PromptProfile } from '../../core/tokens/prompt-analyzer.ts'
import type { PromptRequest } from '../../core/tokens/prompt-request.ts'
import type { PoolRoute } from '../../origin/pool-route.ts'
import { headerOf } from '../../origin/headers.ts'
import type { Ports } from '../../ports.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { Caller } from '../auth/caller.ts'
import type { InferenceRequest } from '../inference-request.ts'
import {
  MEASURED_PROMPT_BYTES,
  MEASURED_PROMPT_HEADER,
  type PromptOffer,
  readMeasuredPrompt,
  readPromptOffer,
  writeMeasuredPrompt,
  writePromptOffer,
} from './measured-prompt.ts'
import type { PromptAnalyzers } from './prompt-analyzers.ts'

/** Line of the key, of the host and of the body's length, which are added later. */
const LATER_BYTES = 512

const NONE: readonly string[] = []

interface EdgePromptsOptions {
  readonly analyzers: PromptAnalyzers
  readonly fingerprintOf: (route: PoolRoute) => number | null
  /** Without keys any client would count as an edge, so no prompt is accepted. */
  readonly hasKeys: boolean
  readonly ports: Pick<Ports, 'maxMeasuredPromptBytes'>
}

export class EdgePrompts {
  readonly #options: EdgePromptsOptions
  /** Last offer of each region's pool. */
  readonly #offers = new WeakMap<PoolRoute['pool'], PromptOffer>()

  constructor(options: EdgePromptsOptions) {
    this.#options = options
  }

  /** Headers for the response to an edge: the prompts that it need not leave to this gateway. */
  offer(caller: Caller, route: PoolRoute): readonly string[] {
    const { fingerprintOf, ports } = this.#options
    const maxBytes = ports.maxMeasuredPromptBytes
    if (!this.#isEdge(caller) || route.pool.tokenizer === null || maxBytes === 0) return NONE
    const fingerprint = fingerprintOf(route)
    return fingerprint === null ? NONE : [MEASURED_PROMPT_HEADER, writePromptOffer({ fingerprint, bytes: maxBytes })]
  }

  /** Records the offer in a region's response. A region without one has another version or configuration. */
  recordOffer({ pool }: PoolRoute, headers: readonly string[]): void {
    const offer = pool.tokenizer === null ? null : readPromptOffer(headerOf(headers, MEASURED_PROMPT_HEADER))
    if (offer === null) this.#offers.delete(pool)
    else this.#offers.set(pool, offer)
  }

  /** Headers for a region. Only prompts measured exactly: byte estimates are learned by each gateway. */
  headersFor(
    route: PoolRoute,
    { request, prompt }: { readonly request: PromptRequest; readonly prompt: PromptProfile },
    { binding, headers }: Pick<EngineTarget, 'binding' | 'headers'>,
    others: readonly string[],
  ): readonly string[] {
    const offer = this.#offers.get(route.pool)
    if (offer === undefined || prompt.tokenSource !== 'exact') return NONE
    const fingerprint = this.#options.fingerprintOf(route)
    if (fingerprint === null || fingerprint !== offer.fingerprint) return NONE
    // A binding may lead to a server with the limits of HTTP, so the offer counts for all headers.
    const maxBytes = Math.min(MEASURED_PROMPT_BYTES[binding === null ? 'http' : 'binding'], offer.bytes)
    const room = maxBytes - LATER_BYTES - bytesOf(others) - bytesOf(headers)
    const scope = this.#options.analyzers.scopeOf(route, request)
    const text = writeMeasuredPrompt({ fingerprint, scope, ...prompt }, room)
    return text === null ? NONE : [MEASURED_PROMPT_HEADER, text]
  }

  /** The edge's measurement of this request. null: it has none that can be used. Never fails. */
  measuredByEdge(
    { caller, incoming }: InferenceRequest,
    route: PoolRoute,
    request: PromptRequest,
  ): PromptProfile | null {
    // A lookup needs the ids.
    if (!this.#isEdge(caller) || request.withIds === true) return null
    const text = incoming.request.headers.get(MEASURED_PROMPT_HEADER)
    if (text === null) return null
    const read = this.#read(text, route, request)
    incoming.logFields.edge_prompt = typeof read === 'string' ? read : 'used'
    return typeof read === 'string' ? null : read
  }

  #read(text: string, route: PoolRoute, request: PromptRequest): PromptProfile | 'too_long' | 'malformed' | 'mismatch' {
    const { ports, fingerprintOf, analyzers } = this.#options
    if (text.length > ports.maxMeasuredPromptBytes) return 'too_long'
    const found = readMeasuredPrompt(text, route.pool.blockTokens)
    if (found === null) return 'malformed'
    const { fingerprint, scope, promptTokens, items, blocks } = found
    const own = analyzers.scopeOf(route, request)
    if (fingerprint !== fingerprintOf(route) || scope.lo !== own.lo || scope.hi !== own.hi) return 'mismatch'
    return {
      promptTokens,
      tokenSource: 'exact',
      blocks,
      items,
      stages: {},
      promptBytes: null,
      ids: null,
      inexact: null,
    }
  }

  #isEdge({ edge }: Caller): boolean {
    return edge && this.#options.hasKeys
  }
}

/** With `: ` and the line's end after each name and value. */
const bytesOf = (flat: readonly string[]): number => flat.reduce((sum, text) => sum + text.length + 2, 0)
