import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { SILENCE } from '../../kit/fake-answer.ts'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { receiverOf, SplitBench, wordsOf, type Body } from '../../kit/split-gateway.ts'

const chat = '/v1/chat/completions'
const completions = '/v1/completions'
const messages = [{ role: 'user', content: 'tell me of the owl and the cat' }]

const faults = {
  refuse: { kind: 'refuse' },
  hang: { kind: 'hang', where: 'head' },
  reset: { kind: 'reset', after: 0 },
  'a 500': { kind: 'status', status: 500 },
  busy: {
    kind: 'status',
    status: 503,
    body: { error: { message: 'The engine is currently busy and cannot accept new requests.' } },
  },
  'no HTTP': { kind: 'malformed', where: 'head' },
  'half an answer': { kind: 'malformed', where: 'body' },
} as const
const keyOf = (fault: string) => `fault-${fault.replaceAll(' ', '-')}`

describe('prefill and decode by lmcache', () => {
  let bench: SplitBench
  let bridge: FakeEngine
  /** Response of the bridge, and its requests. */
  let ready: number | 'never' = 200
  const paths: string[] = []
  const decoders = (...ids: string[]) => ({ decoders: Object.fromEntries(ids.map((id) => [id, receiverOf(id)])) })

  beforeAll(async () => {
    bridge = await FakeEngine.open({
      '*': ({ target }) => {
        paths.push(target)
        return ready === 'never' ? SILENCE : { status: ready }
      },
    })
    const { url } = bridge
    const pair = { engines: ['p0', 'd0'] }
    const bridged = { ...pair, split: { lmcache: { ...decoders('d0'), ready_url: url, ready_ms: 500 } } }
    bench = await SplitBench.open('node', 'lmcache', {
      wire: pair,
      limits: pair,
      tenant: { ...pair },
      whole: pair,
      bridged,
      late: bridged,
      silent: bridged,
      ...Object.fromEntries(
        Object.keys(faults).map((fault) => [
          keyOf(fault),
          { engines: ['p0', 'p1', 'd0'], limits: { prefill_ms: 1000 } },
        ]),
      ),
      alone: pair,
      refused: pair,
      leaving: bridged,
      usage: pair,
      retried: { engines: ['p0', 'd0', 'd1'] },
      truncated: { ...pair, limits: { idle_ms: 500 } },
    })
  })
  afterEach(() => {
    bench.heal()
    ready = 200
    paths.length = 0
  })
  afterAll(async () => {
    await bench.close()
    await bridge.close()
  })

  it('a split by lmcache requests ids, then one token with the receiver’s address, then the rest', async () => {
    const answer = await bench.ask(chat, {
      model: 'wire',
      messages,
      max_tokens: 5,
      min_tokens: 3,
      temperature: 0,
      top_k: 4,
      seed: 11,
      user: 'u',
      cache_salt: 's',
      metadata: { a: 'b' },
    })
    expect(answer.status, answer.text).toBe(200)
    const [question, prefill] = bench.engine('p0').log.recent.slice(-2)
    expect([question!.path, prefill!.path]).toEqual(['/tokenize', completions])
    const { receiver_host, receiver_init_port, receiver_alloc_port } = {
      receiver_host: 'd0.kv',
      receiver_init_port: [8300, 8301],
      receiver_alloc_port: [8400, 8401],
    }
    const sent = JSON.parse(prefill!.body) as Body & { prompt: number[] }
    const carried = { model: 'wire', temperature: 0, top_k: 4, seed: 11, user: 'u', cache_salt: 's' }
    expect(sent).toEqual({
      ...carried,
      prompt: expect.any(Array),
      max_tokens: 1,
      min_tokens: 1,
      stream: false,
      kv_transfer_params: {
        ret_first_tok: true,
        disagg_spec: { req_id: expect.any(String), receiver_host, receiver_init_port, receiver_alloc_port },
      },
    })
    const decode = bench.engine('d0').log.recent.at(-1)!
    expect(decode.path).toBe(completions)
    expect(JSON.parse(decode.body)).toEqual({
      ...carried,
      prompt: [...sent.prompt, expect.any(Number)],
      max_tokens: 4,
      min_tokens: 2,
    })
  })

  it.each([
    ['max_tokens', chat, { max_tokens: 4 }, 3],
    ['max_completion_tokens', chat, { max_completion_tokens: 4 }, 3],
    ['both, of which the new one counts', chat, { max_tokens: 9, max_completion_tokens: 4 }, 3],
    ['no limit on a chat, which is no limit', chat, {}, null],
    ['no limit on a completion, which is 16', completions, {}, 15],
    ['null on a completion, which is no limit', completions, { max_tokens: null }, null],
  ])('a split by lmcache removes the first token from %s', async (_name, path, limit, left) => {
    const prompt = path === chat ? { messages } : { prompt: 'the owl and the cat' }
    const body = { model: 'limits', temperature: 0, ...prompt, ...limit }
    const answer = await bench.ask(path, body)
    expect(answer.status, answer.text).toBe(200)
    expect(JSON.parse(bench.engine('d0').log.recent.at(-1)!.body)).toMatchObject({ max_tokens: left })
    const alone = await bench.whole(path, body, 'w')
    expect(wordsOf(answer)).toBe(wordsOf(alone))
    expect((JSON.parse(answer.text) as { usage: Body }).usage).toMatchObject({
      completion_tokens: (JSON.parse(alone.text) as { usage: Body }).usage['completion_tokens'],
    })
  })

  it.each([
    ['tools', { tools: [{ type: 'function', function: { name: 'f', parameters: {} } }] }],
    ['reasoning', { reasoning_effort: 'high' }],
    ['structured output', { response_format: { type: 'json_object' } }],
    ['stop strings', { stop: ['owl'] }],
  ])('a split by lmcache serves %s whole', async (_name, fields) => {
    const answer = await bench.ask(chat, { model: 'whole', messages, max_tokens: 3, ...fields })
    expect(answer.status, answer.text).toBe(200)
    expect(answer.headers.get('x-firstlight-prefill')).toBeNull()
    const { split } = await bench.decision(answer)
    expect(split!.taken).toBe(false)
    expect(split!.why).toMatch(/^cannot be split: /)
  })

  it('a split by lmcache names the chosen decode engine, also on a second attempt, and sends the first token once', async () => {
    bench.engine('d0').setFault({ kind: 'status', status: 500 })
    bench.engine('d1').setFault({ kind: 'slow', delayMs: 20 })
    for (let at = 0; at < 2; at++) {
      const body = {
        model: 'retried',
        messages: [{ role: 'user', content: `question ${at}` }],
        max_tokens: 4,
        temperature: 0,
        stream: true,
      }
      const answer = await bench.ask(chat, body)
      expect([answer.status, answer.headers.get('x-firstlight-engine')]).toEqual([200, 'd1'])
      expect(wordsOf(answer)).toBe(wordsOf(await bench.whole(chat, body, 'w')))
    }
    const specs = bench
      .bodies('p0', 'retried')
      .flatMap(({ kv_transfer_params: params }) =>
        params === undefined
          ? []
          : [(params as { disagg_spec: { req_id: string; receiver_host: string } }).disagg_spec],
      )
    const hosts = specs.map(({ receiver_host: host }) => host)
    expect(hosts).toContain('d0.kv')
    expect(hosts.filter((host) => host === 'd1.kv')).toHaveLength(2)
    // Every attempt has its own id, so that none uses another's cache.
    expect(new Set(specs.map(({ req_id: id }) => id)).size).toBe(specs.length)
    expect(bench.engine('p0').kv!.violations.unknownEngine).toBe(0)
  })

  it('a split by lmcache waits for the bridge’s word before it decodes', async () => {
    const answer = await bench.ask(chat, { model: 'bridged', messages, max_tokens: 3, stream: true })
    expect(answer.headers.get('server-timing')).toMatch(/transfer;dur=/)
    const [spec] = bench
      .bodies('p0', 'bridged')
      .map(({ kv_transfer_params: params }) => params as { disagg_spec: { req_id: string } } | undefined)
      .filter((one) => one !== undefined)
    expect(paths).toEqual([`/${spec!.disagg_spec.req_id}?ranks=2`])
  })

  it.each([
    ['a text', 'the owl'],
    ['a text in a list', ['the owl']],
    ['ids', [1001, 1002, 1003]],
    ['ids in a list', [[1001, 1002, 1003]]],
  ])('a split by lmcache reads a prompt that is %s', async (_name, prompt) => {
    const body = { model: 'limits', prompt, max_tokens: 4, temperature: 0 }
    const answer = await bench.ask(completions, body)
    expect(answer.headers.get('x-firstlight-prefill')).toBe('p0')
    expect(wordsOf(answer)).toBe(wordsOf(await bench.whole(completions, body, 'w')))
  })

  it.each([
    ['late', 503],
    ['silent', 'never'],
  ] as const)('a split by lmcache lets the decode engine do it all when the bridge is %s', async (model, answered) => {
    ready = answered
    const body = { model, messages, max_tokens: 3, temperature: 0 }
    const answer = await bench.ask(chat, body)
    expect(answer.headers.get('x-firstlight-decision')).toMatch(/; kv_transfer=late$/)
    expect(bench.engine('d0').log.recent.at(-1)!.path).toBe(chat)
    expect(wordsOf(answer)).toBe(wordsOf(await bench.whole(chat, body, 'w')))
    await bench.quiet()
  })

  for (const [fault, rule] of Object.entries(faults)) {
    // The first request to a prefill engine is for the token ids of the prompt.
    it.each([
      ['a text', 'the owl and the cat'],
      ['ids', [1001, 1002, 1003]],
    ])(`a split by lmcache uses another prefill engine after ${fault}, for prompt %s`, async (_name, prompt) => {
      bench.engine('p0').setFault(rule)
      for (const stream of [false, true]) {
        const body = { model: keyOf(fault), prompt, max_tokens: 4, temperature: 0, stream }
        const answer = await bench.ask(completions, body)
        expect([answer.status, answer.headers.get('x-firstlight-prefill')], answer.text).toEqual([200, 'p1'])
        expect(wordsOf(answer)).toBe(wordsOf(await bench.whole(completions, body, 'w')))
      }
      await bench.quiet()
    })
  }

  it('a split by lmcache decodes alone when no prefill engine is left', async () => {
    bench.engine('p0').setFault({ kind: 'status', status: 500 })
    const body = { model: 'alone', messages, max_tokens: 4, temperature: 0 }
    const answer = await bench.ask(chat, body)
    expect([answer.status, answer.headers.get('x-firstlight-prefill')], answer.text).toEqual([200, null])
    expect(wordsOf(answer)).toBe(wordsOf(await bench.whole(chat, body, 'w')))
    await bench.quiet()
  })

  it('a split by lmcache returns the prefill engine’s rejection without another request', async () => {
    const error = { error: { message: 'the prompt is too long', type: 'BadRequestError', param: null, code: 400 } }
    bench.engine('p0').setFault({ kind: 'status', status: 400, body: error })
    const answer = await bench.ask(chat, { model: 'refused', messages, max_tokens: 4, stream: true })
    expect([answer.status, JSON.parse(answer.text)]).toEqual([400, error])
    expect(bench.bodies('d0', 'refused')).toEqual([])
    await bench.quiet()
  })

  it('a split by lmcache stops if the client disconnects during the transfer, without decoding', async () => {
    ready = 'never'
    const client = new AbortController()
    const answer = bench
      .ask(chat, { model: 'leaving', messages, max_tokens: 4 }, { signal: client.signal })
      .catch(() => null)
    await expect.poll(() => paths.length, { interval: 5 }).toBe(1)
    client.abort()
    expect(await answer).toBeNull()
    await bench.quiet()
    expect(bench.bodies('d0', 'leaving')).toEqual([])
  })

  it('a split by lmcache counts tokens as the client does, wherever they are counted', async () => {
    const counted = async () => {
      const text = await (
        await fetch(`${bench.gateway.url}/metrics`, { headers: { authorization: 'Bearer admin-secret-for-tests' } })
      ).text()
      return ['prompt', 'generation'].map((kind) =>
        Number(
          text
            .split('\n')
            .find((line) => line.startsWith(`firstlight_${kind}_tokens_total{model="usage"`))
            ?.split(' ')[1],
        ),
      )
    }
    const { usage } = JSON.parse(
      (await bench.ask(chat, { model: 'usage', messages, max_tokens: 5, temperature: 0 })).text,
    ) as { usage: { prompt_tokens: number; completion_tokens: number } }
    await expect.poll(counted).toEqual([usage.prompt_tokens, usage.completion_tokens])
  })

  it('a split by lmcache ends a stream that breaks with the same error event as any other', async () => {
    bench.engine('d0').setFault({ kind: 'hang', where: 'middle', after: 3 })
    // The connection breaks after the event, so the body is read in pieces.
    const response = await fetch(`${bench.gateway.url}${chat}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'truncated', messages, max_tokens: 9, stream: true }),
    })
    let text = ''
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
    const broken = await (async () => {
      for (;;) {
        const { done, value } = await reader.read()
        if (done) return null
        text += value
      }
    })().catch((error: unknown) => error)
    expect(broken).toBeInstanceOf(Error)
    expect(text).toMatch(/data: \{"error":\{.*engine_stream_truncated.*\}\n\n$/)
    expect(text.match(/"role":"assistant"/g)).toHaveLength(1)
    bench.heal()
    await bench.quiet()
  })

  it('a split by lmcache receives the disconnect of a client', async () => {
    bench.engine('d0').setFault({ kind: 'hang', where: 'middle', after: 3 })
    const client = new AbortController()
    const response = await fetch(`${bench.gateway.url}${chat}`, {
      method: 'POST',
      signal: client.signal,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'wire', messages, max_tokens: 50, stream: true }),
    })
    await response.body!.getReader().read()
    client.abort()
    await expect(bench.quiet()).resolves.toBeUndefined()
  })
})
