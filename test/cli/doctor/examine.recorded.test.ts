import { describe, expect, it } from 'vitest'
import { visit, visitPool } from './ask.ts'
import { FASTAPI, jsonOf, realVllm, recorded } from './recorded-vllm.ts'
import type { Routes } from '../../kit/fake-answer.ts'
import { useEngines } from '../../kit/use-engines.ts'

const stub = useEngines(FASTAPI)

const examine = async (changes: Routes = {}, ...argv: string[]) => {
  const server = await stub({ ...realVllm, ...changes })
  return { ...(await visit(server.url, ...argv)), calls: server.calls }
}

/** The recorded completion with changes. */
const completion = (change: (answer: Record<string, unknown>) => void) => {
  const answer = jsonOf('completion')
  change(answer)
  return { 'POST /v1/completions': { body: answer } }
}

describe('firstlight doctor before answers of a real vLLM', () => {
  it('doctor before a real vLLM understands all of them', async () => {
    const seen = await examine()
    expect(seen.subjects[0]).toMatchObject({ kind: 'engine', is: 'vLLM 0.32.0' })
    expect(seen.find('models').message).toBe('tiny (models/tiny), up to 4096 tokens')
    expect(seen.find('cache_size').message).toBe('2000 blocks of 32 tokens: 64,000 tokens')
    expect(seen.find('prefix_caching').message).toBe('on, sha256_cbor')
    expect(seen.find('cached_tokens').mark).toBe('ok')
    expect(seen.find('kv_events').message).toBe('tcp://*:0, replay tcp://127.0.0.1:0')
    expect(seen.find('tokenize').mark).toBe('ok')
    expect(seen.find('admission_limits').message).toBe('requests are refused beyond 8 requests')
    expect(seen.find('sleep_mode').message).toContain('pause; the gateway observes it')
    expect(seen.find('kv_transfer').message).toBe('NixlConnector as kv_both')
    // The recorded engine publishes its events on all addresses.
    expect(seen.marks).toEqual(['dev_mode: note', 'event_sockets: warning'])
  })

  it('doctor before a real vLLM sends few requests, none twice, and none that changes anything', async () => {
    const { calls } = await examine()
    expect(calls.filter((one) => one.startsWith('POST')).sort()).toEqual([
      'POST /tokenize',
      'POST /tokenize',
      'POST /v1/completions',
    ])
    expect(calls.length).toBeLessThan(25)
  })

  it('doctor before a real vLLM sends a second request before it reports missing cached tokens', async () => {
    const seen = await examine(
      completion((answer) => ((answer['usage'] as Record<string, unknown>)['prompt_tokens_details'] = null)),
    )
    expect(seen.calls.filter((one) => one === 'POST /v1/completions')).toHaveLength(2)
    expect(seen.find('cached_tokens')).toMatchObject({
      mark: 'warning',
      next: expect.stringContaining('--enable-prompt-tokens-details'),
    })
    let times = 0
    const later = await examine({
      'POST /v1/completions': () => {
        const answer = jsonOf('completion')
        if (times++ === 0) (answer['usage'] as Record<string, unknown>)['prompt_tokens_details'] = null
        return { body: answer }
      },
    })
    expect(later.find('cached_tokens').mark).toBe('ok')
  })

  it.each([
    [
      'the whole answer is an error',
      { status: 500, body: { error: { message: 'EngineCore encountered an issue.', code: 500 } } },
      'a completion of one token failed: HTTP 500: EngineCore encountered an issue.',
    ],
    [
      '… with its code as text',
      { status: 503, body: { error: { message: 'busy', code: '503' } } },
      'a completion of one token failed: HTTP 503: busy',
    ],
    ['… as plain text', { status: 502, body: 'Bad Gateway' }, 'a completion of one token failed: HTTP 502'],
    ['it is no JSON', { body: '<html>' }, 'a completion of one token failed: HTTP 200, and an unexpected body'],
  ])('doctor before a real vLLM quotes a completion that fails when %s', async (_, answer, says) => {
    const seen = await examine({ 'POST /v1/completions': answer })
    expect(seen.find('completion')).toMatchObject({ mark: 'problem', message: says })
    expect(seen.code).toBe(1)
  })

  it('doctor before a real vLLM reports what an older engine without the newer routes does not show', async () => {
    const gone = { status: 404, body: { detail: 'Not Found' } }
    const metrics = recorded.metrics
      .replace('kv_cache_usage_perc', 'gpu_cache_usage_perc')
      .replace(/^vllm:(admission|engine_sleep).*\n/gm, '')
      .replace(/kv_cache_size_tokens="\d+",/, '')
    const seen = await examine({
      'GET /kv_event_sources': gone,
      'GET /is_paused': gone,
      'GET /is_sleeping': gone,
      'GET /server_info': gone,
      'GET /metrics': { body: metrics },
    })
    expect(seen.marks).toEqual(['kv_events: note', 'admission_limits: note'])
    expect(seen.find('cache_size').message).toBe('2000 blocks of 32 tokens: 64,000 tokens')
  })

  it('reads KV events of an engine that lists no sources off its flags, in development mode', async () => {
    const seen = await examine({ 'GET /kv_event_sources': { status: 404, body: { detail: 'Not Found' } } })
    expect(seen.find('kv_events')).toMatchObject({ mark: 'ok', message: 'tcp://127.0.0.1:0, replay tcp://127.0.0.1:0' })
  })

  it('doctor before a real vLLM recognises a server that is not vLLM', async () => {
    const model = { object: 'list', data: [{ id: 'llama', object: 'model' }] }
    const chat = { choices: [], usage: { prompt_tokens: 3, completion_tokens: 1 } }
    const server = await stub({
      'GET /health': { body: { status: 'ok' } },
      'GET /v1/models': { body: model },
      'POST /v1/chat/completions': { body: chat },
    })
    const seen = await visit(server.url)
    expect(seen.find('kind').message).toContain('not vLLM')
    expect(seen.find('completion').mark).toBe('ok')
    expect(seen.find('metrics').mark).toBe('warning')
    expect(seen.code).toBe(0)
  })

  it('doctor before a real vLLM warns of event sockets that are open to other machines', async () => {
    const sources = {
      0: {
        ...(jsonOf('kv-event-sources')['0'] as object),
        endpoint: 'tcp://*:5557',
        replay_endpoint: 'tcp://127.0.0.1:5558',
      },
      1: { enable_kv_cache_events: false, publisher: 'null', endpoint: 'tcp://*:5559', replay_endpoint: null },
    }
    const seen = await examine({ 'GET /kv_event_sources': { body: sources } })
    expect(seen.find('event_sockets')).toMatchObject({
      mark: 'warning',
      message: 'reachable from other hosts: tcp://*:5557',
    })
  })

  it('doctor before a real vLLM warns that events without a replay socket cannot be repaired', async () => {
    const sources = { 0: { ...(jsonOf('kv-event-sources')['0'] as object), replay_endpoint: null } }
    expect((await examine({ 'GET /kv_event_sources': { body: sources } })).find('kv_replay').mark).toBe('note')
  })

  it('doctor before a real vLLM distinguishes a wrong clock from a right one', async () => {
    const at = (skewMs: number): Routes => ({
      'GET /health': { headers: { date: new Date(Date.now() + skewMs).toUTCString() } },
    })
    expect((await examine(at(0))).find('clock').mark).toBe('ok')
    expect((await examine(at(90_000))).find('clock')).toMatchObject({
      mark: 'warning',
      message: expect.stringMatching(/^(89|90) s ahead of/),
    })
    expect((await examine(at(-90_000))).find('clock')).toMatchObject({
      mark: 'warning',
      message: expect.stringMatching(/^(88|89|90) s behind/),
    })
  })

  it('doctor before a real vLLM reports that a connection closes with its response', async () => {
    const seen = await examine({ 'GET /health': { headers: { connection: 'close' } } }, '--idle-s', '1')
    expect(seen.find('keep_alive')).toMatchObject({ mark: 'warning', message: 'every response closes its connection' })
  })
})

describe('firstlight doctor for a Whisper model', () => {
  const { 'POST /v1/completions': _, ...rest } = realVllm
  const ear: Routes = {
    ...rest,
    'GET /v1/audio/transcriptions': { status: 405, body: { detail: 'Method Not Allowed' } },
    'GET /kv_event_sources': { body: {} },
  }
  const uncached = {
    body: recorded.metrics.replaceAll(/enable_prefix_caching="\w+"/g, 'enable_prefix_caching="False"'),
  }

  it('doctor for a Whisper model sends no request that would crash it', async () => {
    const { url } = await stub({ ...ear, 'GET /metrics': uncached })
    const seen = await visit(url)
    expect(seen.find('prefix_caching')).toMatchObject({
      mark: 'ok',
      message: 'off, as required for a speech-to-text model',
    })
    expect(seen.find('completion')).toMatchObject({
      mark: 'ok',
      message: 'none: it transcribes audio (/v1/audio/transcriptions)',
    })
    expect(seen.json).not.toMatch(/--enable-prefix-caching|--kv-events-config|kv_events/)
    expect((await visitPool({ model: 'tiny', engines: [{ id: 'ear', url }] })).json).not.toContain('vocab compile')
  })

  it('doctor for a Whisper model reports that it will crash with prefix caching', async () => {
    const { url } = await stub(ear)
    expect((await visit(url, '--no-generate')).find('prefix_caching')).toMatchObject({
      mark: 'warning',
      next: expect.stringContaining('--no-enable-prefix-caching'),
    })
  })

  it('doctor for a Whisper model treats a model that also has chats as usual', async () => {
    const seen = await examine({
      'GET /v1/audio/transcriptions': { status: 405 },
      'GET /v1/chat/completions': { status: 405 },
      'GET /metrics': uncached,
    })
    expect(seen.find('prefix_caching')).toMatchObject({
      mark: 'warning',
      next: expect.stringContaining('--enable-prefix-caching'),
    })
  })
})

describe('firstlight doctor before an engine behind a proxy', () => {
  it('doctor before a proxy distinguishes public endpoints from those behind the configured headers', async () => {
    const guard = (table: Routes): Routes =>
      Object.fromEntries(
        Object.entries(table).map(([route, entry]) => [
          route,
          (request) =>
            request.headers['cf-access'] === undefined
              ? { status: 403 }
              : typeof entry === 'function'
                ? entry(request)
                : entry,
        ]),
      )
    const { url } = await stub(guard(realVllm))
    const seen = await visit(url, '--header', 'cf-access: abc')
    expect(seen.find('key')).toMatchObject({
      mark: 'ok',
      message: 'the headers of the configuration are required',
    })
    expect(seen.find('dev_mode').message).toContain('with the headers of the configuration')
    expect((await visit(url)).code).toBe(1)
  })
})
