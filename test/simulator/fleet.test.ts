import { afterEach, describe, expect, it } from 'vitest'
import { startFleet, type HostOptions, type RunningFleet } from '../../packages/simulator/src/node/fleet-host.ts'
import { ownPorts } from '../own-ports.ts'
import { until } from '../wait.ts'

let fleet: RunningFleet | undefined
afterEach(async () => {
  await fleet?.close()
  fleet = undefined
})

const start = async (options: HostOptions = {}): Promise<RunningFleet> =>
  (fleet = await startFleet({ profile: 'test', ...options }))

const ask = (
  url: string,
  body: object,
  init: { path?: string; headers?: Record<string, string>; signal?: AbortSignal } = {},
): Promise<Response> =>
  fetch(`${url}${init.path ?? '/v1/chat/completions'}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...init.headers },
    body: JSON.stringify({
      messages: [{ role: 'user', content: 'Say something about the sea' }],
      max_tokens: 20,
      ...body,
    }),
    ...(init.signal === undefined ? {} : { signal: init.signal }),
  })

interface Chat {
  readonly choices: readonly {
    readonly message: {
      readonly content: string
      readonly tool_calls?: readonly { function: { name: string; arguments: string } }[]
    }
    readonly finish_reason: string
  }[]
  readonly usage: {
    readonly completion_tokens: number
    readonly prompt_tokens: number
    readonly prompt_tokens_details: { readonly cached_tokens: number }
  }
  readonly kv_transfer_params: Record<string, unknown> | null
}

const chat = async (url: string, body: object): Promise<Chat> => (await (await ask(url, body)).json()) as Chat

const records = (text: string): unknown[] =>
  text
    .split('\n\n')
    .filter((record) => record.startsWith('data: {'))
    .map((record) => JSON.parse(record.slice(6)) as unknown)

describe('simulated fleet', () => {
  it('the simulated fleet returns the same text streamed and unstreamed, on every engine', async () => {
    const { urls } = await start({ engines: 2 })
    const streamed = records(await (await ask(urls[0]!, { stream: true })).text()) as {
      choices: { delta: { content?: string } }[]
    }[]
    const text = streamed.map(({ choices }) => choices[0]?.delta.content ?? '').join('')
    const whole = await chat(urls[1]!, {})
    expect(text).toBe(whole.choices[0]!.message.content)
    expect(text.split(' ').filter(Boolean)).toHaveLength(20)
  })

  it('the simulated fleet has its own response cached for the next prompt', async () => {
    const { urls } = await start()
    const first = [{ role: 'user', content: 'x'.repeat(300) }]
    const answer = await chat(urls[0]!, { messages: first, max_tokens: 200 })
    const next = await chat(urls[0]!, {
      messages: [
        ...first,
        { role: 'assistant', content: answer.choices[0]!.message.content },
        { role: 'user', content: 'and then?' },
      ],
    })
    const usedTokens = answer.usage.prompt_tokens + answer.usage.completion_tokens
    expect(next.usage.prompt_tokens_details.cached_tokens).toBeGreaterThan(usedTokens - 32)
  })

  it('the simulated fleet computes the whole prompt for prompt_logprobs, and has it cached afterwards', async () => {
    const { urls } = await start()
    const cachedOf = async (path: string, body: object) =>
      ((await (await ask(urls[0]!, body, { path })).json()) as Chat).usage.prompt_tokens_details.cached_tokens
    const messages = [{ role: 'user', content: 'x'.repeat(300) }]
    expect(await cachedOf('/v1/chat/completions', { messages, prompt_logprobs: 1 })).toBe(0)
    expect(await cachedOf('/v1/chat/completions', { messages })).toBeGreaterThan(32)
    expect(await cachedOf('/v1/chat/completions', { messages, prompt_logprobs: 1 })).toBe(0)
    expect(await cachedOf('/v1/chat/completions', { messages, echo: true })).toBe(0)
    const prompt = { messages: undefined, prompt: 'y'.repeat(300) }
    await cachedOf('/v1/completions', prompt)
    expect(await cachedOf('/v1/completions', { ...prompt, echo: true, logprobs: 1 })).toBe(0)
    expect(await cachedOf('/v1/completions', { ...prompt, echo: true })).toBeGreaterThan(32)
  })

  it('the simulated fleet calls a required tool with arguments that match its schema', async () => {
    const { urls } = await start()
    const parameters = { type: 'object', properties: { city: { type: 'string' }, days: { type: 'integer' } } }
    const tools = [{ type: 'function', function: { name: 'weather', parameters } }]
    const answer = await chat(urls[0]!, { tools, tool_choice: 'required', max_tokens: 100 })
    const [call] = answer.choices[0]!.message.tool_calls!
    expect(call!.function.name).toBe('weather')
    expect(JSON.parse(call!.function.arguments)).toEqual({ city: expect.any(String), days: expect.any(Number) })
    expect(answer.choices[0]!.finish_reason).toBe('tool_calls')
  })

  it('the simulated fleet aborts the request when the client disconnects, streaming or not', async () => {
    const { urls, engines } = await start({ profile: 'demo' })
    for (const [count, stream] of [true, false].entries()) {
      const leave = new AbortController()
      const answer = ask(urls[0]!, { stream, max_tokens: 5000 }, { signal: leave.signal })
      answer.catch(() => undefined)
      await until(() => engines[0]!.driver.model.running === 1)
      leave.abort()
      await until(() => engines[0]!.log.aborted === count + 1 && engines[0]!.driver.model.running === 0)
      expect(engines[0]!.log.running).toBe(0)
    }
  })

  it('the simulated fleet logs the requests it receives', async () => {
    const { urls, engines } = await start()
    await ask(urls[0]!, { max_tokens: 1, user: 'me' }, { headers: { 'x-request-id': 'label', 'x-other': 'yes' } })
    const seen = engines[0]!.log.last('/v1/chat/completions')!
    expect(seen.headers).toMatchObject({ 'x-request-id': 'label', 'x-other': 'yes' })
    expect(JSON.parse(seen.body)).toMatchObject({ user: 'me', max_tokens: 1 })
  })

  it('the simulated fleet queues requests while it sleeps, and answers them after wake_up', async () => {
    const { urls, engines } = await start()
    await fetch(`${urls[0]}/sleep?level=1`, { method: 'POST' })
    const answer = ask(urls[0]!, {})
    await until(() => engines[0]!.driver.model.waiting === 1)
    expect(await (await fetch(`${urls[0]}/metrics`)).text()).toContain('sleep_state="weights_offloaded"} 1.0')
    await fetch(`${urls[0]}/wake_up`, { method: 'POST' })
    expect((await answer).status).toBe(200)
  })

  it('the simulated fleet rejects requests beyond its admission limit, and counts them', async () => {
    const { urls, engines } = await start({ profile: 'demo', maxNumQueuedReqs: 1 })
    const leave = new AbortController()
    const first = ask(urls[0]!, { max_tokens: 5000 }, { signal: leave.signal })
    first.catch(() => undefined)
    await until(() => engines[0]!.driver.model.running === 1)
    expect((await ask(urls[0]!, {})).status).toBe(503)
    expect(await (await fetch(`${urls[0]}/metrics`)).text()).toMatch(
      /admission_rejections_total\{.*reason="max_num_queued_reqs"\} 1\.0/,
    )
    leave.abort()
  })

  it('the simulated fleet embeds, scores and reranks', async () => {
    const { urls } = await start()
    const embedded = (await (
      await ask(urls[0]!, { input: ['a', 'b'], messages: undefined }, { path: '/v1/embeddings' })
    ).json()) as { data: { embedding: number[] }[] }
    expect(embedded.data.map(({ embedding }) => Math.hypot(...embedding).toFixed(3))).toEqual(['1.000', '1.000'])
    const ranked = (await (
      await ask(urls[0]!, { query: 'q', documents: ['a', 'b', 'c'] }, { path: '/rerank' })
    ).json()) as { results: { relevance_score: number }[] }
    const scores = ranked.results.map((result) => result.relevance_score)
    expect(scores).toEqual([...scores].sort((a, b) => b - a))
  })

  it('the simulated fleet continues the response of previous_response_id', async () => {
    const { urls } = await start()
    const post = async (body: object): Promise<{ id: string; usage: { input_tokens: number } }> =>
      (await (await ask(urls[0]!, body, { path: '/v1/responses' })).json()) as never
    const first = await post({ input: 'Hello', messages: undefined, max_output_tokens: 8 })
    const second = await post({ input: 'Go on', previous_response_id: first.id, max_output_tokens: 8 })
    expect(second.usage.input_tokens).toBeGreaterThan(first.usage.input_tokens + 8)
    expect((await fetch(`${urls[0]}/v1/responses/${first.id}`)).status).toBe(200)
  })
})

describe('faults', () => {
  const control = (running: RunningFleet, rule: object | null): Promise<Response> =>
    fetch(
      `${running.controlUrl}/_sim/engines/engine-0/fault`,
      rule === null ? { method: 'DELETE' } : { method: 'PUT', body: JSON.stringify(rule) },
    )

  it('a faulty engine refuses connections and listens again on the same port', async () => {
    const running = await start({ engines: 1, port: ownPorts(2) })
    await control(running, { kind: 'refuse' })
    await expect(fetch(`${running.urls[0]}/health`)).rejects.toMatchObject({ cause: { code: 'ECONNREFUSED' } })
    await control(running, null)
    await until(() => running.engines[0]!.listening)
    expect((await fetch(`${running.urls[0]}/health`)).status).toBe(200)
  })

  it('a faulty engine answers with other tokens while its weights are wrong', async () => {
    const running = await start({ engines: 1 })
    const textOf = async (): Promise<unknown> => {
      const answer = await ask(running.urls[0]!, { max_tokens: 8, temperature: 0 })
      return ((await answer.json()) as { choices: { message: { content: string } }[] }).choices[0]!.message.content
    }
    const right = await textOf()
    expect(await textOf()).toBe(right)
    await control(running, { kind: 'wrong' })
    expect(await textOf()).not.toBe(right)
    await control(running, null)
    expect(await textOf()).toBe(right)
  })

  it('stops running streams when the core freezes, and continues them afterwards', async () => {
    const running = await start({ engines: 1, costModel: { stepMs: 2 } })
    const [engine] = running.engines
    const answer = await ask(running.urls[0]!, { stream: true, max_tokens: 200, ignore_eos: true })
    await until(() => engine!.driver.model.counters.steps > 3)
    await control(running, { kind: 'freeze' })
    const { steps } = engine!.driver.model.counters
    for (let at = 0; at < 10; at++) expect((await fetch(`${running.urls[0]}/health`)).status).toBe(200)
    expect(engine!.driver.model.counters.steps).toBe(steps)
    await control(running, null)
    expect(await answer.text()).toContain('[DONE]')
  })

  it.each([
    [{ kind: 'boom' }, 'unknown fault "boom"'],
    [
      { kind: 'slow', factr: 2 },
      'slow has no "factr"; did you mean "factor"? Fields: factor, delay_ms, share, count, scope',
    ],
    [{ kind: 'slow', delayMs: 2 }, 'did you mean "delay_ms"?'],
    [{ kind: 'refuse', after: 2 }, 'refuse has no "after"'],
    [{ kind: 'hang', where: 'nowhere' }, 'where of hang must be one of head, body, middle, got "nowhere"'],
    [{ kind: 'hang' }, 'hang needs where: one of head, body, middle'],
    [{ kind: 'status' }, 'status needs status: a whole number from 200 to 599'],
    [{ kind: 'status', status: 7 }, 'status of status must be a whole number from 200 to 599, got 7'],
    [{ kind: 'reset', share: 2 }, 'share of reset must be a number from 0 to 1, got 2'],
    [{ kind: 'cut', after: '3' }, 'after of cut must be a whole number from 0, got "3"'],
    [['refuse'], 'the body must be a fault as JSON'],
    [null, 'the body must be a fault as JSON'],
  ])('a faulty engine rejects %j', async (rule, why) => {
    const running = await start({ engines: 1 })
    const answer = await fetch(`${running.controlUrl}/_sim/engines/engine-0/fault`, {
      method: 'PUT',
      body: JSON.stringify(rule),
    })
    expect(answer.status).toBe(400)
    expect(((await answer.json()) as { error: string }).error).toContain(why)
    expect(running.engines[0]!.fault).toBeNull()
  })

  it('a faulty engine resets a stream in the middle', async () => {
    const running = await start()
    await control(running, { kind: 'reset', after: 3 })
    const answer = await ask(running.urls[0]!, { stream: true })
    await expect(answer.text()).rejects.toThrow()
    await until(() => running.engines[0]!.driver.model.running === 0)
    expect(running.engines[0]!.log).toMatchObject({ running: 0, aborted: 0 })
  })

  it('a faulty engine resets before the headers', async () => {
    const running = await start()
    await control(running, { kind: 'reset', after: 0 })
    await expect(ask(running.urls[0]!, {})).rejects.toMatchObject({ cause: { code: 'ECONNRESET' } })
  })

  it('a faulty engine ends a stream early without an error', async () => {
    const running = await start()
    await control(running, { kind: 'cut', after: 3 })
    const text = await (await ask(running.urls[0]!, { stream: true })).text()
    expect(records(text)).toHaveLength(3)
    expect(text).not.toContain('[DONE]')
  })

  it.each([
    ['head', false],
    ['body', true],
    ['middle', true],
  ])('a faulty engine hangs at the %s until the client disconnects', async (where, headComes) => {
    const running = await start()
    await control(running, { kind: 'hang', where })
    const leave = new AbortController()
    const answer = ask(running.urls[0]!, { stream: true }, { signal: leave.signal })
    answer.catch(() => undefined)
    await until(() => running.engines[0]!.log.running === 1)
    if (headComes) expect((await answer).status).toBe(200)
    leave.abort()
    await until(() => running.engines[0]!.log.aborted === 1)
    expect(running.engines[0]!.log.running).toBe(0)
  })

  it('a faulty engine returns errors at the configured share, and stops after the count', async () => {
    const running = await start({ random: () => 0.4 })
    await control(running, { kind: 'status', status: 500, share: 0.5, count: 2 })
    const statuses = []
    for (let at = 0; at < 4; at += 1) statuses.push((await ask(running.urls[0]!, { max_tokens: 1 })).status)
    expect(statuses).toEqual([500, 500, 200, 200])
    await control(running, { kind: 'status', status: 500, share: 0.3 })
    expect((await ask(running.urls[0]!, { max_tokens: 1 })).status).toBe(200)
    expect((await fetch(`${running.urls[0]}/health`)).status).toBe(200)
  })

  it('a faulty engine can include health checks', async () => {
    const running = await start()
    await control(running, { kind: 'status', status: 503, scope: 'all' })
    expect((await fetch(`${running.urls[0]}/health`)).status).toBe(503)
  })

  it('a faulty engine sends invalid JSON, SSE or HTTP', async () => {
    const running = await start()
    await control(running, { kind: 'malformed', where: 'body' })
    await expect((await ask(running.urls[0]!, {})).json()).rejects.toThrow(SyntaxError)
    await control(running, { kind: 'malformed', where: 'record' })
    const text = await (await ask(running.urls[0]!, { stream: true })).text()
    expect(() => records(text)).toThrow(SyntaxError)
    await control(running, { kind: 'malformed', where: 'head' })
    await expect(ask(running.urls[0]!, {})).rejects.toThrow('fetch failed')
  })

  it('a faulty engine slows down by the configured factor', async () => {
    const running = await start()
    await control(running, { kind: 'slow', factor: 10 })
    const { model } = running.engines[0]!.driver
    await ask(running.urls[0]!, { max_tokens: 10 })
    const slow = model.counters.busyMs
    await control(running, null)
    expect(model.resetCache()).toBe(true)
    await ask(running.urls[0]!, { max_tokens: 10 })
    expect(slow / (model.counters.busyMs - slow)).toBeCloseTo(10, 6)
  })

  it('a faulty engine rejects an unknown fault with a list of known ones', async () => {
    const running = await start()
    const answer = await control(running, { kind: 'explode' })
    expect(answer.status).toBe(400)
    expect(await answer.text()).toContain('refuse, hang, reset')
  })

  it('a faulty engine loses its cache when it is restarted', async () => {
    const running = await start({ engines: 1, port: ownPorts(2) })
    const [engine] = running.engines
    await chat(running.urls[0]!, { messages: [{ role: 'user', content: 'y'.repeat(500) }] })
    engine!.kill()
    await expect(fetch(`${running.urls[0]}/health`)).rejects.toThrow('fetch failed')
    engine!.restart()
    await until(() => engine!.listening)
    const again = await chat(running.urls[0]!, { messages: [{ role: 'user', content: 'y'.repeat(500) }] })
    expect(again.usage.prompt_tokens_details.cached_tokens).toBe(0)
  })
})
