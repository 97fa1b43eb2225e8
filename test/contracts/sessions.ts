/** Sessions that clients name, and the options that agents send under other names, on any runtime. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  ADMIN_KEY,
  type GatewayOptions,
  openGateway,
  type Runtime,
  type TestGateway,
  runtimeNames,
} from '../kit/gateway.ts'
import { FakeEngine } from '../kit/fake-engine.ts'

type Headers = Readonly<Record<string, string>>
type Json = Readonly<Record<string, unknown>>

const KEYS = { one: 'key-of-team-one', two: 'key-of-team-two', free: 'key-that-may-override' } as const
const UUID = 'c2e3f1a0-7b1d-4a52-9d58-0a2b3c4d5e6f'
const ANSWER = { body: { choices: [{ index: 0, message: { content: 'a' }, finish_reason: 'stop' }] } }
const ENGINES = 4

const config = {
  open: false,
  keys: [
    { name: 'one', secret: KEYS.one },
    { name: 'two', secret: KEYS.two },
    { name: 'free', secret: KEYS.free, allow_overrides: true },
  ],
}

/** Requests as clients send them, with the source that the gateway reports. */
const clients: readonly (readonly [name: string, path: string, headers: Headers, body: Json, source: string])[] = [
  ['Claude Code', '/v1/messages', { 'x-claude-code-session-id': UUID }, {}, 'header x-claude-code-session-id'],
  [
    'Claude Code in the body',
    '/v1/messages',
    {},
    { metadata: { user_id: JSON.stringify({ device_id: 'd', session_id: UUID }) } },
    'body metadata.user_id',
  ],
  ['Codex', '/v1/responses', { 'session-id': UUID, 'x-client-request-id': 'r' }, {}, 'header session-id'],
  ['Codex in the body', '/v1/responses', {}, { prompt_cache_key: UUID, user: 'u' }, 'body prompt_cache_key'],
  ['OpenCode', '/v1/chat/completions', { 'x-session-affinity': UUID }, {}, 'header x-session-affinity'],
  ['Open WebUI', '/v1/chat/completions', { 'x-openwebui-chat-id': UUID }, {}, 'header x-openwebui-chat-id'],
  ['metadata', '/v1/chat/completions', {}, { metadata: { session_id: UUID }, user: 'u' }, 'body metadata.session_id'],
  ['an SDK', '/v1/completions', {}, { user: UUID }, 'body user'],
]

export function sessionsContract(runtime: Runtime): void {
  const name = runtimeNames[runtime]
  const engines: FakeEngine[] = []
  let gateway: TestGateway

  const open = (pool: Json = {}): Promise<TestGateway> =>
    openGateway({ runtime, engines, pool: { policy: 'session', ...pool }, config } satisfies GatewayOptions)

  const ask = (
    path: string,
    {
      key = 'one',
      headers = {},
      body = {},
      at = gateway,
    }: { key?: keyof typeof KEYS; headers?: Headers; body?: Json; at?: TestGateway } = {},
  ): Promise<Response> =>
    at.post(
      path,
      { model: 'm', messages: [{ role: 'user', content: 'hi' }], prompt: 'hi', input: 'hi', max_tokens: 4, ...body },
      { headers: { authorization: `Bearer ${KEYS[key]}`, ...headers } },
    )

  const viewOf = async (response: Response, at = gateway) => {
    await response.text()
    const id = response.headers.get('x-firstlight-decision')!.split(';')[0]!
    const view = await fetch(`${at.url}/v1/firstlight/requests/${id}`, {
      headers: { authorization: `Bearer ${ADMIN_KEY}` },
    })
    return (await view.json()) as {
      record: { session?: { id: string; source: string; agent: string | null; parent: string | null } }
      decision: { session?: string }
    }
  }

  beforeAll(async () => {
    for (let at = 0; at < ENGINES; at++) engines.push(await FakeEngine.open({ 'POST *': ANSWER }))
    gateway = await open()
  })
  afterAll(async () => {
    await gateway.close()
    for (const engine of engines) await engine.close()
  })

  describe(`sessions, on ${name}`, () => {
    it.each(clients)('sessions are read as %s sends them', async (_client, path, headers, body, source) => {
      const { record, decision } = await viewOf(await ask(path, { headers, body }))
      expect(record.session).toEqual({ id: UUID, source, agent: null, parent: null })
      expect(decision.session).toBe(UUID)
    })

    it('sessions name the agent and its parent', async () => {
      const headers = {
        'x-claude-code-session-id': UUID,
        'x-claude-code-agent-id': 'a2',
        'x-claude-code-parent-agent-id': 'a1',
      }
      const { record } = await viewOf(await ask('/v1/messages', { headers }))
      expect(record.session).toMatchObject({ agent: 'a2', parent: 'a1' })
    })

    it('sessions are none if the client names none', async () => {
      const { record, decision } = await viewOf(await ask('/v1/chat/completions'))
      expect([record.session, decision.session]).toEqual([undefined, undefined])
    })

    it('sessions are bounded, and cannot forge a line of a log', async () => {
      const body = { user: `a\nb\u001b[31m${'x'.repeat(9_000)}` }
      const { record } = await viewOf(await ask('/v1/chat/completions', { body }))
      expect(record.session!.id).toBe(`a\ufffdb\ufffd[31m${'x'.repeat(504)}`)
      const refused = await ask('/v1/chat/completions', { body: { firstlight: { session: 'x'.repeat(513) } } })
      expect(refused.status).toBe(400)
    })

    it('sessions keep their engine, and are apart for each key', async () => {
      const engineOf = async (key: keyof typeof KEYS, session: string): Promise<string | null> => {
        const response = await ask('/v1/chat/completions', { key, headers: { 'x-session-id': session } })
        await response.text()
        return response.headers.get('x-firstlight-engine')
      }
      const ids = Array.from({ length: 16 }, (_, at) => `talk-${at}`)
      const chosen = { one: [] as (string | null)[], again: [] as (string | null)[], two: [] as (string | null)[] }
      for (const id of ids) {
        chosen.one.push(await engineOf('one', id))
        chosen.again.push(await engineOf('one', id))
        chosen.two.push(await engineOf('two', id))
      }
      expect(chosen.again).toEqual(chosen.one)
      expect(new Set(chosen.one).size).toBeGreaterThan(1)
      // The id of another key leads to no engine of its session.
      expect(chosen.two).not.toEqual(chosen.one)
    })

    it('sessions come from configured sources first, or from these alone', async () => {
      const session = { header: ['X-Chat', 'x-talk'], body: 'metadata.chat.id' }
      const sent = { headers: { 'x-session-id': UUID }, body: { metadata: { chat: { id: 'c1' } } } }
      const both = await open({ session })
      try {
        const found = await viewOf(await ask('/v1/chat/completions', { ...sent, at: both }), both)
        expect(found.record.session).toMatchObject({ id: 'c1', source: 'body metadata.chat.id' })
        const headers = { ...sent.headers, 'x-talk': 't1' }
        const second = await viewOf(await ask('/v1/chat/completions', { ...sent, headers, at: both }), both)
        expect(second.record.session).toMatchObject({ id: 't1', source: 'header x-talk' })
      } finally {
        await both.close()
      }
      const alone = await open({ session: { ...session, known: false } })
      try {
        const response = await ask('/v1/chat/completions', { headers: { 'x-session-id': UUID }, at: alone })
        expect((await viewOf(response, alone)).record.session).toBeUndefined()
      } finally {
        await alone.close()
      }
    })
  })

  describe(`hints of agents, on ${name}`, () => {
    const hint = (hints: Json, more: Json = {}): Json => ({ nvext: { agent_hints: hints }, ...more })
    const lastBody = (): Json => JSON.parse(engines.flatMap(({ posts }) => posts).at(-1)!.text) as Json

    it('set the priority of the engine, lower for more urgent', async () => {
      for (const engine of engines) engine.posts.length = 0
      await (await ask('/v1/chat/completions', { key: 'free', body: hint({ priority: 5, osl: 64 }) })).text()
      expect(lastBody()).toMatchObject({ priority: -5, nvext: { agent_hints: { priority: 5, osl: 64 } } })
    })

    it('hints of agents give way to the options of the gateway', async () => {
      for (const engine of engines) engine.posts.length = 0
      const body = hint({ priority: 5 }, { firstlight: { priority: 7 } })
      await (await ask('/v1/chat/completions', { key: 'free', body })).text()
      expect(lastBody()['priority']).toBe(7)
    })

    it.each([
      ['priority', 5],
      ['osl', 64],
    ])('%s is refused to a key that may not set it', async (hinted, value) => {
      const response = await ask('/v1/chat/completions', { body: hint({ [hinted]: value }) })
      const { error } = (await response.json()) as { error: { param: string } }
      expect([response.status, error.param]).toEqual([403, `nvext.agent_hints.${hinted}`])
    })

    it.each([
      ['priority', 1e9],
      ['osl', -1],
      ['osl', 'many'],
    ])('%s = %j is refused with its name', async (hinted, value) => {
      const response = await ask('/v1/chat/completions', { key: 'free', body: hint({ [hinted]: value }) })
      const { error } = (await response.json()) as { error: { param: string } }
      expect([response.status, error.param]).toEqual([400, `nvext.agent_hints.${hinted}`])
    })

    it('hints of agents that are no options have no effect', async () => {
      const response = await ask('/v1/chat/completions', { body: hint({ speculative_prefill: true, priority: null }) })
      await response.text()
      expect(response.status).toBe(200)
    })
  })
}
