/** node:http reads all that this parser accepts in the same way: different readings allow request smuggling. */
import * as fc from 'fast-check'
import http from 'node:http'
import { Duplex } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { BodyFraming, BROKEN, MORE } from '../../../src/platform/node/http1/body-framing.ts'
import { ChunkedDecoder } from '../../../src/platform/node/http1/chunked-decoder.ts'
import { parseRequestHead } from '../../../src/platform/node/http1/request-head.ts'
import { parseResponseHead } from '../../../src/platform/node/http1/response-head.ts'
import { turns } from '../../wait.ts'
import corpus from '../../vectors/http1.json' with { type: 'json' }

interface Message {
  /** URL of a request, status of a response. */
  readonly start: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

interface Own extends Message {
  /** Bytes of the message, framing included. */
  readonly size: number
}

const HEAD_END = '\r\n\r\n'
/** Node's clients do not report these headers, and the own client omits them. */
const PER_HOP = new Set(['connection', 'keep-alive', 'transfer-encoding', 'content-length', 'te', 'trailer', 'upgrade'])
const endToEnd = (headers: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !PER_HOP.has(name) && !name.startsWith('proxy-')))

/** The first request as the own server reads it. null: it is left to node:http, or is incomplete. */
function ownRequest(text: string): Own | null {
  const end = text.indexOf(HEAD_END)
  const head = end < 0 ? null : parseRequestHead(text.slice(0, end))
  if (head === null) return null
  const headers: Record<string, string> = {}
  head.headers.forEach((value, name) => (headers[name] = value))
  const rest = Buffer.from(text.slice(end + HEAD_END.length), 'latin1')
  if (head.length !== null) {
    if (rest.length < head.length) return null
    return {
      start: head.url,
      headers,
      body: rest.toString('latin1', 0, head.length),
      size: text.length - rest.length + head.length,
    }
  }
  const chunks = new ChunkedDecoder()
  const length = chunks.take(rest)
  const body = rest.toString('latin1', 0, length)
  return chunks.done ? { start: head.url, headers, body, size: text.length - rest.length + chunks.taken } : null
}

/** The response as the own client reads it, in reads of `size` bytes. null: it is rejected or incomplete. */
function ownResponse(text: string, size: number): Own | null {
  const end = text.indexOf(HEAD_END)
  const head = end < 0 ? null : parseResponseHead(text.slice(0, end))
  // Interim responses come before the final head.
  if (head === null || head.status < 200) return null
  const headers: Record<string, string> = {}
  for (let i = 0; i < head.headers.length; i += 2) {
    const [name, value] = [head.headers[i]!, head.headers[i + 1]!]
    headers[name] = name in headers ? `${headers[name]}, ${value}` : value
  }
  const framing = new BodyFraming(head.kind, head.length)
  const rest = Buffer.from(text.slice(end + HEAD_END.length), 'latin1')
  let body = ''
  let result = framing.empty ? 0 : MORE
  let from = 0
  for (let at = 0; at < rest.length && result === MORE; at += size) {
    const bytes = rest.subarray(at, at + size)
    from = at
    result = framing.consume(bytes)
    for (let i = 0; i < framing.ranges.length; i += 2)
      body += bytes.toString('latin1', framing.ranges[i], framing.ranges[i + 1])
  }
  if (result === BROKEN || (result === MORE && head.kind !== 'close')) return null
  const length = result === MORE ? rest.length : from + result
  return { start: String(head.status), headers, body, size: text.length - rest.length + length }
}

const textOf = async (stream: AsyncIterable<unknown>): Promise<string> => {
  let text = ''
  for await (const bytes of stream) text += (bytes as Buffer).toString('latin1')
  return text
}

const flat = (headers: http.IncomingHttpHeaders): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]))

/** A connection without a socket. Written bytes are discarded. */
function connectionOf(): Duplex {
  const connection = new Duplex({ read() {}, write: (_bytes, _encoding, done) => done() })
  connection.on('error', () => {})
  return connection
}

function nodeRequest(text: string): Promise<Message | null> {
  return new Promise((resolve) => {
    const server = http.createServer({ joinDuplicateHeaders: true, requireHostHeader: false }, (request, response) => {
      textOf(request)
        .then((body) => resolve({ start: request.url!, headers: flat(request.headers), body }))
        .catch(() => resolve(null))
        .finally(() => response.destroy())
    })
    server.on('clientError', () => resolve(null))
    server.on('checkExpectation', () => resolve(null))
    server.on('upgrade', () => resolve(null))
    const connection = connectionOf()
    server.emit('connection', connection)
    connection.push(text, 'latin1')
    // node:http waits for more bytes if it finds no end.
    void turns(20).then(() => resolve(null))
  })
}

function nodeResponse(text: string): Promise<Message | null> {
  return new Promise((resolve) => {
    const connection = connectionOf()
    const request = http.request({
      method: 'POST',
      createConnection: () => connection,
      joinDuplicateHeaders: true,
    } as http.RequestOptions)
    request.on('error', () => resolve(null))
    request.on('upgrade', () => resolve(null))
    request.on('response', (response) => {
      textOf(response)
        .then((body) => resolve({ start: String(response.statusCode), headers: flat(response.headers), body }))
        .catch(() => resolve(null))
    })
    request.end('{}', () => {
      connection.push(text, 'latin1')
      connection.push(null)
    })
  })
}

const PIECES = [
  '\r',
  '\n',
  '\r\n',
  ' ',
  '\t',
  ':',
  ';',
  ',',
  '0',
  '1',
  'f',
  'ff',
  '-',
  '+',
  '\0',
  '\x0b',
  '\x7f',
  '\xff',
  'x',
]
const LINES = [
  'content-length: 3\r\n',
  'transfer-encoding: chunked\r\n',
  'x-a: b\r\n',
  '0\r\n\r\n',
  '3\r\nabc\r\n',
  ' folded\r\n',
]

/** A message of the corpus with up to four changes. */
const changed = (texts: readonly string[]): fc.Arbitrary<string> =>
  fc
    .tuple(
      fc.constantFrom(...texts),
      fc.array(
        fc.record({
          at: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
          remove: fc.constantFrom(0, 0, 1, 1, 2, 9),
          insert: fc.oneof(fc.constant(''), fc.constantFrom(...PIECES), fc.constantFrom(...LINES)),
        }),
        { maxLength: 4 },
      ),
    )
    .map(([text, changes]) => {
      let result = text
      for (const { at, remove, insert } of changes) {
        const from = Math.floor(at * (result.length + 1))
        result = result.slice(0, from) + insert + result.slice(from + remove)
      }
      return result
    })

async function expectRequestAsNode(text: string): Promise<boolean> {
  const own = ownRequest(text)
  if (own === null) return false
  const { size, ...message } = own
  expect(message).toEqual(await nodeRequest(text.slice(0, size)))
  return true
}

async function expectResponseAsNode(text: string): Promise<boolean> {
  const own = ownResponse(text, text.length)
  if (own === null) return false
  const { size, ...message } = own
  const node = await nodeResponse(text.slice(0, size))
  expect({ ...message, headers: endToEnd(message.headers) }).toEqual({
    ...node,
    headers: endToEnd(node?.headers ?? {}),
  })
  return true
}

describe.each(corpus.requests)('a request with $name', ({ text, own }) => {
  it(own ? 'is read as node:http reads it' : 'is left to node:http', async () => {
    expect(await expectRequestAsNode(text)).toBe(own)
  })
})

describe.each(corpus.responses)('a response with $name', ({ text, own }) => {
  it(own ? 'is read as node:http reads it' : 'is refused', async () => {
    expect(await expectResponseAsNode(text)).toBe(own)
  })
})

describe('messages changed at random', () => {
  it('messages changed at random are read as node:http reads them, or left to it: requests', async () => {
    let taken = 0
    await fc.assert(
      fc.asyncProperty(changed(corpus.requests.map(({ text }) => text)), async (text) => {
        if (await expectRequestAsNode(text)) taken++
      }),
      { numRuns: 4000 },
    )
    expect(taken).toBeGreaterThan(200)
  })

  it('messages changed at random are read as node:http reads them, or refused: responses, in reads of any size', async () => {
    let taken = 0
    await fc.assert(
      fc.asyncProperty(
        changed(corpus.responses.map(({ text }) => text)),
        fc.integer({ min: 1, max: 40 }),
        async (text, size) => {
          expect(ownResponse(text, size)).toEqual(ownResponse(text, text.length))
          if (await expectResponseAsNode(text)) taken++
        },
      ),
      { numRuns: 4000 },
    )
    expect(taken).toBeGreaterThan(200)
  })
})
