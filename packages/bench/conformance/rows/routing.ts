/** Multi-turn conversations with real engines: cache hits of each policy, and predictions. */
import { servedModel } from '../engine.ts'
import type { RealEngine } from '../engine.ts'
import { fuzzText, generator } from '../fuzz.ts'
import type { RunningGateway } from '../gateway.ts'
import { send } from '../http.ts'
import { check, RefutedError } from '../row.ts'
import type { Finding, Lab, Row } from '../row.ts'
import { quantile } from '../../quantile.ts'
import { askStream, usageOf } from './ask-stream.ts'
import type { StreamAnswer } from './ask-stream.ts'
import { total, withKey } from './asks.ts'
import { decisionOf } from './decisions.ts'

const policies = ['round_robin', 'active_blocks', 'ttft', 'predicted'] as const
const conversations = 40
const turns = 4
/** Words before the first turn, such as documents or an agent's notes. */
const historyWords = 150
/** Concurrent conversations. */
const abreast = 3
/** A policy within this share of the best cache hits ties with it. */
const tie = 0.01
/** It minimises time: on fast engines, an idle one is worth more than a cache. */
const asSoon = 1.1
/** Block size of engine and gateway. */
const blockTokens = 32

export const routingRows: readonly Row[] = [
  {
    name: 'node-cached-tokens',
    says: 'Predicted cached tokens equal those that the engine reports, within one block, in 95 of 100 requests.',
    run: async (lab) => cachedTokens(lab),
  },
  {
    name: 'node-token-count',
    says: `With the compiled vocabulary, the gateway's token counts of all chats equal the engine's.`,
    run: async (lab) => tokenCounts(lab),
  },
]

export const policyRow: Row = {
  name: 'node-routing',
  says:
    `Over the same ${conversations} conversations of ${turns} turns under each policy, in turns, predicted has ` +
    'more cached tokens on two engines, by their own counters, than policies that ignore caches. If another ' +
    'policy has more, the median TTFT of predicted is the lowest, or at most 10 % higher.',
  run: async (lab) => comparePolicies(lab),
}

/** One policy's copy of the conversations, with a salt of its own, so that it finds no blocks of another policy. */
interface Talk {
  readonly policy: string
  /** Gateway whose ledger has no other policy's choices. */
  readonly gateway: RunningGateway
  readonly salt: string
  readonly histories: History[]
  readonly answers: StreamAnswer[]
  /** Cached tokens, from the engines' counters. */
  cached: number
  promptTokens: number
  moves: number
}

type History = { role: string; content: string }[]

async function comparePolicies(lab: Lab): Promise<Finding> {
  const engines = [await lab.engine('slow-a'), await lab.engine('slow-b')]
  const talks: Talk[] = []
  for (const policy of policies)
    talks.push({
      policy,
      gateway: await lab.gateway('node', 'slow-pair', `-${policy}`),
      salt: `${policy}-${Date.now()}`,
      histories: begin(conversations, 41, historyWords),
      answers: [],
      cached: 0,
      promptTokens: 0,
      moves: 0,
    })
  for (const { gateway } of talks) await warmUp(gateway, engines)
  const last = new Map<History, string>()
  for (let turn = 0; turn < turns; turn++) {
    // Each turn starts with another policy, so that all see the same disturbances of the machine.
    for (let at = 0; at < talks.length; at++)
      await takeTurn({ engines, last, turn }, talks[(turn + at) % talks.length]!)
    lab.note(`  … turn ${turn + 1} of ${turns}`)
  }
  const share = ({ cached, promptTokens }: Talk): number => cached / promptTokens
  const best = Math.max(...talks.map(share))
  const blind = Math.max(
    ...talks.filter(({ policy }) => policy === 'round_robin' || policy === 'active_blocks').map(share),
  )
  const soonest = Math.min(...talks.map((talk) => ttftOf(talk, 0.5)))
  const own = talks.find(({ policy }) => policy === 'predicted')!
  const found = {
    seen: talks.map((talk) => `${talk.policy} ${percent(share(talk))} cached, TTFT ${ttftOf(talk, 0.5)} ms`).join('; '),
    detail: [
      `Two engines with a model of 8 layers, one thread each; ${abreast} conversations at a time. Prompts of about ${quantile(
        own.answers.map(({ prompt }) => prompt),
        0.1,
      )} to ${quantile(
        own.answers.map(({ prompt }) => prompt),
        0.9,
      )} tokens. "Moved": turns that went to another engine than the turn before.`,
      '',
      "| policy | cached, by the engines' counters | moved | TTFT p50, ms | p25 to p75 | p90 |",
      '| --- | ---: | ---: | ---: | ---: | ---: |',
      ...talks.map(
        (talk) =>
          `| ${talk.policy} | ${percent(share(talk))} | ${talk.moves} | ${ttftOf(talk, 0.5)} | ` +
          `${ttftOf(talk, 0.25)} to ${ttftOf(talk, 0.75)} | ${ttftOf(talk, 0.9)} |`,
      ),
    ].join('\n'),
  }
  if (share(own) <= blind || (best - share(own) > tie && ttftOf(own, 0.5) > asSoon * soonest))
    throw new RefutedError(found)
  return found
}

interface Turn {
  readonly engines: readonly RealEngine[]
  /** Engine of the last response. */
  readonly last: Map<History, string>
  readonly turn: number
}

async function takeTurn({ engines, last, turn }: Turn, talk: Talk): Promise<void> {
  const [hits, queries] = [
    await total(engines, 'vllm:prefix_cache_hits_total'),
    await total(engines, 'vllm:prefix_cache_queries_total'),
  ]
  const random = generator(1000 + turn)
  for (const history of talk.histories) history.push({ role: 'user', content: words(random, 25) })
  // The next speaker is random, and the same for all policies: in a fixed order even round robin would return to the
  // same engine.
  const waiting = shuffled(talk.histories, random)
  const speak = async (): Promise<void> => {
    for (let history = waiting.shift(); history !== undefined; history = waiting.shift()) {
      const answers = await say(talk.gateway, history, { policy: talk.policy, salt: talk.salt })
      if (last.has(history) && last.get(history) !== answers.engine) talk.moves++
      last.set(history, answers.engine)
      talk.answers.push(answers)
    }
  }
  await Promise.all(Array.from({ length: abreast }, speak))
  talk.cached += (await total(engines, 'vllm:prefix_cache_hits_total')) - hits
  talk.promptTokens += (await total(engines, 'vllm:prefix_cache_queries_total')) - queries
}

function shuffled<T>(list: readonly T[], random: () => number): T[] {
  return list
    .map((item) => ({ item, at: random() }))
    .sort((one, other) => one.at - other.at)
    .map(({ item }) => item)
}

/** Sends prompts of all lengths to both engines before the measurement: the first ones compile and allocate. */
async function warmUp(gateway: RunningGateway, engines: readonly RealEngine[]): Promise<void> {
  const random = generator(42)
  for (let round = 0; round < 6 * engines.length; round++) {
    await say(gateway, [{ role: 'user', content: words(random, 20 + 40 * (round >> 1)) }], {
      policy: 'round_robin',
      salt: 'warm-up',
    })
  }
}

function begin(count: number, seed: number, historyLength: number): History[] {
  const random = generator(seed)
  const shared = words(random, 15)
  return Array.from({ length: count }, () => [{ role: 'system', content: `${shared} ${words(random, historyLength)}` }])
}

/** Words of about four tokens each. */
export function words(random: () => number, count: number): string {
  return Array.from({ length: count }, () => Math.floor(random() * 1e6).toString(36)).join(' ')
}

/** Sends a turn of the conversation and adds the response to it. */
async function say(
  gateway: RunningGateway,
  messages: History,
  { policy, salt }: { policy: string; salt: string },
): Promise<StreamAnswer> {
  const body = { model: servedModel, messages, max_tokens: 8, temperature: 0, ignore_eos: true, cache_salt: salt }
  const answers = await askStream(gateway, { path: '/v1/chat/completions', body, policy })
  check(answers.decision.policy === policy, `${policy} was asked for, ${answers.decision.policy} decided`)
  messages.push({ role: 'assistant', content: answers.text })
  return answers
}

async function cachedTokens(lab: Lab): Promise<string> {
  const gateway = await lab.gateway('node')
  const seed = Math.floor(Date.now() / 1000)
  const random = generator(seed)
  const histories = begin(8, seed, 25)
  const list: StreamAnswer[] = []
  for (let turn = 0; turn < 5; turn++) {
    for (const history of histories) history.push({ role: 'user', content: words(random, 60) })
    list.push(
      ...(await Promise.all(
        histories.map((history) => say(gateway, history, { policy: 'predicted', salt: `talk-${seed}` })),
      )),
    )
  }
  const off = list.map(({ cached, decision }) => Math.abs(cached - (decision.predicted_cached_tokens ?? NaN)))
  const close = off.filter((distance) => distance <= blockTokens).length
  const seen =
    `${close} of ${off.length} within ${blockTokens} tokens, ${off.filter((distance) => distance === 0).length} ` +
    `exact, worst ${Math.max(...off)}; ${sum(list, 'cached')} of ${sum(list, 'prompt')} tokens were cached`
  check(close >= 0.95 * off.length, seen)
  return seen
}

async function tokenCounts(lab: Lab): Promise<string> {
  const gateway = await lab.gateway('node')
  const random = generator(22)
  const unlike: string[] = []
  for (let count = 0; count < 30; count++) {
    const messages = [{ role: 'user', content: fuzzText(random, 40) }]
    const body = { model: servedModel, messages, max_tokens: 1, stream: true, stream_options: { include_usage: true } }
    const { headers, body: text } = await send({
      url: gateway.url,
      method: 'POST',
      path: '/v1/chat/completions',
      headers: withKey({}),
      body,
    })
    const usage = usageOf(text.toString('utf8'))
    const { prompt_tokens, token_source } = await decisionOf(gateway, headers['x-firstlight-decision'])
    if (prompt_tokens !== usage.prompt_tokens)
      unlike.push(`${prompt_tokens} (${token_source}), not ${usage.prompt_tokens}`)
  }
  check(unlike.length === 0, `${unlike.length} of 30 differ: ${unlike.slice(0, 3).join('; ')}`)
  return '30 of 30'
}

function sum(list: readonly StreamAnswer[], field: 'prompt' | 'cached'): number {
  return list.reduce((all, turn) => all + turn[field], 0)
}

function ttftOf({ answers }: Talk, share: number): number {
  return Math.round(
    quantile(
      answers.map(({ sentAt, firstAt }) => firstAt - sentAt),
      share,
    ),
  )
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`
}
