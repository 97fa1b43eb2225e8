/**
 * Two data-parallel ranks behind one address (docs/engines.md#data-parallel-ranks), which the gateway finds by
 * `data_parallel: auto`, beside two separate engines and beside the same server with a balancer of its own. Simulated
 * engines; each client sends the same conversations to all three at the same moments, so that noise is shared.
 *
 * Flags: --requests 1000 (per row) · --clients 6 · --seed 1
 */
import { parseConfig } from '../../src/config/parse.ts'
import { completedByRank, metricNames } from '../../src/engines/load-metrics.ts'
import { namesPattern, samplesOf } from '../../src/engines/prometheus-text.ts'
import { vllm } from '../../src/engines/vllm.ts'
import { startGateway, type RunningGateway } from '../../src/platform/node/start-gateway.ts'
import { createFleet } from '../simulator/src/fleet.ts'
import { RankHost } from '../simulator/src/node/rank-host.ts'
import { randomOf } from './continuation/cases.ts'
import { median } from './median.ts'
import { runCases } from './ranks/run-cases.ts'
import { weightUpdates } from './ranks/weight-updates.ts'
import type { BenchOptions, BenchResult } from './result.ts'

const MODEL = 'sim'
const ADMIN = 'ranks-admin-key-of-no-use-elsewhere'
const ARMS = ['ranks', 'separate', 'balancer'] as const
const FIRST_WORDS = [150, 500] as const
const NEXT_WORDS = [20, 80] as const
const OUTPUT_TOKENS = 4
/** Turns after which a client begins a new conversation. */
const TURNS = 12
/** Conversations of one client at a time. */
const OPEN = 4

export default async function ranks({ flags, note }: BenchOptions): Promise<BenchResult> {
  const requests = Number(flags['requests'] ?? 1000)
  const clients = Number(flags['clients'] ?? 6)
  const seed = Number(flags['seed'] ?? 1)
  const arms = await Promise.all(ARMS.map(openArm))
  try {
    await untilFound(arms[0]!)
    const before = await Promise.all(arms.map(({ hosts }) => completedOf(hosts)))
    note(`${requests} requests of ${clients} clients for each of: ${ARMS.join(', ')}`)
    await Promise.all(Array.from({ length: clients }, (_, at) => talk(arms, { at, count: requests / clients, seed })))
    const after = await Promise.all(arms.map(({ hosts }) => completedOf(hosts)))
    const rows = arms.map((arm, at) =>
      rowOf(
        arm,
        after[at]!.map((value, rank) => value - before[at]![rank]!),
      ),
    )
    const [own, separate] = rows as [Row, Row]
    note('updates of weights under streams')
    const updates = await weightUpdates()
    const ratios = [own.ttft_ms_mean / separate.ttft_ms_mean, own.ttft_ms_p50 / separate.ttft_ms_p50]
    note('cases')
    const cases = await runCases()
    return {
      rows: [...rows, ...updates, ...cases],
      headline: {
        served_rank_match: own.served_match,
        requests: own.requests,
        smaller_rank_share: own.smaller_share,
        ttft_vs_separate_max: round(Math.max(...ratios)),
        cases_run: cases.length,
        cases_failed: cases.filter(({ failed }) => failed !== '').length,
        mixed_versions: updates.reduce((sum, { mixed }) => sum + mixed, 0),
        lost_in_wait: updates.find(({ mode }) => mode === 'wait')!.ended,
        hit_rate_vs_separate: round(own.hit_rate / separate.hit_rate),
      },
    }
  } finally {
    for (const arm of arms) await arm.close()
  }
}

interface TimedAnswer {
  readonly engine: string
  readonly ttftMs: number
  readonly promptTokens: number
  readonly cachedTokens: number
}

interface Arm {
  readonly name: (typeof ARMS)[number]
  readonly hosts: readonly RankHost[]
  readonly gateway: RunningGateway
  readonly answers: TimedAnswer[]
  failed: number
  close(): Promise<void>
}

const silent = (): void => {}

async function openArm(name: Arm['name']): Promise<Arm> {
  const fleet = createFleet({ model: MODEL, profile: 'demo', engines: 2 })
  const groups = name === 'separate' ? fleet.engines.map((engine) => [engine]) : [fleet.engines]
  const hosts = await Promise.all(groups.map((engines) => RankHost.open(engines)))
  const more = name === 'ranks' ? { data_parallel: 'auto' } : {}
  const engines = hosts.map(({ url }, at) => ({ id: `e${at}`, url, ...more }))
  const config = parseConfig(
    {
      listen: '127.0.0.1:0',
      open: true,
      admin: { secret: ADMIN },
      clusters: [{ id: 'c', pools: [{ model: MODEL, stats_interval_ms: 1000, engines }] }],
    },
    {},
    { defaultVersion: 1, defaultObserveShare: 1, listens: true },
  )
  const gateway = await startGateway(config, { debug: silent, info: silent, warn: silent, error: silent })
  return {
    name,
    hosts,
    gateway,
    answers: [],
    failed: 0,
    close: async () => {
      await gateway.stop(AbortSignal.timeout(1_000))
      for (const host of hosts) await host.close()
      fleet.stop()
    },
  }
}

/** Waits until the ranks of the server are engines. */
async function untilFound({ gateway }: Arm): Promise<void> {
  for (;;) {
    const answer = await fetch(`${gateway.url}/v1/firstlight/fleet`, { headers: { authorization: `Bearer ${ADMIN}` } })
    const { pools } = (await answer.json()) as { pools: { engines: { id: string }[] }[] }
    if (pools[0]!.engines.map(({ id }) => id).join() === 'e0/0,e0/1') return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** Requests that each rank, or each engine, counts as completed. */
async function completedOf(hosts: readonly RankHost[]): Promise<readonly number[]> {
  const { metrics } = vllm.load!
  const texts = await Promise.all(hosts.map(async ({ url }) => (await fetch(`${url}/metrics`)).text()))
  return texts.flatMap((text) => [
    ...completedByRank(metrics, samplesOf(text, namesPattern(metricNames(metrics)))).values(),
  ])
}

interface TalkPlan {
  readonly at: number
  readonly count: number
  readonly seed: number
}

/** One client: the next turn of one of its conversations, to all arms at once, and the next when all have answered. */
async function talk(arms: readonly Arm[], { at, count, seed }: TalkPlan): Promise<void> {
  const random = randomOf(seed * 1000 + at)
  const newConversation = (): string[] => [words(random, FIRST_WORDS)]
  const open = Array.from({ length: OPEN }, newConversation)
  for (let sent = 0; sent < count; sent++) {
    const chosen = Math.floor(random() * OPEN)
    const turns = open[chosen]!
    await Promise.all(
      arms.map(async (arm) => {
        const answer = await ask(arm.gateway.url, turns)
        if (answer === null) arm.failed += 1
        else arm.answers.push(answer)
      }),
    )
    if (turns.length < TURNS) turns.push('Yes.', words(random, NEXT_WORDS))
    else open[chosen] = newConversation()
  }
}

function words(random: () => number, [min, max]: readonly [number, number]): string {
  const count = min + Math.floor(random() * (max - min))
  return Array.from({ length: count }, () => Math.floor(random() * 1e6).toString(36)).join(' ')
}

async function ask(url: string, turns: readonly string[]): Promise<TimedAnswer | null> {
  const messages = turns.map((content, at) => ({ role: at % 2 === 0 ? 'user' : 'assistant', content }))
  const startedAt = performance.now()
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model: MODEL,
      messages,
      max_tokens: OUTPUT_TOKENS,
      ignore_eos: true,
      stream: true,
      stream_options: { include_usage: true },
    }),
  })
  if (response.status !== 200) return null
  let text = ''
  let ttftMs: number | null = null
  const decoder = new TextDecoder()
  for await (const bytes of response.body!) {
    text += decoder.decode(bytes, { stream: true })
    if (ttftMs === null && /"content":"[^"]/.test(text)) ttftMs = performance.now() - startedAt
  }
  const found = /"prompt_tokens":(\d+).*?"cached_tokens":(\d+)/.exec(text)
  const engine = response.headers.get('x-firstlight-engine')
  if (ttftMs === null || found === null || engine === null) return null
  return { engine, ttftMs, promptTokens: Number(found[1]), cachedTokens: Number(found[2]) }
}

type Row = {
  readonly arm: string
  readonly requests: number
  readonly failed: number
  /** Share of the requests that the named engine has counted. */
  readonly served_match: number
  readonly smaller_share: number
  readonly hit_rate: number
  readonly ttft_ms_mean: number
  readonly ttft_ms_p50: number
}

function rowOf({ name, answers, failed }: Arm, completed: readonly number[]): Row {
  const engines = [...new Set(answers.map(({ engine }) => engine))].toSorted()
  const placed = completed.map((_, at) => answers.filter(({ engine }) => engine === engines[at]).length)
  // The gateway's own trials are completed, too, so a surplus alone is no mistake.
  const served = completed.reduce((total, value, at) => total + Math.min(value, placed[at] ?? 0), 0)
  const sum = (of: (answer: TimedAnswer) => number): number => answers.reduce((total, answer) => total + of(answer), 0)
  return {
    arm: name,
    requests: answers.length,
    failed,
    served_match: round(served / answers.length),
    smaller_share: round(Math.min(...completed) / answers.length),
    hit_rate: round(sum(({ cachedTokens }) => cachedTokens) / sum(({ promptTokens }) => promptTokens)),
    ttft_ms_mean: round(sum(({ ttftMs }) => ttftMs) / answers.length),
    ttft_ms_p50: round(median(answers.map(({ ttftMs }) => ttftMs))),
  }
}

const round = (value: number): number => Math.round(value * 10_000) / 10_000
