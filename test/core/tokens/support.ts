import { PromptAnalyzer, type PromptAnalyzerOptions } from '../../../src/core/tokens/prompt-analyzer.ts'
import type { PromptRequest } from '../../../src/core/tokens/prompt-request.ts'
import type { Prompt } from '../../../src/core/tokens/prompt.ts'
import { protocols } from '../../../src/protocols/protocols.ts'

const encoder = new TextEncoder()
export const encodeUtf8 = (text: string, into: Uint8Array): number => encoder.encodeInto(text, into).written

export const analyzerOf = (options: Partial<PromptAnalyzerOptions> = {}): PromptAnalyzer =>
  new PromptAnalyzer({
    model: 'm',
    blockTokens: 16,
    encodeUtf8,
    now: () => 0,
    tokenizer: null,
    template: null,
    ...options,
  })

/** Reads the prompt of a body by the protocol of that name. */
export const promptOf = (protocol: string, body: unknown): Prompt =>
  protocols.find(({ name }) => name === protocol)!.prompt(body as Record<string, unknown>)

export const requestOf = (protocol: string, body: unknown, rest: Partial<PromptRequest> = {}): PromptRequest => ({
  prompt: promptOf(protocol, body),
  bodyBytes: 0,
  adapter: null,
  salts: [],
  tenant: null,
  ...rest,
})

/** Blocks as readable pairs, so that a failed comparison shows which block differs. */
export const pairs = (blocks: Uint32Array): string[] =>
  Array.from(
    { length: blocks.length / 2 },
    (_, i) => `${blocks[2 * i]?.toString(16)}:${blocks[2 * i + 1]?.toString(16)}`,
  )
