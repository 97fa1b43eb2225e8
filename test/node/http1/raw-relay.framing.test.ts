import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask, chunked, openWire, requestText, type Wire } from './wire.ts'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { turns } from '../../wait.ts'

const EVENTS = [
  'data: {"id":"1","choices":[{"delta":{"role":"assistant","content":""}}]}\n\n',
  ': keep-alive\n\n',
  'data: {"id":"1","choices":[{"delta":{"content":"h\xc3\xa9llo \\"usage\\":{ not this"}}]}\n\n',
  'data: {"id":"1","choices":[{"delta":{"content":"!"},"finish_reason":"stop"}]}\r\n\r\n',
  'data: {"id":"1","choices":[],"usage":{"prompt_tokens":15,"total_tokens":18,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}}\n\n',
  'data: [DONE]\n\n',
]
const WITHOUT_USAGE = EVENTS.filter((event) => !event.includes('"choices":[]')).join('')
const HEAD =
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: keep-alive\r\n\r\n'
const SHAPES: Record<string, string> = {
  'an event a chunk': chunked(EVENTS),
  'all events in one chunk': chunked([EVENTS.join('')]),
  'chunks of 37 bytes across events': chunked(EVENTS.join('').match(/[^]{1,37}/g)!),
  'chunk extensions': chunked(EVENTS, ';name=value'),
  'blanks behind sizes': chunked(EVENTS, ' \t'),
  'blanks before extensions and trailers': chunked(EVENTS, ' ; name="a b" ', 'x-checksum: 12\r\n'),
  trailers: chunked(EVENTS, '', 'x-checksum: 12\r\nx-more: 3\r\n'),
}

let engine: FakeEngine
let shown: Wire
let hidden: Wire
let shownInSteps: Wire
let hiddenInSteps: Wire

beforeAll(async () => {
  engine = await FakeEngine.open()
  shown = await openWire(engine)
  hidden = await openWire(engine, { hideUsage: true })
  shownInSteps = await openWire(engine, { inSteps: true })
  hiddenInSteps = await openWire(engine, { inSteps: true, hideUsage: true })
})
afterAll(async () => {
  for (const wire of [shown, hidden, shownInSteps, hiddenInSteps]) await wire.close()
  await engine.close()
})

/** Sends each piece in its own read, as far as a socket allows. */
async function inPieces(text: string, offsets: readonly number[]): Promise<void> {
  engine.routes['*'] = async ({ socket }) => {
    socket.setNoDelay(true)
    let at = 0
    for (const offset of [...offsets, text.length]) {
      socket.write(text.slice(at, offset), 'latin1')
      at = offset
      await new Promise((resolve) => setImmediate(resolve))
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
}

async function expectWhole(wire: Wire, body: string): Promise<void> {
  const before = wire.ends.length
  const answer = await ask(wire.port)
  expect(answer.whole).toBe(true)
  expect(answer.body).toBe(body)
  const end = wire.ends[before]!
  expect(end).toMatchObject({
    end: 'complete',
    events: 5 - (wire.options.hideUsage === true ? 1 : 0),
    usage: { promptTokens: 15, completionTokens: 3, cachedTokens: 8 },
  })
}

describe.each(Object.entries(SHAPES))('a stream framed as %s', (_name, body) => {
  const text = HEAD + body

  it('a framed stream arrives whole however it is cut in two, usage kept or hidden', { timeout: 120_000 }, async () => {
    for (let offset = 1; offset < text.length; offset += 13) {
      await inPieces(text, [offset])
      await expectWhole(shown, EVENTS.join(''))
      await expectWhole(hidden, WITHOUT_USAGE)
      await inPieces(text, [offset + 5])
      await expectWhole(shownInSteps, EVENTS.join(''))
      await expectWhole(hiddenInSteps, WITHOUT_USAGE)
    }
  })

  it('a framed stream arrives complete if it comes in many pieces', async () => {
    const offsets = Array.from({ length: 40 }, (_, i) => Math.floor(((i + 1) * text.length) / 41))
    await inPieces(text, offsets)
    for (const wire of [shown, shownInSteps]) await expectWhole(wire, EVENTS.join(''))
    for (const wire of [hidden, hiddenInSteps]) await expectWhole(wire, WITHOUT_USAGE)
  })
})

it('the raw relay keeps the engine’s chunks if nothing is hidden', async () => {
  engine.routes['*'] = async ({ socket }) => {
    socket.write(HEAD + chunked([EVENTS[0]!]).slice(0, -5), 'latin1')
    await turns()
    socket.write(chunked(EVENTS.slice(1), ';engine=1'), 'latin1')
  }
  const answer = await ask(shown.port)
  expect(answer.raw).toContain(';engine=1')
})

it('the raw relay removes blanks behind sizes, which some clients refuse', async () => {
  engine.routes['*'] = async ({ socket }) => {
    const text = HEAD + chunked(EVENTS, ' \t')
    socket.write(text.slice(0, HEAD.length + 3), 'latin1')
    await turns()
    socket.write(text.slice(HEAD.length + 3), 'latin1')
  }
  const { raw } = await ask(shown.port)
  expect(raw).toMatch(/\r\n[0-9a-f]+\r\n/)
  expect(raw).not.toMatch(/\r\n[0-9a-f]+[ \t]+\r\n/)
})

it('writes exactly one head and the engine’s chunks, without Node’s own framing', async () => {
  const body = chunked(EVENTS.slice(0, 2), ';a=b')
  engine.routes['*'] = ({ socket }) => void socket.write(HEAD + body, 'latin1')
  const { raw } = await ask(shown.port)
  const undated = raw.replace(/\r\ndate: [^\r]+/i, '').replace(/\r\nkeep-alive: [^\r]+/i, '')
  expect(undated).toBe(
    `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-ours: yes\r\ntransfer-encoding: chunked\r\nConnection: keep-alive\r\n\r\n${body}`,
  )
})

it('the raw relay gives an HTTP/1.0 client the payload without chunks and closes', async () => {
  await inPieces(HEAD + SHAPES['an event a chunk']!, [])
  const answer = await ask(shown.port, requestText('1.0'))
  expect(answer.head).not.toContain('chunked')
  expect(answer.body).toBe(EVENTS.join(''))
})

it('the raw relay keeps the framing of a body with a length, and reads its usage', async () => {
  const body = '{"choices":[{"text":"x"}],"usage":{"prompt_tokens":2,"completion_tokens":1}}'
  engine.routes['*'] = ({ socket }) =>
    void socket.write(
      `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    )
  const answer = await ask(shown.port)
  expect(answer).toMatchObject({ whole: true, body })
  expect(answer.head).toContain('x-ours: yes')
  expect(shown.ends.at(-1)).toMatchObject({ end: 'complete', usage: { promptTokens: 2, completionTokens: 1 } })
})

it('the raw relay skips interim answers, and passes answers without a body', async () => {
  engine.routes['*'] = ({ socket }) =>
    void socket.write(
      'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok',
    )
  expect(await ask(shown.port)).toMatchObject({ whole: true, body: 'ok' })
  engine.routes['*'] = ({ socket }) => void socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n')
  expect(await ask(shown.port)).toMatchObject({ whole: true, body: '' })
  engine.routes['*'] = ({ socket }) => void socket.write('HTTP/1.1 204 No Content\r\n\r\n')
  expect((await ask(shown.port)).head).toContain('204')
})

it('frames a body that only the close ends', async () => {
  engine.routes['*'] = ({ socket }) =>
    void socket.end('HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nuntil the end')
  expect(await ask(shown.port)).toMatchObject({ whole: true, body: 'until the end' })
})

it('the raw relay serves fifty requests in sequence over one connection', async () => {
  await inPieces(HEAD + SHAPES['an event a chunk']!, [])
  const before = engine.accepted
  for (let i = 0; i < 50; i++) expect((await ask(shown.port)).whole).toBe(true)
  expect(engine.accepted - before).toBeLessThanOrEqual(1)
})

it('the raw relay delivers the response without later bytes of the engine', async () => {
  const one = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'
  engine.routes['*'] = ({ socket }) => void socket.write(`${one}HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil`)
  expect((await ask(shown.port)).body).toBe('ok')
  engine.routes['*'] = ({ socket }) => void socket.write(one)
  expect((await ask(shown.port)).body).toBe('ok')
})
