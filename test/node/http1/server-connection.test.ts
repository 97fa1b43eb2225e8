/** Requests that the own HTTP/1.1 server handles, those it leaves to node:http, and the connection after either. */
import { EventEmitter, once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { Http1Server } from '../../../src/platform/node/http1/server.ts'
import { type HttpTimeouts, ServerConnection } from '../../../src/platform/node/http1/server-connection.ts'
import { parseRequestHead } from '../../../src/platform/node/http1/request-head.ts'
import { ServerRequest } from '../../../src/platform/node/http1/server-request.ts'
import { openLog } from '../../../src/platform/node/log.ts'
import type { RequestScope } from '../../../src/ports/request-scope.ts'
import { RawClient } from '../inbound/both-servers.ts'
import { turns, until } from '../../wait.ts'

type Serve = (request: ServerRequest) => Promise<Response>

/** Responds with the length of the body. */
const measured: Serve = async (request) =>
  new Response(`plain ${(await request.collect(1_000_000))?.length ?? 'too long'}`)

let serve: Serve = measured
const lines: string[] = []
const late: string[] = []
const gateway = { fetch: (request: unknown) => serve(request as ServerRequest) }
const server = createServer({ maxHeaderSize: 32_768 }, (_, outgoing) => outgoing.end('node:http'))
/** A server with short limits. */
const impatient = createServer()
const scopeOf = (client: unknown): RequestScope => ({ background: () => {}, client, remoteAddress: null })
const serverOf = (timeouts: HttpTimeouts): Http1Server =>
  new Http1Server({
    gateway,
    timeouts,
    scopeOf,
    refuse: (reason, socket) => {
      late.push(reason)
      socket.end('HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n')
    },
    log: openLog('info', { write: (line) => void lines.push(line) }),
  })
let clients: RawClient[] = []

beforeAll(async () => {
  serverOf({ headMs: 600_000, requestMs: 600_000, idleMs: 600_000 }).takeConnections(server)
  serverOf({ headMs: 150, requestMs: 400, idleMs: 200 }).takeConnections(impatient)
  for (const one of [server, impatient]) await once(one.listen(0, '127.0.0.1'), 'listening')
})
afterAll(() => {
  server.close()
  impatient.close()
})
afterEach(async () => {
  for (const client of clients) await client.close()
  clients = []
  serve = measured
  lines.length = late.length = 0
})

function connect(to = server): RawClient {
  const client = new RawClient((to.address() as AddressInfo).port)
  clients.push(client)
  return client
}

const start = 'POST /v1/chat/completions HTTP/1.1\r\n'
const host = 'host: gateway.test\r\n'
const end = 'content-length: 2\r\nconnection: close\r\n\r\n{}'
const plain = (body = '{}', length = body.length): string => `${start}${host}content-length: ${length}\r\n\r\n${body}`
const first = async (request: string): Promise<string> => (await connect().send(request).answer()).body

describe('the own HTTP/1.1 server', () => {
  it.each(['gateway.test', 'gateway.test:8000', '127.0.0.1:59999', 'localhost'])(
    'the own HTTP/1.1 server takes a POST for an engine at %s',
    async (name) => {
      expect(await first(`${start}host: ${name}\r\n${end}`)).toBe('plain 2')
    },
  )

  it.each([
    ['another path', `POST /v1/models HTTP/1.1\r\n${host}${end}`],
    ['a query', `POST /v1/chat/completions?a=b HTTP/1.1\r\n${host}${end}`],
    ['a path spelled otherwise', `POST /v1/./chat/completions HTTP/1.1\r\n${host}${end}`],
    ['an absolute URL', `POST http://a/v1/chat/completions HTTP/1.1\r\n${host}${end}`],
    ['another method', `GET /v1/chat/completions HTTP/1.1\r\n${host}${end}`],
    ['a host that must be judged', `${start}host: User@a\r\n${end}`],
    ['no host', `POST /v1/chat/completions HTTP/1.0\r\n${end}`],
    [
      'another transfer encoding',
      `${start}${host}transfer-encoding: gzip, chunked\r\nconnection: close\r\n\r\n0\r\n\r\n`,
    ],
    ['no length', `${start}${host}connection: close\r\n\r\n`],
    ['a header twice', `${start}${host}accept: a\r\naccept: b\r\n${end}`],
    ['a connection header with two options', `${start}${host}content-length: 2\r\nconnection: close, x-hop\r\n\r\n{}`],
    ['two requests at once', `${plain()}${start}${host}${end}`],
    ['a head of many bytes', `${start}${host}x-long: ${'x'.repeat(17_000)}\r\n${end}`],
  ])('the own HTTP/1.1 server leaves %s to node:http', async (_, request) => {
    expect(await first(request)).toBe('node:http')
  })

  it.each([
    ['two lengths', `${start}${host}content-length: 2\r\n${end}`],
    ['a length and chunks', `${start}${host}transfer-encoding: chunked\r\n${end}`],
    ['a length behind a blank that is none', `${start}${host}content-length:\xa02\r\n\r\n{}`],
    ['a signed length', `${start}${host}content-length: +2\r\n\r\n{}`],
    ['a blank before the colon', `${start}${host}x-a : b\r\n${end}`],
    ['a folded line', `${start}${host}x-a: b\r\n c\r\n${end}`],
    ['a bare line feed', `${start}${host}x-a: b\nx-c: d\r\n${end}`],
    ['a NUL', `${start}${host}x-a: b\0\r\n${end}`],
  ])('the own HTTP/1.1 server never serves %s', async (_, request) => {
    expect((await connect().send(request).answer()).body).not.toMatch(/^plain/)
  })

  it.each([
    ['a body in chunks', 'chunked', '3\r\nabc\r\n1;a="b"\r\nd\r\n0\r\n\r\n', 'plain 4'],
    ['chunks in capitals', 'CHUNKED', '00A\r\n0123456789\r\n0\r\nx-trailer: 1\r\n\r\n', 'plain 10'],
    ['no chunk but the last', 'chunked', '0\r\n\r\n', 'plain 0'],
  ])('the own HTTP/1.1 server accepts %s', async (_, encoding, body, answer) => {
    expect(await first(`${start}${host}transfer-encoding: ${encoding}\r\nconnection: close\r\n\r\n${body}`)).toBe(
      answer,
    )
  })

  it('the own HTTP/1.1 server serves the request behind the last chunk after the response', async () => {
    const chunks = `${start}${host}transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`
    const client = connect().send(chunks + chunks + plain('{ }'))
    const bodies = [(await client.answer()).body, (await client.answer()).body, (await client.answer()).body]
    expect(bodies).toEqual(['plain 2', 'plain 2', 'plain 3'])
  })

  it('the own HTTP/1.1 server accepts a head in pieces, with the body behind it', async () => {
    const client = connect()
    for (const piece of [start.slice(0, 3), start.slice(3), host, end.slice(0, 5), end.slice(5)]) {
      client.send(piece)
      await turns()
    }
    expect((await client.answer()).body).toBe('plain 2')
  })

  it('the own HTTP/1.1 server leaves a connection that stops being plain to node:http, request by request from there', async () => {
    const client = connect()
    const answers = []
    for (const request of [plain(), plain(), `GET / HTTP/1.1\r\n${host}\r\n`, plain()])
      answers.push((await client.send(request).answer()).body)
    expect(answers).toEqual(['plain 2', 'plain 2', 'node:http', 'node:http'])
  })

  it('the own HTTP/1.1 server finds the end of bodies and heads for any split into packets', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat(3_000), { minLength: 1, maxLength: 4 }),
        fc.array(fc.integer({ min: 1, max: 2_000 }), { minLength: 1, maxLength: 6 }),
        async (sizes, offsets) => {
          const client = connect()
          const text = sizes.map((size) => plain('x'.repeat(size))).join('')
          for (let at = 0, i = 0; at < text.length; i++) {
            const size = offsets[i % offsets.length]!
            client.send(text.slice(at, at + size))
            at += size
            await turns(1)
          }
          for (const size of sizes)
            expect((await client.answer()).body).toMatch(new RegExp(`^(?:plain ${size}|node:http)$`))
          await client.close()
        },
      ),
      { numRuns: 40 },
    )
  })

  it('the own HTTP/1.1 server answers pipelined requests in order, one at a time', async () => {
    const { promise: sent, resolve: release } = Promise.withResolvers<void>()
    let running = 0
    let max = 0
    serve = async (request) => {
      max = Math.max(max, ++running)
      const size = (await request.collect(1_000))!.length
      await sent
      running--
      return new Response(String(size))
    }
    const client = connect().send(plain('{}'))
    await until(() => running === 1)
    client.send(plain('{ }').slice(0, 20))
    await turns(2)
    client.send(plain('{ }').slice(20))
    await turns()
    release()
    const bodies = [(await client.answer()).body, (await client.answer()).body]
    expect({ bodies, max }).toEqual({ bodies: ['2', '3'], max: 1 })
  })
})

describe('a connection of the own HTTP/1.1 server', () => {
  it('a connection of the own HTTP/1.1 server skips the rest of a body that was refused unread', async () => {
    serve = async () => new Response('no', { status: 401 })
    const client = connect().send(plain('x'.repeat(1_000), 200_000))
    expect((await client.answer()).head).toContain('401')
    serve = measured
    client.send('x'.repeat(199_000)).send(plain('{   }'))
    expect((await client.answer()).body).toBe('plain 5')
  })

  it('ends behind the answer when too much of a refused body is still to come', async () => {
    serve = async () => new Response('no', { status: 401 })
    const client = connect().send(plain('x', 10_000_000))
    const { head, body } = await client.answer()
    expect(head).toContain('connection: close')
    expect(body).toBe('no')
    client.send('x'.repeat(500_000))
    await until(() => client.closed)
    expect(client.pending).toBe('')
  })

  it('a connection of the own HTTP/1.1 server reports a client that disconnected in its body to the handler, once', async () => {
    const seen: unknown[] = []
    let begun = false
    serve = async (request) => {
      begun = true
      request.signal.addEventListener('abort', () => seen.push('gone'))
      await Promise.resolve(request.collect(1_000)).catch((error: Error) => seen.push(error.message))
      return new Response('late')
    }
    const client = connect().send(plain('{', 100))
    await until(() => begun)
    await client.close()
    await until(() => seen.length === 2)
    expect(seen).toEqual(['gone', 'the client closed the connection before its request was complete'])
    expect(lines).toEqual([])
  })

  it('a connection of the own HTTP/1.1 server reports a client that disconnected before its response to the handler', async () => {
    let begun = false
    let gone = false
    serve = (request) => {
      begun = true
      return new Promise((resolve) =>
        request.signal.addEventListener('abort', () => resolve(new Response(String((gone = true))))),
      )
    }
    const client = connect().send(plain())
    await until(() => begun)
    await client.close()
    await until(() => gone)
  })

  it('a connection of the own HTTP/1.1 server is closed if no byte arrives, and if no further byte arrives', async () => {
    const silent = connect(impatient)
    const served = connect(impatient).send(plain())
    expect((await served.answer()).body).toBe('plain 2')
    await until(() => silent.closed)
    await until(() => served.closed)
    expect(late).toEqual([])
  })

  it('a connection of the own HTTP/1.1 server gets 408 if its request does not arrive in time', async () => {
    const half = connect(impatient).send(start)
    const body = connect(impatient).send(plain('{', 100))
    expect((await half.answer()).head).toContain('408')
    expect((await body.answer()).head).toContain('408')
    await until(() => half.closed && body.closed)
  })

  it('a connection of the own HTTP/1.1 server may wait for its answer longer than for its request', async () => {
    const { promise: later, resolve: answer } = Promise.withResolvers<void>()
    serve = async (request) => {
      const bytes = await request.collect(100)
      // A later connection that never sent its body has reached the limit by then.
      if (bytes!.length === 3) await connect(impatient).send(plain('{', 2)).answer()
      answer()
      return new Response(`plain ${bytes!.length}`)
    }
    const client = connect(impatient).send(plain('{ }'))
    await later
    expect((await client.answer()).body).toBe('plain 3')
    expect(late).toHaveLength(1)
  })

  it('a connection of the own HTTP/1.1 server is given as long for a second head as for a first', async () => {
    const patient = createServer()
    serverOf({ headMs: 150, requestMs: 600_000, idleMs: 600_000 }).takeConnections(patient)
    await once(patient.listen(0, '127.0.0.1'), 'listening')
    const client = connect(patient).send(plain())
    await client.answer()
    expect((await client.send(start).answer()).head).toContain('408')
    patient.close()
  })

  it('a connection of the own HTTP/1.1 server receives a handler’s stream as it is written, and nothing of it after an error', async () => {
    let feed!: ReadableStreamDefaultController<Uint8Array>
    serve = async () => new Response(new ReadableStream({ start: (controller) => void (feed = controller) }))
    const client = connect().send(plain())
    await until(() => client.pending.includes('\r\n\r\n'))
    feed.enqueue(Buffer.from('one'))
    await until(() => client.pending.includes('3\r\none\r\n'))
    feed.error(new Error('broke'))
    await until(() => client.closed)
    expect(client.pending).not.toContain('\r\n0\r\n')
  })

  it('a connection of the own HTTP/1.1 server cancels a stream whose client disconnected', async () => {
    let pulls = 0
    let cancelled = false
    serve = async () =>
      new Response(
        new ReadableStream({
          pull: async (controller) => {
            pulls++
            await turns(1)
            controller.enqueue(Buffer.alloc(65_536))
          },
          cancel: () => void (cancelled = true),
        }),
      )
    const client = connect().send(plain())
    client.socket.pause()
    await until(() => pulls > 2)
    await client.close()
    await until(() => cancelled)
  })

  it('a connection of the own HTTP/1.1 server that fails is cut and logged, and the next one is served', async () => {
    serve = () => Promise.reject(new Error('bug'))
    const client = connect().send(plain())
    await until(() => client.closed)
    expect(lines.join()).toContain('answer_failed')
    serve = measured
    expect(await first(plain())).toBe('plain 2')
  })

  it('a connection of the own HTTP/1.1 server is never sent a header that would end its line', async () => {
    serve = async () =>
      ({
        status: 200,
        body: null,
        headers: {
          has: () => false,
          forEach: (tell: (value: string, name: string) => void) => tell('a\r\nx-evil: 1', 'x-a'),
        },
      }) as unknown as Response
    const client = connect().send(plain())
    await until(() => client.closed)
    expect(client.pending).toBe('')
  })
})

describe('a connection that sends a body in chunks', () => {
  it('a connection that sends a body in chunks yields to others after 256 KiB, however much has arrived', async () => {
    const reads = Array.from({ length: 33 }, () => Buffer.from('1\r\na\r\n'.repeat(10_000)))
    reads.push(Buffer.from('0\r\n\r\n'))
    const socket = Object.assign(new EventEmitter(), {
      paused: false,
      pause: () => (socket.paused = true),
      resume: () => (socket.paused = false),
    }) as EventEmitter & { paused: boolean; pause(): boolean; resume(): boolean }
    let at = 0
    /** Reads as libuv does: until it is told to stop. Returns the number of bytes. */
    const readOn = (): number => {
      let bytes = 0
      while (!socket.paused && at < reads.length) {
        const read = reads[at++]!
        bytes += read.length
        socket.emit('data', read)
      }
      return bytes
    }
    const collected = new Promise<Uint8Array | null>((resolve) => {
      const serves = (request: ServerRequest): void => resolve(request.collect(10_000_000))
      const timeouts = { headMs: 600_000, requestMs: 600_000, idleMs: 600_000 }
      void new ServerConnection({
        socket: socket as unknown as Socket,
        timeouts,
        serve: serves,
        serves: () => true,
        leaveToNodeHttp: () => {},
        refuse: () => {},
        closed: () => {},
      })
    })
    socket.emit('data', Buffer.from(`${start}${host}transfer-encoding: chunked\r\n\r\n`))
    while (at < reads.length) {
      expect(readOn()).toBeLessThan(256 * 1024 + 65_536)
      await turns(1)
    }
    expect(await collected).toHaveLength(330_000)
    socket.emit('close')
  })
})

describe('the body of a plain request', () => {
  const headOf = (length: number) => parseRequestHead(`${start}host: a\r\ncontent-length: ${length}`)!

  it('the body of a plain request equals the sent bytes for any size of the reads, and copied reads are freed', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 70_000 }), { minLength: 2, maxLength: 8 }), async (sizes) => {
        const reads = sizes.map((size, i) => Buffer.alloc(size, 97 + i))
        const sent = Buffer.concat(reads)
        const request = new ServerRequest(headOf(sent.length))
        for (const [i, read] of reads.entries()) expect(request.take(read)).toBe(sizes[i])
        expect(sent.equals((await request.collect(1_000_000))!)).toBe(true)
        for (const [i, read] of reads.entries()) expect(read.buffer.byteLength).toBe(sizes[i]! < 16_384 ? sizes[i] : 0)
      }),
    )
  })

  it('the body of a plain request keeps a read that contains other bytes, and one that it holds', async () => {
    const request = new ServerRequest(headOf(40_000))
    const behind = Buffer.concat([Buffer.alloc(20_000, 'b'), Buffer.from('POST /')])
    request.take(Buffer.alloc(20_000, 'a'))
    expect(request.take(behind)).toBe(20_000)
    expect(behind.toString('latin1', 20_000)).toBe('POST /')
    const whole = Buffer.alloc(30_000, 'c')
    const other = new ServerRequest(headOf(30_000))
    other.take(whole)
    expect(await other.collect(1_000_000)).toBe(whole)
    expect(whole.length).toBe(30_000)
    other.giveBack()
    expect(whole.length).toBe(30_000)
  })

  it('the body of a plain request is freed on request if it has memory of its own', async () => {
    const request = new ServerRequest(headOf(700_000))
    const kept = Buffer.alloc(100_000, 'a')
    for (let i = 0; i < 7; i++) request.take(Buffer.from(kept))
    const body = await request.collect(1_000_000)
    expect(body!.length).toBe(700_000)
    request.giveBack()
    request.giveBack()
    expect(body!.length).toBe(0)
  })
})

describe('a plain head', () => {
  it('a plain head reads names in any case, and values without the blanks around them', () => {
    const head = parseRequestHead(`${start}HOST: a\r\nX-One:  1 \t\r\ncontent-length: 7`)!
    expect({ url: head.url, length: head.length, close: head.close, one: head.headers.get('x-one') }).toEqual({
      url: '/v1/chat/completions',
      length: 7,
      close: false,
      one: '1',
    })
  })

  it('a plain head is not plain with a header too many', () => {
    const of = (count: number): unknown =>
      parseRequestHead(
        `${start}host: a\r\ncontent-length: 0${Array.from({ length: count - 2 }, (_, i) => `\r\nx-${i}: 1`).join('')}`,
      )
    expect(of(100)).not.toBeNull()
    expect(of(101)).toBeNull()
  })

  it('a plain head is read as node:http reads it', async () => {
    const seen: { url: string; headers: Record<string, unknown> }[] = []
    const reference = createServer((incoming, outgoing) => {
      seen.push({ url: incoming.url!, headers: { ...incoming.headers } })
      outgoing.end('x')
    })
    await once(reference.listen(0, '127.0.0.1'), 'listening')
    const odd = fc.constantFrom(
      ' ',
      '\t',
      ':',
      '\r',
      '\n',
      '\r\n',
      '\0',
      '\x7f',
      '\x80',
      'ÿ',
      'a',
      'Z',
      ',',
      ';',
      '/',
      '?',
      '"',
      '\\',
      '0',
    )
    const word = fc.array(odd, { maxLength: 4 }).map((parts) => parts.join(''))
    const line = fc.oneof(
      fc
        .tuple(fc.constantFrom('X-A', 'accept', 'x-b', 'Cookie', 'connection', 'content-length'), word)
        .map(([name, value]) => `${name}: ${value}`),
      word,
    )
    let compared = 0
    await fc.assert(
      fc.asyncProperty(word, fc.array(line, { maxLength: 4 }), fc.nat(4), async (path, more, at) => {
        const fixed = ['host: a', 'content-length: 0']
        const fields = [...more.slice(0, at), ...fixed, ...more.slice(at)]
        const text = `POST /v1${path} HTTP/1.1\r\n${fields.join('\r\n')}`
        const head = parseRequestHead(text)
        if (head === null) return
        compared++
        seen.length = 0
        const client = new RawClient((reference.address() as AddressInfo).port)
        await client.send(`${text}\r\n\r\n`).answer()
        await client.close()
        const headers: Record<string, string> = {}
        head.headers.forEach((value, name) => (headers[name] = value))
        expect(seen).toEqual([{ url: head.url, headers }])
      }),
      { numRuns: 2_000 },
    )
    reference.close()
    expect(compared).toBeGreaterThan(50)
  })
})
