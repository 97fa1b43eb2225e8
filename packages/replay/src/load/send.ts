import type { Mutable } from '../../../../src/core/mutable.ts'
import { performance } from 'node:perf_hooks'
import { textOf } from './prompt.ts'
import { explainFetchError } from '../../../../src/cli/connect-error.ts'

export interface Target {
  /** Base URL, without a path. */
  readonly url: string
  readonly model: string
  readonly key: string | null
  /** Sends prompts as the text of chats. Default: as token ids of completions. */
  readonly chats?: boolean
}

/** Result of one request. Milliseconds of the process's monotonic clock; -1: did not happen. */
export interface RequestResult {
  readonly firstTokenAt: number
  readonly endedAt: number
  readonly longestGapMs: number
  readonly outputTokens: number
  readonly cachedTokens: number
  /** Engine name as the gateway reports it; "-" if it does not. */
  readonly engine: string
  readonly cluster: string
  /** null: success. */
  readonly problem: string | null
  /** Detail from the answer. */
  readonly detail: string | null
}

interface Event {
  readonly choices?: readonly { readonly text?: string; readonly delta?: { readonly content?: string | null } }[]
  readonly error?: { readonly message?: string }
  readonly usage?: {
    readonly completion_tokens?: number
    readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null
  } | null
}

/** Sends one streaming completion or chat. Never rejects: failures are part of the result. */
export async function send(
  target: Target,
  request: { readonly prompt: readonly number[]; readonly outputTokens: number; readonly session: string | null },
  signal: AbortSignal,
): Promise<RequestResult> {
  const result = {
    firstTokenAt: -1,
    endedAt: -1,
    longestGapMs: 0,
    outputTokens: 0,
    cachedTokens: 0,
    engine: '-',
    cluster: '-',
    problem: null as string | null,
    detail: null as string | null,
  }
  try {
    const answer = await fetch(`${target.url}/v1/${target.chats === true ? 'chat/' : ''}completions`, {
      method: 'POST',
      signal,
      headers: headersOf(target, request.session),
      body: bodyOf(target, request),
    })
    await readAnswer(answer, result)
  } catch (error) {
    const why = explainFetchError(error, target.url)
    result.problem = result.firstTokenAt < 0 ? why : TRUNCATED
    if (result.firstTokenAt >= 0) result.detail = why
  } finally {
    result.endedAt = performance.now()
  }
  return result
}

/** Problem of a stream that ended after its first token, without an error event or `[DONE]`. */
const TRUNCATED = 'truncated stream'

async function readAnswer(answer: Response, result: Mutable<RequestResult>): Promise<void> {
  result.engine = answer.headers.get('x-firstlight-engine') ?? '-'
  result.cluster = answer.headers.get('x-firstlight-cluster') ?? '-'
  if (!answer.ok || answer.body === null) {
    result.problem = `status ${answer.status}`
    result.detail = detailIn(await answer.text())
    return
  }
  let lastAt = -1
  let isComplete = false
  for await (const event of eventsOf(answer.body)) {
    const now = performance.now()
    isComplete ||= event === DONE
    if (event.error !== undefined) result.problem = event.error.message ?? 'error event'
    if (event.usage?.completion_tokens !== undefined) {
      result.outputTokens = event.usage.completion_tokens
      result.cachedTokens = event.usage.prompt_tokens_details?.cached_tokens ?? 0
    }
    const choice = event.choices?.[0]
    if ((choice?.text ?? choice?.delta?.content ?? '') === '') continue
    if (result.firstTokenAt < 0) result.firstTokenAt = now
    else result.longestGapMs = Math.max(result.longestGapMs, now - lastAt)
    lastAt = now
  }
  if (result.firstTokenAt < 0) result.problem ??= 'no text'
  else if (!isComplete && result.problem === null) {
    result.problem = TRUNCATED
    result.detail = 'it ended without [DONE]'
  }
}

/** Extracts the message of an error in OpenAI's or FastAPI's form as one line. */
function detailIn(text: string): string | null {
  try {
    const { error, detail } = JSON.parse(text) as {
      readonly error?: { readonly message?: unknown }
      readonly detail?: unknown
    }
    const words = error?.message ?? detail
    return typeof words === 'string' ? words.replaceAll(/\s+/g, ' ').slice(0, 300) : null
  } catch {
    return null
  }
}

function headersOf({ key }: Target, session: string | null): Record<string, string> {
  return {
    'content-type': 'application/json',
    ...(key === null ? {} : { authorization: `Bearer ${key}` }),
    ...(session === null ? {} : { 'x-session-id': session }),
  }
}

function bodyOf(
  { model, chats }: Target,
  { prompt, outputTokens }: { readonly prompt: readonly number[]; readonly outputTokens: number },
): string {
  return JSON.stringify({
    model,
    ...(chats === true ? { messages: [{ role: 'user', content: textOf(prompt) }] } : { prompt }),
    max_tokens: outputTokens,
    ignore_eos: true,
    temperature: 0,
    stream: true,
    stream_options: { include_usage: true },
  })
}

/** The last event of a complete stream. */
const DONE: Event = {}

async function* eventsOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Event> {
  const text = new TextDecoder()
  let rest = ''
  for await (const bytes of body) {
    const lines = (rest + text.decode(bytes, { stream: true })).split('\n')
    rest = lines.pop()!
    for (const line of lines) {
      if (!line.startsWith('data:')) continue
      const data = line.slice(5).trim()
      yield data === '[DONE]' ? DONE : (JSON.parse(data) as Event)
    }
  }
}
