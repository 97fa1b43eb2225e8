/** Prompts that an edge has measured and its region does not measure again. One instance serves both ends. */
import type { PromptProfile, PromptRequest } from '../core/tokens/prompt-analyzer.ts'
import type { PoolRoute } from '../origin/exchange.ts'
import { headerOf } from '../origin/headers.ts'
import type { EngineTarget, Ports } from '../ports.ts'
import type { Caller } from './auth.ts'
import type { InferenceRequest } from './inference-exchange.ts'
import type { PromptMeasurers } from './prompt-measurers.ts'
import { lanesFromBase64, lanesToBase64 } from '../bytes.ts'

/** All headers of a request over HTTP: proxies and servers accept as few as 8 KiB. */
const HTTP_BYTES = 8 * 1024
/** The same through a binding, which parses no text. Longer prompts are measured twice. */
const BINDING_BYTES = 48 * 1024
/** Line of the key, of the host and of the body's length, which are added later. */
const LATER_BYTES = 512
const NONE: readonly string[] = []

export interface EdgePromptsOptions {
  readonly measurers: PromptMeasurers
  readonly fingerprintOf: (route: PoolRoute) => number | null
  /** Without keys any client would count as an edge, so no prompt is accepted. */
  readonly hasKeys: boolean
  readonly ports: Pick<Ports, 'measuredPromptBytes'>
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
    const maxBytes = ports.measuredPromptBytes ?? 0
    if (!this.#isEdge(caller) || route.pool.tokenizer === null || maxBytes === 0) return NONE
    const cut = fingerprintOf(route)
    return cut === null ? NONE : [MEASURED_PROMPT_HEADER, writePromptOffer({ cut, bytes: maxBytes })]
  }

  /** Records the offer in a region's response. A region without one has another version or configuration. */
  answered({ pool }: PoolRoute, headers: readonly string[]): void {
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
    const cut = this.#options.fingerprintOf(route)
    if (cut === null || cut !== offer.cut) return NONE
    // A binding may lead to a server with the limits of HTTP, so the offer counts for all headers.
    const most = Math.min(binding === null ? HTTP_BYTES : BINDING_BYTES, offer.bytes)
    const room = most - LATER_BYTES - bytesOf(others) - bytesOf(headers)
    const scope = this.#options.measurers.scopeOf(route, request)
    const text = writeMeasuredPrompt({ cut, scope, ...prompt }, room)
    return text === null ? NONE : [MEASURED_PROMPT_HEADER, text]
  }

  /** The edge's measurement of this request. null: it has none that can be used. Never fails. */
  received({ caller, incoming }: InferenceRequest, route: PoolRoute, request: PromptRequest): PromptProfile | null {
    // A lookup needs the ids.
    if (!this.#isEdge(caller) || request.withIds === true) return null
    const text = incoming.request.headers.get(MEASURED_PROMPT_HEADER)
    if (text === null) return null
    const read = this.#read(text, route, request)
    incoming.logFields['edge_prompt'] = typeof read === 'string' ? read : 'used'
    return typeof read === 'string' ? null : read
  }

  #read(text: string, route: PoolRoute, request: PromptRequest): PromptProfile | 'too_long' | 'malformed' | 'mismatch' {
    const { ports, fingerprintOf, measurers } = this.#options
    if (text.length > (ports.measuredPromptBytes ?? 0)) return 'too_long'
    const found = readMeasuredPrompt(text, route.pool.blockTokens)
    if (found === null) return 'malformed'
    const { cut, scope, promptTokens, items, blocks } = found
    const own = measurers.scopeOf(route, request)
    if (cut !== fingerprintOf(route) || scope.lo !== own.lo || scope.hi !== own.hi) return 'mismatch'
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

/*
 * A prompt that an edge has measured, as a header for a region that divides prompts into blocks alike: the region then
 * does not render, tokenize and hash it again.
 */

/** Of a request: the measured prompt. Of a response: which ones the region accepts. */
export const MEASURED_PROMPT_HEADER = 'x-firstlight-prompt'

/** Raise it if a prompt is measured by other rules: the fingerprint covers a fixed text only. */
const VERSION = 1

interface MeasuredPrompt {
  /** Fingerprint of the block division. */
  readonly cut: number
  /** Initial state of the chain of blocks: covers model, adapter and salts. */
  readonly scope: { readonly lo: number; readonly hi: number }
  readonly promptTokens: number
  /** Multimodal items. */
  readonly items: number
  /** As in `PromptProfile`. */
  readonly blocks: Uint32Array
}

/** What a region accepts. */
interface PromptOffer {
  readonly cut: number
  /** Longest header. */
  readonly bytes: number
}

/** null: longer than `maxBytes`. */
export function writeMeasuredPrompt(prompt: MeasuredPrompt, maxBytes: number): string | null {
  const { cut, scope, promptTokens, items, blocks } = prompt
  const head = [VERSION, cut, scope.lo, scope.hi, promptTokens, items].join('.')
  if (head.length + 1 + Math.ceil(blocks.byteLength / 3) * 4 > maxBytes) return null
  return `${head}.${lanesToBase64(blocks)}`
}

const NUMBER = '(0|[1-9]\\d{0,9})'
const FORM = new RegExp(
  `^${VERSION}\\.${NUMBER}\\.${NUMBER}\\.${NUMBER}\\.${NUMBER}\\.${NUMBER}\\.([A-Za-z0-9+/]*={0,2})$`,
)
/** Far more than any context, and sums of many of them are exact. */
const MOST_TOKENS = 2 ** 30
const LANE_LIMIT = 2 ** 32

/** null: malformed, or of another version. Never throws. */
export function readMeasuredPrompt(text: string, blockTokens: number): MeasuredPrompt | null {
  const found = FORM.exec(text)
  if (found === null) return null
  const [cut, lo, hi, promptTokens, items] = found.slice(1, 6).map(Number) as [number, number, number, number, number]
  if (cut >= LANE_LIMIT || lo >= LANE_LIMIT || hi >= LANE_LIMIT) return null
  if (promptTokens > MOST_TOKENS || items > promptTokens) return null
  const blocks = blocksOf(found[6]!)
  if (blocks === null || (blocks.length / 2) * blockTokens > promptTokens) return null
  return { cut, scope: { lo, hi }, promptTokens, items, blocks }
}

function blocksOf(base64: string): Uint32Array | null {
  try {
    const lanes = lanesFromBase64(base64)
    // Tables use an all-zero entry for "empty". Base64 of other lengths has bytes that are no block.
    for (let at = 0; at < lanes.length; at += 2) if (lanes[at] === 0 && lanes[at + 1] === 0) return null
    return Math.ceil(lanes.byteLength / 3) * 4 === base64.length ? lanes : null
  } catch {
    return null
  }
}

export const writePromptOffer = ({ cut, bytes }: PromptOffer): string => `${VERSION}.${cut}.${bytes}`

const OFFER = new RegExp(`^${VERSION}\\.${NUMBER}\\.${NUMBER}$`)

/** null: none, malformed, or of another version. */
export function readPromptOffer(text: string | null): PromptOffer | null {
  const found = text === null ? null : OFFER.exec(text)
  return found === null ? null : { cut: Number(found[1]), bytes: Number(found[2]) }
}
