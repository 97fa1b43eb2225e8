import { describe, expect, it } from 'vitest'
import type { OriginAnswer } from '../../../src/ports/origin.ts'
import type { RelayOptions } from '../../../src/ports/relay.ts'
import { type AnswerTransform, relayTransformed } from '../../../src/origin/relay/answer-transform.ts'

const encode = (text: string): Uint8Array => new TextEncoder().encode(text)

const upper: AnswerTransform = {
  event: (payload) => (payload === 'none' ? [] : [payload.toUpperCase()]),
  whole: (answer) => answer,
  usage: (counted) => counted,
}

/** A stream of an engine, transformed; `write` returns after its bytes were taken. */
function transformed() {
  const pipe = new TransformStream<Uint8Array, Uint8Array>(undefined, undefined, { highWaterMark: 1 })
  const answer = { sse: true, pass: () => new Response(pipe.readable) } as unknown as OriginAnswer
  const response = relayTransformed(answer, { scope: {} } as RelayOptions, upper)
  const reader = response.body!.getReader()
  const writer = pipe.writable.getWriter()
  const utf8 = new TextDecoder()
  return {
    write: (bytes: Uint8Array) => void writer.write(bytes),
    end: () => void writer.close(),
    read: async () => {
      const { done, value } = await reader.read()
      return done ? null : utf8.decode(value, { stream: true })
    },
  }
}

describe('a transformed stream', () => {
  it('a transformed stream passes a heartbeat before the next event', async () => {
    const { write, read, end } = transformed()
    write(encode('data: a\n\n'))
    expect(await read()).toBe('data: A\n\n')
    write(encode(': ping\n'))
    expect(await read()).toBe(': ping\n')
    write(encode('data: b\n\n'))
    expect(await read()).toBe('data: B\n\n')
    end()
    expect(await read()).toBeNull()
  })

  it.each([1, 2, 3, 7, 1000])('a transformed stream has the same events in pieces of %i bytes', async (size) => {
    const { write, read, end } = transformed()
    const body = encode(
      'data: ä\r\n\r\n: wait\n\nid: 1\ndata: b\ndata: c\n\nevent: x\ndata: d\n\ndata: none\n\ndata: half',
    )
    for (let at = 0; at < body.length; at += size) write(body.subarray(at, at + size))
    end()
    let text = ''
    for (let piece = await read(); piece !== null; piece = await read()) text += piece
    expect(text).toBe('data: Ä\n\n: wait\n\ndata: B\ndata: C\n\nevent: x\ndata: d\n\ndata: half')
  })
})
