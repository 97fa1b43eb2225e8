/** Multi-turn conversations before two real engines: what each policy finds in their caches, and what was predicted. */
import { servedModel } from '../engine.ts'
import { fuzzText, generator } from '../fuzz.ts'
import { adminKey } from '../gateway.ts'
import type { RunningGateway } from '../gateway.ts'
import { open, send, sendJson } from '../http.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import { until } from '../until.ts'
import { dataOf } from '../vector.ts'
import { withKey } from './asks.ts'

const conversations = 8
const turns = 5
const policies = ['round_robin', 'active_blocks', 'predicted'] as const
/** Of engine and gateway. */
const blockTokens = 32

export const routingRows: readonly Row[] = [
  {
    name: 'node-routing',
    says: `Over ${conversations} conversations of ${turns} turns, predicted finds the most tokens in the engines' caches, by their own count, or as many.`,
    run: async (lab) => {
      const gateway = await lab.gateway('node')
      const talks = policies.map((policy) => ({ policy, histories: beginTalk() }))
      const turnsOf: Turn[][] = policies.map(() => [])
      // In turns, so that all policies meet the machine in the same mood; one after the other, because an engine takes 8 requests.
      for (let turn = 0; turn < turns; turn++) for (const [at, { policy, histories }] of talks.entries()) turnsOf[at]!.push(...(await nextTurn(gateway, policy, histories)))
      const share = turnsOf.map((list) => sum(list, 'cached') / sum(list, 'prompt'))
      const seen = policies.map((policy, at) => `${policy} ${(100 * share[at]!).toFixed(1)} % cached, TTFT ${Math.round(median(turnsOf[at]!.map(({ ttftMs }) => ttftMs)))} ms`).join('; ')
      check(Math.max(...share) - share[policies.indexOf('predicted')]! <= 0.01, seen)
      return seen
    },
  },
  {
    name: 'node-cached-tokens',
    says: 'The cached tokens that were predicted are those that the engine reports, within one block, in 95 of 100 requests.',
    run: async (lab) => {
      const gateway = await lab.gateway('node')
      const histories = beginTalk()
      const list: Turn[] = []
      for (let turn = 0; turn < turns; turn++) list.push(...(await nextTurn(gateway, 'predicted', histories)))
      const off = list.map(({ cached, predicted }) => Math.abs(cached - (predicted ?? NaN)))
      const close = off.filter((distance) => distance <= blockTokens).length
      const seen = `${close} of ${off.length} within ${blockTokens} tokens, ${off.filter((distance) => distance === 0).length} exact, worst ${Math.max(...off)}; ${sum(list, 'cached')} of ${sum(list, 'prompt')} tokens were cached`
      check(close >= 0.95 * off.length, seen)
      return seen
    },
  },
  {
    name: 'node-token-count',
    says: 'With the compiled vocabulary the gateway counts the tokens of every chat as the engine does.',
    run: async (lab) => tokenCounts(lab),
  },
]

interface Turn {
  readonly prompt: number
  readonly cached: number
  /** null: the decision says nothing. */
  readonly predicted: number | null
  readonly ttftMs: number
}

type History = { role: string; content: string }[]

/** Conversations with words of their own, so that no policy finds what another left. */
function beginTalk(): History[] {
  return Array.from({ length: conversations }, () => [{ role: 'system', content: words() }])
}

/** A turn of each conversation, all at once. */
function nextTurn(gateway: RunningGateway, policy: string, histories: readonly History[]): Promise<Turn[]> {
  return Promise.all(
    histories.map(async (messages) => {
      messages.push({ role: 'user', content: words() })
      const { text, ...told } = await say(gateway, policy, messages)
      messages.push({ role: 'assistant', content: text })
      return told
    }),
  )
}

/** About 250 tokens. */
function words(): string {
  return Array.from({ length: 60 }, () => Math.floor(Math.random() * 1e6).toString(36)).join(' ')
}

async function say(gateway: RunningGateway, policy: string, messages: readonly object[]): Promise<Turn & { readonly text: string }> {
  const began = performance.now()
  const body = { model: servedModel, messages, max_tokens: 8, temperature: 0, stream: true, stream_options: { include_usage: true } }
  const headers = withKey({ 'x-firstlight-options': JSON.stringify({ policy }) })
  const { response } = await open({ url: gateway.url, method: 'POST', path: '/v1/chat/completions', headers, body })
  let ttftMs = 0
  const pieces: Buffer[] = []
  for await (const piece of response) {
    if (pieces.length === 0) ttftMs = performance.now() - began
    pieces.push(piece as Buffer)
  }
  const received = Buffer.concat(pieces).toString('utf8')
  const data = dataOf(received) as { choices?: { delta: { content?: string } }[] }[]
  const usage = usageOf(received)
  const decision = await decisionOf(gateway, String(response.headers['x-firstlight-decision']).split(';')[0]!)
  check(decision.policy === policy, `${policy} was asked for, ${decision.policy} decided`)
  return {
    text: data.map(({ choices }) => choices?.[0]?.delta.content ?? '').join(''),
    prompt: usage.prompt_tokens,
    cached: usage.prompt_tokens_details?.cached_tokens ?? 0,
    predicted: decision.predicted_cached_tokens,
    ttftMs,
  }
}

interface Counts {
  readonly prompt_tokens: number
  readonly prompt_tokens_details?: { readonly cached_tokens?: number }
}

/** Of a whole stream. */
function usageOf(text: string): Counts {
  const usage = (dataOf(text) as { usage?: Counts }[]).findLast((entry) => entry.usage !== undefined)?.usage
  check(usage !== undefined, `a stream ended without usage: ${text.slice(-300)}`)
  return usage
}

interface ToldDecision {
  readonly policy: string
  readonly prompt_tokens: number
  readonly token_source: string
  readonly predicted_cached_tokens: number | null
}

/** Decisions are kept by the object that made them; it may take a moment. */
async function decisionOf(gateway: RunningGateway, id: string): Promise<ToldDecision> {
  let decision: ToldDecision | null = null
  const ask = { url: gateway.url, method: 'GET', path: `/v1/firstlight/decisions/${id}`, headers: { authorization: `Bearer ${adminKey}` } } as const
  await until(async () => {
    decision = await sendJson<ToldDecision>(ask).catch(() => null)
    return decision !== null
  }, 'the decision', { limitMs: 3000 })
  return decision!
}

async function tokenCounts(lab: Lab): Promise<string> {
  const gateway = await lab.gateway('node')
  const random = generator(22)
  const unlike: string[] = []
  for (let count = 0; count < 30; count++) {
    const messages = [{ role: 'user', content: fuzzText(random, 40) }]
    const body = { model: servedModel, messages, max_tokens: 1, stream: true, stream_options: { include_usage: true } }
    const { headers, body: text } = await send({ url: gateway.url, method: 'POST', path: '/v1/chat/completions', headers: withKey({}), body })
    const usage = usageOf(text.toString('utf8'))
    const { prompt_tokens, token_source } = await decisionOf(gateway, headers['x-firstlight-decision']!.split(';')[0]!)
    if (prompt_tokens !== usage.prompt_tokens) unlike.push(`${prompt_tokens} (${token_source}), not ${usage.prompt_tokens}`)
  }
  check(unlike.length === 0, `${unlike.length} of 30 differ: ${unlike.slice(0, 3).join('; ')}`)
  return '30 of 30'
}

function sum(list: readonly Turn[], field: 'prompt' | 'cached'): number {
  return list.reduce((total, turn) => total + turn[field], 0)
}

function median(values: readonly number[]): number {
  return [...values].sort((x, y) => x - y)[values.length >> 1]!
}
