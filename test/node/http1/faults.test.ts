import type { Socket } from 'node:net'
import net from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ask, chunked, openWire, parseRaw, requestText, type Wire, type WireOptions } from './wire.ts'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { turns, until } from '../../wait.ts'

const HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n'
const EVENT = 'data: {"choices":[{"delta":{"content":"x"}}]}\n\n'
const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`

let engine: FakeEngine
let wire: Wire

beforeEach(async () => {
  engine = await FakeEngine.open()
})
afterEach(async () => {
  await wire.close()
  await engine.close()
})

async function open(answer: (socket: Socket) => void, options: WireOptions = {}): Promise<void> {
  engine.routes['*'] = ({ socket }) => answer(socket)
  wire = await openWire(engine, options)
}

const settledOnce = (): Promise<boolean> => until(() => wire.ends.length === 1)

describe('heads that two parsers could read differently are rejected, and nothing of them is forwarded', () => {
  const bad: Record<string, string> = {
    'length and chunked': 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
    'two lengths': 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nokk',
    'a signed length': 'HTTP/1.1 200 OK\r\ncontent-length: +2\r\n\r\nok',
    'an unknown coding': 'HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
    'chunked from HTTP/1.0': 'HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
    'a folded line': 'HTTP/1.1 200 OK\r\nx-a: 1\r\n 2\r\ncontent-length: 2\r\n\r\nok',
    'a blank before the colon': 'HTTP/1.1 200 OK\r\ncontent-length : 2\r\n\r\nok',
    'a control byte': 'HTTP/1.1 200 OK\r\nx-a: \x01\r\ncontent-length: 2\r\n\r\nok',
    'a bare line feed': 'HTTP/1.1 200 OK\nx: y\r\n\r\nok',
    'a head of 50 KB': `HTTP/1.1 200 OK\r\nx-a: ${'a'.repeat(50_000)}\r\n\r\nok`,
    'not HTTP': 'SSH-2.0-OpenSSH\r\n\r\n',
    'interim answers without end': `${'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(200)}HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok`,
    'a switch of protocols': 'HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n',
  }
  it.each(Object.entries(bad))('%s', async (_name, text) => {
    await open((socket) => void socket.write(text, 'latin1'))
    const answer = await ask(wire.port)
    expect(answer).toMatchObject({ whole: true, body: 'malformed' })
    await until(() => engine.sockets.size === 0)
  })
})

describe('a broken stream never looks like a clean end', () => {
  it.each([
    ['reset', (socket: net.Socket) => void socket.resetAndDestroy()],
    ['closed', (socket: net.Socket) => void socket.end()],
  ])('%s between events: one error event, then the end', async (_name, end) => {
    await open((socket) => {
      socket.write(HEAD + chunk(EVENT))
      void turns().then(() => end(socket))
    })
    const answer = await ask(wire.port)
    expect(answer).toMatchObject({ whole: false, body: `${EVENT}data: {"error":"reset"}\n\n` })
    await settledOnce()
    expect(wire.ends[0]).toMatchObject({ end: 'engine_truncated', failure: 'reset' })
  })

  it('closed in the middle of a chunk: the cut alone', async () => {
    await open((socket) => {
      socket.write(HEAD + chunk(EVENT))
      void turns().then(() => socket.end('50\r\ndata: {"half'))
    })
    const answer = await ask(wire.port)
    expect(answer.whole).toBe(false)
    expect(answer.body).not.toContain('error')
    await settledOnce()
  })

  it.each([
    ['in one piece', false],
    ['later', true],
  ])('a clean end without the promised [DONE], %s', async (_name, later) => {
    await open(
      (socket) => {
        socket.write(HEAD + chunk(EVENT) + (later ? '' : '0\r\n\r\n'))
        if (later) void turns().then(() => socket.write('0\r\n\r\n'))
      },
      { checksEnd: true },
    )
    expect(await ask(wire.port)).toMatchObject({ whole: false, body: `${EVENT}data: {"error":"reset"}\n\n` })
    await settledOnce()
    engine.routes['*'] = ({ socket }) =>
      void socket.write(HEAD + chunk(EVENT) + chunk('data: [DO') + chunk('NE]\r\n\r\n') + '0\r\n\r\n')
    expect((await ask(wire.port)).whole).toBe(true)
  })

  it('short of its content-length', async () => {
    await open((socket) => void socket.end('HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nnot so much'))
    expect((await ask(wire.port)).whole).toBe(false)
    await settledOnce()
    expect(wire.ends[0]).toMatchObject({ end: 'engine_truncated' })
  })

  it.each(['zz\r\n', '\n', '5 \r\n', '-1\r\n', '123456789\r\n', '1\r\nab\r\n'])(
    'chunk framing broken by %j',
    async (text) => {
      await open((socket) => void socket.write(HEAD + chunk(EVENT)))
      // In one read with the head, the fault would precede the first byte, and the client would get an error.
      const breakFraming = (): void =>
        [...engine.sockets].forEach((socket) => socket.write(`${text}${chunk(EVENT)}0\r\n\r\n`))
      expect((await ask(wire.port, requestText(), breakFraming)).whole).toBe(false)
      await settledOnce()
      expect(wire.ends[0]).toMatchObject({ end: 'engine_truncated', failure: 'malformed' })
    },
  )

  it('silent for longer than idleMs', async () => {
    await open((socket) => void socket.write(HEAD + chunk(EVENT)), { idleMs: 80 })
    expect((await ask(wire.port)).whole).toBe(false)
    await settledOnce()
    expect(wire.ends[0]).toMatchObject({ end: 'engine_truncated', failure: 'idle_timeout' })
    await until(() => engine.sockets.size === 0)
  })
})

it('the HTTP/1.1 client gives up on an engine that sends no head, or no byte after it, within the limit', async () => {
  await open(() => {}, { firstByteMs: 80 })
  expect((await ask(wire.port)).body).toBe('first_byte_timeout')
  engine.routes['*'] = ({ socket }) => void socket.write(HEAD)
  expect((await ask(wire.port)).body).toBe('first_byte_timeout')
  await until(() => engine.sockets.size === 0)
})

describe('a client that leaves frees its engine', () => {
  it.each([
    ['before the head', () => {}],
    ['after the head, before the first byte', (socket: net.Socket) => void socket.write(HEAD)],
    ['in the middle of the stream', (socket: net.Socket) => void socket.write(HEAD + chunk(EVENT))],
  ])('%s', async (_name, answer) => {
    await open(answer)
    const client = net.connect(wire.port, '127.0.0.1')
    client.on('error', () => {})
    client.write(requestText())
    await until(() => engine.sockets.size === 1)
    await turns()
    client.destroy()
    await until(() => engine.sockets.size === 0)
    expect(wire.ends.every(({ end }) => end === 'client_gone')).toBe(true)
  })
})

it('the HTTP/1.1 client applies backpressure of a slow reader to a fast engine, without loss', async () => {
  const block = `data: ${'x'.repeat(64_000)}\n\n`
  let sent = 0
  await open((socket) => {
    socket.write(HEAD)
    const more = (): void => {
      while (sent < 400) {
        sent++
        if (!socket.write(chunk(block))) return void socket.once('drain', more)
      }
      socket.write('0\r\n\r\n')
    }
    more()
  })
  const client = net.connect(wire.port, '127.0.0.1')
  client.pause()
  client.write(requestText())
  await until(async () => {
    const before = sent
    await turns(50)
    return sent > 0 && sent === before
  })
  expect(sent).toBeLessThan(300)
  let bytes = 0
  client.on('data', (data) => (bytes += data.length))
  client.resume()
  await until(() => bytes > 400 * block.length)
  client.destroy()
  await settledOnce()
  expect(wire.ends[0]).toMatchObject({ end: 'complete', events: 400 })
})

it('the HTTP/1.1 client retries once on a new connection if the engine closed an idle one', async () => {
  const answer = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'
  await open((socket) => void socket.write(answer))
  expect((await ask(wire.port)).body).toBe('ok')
  let closed = 0
  engine.routes['*'] = ({ socket }) => {
    if (closed++ === 0) socket.destroy()
    else socket.write(answer)
  }
  expect((await ask(wire.port)).body).toBe('ok')
})

it('the HTTP/1.1 client answers pipelined requests in order', async () => {
  let count = 0
  await open((socket) => {
    const body = chunked([`data: ${++count}\n\n`])
    setTimeout(() => socket.write(HEAD + body), count === 1 ? 60 : 0)
  })
  const client = net.connect(wire.port, '127.0.0.1')
  client.write(requestText() + requestText() + requestText())
  let raw = ''
  client.on('data', (bytes) => (raw += bytes.toString('latin1')))
  await until(() => (raw.match(/0\r\n\r\n/g) ?? []).length === 3)
  client.destroy()
  expect([...raw.matchAll(/data: (\d)/g)].map((match) => match[1])).toEqual(['1', '2', '3'])
})

it('the HTTP/1.1 client writes comments while the engine is silent, between events only', async () => {
  await open((socket) => void socket.write(HEAD), { early: true, heartbeatMs: 30 })
  /** What the engine sends next, once the client has received this much. */
  const parts: [RegExp, string][] = [
    [/^(: ping\n)+$/, chunk(EVENT)],
    [/\n\n(: ping\n)+$/, '0\r\n\r\n'],
  ]
  const answer = await ask(wire.port, requestText(), (body) => {
    if (parts[0]?.[0].test(body) !== true) return
    const [, part] = parts.shift()!
    engine.sockets.forEach((socket) => socket.write(part))
  })
  expect(answer.whole).toBe(true)
  expect(answer.body).toMatch(/^(: ping\n)+data: .*\n\n(: ping\n)+$/)
  expect(wire.ends[0]).toMatchObject({ end: 'complete', events: 1 })
})

it('the HTTP/1.1 client reports the id of a stored response before the client can read it', async () => {
  const ids: string[] = []
  await open((socket) => void socket.write(HEAD + chunk('data: {"response":{"id":"resp_') + chunk('0a1b"}}\n\n')), {
    onResponseId: (id) => void ids.push(id),
  })
  const client = net.connect(wire.port, '127.0.0.1')
  client.write(requestText())
  let read = ''
  for await (const bytes of client) {
    read += (bytes as Buffer).toString('latin1')
    if (parseRaw(read).body.includes('"resp_0a1b"')) break
  }
  expect(ids).toEqual(['resp_0a1b'])
  engine.routes['*'] = ({ socket }) =>
    void socket.write('HTTP/1.1 200 OK\r\ncontent-length: 24\r\n\r\n{"id":"resp_2","x":12345}')
  await ask(wire.port)
  expect(ids).toEqual(['resp_0a1b', 'resp_2'])
})
