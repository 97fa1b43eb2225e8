import * as z from 'zod/mini'
import { isAnswer, ask, summaryOf, jsonOf, type AskResult, type Endpoint } from '../ask.ts'

export type CompletionResult =
  | {
      readonly kind: 'answered'
      /** Cached tokens of the last answer; null: usage has no details. */
      readonly cachedTokens: number | null
      /** Tokens of the prompt. */
      readonly promptTokens: number | null
      /** `metrics` of the answer: `--enable-per-request-metrics`. */
      readonly perRequestMetrics: boolean
      readonly tookMs: number
    }
  /** The engine has neither completions nor chats, as with an embedding model. */
  | { readonly kind: 'no_route' }
  | { readonly kind: 'failed'; readonly why: string }

const count = z.nullish(z.number())
const answer = z.object({
  usage: z.nullish(
    z.object({ prompt_tokens: count, prompt_tokens_details: z.nullish(z.object({ cached_tokens: count })) }),
  ),
  metrics: z.nullish(z.looseObject({})),
})

/** Model that the sample request names. */
interface SampledModel {
  readonly id: string
  readonly maxModelLen: number | null
}

/** Longer than one block, so that a second request has a cache hit; shorter than half of the model's maximum. */
function promptFor(maxModelLen: number | null): string {
  const words = Math.max(1, Math.min(100, Math.floor((maxModelLen ?? 4096) / 20)))
  return Array.from({ length: words }, (_, at) => `doctor ${at}`).join(' ')
}

/** Some versions omit the details if nothing was cached, so an equal second prompt decides. */
export async function generate(
  place: Endpoint,
  { id, maxModelLen }: SampledModel,
  limitMs: number,
): Promise<CompletionResult> {
  const request = { model: id, prompt: promptFor(maxModelLen) }
  const first = await once(place, request, limitMs)
  return first.kind === 'answered' && first.cachedTokens === null ? once(place, request, limitMs) : first
}

interface SampleRequest {
  readonly model: string
  readonly prompt: string
}

async function once(place: Endpoint, request: SampleRequest, limitMs: number): Promise<CompletionResult> {
  const result = await oneToken(place, request, limitMs)
  if (isAnswer(result) && result.status === 404) return { kind: 'no_route' }
  const read = answer.safeParse(jsonOf(result))
  if (!isAnswer(result) || !read.success) return { kind: 'failed', why: `${summaryOf(result)}${messageOf(result)}` }
  const { usage, metrics } = read.data
  return {
    kind: 'answered',
    cachedTokens: usage?.prompt_tokens_details?.cached_tokens ?? null,
    promptTokens: usage?.prompt_tokens ?? null,
    perRequestMetrics: metrics != null,
    tookMs: result.tookMs,
  }
}

async function oneToken(place: Endpoint, { model, prompt }: SampleRequest, limitMs: number): Promise<AskResult> {
  const result = await ask(place, {
    method: 'POST',
    path: '/v1/completions',
    limitMs,
    body: { model, prompt, max_tokens: 1, temperature: 0 },
  })
  if (!isAnswer(result) || result.status !== 404) return result
  return ask(place, {
    method: 'POST',
    path: '/v1/chat/completions',
    limitMs,
    body: { model, messages: [{ role: 'user', content: prompt }], max_tokens: 1, temperature: 0 },
  })
}

/** Extracts the message of an error body as one line. */
function messageOf(result: AskResult): string {
  if (!isAnswer(result) || result.status < 400) return isAnswer(result) ? ', and an unexpected body' : ''
  try {
    const { error } = JSON.parse(result.text) as { error?: { message?: unknown } | string }
    const message = typeof error === 'string' ? error : error?.message
    return typeof message === 'string' ? `: ${message.split('\n')[0]!.slice(0, 200)}` : ''
  } catch {
    return ''
  }
}

/** Text tokenized for comparison: words, spaces, digits, accents, an emoji, another script, code. */
export const SAMPLE_TEXT =
  "Hello, wörld 👋!  It's 2026-11-21, 3.14 % of \t日本語 テキスト:\n\n    if (x != y) { return 'naïve' }  "

/** A conversation that every chat template accepts: it ends with a user turn and has no system message. */
export const SAMPLE_CHAT = {
  messages: [
    { role: 'user', content: SAMPLE_TEXT },
    { role: 'assistant', content: 'A greeting.' },
    { role: 'user', content: 'And now?' },
  ],
}
