import {
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  OpenAI,
  PermissionDeniedError,
  RateLimitError,
} from 'openai'
import { describe, expect, it } from 'vitest'
import { createGateway } from '../src/gateway.ts'
import { configOf, openRecordingPorts, type ConfigChanges, type RecordingPorts } from './kit/recording-ports.ts'

/** The official client with the gateway in place of its network. It may retry twice, as by default. */
function open(
  changes: ConfigChanges = {},
  apiKey = 'team-secret',
): { client: OpenAI; world: RecordingPorts; fetches: () => number } {
  const world = openRecordingPorts()
  const gateway = createGateway(configOf(changes), world.ports)
  let fetches = 0
  const client = new OpenAI({
    apiKey,
    baseURL: 'http://gateway.test/v1',
    fetch: (input, init) => {
      fetches++
      return gateway.fetch(new Request(input as string, init as RequestInit), world.scope)
    },
  })
  return { client, world, fetches: () => fetches }
}

const keys = [{ name: 'team', secret: 'team-secret', models: ['qwen'] }]
const hello = { model: 'qwen', messages: [{ role: 'user' as const, content: 'Hello' }] }
const chunk = (content: string): string =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n`
const thrown = (work: PromiseLike<unknown>): Promise<unknown> =>
  Promise.resolve(work).then(
    () => null,
    (error: unknown) => error,
  )

describe('the openai client', () => {
  it('streams through the gateway', async () => {
    const { client, world } = open({ keys })
    world.answer = () => ({
      headers: ['content-type', 'text/event-stream'],
      body: `${chunk('Good ')}: ping\n\n${chunk('morning')}data: [DONE]\n\n`,
    })
    let text = ''
    for await (const { choices } of await client.chat.completions.create({ ...hello, stream: true }))
      text += choices[0]?.delta.content ?? ''
    expect(text).toBe('Good morning')
  })

  it('the openai client lists the models of its key', async () => {
    const names: string[] = []
    for await (const { id } of open({ keys }).client.models.list()) names.push(id)
    expect(names).toEqual(['qwen'])
    expect((await open({ keys }).client.models.retrieve('qwen')).object).toBe('model')
  })

  it.each([
    ['a wrong key', AuthenticationError, { key: 'nope', model: 'qwen', body: {} }, 'invalid_api_key'],
    ['an unknown model', NotFoundError, { key: 'team-secret', model: 'gpt-9', body: {} }, 'model_not_found'],
    [
      'an override it may not set',
      PermissionDeniedError,
      { key: 'team-secret', model: 'qwen', body: { firstlight: { policy: 'random' } } },
      'forbidden',
    ],
    ['a wrong value', BadRequestError, { key: 'team-secret', model: 'qwen', body: { stream: 'no' } }, 'invalid_value'],
  ] as const)(
    'the openai client throws its own error for %s, with our request id, and does not ask again',
    async (_name, kind, { key, model, body }, code) => {
      const { client, fetches } = open({ keys }, key)
      const error = await thrown(client.chat.completions.create({ ...hello, model, ...(body as object) }))
      expect(error).toBeInstanceOf(kind)
      expect(error).toMatchObject({ code, requestID: expect.stringMatching(/^gw-/) })
      expect(fetches()).toBe(1)
    },
  )

  it('the openai client does not retry a 503 of a gateway without configuration', async () => {
    const { client, fetches } = open({ loopback: false })
    expect(await thrown(client.chat.completions.create(hello))).toBeInstanceOf(InternalServerError)
    expect(fetches()).toBe(1)
  })

  it('the openai client retries a full fleet after the given time', async () => {
    const { client, world, fetches } = open({ keys })
    world.refusal = { reason: 'engines_full', detail: 'full', retryAfterMs: 1 }
    expect(await thrown(client.chat.completions.create(hello))).toBeInstanceOf(RateLimitError)
    expect(fetches()).toBe(3)
  })

  it('the openai client gets the engine’s own error as such', async () => {
    const { client, world } = open({ keys })
    world.answer = () => ({
      status: 400,
      body: '{"error":{"message":"too long","type":"BadRequestError","param":"input_tokens","code":400}}',
    })
    expect(await thrown(client.chat.completions.create(hello))).toMatchObject({
      status: 400,
      code: 400,
      param: 'input_tokens',
      error: { message: 'too long' },
    })
  })
})
