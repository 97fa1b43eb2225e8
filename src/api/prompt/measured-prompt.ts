/**
 * A prompt that an edge has measured, as a header for a region that divides prompts into blocks alike: the region then
 * does not render, tokenize and hash it again.
 */
import { lanesFromBase64, lanesToBase64 } from '../../block-lanes.ts'

/** Of a request: the measured prompt. Of a response: which ones the region accepts. */
export const MEASURED_PROMPT_HEADER = 'x-firstlight-prompt'

/**
 * Longest headers with a measured prompt, bytes: an edge keeps all headers of its request within this limit, and a
 * region accepts a prompt up to that of its runtime. Longer prompts are measured twice.
 */
export const MEASURED_PROMPT_BYTES = {
  /** Proxies and servers accept as few as 8 KiB, that of Node 16 KiB. */
  http: 8 * 1024,
  /** A binding of a Worker parses no text. Over HTTP, Cloudflare accepts 128 KiB. */
  binding: 48 * 1024,
} as const

/** Raise it if a prompt is measured by other rules: the fingerprint covers a fixed text only. */
const VERSION = 1

interface MeasuredPrompt {
  /** Fingerprint of the block division. */
  readonly fingerprint: number
  /** Initial state of the chain of blocks: covers model, adapter and salts. */
  readonly scope: { readonly lo: number; readonly hi: number }
  readonly promptTokens: number
  /** Multimodal items. */
  readonly items: number
  /** As in `PromptProfile`. */
  readonly blocks: Uint32Array
}

/** What a region accepts. */
export interface PromptOffer {
  readonly fingerprint: number
  /** Longest header. */
  readonly bytes: number
}

/** null: longer than `maxBytes`. */
export function writeMeasuredPrompt(prompt: MeasuredPrompt, maxBytes: number): string | null {
  const { fingerprint, scope, promptTokens, items, blocks } = prompt
  const head = [VERSION, fingerprint, scope.lo, scope.hi, promptTokens, items].join('.')
  if (head.length + 1 + Math.ceil(blocks.byteLength / 3) * 4 > maxBytes) return null
  return `${head}.${lanesToBase64(blocks)}`
}

const NUMBER = '(0|[1-9]\\d{0,9})'

const FORM = new RegExp(
  `^${VERSION}\\.${NUMBER}\\.${NUMBER}\\.${NUMBER}\\.${NUMBER}\\.${NUMBER}\\.([A-Za-z0-9+/]*={0,2})$`,
)

/** Far more than any context, and sums of many of them are exact. */
const MAX_TOKENS = 2 ** 30

const LANE_LIMIT = 2 ** 32

/** null: malformed, or of another version. Never throws. */
export function readMeasuredPrompt(text: string, blockTokens: number): MeasuredPrompt | null {
  const found = FORM.exec(text)
  if (found === null) return null
  const [fingerprint, lo, hi, promptTokens, items] = found.slice(1, 6).map(Number) as [
    number,
    number,
    number,
    number,
    number,
  ]
  if (fingerprint >= LANE_LIMIT || lo >= LANE_LIMIT || hi >= LANE_LIMIT) return null
  if (promptTokens > MAX_TOKENS || items > promptTokens) return null
  const blocks = blocksOf(found[6]!)
  if (blocks === null || (blocks.length / 2) * blockTokens > promptTokens) return null
  return { fingerprint, scope: { lo, hi }, promptTokens, items, blocks }
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

export const writePromptOffer = ({ fingerprint, bytes }: PromptOffer): string => `${VERSION}.${fingerprint}.${bytes}`

const OFFER = new RegExp(`^${VERSION}\\.${NUMBER}\\.${NUMBER}$`)

/** null: none, malformed, or of another version. */
export function readPromptOffer(text: string | null): PromptOffer | null {
  const found = text === null ? null : OFFER.exec(text)
  return found === null ? null : { fingerprint: Number(found[1]), bytes: Number(found[2]) }
}
