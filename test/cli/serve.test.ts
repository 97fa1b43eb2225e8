import { once } from 'node:events'
import { connect } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { explainSystemError } from '../../src/platform/node/system-error.ts'
import { SILENCE } from '../kit/fake-answer.ts'
import type { EngineRequest } from '../kit/engine-request.ts'
import { HeldEngine } from '../kit/held-engine.ts'
import { startNodeGateway, type NodeGateway } from '../kit/node-gateway.ts'
import { token } from '../kit/sse.ts'
import { turns, until } from '../wait.ts'

const never = new AbortController().signal

/** Gets no response. */
const isSilent = ({ text }: EngineRequest): boolean => text.includes('"user":"silent"')

let engine: HeldEngine
let gateway: NodeGateway

beforeEach(async () => {
  engine = await HeldEngine.open({
    opening: token('hello'),
    routes: (held) => ({
      'POST /v1/chat/completions': (request) => (isSilent(request) ? SILENCE : held.hold(request)),
    }),
  })
  gateway = await start()
})

afterEach(async () => {
  engine.finish()
  await gateway.stop(AbortSignal.abort())
  await engine.close()
})

function start(port = 0): Promise<NodeGateway> {
  const pools = [{ model: 'm', engines: [{ id: 'a', url: engine.url, key: 'hush-engine' }] }]
  return startNodeGateway(
    {
      keys: [{ name: 'k', secret: 'hush-key' }],
      clusters: [{ id: 'one', pools }],
      limits: { drain_ms: 60_000 },
      log: { level: 'debug' },
    },
    { port },
  )
}

const chat = (prompt = 'hi', signal: AbortSignal = never) =>
  fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: 'Bearer hush-key', 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', stream: true, messages: [{ role: 'user', content: prompt }] }),
    signal,
  })

const requests = () => gateway.lines.filter(({ event }) => event === 'request')

describe('a gateway that is stopped', () => {
  it('a gateway that is stopped lets a running stream finish, and accepts no new requests', async () => {
    const response = await chat()
    const stopping = gateway.stop(never)
    // An accepted connection gets a 503; a later one is refused.
    expect((await chat().catch(() => null))?.status ?? 503).toBe(503)
    while (
      !(await chat().then(
        () => false,
        () => true,
      ))
    );
    engine.finish()
    expect(await response.text()).toMatch(/hello[^]*world[^]*\[DONE\]/)
    expect(await stopping).toEqual({ timedOut: false })
  })

  it('a gateway that is stopped refuses on connections that are still open, with a word about trying again', async () => {
    const response = await chat()
    // A keep-alive socket with half of a next request before the drain started.
    const { hostname, port } = new URL(gateway.url)
    const socket = connect(Number(port), hostname)
    let received = ''
    socket.on('data', (data) => (received += data.toString()))
    socket.write('GET /health HTTP/1.1\r\nhost: h\r\n\r\nPOST /v1/chat/completions HTTP/1.1\r\nhost: h\r\n')
    await until(() => received.endsWith('}'))
    received = ''
    const stopping = gateway.stop(never)
    socket.write('authorization: Bearer hush-key\r\ncontent-length: 2\r\n\r\n{}')
    await until(() => received.includes('draining'))
    expect(received).toMatch(/^HTTP\/1\.1 503 /)
    engine.finish()
    await response.text()
    socket.destroy()
    expect(await stopping).toEqual({ timedOut: false })
  })

  it('a gateway that is stopped answers a client that has just connected and sent nothing', async () => {
    const { hostname, port } = new URL(gateway.url)
    const socket = connect(Number(port), hostname)
    let received = ''
    socket.on('data', (data) => (received += data.toString()))
    await once(socket, 'connect')
    // Its connection is accepted by now, because a later one was answered.
    await (await fetch(`${gateway.url}/health`)).text()
    const stopping = gateway.stop(never)
    socket.write(
      'POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\nauthorization: Bearer hush-key\r\ncontent-length: 2\r\n\r\n{}',
    )
    await once(socket, 'close')
    expect(received).toMatch(/^HTTP\/1\.1 503 [^]*connection: close\r\n[^]*draining/)
    expect(await stopping).toEqual({ timedOut: false })
  })

  it('a gateway that is stopped answers all clients that wait for their first response', async () => {
    const { hostname, port } = new URL(gateway.url)
    const sockets = Array.from({ length: 40 }, () => connect(Number(port), hostname))
    const received = sockets.map(() => '')
    for (const [at, socket] of sockets.entries()) {
      socket.on('data', (data) => (received[at] += data.toString())).on('error', () => {})
      socket.write(
        'POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\nauthorization: Bearer hush-key\r\ncontent-length: 2\r\n\r\n{}',
      )
    }
    const closed = Promise.all(sockets.map((socket) => once(socket, 'close')))
    // The kernel has accepted them all; this process accepts one per turn.
    const comeBy = performance.now() + 50
    while (performance.now() < comeBy);
    const stopping = gateway.stop(never)
    await closed
    expect(received.filter((text) => !text.startsWith('HTTP/1.1 503 '))).toEqual([])
    expect(await stopping).toEqual({ timedOut: false })
  })

  it('a gateway that is stopped waits only briefly for a client that stays silent', async () => {
    const { hostname, port } = new URL(gateway.url)
    const socket = connect(Number(port), hostname)
    await once(socket, 'connect')
    await (await fetch(`${gateway.url}/health`)).text()
    socket.resume()
    await Promise.all([
      once(socket, 'close'),
      gateway.stop(never).then((drained) => expect(drained).toEqual({ timedOut: false })),
    ])
  })

  it('a gateway that is stopped cuts an endless stream at the second signal, and frees the engine', async () => {
    const response = await chat()
    const now = new AbortController()
    const stopping = gateway.stop(now.signal)
    now.abort()
    expect(await stopping).toEqual({ timedOut: true })
    await expect(response.text()).rejects.toThrow()
    await until(() => engine.aborted === 1)
  })

  // A host name in capitals is handled by node:http, any other by the own parser.
  it.each(['gateway.test', 'Gateway.Test'])(
    'a gateway that is stopped says of those it cut that it was ending, and not that their clients had gone, asked as %s',
    async (host) => {
      const { hostname, port } = new URL(gateway.url)
      const ask = (fields: object, length?: number) => {
        const body = JSON.stringify({
          model: 'm',
          stream: true,
          messages: [{ role: 'user', content: 'hi' }],
          ...fields,
        })
        const socket = connect(Number(port), hostname).on('error', () => {})
        socket.write(
          `POST /v1/chat/completions HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer hush-key\r\ncontent-type: application/json\r\ncontent-length: ${length ?? body.length}\r\n\r\n${body}`,
        )
        return socket
      }
      const left = ask({ user: 'left' })
      await Promise.race([once(left, 'data'), once(left, 'close')])
      left.destroy()
      await until(() => requests().length === 1)
      const begun = ask({})
      await once(begun, 'data')
      ask({ user: 'silent' })
      await until(() => engine.engine.posts.filter(isSilent).length === 1)
      await once(ask({}, 10_000), 'connect')
      await turns()
      const now = new AbortController()
      const stopping = gateway.stop(now.signal)
      now.abort()
      await stopping
      await until(() => requests().length === 4)
      expect(
        requests()
          .map(({ status, result, reason }) => [status, result ?? null, reason ?? null])
          .sort(),
      ).toEqual([
        [200, 'abandoned', 'draining'],
        [200, 'client_gone', null],
        [503, null, 'draining'],
        [503, 'abandoned', 'draining'],
      ])
      expect(JSON.stringify(gateway.lines)).not.toContain('request_failed')
    },
  )

  it('a gateway that is stopped stops at once if nothing runs, even with open client connections', async () => {
    await (await fetch(`${gateway.url}/health`)).text()
    expect(await gateway.stop(never)).toEqual({ timedOut: false })
  })
})

describe('a gateway on a port', () => {
  it('a gateway on a port reports a port in use in one line with a next step', async () => {
    const error: unknown = await start(Number(new URL(gateway.url).port)).catch((reason: unknown) => reason)
    expect(explainSystemError(error)).toMatch(/^Another process listens on 127\.0\.0\.1:\d+ already\. .*--listen/)
  })

  it.each([
    ['what is not HTTP', 'nonsense\r\n\r\n', 400],
    ['a request without a Host', 'GET /v1/models HTTP/1.1\r\nConnection: close\r\n\r\n', 400],
    ['one to the server as a whole', 'OPTIONS * HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n', 400],
    [
      'one that expects what nobody offers',
      'POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nExpect: 200-maybe\r\nContent-Length: 2\r\n\r\n',
      417,
    ],
  ])('a gateway on a port answers %s in the shape of every other error', async (_what, fields, status) => {
    const { hostname, port } = new URL(gateway.url)
    const socket = connect(Number(port), hostname)
    socket.write(fields)
    let received = ''
    for await (const data of socket) received += String(data)
    expect(received.startsWith(`HTTP/1.1 ${status} `)).toBe(true)
    expect(received).toMatch(/content-type: application\/json/i)
    expect(JSON.parse(/\{.*\}/.exec(received)![0])).toMatchObject({
      error: { type: 'invalid_request_error', code: 'bad_request' },
    })
  })

  it('a gateway on a port answers a check in HTTP/1.0 that names no Host, as load balancers send it', async () => {
    const { hostname, port } = new URL(gateway.url)
    const socket = connect(Number(port), hostname)
    socket.write('GET /ready HTTP/1.0\r\n\r\n')
    let received = ''
    for await (const data of socket) received += String(data)
    expect(received).toMatch(/^HTTP\/1\.1 200 /)
  })

  it('a gateway on a port asks clients to retry elsewhere while it drains', async () => {
    const response = await chat('slow')
    const { hostname, port } = new URL(gateway.url)
    const socket = connect(Number(port), hostname)
    // With half of the next request, because an idle connection would be closed.
    socket.write('GET /ready HTTP/1.1\r\nHost: h\r\n\r\nGET /ready HTTP/1.1\r\n')
    const [first] = (await once(socket, 'data')) as [Buffer]
    expect(String(first)).toMatch(/^HTTP\/1\.1 200 [^]*connection: keep-alive/i)
    const stopped = gateway.stop(never)
    socket.write('Host: h\r\n\r\n')
    let received = ''
    for await (const data of socket) received += String(data)
    expect(received).toMatch(/^HTTP\/1\.1 503 [^]*connection: close/i)
    engine.finish()
    await response.text()
    expect(await stopped).toEqual({ timedOut: false })
  })

  it('a gateway on a port continues with a body that waits for 100 Continue', async () => {
    const { hostname, port } = new URL(gateway.url)
    const socket = connect(Number(port), hostname)
    socket.write(
      'POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: 2\r\n\r\n',
    )
    let received = ''
    for await (const data of socket) {
      if (received === '') socket.write('{}')
      received += String(data)
    }
    expect(received).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 401 /)
  })

  it('a gateway on a port logs neither prompts nor keys at any level, but does log the request', async () => {
    const response = await chat('my deepest hush-prompt')
    engine.finish()
    await response.text()
    await (await fetch(`${gateway.url}/v1/models`, { headers: { authorization: 'Bearer hush-wrong' } })).text()
    await gateway.stop(never)
    const log = JSON.stringify(gateway.lines)
    expect(log).toContain('"path":"/v1/chat/completions"')
    expect(log).not.toContain('hush')
  })
})
