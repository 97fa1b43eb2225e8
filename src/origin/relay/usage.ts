/** Reads the engine's token counts from passing bytes; decodes nothing before the end. */
import type { Usage } from '../../core/contract/outcome.ts'
import { concatBytes } from '../../bytes.ts'

const QUOTE = 34
const BACKSLASH = 92
const OPEN = 123
const CLOSE = 125
const COLON = 58
/** `"usage"` */
const KEY = Uint8Array.of(QUOTE, 117, 115, 97, 103, 101, QUOTE)
/** Shift of the key when this byte is below its last one (Horspool). */
const SKIP = new Uint8Array(256).fill(KEY.length)
for (let i = 0; i < KEY.length - 1; i++) SKIP[KEY[i]!] = KEY.length - 1 - i
/** Limit of a usage object, bytes. */
const LIMIT_BYTES = 8192

/**
 * Finds `"usage": {…}` however the bytes are divided. Quotes in JSON strings are escaped, so the key's bytes occur
 * only at the start and end of a string; text about usage does not match.
 */
export class UsageScanner {
  /** Usage objects so far. */
  found = 0
  #matched = 0
  #afterColon = false
  #depth = 0
  #quoted = false
  #escaped = false
  #pieces: Uint8Array[] = []
  #size = 0
  #first: Uint8Array | null = null
  #last: Uint8Array | null = null

  /** No partial match. */
  get idle(): boolean {
    return this.#depth === 0 && this.#matched === 0
  }

  scan(chunk: Uint8Array, from: number, to: number): void {
    let at = from
    while (at < to) {
      if (this.#depth > 0) at = this.#capture(chunk, at, to)
      else if (this.#matched === KEY.length) at = this.#beginObject(chunk, at)
      else at = this.#search(chunk, at, to)
    }
  }

  /** Merged from the first and the last object: Anthropic's streams report the prompt first and the output last. */
  usage(): Usage | null {
    if (this.#last === null) return null
    const last = decode(this.#last)
    const first = this.#first === null ? null : decode(this.#first)
    const prompt = last?.promptTokens ?? first?.promptTokens ?? null
    if (prompt === null) return null
    return {
      promptTokens: prompt,
      completionTokens: last?.completionTokens ?? first?.completionTokens ?? 0,
      cachedTokens: last?.cachedTokens ?? first?.cachedTokens ?? null,
    }
  }

  #search(chunk: Uint8Array, from: number, to: number): number {
    let at = from
    const width = KEY.length
    if (this.#matched === 0) {
      while (at + width <= to) {
        const under = chunk[at + width - 1]!
        if (
          under === QUOTE &&
          chunk[at] === QUOTE &&
          chunk[at + 1] === KEY[1] &&
          chunk[at + 2] === KEY[2] &&
          chunk[at + 3] === KEY[3]
        ) {
          if (chunk[at + 4] === KEY[4] && chunk[at + 5] === KEY[5]) {
            this.#matched = width
            return at + width
          }
        }
        at += SKIP[under]!
      }
    }
    // Bytes around the boundary of two chunks are compared one by one.
    while (at < to && this.#matched < width) {
      const byte = chunk[at++]!
      if (byte === KEY[this.#matched]) this.#matched++
      else this.#matched = byte === QUOTE ? 1 : 0
      if (this.#matched === 0 && to - at >= width) break
    }
    return at
  }

  #beginObject(chunk: Uint8Array, at: number): number {
    const byte = chunk[at]!
    if (byte === 32 || byte === 9 || byte === 10 || byte === 13) return at + 1
    if (byte === COLON && !this.#afterColon) {
      this.#afterColon = true
      return at + 1
    }
    const object = byte === OPEN && this.#afterColon
    this.#matched = 0
    this.#afterColon = false
    if (!object) return at
    this.#depth = 1
    this.#quoted = this.#escaped = false
    this.#pieces = [Uint8Array.of(OPEN)]
    this.#size = 1
    return at + 1
  }

  #capture(chunk: Uint8Array, from: number, to: number): number {
    let at = from
    while (at < to) {
      const byte = chunk[at++]!
      if (this.#quoted) {
        if (this.#escaped) this.#escaped = false
        else if (byte === BACKSLASH) this.#escaped = true
        else if (byte === QUOTE) this.#quoted = false
      } else if (byte === QUOTE) this.#quoted = true
      else if (byte === OPEN) this.#depth++
      else if (byte === CLOSE && --this.#depth === 0) {
        this.#keep(chunk.subarray(from, at))
        this.found++
        this.#last = concatBytes(this.#pieces, this.#size)
        this.#first ??= this.#last
        this.#pieces = []
        return at
      }
    }
    this.#keep(chunk.subarray(from, to))
    if (this.#size > LIMIT_BYTES) {
      this.#depth = 0
      this.#pieces = []
    }
    return to
  }

  #keep(piece: Uint8Array): void {
    // A copy: the reader may reuse the memory (and `slice` of Node's Buffer would be a view).
    this.#pieces.push(new Uint8Array(piece))
    this.#size += piece.length
  }
}

const utf8 = new TextDecoder()

interface PartialUsage {
  readonly promptTokens: number | null
  readonly completionTokens: number | null
  readonly cachedTokens: number | null
}

function decode(bytes: Uint8Array): PartialUsage | null {
  try {
    return partialUsage(JSON.parse(utf8.decode(bytes)) as Record<string, unknown>)
  } catch {
    return null
  }
}

/** The two formats of OpenAI (chat and responses) and Anthropic's. */
function partialUsage(usage: Readonly<Record<string, unknown>>): PartialUsage {
  const details = (usage['prompt_tokens_details'] ?? usage['input_tokens_details'] ?? {}) as Record<string, unknown>
  return {
    promptTokens: count(usage['prompt_tokens'] ?? usage['input_tokens']),
    completionTokens: count(usage['completion_tokens'] ?? usage['output_tokens']),
    cachedTokens: count(details['cached_tokens'] ?? usage['cache_read_input_tokens']),
  }
}

/** Token counts of a `usage` object. null: it does not have the prompt's length. */
export function usageOf(object: Readonly<Record<string, unknown>>): Usage | null {
  const { promptTokens, completionTokens, cachedTokens } = partialUsage(object)
  return promptTokens === null ? null : { promptTokens, completionTokens: completionTokens ?? 0, cachedTokens }
}

/** Upper limit of a plausible count. A larger one is an engine's defect and would falsify what is learned. */
const MAX_TOKENS = 1e9

function count(value: unknown): number | null {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= MAX_TOKENS ? value : null
}
