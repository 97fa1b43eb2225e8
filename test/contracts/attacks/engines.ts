/** Engines with invalid responses: no part of them reaches a client, and the next engine serves the request. */
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { beforeEach, expect, it } from 'vitest'
import {
  chat,
  HOSTILE_CASES,
  hostileModel,
  mixedModel,
  post,
  wellAnswered,
  type AttackTable,
  type AttackWorld,
} from './attack-fixture.ts'

const EVIL = 'EVIL'
const OK = 'HTTP/1.1 200 OK\r\n'
const JSON_TYPE = 'content-type: application/json\r\n'

const text =
  (raw: string) =>
  (socket: Socket): void =>
    void socket.write(raw, 'latin1')

/** More than any allowed head; a reader that accepts all of it sees the connection end. */
const ENDLESS_BYTES = 4 * 2 ** 20

const endless =
  (begin: string, more: string) =>
  (socket: Socket): void => {
    let left = ENDLESS_BYTES
    socket.write(begin, 'latin1')
    const write = (): void => {
      if (socket.destroyed) return
      left -= more.length
      if (left < 0) socket.destroy()
      else socket.write(more, 'latin1', () => setImmediate(write))
    }
    write()
  }

const withStatus = (line: string): ((socket: Socket) => void) =>
  text(`HTTP/1.1 ${line}\r\n${JSON_TYPE}content-length: 4\r\n\r\n${EVIL}`)

/** Invalid heads. */
const HEADS: Readonly<Record<string, (socket: Socket) => void>> = {
  'a header line without end': endless(`${OK}x-a: `, EVIL.repeat(4_096)),
  'headers without end': endless(OK, `x-a: ${EVIL}\r\n`.repeat(500)),
  'a status line without end': endless('HTTP/1.1 200 ', EVIL.repeat(4_096)),
  'interim answers without end': endless('', 'HTTP/1.1 103 Early Hints\r\nx-a: b\r\n\r\n'.repeat(2_000)),
  'a switch of protocols': text(`HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n${EVIL}`),
  'two lengths': text(`${OK}content-length: 4\r\ncontent-length: 2\r\n\r\n${EVIL}`),
  'a length and chunks': text(`${OK}content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n4\r\n${EVIL}\r\n0\r\n\r\n`),
  'a signed length': text(`${OK}content-length: +4\r\n\r\n${EVIL}`),
  'a length that is no number': text(`${OK}content-length: four\r\n\r\n${EVIL}`),
  'compressed chunks': text(`${OK}transfer-encoding: gzip, chunked\r\n\r\n4\r\n${EVIL}\r\n0\r\n\r\n`),
  'a folded header': text(`${OK}x-a: b\r\n ${EVIL}\r\ncontent-length: 4\r\n\r\n${EVIL}`),
  'NUL in a header': text(`${OK}x-a: ${EVIL}\0\r\ncontent-length: 4\r\n\r\n${EVIL}`),
  'a lone CR in a header': text(`${OK}x-a: b\rx-b: c\r\ncontent-length: 4\r\n\r\n${EVIL}`),
  'a blank before the colon': text(`${OK}content-length : 4\r\n\r\n${EVIL}`),
  'HTTP/0.9': text(`${EVIL}\r\n\r\n`),
  'HTTP/2': text(
    '\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64\x00\x04\x00\x10\x00\x00\x00\x06\x00\x00\x40\x00\r\n\r\n',
  ),
  'another protocol': text('SSH-2.0-OpenSSH_9.9\r\n\r\n'),
  'HTTP/3.7': text(`HTTP/3.7 200 OK\r\ncontent-length: 4\r\n\r\n${EVIL}`),
  'status 99': withStatus('99 Low'),
  'status 000': withStatus('000 None'),
  'status 600': withStatus('600 High'),
  'status 999': withStatus('999 High'),
  'a status of letters': withStatus('OK 200'),
}

/** workerd reads these as chunked. */
const READ_BY_WORKERD: ReadonlySet<string> = new Set(['a length and chunks', 'compressed chunks'])

/** Valid HTTP that an engine has no reason to send. */
const ANSWERS: Readonly<Record<string, (socket: Socket) => void>> = {
  'status 401': withStatus('401 Unauthorized'),
  'status 407': withStatus('407 Proxy Authentication Required'),
  'status 500': withStatus('500 Internal Server Error'),
  'status 502': withStatus('502 Bad Gateway'),
  'status 300': withStatus('300 Multiple Choices'),
}

const FORGED: readonly string[] = [
  'set-cookie',
  'location',
  'content-location',
  'server',
  'alt-svc',
  'strict-transport-security',
  'access-control-allow-origin',
  'access-control-allow-credentials',
  'access-control-expose-headers',
  'x-request-id',
  'x-firstlight-engine',
  'x-firstlight-policy',
  'x-firstlight-cluster',
  'x-firstlight-decision',
  'server-timing',
  'via',
  'proxy-authenticate',
  'x-hop',
]

/** What breaks the framing of a body after its first event. */
const BROKEN_FRAMINGS: Readonly<Record<string, (socket: Socket) => void>> = {
  'a chunk size that is no number': text(`zz\r\n${EVIL}\r\n0\r\n\r\n`),
  'a negative chunk size': text(`-4\r\n${EVIL}\r\n0\r\n\r\n`),
  'a chunk size beyond all memory': text(`ffffffffffffffffff\r\n${EVIL}\r\n0\r\n\r\n`),
  'a chunk extension without end': endless('4;', 'x'.repeat(16_384)),
  'a trailer without end': endless('0\r\nx-a: ', 'x'.repeat(16_384)),
}

const firstEvent = 'data: {"choices":[{"delta":{"content":"x"}}]}\n\n'
/** Head and first chunk of a stream. */
const streamBegun = text(
  `${OK}content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n${firstEvent.length.toString(16)}\r\n${firstEvent}\r\n`,
)

export function engines(world: () => AttackWorld, { isWorker }: AttackTable): void {
  let turn = -1
  beforeEach(() => {
    turn += 1
    if (turn >= HOSTILE_CASES) throw new Error(`raise HOSTILE_CASES (${HOSTILE_CASES}): this is one case more`)
  })

  const ask = async (
    model: string,
    more: object = {},
    begun = (): void => {},
  ): Promise<{ status: number; headers: Headers; body: string; isTruncated: boolean }> => {
    const response = await post(world(), '/v1/chat/completions', chat(more, model))
    begun()
    let body = ''
    try {
      for await (const bytes of response.body ?? []) body += Buffer.from(bytes as Uint8Array).toString('latin1')
      return { status: response.status, headers: response.headers, body, isTruncated: false }
    } catch {
      return { status: response.status, headers: response.headers, body, isTruncated: true }
    }
  }

  for (const [name, respond] of [...Object.entries(HEADS), ...Object.entries(ANSWERS)]) {
    const test = isWorker && READ_BY_WORKERD.has(name) ? it.skip : it
    test(`${name} is a failure of the engine, and the next one serves`, async () => {
      const { hostile } = world()
      hostile.respond = respond
      const alone = await ask(hostileModel(turn))
      // A Worker sees an invalid HTTP response as a lost connection.
      expect(isWorker ? [502, 503, 504] : [502, 504]).toContain(alone.status)
      expect(JSON.parse(alone.body)).toMatchObject({ error: { type: 'server_error' } })
      expect(alone.body).not.toContain(EVIL)
      expect(JSON.stringify([...alone.headers])).not.toContain(EVIL)
      hostile.calls.length = 0
      for (let at = 0; at < 2; at++) {
        const { status, body } = await ask(mixedModel(turn))
        expect([status, body]).toEqual([200, expect.stringContaining('WELL')])
      }
      expect(hostile.calls.length).toBeGreaterThan(0)
    })
  }

  it.each([301, 302, 303, 307, 308])('a redirect (%i) is not followed, and not shown', async (status) => {
    const { hostile, engine } = world()
    engine.calls.length = 0
    hostile.respond = text(
      `HTTP/1.1 ${status} Moved\r\nlocation: ${engine.url}/v1/chat/completions\r\ncontent-length: 0\r\n\r\n`,
    )
    const answer = await ask(hostileModel(turn))
    expect(answer.status).toBe(502)
    expect(answer.headers.get('location')).toBeNull()
    expect(answer.body).not.toContain('127.0.0.1')
    expect(engine.calls).toEqual([])
  })

  // workerd detects a client disconnect only when it writes to the client, so only the time limit ends this.
  it('a whole answer that its client has left is broken off, at the latest by answer_ms', async () => {
    const client = new AbortController()
    const requested = Promise.withResolvers<Socket>()
    world().hostile.respond = (socket) => requested.resolve(socket)
    const answer = post(world(), '/v1/chat/completions', chat({}, hostileModel(turn)), {}, client.signal)
    const socket = await requested.promise
    const freed = once(socket, 'close')
    client.abort()
    await expect(answer).rejects.toThrow()
    await freed
  })

  it('headers that speak for the gateway are dropped or replaced', async () => {
    const lines = FORGED.map((name) => `${name}: forged\r\n`).join('')
    world().hostile.respond = text(`${OK}${JSON_TYPE}connection: x-hop\r\n${lines}content-length: 2\r\n\r\n{}`)
    const { status, headers, body } = await ask(hostileModel(turn))
    expect([status, body]).toEqual([200, '{}'])
    expect([...headers].filter(([, value]) => value.includes('forged'))).toEqual([])
    expect(headers.get('x-firstlight-engine')).toBe(`ill-${turn}`)
    expect(headers.get('x-request-id')).toMatch(/^[\w.:=-]{1,128}$/)
  })

  it.each(Object.entries(BROKEN_FRAMINGS))(
    '%s ends a stream with a cut, and never as if it were whole',
    async (_name, breakFraming) => {
      const begun = Promise.withResolvers<void>()
      world().hostile.respond = (socket) => {
        streamBegun(socket)
        void begun.promise.then(() => breakFraming(socket))
      }
      const { status, body, isTruncated } = await ask(hostileModel(turn), { stream: true }, begun.resolve)
      expect(status).toBe(200)
      expect(body).not.toContain(EVIL)
      expect(isTruncated || body.includes('engine_stream_truncated')).toBe(true)
      expect(body).not.toContain('[DONE]')
    },
  )

  it.each(['HTTP/1.1 204 No Content\r\n', 'HTTP/1.1 304 Not Modified\r\n'])(
    'a body behind %j is nobody’s answer',
    async (line) => {
      const { hostile } = world()
      hostile.respond = text(`${line}content-length: 4\r\n\r\n${EVIL}`)
      expect((await ask(hostileModel(turn))).body).not.toContain(EVIL)
      hostile.respond = wellAnswered
      for (let at = 0; at < 3; at++) expect((await ask(hostileModel(turn))).body).toContain('WELL')
    },
  )

  it('a second response in the same read is discarded', async () => {
    const { hostile } = world()
    hostile.respond = text(
      `${OK}${JSON_TYPE}content-length: 2\r\n\r\n{}${OK}${JSON_TYPE}content-length: 4\r\n\r\n${EVIL}`,
    )
    for (let at = 0; at < 3; at++) expect((await ask(hostileModel(turn))).body).toBe('{}')
    hostile.respond = wellAnswered
    for (let at = 0; at < 3; at++) expect((await ask(hostileModel(turn))).body).toContain('WELL')
  })
}
