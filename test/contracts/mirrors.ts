/** Mirror traffic: requests are repeated at another model without an effect on clients and keys, on any runtime. */
import { afterEach, describe, expect, it } from 'vitest'
import { until } from '../wait.ts'
import type { FakeAnswer } from '../kit/fake-answer.ts'
import { FakeEngine } from '../kit/fake-engine.ts'
import { ADMIN_KEY, openGateway, type Runtime, runtimeNames } from '../kit/gateway.ts'
import { HeldEngine } from '../kit/held-engine.ts'
import { completion, DONE, sseAnswer, token } from '../kit/sse.ts'

const stream = (text: string): FakeAnswer => sseAnswer([token(text), DONE])

/** Answers of each protocol. */
const answers: Readonly<Record<string, FakeAnswer>> = {
  'POST /v1/chat/completions': { body: completion('hello') },
  'POST /v1/completions': {
    body: { id: 'x', object: 'text_completion', choices: [{ index: 0, text: 'hi', finish_reason: 'stop' }] },
  },
  'POST /v1/messages': {
    body: {
      id: 'x',
      type: 'message',
      role: 'assistant',
      content: [{ type: 'text', text: 'hi' }],
      stop_reason: 'end_turn',
    },
  },
  'POST /v1/responses': { body: { id: 'resp_1', object: 'response', status: 'completed', output: [] } },
  'POST /v1/embeddings': { body: { object: 'list', data: [{ object: 'embedding', index: 0, embedding: [0] }] } },
}

interface Site {
  /** Engines of `new`, in order. */
  readonly targets: readonly { readonly url: string }[]
  readonly old?: { readonly url: string }
  readonly mirror?: object
  /** Further keys of the pool `new`. */
  readonly pool?: object
  /** Further keys of each engine of `new`. */
  readonly engine?: object
  readonly config?: object
}

export function mirrorsContract(runtime: Runtime): void {
  describe(`mirror traffic on ${runtimeNames[runtime]}`, () => {
    const open: { close(): Promise<void> }[] = []
    afterEach(async () => {
      for (const one of open.splice(0).reverse()) await one.close()
    })
    const opened = async <One extends { close(): Promise<void> }>(opening: Promise<One>): Promise<One> => {
      const one = await opening
      open.push(one)
      return one
    }
    const engine = (routes: Readonly<Record<string, FakeAnswer>> = answers) => opened(FakeEngine.open(routes))
    const held = () => opened(HeldEngine.open())

    const site = async ({ targets, old, mirror, pool = {}, engine: of = {}, config = {} }: Site) => {
      const source = old ?? (await engine())
      const gateway = await opened(
        openGateway({
          runtime,
          config: {
            open: false,
            admin: { secret: ADMIN_KEY },
            keys: [{ name: 'ada', secret: 'secret-of-ada', allow_overrides: true }],
            clusters: [
              {
                id: 'c',
                pools: [
                  {
                    model: 'old',
                    engines: [{ id: 'old', url: source.url }],
                    ...(mirror === undefined ? {} : { mirror }),
                  },
                  { model: 'new', engines: targets.map(({ url }, at) => ({ id: `new${at}`, url, ...of })), ...pool },
                ],
              },
            ],
            ...config,
          },
        }),
      )
      const headers = { authorization: 'Bearer secret-of-ada' }
      const chat = (changes: object = {}, init: RequestInit = {}) =>
        gateway.chat({ model: 'old', ...changes }, { headers, ...init })
      const post = (path: string, body: object) => gateway.post(path, { model: 'old', ...body }, { headers })
      const metrics = async (): Promise<string> => (await gateway.get('/metrics')).text()
      const count = async (name: string, target: string, model = 'old'): Promise<number> => {
        const [, value = '0'] =
          new RegExp(`^firstlight_mirror_${name}_total\\{name="${model}",target="${target}"\\} (\\S+)$`, 'm').exec(
            await metrics(),
          ) ?? []
        return Number(value)
      }
      return { gateway, chat, post, metrics, count }
    }

    it('chats, completions, messages and responses are repeated at the other model without priority and storage, and nothing else is', async () => {
      const target = await engine()
      const old = await engine()
      const { post, gateway, count } = await site({ old, targets: [target], mirror: { to: 'new', share: 1 } })
      const text = 'a short prompt'
      const bodies = [
        ['/v1/chat/completions', { messages: [{ role: 'user', content: text }], priority: -5 }],
        ['/v1/completions', { prompt: text }],
        ['/v1/messages', { messages: [{ role: 'user', content: text }], max_tokens: 9 }],
        ['/v1/responses', { input: text }],
        ['/v1/embeddings', { input: text }],
      ] as const
      for (const [path, body] of bodies) {
        const response = await post(path, body)
        expect([path, response.status, response.headers.get('x-firstlight-engine')]).toEqual([path, 200, 'old'])
        await response.text()
      }
      await until(async () => (await count('requests', 'new')) === 4)
      const seen = Object.fromEntries(target.posts.map(({ path, json }) => [path, json]))
      expect(Object.keys(seen).toSorted()).toEqual(
        ['/v1/chat/completions', '/v1/completions', '/v1/messages', '/v1/responses'].toSorted(),
      )
      for (const json of Object.values(seen)) {
        expect(json).toMatchObject({ model: 'new' })
        expect(json).not.toHaveProperty('priority')
      }
      expect(seen['/v1/chat/completions']).toMatchObject({ messages: [{ role: 'user', content: text }] })
      expect(seen['/v1/responses']).toMatchObject({ store: false })
      expect(old.posts.length).toBe(5)
      expect([await count('failed', 'new'), await count('requests', 'old')]).toEqual([0, 4])
      await gateway.idle()
    })

    it('a client has its whole answer while the repeated request still runs, whose booking ends with it', async () => {
      const target = await held()
      const { chat, gateway, count } = await site({ targets: [target], mirror: { to: 'new', share: 1 } })
      expect(await (await chat()).text()).toContain('hello')
      await until(() => target.held.length === 1)
      await until(async () => (await gateway.bookings()) === 1)
      target.held[0]!.send({ body: completion('other') })
      await gateway.idle()
      await until(async () => (await count('requests', 'new')) === 1)
      expect(await count('failed', 'new')).toBe(0)
    })

    it('times to first token and results of originals and repeated streams stand side by side', async () => {
      const target = await engine({ 'POST *': stream('new') })
      const old = await engine({ 'POST *': stream('old') })
      const { chat, count } = await site({ old, targets: [target], mirror: { to: 'new', share: 1 } })
      for (let at = 0; at < 3; at++) expect(await (await chat({ stream: true })).text()).toContain('old')
      await until(async () => (await count('first_tokens', 'new')) === 3)
      await until(async () => (await count('first_tokens', 'old')) === 3)
      expect([await count('requests', 'old'), await count('requests', 'new')]).toEqual([3, 3])
    })

    it('a client that leaves ends its own request, and not the repeated one', async () => {
      const target = await held()
      const old = await held()
      const { chat, gateway, count } = await site({ old, targets: [target], mirror: { to: 'new', share: 1 } })
      const client = new AbortController()
      const answering = chat({ stream: true }, { signal: client.signal })
      await until(() => old.held.length === 1)
      const first = old.held[0]!
      first.begin(token('hello'))
      const reader = (await answering).body!.getReader()
      await reader.read()
      await until(() => target.held.length === 1)
      client.abort()
      await until(() => {
        // A gateway in workerd notices a client that left when it writes.
        first.write(token('more'))
        return first.isAborted
      })
      const repeated = target.held[0]!
      expect(repeated.isAborted).toBe(false)
      repeated.begin(token('new'))
      repeated.end()
      await until(async () => (await count('first_tokens', 'new')) === 1)
      expect([await count('failed', 'new'), target.aborted]).toEqual([0, 0])
      await gateway.idle()
    })

    it('a repeated request is charged to no key', async () => {
      const target = await engine()
      const config = { keys: [{ name: 'ada', secret: 'secret-of-ada', limits: { requests_per_min: 3 } }] }
      const mirror = { to: 'new', share: 1 }
      const { chat, gateway, count } = await site({ targets: [target], mirror, config })
      for (let at = 0; at < 3; at++) {
        const response = await chat()
        expect(response.status).toBe(200)
        await response.text()
        await until(async () => (await count('requests', 'new')) === at + 1)
      }
      const { keys } = (await (await gateway.get('/v1/firstlight/usage')).json()) as {
        keys: { key: string; requests: number; output_tokens: number }[]
      }
      expect(keys.map(({ key, requests, output_tokens: tokens }) => [key, requests, tokens])).toEqual([['ada', 3, 3]])
    })

    it('a repeated request is dropped instead of waiting if the other pool has no room', async () => {
      const target = await held()
      const { chat, gateway, count } = await site({
        targets: [target],
        mirror: { to: 'new', share: 1 },
        pool: { queue: { max_requests: 10, max_wait_ms: 10_000 } },
        engine: { max_in_flight: 1 },
      })
      const own = chat({ model: 'new' })
      await until(() => target.held.length === 1)
      expect((await chat()).status).toBe(200)
      await until(async () => (await count('refused', 'new')) === 1)
      target.held[0]!.send({ body: completion('own') })
      expect(await (await own).text()).toContain('own')
      await gateway.idle()
      expect(target.engine.posts.length).toBe(1)
    })

    it('engines that schedule by priority serve repeated requests last, whatever the client asks for', async () => {
      const target = await engine()
      const mirror = { to: 'new', share: 1 }
      const { chat } = await site({ targets: [target], mirror, pool: { class_priority: true } })
      expect((await chat({ priority: -5, firstlight: { class: 'critical' } })).status).toBe(200)
      await until(() => target.posts.length === 1)
      expect(target.posts[0]!.json).toMatchObject({ model: 'new', priority: 1 })
    })

    it('a repeated request that fails is not retried, and its client does not notice', async () => {
      const broken = { 'POST *': { status: 500, body: { error: { message: 'broken' } } } }
      const targets = [await engine(broken), await engine(broken)]
      const { chat, gateway, count } = await site({ targets, mirror: { to: 'new', share: 1 } })
      expect(await (await chat()).text()).toContain('hello')
      await until(async () => (await count('failed', 'new')) === 1)
      expect(targets.reduce((sum, { posts }) => sum + posts.length, 0)).toBe(1)
      await gateway.idle()
    })

    it('requests for a weighted model are repeated at a model that gets none by weight', async () => {
      const target = await engine()
      const weighted = {
        name: 'chat',
        targets: [{ model: 'old' }, { model: 'new', weight: 0 }],
        mirror: { to: 'new', share: 1 },
      }
      const { chat, count } = await site({ targets: [target], config: { weighted_models: [weighted] } })
      expect((await chat({ model: 'chat' })).headers.get('x-firstlight-engine')).toBe('old')
      expect((await chat({ model: 'old' })).status).toBe(200)
      await until(async () => (await count('requests', 'new', 'chat')) === 1)
      expect(target.posts.map(({ json }) => (json as { model: string }).model)).toEqual(['new'])
    })

    it('nothing is repeated, and no metric names a mirror, unless one is configured', async () => {
      const target = await engine()
      const { chat, metrics, gateway } = await site({ targets: [target] })
      for (let at = 0; at < 3; at++) await (await chat()).text()
      await gateway.idle()
      expect(target.posts).toEqual([])
      expect(await metrics()).not.toContain('firstlight_mirror_requests_total{')
    })

    // Only Node drains.
    it.runIf(runtime === 'node')('a drain ends repeated requests and releases their bookings', async () => {
      const target = await held()
      const { chat, gateway } = await site({ targets: [target], mirror: { to: 'new', share: 1 } })
      for (let at = 0; at < 2; at++) await (await chat({ stream: true })).text()
      await until(() => target.held.length === 2)
      const [begun, waiting] = target.held
      begun!.begin(token('new'))
      await gateway.close()
      await until(() => begun!.isAborted && waiting!.isAborted)
    })
  })
}
