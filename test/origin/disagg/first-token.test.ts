import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { relayTransformed, type AnswerTransform } from '../../../src/origin/relay/answer-transform.ts'
import { firstTokenTransform } from '../../../src/origin/disagg/first-token.ts'
import type { OriginAnswer } from '../../../src/ports/origin.ts'
import { protocolOf } from '../../../src/protocols/protocols.ts'
import type { RelayOptions } from '../../../src/ports/relay.ts'

/** Transforms a response that arrives in these pieces. */
function passed(pieces: readonly Uint8Array[], change: AnswerTransform, sse = true): Promise<string> {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece)
      controller.close()
    },
  })
  const answer = { sse, pass: () => new Response(body, { status: 200 }) } as Partial<OriginAnswer> as OriginAnswer
  return relayTransformed(answer, { scope: {} } as RelayOptions, change).text()
}

const bytes = (text: string) => new TextEncoder().encode(text)

function splitAt(text: string, at: readonly number[]): Uint8Array[] {
  const whole = bytes(text)
  const ends = [...new Set(at.map((one) => one % whole.length)), whole.length].sort((a, b) => a - b)
  return ends.map((end, index) => whole.subarray(ends[index - 1] ?? 0, end))
}

const chatForm = protocolOf('/v1/chat/completions')!.asCompletion!
const completionForm = protocolOf('/v1/completions')!.asCompletion!

const record = (text: string, finish: string | null = null) => ({
  id: 'cmpl-1',
  object: 'text_completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, text, logprobs: null, finish_reason: finish, stop_reason: null }],
})
const usage = { ...record(''), choices: [], usage: { prompt_tokens: 11, total_tokens: 14, completion_tokens: 3 } }
const sse = (...payloads: (object | string)[]) =>
  payloads.map((one) => `data: ${typeof one === 'string' ? one : JSON.stringify(one)}\n\n`).join('')
const stream = `: keep-alive\n\n${sse(record(' héllo'), record(' 🔥'), record(' end', 'length'), usage, '[DONE]')}`

const payloads = (text: string) =>
  text
    .split('\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice(6)) as Record<string, unknown> & { choices: Record<string, unknown>[] })

describe('a stream that is changed on the way', () => {
  it('a stream that is changed on the way is the same however its bytes are cut', async () => {
    const expected = await passed([bytes(stream)], firstTokenTransform(chatForm, 'First'))
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(2000), { maxLength: 30 }), async (at) => {
        expect(await passed(splitAt(stream, at), firstTokenTransform(chatForm, 'First'))).toBe(expected)
      }),
    )
  })

  it('a stream that is changed on the way becomes a chat that begins with the first token, once', async () => {
    const text = await passed([bytes(stream)], firstTokenTransform(chatForm, 'First'))
    const all = payloads(text)
    expect(all.map(({ choices }) => (choices[0]?.['delta'] as { content?: string } | undefined)?.content)).toEqual([
      '',
      'First',
      ' héllo',
      ' 🔥',
      ' end',
      undefined,
    ])
    expect(all[0]!.choices[0]!['delta']).toEqual({ role: 'assistant', content: '' })
    for (const one of all) expect(one).toMatchObject({ id: 'chatcmpl-1', object: 'chat.completion.chunk' })
    expect(all[4]!.choices[0]).toMatchObject({ finish_reason: 'length', stop_reason: null })
    expect(
      firstTokenTransform(chatForm, 'First').usage({
        promptTokens: 11,
        completionTokens: 3,
        cachedTokens: 8,
      }),
    ).toEqual({ promptTokens: 10, completionTokens: 4, cachedTokens: 8 })
    expect(all.at(-1)).toMatchObject({
      choices: [],
      usage: { prompt_tokens: 10, total_tokens: 14, completion_tokens: 4 },
    })
    expect(text.startsWith(': keep-alive\n\n')).toBe(true)
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
  })

  it('a stream that is changed on the way stays a completion if one was requested', async () => {
    const all = payloads(await passed([bytes(stream)], firstTokenTransform(completionForm, 'First')))
    expect(all.map(({ choices }) => choices[0]?.['text'])).toEqual(['First', ' héllo', ' 🔥', ' end', undefined])
    expect(all.every(({ id }) => id === 'cmpl-1')).toBe(true)
  })

  it('a stream that is changed on the way passes its error event and malformed records unchanged', async () => {
    const error = 'data: {"error":{"message":"cut","code":"engine_stream_truncated"}}\n\n'
    const odd = 'event: ping\ndata: {}\n\ndata: {"choices\n\n'
    const text = await passed([bytes(sse(record(' a')) + odd + error)], firstTokenTransform(completionForm, 'First'))
    expect(text).toContain(odd)
    expect(text.endsWith(error)).toBe(true)
  })

  it('a stream that is changed on the way without a record passes no first token', async () => {
    const error = 'data: {"error":{"message":"cut"}}\n\n'
    expect(await passed([bytes(error)], firstTokenTransform(chatForm, 'First'))).toBe(error)
  })
})

describe('a non-streaming response that is transformed', () => {
  it('a non-streaming response that is transformed has the first token in front, and counts it as output', async () => {
    const answer = { ...record(' rest', 'stop'), system_fingerprint: 'f', usage: usage.usage }
    const completion = JSON.parse(
      await passed(splitAt(JSON.stringify(answer), [7, 40]), firstTokenTransform(completionForm, 'First'), false),
    ) as unknown
    expect(completion).toEqual({
      ...answer,
      choices: [{ ...answer.choices[0], text: 'First rest' }],
      usage: { prompt_tokens: 10, total_tokens: 14, completion_tokens: 4 },
    })
    const chat = JSON.parse(
      await passed([bytes(JSON.stringify(answer))], firstTokenTransform(chatForm, 'First'), false),
    ) as Record<string, unknown>
    expect(chat).toMatchObject({
      id: 'chatcmpl-1',
      object: 'chat.completion',
      system_fingerprint: 'f',
      choices: [{ message: { role: 'assistant', content: 'First rest' }, finish_reason: 'stop' }],
    })
  })
})
