/** Two data-parallel ranks behind one address, found by the gateway itself. */
import { startBridge } from '../bridge.ts'
import type { RunningBridge } from '../bridge.ts'
import { servedModel } from '../engine.ts'
import type { RealEngine } from '../engine.ts'
import { generator } from '../fuzz.ts'
import type { RunningGateway } from '../gateway.ts'
import { sendJson } from '../http.ts'
import { adminKey } from '../gateway.ts'
import { check } from '../row.ts'
import type { Row } from '../row.ts'
import { until } from '../until.ts'
import { askStream } from './ask-stream.ts'
import type { StreamAnswer } from './ask-stream.ts'

const CONVERSATIONS = 34
const TURNS = 6
/** Requests between two comparisons with the counters of the engine. */
const COMPARED_EVERY = 17

export const ranksRow: Row = {
  name: 'node-ranks',
  says:
    `With \`data_parallel: auto\`, a server with two ranks is two engines. Each of ${CONVERSATIONS * TURNS} requests ` +
    'is counted by the rank that the gateway chose, and its cached tokens are those that the KV events of that rank ' +
    'predict.',
  run: async (lab) => {
    const server = await lab.engine('ranks')
    const gateway = await lab.gateway('node', 'ranks')
    await until(async () => (await enginesOf(gateway)).join() === 'ranks/0,ranks/1', 'two engines', { limitMs: 30_000 })
    const bridge = await startBridge(lab, gateway, 'ranks')
    try {
      return await converse(gateway, bridge, server)
    } finally {
      await bridge.stop()
    }
  },
}

async function enginesOf({ url }: RunningGateway): Promise<readonly string[]> {
  const headers = { authorization: `Bearer ${adminKey}` }
  const fleet = await sendJson({ url, method: 'GET', path: '/v1/firstlight/fleet', headers })
  const { pools } = fleet as { pools: { engines: { id: string }[] }[] }
  return pools.flatMap(({ engines }) => engines.map(({ id }) => id)).toSorted()
}

type Counts = readonly [number, number]

async function completedBy(server: RealEngine): Promise<Counts> {
  const of = (engine: string): Promise<number> => server.metric('vllm:request_success_total', { engine })
  return [await of('0'), await of('1')]
}

async function converse(gateway: RunningGateway, bridge: RunningBridge, server: RealEngine): Promise<string> {
  const random = generator(45 + Math.floor(Date.now() / 1000))
  const token = (): number => 10 + Math.floor(random() * 1900)
  const prompts: number[][] = Array.from({ length: CONVERSATIONS }, () => [])
  const before = await completedBy(server)
  const answers: StreamAnswer[] = []
  const ranks = new Set<string>()
  let differences = 0
  for (let turn = 0; turn < TURNS; turn++)
    for (const [number, prompt] of prompts.entries()) {
      prompt.push(...Array.from({ length: 60 + (number % 5) * 17 }, token))
      const body = { model: servedModel, prompt, max_tokens: 8, temperature: 0, ignore_eos: true }
      answers.push(await askStream(gateway, { path: '/v1/completions', body }))
      ranks.add(`${number} ${answers.at(-1)!.engine}`)
      await bridge.settled()
      if (answers.length % COMPARED_EVERY === 0) differences += differenceOf(await completedBy(server), before, answers)
    }
  const placed = [0, 1].map((rank) => answers.filter(({ engine }) => engine === `ranks/${rank}`).length)
  const wrong = answers.filter(({ decision, cached }) => (decision.predicted_cached_tokens ?? 0) !== cached)
  const cachedTokens = answers.reduce((sum, { cached }) => sum + cached, 0)
  const result =
    `${answers.length} requests, ${placed.join(' and ')} by rank; ${differences} counted by another rank; ` +
    `${answers.length - wrong.length} predictions of cached tokens exact (${cachedTokens} tokens); ` +
    `${CONVERSATIONS} conversations used ${ranks.size} ranks`
  check(differences === 0 && wrong.length === 0 && Math.min(...placed) >= 0.3 * answers.length, result)
  return result
}

/** Requests that the engine counted elsewhere than the gateway placed them. */
function differenceOf(now: Counts, before: Counts, answers: readonly StreamAnswer[]): number {
  return [0, 1].reduce((sum, rank) => {
    const placed = answers.filter(({ engine }) => engine === `ranks/${rank}`).length
    return sum + Math.abs(now[rank]! - before[rank]! - placed)
  }, 0)
}
