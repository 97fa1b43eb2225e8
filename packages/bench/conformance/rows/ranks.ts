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
import type { Lab, Row } from '../row.ts'
import { until } from '../until.ts'
import { askStream } from './ask-stream.ts'
import type { StreamAnswer } from './ask-stream.ts'

/** The counters of the engine are compared when the number of the conversation is a multiple of this. */
const COMPARED_EVERY = 20

/** A talk of many conversations with the two ranks. */
interface Talk {
  readonly conversations: number
  readonly turns: number
  /** Requests at the same time. The cached tokens of each are compared after all of them. */
  readonly abreast: number
  readonly policy: 'round_robin' | 'predicted'
}

const inTurn: Talk = { conversations: 34, turns: 6, abreast: 1, policy: 'round_robin' }
const together: Talk = { conversations: 80, turns: 13, abreast: 4, policy: 'predicted' }
/** Smallest part of the requests that each rank must serve. */
const MIN_SHARE = 0.3

export const ranksRows: readonly Row[] = [
  {
    name: 'node-ranks',
    says:
      `With \`data_parallel: auto\`, a server with two ranks is two engines. Each of ${countOf(inTurn)} requests ` +
      'is counted by the rank that the gateway chose, and its cached tokens are those that the KV events of that rank ' +
      'predict.',
    run: (lab) => runTalk(lab, inTurn),
  },
  {
    name: 'node-ranks-predicted',
    says:
      `With the policy \`predicted\` and ${together.abreast} requests at the same time, each of two ranks serves at ` +
      `least ${100 * MIN_SHARE} % of ${countOf(together)} requests. The counters and KV events of the ranks agree with ` +
      'the gateway as in `node-ranks`.',
    run: (lab) => runTalk(lab, together),
  },
]

function countOf({ conversations, turns }: Talk): number {
  return conversations * turns
}

async function runTalk(lab: Lab, talk: Talk): Promise<string> {
  const server = await lab.engine('ranks')
  const gateway = await lab.gateway('node', 'ranks')
  await until(async () => (await enginesOf(gateway)).join() === 'ranks/0,ranks/1', 'two engines', { limitMs: 30_000 })
  const bridge = await startBridge(lab, gateway, 'ranks')
  try {
    return await converse(talk, { gateway, bridge, server })
  } finally {
    await bridge.stop()
  }
}

async function enginesOf({ url }: RunningGateway): Promise<readonly string[]> {
  const headers = { authorization: `Bearer ${adminKey}` }
  const fleet = await sendJson({ url, method: 'GET', path: '/v1/firstlight/fleet', headers })
  const { pools } = fleet as { pools: { engines: { id: string }[] }[] }
  return pools.flatMap(({ engines }) => engines.map(({ id }) => id)).toSorted()
}

type Counts = readonly [number, number]

/** Completed requests of clients, by rank. The gateway's own trials have one token of output each. */
async function completedBy(server: RealEngine): Promise<Counts> {
  const of = async (engine: string): Promise<number> =>
    (await server.metric('vllm:request_success_total', { engine })) -
    (await server.metric('vllm:request_generation_tokens_bucket', { engine, le: '1.0' }))
  return [await of('0'), await of('1')]
}

interface World {
  readonly gateway: RunningGateway
  readonly bridge: RunningBridge
  readonly server: RealEngine
}

async function converse(talk: Talk, { gateway, bridge, server }: World): Promise<string> {
  const { conversations, turns, abreast, policy } = talk
  const random = generator(45 + Math.floor(Date.now() / 1000))
  const token = (): number => 10 + Math.floor(random() * 1900)
  const prompts: number[][] = Array.from({ length: conversations }, () => [])
  const before = await completedBy(server)
  const answers: StreamAnswer[] = []
  const ranks = new Set<string>()
  let differences = 0
  const compare = async (): Promise<void> => {
    differences = Math.max(differences, differenceOf(await completedBy(server), before, answers))
  }
  const ask = async (number: number): Promise<void> => {
    const prompt = prompts[number]!
    prompt.push(...Array.from({ length: 40 + (number % 5) * 8 }, token))
    const body = { model: servedModel, prompt, max_tokens: 8, temperature: 0, ignore_eos: true }
    const answer = await askStream(gateway, { path: '/v1/completions', body, policy })
    answers.push(answer)
    ranks.add(`${number} ${answer.engine}`)
  }
  for (let turn = 0; turn < turns; turn++)
    for (let first = 0; first < conversations; first += abreast) {
      const count = Math.min(abreast, conversations - first)
      await Promise.all(Array.from({ length: count }, (_, at) => ask(first + at)))
      await bridge.settled()
      if (first % COMPARED_EVERY === 0) await compare()
    }
  await compare()
  const placed = [0, 1].map((rank) => answers.filter(({ engine }) => engine === `ranks/${rank}`).length)
  const wrong = answers.filter(({ decision, cached }) => (decision.predicted_cached_tokens ?? 0) !== cached)
  const cachedTokens = answers.reduce((sum, { cached }) => sum + cached, 0)
  const result =
    `${answers.length} requests, ${placed.join(' and ')} by rank; ${differences} counted by another rank; ` +
    `${answers.length - wrong.length} predictions of cached tokens exact (${cachedTokens} tokens); ` +
    `${conversations} conversations used ${ranks.size} ranks`
  check(differences === 0 && wrong.length === 0 && Math.min(...placed) >= MIN_SHARE * answers.length, result)
  return result
}

/** Requests that the engine counted elsewhere than the gateway placed them. */
function differenceOf(now: Counts, before: Counts, answers: readonly StreamAnswer[]): number {
  return [0, 1].reduce((sum, rank) => {
    const placed = answers.filter(({ engine }) => engine === `ranks/${rank}`).length
    return sum + Math.abs(now[rank]! - before[rank]! - placed)
  }, 0)
}
