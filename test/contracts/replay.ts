/** Streams whose engine fails and whose request is repeated (`mid_stream: replay`), on any runtime. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { ByteEngine, type Script } from '../kit/byte-engine.ts'
import { read, type Streamed } from './continuation.ts'
import { ADMIN } from '../kit/split-gateway.ts'
import { runtimeNames, startRuntime, type RunningGateway, type Runtime } from '../kit/gateway.ts'
import { until } from '../wait.ts'

type Json = Readonly<Record<string, unknown>>

const MODEL = 'base'
const OUTPUT = '{"ship": "Größe 🚢", "port": "海", "sails": [1, 2, 3]}'
const BYTES = new TextEncoder().encode(OUTPUT).length
const TOOLS = [{ type: 'function', function: { name: 'sail', parameters: {} } }]
const JSON_FORMAT = { response_format: { type: 'json_object' }, temperature: 0 }

interface Call {
  readonly id?: string
  readonly function: { readonly name?: string; readonly arguments?: string }
}

/** Tool calls of a stream, assembled as a client does. */
function callOf({ payloads }: Streamed): { ids: string[]; names: string[]; text: string } {
  const calls = payloads
    .filter((one) => one !== '[DONE]')
    .flatMap((one) => {
      const { choices } = JSON.parse(one) as { choices?: { delta?: { tool_calls?: Call[] } }[] }
      return choices?.[0]?.delta?.tool_calls ?? []
    })
  return {
    ids: calls.flatMap(({ id }) => id ?? []),
    names: calls.flatMap(({ function: { name } }) => name ?? []),
    text: calls.map(({ function: { arguments: text } }) => text ?? '').join(''),
  }
}

export function replayContract(runtime: Runtime): void {
  const name = runtimeNames[runtime]
  describe(`a stream whose request is repeated on ${name}`, () => {
    const engines = [0, 1].map(() => new ByteEngine('SECRET SYSTEM PROMPT', OUTPUT))
    let gateway: RunningGateway
    let session = ''

    beforeAll(async () => {
      await Promise.all(engines.map((engine) => engine.open()))
      const pool = {
        model: MODEL,
        policy: 'session',
        retry: { share: 1, min_per_s: 1000, mid_stream: 'replay' },
        circuit: { failures: 1000 },
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
        const response = await send({}, `s${at}`)
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
      await until(async () => (await booked()) === 0)
    })

    const send = (more: Json, from = session): Promise<Response> =>
      fetch(`${gateway.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-session-id': from },
        body: JSON.stringify({
          model: MODEL,
          messages: [{ role: 'user', content: 'Describe a ship.' }],
          stream: true,
          max_tokens: 500,
          ...more,
        }),
      })
    const truncate = async (script: Script, more: Json, second: Script = {}): Promise<Streamed> => {
      engines[0]!.next(script)
      engines[1]!.next(second)
      return read(await send(more))
    }
    const booked = async (): Promise<number> => {
      const headers = { authorization: `Bearer ${ADMIN}` }
      const answer = await fetch(`${gateway.url}/v1/firstlight/fleet`, { headers })
      const { pools } = (await answer.json()) as { pools: { engines: { requests: number }[] }[] }
      return pools.flatMap((pool) => pool.engines).reduce((sum, { requests }) => sum + requests, 0)
    }

    it('structured output arrives once and whole, wherever its stream is truncated', async () => {
      for (let after = 1; after <= BYTES; after++) {
        const merge = 1 + (after % 3)
        const { text, error, finish, payloads, usage } = await truncate(
          { fault: 'reset', after },
          { ...JSON_FORMAT, stream_options: { include_usage: true } },
          { merge },
        )
        expect({ after, text, error, finish }).toEqual({ after, text: OUTPUT, error: null, finish: ['stop'] })
        expect(usage).toMatchObject({ completion_tokens: BYTES })
        expect(payloads.filter((one) => one.includes('"role"'))).toHaveLength(1)
        expect(payloads.filter((one) => one === '[DONE]')).toHaveLength(1)
        expect(payloads.join('\n')).not.toMatch(/token_ids":\[/)
      }
    }, 60_000)

    it('a request is repeated with its grammar', async () => {
      const before = engines[1]!.bodies.length
      await truncate({ fault: 'error_event', after: 9 }, JSON_FORMAT)
      const again = engines[1]!.bodies.slice(before)
      expect(again).toHaveLength(1)
      expect(again[0]).toMatchObject({ ...JSON_FORMAT, return_token_ids: true, messages: [{ role: 'user' }] })
    })

    it('a repeated request has one tool call, with the id that the client got first', async () => {
      for (const after of [1, 2, 9, 13, 14, 30, BYTES - 1]) {
        const streamed = await truncate({ fault: 'end', after }, { tools: TOOLS, seed: 7 }, { merge: 2 })
        expect(streamed).toMatchObject({ error: null, isClean: true, finish: ['stop'] })
        const { ids, names, text } = callOf(streamed)
        expect({ after, names, text, ids: ids.length }).toEqual({ after, names: ['sail'], text: OUTPUT, ids: 1 })
      }
    })

    it('with replay, plain text is continued by ids', async () => {
      const before = engines[1]!.bodies.length
      expect(await truncate({ fault: 'end', after: 9 }, { temperature: 0 })).toMatchObject({
        text: OUTPUT,
        error: null,
      })
      expect(engines[1]!.bodies.slice(before)).toMatchObject([{ prompt: expect.any(Array) }])
    })

    it.each([3, 9, 20])(
      'a stream ends with the error event if token %i of its repetition is another',
      async (differsAt) => {
        const { text, error, isClean } = await truncate({ fault: 'end', after: 21 }, JSON_FORMAT, { differsAt })
        expect(error).toMatchObject({ code: 'engine_stream_truncated' })
        expect(isClean).toBe(false)
        expect(OUTPUT.startsWith(text)).toBe(true)
      },
    )

    it.each(['leaks', 'lies'] as const)(
      'nothing of an engine that %s reaches the client of a repeated request',
      async (how) => {
        const { text, error } = await truncate({ fault: 'end', after: 21 }, JSON_FORMAT, { [how]: true })
        expect(error).toMatchObject({ code: 'engine_stream_truncated' })
        expect(OUTPUT.startsWith(text)).toBe(true)
      },
    )

    it('a sampled request without a seed is not repeated', async () => {
      const before = engines[1]!.bodies.length
      const { error } = await truncate({ fault: 'end', after: 9 }, { ...JSON_FORMAT, temperature: 0.7 })
      expect(error).toMatchObject({ code: 'engine_stream_truncated' })
      expect(engines[1]!.bodies).toHaveLength(before)
    })
  })
}
