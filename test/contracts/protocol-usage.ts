/** What requests of each wire protocol cost their key, and what their first token and prompt are. */
import { afterEach, describe, expect, it } from 'vitest'
import { type ProtocolStream, protocolStreams, streamed, wholeStream } from './protocol-streams.ts'
import { SILENCE, type Piece, type FakeAnswer } from '../kit/fake-answer.ts'
import { openPlainEngine } from '../kit/engine-pair.ts'
import type { EngineRequest } from '../kit/engine-request.ts'
import type { FakeEngine } from '../kit/fake-engine.ts'
import { until } from '../wait.ts'
import { openGateway, runtimeNames, type Runtime, type TestGateway } from '../kit/gateway.ts'

const KEY = 'team-secret-for-tests'
const PROBE_TOKENS = 4
/** Far more than the own estimate of a short prompt. */
const PROMPT_TOKENS = 100

const byName = (name: string): ProtocolStream => protocolStreams.find((one) => one.name === name)!

/** A request whose cost is known. */
const probe = { messages: [{ role: 'user', content: 'probe' }], max_tokens: 1 }
const isProbe = ({ text }: EngineRequest): boolean => text.includes('"probe"')
const MAX_OUTPUT = 1_000_000

/** Members of an answer in all protocols. */
const wholeAnswer = { type: 'message', choices: [], content: [], output: [], status: 'completed' }

const probeAnswer: FakeAnswer = {
  body: {
    choices: [{ index: 0, message: { content: 'a' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: PROBE_TOKENS - 1, completion_tokens: 1 },
  },
}

type Answer = FakeAnswer | ((request: EngineRequest) => FakeAnswer)

/** A gateway before engines, with one key. */
class Site {
  readonly engines: readonly FakeEngine[]
  readonly #gateway: TestGateway

  constructor(engines: readonly FakeEngine[], gateway: TestGateway) {
    this.engines = engines
    this.#gateway = gateway
  }

  static async open(runtime: Runtime, count: number, pool: object = {}, more: object = {}): Promise<Site> {
    const engines = await Promise.all(Array.from({ length: count }, openPlainEngine))
    const gateway = await openGateway({
      runtime,
      engines: engines.map(({ url }, at) => ({ id: `e${at}`, url, type: 'vllm' })),
      pool: { circuit: { failures: 1000 }, stats_interval_ms: 60_000, ...pool },
      config: {
        open: false,
        keys: [{ name: 'team', secret: KEY, limits: { tokens_per_min: 10_000_000 } }],
        ...more,
      },
    })
    return new Site(engines, gateway)
  }

  set answer(answer: Answer) {
    for (const engine of this.engines) answerWith(engine, answer)
  }

  post(path: string, body: object, signal?: AbortSignal): Promise<Response> {
    const headers = { authorization: `Bearer ${KEY}` }
    return this.#gateway.post(path, { model: 'm', ...body }, { headers, ...(signal === undefined ? {} : { signal }) })
  }

  async stream({ path, body }: ProtocolStream, more: object = {}): Promise<string> {
    return (await this.post(path, { ...body, stream: true, ...more })).text()
  }

  /** Leaves after this many output events. */
  async leave({ path, body }: ProtocolStream, outputs: number, more: object = {}): Promise<void> {
    const leaving = new AbortController()
    const response = await this.post(path, { ...body, stream: true, ...more }, leaving.signal)
    let text = ''
    const decoder = new TextDecoder()
    try {
      for await (const piece of response.body!) {
        text += decoder.decode(piece as Uint8Array, { stream: true })
        if (text.split('out ').length > outputs) leaving.abort()
      }
    } catch {
      // It left.
    }
  }

  /** Sends a request without a stream, and leaves once an engine has it. */
  async leaveWhole({ path, body }: ProtocolStream, more: object = {}): Promise<void> {
    const leaving = new AbortController()
    const before = this.#posts()
    const headers = { authorization: `Bearer ${KEY}` }
    const left = this.#gateway.leave({ path, body: { model: 'm', ...body, ...more }, headers }, leaving.signal)
    await until(() => this.#posts() > before)
    leaving.abort()
    await left
  }

  #posts = (): number => this.engines.reduce((sum, { posts }) => sum + posts.length, 0)

  /** Remaining tokens of the key while a probe runs. */
  async #remaining(): Promise<number> {
    const response = await this.post('/v1/chat/completions', probe)
    await response.text()
    return Number(response.headers.get('x-ratelimit-remaining-tokens'))
  }

  /** Tokens that this work cost the key. */
  async costOf(work: () => Promise<unknown>): Promise<() => Promise<number>> {
    const before = await this.#remaining()
    await work()
    let probes = 0
    return async () => before - (await this.#remaining()) - ++probes * PROBE_TOKENS
  }

  async usage(): Promise<Record<string, number>> {
    const response = await this.#gateway.get('/v1/firstlight/usage')
    return ((await response.json()) as { keys: Record<string, number>[] }).keys[0]!
  }

  /** Tokens that the budget of the key has spent. */
  async spentTokens(): Promise<number> {
    const response = await this.#gateway.get('/v1/firstlight/usage')
    return ((await response.json()) as { budgets: { used: number }[] }).budgets[0]?.used ?? 0
  }

  /** Waits until no booking is held. */
  idle(): Promise<void> {
    return this.#gateway.idle()
  }

  async close(): Promise<void> {
    await this.#gateway.close()
    for (const engine of this.engines) await engine.close()
  }
}

/** Probes have an answer of their own. */
function answerWith(engine: FakeEngine, answer: Answer): void {
  engine.routes['POST *'] = (request) =>
    isProbe(request) ? probeAnswer : typeof answer === 'function' ? answer(request) : answer
}

const outputs = ({ delta }: ProtocolStream, count: number): string[] =>
  Array.from({ length: count }, (_, at) => delta(`out ${at}`))

/** Keep-alives, by which a platform finds out that its client has left. */
const keepAlives = Array.from({ length: 100 }, () => [50, ': wait\n\n']).flat()

export function protocolUsageContract(runtime: Runtime): void {
  const name = runtimeNames[runtime]
  let site: Site
  afterEach(() => site.close())

  describe(`tokens of a key on ${name}`, () => {
    it.each(protocolStreams.map((one) => [one.name, one] as const))(
      `O27: a key on ${name} pays for the tokens that a stream of %s used`,
      async (_, protocol) => {
        site = await Site.open(runtime, 1)
        site.answer = streamed(wholeStream(protocol, 'out'))
        const cost = await site.costOf(async () => {
          for (let at = 0; at < 6; at++) await site.stream(protocol)
        })
        // Chats and completions report no usage here, so the prompt's estimate and one event count.
        await expect.poll(cost).toBeLessThan(6 * 60)
        expect(await cost()).toBeGreaterThanOrEqual(6 * 2)
      },
    )

    it.each(protocolStreams.map((one) => [one.name, one] as const))(
      `S17: a key on ${name} pays for prompt and output so far if the client of a stream of %s leaves`,
      async (_, protocol) => {
        site = await Site.open(runtime, 1)
        site.answer = streamed([protocol.opening, ...outputs(protocol, 40), ...keepAlives])
        const cost = await site.costOf(() => site.leave(protocol, 40, { max_tokens: 32_000 }))
        await expect.poll(cost).toBeLessThan(40 + PROMPT_TOKENS)
        expect(await cost()).toBeGreaterThanOrEqual(40)
        expect((await site.usage())['output_tokens']).toBeGreaterThanOrEqual(40)
      },
    )

    const whens = ['before', 'after'] as const
    it.each(protocolStreams.flatMap((one) => whens.map((when) => [one.name, when, one] as const)))(
      `S17: a key on ${name} pays for an answer of %s that is no stream if its client leaves %s the head: prompt, and output by the engine’s pace`,
      async (_, when, protocol) => {
        site = await Site.open(runtime, 1)
        const { path, body } = protocol
        const usage = { prompt_tokens: 3, completion_tokens: MAX_OUTPUT, input_tokens: 3, output_tokens: MAX_OUTPUT }
        site.answer = { body: { ...wholeAnswer, usage } }
        await (await site.post(path, body)).text()
        // So many tokens in a moment: a client that leaves after it has had all that its request allows.
        site.answer = when === 'before' ? SILENCE : { pieces: ['{', new Promise(() => undefined)] }
        const cost = await site.costOf(() => site.leaveWhole(protocol, { max_tokens: 50, max_output_tokens: 50 }))
        await expect.poll(cost, { timeout: 10_000 }).toBeGreaterThan(50)
        expect(await cost()).toBeLessThan(50 + PROMPT_TOKENS)
        await site.idle()
      },
    )

    it.each([
      ['/v1/messages/count_tokens', { messages: [{ role: 'user', content: 'word '.repeat(500) }] }],
      ['/tokenize', { prompt: 'word '.repeat(500) }],
      ['/detokenize', { tokens: [1, 2, 3] }],
    ])(`a key on ${name} pays nothing for tokens that are counted at %s`, async (path, body) => {
      const budgets = [{ per: 'day', tokens: 1_000_000 }]
      const limits = { tokens_per_min: 10_000_000 }
      site = await Site.open(runtime, 1, {}, { keys: [{ name: 'team', secret: KEY, limits, budgets }] })
      site.answer = { body: { input_tokens: 500, count: 500, tokens: [1], prompt: 'abc' } }
      const spent = await site.spentTokens()
      const cost = await site.costOf(async () => {
        for (let at = 0; at < 3; at++) expect(await (await site.post(path, body)).text()).toContain('500')
      })
      expect(await cost()).toBe(0)
      // The budget has the probes alone.
      await expect.poll(() => site.spentTokens()).toBe(spent + 2 * PROBE_TOKENS)
    })

    it.each(['chat', 'completions'])(
      `a stream of %s with a length on ${name} has no usage record that its client did not ask for`,
      async (protocol) => {
        site = await Site.open(runtime, 1)
        const sent = wholeStream(byName(protocol), 'out')
        const usage = `data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 70, completion_tokens: 7 } })}\n\n`
        const withUsage = sent.replace('data: [DONE]', `${usage}data: [DONE]`)
        const headers = { 'content-type': 'text/event-stream', 'content-length': String(withUsage.length) }
        site.answer = { headers, body: withUsage }
        expect(await site.stream(byName(protocol))).toBe(sent)
        const requested = { stream_options: { include_usage: true } }
        expect(await site.stream(byName(protocol), requested)).toBe(withUsage)
        site.answer = { headers, pieces: [sent.slice(0, -30)], end: 'truncate' }
        const broken = await site.post(byName(protocol).path, { ...byName(protocol).body, stream: true })
        await expect(broken.text()).rejects.toThrow()
      },
    )

    it.each([
      ['no choices', {}],
      ['null for its choices', { choices: null }],
      ['an empty list of choices', { choices: [] }],
    ])(`a usage record with %s reaches the client on ${name} only if the client asked for it`, async (_, choices) => {
      site = await Site.open(runtime, 1)
      const usage = `data: ${JSON.stringify({ id: 'c', ...choices, usage: { prompt_tokens: 70, completion_tokens: 7 } })}\n\n`
      for (const protocol of [byName('chat'), byName('completions')]) {
        const sent = wholeStream(protocol, 'out')
        const withUsage = sent.replace('data: [DONE]', `${usage}data: [DONE]`)
        site.answer = streamed(withUsage)
        expect(await site.stream(protocol)).toBe(sent)
        expect(await site.stream(protocol, { stream_options: { include_usage: true } })).toBe(withUsage)
      }
      await expect.poll(() => site.usage()).toMatchObject({ prompt_tokens: 280, output_tokens: 28 })
    })

    it.each(protocolStreams.map((one) => [one.name, one] as const))(
      `S16: a key on ${name} pays nothing for a request of %s that the engine refuses`,
      async (_, { path, body }) => {
        site = await Site.open(runtime, 1)
        site.answer = { status: 400, body: { error: { message: 'no', type: 'BadRequestError', code: 400 } } }
        const cost = await site.costOf(async () => (await site.post(path, body)).text())
        await expect.poll(cost).toBe(0)
      },
    )

    it.each(protocolStreams.map((one) => [one.name, one] as const))(
      `S16b: a key on ${name} does not pay for the output limit of a stream of %s that breaks`,
      async (_, protocol) => {
        site = await Site.open(runtime, 1)
        site.answer = streamed(protocol.opening + protocol.delta('out'), { end: 'truncate' })
        const cost = await site.costOf(async () => site.stream(protocol).catch(() => ''))
        await expect.poll(cost).toBeLessThan(PROMPT_TOKENS)
      },
    )

    const tools = [
      {
        type: 'function',
        name: 'f',
        parameters: { type: 'object', properties: { usage: { input_tokens: 1, output_tokens: 0 } } },
      },
    ]

    it(`O2: a key on ${name} does not pay for usage that is named in the tools of a stream`, async () => {
      site = await Site.open(runtime, 1)
      const protocol = byName('responses')
      const created = { type: 'response.created', response: { id: 'resp_1', tools, status: 'in_progress' } }
      site.answer = streamed([
        `event: response.created\ndata: ${JSON.stringify(created)}\n\n`,
        ...outputs(protocol, 200),
        ...keepAlives,
      ])
      const cost = await site.costOf(() => site.leave(protocol, 200, { tools, max_output_tokens: 4_000 }))
      await expect.poll(cost).toBeLessThan(200 + 2 * PROMPT_TOKENS)
      expect(await cost()).toBeGreaterThanOrEqual(200)
    })

    it(`O2: a key on ${name} pays for the usage of a response, not for one in its tools`, async () => {
      site = await Site.open(runtime, 1)
      const { path, body } = byName('responses')
      const usage = { input_tokens: 70, output_tokens: 9 }
      site.answer = { body: { id: 'resp_2', usage, tools } }
      const cost = await site.costOf(async () => (await site.post(path, { ...body, tools })).text())
      // The reservation of the probe follows the learned length of tokens.
      await expect.poll(async () => Math.abs((await cost()) - 79)).toBeLessThan(4)
    })

    it.each([true, false])(
      `S1: a key on ${name} pays for cached tokens of messages, as for those of chats (stream: %s)`,
      async (stream) => {
        site = await Site.open(runtime, 1)
        const usages = [
          { input_tokens: 20_000, output_tokens: 10, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
          { input_tokens: 800, output_tokens: 10, cache_creation_input_tokens: 0, cache_read_input_tokens: 19_200 },
        ]
        let sent = 0
        site.answer = () => {
          const usage = usages[Math.min(sent++, 1)]!
          if (!stream) return { body: { type: 'message', content: [], usage } }
          const first = { type: 'message_start', message: { usage: { input_tokens: 20_000, output_tokens: 0 } } }
          const last = { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage }
          const events = [first, { type: 'content_block_delta', delta: { text: 'a' } }, last, { type: 'message_stop' }]
          return streamed(events.map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`).join(''))
        }
        const { path, body } = byName('messages')
        const cost = await site.costOf(async () => {
          for (let at = 0; at < 6; at++) await (await site.post(path, { ...body, stream })).text()
        })
        await expect.poll(cost).toBe(6 * 20_010)
        expect(await site.usage()).toMatchObject({ cached_tokens: 5 * 19_200 })
      },
    )
  })

  describe(`usage in two events of a message on ${name}`, () => {
    const zeros = { input_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }

    it.each([
      ['zeros at the end', { input_tokens: 15, cache_read_input_tokens: 5 }, { ...zeros, output_tokens: 10 }],
      ['nothing at the end', { input_tokens: 15, cache_read_input_tokens: 5 }, { output_tokens: 10 }],
      ['zeros at the start', zeros, { input_tokens: 15, cache_read_input_tokens: 5, output_tokens: 10 }],
    ])(`a key on ${name} pays for the prompt of a message with %s`, async (_where, usage, last) => {
      site = await Site.open(runtime, 1)
      const { path, body } = byName('messages')
      const events = [
        { type: 'message_start', message: { usage: { output_tokens: 0, ...usage } } },
        { type: 'content_block_delta', delta: { text: 'a' } },
        { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: last },
        { type: 'message_stop' },
      ]
      site.answer = streamed(events.map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`).join(''))
      const cost = await site.costOf(async () => (await site.post(path, { ...body, stream: true })).text())
      await expect.poll(cost).toBe(30)
    })
  })

  describe(`a stream before its first token on ${name}`, () => {
    const protocol = byName('responses')
    /** A stream whose output starts after `wait`: a time, or an event. */
    const late = (wait: Piece): FakeAnswer =>
      streamed([protocol.opening, wait, protocol.delta('out') + protocol.closing])

    it(`O22: a stream on ${name} is not idle before its first token, whatever came before`, async () => {
      site = await Site.open(runtime, 1, { limits: { idle_ms: 300 } })
      site.answer = late(900)
      expect(await site.stream(protocol)).toBe(wholeStream(protocol, 'out'))
    })

    it(`O22c: a stream on ${name} is hedged before its first token, although it has begun`, async () => {
      site = await Site.open(runtime, 2, { retry: { hedge_ms: 100, share: 1 }, policy: 'round_robin' })
      site.answer = late(new Promise(() => undefined))
      answerWith(site.engines[1]!, late(10))
      for (let at = 0; at < 2; at++) expect(await site.stream(protocol)).toBe(wholeStream(protocol, 'out'))
      // Without a hedge, the stream of this engine would not have ended.
      expect(site.engines[0]!.posts.length).toBeGreaterThan(0)
    })

    it(`S14: heartbeats of a stream on ${name} are no events of their own`, async () => {
      site = await Site.open(runtime, 1, {}, { limits: { heartbeat_ms: 100 } })
      const chat = byName('chat')
      const event = (id: number): string => `id: ${id}\n${chat.delta('out')}`
      const next = Promise.withResolvers<void>()
      site.answer = streamed([event(1), next.promise, `${event(2)}id: 3\n${chat.closing}`])
      const response = await site.post(chat.path, { ...chat.body, stream: true })
      let text = ''
      const decoder = new TextDecoder()
      for await (const piece of response.body!) {
        text += decoder.decode(piece as Uint8Array, { stream: true })
        if (text.split(': ping\n').length > 2) next.resolve()
      }
      expect(text).not.toContain(': ping\n\n')
      expect(text.replaceAll(': ping\n', '')).toBe(`${event(1)}${event(2)}id: 3\n${chat.closing}`)
    })
  })

  describe(`prompts on ${name}`, () => {
    it(`S2: prompts of Claude Code on ${name} go to the engine with the conversation, whatever the billing block has`, async () => {
      site = await Site.open(runtime, 4, { policy: 'prefix' })
      const messages = byName('messages')
      site.answer = streamed(wholeStream(messages, 'out'))
      const ask = async (conversation: number, turn: number): Promise<number> => {
        const before = site.engines.map(({ posts }) => posts.length)
        const system = [
          {
            type: 'text',
            text: `x-anthropic-billing-header: cc_version=2.1.100.7b4; cc_entrypoint=cli; cch=${conversation}${turn};`,
          },
          { type: 'text', text: `S${conversation} ${`rule ${conversation} `.repeat(3_000)}` },
        ]
        const turns = Array.from({ length: turn + 1 }, (_, at) => ({
          role: at % 2 === 0 ? 'user' : 'assistant',
          content: `turn ${at}`,
        }))
        await site.stream(messages, { system, messages: turns })
        return site.engines.findIndex(({ posts }, at) => posts.length > before[at]!)
      }
      const engines = []
      for (let conversation = 0; conversation < 6; conversation++) engines.push(await ask(conversation, 0))
      for (const turn of [1, 2, 3])
        for (let conversation = 0; conversation < 6; conversation++)
          expect(await ask(conversation, turn)).toBe(engines[conversation])
    })
  })
}
