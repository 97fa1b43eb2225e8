import { describe, expect, it } from 'vitest'
import { agentHints, hintedOptions } from '../../src/protocols/agent-hints.ts'
import { protocolOf } from '../../src/protocols/protocols.ts'
import { sessionOf } from '../../src/protocols/session.ts'

const find = (path: string, headers: Record<string, string>, body: Record<string, unknown> = {}) =>
  sessionOf((name) => headers[name], body, protocolOf(path)!.sessions)

const UUID = 'c2e3f1a0-7b1d-4a52-9d58-0a2b3c4d5e6f'

describe('the session of a request', () => {
  it.each([
    [
      'Claude Code, header',
      '/v1/messages',
      { 'x-claude-code-session-id': UUID },
      {},
      'header x-claude-code-session-id',
    ],
    [
      'Claude Code, body',
      '/v1/messages',
      {},
      { metadata: { user_id: JSON.stringify({ device_id: 'd', session_id: UUID }) } },
      'body metadata.user_id',
    ],
    [
      'Claude Code before 2026',
      '/v1/messages',
      {},
      { metadata: { user_id: `user_ab12_account_cd34_session_${UUID}` } },
      'body metadata.user_id',
    ],
    [
      'Codex, header',
      '/v1/responses',
      { 'session-id': UUID, 'thread-id': UUID, 'x-client-request-id': UUID },
      { prompt_cache_key: UUID },
      'header session-id',
    ],
    [
      'Codex, prompt_cache_key',
      '/v1/responses',
      {},
      { prompt_cache_key: UUID, client_metadata: { session_id: 'other' } },
      'body prompt_cache_key',
    ],
    [
      'Codex, client_metadata',
      '/v1/responses',
      {},
      { client_metadata: { session_id: UUID } },
      'body client_metadata.session_id',
    ],
    [
      'OpenCode',
      '/v1/chat/completions',
      { 'x-session-id': UUID, 'x-session-affinity': UUID },
      { user: 'u' },
      'header x-session-id',
    ],
    ['Dynamo', '/v1/chat/completions', { 'x-dynamo-session-id': UUID }, {}, 'header x-dynamo-session-id'],
    ['metadata', '/v1/chat/completions', {}, { metadata: { session_id: UUID }, user: 'u' }, 'body metadata.session_id'],
    ['conversation', '/v1/responses', {}, { conversation: { id: UUID } }, 'body conversation.id'],
    ['user', '/v1/chat/completions', {}, { user: UUID }, 'body user'],
    ['user of messages', '/v1/messages', {}, { metadata: { user_id: UUID } }, 'body metadata.user_id'],
  ])('the session of a request is found as %s sends it', (_case, path, headers, body, source) => {
    expect(find(path, headers as Record<string, string>, body)).toMatchObject({ id: UUID, source })
  })

  it('the session of a request is none if the client names none, or names it empty', () => {
    expect(find('/v1/chat/completions', { 'x-session-id': ' ' }, { user: '', metadata: null })).toBeNull()
    expect(find('/v1/chat/completions', { 'x-client-request-id': UUID })).toBeNull()
  })

  it('the session of a request has the agent and its parent', () => {
    const headers = {
      'x-claude-code-session-id': UUID,
      'x-claude-code-agent-id': 'a2',
      'x-claude-code-parent-agent-id': 'a1',
    }
    expect(find('/v1/messages', headers)).toMatchObject({ agent: 'a2', parent: 'a1' })
    expect(find('/v1/chat/completions', { 'x-session-id': 's2', 'x-parent-session-id': 's1' })).toMatchObject({
      agent: null,
      parent: 's1',
    })
  })

  it('the session of a request comes from configured sources first, and is shortened', () => {
    const sources = [{ header: 'x-tenant-chat' }, ...protocolOf('/v1/chat/completions')!.sessions]
    const found = sessionOf((name) => (name === 'x-tenant-chat' ? 'c'.repeat(600) : UUID), {}, sources)
    expect([found?.source, found?.id.length]).toEqual(['header x-tenant-chat', 512])
  })

  it('the session of a request has no characters that change a log line, and keeps letters of any language', () => {
    const idOf = (user: string) => find('/v1/chat/completions', {}, { user })?.id
    expect(idOf('a\nb\u001b[31m\u202ec\ud800')).toBe('a\ufffdb\ufffd[31m\ufffdc\ufffd')
    expect(idOf('Zoë 会話 👩')).toBe('Zoë 会話 👩')
  })

  it('the session of a request is not searched in a long text', () => {
    const user_id = `user_${'_session_'.repeat(100_000)}!`
    // The shortest of several: a busy machine may interrupt one.
    const tookMs = Array.from({ length: 5 }, () => {
      const since = performance.now()
      expect(find('/v1/messages', {}, { metadata: { user_id } })?.id).toBe(user_id.slice(0, 512))
      return performance.now() - since
    })
    expect(Math.min(...tookMs)).toBeLessThan(100)
  })
})

describe("Dynamo's agent hints", () => {
  it("Dynamo's agent hints are other names of options; higher priorities become lower ones", () => {
    expect(agentHints({ nvext: { agent_hints: { priority: 5 } } })).toEqual({ priority: 5 })
    expect(agentHints({ nvext: {} })).toBeUndefined()
    expect(hintedOptions({ priority: 5, osl: 1024 })).toEqual({ priority: -5, expected_output_tokens: 1024 })
    expect(hintedOptions({ priority: 0, osl: null })).toEqual({ priority: 0 })
  })
})
