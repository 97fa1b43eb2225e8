/** Responses for the official clients, on any runtime: streams, tools, aborts, error classes and retries. */
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { APICallError, generateText, streamText, tool } from 'ai'
import {
  type APIError,
  APIUserAbortError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  OpenAI,
} from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { startFleet, type RunningFleet } from '../../packages/simulator/src/node/fleet-host.ts'
import { ownPorts } from '../own-ports.ts'
import { until } from '../wait.ts'
import { type RunningGateway, runtimeNames, startRuntime, type Runtime } from '../kit/gateway.ts'

const KEY = 'client-key-1'
const ADMIN = 'admin-key-2'
const hello = { model: 'sim', max_tokens: 8, messages: [{ role: 'user' as const, content: 'Good morning' }] }
const weather = {
  type: 'function' as const,
  function: {
    name: 'weather',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
}

interface FleetView {
  readonly pools: readonly {
    readonly bookings: number
    readonly engines: readonly { readonly requests: number; readonly requests_total: number }[]
  }[]
}

async function all<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const list: Item[] = []
  for await (const item of items) list.push(item)
  return list
}

export function clientsContract(runtime: Runtime): void {
  const name = runtimeNames[runtime]
  let fleet: RunningFleet
  let subject: RunningGateway
  let sent = 0
  let client: OpenAI

  const counting: typeof fetch = (input, init) => {
    sent++
    return fetch(input, init)
  }
  const openai = (apiKey = KEY): OpenAI => new OpenAI({ apiKey, baseURL: `${subject.url}/v1`, fetch: counting })
  const sdk = () =>
    createOpenAICompatible({ name: 'firstlight', baseURL: `${subject.url}/v1`, apiKey: KEY, fetch: counting })('sim')

  const view = async (): Promise<FleetView> =>
    (await (
      await fetch(`${subject.url}/v1/firstlight/fleet`, { headers: { authorization: `Bearer ${ADMIN}` } })
    ).json()) as FleetView

  /** Resolves when no request is booked: a release follows the last byte. */
  async function idle(): Promise<FleetView> {
    return until(async () => {
      const seen = await view()
      return seen.pools.every(({ bookings }) => bookings === 0) && seen
    })
  }

  beforeAll(async () => {
    fleet = await startFleet({ engines: 2, model: 'sim', profile: 'test', port: ownPorts(3) })
    subject = await startRuntime(runtime, {
      version: Date.now(),
      keys: [{ name: 'clients', secret: KEY }],
      admin: { secret: ADMIN },
      limits: { heartbeat_ms: 200 },
      clusters: [{ id: 'c', pools: [{ model: 'sim', engines: fleet.urls.map((url, i) => ({ id: `e${i}`, url })) }] }],
    })
    client = openai()
  })
  afterAll(async () => {
    await subject.close()
    await fleet.close()
  })

  describe(`the openai client and a gateway on ${name}`, () => {
    it('talk without a stream, with the engine’s usage', async () => {
      const answer = await client.chat.completions.create(hello)
      expect(answer.choices[0]?.message.content).not.toBe('')
      expect(answer.usage?.completion_tokens).toBe(8)
    })

    it('stream without a usage record that was not requested', async () => {
      const chunks = await all(await client.chat.completions.create({ ...hello, stream: true }))
      expect(chunks.filter(({ choices }) => choices.length === 0)).toEqual([])
      expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe('length')
    })

    it('stream with usage if the client requests it', async () => {
      const chunks = await all(
        await client.chat.completions.create({ ...hello, stream: true, stream_options: { include_usage: true } }),
      )
      expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 8 } })
    })

    it('the openai client and a gateway call a tool, streaming and not, with the same arguments', async () => {
      const request = {
        ...hello,
        tools: [weather],
        tool_choice: { type: 'function' as const, function: { name: 'weather' } },
      }
      const whole = await client.chat.completions.create(request)
      const call = whole.choices[0]?.message.tool_calls?.[0]
      const chunks = await all(await client.chat.completions.create({ ...request, stream: true }))
      const streamed = chunks
        .map((chunk) => chunk.choices[0]?.delta.tool_calls?.[0]?.function?.arguments ?? '')
        .join('')
      expect(call?.type === 'function' && call.function.name).toBe('weather')
      expect(JSON.parse(streamed)).toHaveProperty('city')
      expect(call?.type === 'function' && call.function.arguments).toBe(streamed)
    })

    it('the openai client and a gateway use every engine, and leave no booking behind', async () => {
      await Promise.all(Array.from({ length: 8 }, () => client.chat.completions.create(hello)))
      const { pools } = await idle()
      for (const engine of pools[0]!.engines)
        expect(engine).toMatchObject({ requests: 0, requests_total: expect.toSatisfy((n: number) => n > 0) })
    })

    it('the openai client and a gateway leave no booking if the client disconnects in the middle of a stream', async () => {
      const stream = await client.chat.completions.create({ ...hello, max_tokens: 4000, stream: true })
      await stream[Symbol.asyncIterator]().next()
      stream.controller.abort()
      expect((await idle()).pools[0]!.engines.map(({ requests }) => requests)).toEqual([0, 0])
    })

    it('the openai client and a gateway learn by HEAD whether a response is still held, and leave no booking behind', async () => {
      const { id } = await client.responses.create({ model: 'sim', input: 'Hello', max_output_tokens: 3 })
      const head = (path: string) =>
        fetch(`${subject.url}/v1/responses/${path}`, { method: 'HEAD', headers: { authorization: `Bearer ${KEY}` } })
      for (const path of [id, `${id}?stream=true`]) {
        const answer = await head(path)
        expect(answer.status).toBe(200)
        expect(answer.headers.get('x-firstlight-engine')).toMatch(/^e[01]$/)
        expect(await answer.text()).toBe('')
      }
      expect((await head('resp_nobody')).status).toBe(404)
      await idle()
    })

    it('the openai client and a gateway get OpenAI’s error if an engine cannot delete a response, which stays stored', async () => {
      const { id } = await client.responses.create({ model: 'sim', input: 'Hello', max_output_tokens: 3 })
      const refused = await client.responses.delete(id).then(
        () => null,
        (error: unknown) => error as APIError,
      )
      expect(refused).toMatchObject({
        status: 405,
        code: 'method_not_allowed',
        type: 'invalid_request_error',
        message: expect.stringMatching(/engine.* does not support deletion/) as string,
      })
      expect(refused?.headers?.get('allow')).toBe('GET, HEAD')
      expect((await client.responses.retrieve(id)).id).toBe(id)
      await idle()
    })

    it('part in the client’s own error when it aborts', async () => {
      const abort = new AbortController()
      const pending = client.chat.completions.create({ ...hello, max_tokens: 4000 }, { signal: abort.signal })
      abort.abort()
      await expect(pending).rejects.toThrow(APIUserAbortError)
      await idle()
    })

    it('map errors to the same classes, and retry nothing that cannot succeed', async () => {
      const cases: [() => Promise<unknown>, unknown][] = [
        [() => client.chat.completions.create({ ...hello, model: 'nobody' }), NotFoundError],
        [() => client.models.retrieve('nobody'), NotFoundError],
        [() => openai('wrong').chat.completions.create(hello), AuthenticationError],
        [() => client.chat.completions.create({ ...hello, temperature: -1 }), BadRequestError],
        [() => client.chat.completions.create({ ...hello, messages: undefined as never }), BadRequestError],
      ]
      for (const [send, expected] of cases) {
        sent = 0
        await expect(send()).rejects.toThrow(expected as never)
        expect(sent).toBe(1)
      }
      expect((await client.models.retrieve('sim')).owned_by).toBe('firstlight')
    })
  })

  describe(`the AI SDK and a gateway on ${name}`, () => {
    it('talk with and without a stream', async () => {
      const whole = await generateText({ model: sdk(), prompt: 'Good morning', maxOutputTokens: 8 })
      const stream = streamText({ model: sdk(), prompt: 'Good morning', maxOutputTokens: 8 })
      expect((await all(stream.textStream)).join('')).toBe(whole.text)
      expect(whole.usage.outputTokens).toBe(8)
      expect(whole.finishReason).toBe('length')
    })

    it('the AI SDK and a gateway call a tool', async () => {
      const { toolCalls } = await generateText({
        model: sdk(),
        prompt: 'How is it there?',
        tools: { weather: tool({ inputSchema: z.object({ city: z.string() }) }) },
        toolChoice: { type: 'tool', toolName: 'weather' },
      })
      expect(toolCalls[0]).toMatchObject({ toolName: 'weather', input: { city: expect.any(String) } })
    })

    it('the AI SDK and a gateway leave no booking behind when the client aborts a stream', async () => {
      const abort = new AbortController()
      const stream = streamText({
        model: sdk(),
        prompt: 'Tell me all',
        maxOutputTokens: 4000,
        abortSignal: abort.signal,
        onError: () => {},
      })
      for await (const _ of stream.textStream) abort.abort()
      expect((await idle()).pools[0]!.bookings).toBe(0)
    })

    it('the AI SDK and a gateway agree on which errors to retry', async () => {
      const failed = await generateText({ model: sdk(), prompt: 'x', temperature: -1, maxRetries: 0 }).catch(
        (error: unknown) => error,
      )
      expect(APICallError.isInstance(failed) && [failed.statusCode, failed.isRetryable]).toEqual([400, false])
    })
  })

  describe(`a fleet that is down, behind a gateway on ${name}`, () => {
    it('a fleet that is down, behind a gateway is retryable for both clients, and serves again after recovery', async () => {
      for (const engine of fleet.engines) engine.setFault({ kind: 'refuse' })
      sent = 0
      await expect(client.chat.completions.create(hello, { maxRetries: 1 })).rejects.toThrow(InternalServerError)
      expect(sent).toBe(2)
      const failed = await generateText({ model: sdk(), prompt: 'x', maxRetries: 0 }).catch((error: unknown) => error)
      expect(APICallError.isInstance(failed) && [failed.statusCode, failed.isRetryable]).toEqual([503, true])
      for (const engine of fleet.engines) engine.setFault(null)
      const answer = await client.chat.completions.create(hello, { maxRetries: 12 })
      expect(answer.choices).toHaveLength(1)
    })
  })
}
