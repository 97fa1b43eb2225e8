/** Single cases of streams whose engine fails, on any runtime. The engines have bytes as tokens. */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { ByteEngine, framings, type Script } from '../kit/byte-engine.ts'
import { read, type Streamed } from './continuation.ts'
import { ADMIN } from '../kit/split-gateway.ts'
import { runtimeNames, startRuntime, type RunningGateway, type Runtime } from '../kit/gateway.ts'

type Json = Readonly<Record<string, unknown>>

const MODEL = 'base'
const SECRET = 'SECRET SYSTEM PROMPT'
const CHAT = '/v1/chat/completions'
/** Characters that the model itself generated. */
const REPLACED = '\ufffd\ufffd'
/** Begins with a space. */
const OUTPUT = ` sails at dawn, END of the trip. ${REPLACED} are no letters.`
const idsOf = (text: string): number[] => Array.from(new TextEncoder().encode(text), (byte) => byte + 1000)

export function truncationCasesContract(runtime: Runtime): void {
  const name = runtimeNames[runtime]
  describe(`a stream that another engine may continue on ${name}`, () => {
    const engines = [0, 1, 2].map(() => new ByteEngine(SECRET, OUTPUT))
    let gateway: RunningGateway
    let session = ''

    beforeAll(async () => {
      await Promise.all(engines.map((engine) => engine.open()))
      const pool = {
        model: MODEL,
        policy: 'session',
        retry: { share: 1, min_per_s: 1000, mid_stream: 'ids' },
        circuit: { failures: 1000 },
        limits: { idle_ms: 1000 },
        engines: engines.map(({ url }, at) => ({ id: `e${at}`, url })),
      }
      gateway = await startRuntime(runtime, {
        open: true,
        admin: { secret: ADMIN },
        log: { level: 'silent' },
        limits: { heartbeat_ms: 0 },
        clusters: [{ id: 'c', pools: [pool] }],
      })
      for (let at = 0; session === ''; at++) {
        const response = await send(CHAT, {}, `s${at}`)
        await response.arrayBuffer()
        if (response.headers.get('x-firstlight-engine') === 'e0') session = `s${at}`
      }
    }, 60_000)
    afterAll(async () => {
      await gateway.close()
      for (const engine of engines) await engine.close()
    })
    afterEach(async () => {
      for (const engine of engines) engine.next({})
      await vi.waitFor(async () => expect(await booked()).toBe(0), { timeout: 10_000 })
    })

    const send = (path: string, more: Json, from = session): Promise<Response> =>
      fetch(gateway.url + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-session-id': from },
        body: JSON.stringify({
          model: MODEL,
          prompt: SECRET,
          messages: [{ role: 'user', content: SECRET }],
          stream: true,
          max_tokens: 500,
          ...more,
        }),
      })
    const truncate = async (script: Script, more: Json = {}, path = CHAT): Promise<Streamed> => {
      engines[0]!.next(script)
      return read(await send(path, more))
    }
    const inAll = async (field: 'requests' | 'failures_total'): Promise<number> => {
      const headers = { authorization: `Bearer ${ADMIN}` }
      const answer = await fetch(`${gateway.url}/v1/firstlight/fleet`, { headers })
      const { pools } = (await answer.json()) as { pools: { engines: Record<typeof field, number>[] }[] }
      return pools.flatMap((pool) => pool.engines).reduce((sum, engine) => sum + engine[field], 0)
    }
    const booked = (): Promise<number> => inAll('requests')
    const bodiesOfOthers = (): Json[] => engines.slice(1).flatMap(({ bodies }) => bodies)

    it('a continuation is requested by the ids of prompt and output, also if the output begins with a space', async () => {
      for (let after = 1; after < 12; after++) {
        const before = new Set(bodiesOfOthers())
        expect(await truncate({ fault: 'reset', after })).toMatchObject({ text: OUTPUT, error: null })
        const [body, ...more] = bodiesOfOthers().filter((one) => !before.has(one))
        expect(more).toEqual([])
        expect(body).toMatchObject({ prompt: [...idsOf(SECRET), ...idsOf(OUTPUT).slice(0, after)] })
        expect(body).not.toHaveProperty('continue_final_message')
      }
    })

    it.each([true, false])(
      'a stream ends at a stop string, wherever it is truncated (included: %s)',
      async (includes) => {
        const stop = 'END of'
        const end = OUTPUT.indexOf(stop)
        const whole = OUTPUT.slice(0, end + (includes ? stop.length : 0))
        for (let after = end - 2; after < end + stop.length; after++) {
          const { text, finish, error } = await truncate(
            { fault: 'reset', after },
            { stop: [stop], include_stop_str_in_output: includes },
          )
          expect({ after, text, finish, error }).toEqual({ after, text: whole, finish: ['stop'], error: null })
        }
      },
    )

    it('a stream is continued behind one replacement character, and not behind several', async () => {
      const before = OUTPUT.indexOf(REPLACED)
      const bytesTo = (end: number): number => idsOf(OUTPUT.slice(0, end)).length
      expect(await truncate({ fault: 'end', after: bytesTo(before + 1) })).toMatchObject({ text: OUTPUT, error: null })
      const { text, error, isClean } = await truncate({ fault: 'end', after: bytesTo(before + REPLACED.length) })
      expect({ text, isClean }).toEqual({ text: OUTPUT.slice(0, before), isClean: false })
      expect(error).toMatchObject({ message: expect.stringContaining('(incomplete_character)') })
    })

    it.each(framings)('a stream is read and continued if its events are written with %s', async (framing) => {
      for (const engine of engines.slice(1)) engine.next({ framing })
      for (const script of [{}, { fault: 'end', after: 9 }] as const) {
        const { text, finish, error, payloads } = await truncate({ ...script, framing })
        expect({ text, finish, error }).toEqual({ text: OUTPUT, finish: ['stop'], error: null })
        expect(payloads.filter((payload) => /token_ids":\s*\[/.test(payload))).toEqual([])
      }
    })

    it('a stream is continued if the connection ends inside the head of an HTTP chunk', async () => {
      expect(await truncate({ fault: 'chunk_head', after: 7 })).toMatchObject({
        text: OUTPUT,
        error: null,
        isClean: true,
      })
    })

    it('a stream ends with `length` if only the finish reason of the last token is missing', async () => {
      const before = bodiesOfOthers().length
      const ended = await truncate({ fault: 'no_finish', after: 15 }, { max_tokens: 15 })
      expect(ended).toMatchObject({ text: OUTPUT.slice(0, 15), finish: ['length'], error: null })
      expect(bodiesOfOthers()).toHaveLength(before)
    })

    it.each(['reset_after_done', 'silence_after_done'] as const)(
      'a stream with `[DONE]` is complete, whatever its connection does behind it (%s)',
      async (fault) => {
        const before = await inAll('failures_total')
        const { text, error, isClean, payloads } = await truncate({ fault })
        expect({ text, error, isClean }).toEqual({ text: OUTPUT, error: null, isClean: true })
        expect(payloads.filter((one) => one === '[DONE]')).toHaveLength(1)
        await vi.waitFor(async () => expect(await booked()).toBe(0), { timeout: 10_000 })
        expect(await inAll('failures_total')).toBe(before)
      },
    )

    it('the connection of a silent engine is closed', async () => {
      const { closed } = engines[0]!
      expect(await truncate({ fault: 'silence', after: 5 })).toMatchObject({ text: OUTPUT, error: null })
      await vi.waitFor(() => expect(engines[0]!.closed).toBe(closed + 1), { timeout: 10_000 })
    })

    it.each([503, 404, 400])('the third engine continues a stream if the second one answers %i', async (status) => {
      const refusals = (): number => engines.reduce((sum, { refused }) => sum + refused, 0)
      const before = refusals()
      // Which one is asked first depends on their load.
      for (let round = 0; refusals() === before; round++) {
        engines[1 + (round % 2)]!.next({ status })
        engines[2 - (round % 2)]!.next({})
        expect(await truncate({ fault: 'end', after: 9 })).toMatchObject({ text: OUTPUT, error: null })
      }
    })

    it.each([503, 404])('a stream ends with the error event if all other engines answer %i', async (status) => {
      for (const engine of engines.slice(1)) engine.next({ status })
      const { error, text } = await truncate({ fault: 'end', after: 9 })
      expect(error).toMatchObject({
        code: 'engine_stream_truncated',
        message: expect.stringMatching(/\((no_engine|engine_failed)\)/),
      })
      expect(text).toBe(OUTPUT.slice(0, 9))
    })

    it.each([
      [CHAT, { n: 2 }, 'several_choices'],
      [CHAT, { response_format: { type: 'json_schema', json_schema: {} } }, 'structured_output'],
      [CHAT, { tools: [{}], tool_choice: 'required' }, 'tools'],
      [CHAT, { include_reasoning: false }, 'reasoning'],
      [CHAT, { logprobs: true }, 'logprobs'],
      ['/v1/completions', { echo: true }, 'echo'],
      ['/v1/messages', {}, 'endpoint'],
      ['/v1/responses', { input: SECRET }, 'endpoint'],
    ])('a truncated stream of %s with %j ends with the error event and the reason %s', async (path, more, reason) => {
      engines[0]!.next({ fault: 'reset', after: 9 })
      const { payloads } = await read(await send(path, more))
      expect(payloads.at(-1)).toContain(`is incomplete. No other engine continued it (${reason}).`)
    })
  })
}
