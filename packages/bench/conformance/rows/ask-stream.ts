/** A stream through the gateway, timed at the client. */
import type { RunningGateway } from '../gateway.ts'
import { open } from '../http.ts'
import { check } from '../row.ts'
import { dataOf } from '../vector.ts'
import { withKey } from './asks.ts'
import { decisionOf } from './decisions.ts'
import type { ReportedDecision } from './decisions.ts'

export interface StreamAnswer {
  readonly prompt: number
  /** Cached tokens that the engine reports. */
  readonly cached: number
  readonly engine: string
  readonly decision: ReportedDecision
  readonly text: string
  /** Milliseconds, `performance.now()`. */
  readonly sentAt: number
  readonly firstAt: number
}

interface StreamAsk {
  readonly path: '/v1/chat/completions' | '/v1/completions'
  readonly body: object
  /** Policy of this request; absent: the pool's. */
  readonly policy?: string
}

export async function askStream(gateway: RunningGateway, { path, body, policy }: StreamAsk): Promise<StreamAnswer> {
  const headers = withKey(policy === undefined ? {} : { 'x-firstlight-options': JSON.stringify({ policy }) })
  const sentAt = performance.now()
  const { response } = await open({
    url: gateway.url,
    method: 'POST',
    path,
    headers,
    body: { ...body, stream: true, stream_options: { include_usage: true } },
    limitMs: 300_000,
  })
  let firstAt = 0
  const pieces: Buffer[] = []
  for await (const piece of response) {
    if (firstAt === 0) firstAt = performance.now()
    pieces.push(piece as Buffer)
  }
  const received = Buffer.concat(pieces).toString('utf8')
  check(response.statusCode === 200, `${response.statusCode}: ${received.slice(0, 200)}`)
  const { prompt_tokens, prompt_tokens_details } = usageOf(received)
  const choices = (dataOf(received) as { choices?: { text?: string; delta?: { content?: string } }[] }[]).flatMap(
    (event) => event.choices ?? [],
  )
  return {
    prompt: prompt_tokens,
    cached: prompt_tokens_details?.cached_tokens ?? 0,
    engine: String(response.headers['x-firstlight-engine']),
    decision: await decisionOf(gateway, response.headers['x-firstlight-decision']),
    text: choices.map(({ text, delta }) => text ?? delta?.content ?? '').join(''),
    sentAt,
    firstAt,
  }
}

interface Counts {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly prompt_tokens_details?: { readonly cached_tokens?: number }
}

/** Usage in a whole stream. */
export function usageOf(text: string): Counts {
  const usage = (dataOf(text) as { usage?: Counts }[]).findLast(
    (entry) => entry.usage !== undefined && entry.usage !== null,
  )?.usage
  check(usage !== undefined, `a stream ended without usage: ${text.slice(-300)}`)
  return usage
}
