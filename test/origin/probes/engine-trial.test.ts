import { describe, expect, it } from 'vitest'
import { tryEngine } from '../../../src/origin/probes/engine-trial.ts'
import { type Origin, type OriginAnswer, OriginError, type OriginRequest } from '../../../src/ports/origin.ts'
import { workersLog } from '../../../src/platform/workers/log.ts'

const parts = { log: workersLog(() => 'silent'), now: () => 1_000, via: '1.1 firstlight-00000000' }
const target = {
  kind: 'server',
  id: 'a',
  url: 'http://a',
  headers: [],
  binding: null,
  model: 'base',
  type: 'vllm',
} as const

const originOf = (send: (request: OriginRequest) => Promise<Partial<OriginAnswer>>): Origin =>
  ({ send }) as unknown as Origin

const answering = (status: number, body: unknown): Origin =>
  originOf(async () => ({
    status,
    headers: [],
    read: async () => new TextEncoder().encode(typeof body === 'string' ? body : JSON.stringify(body)),
  }))

const error = (message: string, code: number): object => ({ error: { message, type: 'x', param: null, code } })

describe('a trial of an engine', () => {
  it.each([
    ['passed', 'a token', answering(200, { choices: [{ text: 'y' }] })],
    ['failed', 'an empty answer', answering(200, ' ')],
    ['failed', 'an error of its own', answering(500, error('EngineCore died', 500))],
    ['failed', 'no such model', answering(404, error('The model `base` does not exist.', 404))],
    ['unclear', 'no such route', answering(404, { detail: 'Not Found' })],
    ['unclear', 'being busy', answering(503, error('The server is overloaded. Please retry later.', 503))],
    ['unclear', 'a request that it does not serve', answering(400, error('This model does not generate.', 400))],
    ['failed', 'a broken connection', originOf(() => Promise.reject(new OriginError('reset', 'reset by a')))],
    [
      'unclear',
      'a gateway without descriptors',
      originOf(() => Promise.reject(new OriginError('gateway_limit', 'EMFILE'))),
    ],
  ] as const)('a trial of an engine is %s after %s', async (result, _, origin) => {
    expect(await tryEngine({ ...parts, origin }, target, 1_000)).toBe(result)
  })

  it('a trial of an engine is failed after its limit, and its request is ended', async () => {
    let signal: OriginRequest['signal'] | null = null
    const origin = originOf((request) => {
      signal = request.signal
      return new Promise(() => {})
    })
    expect(await tryEngine({ ...parts, origin }, target, 20)).toBe('failed')
    expect(signal!.aborted).toBe(true)
  })

  it('a trial of an engine is made by chat if the engine has no completions, and later at once', async () => {
    const paths: string[] = []
    const origin = originOf((request) => {
      paths.push(request.path)
      const isChat = request.path === '/v1/chat/completions'
      return (isChat ? answering(200, { choices: [{ message: {} }] }) : answering(404, { detail: 'Not Found' })).send(
        request,
      )
    })
    expect(await tryEngine({ ...parts, origin }, target, 1_000)).toBe('passed')
    expect(await tryEngine({ ...parts, origin }, target, 1_000)).toBe('passed')
    expect(paths).toEqual(['/v1/completions', '/v1/chat/completions', '/v1/chat/completions'])
  })

  it('a trial of an engine is failed if the engine refuses completions and does not answer a chat', async () => {
    const origin = originOf((request) =>
      request.path === '/v1/chat/completions'
        ? new Promise(() => {})
        : answering(400, error('This model only supports chat.', 400)).send(request),
    )
    expect(await tryEngine({ ...parts, origin }, target, 20)).toBe('failed')
  })

  it.each([
    ['failed', 'only chats hang', (path: string) => (path === '/v1/chat/completions' ? null : 200)],
    ['failed', 'only completions hang', (path: string) => (path === '/v1/completions' ? null : 200)],
    [
      'passed',
      'chats end with an error, which requests show as well',
      (path: string) => (path === '/v1/completions' ? 200 : 500),
    ],
  ] as const)('a trial of an engine is %s if %s', async (result, _, statusOf) => {
    const origin = originOf((request) => {
      const status = statusOf(request.path)
      return status === null ? new Promise(() => {}) : answering(status, { choices: [{ text: 'y' }] }).send(request)
    })
    expect(await tryEngine({ ...parts, origin }, target, 20)).toBe(result)
  })

  it('a trial of an engine passes if its limit came while the gateway was starved and the answers waited', async () => {
    let now = 0
    const waiting: (() => void)[] = []
    const origin = originOf(
      (request) =>
        new Promise((resolve) => {
          waiting.push(
            () =>
              void answering(200, { choices: [{ text: 'y' }] })
                .send(request)
                .then(resolve),
          )
        }),
    )
    const ends: (() => void)[] = []
    const timers = {
      set: (_ms: number, onDue: () => void) => {
        // The limits of both routes are due before the process reads what has arrived.
        if (ends.push(onDue) === 2)
          setImmediate(() => {
            now = 30_000
            for (const end of ends.splice(0)) end()
            for (const answer of waiting) answer()
          })
        return { cancel: () => {} }
      },
    }
    expect(await tryEngine({ ...parts, origin, timers, now: () => now }, target, 1_000)).toBe('passed')
  })

  it('a trial of an engine asks for one token of the pool’s model, with the headers of the engine’s target', async () => {
    const sent: OriginRequest[] = []
    const origin = originOf((request) => {
      sent.push(request)
      return answering(200, { choices: [{ text: 'y' }] }).send(request)
    })
    await tryEngine({ ...parts, origin }, target, 1_000)
    const expected = { target, method: 'POST' }
    expect(sent).toMatchObject([
      { ...expected, path: '/v1/completions' },
      { ...expected, path: '/v1/chat/completions' },
    ])
    for (const { body } of sent)
      expect(JSON.parse(new TextDecoder().decode(body![0]))).toMatchObject({ model: 'base', max_tokens: 1 })
  })
})
