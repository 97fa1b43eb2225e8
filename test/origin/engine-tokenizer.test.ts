import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { EngineTokenizer, measureByEngine, type TokenizeOptions } from '../../src/origin/engine-tokenizer.ts'
import type { Origin, OriginAnswer, OriginRequest } from '../../src/ports/origin.ts'
import type { PromptProfile } from '../../src/core/tokens/prompt-analyzer.ts'
import type { PromptRequest } from '../../src/core/tokens/prompt-request.ts'
import { analyzerOf, requestOf } from '../core/tokens/support.ts'

interface TokenizeAnswer {
  readonly status: number
  readonly body: unknown
}

/** An engine that only has `/tokenize`, and its received requests. */
class TokenizeOnly implements Origin {
  readonly questions: Record<string, unknown>[] = []
  readonly #answer: (question: Record<string, unknown>) => TokenizeAnswer | Promise<TokenizeAnswer>

  constructor(answer: (question: Record<string, unknown>) => TokenizeAnswer | Promise<TokenizeAnswer>) {
    this.#answer = answer
  }

  async send({ path, body }: OriginRequest): Promise<OriginAnswer> {
    expect(path).toBe('/tokenize')
    const question = JSON.parse(new TextDecoder().decode(body?.[0])) as Record<string, unknown>
    this.questions.push(question)
    const answer = await this.#answer(question)
    return {
      status: answer.status,
      headers: [],
      sse: false,
      firstByte: async () => {},
      read: async () => new TextEncoder().encode(JSON.stringify(answer.body)),
      reader: () => ({ read: async () => null, cancel: () => {} }),
      pass: () => new Response(),
      firstBytes: () => new Uint8Array(),
      fault: () => null,
      discard: () => {},
    }
  }
}

const callTo = (id: string): TokenizeOptions => ({
  target: { kind: 'server', id, url: 'http://engine.test', headers: [], binding: null },
  model: 'tiny',
  signal: new AbortController().signal,
  budgetMs: 30,
})
const call = callTo('a')
const tokens = (...ids: unknown[]): TokenizeAnswer => ({ status: 200, body: { count: ids.length, tokens: ids } })
const chat = requestOf('chat', { messages: [{ role: 'user', content: 'hello' }] })

function byEngine(
  request: PromptRequest,
  tokenizer: EngineTokenizer,
  tokenizeCall: TokenizeOptions,
): Promise<PromptProfile> {
  const analyzer = analyzerOf()
  return measureByEngine({ analyzer, request, own: analyzer.measure(request) }, tokenizer, tokenizeCall)
}

describe("measuring by an engine's /tokenize", () => {
  it("measuring by an engine's /tokenize counts the ids it answers, and hashes them like ids given by the client", async () => {
    const ids = Array.from({ length: 40 }, (_, i) => i)
    const measured = await byEngine(
      chat,
      new EngineTokenizer({ origin: new TokenizeOnly(() => tokens(...ids)), now: () => 0 }),
      call,
    )
    expect(measured).toMatchObject({ promptTokens: 40, tokenSource: 'engine', promptBytes: null })
    expect(measured.blocks).toEqual(analyzerOf().measure(requestOf('completions', { prompt: ids })).blocks)
  })

  it("measuring by an engine's /tokenize requests the same conversation once, also concurrently", async () => {
    const origin = new TokenizeOnly(() => tokens(1, 2, 3))
    const tokenizer = new EngineTokenizer({ origin, now: () => 0 })
    await Promise.all([byEngine(chat, tokenizer, call), byEngine(chat, tokenizer, call)])
    await byEngine(chat, tokenizer, call)
    expect(origin.questions).toHaveLength(1)
  })

  it("measuring by an engine's /tokenize sends the requests of the recorded vectors", async () => {
    const vectors = JSON.parse(readFileSync(new URL('../vectors/tokens.json', import.meta.url), 'utf8')) as {
      chats: { chat: Record<string, unknown>; ids: number[] }[]
    }
    const withCalls = vectors.chats.find(({ chat: body }) => JSON.stringify(body).includes('tool_calls'))
    const origin = new TokenizeOnly(() => tokens(...(withCalls?.ids ?? [])))
    await byEngine(requestOf('chat', withCalls?.chat), new EngineTokenizer({ origin, now: () => 0 }), call)
    const question = origin.questions[0] as {
      messages: { tool_calls?: { function: { arguments: unknown } }[] }[]
      model: string
    }
    const args = question.messages.flatMap(({ tool_calls: calls = [] }) => calls.map((one) => one.function.arguments))
    expect(question.model).toBe('tiny')
    expect(args.map((text) => JSON.parse(String(text)) as unknown)).toEqual([
      { unit: 'ü', deep: { b: [1, 2.5, null, true] } },
      {},
    ])
  })

  it.each<[string, () => TokenizeAnswer]>([
    ['an error', () => ({ status: 500, body: {} })],
    ['no such endpoint', () => ({ status: 404, body: {} })],
    ['no ids', () => ({ status: 200, body: { tokens: ['a'] } })],
    ['something else', () => ({ status: 200, body: null })],
    [
      'a broken connection',
      () => {
        throw new Error('reset')
      },
    ],
  ])("measuring by an engine's /tokenize falls back to bytes on %s", async (_, answer) => {
    const measured = await byEngine(chat, new EngineTokenizer({ origin: new TokenizeOnly(answer), now: () => 0 }), call)
    expect(measured.tokenSource).toBe('bytes')
    expect(measured.blocks).toEqual(analyzerOf().measure(chat).blocks)
  })

  it('queries an engine again after one late response', async () => {
    let isLate = true
    const origin = new TokenizeOnly(() => {
      if (isLate) throw new Error('the budget of 30 ms is spent')
      return tokens(1, 2, 3)
    })
    const tokenizer = new EngineTokenizer({ origin, now: () => 0 })
    expect((await byEngine(chat, tokenizer, call)).tokenSource).toBe('bytes')
    isLate = false
    expect(tokenizer.mayAsk(call.target)).toBe(true)
    expect((await byEngine(chat, tokenizer, call)).tokenSource).toBe('engine')
  })

  it("measuring by an engine's /tokenize skips an engine for a while after five failures in a row, and uses others meanwhile", async () => {
    let now = 0
    const origin = new TokenizeOnly(() => ({ status: 500, body: {} }))
    const tokenizer = new EngineTokenizer({ origin, now: () => now })
    for (let at = 0; at < 8; at += 1) await byEngine(chat, tokenizer, call)
    expect(origin.questions).toHaveLength(5)
    expect(tokenizer.mayAsk(call.target)).toBe(false)
    await byEngine(chat, tokenizer, callTo('b'))
    expect(origin.questions).toHaveLength(6)
    now = 6_000
    await byEngine(chat, tokenizer, call)
    expect(origin.questions).toHaveLength(7)
  })

  it("measuring by an engine's /tokenize counts failures in a row only", async () => {
    let questions = 0
    const origin = new TokenizeOnly(() => (++questions % 5 === 0 ? tokens(1) : { status: 500, body: {} }))
    const tokenizer = new EngineTokenizer({ origin, now: () => 0 })
    const prompt = (at: number) => requestOf('completions', { prompt: `prompt ${at}` })
    for (let at = 0; at < 20; at += 1) await byEngine(prompt(at), tokenizer, call)
    expect(origin.questions).toHaveLength(20)
  })

  it("measuring by an engine's /tokenize does not query an engine without the endpoint a second time", async () => {
    const origin = new TokenizeOnly(() => ({ status: 404, body: {} }))
    const tokenizer = new EngineTokenizer({ origin, now: () => 0 })
    await byEngine(chat, tokenizer, call)
    await byEngine(chat, tokenizer, call)
    expect(origin.questions).toHaveLength(1)
  })

  it.each([
    [
      'pictures',
      requestOf('chat', { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'u' } }] }] }),
    ],
    ['ids', requestOf('completions', { prompt: [1, 2, 3] })],
    ['many texts', requestOf('embeddings', { input: ['a', 'b', 'c', 'd', 'e'] })],
    ['what cannot be read', requestOf('chat', {})],
  ])("measuring by an engine's /tokenize does not query %s", async (_, request) => {
    const origin = new TokenizeOnly(() => tokens(1))
    await byEngine(request, new EngineTokenizer({ origin, now: () => 0 }), call)
    expect(origin.questions).toHaveLength(0)
  })
})
