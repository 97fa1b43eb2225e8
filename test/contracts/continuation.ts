/** Streams whose engine fails in the middle, on any runtime: the client's text equals an uncut stream's. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { startFleet, type RunningFleet } from '../../packages/simulator/src/node/fleet-host.ts'
import type { FaultRule } from '../../packages/simulator/src/faults.ts'
import { ownPorts } from '../own-ports.ts'
import { ByteEngine, type Script } from '../kit/byte-engine.ts'
import { ADMIN } from '../kit/split-gateway.ts'
import { leavesBy, runtimeNames, startRuntime, type RunningGateway, type Runtime } from '../kit/gateway.ts'
import { postAndLeave } from '../kit/leaving-client.ts'

type Json = Readonly<Record<string, unknown>>

export interface Streamed {
  readonly status: number
  /** Engine of the first part. */
  readonly engine: string | null
  readonly text: string
  readonly finish: readonly string[]
  readonly payloads: readonly string[]
  readonly usage: Json | null
  readonly error: Json | null
  /** The connection ended without an error. */
  readonly isClean: boolean
}

const MODEL = 'base'
/** Longer than a busy machine keeps an engine silent. */
const PATIENCE_MS = 30_000
const PATIENT = { timeout: PATIENCE_MS }
const chat = (more: Json = {}): Json => ({
  messages: [{ role: 'user', content: 'Tell me of the sea, and of the ships that sail it in the morning.' }],
  ...more,
})
const completion = (more: Json = {}): Json => ({ prompt: 'Once upon a time there was a ship', ...more })

/** Takes two minutes on an engine with the fault SLOW, or until the fault is lifted. */
const LONG = completion({ max_tokens: 900 })
const SLOW: FaultRule = { kind: 'slow', factor: 300 }

interface EngineView {
  readonly id: string
  readonly requests: number
  readonly available: boolean
}

/** Limits of gateway and pool, ms. Default: no heartbeats, and engines may be silent for long. */
interface Waits {
  readonly heartbeatMs?: number
  readonly idleMs?: number
  readonly firstByteMs?: number
}

/** A session of each engine, found once: `policy: session` keeps it there. */
class Bench {
  readonly fleet: RunningFleet
  readonly gateway: RunningGateway
  session = ''

  readonly #runtime: Runtime

  constructor(runtime: Runtime, fleet: RunningFleet, gateway: RunningGateway) {
    this.#runtime = runtime
    this.fleet = fleet
    this.gateway = gateway
  }

  static async open(runtime: Runtime, retry: Json, waits: Waits = {}): Promise<Bench> {
    const { heartbeatMs = 0, idleMs = PATIENCE_MS, firstByteMs = PATIENCE_MS } = waits
    const fleet = await startFleet({
      model: MODEL,
      profile: 'test',
      keepRequests: 64,
      engines: [{ id: 'e0' }, { id: 'e1' }, { id: 'uncut' }],
      port: ownPorts(5),
    })
    const engines = ['e0', 'e1'].map((id, at) => ({ id, url: fleet.urls[at]! }))
    const gateway = await startRuntime(runtime, {
      open: true,
      admin: { secret: ADMIN },
      log: { level: 'silent' },
      limits: { heartbeat_ms: heartbeatMs },
      clusters: [
        {
          id: 'c',
          pools: [
            {
              model: MODEL,
              policy: 'session',
              observe_share: 1,
              retry: { share: 1, min_per_s: 1000, ...retry },
              circuit: { failures: 1000 },
              limits: { idle_ms: idleMs, first_byte_ms: firstByteMs },
              engines,
            },
          ],
        },
      ],
    })
    const bench = new Bench(runtime, fleet, gateway)
    for (let at = 0; bench.session === ''; at++) {
      const response = await bench.post('/v1/completions', completion({ max_tokens: 1 }), { session: `s${at}` })
      await response.arrayBuffer()
      if (response.headers.get('x-firstlight-engine') === 'e0') bench.session = `s${at}`
    }
    return bench
  }

  post(path: string, body: Json, { session = this.session, url = this.gateway.url } = {}): Promise<Response> {
    return fetch(url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-session-id': session },
      body: JSON.stringify({ model: MODEL, ...body }),
    })
  }

  /** A request whose client leaves when `signal` is aborted. */
  leave(path: string, body: Json, signal: AbortSignal): Promise<void> {
    const post = { url: this.gateway.url + path, body: { model: MODEL, ...body } }
    return postAndLeave({ ...post, headers: { 'x-session-id': this.session }, by: leavesBy(this.#runtime) }, signal)
  }

  stream = async (path: string, body: Json): Promise<Streamed> => read(await this.post(path, { ...body, stream: true }))

  /** The same request to an engine without faults, without a gateway. */
  uncut = async (path: string, body: Json): Promise<Streamed> =>
    read(await this.post(path, { ...body, stream: true }, { url: this.fleet.urls[2]! }))

  fault(id: string, rule: FaultRule | null): void {
    this.fleet.engine(id).setFault(rule)
  }

  async admin(method: string, path: string): Promise<Json> {
    const headers = { authorization: `Bearer ${ADMIN}` }
    return (await (await fetch(this.gateway.url + path, { method, headers })).json()) as Json
  }

  async engines(): Promise<readonly EngineView[]> {
    const { pools } = (await this.admin('GET', '/v1/firstlight/fleet')) as { pools: { engines: EngineView[] }[] }
    return pools.flatMap(({ engines }) => engines)
  }

  async booked(): Promise<number> {
    return (await this.engines()).reduce((sum, { requests }) => sum + requests, 0)
  }

  async bookedAt(engine: string): Promise<number> {
    return (await this.engines()).find(({ id }) => id === engine)!.requests
  }

  /** Resolves when every engine may be chosen: a fault of an earlier test may have failed a health check. */
  async ready(): Promise<void> {
    await vi.waitFor(async () => {
      const engines = await this.engines()
      expect(engines.filter(({ available }) => !available)).toEqual([])
    }, PATIENT)
  }

  async close(): Promise<void> {
    await this.gateway.close()
    await this.fleet.close()
  }
}

export async function read(response: Response): Promise<Streamed> {
  let raw = ''
  let isClean = true
  try {
    const decoder = new TextDecoder()
    for await (const chunk of response.body!) raw += decoder.decode(chunk as Uint8Array, { stream: true })
  } catch {
    isClean = false
  }
  const payloads = raw.split(/\r?\n\r?\n/).flatMap((event) => {
    const lines = [...event.matchAll(/^data: ?(.*?)\r?$/gm)].map((match) => match[1]!)
    return lines.length === 0 ? [] : [lines.join('\n')]
  })
  const chunks = payloads.filter((one) => one !== '[DONE]').map((one) => JSON.parse(one) as Chunk)
  return {
    status: response.status,
    engine: response.headers.get('x-firstlight-engine'),
    text: chunks.map(({ choices }) => choices?.[0]?.delta?.content ?? choices?.[0]?.text ?? '').join(''),
    finish: chunks.flatMap(({ choices }) => choices?.[0]?.finish_reason ?? []),
    payloads,
    usage: chunks.find(({ usage }) => usage !== undefined && usage !== null)?.usage ?? null,
    error: chunks.find(({ error }) => error !== undefined)?.error ?? null,
    isClean,
  }
}

/**
 * Events without what differs between two requests. The gateway asks for the usage record, so the fingerprint is in it
 * instead of in the last chunk.
 */
const shapeOf = ({ payloads }: Streamed): string[] =>
  payloads.map((one) => one.replace(/"id":"[^"]*"|"created":\d+|,"system_fingerprint":"[^"]*"/g, ''))

const isUsage = (payload: string): boolean => payload.includes('"choices":[]')

interface Chunk {
  readonly id?: string
  readonly created?: number
  readonly choices?: readonly {
    readonly delta?: { readonly content?: string }
    readonly text?: string
    readonly finish_reason?: string | null
  }[]
  readonly usage?: Json | null
  readonly error?: Json
}

const faults: Readonly<Record<string, (after: number) => FaultRule>> = {
  'a reset connection': (after) => ({ kind: 'reset', after, count: 1 }),
  'a clean end without [DONE]': (after) => ({ kind: 'cut', after, count: 1 }),
}

const endpoints: Readonly<Record<string, (more?: Json) => Json>> = {
  '/v1/chat/completions': chat,
  '/v1/completions': completion,
}

export function continuationContract(runtime: Runtime): void {
  const name = runtimeNames[runtime]
  describe(`a stream that is truncated on ${name}`, () => {
    let bench: Bench
    beforeAll(async () => {
      bench = await Bench.open(runtime, { mid_stream: 'ids' })
    }, 60_000)
    afterAll(() => bench.close())
    beforeEach(() => bench.ready())
    afterEach(async () => {
      for (const id of ['e0', 'e1']) {
        bench.fault(id, null)
        await bench.admin('POST', `/v1/firstlight/engines/${id}/undrain`)
      }
      await vi.waitFor(async () => expect(await bench.booked()).toBe(0), PATIENT)
    })

    for (const [path, body] of Object.entries(endpoints)) {
      for (const [fault, rule] of Object.entries(faults)) {
        it.each([1, 2, 7, 19, 20])(
          `another engine continues a stream of ${path} after ${fault} behind %i records`,
          async (after) => {
            const request = body({ max_tokens: 20, stream_options: { include_usage: true } })
            bench.fault('e0', rule(after))
            const [truncated, whole] = [await bench.stream(path, request), await bench.uncut(path, request)]
            expect(truncated.error).toBeNull()
            expect(truncated).toMatchObject({ text: whole.text, finish: whole.finish, isClean: true })
            expect(truncated.usage).toMatchObject({
              prompt_tokens: whole.usage!['prompt_tokens'],
              completion_tokens: 20,
              total_tokens: whole.usage!['total_tokens'],
            })
            expect(truncated.payloads.filter((one) => one === '[DONE]')).toHaveLength(1)
            // The usage record is that of the whole, without times of one engine.
            const [truncatedEvents, wholeEvents] = [truncated, whole].map((one) =>
              shapeOf(one).filter((text) => !isUsage(text)),
            )
            expect(truncatedEvents).toEqual(wholeEvents)
            const chunks = truncated.payloads.slice(0, -1).map((one) => JSON.parse(one) as Chunk)
            expect(new Set(chunks.map(({ id, created }) => `${id} ${created}`)).size).toBe(1)
            expect(truncated.payloads.join('\n')).not.toMatch(/token_ids":\[/)
          },
        )
      }
    }

    it('a stream that may be continued has the events of one that may not, if nothing fails', async () => {
      const request = chat({ max_tokens: 8 })
      const [passed, whole] = [
        await bench.stream('/v1/chat/completions', request),
        await bench.uncut('/v1/chat/completions', request),
      ]
      expect(shapeOf(passed)).toEqual(shapeOf(whole))
    })

    it('token ids of both engines reach a client that asked for them', async () => {
      const request = completion({ max_tokens: 6, return_token_ids: true })
      bench.fault('e0', { kind: 'cut', after: 3, count: 1 })
      const ids = ({ payloads }: Streamed) => payloads.flatMap((one) => /"token_ids":(\[[\d,]+\])/.exec(one)?.[1] ?? [])
      const truncated = await bench.stream('/v1/completions', request)
      expect(ids(truncated)).toEqual(ids(await bench.uncut('/v1/completions', request)))
    })

    it('a continued stream ends at a stop string of which each engine generated a part', async () => {
      const { text } = await bench.uncut('/v1/completions', completion({ max_tokens: 30 }))
      for (let at = 8; at < 40; at += 3) {
        const request = completion({ max_tokens: 30, stop: [text.slice(at, at + 9)] })
        bench.fault('e0', { kind: 'cut', after: Math.ceil(at / 4), count: 1 })
        const truncated = await bench.stream('/v1/completions', request)
        const whole = await bench.uncut('/v1/completions', request)
        expect(truncated).toMatchObject({ text: whole.text, finish: ['stop'], error: null })
      }
    })

    it('a truncated stream whose output has a grammar ends with the error event', async () => {
      bench.fault('e0', { kind: 'cut', after: 2, count: 1 })
      const truncated = await bench.stream(
        '/v1/chat/completions',
        chat({ max_tokens: 20, response_format: { type: 'json_object' } }),
      )
      expect(truncated).toMatchObject({ engine: 'e0', error: { code: 'engine_stream_truncated' } })
      expect(truncated.isClean).toBe(false)
    })

    it('a truncated stream ends with the error event if the other engine fails, too', async () => {
      bench.fault('e0', { kind: 'cut', after: 4, count: 1 })
      bench.fault('e1', { kind: 'status', status: 500 })
      const truncated = await bench.stream('/v1/completions', completion({ max_tokens: 20 }))
      expect(truncated.error).toMatchObject({ code: 'engine_stream_truncated' })
      expect(truncated.text).toBe(
        (await bench.uncut('/v1/completions', completion({ max_tokens: 20 }))).text.slice(0, truncated.text.length),
      )
    })

    it('at the deadline of a drain, streams move to another engine and miss no token', async () => {
      bench.fault('e0', SLOW)
      const before = bench.fleet.engine('e1').log.inference
      const whole = await bench.uncut('/v1/completions', LONG)
      const streams = [1, 2, 3].map(() => bench.stream('/v1/completions', LONG))
      await vi.waitFor(async () => expect(await bench.booked()).toBe(3), PATIENT)
      const drained = await bench.admin('POST', '/v1/firstlight/engines/e0/drain?deadline_s=0')
      expect(drained).toMatchObject({ engine: 'e0', draining: true, move_at: expect.any(Number) })
      for (const { text, error, finish } of await Promise.all(streams))
        expect({ text, error, finish }).toEqual({ text: whole.text, error: null, finish: whole.finish })
      expect(bench.fleet.engine('e1').log.inference - before).toBeGreaterThanOrEqual(3)
    }, 120_000)

    it('streams move at each drain of a rolling restart, whatever mid_stream_max is', async () => {
      for (const id of ['e0', 'e1']) bench.fault(id, SLOW)
      const whole = await bench.uncut('/v1/completions', LONG)
      const streams = [1, 2, 3].map(() => bench.stream('/v1/completions', LONG))
      await vi.waitFor(async () => expect(await bench.booked()).toBe(3), PATIENT)
      for (const [from, to] of [
        ['e0', 'e1'],
        ['e1', 'e0'],
      ] as const) {
        await bench.admin('POST', `/v1/firstlight/engines/${from}/drain?deadline_s=0`)
        await vi.waitFor(async () => expect(await bench.bookedAt(to)).toBe(3), PATIENT)
        await bench.admin('POST', `/v1/firstlight/engines/${from}/undrain`)
      }
      for (const id of ['e0', 'e1']) bench.fault(id, null)
      for (const { text, error, finish } of await Promise.all(streams))
        expect({ text, error, finish }).toEqual({ text: whole.text, error: null, finish: whole.finish })
    }, 120_000)

    it('a drain deadline that is no number of seconds is rejected', async () => {
      const answer = await bench.admin('POST', '/v1/firstlight/engines/e0/drain?deadline_s=soon')
      expect(answer).toMatchObject({ error: { param: 'deadline_s' } })
    })

    it('both bookings are released when the client leaves during the continuation', async () => {
      bench.fault('e0', { kind: 'cut', after: 3, count: 1 })
      bench.fault('e1', { kind: 'hang', where: 'body' })
      const client = new AbortController()
      const left = bench.leave('/v1/completions', completion({ max_tokens: 20, stream: true }), client.signal)
      await vi.waitFor(
        async () => expect([await bench.bookedAt('e0'), await bench.bookedAt('e1')]).toEqual([0, 1]),
        PATIENT,
      )
      client.abort()
      await left
      await vi.waitFor(async () => expect(await bench.booked()).toBe(0), PATIENT)
    })
  })

  describe(`a stream whose engine is silent on ${name}`, () => {
    it('another engine continues the stream of an engine that is silent for idle_ms', async () => {
      const bench = await Bench.open(runtime, { mid_stream: 'ids' }, { idleMs: 1500 })
      try {
        await bench.ready()
        const request = chat({ max_tokens: 12 })
        bench.fault('e0', { kind: 'hang', where: 'middle', after: 5, count: 1 })
        const truncated = await bench.stream('/v1/chat/completions', request)
        const { text } = await bench.uncut('/v1/chat/completions', request)
        expect(truncated).toMatchObject({ text, isClean: true })
      } finally {
        await bench.close()
      }
    }, 60_000)
  })

  describe(`a stream whose heartbeats began before its engine failed on ${name}`, () => {
    it('a request that has only sent heartbeats is retried on another engine, with whatever sampling', async () => {
      const bench = await Bench.open(runtime, { mid_stream: 'ids' }, { heartbeatMs: 50, firstByteMs: 2500 })
      try {
        for (const [path, body] of Object.entries(endpoints)) {
          await bench.ready()
          const request = body({ max_tokens: 12, temperature: 0.7 })
          bench.fault('e0', { kind: 'hang', where: 'body', count: 1 })
          const [truncated, whole] = [await bench.stream(path, request), await bench.uncut(path, request)]
          expect(truncated).toMatchObject({
            engine: 'e0',
            text: whole.text,
            finish: whole.finish,
            error: null,
            isClean: true,
          })
        }
        await vi.waitFor(async () => expect(await bench.booked()).toBe(0), PATIENT)
      } finally {
        await bench.close()
      }
    }, 60_000)
  })

  describe(`a stream with heartbeats between its tokens on ${name}`, () => {
    it('heartbeats between tokens neither end a stream nor move it to another engine', async () => {
      const bench = await Bench.open(runtime, { mid_stream: 'ids' }, { heartbeatMs: 50 })
      try {
        for (const [path, body] of Object.entries(endpoints)) {
          await bench.ready()
          const request = body({ max_tokens: 4 })
          bench.fault('e0', { kind: 'slow', factor: 250, count: 1 })
          const [slow, whole] = [await bench.stream(path, request), await bench.uncut(path, request)]
          expect(slow).toMatchObject({ engine: 'e0', text: whole.text, finish: whole.finish, error: null })
          expect(slow.payloads.filter((payload) => /token_ids":\s*\[/.test(payload))).toEqual([])
        }
      } finally {
        await bench.close()
      }
    }, 60_000)
  })

  describe(`a hedged stream that is truncated on ${name}`, () => {
    it('the engine that was late continues a truncated stream of a hedge, with a third booking', async () => {
      const bench = await Bench.open(runtime, { mid_stream: 'ids', hedge_ms: 100 })
      try {
        for (const [path, body] of Object.entries(endpoints)) {
          await bench.ready()
          const request = body({ max_tokens: 20 })
          bench.fault('e0', { kind: 'hang', where: 'head', count: 1 })
          bench.fault('e1', { kind: 'cut', after: 7, count: 1 })
          const [truncated, whole] = [await bench.stream(path, request), await bench.uncut(path, request)]
          const { text, finish } = whole
          expect(truncated).toMatchObject({ engine: 'e1', text, finish, error: null, isClean: true })
          await vi.waitFor(async () => expect(await bench.booked()).toBe(0), PATIENT)
        }
      } finally {
        await bench.close()
      }
    }, 60_000)
  })

  describe(`a stream that is truncated on ${name} without mid_stream`, () => {
    it('without mid_stream, a truncated stream ends with an error event', async () => {
      const bench = await Bench.open(runtime, {})
      try {
        bench.fault('e0', { kind: 'cut', after: 3, count: 1 })
        const truncated = await bench.stream('/v1/completions', completion({ max_tokens: 20 }))
        expect(truncated.error).toMatchObject({ code: 'engine_stream_truncated' })
      } finally {
        await bench.close()
      }
    }, 60_000)
  })

  describe(`a stream whose tokens are bytes, truncated on ${name}`, () => {
    const SECRET = 'SECRET SYSTEM PROMPT'
    const MESSAGES = [{ role: 'user', content: SECRET }]
    const OUTPUT = 'Größe 乗り物 🚢 sails. Then, at dawn, 海 and 😀 meet; END of it all'
    const engines = [0, 1, 2].map(() => new ByteEngine(SECRET, OUTPUT))
    let gateway: RunningGateway
    let session = ''

    beforeAll(async () => {
      await Promise.all(engines.map((engine) => engine.open()))
      gateway = await startRuntime(runtime, {
        open: true,
        admin: { secret: ADMIN },
        log: { level: 'silent' },
        limits: { heartbeat_ms: 0 },
        clusters: [
          {
            id: 'c',
            pools: [
              {
                model: MODEL,
                policy: 'session',
                retry: { share: 1, min_per_s: 1000, mid_stream: 'ids', mid_stream_max: 2 },
                circuit: { failures: 1000 },
                limits: { idle_ms: 1000 },
                engines: engines.map(({ url }, at) => ({ id: `e${at}`, url })),
              },
            ],
          },
        ],
      })
      for (let at = 0; session === ''; at++) {
        const response = await send('/v1/completions', {}, `s${at}`)
        await response.arrayBuffer()
        if (response.headers.get('x-firstlight-engine') === 'e0') session = `s${at}`
      }
    }, 60_000)
    afterAll(async () => {
      await gateway.close()
      for (const engine of engines) await engine.close()
    })
    afterEach(() => {
      for (const engine of engines) engine.next({})
    })

    const send = (path: string, more: Json, from = session): Promise<Response> =>
      fetch(gateway.url + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-session-id': from },
        body: JSON.stringify({
          model: MODEL,
          prompt: SECRET,
          messages: MESSAGES,
          stream: true,
          max_tokens: 500,
          ...more,
        }),
      })
    const truncate = async (script: Script, more: Json = {}, path = '/v1/chat/completions'): Promise<Streamed> => {
      engines[0]!.next(script)
      return read(await send(path, more))
    }
    /** Number of requests to the engines that continue. */
    const continuing = (): number => engines.slice(1).reduce((sum, { bodies }) => sum + bodies.length, 0)
    const bytes = new TextEncoder().encode(OUTPUT).length

    it.each(['/v1/chat/completions', '/v1/completions'])(
      'a stream of %s has every character once and nothing of the prompt, wherever it is truncated',
      async (path) => {
        const lengths = Array.from({ length: bytes }, (_, at) => at + 1)
        for (const after of lengths) {
          const { text, error, finish } = await truncate({ fault: 'reset', after }, {}, path)
          expect({ after, text, error, finish }).toEqual({ after, text: OUTPUT, error: null, finish: ['stop'] })
        }
      },
      60_000,
    )

    it.each(['/v1/chat/completions', '/v1/completions'])(
      'a stream of %s has every token id once for a client that asked for ids, wherever it is truncated',
      async (path) => {
        const all = Array.from(new TextEncoder().encode(OUTPUT), (byte) => byte + 1000)
        for (let after = 1; after <= bytes; after++) {
          const { payloads, error } = await truncate({ fault: 'reset', after }, { return_token_ids: true }, path)
          const ids = payloads.flatMap((one) => /"token_ids":\[([\d,]+)\]/.exec(one)?.[1]!.split(',') ?? [])
          expect({ after, ids: ids.map(Number), error }).toEqual({ after, ids: all, error: null })
        }
      },
      60_000,
    )

    it('a stream ends with the error event if its client has an id that the next engine did not choose', async () => {
      for (const engine of engines.slice(1)) engine.next({ differsAt: 0 })
      // The client has the id of the first byte of `ö`.
      const { error, text } = await truncate({ fault: 'reset', after: 3 }, { return_token_ids: true })
      expect({ error, text }).toMatchObject({ error: { code: 'engine_stream_truncated' }, text: 'Gr' })
    })

    it.each([1, 46, 150, 215, 260, 300])(
      'a stream is complete if the connection of its engine breaks after %i bytes of the body',
      async (at) => {
        for (const path of ['/v1/chat/completions', '/v1/completions'])
          for (const fault of ['end', 'reset'] as const) {
            const { text, error, finish, payloads } = await truncate({ fault, bytes: at }, {}, path)
            expect({ path, text, error, finish }).toEqual({ path, text: OUTPUT, error: null, finish: ['stop'] })
            const roles = payloads.filter((one) => one.includes('"role"'))
            expect(roles).toHaveLength(path === '/v1/completions' ? 0 : 1)
          }
      },
    )

    it.each(['error_event', 'abort', 'end', 'silence'] as const)(
      'another engine continues a stream after %s',
      async (fault) => {
        const { text, finish, error, payloads } = await truncate({ fault, after: 20 })
        expect({ text, finish, error }).toEqual({ text: OUTPUT, finish: ['stop'], error: null })
        expect(payloads.filter((one) => one === '[DONE]')).toHaveLength(1)
      },
    )

    it('a stream that is truncated after its finish reason ends without another engine', async () => {
      const before = continuing()
      const { text, usage, payloads } = await truncate(
        { fault: 'lost_done' },
        { stream_options: { include_usage: true } },
      )
      expect(text).toBe(OUTPUT)
      expect(usage).toMatchObject({ completion_tokens: bytes })
      expect(payloads.at(-1)).toBe('[DONE]')
      expect(continuing()).toBe(before)
    })

    it('a stream that is truncated after its finish reason has no error event', async () => {
      const more = { stream_options: { include_usage: true } }
      const { text, error, usage, finish, payloads } = await truncate({ fault: 'error_event', after: bytes }, more)
      expect({ text, error, finish }).toEqual({ text: OUTPUT, error: null, finish: ['stop'] })
      expect(usage).toMatchObject({ completion_tokens: bytes })
      expect(payloads.filter((one) => one === '[DONE]')).toHaveLength(1)
    })

    it('text that a stop string had held back is sent once', async () => {
      for (const stop of ['; END of', 'Then, at dawn', 'never said, and quite long'])
        for (let after = 1; after < bytes; after += 5) {
          const fault = after % 2 === 0 ? 'reset' : 'abort'
          const { text, error } = await truncate({ fault, after }, { stop: [stop] })
          expect({ after, error, text }).toEqual({ after, error: null, text: OUTPUT.split(stop)[0]! })
        }
    }, 60_000)

    it('another engine continues a stream whose chunks have several tokens', async () => {
      for (const merge of [2, 3, 5]) expect((await truncate({ fault: 'reset', after: 23, merge })).text).toBe(OUTPUT)
    })

    it('a stream that is truncated at max_tokens ends without another request', async () => {
      const before = continuing()
      const { text, finish } = await truncate({ fault: 'end', after: 30 }, { max_tokens: 31 })
      expect(finish).toEqual(['length'])
      expect(continuing() - before).toBeLessThanOrEqual(1)
      expect(OUTPUT.startsWith(text)).toBe(true)
    })

    it.each(['leaks', 'lies'] as const)('nothing of an engine that %s reaches the client', async (how) => {
      for (const engine of engines.slice(1)) engine.next({ [how]: true })
      const { text, error, isClean } = await truncate({ fault: 'end', after: 20 })
      expect(error).toMatchObject({ code: 'engine_stream_truncated' })
      expect(isClean).toBe(false)
      expect(text).not.toContain(SECRET)
      expect(OUTPUT.startsWith(text)).toBe(true)
    })

    it('a continuation is continued itself, up to mid_stream_max times', async () => {
      const failing = { fault: 'end', after: 9 } as const
      const before = engines.map(({ bodies }) => bodies.length)
      await truncate({ fault: 'end', after: 12 })
      const second = engines.findIndex(({ bodies }, at) => at > 0 && bodies.length > before[at]!)
      engines[second]!.next(failing)
      expect(await truncate({ fault: 'end', after: 12 })).toMatchObject({ text: OUTPUT, error: null })
      for (const engine of engines) engine.next(failing)
      const { error, text } = await truncate({ fault: 'end', after: 12 })
      expect(error).toMatchObject({ code: 'engine_stream_truncated' })
      expect(OUTPUT.startsWith(text)).toBe(true)
    })
  })
}
