/**
 * An edge in front of two gateways, each with one engine: requests through both, the choice of region, and a region
 * that is killed.
 */
import { servedModel } from '../engine.ts'
import type { RealEngine } from '../engine.ts'
import { generator } from '../fuzz.ts'
import type { GatewayKind, RunningGateway } from '../gateway.ts'
import { open, send } from '../http.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import { until } from '../until.ts'
import { usageOf } from './ask-stream.ts'
import { direct, endless, total, withKey } from './asks.ts'
import { asAdmin } from './decisions.ts'
import { compareWithEngine, passed } from './forwarding.ts'
import { startRegions } from './regions-world.ts'
import type { Regions, RegionsSetting } from './regions-world.ts'
import { words } from './routing.ts'
import { readAll } from '../read-all.ts'

const talks = 10
/**
 * Words of about four tokens each. Without a cache the model of 8 layers takes seconds. A tiny one is too fast to show
 * a difference between regions.
 */
const historyWords = 600
const blockTokens = 32

export function regionAnswers(kind: GatewayKind): Row {
  return {
    name: `${kind}-regions-answers`,
    says:
      `Through an edge (${kind}) and the gateway of a region on Node every endpoint returns the engine's ` +
      `response, streamed and not, with its errors byte for byte; a chat's usage is the engine's.`,
    run: async (lab) => within({ lab, kind, pair: ['a', 'b'] }, (regions) => answers(lab, regions)),
  }
}

const isolates = 3

export const isolatesRow: Row = {
  name: 'worker-regions-isolates',
  says:
    `Through an edge and regions on Workers, each with ${isolates} isolates behind a balancer that asks them in turn, ` +
    `every endpoint returns the engine's response, streamed and not, with its errors byte for byte; a chat's usage ` +
    `is the engine's.`,
  run: async (lab) => within({ lab, kind: 'worker', isolates, pair: ['a', 'b'] }, (regions) => answers(lab, regions)),
}

/** With a model whose prefills are slow. */
export function regionRows(kind: GatewayKind): Row[] {
  return [
    {
      name: `${kind}-regions-cache`,
      says:
        `After ${talks} long chats that one of two regions served without the edge (${kind}), the edge sends ` +
        `every next turn there, from the regions' digests, and the engine has the whole first turn cached, by ` +
        'its own count.',
      run: async (lab) => within({ lab, kind, pair: ['slow-a', 'slow-b'] }, cache),
    },
    {
      name: `${kind}-region-dies`,
      says:
        `When a region's gateway is killed, a stream through it (${kind}) ends with an error event, and the ` +
        'other region serves its chats without an error; once it is back it gets requests again.',
      run: async (lab) => within({ lab, kind, pair: ['slow-a', 'slow-b'] }, dies),
    },
  ]
}

async function within(setting: RegionsSetting, look: (regions: Regions) => Promise<string>): Promise<string> {
  const regions = await startRegions(setting)
  try {
    const seen = await look(regions)
    return `${seen}; ${await untilReleased(regions)}`
  } finally {
    await regions.stop()
  }
}

interface Message {
  readonly role: string
  readonly content: string
}

interface RegionAnswer {
  readonly cluster: string
  readonly prompt: number
  readonly cached: number
  readonly text: string
  readonly ms: number
}

const chatOf = (messages: readonly Message[]) => ({
  model: servedModel,
  messages,
  max_tokens: 8,
  temperature: 0,
  ignore_eos: true,
})

/** A chat that does not stream. */
async function chat({ url }: RunningGateway, messages: readonly Message[]): Promise<RegionAnswer> {
  const began = performance.now()
  const { status, headers, body } = await send({
    url,
    method: 'POST',
    path: '/v1/chat/completions',
    headers: withKey({}),
    body: chatOf(messages),
    limitMs: 90_000,
  })
  const text = body.toString('utf8')
  check(status === 200, `${status}: ${text.slice(0, 200)}`)
  const { choices, usage } = JSON.parse(text) as {
    choices: { message: { content: string } }[]
    usage: ReturnType<typeof usageOf>
  }
  return {
    cluster: String(headers['x-firstlight-cluster']),
    prompt: usage.prompt_tokens,
    cached: usage.prompt_tokens_details?.cached_tokens ?? 0,
    text: choices[0]!.message.content,
    ms: performance.now() - began,
  }
}

async function answers(lab: Lab, { edge, engines }: Regions): Promise<string> {
  const requests = { ...passed.answers, ...passed.errors }
  const unlike = await compareWithEngine(lab, edge.url, requests)
  check(unlike.length === 0, unlike.join('; '))
  const messages = [{ role: 'user', content: words(generator(51), 40) }]
  const body = { ...chatOf(messages), stream: true, stream_options: { include_usage: true } }
  const streamed = await send({
    url: edge.url,
    method: 'POST',
    path: '/v1/chat/completions',
    headers: withKey({}),
    body,
  })
  const own = await send(direct(engines.paris, body, '/v1/chat/completions'))
  const [usage, whole, ofEngine] = [
    usageOf(streamed.body.toString('utf8')),
    await chat(edge, messages),
    usageOf(own.body.toString('utf8')),
  ]
  check(
    usage.prompt_tokens === ofEngine.prompt_tokens && whole.prompt === ofEngine.prompt_tokens,
    `prompt tokens: ${usage.prompt_tokens} streamed, ${whole.prompt} whole, ${ofEngine.prompt_tokens} by the engine`,
  )
  return `${Object.keys(requests).length} exchanges alike; a chat of ${whole.prompt} tokens, whole and streamed`
}

interface Talk {
  readonly region: 'paris' | 'oregon'
  readonly messages: readonly Message[]
  /** Tokens of the first turn. */
  readonly prompt: number
}

/** Sends each prompt directly to one region, and waits until the edge has its digest. */
async function begin({ edge, gateways }: Regions, count: number): Promise<Talk[]> {
  const random = generator(Math.floor(Date.now() / 1000))
  const begun: Talk[] = []
  for (let at = 0; at < count; at++) {
    const region = at % 2 === 0 ? 'paris' : 'oregon'
    const messages = [
      { role: 'system', content: words(random, historyWords) },
      { role: 'user', content: words(random, 20) },
    ]
    const { prompt, cached, text } = await chat(gateways[region], messages)
    check(cached < blockTokens * 2, `${cached} tokens of a new prompt were cached in ${region}`)
    begun.push({
      region,
      prompt,
      messages: [...messages, { role: 'assistant', content: text }, { role: 'user', content: words(random, 20) }],
    })
  }
  await untilDigests(edge)
  return begun
}

async function cache(regions: Regions): Promise<string> {
  const begun = await begin(regions, talks)
  const seen = []
  for (const talk of begun) seen.push({ talk, ...(await chat(regions.edge, talk.messages)) })
  const local = seen.filter(({ talk, cluster }) => cluster === talk.region)
  const result =
    `${local.length} of ${seen.length} to the region that knew them; cached/first turn ` +
    `${seen.map(({ talk, cached }) => `${cached}/${talk.prompt}`).join(' ')}`
  // A partial block is not cached.
  check(local.length === talks && local.every(({ talk, cached }) => cached > talk.prompt - 2 * blockTokens), result)
  return result
}

async function dies(regions: Regions): Promise<string> {
  const { edge, gateways } = regions
  const hers = (await begin(regions, 6)).filter(({ region }) => region === 'oregon')
  // Its prefix is there, so this stream goes there too.
  const stream = await open({
    url: edge.url,
    method: 'POST',
    path: '/v1/chat/completions',
    headers: withKey({}),
    body: { ...chatOf(hers[0]!.messages), max_tokens: endless.max_tokens - hers[0]!.prompt, stream: true },
  })
  check(
    stream.response.headers['x-firstlight-cluster'] === 'oregon',
    `the stream went to ${stream.response.headers['x-firstlight-cluster']}`,
  )
  const ended = readAll(stream.response)
  await until(async () => (await regions.engines.oregon.metric('vllm:num_requests_running')) === 1, 'the stream to run')
  gateways.oregon.process.kill('SIGKILL')
  const after = []
  for (const { messages } of hers) after.push(await chat(edge, messages))
  const text = await ended
  check(/data: \{"error"/.test(text), `the stream ended in ${JSON.stringify(text.slice(-200))}`)
  check(
    after.every(({ cluster }) => cluster === 'paris'),
    `answered by ${after.map(({ cluster }) => cluster).join(' ')}`,
  )
  await regions.startAgain('oregon')
  const random = generator(52)
  const back = await until(
    async () => (await chat(edge, [{ role: 'user', content: words(random, 40) }])).cluster === 'oregon',
    'oregon to be sent something again',
    { limitMs: 60_000 },
  )
  return (
    `the stream ended in ${JSON.stringify(text.trimEnd().split('\n\n').at(-1)!.slice(0, 90))}; ${after.length} ` +
    `of ${after.length} by paris, in ${Math.round(Math.max(...after.map(({ ms }) => ms)))} ms at most; sent to ` +
    `oregon ${(back / 1000).toFixed(1)} s after it was back`
  )
}

interface FleetView {
  readonly pools: readonly {
    readonly cluster: string
    readonly gateway?: {
      readonly reachable: boolean
      readonly age_ms: number
      readonly blocking_match: boolean
      readonly engines: number
      readonly requests: number
      readonly queued: number
    } | null
    readonly engines: readonly { readonly id: string; readonly requests?: number }[]
  }[]
}

const fleetOf = (gateway: RunningGateway): Promise<FleetView> => asAdmin<FleetView>(gateway, '/v1/firstlight/fleet')

/** Waits for newer digests of the regions. On a Worker a view requests them, on Node a timer does. */
async function untilDigests(edge: RunningGateway): Promise<void> {
  const from = performance.now()
  await until(
    async () =>
      (await fleetOf(edge)).pools.every(
        ({ gateway }) => gateway?.reachable === true && gateway.age_ms < performance.now() - from - 100,
      ),
    'both regions to tell the edge',
    { everyMs: 200 },
  )
  const { pools } = await fleetOf(edge)
  check(
    pools.every(({ gateway }) => gateway!.blocking_match),
    'prompts are cut in a region otherwise than at the edge',
  )
}

/** Waits until no booking is left at the edge, in the regions and in the engines. */
async function untilReleased({ edge, gateways, engines }: Regions): Promise<string> {
  const all: readonly RealEngine[] = Object.values(engines)
  let left = ''
  await until(
    async () => {
      const fleets = await Promise.all([edge, ...Object.values(gateways)].map(fleetOf))
      const booked = fleets.map(({ pools }) =>
        pools.reduce(
          (sum, { engines: list, gateway }) =>
            sum + list.reduce((own, { requests = 0 }) => own + requests, gateway?.requests ?? 0),
          0,
        ),
      )
      const running = (await total(all, 'vllm:num_requests_running')) + (await total(all, 'vllm:num_requests_waiting'))
      left = `edge and regions ${booked.join(' ')}, engines ${running}`
      return booked.every((count) => count === 0) && running === 0
    },
    'nothing to be booked',
    { everyMs: 200 },
  ).catch((error: unknown) => check(false, `${(error as Error).message}: ${left}`))
  return 'nothing booked at the end'
}
