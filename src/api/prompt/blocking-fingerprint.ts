import { oncePerPool } from '../../origin/once-per-pool.ts'
import type { PoolRoute } from '../../origin/pool-route.ts'
import { chat } from '../../protocols/chat.ts'
import type { PromptAnalyzers } from './prompt-analyzers.ts'

/** Any tokenizer divides so many words into blocks: each is at least a token, and about three bytes. */
const WORDS_PER_BLOCK_TOKEN = 3

/**
 * Fingerprint of how a pool's prompts are divided into blocks: the hash of a fixed text. Chained hashes combine the
 * vocabulary, the template, the block size and the gateway's own rules in one number.
 */
export const blockingFingerprints = (analyzers: PromptAnalyzers): ((route: PoolRoute) => number | null) =>
  oncePerPool((route) => blockingFingerprint(analyzers, route))

function blockingFingerprint(analyzers: PromptAnalyzers, route: PoolRoute): number | null {
  const content = Array.from({ length: route.pool.blockTokens * WORDS_PER_BLOCK_TOKEN }, (_, at) =>
    at.toString(36),
  ).join(' ')
  const { blocks } = analyzers.measure(route, {
    prompt: chat.prompt({ messages: [{ role: 'user', content }] }),
    bodyBytes: content.length,
    adapter: null,
    salts: [],
    tenant: null,
    withIds: false,
  })
  return blocks.at(-2) ?? null
}
