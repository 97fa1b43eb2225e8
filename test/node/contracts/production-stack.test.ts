/**
 * Requirements of production-stack's own black-box tests (tests/e2e/test-routing.py and benchmarks/multi-round-qa),
 * applied to this gateway: the routing line in the log, and what a client receives.
 */
import { afterEach, describe, expect, it } from 'vitest'
import { startFleet, type RunningFleet } from '../../../packages/simulator/src/node/fleet-host.ts'
import type { EngineOptions } from '../../../packages/simulator/src/engine-options.ts'
import { startNodeGateway, type NodeGateway } from '../../kit/node-gateway.ts'
import { until } from '../../wait.ts'

const model = 'facebook/opt-125m'

interface World {
  readonly gateway: NodeGateway
  readonly fleet: RunningFleet
}

let world: World | null = null
afterEach(async () => {
  await world?.gateway.stop(AbortSignal.abort())
  await world?.fleet.close()
  world = null
})

/** Starts the gateway as `test-routing.py` starts its router: sessions by `x-user-id`, the routing line in the log. */
async function start(pool: object, engines: readonly EngineOptions[] = [{}, {}]): Promise<World> {
  const fleet = await startFleet({
    engines,
    model,
    profile: 'instant',
    limits: { blockTokens: 16 },
    vocabularySize: 2048,
  })
  const document = {
    log: { level: 'info', routing: true },
    clusters: [
      {
        id: 'stack',
        pools: [
          {
            model,
            block_tokens: 16,
            session: { header: 'x-user-id' },
            ...pool,
            engines: fleet.urls.map((url, at) => ({ id: `e${at}`, url, role: engines[at]!.role ?? 'any' })),
          },
        ],
      },
    ],
  }
  world = { fleet, gateway: await startNodeGateway(document) }
  return world
}

function post(path: string, body: object, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
  return fetch(`${world!.gateway.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model, ...body }),
  })
}

/** As `send_request` there: a completion with its own id. */
async function completion(id: string, prompt: string, session?: string): Promise<void> {
  const response = await post(
    '/v1/completions',
    { prompt, temperature: 0.7, max_tokens: 10 },
    { 'x-request-id': id, ...(session === undefined ? {} : { 'x-user-id': session }) },
  )
  expect(response.status).toBe(200)
  await response.text()
}

interface Routed {
  readonly id: string
  readonly session: string
  readonly url: string
}

/** Lines of these requests in log order, parsed as `test-routing.py` parses them. */
async function routed(ids: readonly string[], each = 1): Promise<Routed[]> {
  const wanted = new Set(ids)
  return until(() => {
    const found = world!.gateway.lines.flatMap(({ event }) => {
      const match = /Routing request (\S+) with session id (\S+) to (\S+) at ([\d.]+), process time = ([\d.]+)/.exec(
        String(event),
      )
      return match === null || !wanted.has(match[1]!) ? [] : [{ id: match[1]!, session: match[2]!, url: match[3]! }]
    })
    return found.length >= ids.length * each && found
  })
}

const urlsOf = (list: readonly Routed[]): string[] => list.map(({ url }) => url)

describe('the smoke checks of every routing logic', () => {
  it('a gateway configured like production-stack serves health, a list of models and one chat completion', async () => {
    const { gateway } = await start({ policy: 'round_robin' })
    expect((await fetch(`${gateway.url}/health`)).status).toBe(200)
    const models = (await (await fetch(`${gateway.url}/v1/models`)).json()) as { data: { id: string }[] }
    expect(models.data.map(({ id }) => id)).toContain(model)
    const chat = await post('/v1/chat/completions', {
      messages: [{ role: 'user', content: 'Hello' }],
      max_tokens: 10,
      temperature: 0.7,
    })
    expect(chat.status).toBe(200)
    expect(((await chat.json()) as { choices: unknown[] }).choices).toHaveLength(1)
  })
})

describe('roundrobin', () => {
  it('roundrobin sends neighbours to different engines', async () => {
    await start({ policy: 'round_robin' })
    const ids = Array.from({ length: 20 }, (_, at) => `rr-${at}`)
    for (const id of ids) await completion(id, 'Hello')
    const urls = urlsOf(await routed(ids))
    expect(urls.slice(1).filter((url, at) => url === urls[at])).toEqual([])
  })
})

describe('session', () => {
  it('session keeps the five requests of each of eight sessions on one engine, and uses both engines', async () => {
    await start({ policy: 'session' })
    const ids = Array.from({ length: 40 }, (_, at) => `s-${at}`)
    // Sessions are interleaved.
    for (const [at, id] of ids.entries()) await completion(id, `Turn ${at}`, `user-${at % 8}`)
    const bySession = Map.groupBy(await routed(ids), ({ session }) => session)
    expect([...bySession.keys()].sort()).toEqual(Array.from({ length: 8 }, (_, at) => `user-${at}`))
    for (const list of bySession.values())
      expect({ requests: list.length, engines: new Set(urlsOf(list)).size }).toEqual({ requests: 5, engines: 1 })
    expect(new Set([...bySession.values()].flatMap(urlsOf)).size).toBe(2)
  })

  it('session without a session id answers, and logs None', async () => {
    await start({ policy: 'session' })
    await completion('s-none', 'Hello')
    expect((await routed(['s-none']))[0]!.session).toBe('None')
  })
})

/** Chunks of 128 characters that no other group has. */
const chunks = (group: number, count: number): string =>
  Array.from({ length: count }, (_, at) =>
    `g${group}c${at} `.padEnd(128, String.fromCharCode(97 + ((group * 7 + at) % 26))),
  ).join('')

describe('prefixaware', () => {
  it('prefixaware keeps each of six groups of growing and shrinking prompts on one engine, and uses both engines', async () => {
    await start({ policy: 'prefix' })
    const groups = Array.from({ length: 6 }, (_, group) => group)
    // Group sizes grow and shrink, as in the test there at low load.
    const sizes = [1, 2, 4, 8, 6, 3, 1]
    const ids = new Map(
      groups.map((group) => [
        group,
        sizes.map((size) => ({ id: `p-${group}-${size}-${Math.random().toString(36).slice(2)}`, size })),
      ]),
    )
    for (const [group, list] of ids) for (const { id, size } of list) await completion(id, chunks(group, size))
    const lines = await routed([...ids.values()].flat().map(({ id }) => id))
    const engineOf = new Map(lines.map(({ id, url }) => [id, url]))
    const used = groups.map((group) => new Set(ids.get(group)!.map(({ id }) => engineOf.get(id))))
    expect(used.map((urls) => urls.size)).toEqual([1, 1, 1, 1, 1, 1])
    expect(new Set(used.flatMap((urls) => [...urls])).size).toBe(2)
  })
})

describe('disaggregated_prefill', () => {
  it('disaggregated_prefill sends each request to two engines, prefill first, and writes a line for each', async () => {
    const { fleet } = await start({ policy: 'round_robin', split: { mode: 'always', connector: 'nixl' } }, [
      { role: 'prefill' },
      { role: 'decode' },
    ])
    const ids = Array.from({ length: 6 }, (_, at) => `d-${at}`)
    for (const id of ids) await completion(id, `Prompt ${id} `.repeat(20))
    const byRequest = Map.groupBy(await routed(ids, 2), ({ id }) => id)
    for (const id of ids) expect(urlsOf(byRequest.get(id)!)).toEqual([fleet.urls[0], fleet.urls[1]])
  })
})

describe('multi-round-qa', () => {
  const users = 6
  const rounds = 5
  const systemPrompt = Array.from({ length: 60 }, (_, at) => `word${at}`).join(' ')

  interface Round {
    readonly promptTokens: number
    readonly cachedTokens: number
    readonly completionTokens: number
    readonly engine: string
  }

  /** A streamed turn as the benchmark sends it: usage in the last event, always `x-user-id`. */
  async function round(messages: object[], user: string): Promise<Round> {
    const response = await post(
      '/v1/chat/completions',
      { messages, temperature: 0, stream: true, max_tokens: 12, stream_options: { include_usage: true } },
      { 'x-user-id': user },
    )
    expect(response.status).toBe(200)
    const events = (await response.text())
      .split('\n')
      .filter((line) => line.startsWith('data: {'))
      .map((line) => JSON.parse(line.slice(6)) as Event)
    const text = events.map(({ choices }) => choices[0]?.delta.content ?? '').join('')
    // The benchmark takes TTFT from the first event with content, and counts from the last event.
    expect(text.length).toBeGreaterThan(0)
    const { usage } = events.at(-1)!
    messages.push({ role: 'assistant', content: text })
    return {
      promptTokens: usage!.prompt_tokens,
      cachedTokens: usage!.prompt_tokens_details?.cached_tokens ?? 0,
      completionTokens: usage!.completion_tokens,
      engine: response.headers.get('x-firstlight-engine')!,
    }
  }

  interface Event {
    readonly choices: { readonly delta: { readonly content?: string } }[]
    readonly usage?: {
      readonly prompt_tokens: number
      readonly completion_tokens: number
      readonly prompt_tokens_details?: { readonly cached_tokens: number }
    } | null
  }

  /** @param abreast number of concurrent users */
  async function benchmark(abreast = users): Promise<Round[][]> {
    const histories = Array.from({ length: users }, (_, user) => [
      { role: 'system', content: `${systemPrompt} I am user ${user}. ${`history${user} `.repeat(30)}` } as object,
    ])
    const all: Round[][] = []
    for (let turn = 0; turn < rounds; turn++) {
      const ask = (messages: object[], user: number): Promise<Round> => {
        messages.push({
          role: 'user',
          content: `Here is question ${turn}: can you tell me a new long story with a happy ending?`,
        })
        return round(messages, String(user))
      }
      const answers: Round[] = []
      for (let from = 0; from < users; from += abreast)
        answers.push(
          ...(await Promise.all(histories.slice(from, from + abreast).map((messages, at) => ask(messages, from + at)))),
        )
      all.push(answers)
    }
    return all
  }

  // There, a failed request stalls its user and looks like a low rate. Here no request may fail.
  it.each(['round_robin', 'session', 'prefix', 'predicted'])(
    'every user ends every round under %s, with prompts that grow and counts that add up',
    async (policy) => {
      await start({ policy })
      const seen = await benchmark()
      expect(seen.flat()).toHaveLength(users * rounds)
      for (let user = 0; user < users; user++) {
        const prompts = seen.map((turn) => turn[user]!.promptTokens)
        expect(prompts.slice(1).filter((tokens, at) => tokens <= prompts[at]!)).toEqual([])
        expect(seen.map((turn) => turn[user]!.completionTokens)).toEqual(Array.from({ length: rounds }, () => 12))
      }
    },
  )

  it.each(['session', 'prefix', 'predicted'])(
    'multi-round-qa users stay with the engine that has their history under %s, and find most of it cached',
    async (policy) => {
      await start({ policy })
      // A session moves if its engine has more than its share of live requests. With one user at a time it never moves.
      const seen = await benchmark(policy === 'session' ? 1 : users)
      const later = seen.slice(1).flat()
      const share =
        later.reduce((sum, { cachedTokens }) => sum + cachedTokens, 0) /
        later.reduce((sum, { promptTokens }) => sum + promptTokens, 0)
      expect(share).toBeGreaterThan(0.6)
      if (policy === 'session')
        for (let user = 0; user < users; user++) expect(new Set(seen.map((turn) => turn[user]!.engine)).size).toBe(1)
    },
  )
})
