/** Split serving as clients and engines see it, on any runtime. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { comparable, SplitBench, wordsOf, type Body, type SplitPool } from '../kit/split-gateway.ts'
import { leavesBy, type Runtime, runtimeNames } from '../kit/gateway.ts'
import { postAndLeave } from '../kit/leaving-client.ts'

const chat = '/v1/chat/completions'
const completions = '/v1/completions'
const hello = [{ role: 'user', content: 'what does the fox say to the hen by the sea '.repeat(20) }]
const onePair = ['p0', 'd0']
const usage = { stream_options: { include_usage: true } }

const shapes: readonly [string, string, Body][] = [
  ['a chat', chat, { messages: hello, max_tokens: 6 }],
  ['a streamed chat', chat, { messages: hello, max_tokens: 6, stream: true, ...usage }],
  [
    'a streamed chat that names its limit the new way',
    chat,
    { messages: hello, max_completion_tokens: 6, stream: true, ...usage },
  ],
  ['a completion', completions, { prompt: 'the fox and the hen', max_tokens: 6 }],
  [
    'a streamed completion of ids',
    completions,
    { prompt: Array.from({ length: 80 }, (_, at) => 1000 + at), max_tokens: 6, stream: true, ...usage },
  ],
  ['a completion that names no limit', completions, { prompt: 'the fox and the hen' }],
]
const anthropic: readonly [string, string, Body][] = [
  ['a message', '/v1/messages', { messages: hello, max_tokens: 6 }],
  ['a streamed message', '/v1/messages', { messages: hello, max_tokens: 6, stream: true }],
]
const responses: readonly [string, string, Body][] = [
  ['a response', '/v1/responses', { input: 'the fox and the hen', max_output_tokens: 6 }],
  ['a streamed response', '/v1/responses', { input: 'the fox and the hen', max_output_tokens: 6, stream: true }],
]

export function disaggContract(runtime: Runtime): void {
  const name = `a gateway on ${runtimeNames[runtime]}`
  for (const connector of ['nixl', 'response', 'lmcache'] as const) {
    const cases = connector === 'lmcache' ? shapes : [...shapes, ...responses, ...anthropic]
    const pools = Object.fromEntries(cases.map((_, at): [string, SplitPool] => [`m${at}`, { engines: onePair }]))
    describe(`${name}, prefill and decode by ${connector}`, () => {
      let bench: SplitBench
      beforeAll(async () => {
        bench = await SplitBench.open(runtime, connector, pools)
      })
      afterAll(() => bench.close())

      it.each(cases.map((one, at) => [one[0], at] as const))(
        '%s says what one engine says, byte for byte',
        async (_title, at) => {
          const [, path, fields] = cases[at]!
          const before = bench.engine('d0').kv!.decodeLegs
          const body = { model: `m${at}`, temperature: 0, ...fields }
          const split = await bench.ask(path, body, { headers: { 'x-request-id': `both-${at}` } })
          expect(split.status, split.text).toBe(200)
          const whole = await bench.whole(path, body, `both-${at}`)
          expect(wordsOf(split)).toBe(wordsOf(whole))
          expect(comparable(split.text)).toBe(comparable(whole.text))
          expect(split.headers.get('x-firstlight-prefill')).toBe('p0')
          expect(split.headers.get('x-firstlight-engine')).toBe('d0')
          expect(bench.engine('d0').kv!.decodeLegs).toBe(before + 1)
          for (const id of onePair) {
            expect(Object.values(bench.engine(id).kv!.violations)).toEqual([0, 0, 0, 0, 0, 0, 0])
            const { headers } = bench.engine(id).log.recent.at(-1)!
            expect([headers['x-request-id'], headers['via']]).toEqual([
              `both-${at}`,
              expect.stringMatching(/^1\.1 firstlight-[0-9a-f]{8}$/),
            ])
          }
          expect((await bench.decision(split)).split).toEqual({ taken: true, why: 'always' })
          await bench.quiet()
        },
      )
    })
  }
  forged(name, runtime)
  legs(name, runtime)
  walks(name, runtime)
  departures(name, runtime)
  plans(name, runtime)
}

/** Clients that send transfer parameters of their own. */
function forged(name: string, runtime: Runtime): void {
  it(`${name} serves a message with thinking whole, because one token would not complete its prefill`, async () => {
    const bench = await SplitBench.open(runtime, 'response', { split: { engines: onePair } })
    try {
      const answer = await bench.ask('/v1/messages', {
        model: 'split',
        messages: hello,
        max_tokens: 3000,
        thinking: { type: 'enabled', budget_tokens: 2000 },
      })
      expect(answer.status, answer.text).toBe(200)
      expect((await bench.decision(answer)).split).toEqual({
        taken: false,
        why: 'cannot be split: a thinking budget does not fit one token',
      })
    } finally {
      await bench.close()
    }
  })

  it(`${name} removes transfer parameters of clients`, async () => {
    const bench = await SplitBench.open(runtime, 'response', {
      split: { engines: onePair },
      whole: { engines: onePair, split: { mode: 'never' } },
    })
    try {
      for (const model of ['split', 'whole'])
        expect(
          (await bench.ask(chat, { model, messages: hello, max_tokens: 2, disagg_prefill_resp: { id: 'forged' } }))
            .status,
        ).toBe(200)
      expect(bench.bodies('p0', 'split')[0]).not.toHaveProperty('disagg_prefill_resp')
      expect(bench.bodies('d0', 'split')[0]).toMatchObject({
        disagg_prefill_resp: { id: expect.stringMatching(/^chatcmpl-/) },
      })
      expect(bench.bodies('d0', 'whole')[0]).not.toHaveProperty('disagg_prefill_resp')
    } finally {
      await bench.close()
    }
  })
}

/** Requests that engines receive. */
function legs(name: string, runtime: Runtime): void {
  describe(`${name}, the legs of a split`, () => {
    let bench: SplitBench
    const pool: SplitPool = { engines: onePair }
    beforeAll(async () => {
      bench = await SplitBench.open(runtime, 'nixl', {
        bytes: pool,
        costs: pool,
        heads: pool,
        refused: pool,
        spread: { engines: ['p0', 'p1', 'd0', 'd1', 'd2', 'd3'] },
        stages: pool,
      })
    })
    afterAll(() => bench.close())
    afterEach(() => bench.heal())

    it('decode gets the client’s bytes unchanged, with the gateway’s parameters in front', async () => {
      const sent =
        '{ "model":"bytes",  "seed":9007199254740993, "messages":[{"role":"user","content":"h\\u00e9 \\ud83d\\ude00"}],\n"max_tokens" : 4,"kv_transfer_params":{"do_remote_prefill":true} }'
      const answer = await bench.ask(chat, sent)
      expect(answer.status).toBe(200)
      const got = bench.engine('d0').log.recent.at(-1)!.body
      const params = /^\{("kv_transfer_params":\{.*?"remote_prefill_cached_tokens":\d+\}),/.exec(got)![1]!
      expect(got).toBe(
        sent.replace('{ ', `{${params}, `).replace(',"kv_transfer_params":{"do_remote_prefill":true} }', ' }'),
      )
      expect(JSON.parse(`{${params}}`)).toMatchObject({
        kv_transfer_params: { do_remote_prefill: true, remote_host: '127.0.0.1' },
      })
      expect(bench.engine('d0').kv!.violations.fatal).toBe(0)
    })

    it('prefill generates one token without streaming', async () => {
      const fields = {
        stream: true,
        ...usage,
        max_tokens: 50,
        max_completion_tokens: 40,
        min_tokens: 20,
        logprobs: true,
        top_logprobs: 3,
        n: 1,
        temperature: 0.5,
        tools: [{ type: 'function', function: { name: 'f', parameters: {} } }],
      }
      expect((await bench.ask(chat, { model: 'costs', messages: hello, ...fields })).status).toBe(200)
      const [body] = bench.bodies('p0', 'costs')
      expect(body).toEqual({
        model: 'costs',
        messages: hello,
        stream: false,
        max_tokens: 1,
        max_completion_tokens: 1,
        temperature: 0.5,
        tools: fields.tools,
        kv_transfer_params: {
          do_remote_decode: true,
          do_remote_prefill: false,
          remote_engine_id: null,
          remote_block_ids: null,
          remote_host: null,
          remote_port: null,
        },
      })
      expect(bench.bodies('d0', 'costs')[0]).toMatchObject(fields)
    })

    it('a message with thinking is split too, with its budget of more than one token', async () => {
      const thinking = { type: 'enabled', budget_tokens: 2000 }
      const answer = await bench.ask('/v1/messages', {
        model: 'costs',
        messages: hello,
        max_tokens: 3000,
        thinking,
        stop_sequences: ['zzz'],
      })
      expect([answer.status, answer.headers.get('x-firstlight-prefill')], answer.text).toEqual([200, 'p0'])
      expect(bench.bodies('p0', 'costs').at(-1)).toMatchObject({ max_tokens: 1, thinking })
      expect(bench.bodies('d0', 'costs').at(-1)).toMatchObject({ max_tokens: 3000, thinking })
    })

    it('both get the client’s headers and neither its credentials', async () => {
      await bench.ask(
        chat,
        { model: 'heads', messages: hello, max_tokens: 2 },
        {
          headers: {
            traceparent: '00-abc',
            'x-tenant-hint': 'blue',
            authorization: 'Bearer client',
            'x-request-id': 'one-id',
          },
        },
      )
      for (const id of onePair) {
        const { headers } = bench.engine(id).log.recent.at(-1)!
        expect(headers).toMatchObject({ traceparent: '00-abc', 'x-tenant-hint': 'blue', 'x-request-id': 'one-id' })
        expect(headers['authorization']).toBeUndefined()
      }
    })

    it('a request that prefill rejects ends with the engine’s error, without a decode leg', async () => {
      const error = {
        error: { message: 'the prompt is too long', type: 'BadRequestError', param: 'input_tokens', code: 400 },
      }
      bench.engine('p0').setFault({ kind: 'status', status: 400, body: error })
      const answer = await bench.ask(chat, { model: 'refused', messages: hello, stream: true })
      expect([answer.status, JSON.parse(answer.text)]).toEqual([400, error])
      expect(answer.headers.get('x-firstlight-engine')).toBe('p0')
      expect(bench.bodies('d0', 'refused')).toEqual([])
      await bench.quiet()
    })

    it('prefill and decode engines are chosen apart from each other, and all have their turn', async () => {
      const answers = await Promise.all(
        Array.from({ length: 8 }, (_, at) =>
          bench.ask(chat, { model: 'spread', messages: [{ role: 'user', content: `question ${at}` }], max_tokens: 3 }),
        ),
      )
      const used = (header: string) => [...new Set(answers.map(({ headers }) => headers.get(header)))].sort()
      expect(used('x-firstlight-prefill')).toEqual(['p0', 'p1'])
      expect(used('x-firstlight-engine')).toEqual(['d0', 'd1', 'd2', 'd3'])
      await bench.quiet()
    })

    it('a stream reports the prefill time, and the decision records it', async () => {
      const answer = await bench.ask(chat, { model: 'stages', messages: hello, max_tokens: 3, stream: true })
      expect(answer.headers.get('server-timing')).toMatch(/prefill_leg;dur=\d/)
      await bench.quiet()
      expect((await bench.decision(answer)).actual).toMatchObject({
        result: 'complete',
        stages: { prefill_leg: expect.any(Number), first_byte: expect.any(Number), ttft: expect.any(Number) },
      })
    })
  })
}

const HANG_MS = 1500
const NO_RETRIES = { share: 0, min_per_s: 0 }

/** Every phase and every failure: the remaining engines serve, and no booking stays open. */
function walks(name: string, runtime: Runtime): void {
  const phases = ['encode', 'prefill', 'decode'] as const
  const faults = {
    refuse: { kind: 'refuse' },
    hang: { kind: 'hang', where: 'head' },
    'hang in the body': { kind: 'hang', where: 'body' },
    reset: { kind: 'reset', after: 0 },
    'a 500': { kind: 'status', status: 500 },
    busy: {
      kind: 'status',
      status: 503,
      body: { error: { message: 'The engine is currently busy and cannot accept new requests.' } },
    },
    'no HTTP': { kind: 'malformed', where: 'head' },
  } as const
  const limits = { prefill_ms: HANG_MS, first_byte_ms: HANG_MS }
  const all = ['e0', 'e1', 'p0', 'p1', 'd0', 'd1']
  const first = { encode: 'e0', prefill: 'p0', decode: 'd0' } as const
  const keyOf = (phase: string, fault: string) => `${phase}-${fault.replaceAll(' ', '-')}`
  const pools: Record<string, SplitPool> = {}
  for (const phase of phases) {
    for (const fault of [...Object.keys(faults), 'leave', 'alone'])
      pools[keyOf(phase, fault)] = { engines: all, split: { encode: { limit_ms: HANG_MS, concurrency: 2 } }, limits }
  }
  const picture = (at: number | string) => [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'what is it' },
        { type: 'image_url', image_url: { url: `data:image/png;base64,${String(at)}` } },
      ],
    },
  ]

  describe(`${name}, engines that fail in the middle of a split`, () => {
    let bench: SplitBench
    beforeAll(async () => {
      bench = await SplitBench.open(runtime, 'nixl', {
        ...pools,
        orphan: { engines: ['p0', 'p1', 'd0', 'd1'] },
        lonely: { engines: ['p0', 'd0'] },
        spent: { engines: ['p0', 'd0'], more: { retry: NO_RETRIES } },
        refused: { engines: ['p0', 'p1', 'd0', 'd1'], more: { retry: NO_RETRIES } },
      })
    })
    afterAll(() => bench.close())
    afterEach(() => bench.heal())

    it('a prefill engine that dies with the blocks it held costs time, and no request', async () => {
      for (const id of ['d0', 'd1']) bench.engine(id).setFault({ kind: 'slow', delayMs: 1000 })
      const body = { model: 'orphan', messages: hello, max_tokens: 3, temperature: 0 }
      const pending = bench.ask(chat, body)
      const decoding = () => ['d0', 'd1'].reduce((sum, id) => sum + bench.engine(id).log.running, 0)
      await expect.poll(decoding, { interval: 5 }).toBe(1)
      const dead = ['p0', 'p1'].find((id) => bench.bodies(id, 'orphan').length > 0)!
      bench.engine(dead).kill()
      const answer = await pending
      expect(answer.status, answer.text).toBe(200)
      expect(answer.headers.get('x-firstlight-prefill')).not.toBe(dead)
      bench.engine(dead).restart()
      bench.heal()
      expect(wordsOf(answer)).toBe(wordsOf(await bench.whole(chat, body, 'w')))
      // It could reach no engine there; like vLLM, it reported that after its time limit.
      expect(['d0', 'd1'].reduce((sum, id) => sum + bench.engine(id).kv!.violations.unknownEngine, 0)).toBe(1)
      await bench.quiet()
    })

    it('when a prefill engine dies with the blocks it held, the only decode engine serves alone', async () => {
      bench.engine('d0').setFault({ kind: 'slow', delayMs: 1000 })
      const body = { model: 'lonely', messages: hello, max_tokens: 3, temperature: 0 }
      const pending = bench.ask(chat, body)
      await expect.poll(() => bench.engine('d0').log.running, { interval: 5 }).toBe(1)
      bench.engine('p0').kill()
      const answer = await pending
      expect(
        [answer.status, answer.headers.get('x-firstlight-engine'), answer.headers.get('x-firstlight-prefill')],
        answer.text,
      ).toEqual([200, 'd0', null])
      bench.engine('p0').restart()
      bench.heal()
      expect(wordsOf(answer)).toBe(wordsOf(await bench.whole(chat, body, 'w')))
      await bench.quiet()
    })

    for (const phase of phases) {
      for (const [fault, rule] of Object.entries(faults)) {
        it(`${phase}: ${fault} costs no request`, async () => {
          const model = keyOf(phase, fault)
          const before = bench.engine(first[phase]).log.inference
          bench.engine(first[phase]).setFault(rule)
          // Round robin: two requests reach every engine of a role.
          for (let at = 0; at < 2; at++) {
            // Only streams have a time limit for their start; a response that does not stream has none.
            const stream = at === 1 || (phase === 'decode' && fault.startsWith('hang'))
            const body = { model, messages: picture(`${model}${at}`), max_tokens: 3, temperature: 0, stream }
            const answer = await bench.ask(chat, body)
            expect(answer.status, answer.text).toBe(200)
            expect(wordsOf(answer)).toBe(wordsOf(await bench.whole(chat, body, 'w')))
          }
          if (fault !== 'refuse') expect(bench.engine(first[phase]).log.inference).toBeGreaterThan(before)
          bench.heal()
          await bench.quiet()
        })
      }

      it(`${phase}: without an engine left, ${phase === 'decode' ? 'the client gets an error' : 'the decode engine does the work'}`, async () => {
        const letter = first[phase][0]!
        for (const id of all.filter((one) => one.startsWith(letter)))
          bench.engine(id).setFault({ kind: 'status', status: 500 })
        const body = { model: keyOf(phase, 'alone'), messages: picture('alone'), max_tokens: 3, temperature: 0 }
        const answer = await bench.ask(chat, body)
        if (phase === 'decode')
          expect([answer.status, (JSON.parse(answer.text) as { error: Body }).error]).toEqual([
            502,
            expect.objectContaining({
              code: 'engine_unreachable',
              message: expect.stringMatching(/engines? of the decode leg failed to answer \(last status 500\)/),
            }),
          ])
        else expect(wordsOf(answer)).toBe(wordsOf(await bench.whole(chat, body, 'w')))
        bench.heal()
        await bench.quiet()
      })

      it.each([false, true])(
        `${phase}: a client that leaves stops it, and nothing after it begins (stream: %s)`,
        async (stream) => {
          const letter = first[phase][0]!
          const engines = all.filter((id) => id.startsWith(letter)).map((id) => bench.engine(id))
          for (const engine of engines) engine.setFault({ kind: 'hang', where: 'head' })
          const later = phase === 'encode' ? ['p0', 'p1', 'd0', 'd1'] : phase === 'prefill' ? ['d0', 'd1'] : []
          const model = keyOf(phase, 'leave')
          const client = new AbortController()
          const post = { url: `${bench.gateway.url}${chat}`, body: { model, messages: picture('leave'), stream } }
          const left = postAndLeave({ ...post, by: leavesBy(runtime) }, client.signal)
          await expect.poll(() => engines.reduce((sum, { log }) => sum + log.running, 0)).toBeGreaterThan(0)
          client.abort()
          await left
          // On a busy machine the gateway tries an engine that hangs again and again.
          bench.heal()
          await bench.quiet()
          for (const id of later) expect(bench.bodies(id, model)).toEqual([])
        },
      )
    }

    it('if a prefill engine dies, the decode engine serves alone, also without a retry budget', async () => {
      bench.engine('p0').setFault({ kind: 'hang', where: 'head' })
      const pending = Array.from({ length: 12 }, (_, at) =>
        bench.ask(chat, { model: 'spent', messages: [{ role: 'user', content: `one ${at}` }], max_tokens: 3 }),
      )
      await expect.poll(() => bench.engine('p0').log.running, { interval: 5 }).toBe(12)
      bench.engine('p0').kill()
      const answers = await Promise.all(pending)
      bench.engine('p0').restart()
      bench.heal()
      for (const { status, headers, text } of answers) {
        expect([status, headers.get('x-firstlight-engine'), headers.get('x-firstlight-prefill')], text).toEqual([
          200,
          'd0',
          null,
        ])
      }
      await bench.quiet()
    })

    it.each([
      ['breaks the connection', { kind: 'reset', after: 0 }, 503, 'retry_budget_exhausted'],
      ['answers 500', { kind: 'status', status: 500 }, 502, 'engine_unreachable'],
    ] as const)(
      'without a retry budget the error names the budget when the decode engine %s',
      async (_, fault, status, code) => {
        for (const id of ['d0', 'd1']) bench.engine(id).setFault(fault)
        const answer = await bench.ask(chat, { model: 'refused', messages: hello, max_tokens: 3 })
        const { error } = JSON.parse(answer.text) as { error: { code: string; message: string } }
        expect([answer.status, error.code]).toEqual([status, code])
        expect(error.message).toMatch(/decode leg.* retry budget .* exhausted/)
        bench.heal()
        await bench.quiet()
      },
    )

    it('prefill: half an answer costs no request', async () => {
      const model = keyOf('prefill', 'leave')
      bench.engine('p0').setFault({ kind: 'malformed', where: 'body' })
      for (let at = 0; at < 2; at++) {
        const body = { model, messages: [{ role: 'user', content: `half ${at}` }], max_tokens: 3, temperature: 0 }
        expect(wordsOf(await bench.ask(chat, body))).toBe(wordsOf(await bench.whole(chat, body, 'w')))
      }
      bench.heal()
      await bench.quiet()
    })

    it('encode: an item that is refused is the client’s, and the rest is called off', async () => {
      const model = keyOf('encode', 'leave')
      const error = { error: { message: 'the image cannot be read', type: 'BadRequestError', param: null, code: 400 } }
      bench.engine('e0').setFault({ kind: 'hang', where: 'head' })
      bench.engine('e1').setFault({ kind: 'status', status: 400, body: error })
      const content = ['r1', 'r2', 'r3', 'r4'].map((data) => ({
        type: 'image_url',
        image_url: { url: `data:image/png;base64,${data}` },
      }))
      const answer = await bench.ask(chat, { model, messages: [{ role: 'user', content }] })
      expect([answer.status, JSON.parse(answer.text)]).toEqual([400, error])
      expect(bench.engine('p0').log.running + bench.engine('p1').log.running).toBe(0)
      await bench.quiet()
    })

    it('a decode engine that fails is followed by another with a prefill of its own', async () => {
      const model = keyOf('decode', 'leave')
      const reused = () => bench.engine('d0').kv!.violations.reused + bench.engine('d1').kv!.violations.reused
      const before = reused()
      const legsBefore = bench.engine('p0').kv!.prefillLegs + bench.engine('p1').kv!.prefillLegs
      for (const id of ['d0', 'd1']) bench.engine(id).setFault({ kind: 'status', status: 500 })
      const answer = await bench.ask(chat, { model, messages: hello, max_tokens: 3 })
      // Both failed, and the last one again. Each attempt had its own prefill, and none was used twice.
      expect(answer.status).toBe(502)
      expect(bench.engine('p0').kv!.prefillLegs + bench.engine('p1').kv!.prefillLegs).toBe(legsBefore + 3)
      bench.heal()
      expect((await bench.ask(chat, { model, messages: hello, max_tokens: 3 })).status).toBe(200)
      expect(reused()).toBe(before)
    })
  })
}

/** Clients of streams that leave before the answer: Workers detect it at the next heartbeat. */
function departures(name: string, runtime: Runtime): void {
  describe(`${name}, clients that leave during the legs of a stream`, () => {
    const all = ['e0', 'p0', 'd0']
    let bench: SplitBench
    beforeAll(async () => {
      bench = await SplitBench.open(runtime, 'nixl', { left: { engines: all }, served: { engines: all } }, 50)
    })
    afterAll(() => bench.close())
    afterEach(() => bench.heal())

    const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,aaaa' } }
    const messages = [{ role: 'user', content: [{ type: 'text', text: 'what is it' }, image] }]

    it.each([
      ['encode', 'e0', ['p0', 'd0']],
      ['prefill', 'p0', ['d0']],
      ['decode', 'd0', []],
    ] as const)(
      'the %s leg ends with a stream whose client leaves, and so do its bookings',
      async (_leg, id, later) => {
        bench.engine(id).setFault({ kind: 'hang', where: 'head' })
        const client = new AbortController()
        const answer = await fetch(`${bench.gateway.url}${chat}`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ model: 'left', messages, max_tokens: 3, stream: true }),
          signal: client.signal,
        })
        const { value } = await answer.body!.getReader().read()
        expect([answer.status, new TextDecoder().decode(value)]).toEqual([200, expect.stringMatching(/^: ping\n/)])
        await expect.poll(() => bench.engine(id).log.running).toBe(1)
        client.abort()
        await bench.quiet()
        for (const other of later) expect(bench.bodies(other, 'left')).toEqual([])
      },
    )

    it.each([
      ['prefill', 'p0'],
      ['decode', 'd0'],
    ])('a stream whose %s leg is longer than the heartbeat interval gets its answer', async (_leg, id) => {
      const before = bench.bodies('p0', 'served').length
      bench.engine(id).setFault({ kind: 'slow', delayMs: 300 })
      const body = { model: 'served', messages: hello, max_tokens: 3, temperature: 0, stream: true }
      const answer = await bench.ask(chat, body)
      expect([answer.status, answer.text]).toEqual([200, expect.stringMatching(/data: \[DONE\]\n\n(?:: ping\n)*$/)])
      const whole = await bench.whole(chat, body, 'w')
      expect(wordsOf({ ...answer, text: answer.text.replaceAll(/: ping\n+/g, '') })).toBe(wordsOf(whole))
      expect(bench.bodies('p0', 'served')).toHaveLength(before + 1)
      await bench.quiet()
    })
  })
}

/** When requests are split, and the reasons in the decision. */
function plans(name: string, runtime: Runtime): void {
  const ids = (length: number) => Array.from({ length }, (_, at) => 1000 + at)
  describe(`${name}, the plan`, () => {
    let bench: SplitBench
    const split = (more: Body): SplitPool => ({ engines: onePair, split: more })
    beforeAll(async () => {
      bench = await SplitBench.open(runtime, 'nixl', {
        whole: split({}),
        ids: split({ mode: 'threshold', threshold_tokens: 100 }),
        zero: split({ mode: 'threshold', threshold_tokens: 0 }),
        below: split({ mode: 'threshold', threshold_tokens: -5 }),
        chars: split({ mode: 'threshold', threshold_tokens: 100, estimate: 'chars4' }),
        never: split({ mode: 'never' }),
        adaptive: split({ mode: 'adaptive' }),
        uncached: {
          engines: ['p0', 'd0', 'd1'],
          split: { mode: 'uncached', threshold_tokens: 100 },
          more: { policy: 'predicted' },
        },
        mixed: { engines: ['p0', 'd0', 'a0'] },
        strict: { engines: ['p0', 'd0'], split: { fallback: 'fail' } },
        images: { engines: ['e0', 'e1', 'p0', 'd0'] },
        pictures: { engines: ['e0', 'a0', 'a1'] },
      })
    })
    afterAll(() => bench.close())
    afterEach(() => bench.heal())

    const plan = async (body: Body, path = completions) => {
      const answer = await bench.ask(path, { max_tokens: 2, ...body })
      expect(answer.status, answer.text).toBe(200)
      const { split: splitDecision, placement } = await bench.decision(answer)
      expect(placement['kind']).toBe(splitDecision!.taken ? 'split' : 'whole')
      return splitDecision!
    }

    it.each([
      ['echo', completions, { prompt: 'x', echo: true }, 'echo'],
      ['prompt_logprobs', completions, { prompt: 'x', prompt_logprobs: 1 }, 'prompt_logprobs'],
      ['several answers', chat, { messages: hello, n: 2 }, 'n is more than 1'],
      ['the best of several', completions, { prompt: 'x', best_of: 2 }, 'best_of is more than 1'],
      ['beam search', completions, { prompt: 'x', use_beam_search: true }, 'beam search'],
      ['several prompts', completions, { prompt: ['x', 'y'] }, 'several prompts'],
      ['embeddings', '/v1/embeddings', { input: 'x', max_tokens: undefined }, 'nothing is decoded'],
      ['scores', '/score', { text_1: 'x', text_2: 'y', max_tokens: undefined }, 'nothing is decoded'],
    ] as const)('a split pool serves %s whole, and says why', async (_name, path, body, why) => {
      expect(await plan({ model: 'whole', ...body }, path)).toEqual({ taken: false, why: `cannot be split: ${why}` })
    })

    it.each([
      [99, false],
      [100, true],
      [101, true],
    ])('a split pool counts %i ids against a threshold of 100', async (count, taken) => {
      expect(await plan({ model: 'ids', prompt: ids(count) })).toEqual({
        taken,
        why: `${count} prompt tokens ${taken ? '>=' : '<'} 100`,
      })
    })

    it.each(['zero', 'below'])('a split pool splits everything when the threshold is %s', async (model) => {
      expect((await plan({ model, prompt: 'x' })).taken).toBe(true)
    })

    it.each([
      ['399 letters', 'x'.repeat(399), false],
      ['400 letters', 'x'.repeat(400), true],
      ['401 letters', 'x'.repeat(401), true],
      ['399 characters of Chinese', '火'.repeat(399), false],
      ['400 characters of Chinese', '火'.repeat(400), true],
      ['399 emoji, each two UTF-16 units', '🔥'.repeat(399), false],
      ['400 emoji', '🔥'.repeat(400), true],
      ['99 ids', ids(99), false],
      ['100 ids', ids(100), true],
    ])('a split pool counts a quarter of the characters if configured: %s', async (_name, prompt, taken) => {
      expect((await plan({ model: 'chars', prompt })).taken).toBe(taken)
    })

    it('a split pool counts characters of all messages, and of text parts alone', async () => {
      const messages = [
        { role: 'system', content: 'x'.repeat(200) },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'y'.repeat(199) },
            { type: 'text', text: '' },
          ],
        },
      ]
      expect((await plan({ model: 'chars', messages }, chat)).taken).toBe(false)
      messages[0]!.content += 'x'
      expect((await plan({ model: 'chars', messages }, chat)).taken).toBe(true)
    })

    it('a split pool never splits if disabled', async () => {
      expect(await plan({ model: 'never', prompt: 'x' })).toEqual({ taken: false, why: 'never' })
    })

    it('a split pool serves a follow-up whole on the decode engine that received the conversation, and splits others', async () => {
      const first = await bench.ask(completions, { model: 'uncached', prompt: ids(640), max_tokens: 2 })
      const { split: taken, placement } = await bench.decision(first)
      expect(taken).toEqual({ taken: true, why: '640 uncached tokens >= 100' })
      const next = await bench.ask(completions, { model: 'uncached', prompt: ids(700), max_tokens: 2 })
      const decision = await bench.decision(next)
      expect(decision.split).toMatchObject({ taken: false, why: expect.stringMatching(/^\d\d uncached tokens < 100$/) })
      expect(decision.placement).toMatchObject({ kind: 'whole', engine: placement['decode'] })
      const body = JSON.parse(next.text) as { usage: { prompt_tokens_details: { cached_tokens: number } } }
      expect(body.usage.prompt_tokens_details.cached_tokens).toBeGreaterThanOrEqual(608)
      expect((await plan({ model: 'uncached', prompt: ids(640).toReversed() })).taken).toBe(true)
    })

    it('a split pool compares predictions, and shows both', async () => {
      expect((await plan({ model: 'adaptive', prompt: ids(3000) })).why).toMatch(/^split \d+ ms, whole \d+ ms$/)
    })

    it('a split pool serves whole if no prefill engine is left, unless configured to fail', async () => {
      bench.engine('p0').setFault({ kind: 'refuse' })
      const lenient = await bench.ask(chat, { model: 'whole', messages: hello, max_tokens: 2 })
      expect(lenient.status).toBe(200)
      expect((await bench.decision(lenient)).split).toEqual({ taken: false, why: 'no prefill engine is available' })
      const strict = await bench.ask(chat, { model: 'strict', messages: hello, max_tokens: 2 })
      expect(strict.status).toBe(503)
      expect((JSON.parse(strict.text) as { error: Body }).error).toMatchObject({
        code: 'role_empty',
        message: 'No engine with role "prefill" is available.',
      })
      expect(strict.headers.get('x-request-id')).not.toBeNull()
      // After the circuit opens, no attempt is made.
      const refusal = async () => {
        const { status, text } = await bench.ask(chat, { model: 'strict', messages: hello, max_tokens: 2 })
        return [status, (JSON.parse(text) as { error: Body }).error['message']]
      }
      await expect.poll(refusal).toEqual([503, 'No engine with role "prefill" is available.'])
    })

    it('a split pool mixes engines of a role with those of any', async () => {
      const answers = await Promise.all(
        Array.from({ length: 6 }, (_, at) =>
          bench.ask(chat, { model: 'mixed', messages: [{ role: 'user', content: `q${at}` }], max_tokens: 2 }),
        ),
      )
      expect(answers.map(({ status }) => status)).toEqual(Array(6).fill(200))
      for (const { headers } of answers)
        expect(headers.get('x-firstlight-prefill')).not.toBe(headers.get('x-firstlight-engine'))
    })

    it('a split pool encodes for engines that do the rest alone', async () => {
      const answer = await bench.ask(chat, {
        model: 'pictures',
        messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,p' } }] }],
        max_tokens: 3,
        stream: true,
      })
      expect(answer.status).toBe(200)
      const { placement, actual } = await bench.decision(answer)
      expect(placement).toMatchObject({
        kind: 'staged',
        encode: ['e0'],
        prefill: null,
        decode: expect.stringMatching(/^a/),
      })
      expect(answer.headers.get('x-firstlight-prefill')).toBeNull()
      if (actual !== null) expect(actual).toMatchObject({ stages: { encode: expect.any(Number) } })
      await bench.quiet()
    })

    it('a split pool encodes each item once, on the encoder with the least to do, and never again', async () => {
      const content = ['1', '2', '1', '3'].map((data) => ({
        type: 'image_url',
        image_url: { url: `data:image/png;base64,${data}` },
      }))
      const ask = (more: readonly Body[] = []) =>
        bench.ask(
          chat,
          {
            model: 'images',
            messages: [{ role: 'user', content: [{ type: 'text', text: 'hi' }, ...content, ...more] }],
            max_tokens: 2,
          },
          { headers: { 'x-request-id': 'parent' } },
        )
      const counts = () => ['e0', 'e1'].map((id) => bench.bodies(id, 'images').length)
      expect((await ask()).headers.get('server-timing')).toMatch(/encode;dur=/)
      expect(counts().sort()).toEqual([1, 2])
      const { body, headers } = bench.engine('e0').log.recent.find((seen) => seen.body.includes('"images"'))!
      expect(JSON.parse(body)).toEqual({
        model: 'images',
        messages: [
          { role: 'user', content: [{ type: 'image_url', image_url: { url: expect.stringMatching(/^data:image/) } }] },
        ],
        max_tokens: 1,
        stream: false,
      })
      expect(headers['x-request-id']).toMatch(/^parent:\d:[0-9a-f]{6}$/)
      expect(headers['via']).toMatch(/^1\.1 firstlight-[0-9a-f]{8}$/)
      expect((await ask()).headers.get('server-timing')).not.toMatch(/encode/)
      await ask([{ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }])
      expect(counts()[0]! + counts()[1]!).toBe(4)
      const text = await bench.ask(chat, { model: 'images', messages: hello, max_tokens: 2 })
      expect((await bench.decision(text)).placement['kind']).toBe('split')
      await bench.quiet()
    })

    it('a split pool encodes the images of a message and of its tool results', async () => {
      const png = (data: string) => ({ type: 'image', source: { type: 'base64', media_type: 'image/png', data } })
      const before = ['e0', 'e1'].flatMap((id) => bench.bodies(id, 'images')).length
      const answer = await bench.ask('/v1/messages', {
        model: 'images',
        max_tokens: 2,
        messages: [
          { role: 'user', content: [{ type: 'text', text: 'hi' }, png('m1')] },
          { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'look', input: {} }] },
          { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: [png('m2')] }] },
        ],
      })
      expect(answer.status, answer.text).toBe(200)
      const sent = ['e0', 'e1'].flatMap((id) => bench.bodies(id, 'images')).map((body) => JSON.stringify(body))
      expect(sent.length - before).toBe(2)
      for (const data of ['m1', 'm2'])
        expect(sent.filter((body) => body.includes(`"url":"data:image/png;base64,${data}"`))).toHaveLength(1)
      await bench.quiet()
    })
  })
}
