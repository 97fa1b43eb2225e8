/** Prefix cache of a scripted engine: chained blocks of the rendered prompt, as vLLM keeps them. Nothing is evicted. */
import { createHash } from 'node:crypto'

const CHARS_PER_TOKEN = 4
const BLOCK_TOKENS = 16
const BLOCK_CHARS = CHARS_PER_TOKEN * BLOCK_TOKENS

/** A prompt by its tokens and blocks. */
export interface CountedPrompt {
  readonly tokens: number
  /** Hash of each whole block and all blocks before it. */
  readonly blocks: readonly string[]
}

export function countPrompt(text: string): CountedPrompt {
  const blocks: string[] = []
  let parent = ''
  for (let at = 0; at + BLOCK_CHARS <= text.length; at += BLOCK_CHARS) {
    parent = createHash('sha1')
      .update(parent + text.slice(at, at + BLOCK_CHARS))
      .digest('base64')
    blocks.push(parent)
  }
  return { tokens: Math.ceil(text.length / CHARS_PER_TOKEN), blocks }
}

export class PrefixCache {
  readonly #blocks = new Set<string>()

  /** Cached tokens of a prompt. At least one token is computed. */
  cachedTokens({ tokens, blocks }: CountedPrompt): number {
    let count = 0
    while (count < blocks.length && this.#blocks.has(blocks[count]!)) count++
    while (count * BLOCK_TOKENS >= tokens) count--
    return Math.max(0, count) * BLOCK_TOKENS
  }

  /** Adds the blocks of a prefilled prompt. */
  add({ blocks }: CountedPrompt): void {
    for (const block of blocks) this.#blocks.add(block)
  }
}

/** Tokens of whole blocks. */
export const blockTokens = ({ blocks }: CountedPrompt): number => blocks.length * BLOCK_TOKENS
