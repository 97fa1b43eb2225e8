import { performance } from 'node:perf_hooks'
import { explainFetchError } from '../doctor/trouble.ts'

export interface Target {
  /** Base URL, without a path. */
  readonly url: string
  readonly model: string
  readonly key: string | null
}

/** Result of one request. Milliseconds of the process's monotonic clock; -1: did not happen. */
export interface Answered {
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
  readonly choices?: readonly { readonly text?: string }[]
  readonly error?: { readonly message?: string }
  readonly usage?: {
    readonly completion_tokens?: number
    readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null
  } | null
}

/** Sends one streaming completion. Never rejects: failures are part of the result. */
export async function send(
  target: Target,
  request: { readonly prompt: readonly number[]; readonly outputTokens: number; readonly session: string | null },
  signal: AbortSignal,
): Promise<Answered> {
  const seen = {
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
    const answer = await fetch(`${target.url}/v1/completions`, {
      method: 'POST',
      signal,
      headers: headersOf(target, request.session),
      body: bodyOf(target.model, request),
    })
    seen.engine = answer.headers.get('x-firstlight-engine') ?? '-'
    seen.cluster = answer.headers.get('x-firstlight-cluster') ?? '-'
    if (!answer.ok || answer.body === null) {
      seen.problem = `status ${answer.status}`
      seen.detail = detailIn(await answer.text())
      return seen
    }
    let lastAt = -1
    for await (const event of eventsOf(answer.body)) {
      const now = performance.now()
      if (event.error !== undefined) seen.problem = event.error.message ?? 'error event'
      if (event.usage?.completion_tokens !== undefined) {
        seen.outputTokens = event.usage.completion_tokens
        seen.cachedTokens = event.usage.prompt_tokens_details?.cached_tokens ?? 0
      }
      if ((event.choices?.[0]?.text ?? '') === '') continue
      if (seen.firstTokenAt < 0) seen.firstTokenAt = now
      else seen.longestGapMs = Math.max(seen.longestGapMs, now - lastAt)
      lastAt = now
    }
    if (seen.firstTokenAt < 0) seen.problem ??= 'no text'
  } catch (error) {
    seen.problem = explainFetchError(error, target.url)
  } finally {
    seen.endedAt = performance.now()
  }
  return seen
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
  model: string,
  { prompt, outputTokens }: { readonly prompt: readonly number[]; readonly outputTokens: number },
): string {
  return JSON.stringify({
    model,
    prompt,
    max_tokens: outputTokens,
    ignore_eos: true,
    temperature: 0,
    stream: true,
    stream_options: { include_usage: true },
  })
}

async function* eventsOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Event> {
  const text = new TextDecoder()
  let rest = ''
  for await (const bytes of body) {
    const lines = (rest + text.decode(bytes, { stream: true })).split('\n')
    rest = lines.pop()!
    for (const line of lines) {
      if (!line.startsWith('data:')) continue
      const data = line.slice(5).trim()
      if (data !== '[DONE]') yield JSON.parse(data) as Event
    }
  }
}
