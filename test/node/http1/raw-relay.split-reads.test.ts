/** The raw relay without a network: every way to cut a response, over memory that is reused as soon as allowed. */
import { ownRequest } from '../../../src/origin/own-request.ts'
import { chat } from '../../../src/protocols/chat.ts'
import { ServerResponse, type IncomingMessage } from 'node:http'
import { Writable } from 'node:stream'
import type { Socket } from 'node:net'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseResponseHead } from '../../../src/platform/node/http1/response-head.ts'
import { EngineRequest, type EngineRequestParts } from '../../../src/platform/node/http1/engine-request.ts'
import type { OriginAnswer } from '../../../src/ports/origin.ts'
import type { RelayResult } from '../../../src/ports/relay.ts'
import { chunked, parseRaw } from './wire.ts'

const HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked'
const EVENTS = [
  ': keep-alive\n\n',
  'data: {"id":"1","choices":[{"delta":{"content":"h\xc3\xa9llo \\"usage\\":{ not this"}}]}\n\n',
  'event: named\ndata: {"id":"1","choices":[{"delta":{"content":"!"},"finish_reason":"stop"}]}\r\n\r\n',
  'data: {"id":"1","choices":[],"usage":{"prompt_tokens":15,"completion_tokens":3}}\n\n',
  'data: [DONE]\n\n',
]
const isUsage = (event: string): boolean => event.includes('"choices":[]')

/** The client's socket: accepts bytes at once, or only when the test allows it. */
class ClientSocket extends Writable {
  readonly taken: Buffer[] = []
  readonly #slow: boolean
  #then: (() => void) | null = null

  constructor(slow: boolean) {
    super({ highWaterMark: 64 * 1024 })
    this.#slow = slow
  }

  /** Completes the last write. */
  let(): void {
    while (this.#then !== null) {
      const then = this.#then
      this.#then = null
      then()
    }
  }

  override _write(bytes: Buffer, encoding: BufferEncoding, done: () => void): void {
    this.#take([{ chunk: bytes, encoding }], done)
  }

  override _writev(all: { chunk: Buffer; encoding: BufferEncoding }[], done: () => void): void {
    this.#take(all, done)
  }

  #take(all: readonly { chunk: Buffer | string; encoding: BufferEncoding }[], done: () => void): void {
    const take = (): void => {
      for (const { chunk, encoding } of all)
        this.taken.push(Buffer.from(typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk))
      done()
    }
    if (this.#slow) this.#then = take
    else take()
  }
}

interface RelayedStream {
  readonly raw: string
  readonly ends: readonly RelayResult[]
}

interface Manner {
  readonly hideUsage: boolean
  /** The client's socket accepts bytes only after this many reads of the engine. */
  readonly letEvery: number
}

/** One response, in reads cut as given. */
function passed(reads: readonly Buffer[], { hideUsage, letEvery }: Manner): RelayedStream {
  const socket = new ClientSocket(letEvery > 0)
  const incoming = { httpVersionMajor: 1, httpVersionMinor: 1, method: 'POST', headers: {} } as IncomingMessage
  const outgoing = new ServerResponse(incoming)
  outgoing.assignSocket(
    Object.assign(socket, { setTimeout: () => socket, destroySoon: () => undefined }) as unknown as Socket,
  )
  const ends: RelayResult[] = []
  const connection = {
    connecting: false,
    connected: true,
    reused: false,
    socket: { pause() {}, resume() {} },
    use() {},
    free() {},
    drop() {},
    fail: (error: Error) => call.closed(error, false),
  }
  const begun = (answer: OriginAnswer): void => {
    answer.pass({
      scope: { background: () => {}, client: { incoming, outgoing } },
      status: 200,
      headers: answer.headers,
      protocol: chat,
      observe: true,
      hideUsage,
      checksEnd: true,
      heartbeatMs: 0,
      idleMs: 60_000,
      firstEvents: 0,
      onEvents: () => Infinity,
      onFirstByte: () => {},
      truncationEvent: () => Buffer.from('data: cut\n\n'),
      settled: (end) => void ends.push(end),
    })
  }
  const request = ownRequest({ id: 'e', url: '', headers: [], binding: null }, '/v1', { limitMs: 60_000 })
  const parts = {
    request,
    text: '',
    connections: { take: () => connection },
    host: 'engine',
  } as unknown as EngineRequestParts
  let isOver = false
  const call = new EngineRequest(parts, {
    patienceMs: 0,
    head: () => true,
    firstByte: begun,
    failed: (error) => {
      if (!isOver) throw error
    },
  })
  call.start()
  call.head(parseResponseHead(HEAD)!)
  let memory = Buffer.alloc(4096)
  for (const [at, read] of reads.entries()) {
    const bytes = memory.subarray(0, read.copy(memory))
    call.bytes(bytes)
    // The next read uses the same memory, unless it is held.
    if (call.holds) memory = Buffer.alloc(4096)
    else memory.fill('#')
    if (letEvery > 0 && at % letEvery === 0) socket.let()
  }
  socket.let()
  const result = { raw: Buffer.concat(socket.taken).toString('latin1'), ends: [...ends] }
  // A request without a whole response would reach its time limit during another test.
  isOver = true
  call.stop(new Error('the test is over'))
  return result
}

function splitAt(text: string, places: readonly number[]): Buffer[] {
  const at = [...new Set([0, ...places.map((place) => place % text.length), text.length])].sort((a, b) => a - b)
  return at.slice(1).map((to, i) => Buffer.from(text.slice(at[i], to), 'latin1'))
}

function expectPassed({ raw, ends }: RelayedStream, events: readonly string[], hideUsage: boolean): void {
  const shown = hideUsage ? events.filter((event) => !isUsage(event)) : events
  const answer = parseRaw(raw)
  expect(answer.body).toBe(shown.join(''))
  expect(answer.whole).toBe(true)
  const usage = events.some(isUsage) ? { promptTokens: 15, completionTokens: 3, cachedTokens: null } : null
  expect(ends).toEqual([
    expect.objectContaining({
      end: 'complete',
      failure: null,
      events: shown.filter((event) => !event.startsWith(':')).length,
      usage,
      bytes: events.join('').length,
    }),
  ])
}

const shapes: Record<string, string> = {
  'an event a chunk': chunked(EVENTS),
  'all events in one chunk': chunked([EVENTS.join('')]),
  'the last three events in one chunk': chunked([...EVENTS.slice(0, 2), EVENTS.slice(2).join('')]),
  'chunks of 37 bytes across events': chunked(EVENTS.join('').match(/[^]{1,37}/g)!),
  'chunk extensions': chunked(EVENTS, ';name=value'),
  trailers: chunked(EVENTS, '', 'x-checksum: 12\r\nx-more: 3\r\n'),
}

describe.each(Object.entries(shapes))('an answer framed as %s', (_name, text) => {
  it.each([
    [false, 0],
    [true, 0],
    [false, 2],
    [true, 2],
  ])(
    'a framed answer is whole when it is cut at any byte, or at all of them (usage hidden: %s, socket slow: %s)',
    (hideUsage, letEvery) => {
      for (let at = 1; at < text.length; at++)
        expectPassed(passed(splitAt(text, [at]), { hideUsage, letEvery }), EVENTS, hideUsage)
      expectPassed(
        passed(
          splitAt(
            text,
            Array.from({ length: text.length }, (_, i) => i),
          ),
          { hideUsage, letEvery },
        ),
        EVENTS,
        hideUsage,
      )
    },
  )

  it('a framed answer is never whole to its client when the engine ends it early, wherever that is', () => {
    for (let at = 0; at < text.length; at += 3) {
      const { raw, ends } = passed(
        [Buffer.from(`${text.slice(0, at)}`, 'latin1')].filter(({ length }) => length > 0),
        { hideUsage: at % 2 === 0, letEvery: 0 },
      )
      expect(ends).toEqual([])
      if (raw !== '') expect(parseRaw(raw).whole).toBe(false)
    }
  })
})

const UNFINISHED = EVENTS.slice(0, 4).map((one) => one.replace('"stop"', 'null'))

describe.each([
  ['an event a chunk', chunked(UNFINISHED)],
  ['all events in one chunk', chunked([UNFINISHED.join('')])],
  ['chunks of 37 bytes across events', chunked(UNFINISHED.join('').match(/[^]{1,37}/g)!)],
])('an answer that ends without its mark, framed as %s', (_name, text) => {
  it.each([false, true])(
    'an answer that ends without its mark is cut, and tells why where there is room for it (usage hidden: %s)',
    (hideUsage) => {
      const shown = UNFINISHED.filter((one) => !hideUsage || !isUsage(one)).join('')
      for (let at = 0; at < text.length; at++) {
        const { raw, ends } = passed(splitAt(text, [at]), { hideUsage, letEvery: 0 })
        const { body, whole } = parseRaw(raw)
        expect(whole).toBe(false)
        expect(ends).toEqual([expect.objectContaining({ end: 'engine_truncated', failure: 'reset' })])
        expect([shown, `${shown}data: cut\n\n`]).toContain(body)
      }
    },
  )
})

const event = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...EVENTS.slice(0, 3)) },
  fc.constant(EVENTS[3]!),
  fc
    .string({ unit: 'binary-ascii', maxLength: 80 })
    .map((text) => `data: ${JSON.stringify({ choices: [{ text }] })}\n\n`),
)

it('a stream is whole however its events, its chunks and its reads are cut', () => {
  fc.assert(
    fc.property(
      fc.record({
        events: fc.array(event, { maxLength: 12 }),
        chunks: fc.array(fc.nat(), { maxLength: 12 }),
        byEvent: fc.boolean(),
        reads: fc.array(fc.nat(), { maxLength: 12 }),
        hideUsage: fc.boolean(),
        letEvery: fc.nat(3),
      }),
      ({ events, chunks, byEvent, reads, hideUsage, letEvery }) => {
        const all = [...events, EVENTS[2]!, EVENTS[4]!]
        const pieces = byEvent ? all : splitAt(all.join(''), chunks).map((piece) => piece.toString('latin1'))
        expectPassed(passed(splitAt(chunked(pieces), reads), { hideUsage, letEvery }), all, hideUsage)
      },
    ),
    { numRuns: 1500 },
  )
})
