/** Bodies in chunks of a few bytes: they delay no other client and use no extra memory. */
import { createServer } from 'node:http'
import fc from 'fast-check'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { BodyBuffer } from '../../../src/platform/node/inbound/body-buffer.ts'
import { NodeBody } from '../../../src/platform/node/inbound/node-body.ts'
import { gatewayKeys } from '../../contracts/gateway.ts'
import { chatBody, servers, useBothServers, RawClient, requestText } from './both-servers.ts'
import { serveLocally } from '../../kit/local-server.ts'
import { until } from '../../wait.ts'

const CHUNKED = 'transfer-encoding: chunked'
const LONG = 300_000

const { both, connect } = useBothServers({ body_bytes: 1_000_000, max_json_cost: 1_000_000 })
afterEach(() => void vi.restoreAllMocks())

const inChunks = (text: string, size: number): string => {
  const chunks: string[] = []
  for (let at = 0; at < text.length; at += size)
    chunks.push(`${Math.min(size, text.length - at).toString(16)}\r\n${text.slice(at, at + size)}\r\n`)
  return `${chunks.join('')}0\r\n\r\n`
}
const bodyOf = (request: string): string => request.slice(request.indexOf('\r\n\r\n') + 4)
const chunkedRequest = (host: string, body: string, size: number): string =>
  requestText(host, { body: inChunks(body, size), framing: CHUNKED })

describe('a body of which each byte is a chunk', () => {
  const body = chatBody('x'.repeat(LONG))

  it('a body with one byte in each chunk reaches the engine as it is, and is copied once a read, not once a chunk', async () => {
    const put = vi.spyOn(BodyBuffer.prototype, 'put')
    const answer = await connect()
      .send(chunkedRequest(servers.plain, body, 1))
      .answer()
    expect(answer.head).toContain(' 200 ')
    expect(bodyOf(both.posts[0]!)).toBe(body)
    // 1.8 MB on the wire. A read has at most 64 KiB and rarely less than 1 KiB.
    expect(put.mock.calls.length).toBeLessThan(LONG / 100)
  })

  it('a body with one byte in each chunk is rejected if node:http parses it', async () => {
    const answer = await connect()
      .send(chunkedRequest(servers.adapter, body, 1))
      .answer()
    expect(answer.head).toContain(' 413 ')
    expect(JSON.parse(answer.body)).toMatchObject({
      error: {
        code: 'body_too_large',
        message: expect.stringContaining('more than 10000 chunks of less than 32 bytes'),
      },
    })
    expect(both.posts).toHaveLength(0)
  })

  it('a body with one byte in each chunk is rejected there too if the body is not read', async () => {
    const client = connect().send(
      requestText(servers.adapter, { headers: '', body: inChunks(body, 1), framing: CHUNKED }),
    )
    expect((await client.answer()).head).toContain(' 401 ')
    await until(() => client.closed)
  })

  it('a body with one byte in each chunk is refused as any other beyond the limit', async () => {
    const client = connect().send(chunkedRequest(servers.plain, 'x'.repeat(1_200_000), 1))
    const answer = await client.answer()
    expect(answer.head).toContain(' 413 ')
    expect(answer.body).toContain('1000000 bytes')
    await until(() => client.closed)
  })
})

describe.each(Object.entries(servers))('on the %s server', (_, host) => {
  it.each([
    [5_000, 1],
    [LONG, 40],
  ])('a body of %i bytes in chunks of %i is served', async (length, size) => {
    const body = chatBody('x'.repeat(length))
    const answer = await connect()
      .send(chunkedRequest(host, body, size))
      .answer()
    expect(answer.head).toContain(' 200 ')
    expect(bodyOf(both.posts[0]!)).toBe(body)
  })

  it('chunks that are malformed, or never end, reach no engine', async () => {
    const broken = connect().send(
      requestText(host, { body: `${inChunks(chatBody(), 1).slice(0, 60)}x`, framing: CHUNKED }),
    )
    expect((await broken.answer()).head).toContain(' 400 ')
    await until(() => broken.closed)
    const left = connect().send(requestText(host, { body: inChunks(chatBody(), 1).slice(0, 60), framing: CHUNKED }))
    await until(() => left.socket.bytesWritten > 0 && !left.socket.connecting)
    both.lines.length = 0
    await left.close()
    await until(() => both.lines.some(({ reason, result }) => reason === 'client_gone' || result === 'client_gone'))
    expect(both.posts).toHaveLength(0)
  })

  it('garbage behind the last chunk gets its 400 after the request has its answer', async () => {
    const client = connect().send(`${chunkedRequest(host, chatBody(), 1)}\0garbage\r\n\r\n`)
    expect((await client.answer()).head).toContain(' 200 ')
    expect((await client.answer()).head).toContain(' 400 ')
    await until(() => client.closed)
  })

  it('a request behind the last chunk is ignored if the first closes the connection', async () => {
    const headers = `authorization: Bearer ${gatewayKeys.broad}\r\nconnection: close\r\n`
    const client = connect().send(
      requestText(host, { headers, body: inChunks(chatBody(), 1), framing: CHUNKED }) + requestText(host),
    )
    expect((await client.answer()).head).toContain(' 200 ')
    await until(() => client.closed)
    expect(client.pending).toBe('')
    expect(both.posts).toHaveLength(1)
  })
})

describe('memory of a body', () => {
  it('memory of a body is at most twice its bytes, however it is cut', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 5_000 }), { minLength: 1, maxLength: 50 }),
        fc.integer({ min: 1, max: 4_096 }),
        (sizes, first) => {
          const buffer = new BodyBuffer(first, Infinity)
          for (const [i, size] of sizes.entries()) {
            buffer.put(Buffer.alloc(size, i))
            expect(buffer.bytes.buffer.byteLength).toBeLessThanOrEqual(Math.max(first, 2 * buffer.length))
          }
          expect(Buffer.concat(sizes.map((size, i) => Buffer.alloc(size, i))).equals(buffer.bytes)).toBe(true)
        },
      ),
    )
  })

  it('memory of a body is freed when a body is refused', async () => {
    const free = vi.spyOn(BodyBuffer.prototype, 'free')
    for (const host of Object.values(servers)) {
      free.mockClear()
      await connect()
        .send(chunkedRequest(host, 'x'.repeat(1_000_001), 1_000))
        .answer()
      expect(free).toHaveBeenCalled()
    }
  })
})

describe('node:http', () => {
  it('node:http is limited to a few reads of small chunks per turn of the event loop', async () => {
    let chunks = 0
    let max = 0
    let ended = false
    const turn = (): void => {
      max = Math.max(max, chunks)
      chunks = 0
      if (!ended) setImmediate(turn)
    }
    const handler = createServer((incoming, outgoing) => {
      const body = new NodeBody(incoming)
      incoming.on('data', () => chunks++)
      turn()
      void body.collect(10_000_000).then((bytes) => outgoing.end(String(bytes?.length)))
    })
    await using server = await serveLocally(handler)
    const client = new RawClient(server.port)
    const answer = await client
      .send(requestText('a', { body: inChunks('x'.repeat(4_000_000), 40), framing: CHUNKED }))
      .answer()
    ended = true
    expect(answer.body).toBe('4000000')
    expect(max).toBeLessThan(4_000)
    await client.close()
  })
})
