/** Streams whose output an engine's parser reads (tool calls, reasoning), cut at any token, on any runtime. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { ByteEngine, type Script } from '../kit/byte-engine.ts'
import { read, type Streamed } from './continuation.ts'
import { runtimeNames, startRuntime, type RunningGateway, type Runtime } from '../kit/gateway.ts'

type Json = Readonly<Record<string, unknown>>

const MODEL = 'base'
const OUTPUT = '^so the sea is calm. Sail at dawn {"port": 1}'
const TOOLS = [{ type: 'function', function: { name: 'sail', parameters: {} } }]
/** Tokens before the tool call, or of the reasoning. */
const BEFORE = 20
const REASONING = OUTPUT.slice(1, BEFORE - 1)
const CONTENT = OUTPUT.slice(BEFORE)

interface ParsedEvent {
  readonly content: string
  readonly reasoning: string
  readonly call: string
}

/** Texts of a stream by field. */
function parsed({ payloads }: Streamed): ParsedEvent {
  const deltas = payloads
    .filter((one) => one !== '[DONE]')
    .flatMap((one) => (JSON.parse(one) as { choices?: { delta?: Delta }[] }).choices?.[0]?.delta ?? [])
  return {
    content: deltas.map(({ content }) => content ?? '').join(''),
    reasoning: deltas.map(({ reasoning }) => reasoning ?? '').join(''),
    call: deltas.flatMap(({ tool_calls: calls }) => calls?.map((one) => one.function.arguments ?? '') ?? []).join(''),
  }
}

interface Delta {
  readonly content?: string
  readonly reasoning?: string
  readonly tool_calls?: readonly { readonly function: { readonly arguments?: string } }[]
}

export function parsedStreamContract(runtime: Runtime): void {
  const name = runtimeNames[runtime]
  describe.each(['ids', 'replay'] as const)(`a stream that a parser reads, with mid_stream: %s on ${name}`, (mode) => {
    const engines = [0, 1].map(() => new ByteEngine('SECRET SYSTEM PROMPT', OUTPUT))
    let gateway: RunningGateway

    beforeAll(async () => {
      await Promise.all(engines.map((engine) => engine.open()))
      const pool = {
        model: MODEL,
        retry: { share: 1, min_per_s: 1000, mid_stream: mode },
        circuit: { failures: 1000 },
        engines: engines.map(({ url }, at) => ({ id: `e${at}`, url })),
      }
      gateway = await startRuntime(runtime, {
        open: true,
        log: { level: 'silent' },
        limits: { heartbeat_ms: 0 },
        clusters: [{ id: 'c', pools: [pool] }],
      })
    }, 60_000)
    afterAll(async () => {
      await gateway.close()
      for (const engine of engines) await engine.close()
    })
    afterEach(() => {
      for (const engine of engines) engine.next({})
    })

    let truncations = 0
    /** `script.id`: only the first of the engines that get the request fails. */
    const truncate = async (script: Script, more: Json): Promise<Streamed> => {
      const id = `${name} ${mode} ${truncations++}`
      const body = {
        model: MODEL,
        messages: [{ role: 'user', content: 'Describe a ship.' }],
        stream: true,
        max_tokens: 500,
        temperature: 0,
        ...more,
        script: { fault: 'reset', id, ...script },
      }
      return read(
        await fetch(`${gateway.url}/v1/chat/completions`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(body),
        }),
      )
    }
    const requests = (): number => engines.reduce((sum, { bodies }) => sum + bodies.length, 0)

    it('a tool call never arrives as text, wherever its stream is truncated', async () => {
      for (let after = 1; after < OUTPUT.length; after++) {
        const streamed = await truncate({ after, callsAt: BEFORE }, { tools: TOOLS })
        const { content, call } = parsed(streamed)
        if (mode === 'replay')
          expect({ after, content, call, error: streamed.error }).toEqual({
            after,
            content: OUTPUT.slice(0, BEFORE),
            call: OUTPUT.slice(BEFORE),
            error: null,
          })
        else {
          expect(streamed.error).toMatchObject({ code: 'engine_stream_truncated' })
          expect(content + call).toBe(OUTPUT.slice(0, after))
          expect(content.length).toBeLessThanOrEqual(BEFORE)
        }
      }
    }, 60_000)

    it('a parsed stream is continued by ids if the request forbids tool calls', async () => {
      const streamed = await truncate({ after: 9 }, { tools: TOOLS, tool_choice: 'none' })
      expect(streamed).toMatchObject({ text: OUTPUT, error: null, isClean: true })
    })

    it('a parsed stream is requested again while the client has no output, so that reasoning stays reasoning', async () => {
      const before = requests()
      const streamed = await truncate({ after: 1, thinks: BEFORE }, { temperature: 0.7 })
      expect(parsed(streamed)).toEqual({ content: CONTENT, reasoning: REASONING, call: '' })
      expect(streamed).toMatchObject({ error: null, isClean: true })
      expect(requests() - before).toBe(2)
    })

    it('reasoning never arrives as text, and its stream is continued by ids after it, wherever it is truncated', async () => {
      for (let after = 2; after < OUTPUT.length; after++) {
        const merge = 1 + (after % 4)
        const streamed = await truncate({ after, thinks: BEFORE, merge }, {})
        const { content, reasoning } = parsed(streamed)
        if (mode === 'ids' && after <= BEFORE) {
          expect(streamed.error).toMatchObject({ code: 'engine_stream_truncated' })
          expect({ after, content }).toEqual({ after, content: '' })
          expect(REASONING.startsWith(reasoning)).toBe(true)
        } else
          expect({ after, content, reasoning, error: streamed.error }).toEqual({
            after,
            content: CONTENT,
            reasoning: REASONING,
            error: null,
          })
      }
    }, 60_000)
  })
}
