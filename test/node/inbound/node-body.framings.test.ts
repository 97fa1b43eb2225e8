/** Ways in which a request can arrive on a connection, and the connection afterwards: equal at both servers. */
import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import { chatBody, servers, jsonAnswer, key, useBothServers, requestText } from './both-servers.ts'
import { chunked } from '../http1/wire.ts'
import { turns, until } from '../../wait.ts'

const LIMIT = 65_536

const { both, connect } = useBothServers()

const bodyOf = (request: string): string => request.slice(request.indexOf('\r\n\r\n') + 4)
const pieces = (text: string, size: number): string[] => text.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? []
const EVENT = 'data: {"choices":[{"text":"a"}]}\n\n'
const CHUNKED = 'transfer-encoding: chunked'

describe.each(Object.entries(servers))('a client on the %s server', (_, host) => {
  const ask = (changes: Parameters<typeof requestText>[1] = {}) => requestText(host, changes)

  it('a client may send its body in chunks of any size, with extensions and trailers', async () => {
    const body = chatBody('x'.repeat(5_000))
    const head = ask({ body: '', framing: CHUNKED })
    const client = connect().send(head + chunked(pieces(body, 700), ';a=b', 'x-trailer: 1\r\n'))
    expect((await client.answer()).head).toContain('200 ok')
    expect(bodyOf(both.posts[0]!)).toBe(body)
    expect(both.posts[0]).toMatch(/content-length: \d+/)
    expect(both.posts[0]).not.toMatch(/transfer-encoding/)
  })

  it('a client may send its body byte by byte', async () => {
    const body = chatBody('é')
    const bytes = Buffer.from(body)
    const client = connect().send(ask({ body: '', framing: `content-length: ${bytes.length}` }))
    for (const byte of bytes) {
      client.send(Uint8Array.of(byte))
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect((await client.answer()).head).toContain('200 ok')
    expect(bodyOf(both.posts[0]!)).toBe(bytes.toString('latin1'))
  })

  it('a client gets 100 Continue if it expects it', async () => {
    const body = chatBody()
    const client = connect().send(ask({ body: '', framing: `expect: 100-continue\r\ncontent-length: ${body.length}` }))
    expect(await client.interim()).toMatch(/^HTTP\/1\.1 100 /)
    expect(both.posts).toHaveLength(0)
    client.send(body)
    expect((await client.answer()).head).toContain('200 ok')
    expect(both.posts[0]).not.toMatch(/expect/)
  })

  it('a client that disconnects in its body reaches no engine, and is distinguished from a failure of the gateway', async () => {
    const client = connect().send(ask({ body: chatBody().slice(0, 20), framing: 'content-length: 500' }))
    await once(client.socket, 'connect')
    await turns()
    await client.close()
    await until(() => both.lines.some(({ event }) => event === 'request'))
    expect(both.lines.at(-1)).toMatchObject({ event: 'request', status: 499, reason: 'client_gone' })
    expect(both.posts).toHaveLength(0)
  })

  it('a client that leaves while its engine thinks frees the engine', async () => {
    let closed = false
    both.answer = (socket) => void socket.on('close', () => (closed = true))
    const client = connect().send(ask())
    await until(() => both.posts.length === 1)
    await client.close()
    await until(() => closed)
  })

  it('a client gets its refusal though it still sends, and never a second answer', async () => {
    const client = connect().send(ask({ body: '', framing: CHUNKED }))
    const piece = `4000\r\n${' '.repeat(0x4000)}\r\n`
    for (let sent = 0; sent <= LIMIT; sent += 0x4000) client.send(piece)
    const answer = await client.answer()
    expect(answer.head).toContain('413')
    expect(JSON.parse(answer.body)).toMatchObject({ error: { code: 'body_too_large' } })
    // Then the connection may continue or end. It must not read the rest of the body as a request.
    for (let more = 0; more < 10; more++) client.send(piece)
    client.send('0\r\n\r\n').send(ask())
    const next = await client.answer()
    if (next.head !== '') expect(next.head).toContain('200 ok')
    expect(both.posts.length).toBeLessThan(2)
  })

  it('a client with a too long declared body is rejected before it sends it', async () => {
    const client = connect().send(ask({ body: '', framing: 'content-length: 100000' }))
    const answer = await client.answer()
    expect(answer.head).toContain('413')
    client.send(' '.repeat(100_000)).send(ask())
    const next = await client.answer()
    if (next.head !== '') expect(next.head).toContain('200 ok')
  })

  it('without a key is refused unread, and may go on with its key on the same connection', async () => {
    const body = chatBody('x'.repeat(30_000))
    const client = connect().send(ask({ headers: '', body }) + ask())
    expect((await client.answer()).head).toContain('401')
    expect((await client.answer()).head).toContain('200 ok')
    expect(both.posts).toHaveLength(1)
  })

  it('a client that sends three requests at once gets responses in order', async () => {
    let count = 0
    both.answer = (socket) => {
      const body = `{"n":${++count}}`
      setTimeout(() => socket.write(jsonAnswer(body)), count === 1 ? 60 : 0)
    }
    const client = connect().send([1, 2, 3].map((n) => ask({ body: chatBody(String(n)) })).join(''))
    const order = []
    for (let n = 0; n < 3; n++) order.push(JSON.parse((await client.answer()).body).n)
    expect(order).toHaveLength(3)
    // Requests to engines are sent at once; the order of their responses does not affect the order of ours.
    const sent = both.posts.map((request) => JSON.parse(bodyOf(request)).messages[0].content)
    expect(order).toEqual([1, 2, 3].map((n) => sent.indexOf(String(n)) + 1))
  })

  it('a client that leaves while its second question waits for the first frees both engines', async () => {
    let open = 0
    both.answer = (socket) => {
      open++
      socket.on('close', () => open--)
      socket.write('HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n')
      socket.write(chunked([EVENT]).slice(0, -'0\r\n\r\n'.length))
    }
    const body = chatBody('x', { stream: true })
    const client = connect().send(ask({ body }) + ask({ body }))
    await until(() => open === 2 && client.pending.includes(EVENT))
    await client.close()
    await until(() => open === 0)
  })

  it('of HTTP/1.0 gets no chunks, and the end of the connection as the end', async () => {
    both.answer = (socket) =>
      void socket.write(
        `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n${CHUNKED}\r\n\r\n${chunked([EVENT, 'data: [DONE]\n\n'])}`,
      )
    const client = connect().send(ask({ version: '1.0', body: chatBody('x', { stream: true }) }))
    const answer = await client.answer()
    expect(answer.head).not.toContain('chunked')
    expect(answer.body).toBe(`${EVENT}data: [DONE]\n\n`)
    expect(client.closed).toBe(true)
  })

  it('a client of HTTP/1.0 gets a refusal with its length', async () => {
    const answer = await connect()
      .send(ask({ version: '1.0', headers: '' }))
      .answer()
    expect(answer).toMatchObject({ whole: true, head: expect.stringContaining('401') })
  })

  it('a client with two keys counts as one without', async () => {
    const client = connect().send(ask({ headers: `${key}authorization: Bearer other\r\n` }))
    expect((await client.answer()).head).toContain('401')
  })

  it('a client gets an answer of ours on a connection it can use again', async () => {
    const client = connect()
    for (let n = 0; n < 3; n++) {
      client.send(ask({ body: '{' }))
      expect((await client.answer()).head).toContain('400')
      client.send(ask())
      expect((await client.answer()).head).toContain('200 ok')
    }
    expect(client.closed).toBe(false)
  })
})
