/** Requests whose end two parsers could find at different places, and heads that a parser must reject. */
import { expect, it } from 'vitest'
import { chat, keyLine, rawRequest, sendRaw, type AttackWorld, type EngineRequest } from './attack-fixture.ts'

const BODY = chat()
const LENGTH = `content-length: ${BODY.length}\r\n`
const CHUNKED = `${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`
/** A second request in the place of the first one's body, for a parser that finds another end. */
const HIDDEN = `POST /v1/completions HTTP/1.1\r\nhost: x\r\nx-attack: hidden\r\n${keyLine()}content-length: 0\r\n\r\n`

/**
 * Each also has a content-length: a parser that ignores the unusual header uses the length, another one uses chunks.
 */
const OBSCURED_CHUNKED: readonly string[] = [
  'transfer-encoding: chunked',
  'transfer-encoding: xchunked',
  'transfer-encoding: chunked, identity',
  'transfer-encoding: identity, chunked',
  'transfer-encoding: identity',
  'transfer-encoding: chunked;q=1',
  'transfer-encoding: "chunked"',
  'transfer-encoding:\tchunked',
  'transfer-encoding:\x0bchunked',
  'transfer-encoding: chun\x00ked',
  'transfer-encoding : chunked',
  ' transfer-encoding: chunked',
  'x: y\r\n\ttransfer-encoding: chunked',
  'x: y\ntransfer-encoding: chunked',
  'x: y\rtransfer-encoding: chunked',
  'transfer-encoding:\r\n chunked',
  'transfer-encoding: cow\r\ntransfer-encoding: chunked',
  'transfer-encoding\x00: chunked',
  'transfer-encoding: \xff chunked',
]

const LENGTHS: readonly string[] = [
  `content-length: ${BODY.length}\r\ncontent-length: ${BODY.length}`,
  `content-length: ${BODY.length}\r\ncontent-length: 0`,
  `content-length: ${BODY.length}, ${BODY.length}`,
  `content-length: ${BODY.length}, 0`,
  `content-length: +${BODY.length}`,
  'content-length: -1',
  `content-length: 0x${BODY.length.toString(16)}`,
  `content-length: ${BODY.length}.0`,
  `content-length: ${BODY.length}e0`,
  `content-length: ${BODY.length} 0`,
  `content-length: ${BODY.length}\x00`,
  `content-length:\x0b${BODY.length}`,
  `content-length: ${String(BODY.length).replaceAll(/\d/g, (digit) => Buffer.from(String.fromCodePoint(0xff10 + Number(digit))).toString('latin1'))}`,
  'content-length: 99999999999999999999',
  'content-length: ',
  `content-length : ${BODY.length}`,
  `content-length\t: ${BODY.length}`,
]

const HEADS: Readonly<Record<string, string>> = {
  'a folded header': rawRequest('HOST', BODY, { headers: `${keyLine()}x-a: b\r\n c\r\n` }),
  'NUL in a header': rawRequest('HOST', BODY, { headers: `${keyLine()}x-a: b\0c\r\n` }),
  'a lone CR in a header': rawRequest('HOST', BODY, { headers: `${keyLine()}x-a: b\rx-c: d\r\n` }),
  'a lone LF in a header': rawRequest('HOST', BODY, { headers: `${keyLine()}x-a: b\nx-c: d\r\n` }),
  'DEL in a name': rawRequest('HOST', BODY, { headers: `${keyLine()}x-\x7fa: b\r\n` }),
  'a header without a name': rawRequest('HOST', BODY, { headers: `${keyLine()}: b\r\n` }),
  'a header without a colon': rawRequest('HOST', BODY, { headers: `${keyLine()}x-a\r\n` }),
  'two hosts': rawRequest('HOST', BODY, { headers: `${keyLine()}host: evil.test\r\n` }),
  CONNECT: `CONNECT 127.0.0.1:1 HTTP/1.1\r\nhost: HOST\r\n\r\n`,
  'the preface of HTTP/2': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  'HTTP/1.2': rawRequest('HOST', BODY).replace('HTTP/1.1', 'HTTP/1.2'),
  'HTTP/3.0': rawRequest('HOST', BODY).replace('HTTP/1.1', 'HTTP/3.0'),
  'a lower-case version': rawRequest('HOST', BODY).replace('HTTP/1.1', 'http/1.1'),
  'a method with a colon': rawRequest('HOST', BODY).replace('POST', 'PO:ST'),
  'a blank in the target': rawRequest('HOST', BODY, { path: '/v1/chat/completions /x' }),
}

const CHUNKS: readonly string[] = [
  `0x${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`,
  `+${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`,
  `-1\r\n${BODY}\r\n0\r\n\r\n`,
  ` ${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`,
  `${BODY.length.toString(16)}\n${BODY}\r\n0\r\n\r\n`,
  `${BODY.length.toString(16)}\r\n${BODY}0\r\n\r\n`,
  `${(BODY.length - 1).toString(16)}\r\n${BODY}\r\n0\r\n\r\n`,
  `ffffffffffffffffff\r\n${BODY}\r\n0\r\n\r\n`,
  `${BODY.length.toString(16)};a\rb\r\n${BODY}\r\n0\r\n\r\n`,
  `${BODY.length.toString(16)};a\nb\r\n${BODY}\r\n0\r\n\r\n`,
]

/** Unusual, but unambiguous. */
const UNAMBIGUOUS: Readonly<Record<string, (host: string) => string>> = {
  'leading zeros of a length': (host) => rawRequest(host, BODY, { framing: `content-length: 000${BODY.length}\r\n` }),
  'blanks round a length': (host) => rawRequest(host, BODY, { framing: `content-length: \t ${BODY.length} \t\r\n` }),
  'empty lines before the request': (host) => `\r\n\r\n${rawRequest(host, BODY)}`,
  'chunks in capitals': (host) => rawRequest(host, CHUNKED, { framing: 'Transfer-Encoding: Chunked\r\n' }),
  'an upgrade to h2c': (host) =>
    rawRequest(host, BODY, {
      headers: `${keyLine()}connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n`,
    }),
}

/** Accepted or rejected, depending on the parser, and never read in a second way. */
const EITHER: Readonly<Record<string, (host: string) => string>> = {
  'a trailer that names a length': (host) =>
    rawRequest(host, `${CHUNKED.slice(0, -2)}content-length: 5\r\n\r\n`, { framing: 'transfer-encoding: chunked\r\n' }),
  'a trailer that names chunks': (host) =>
    rawRequest(host, `${CHUNKED.slice(0, -2)}transfer-encoding: chunked\r\n\r\n`, {
      framing: 'transfer-encoding: chunked\r\n',
    }),
  'no version': (host) => rawRequest(host, BODY).replace(' HTTP/1.1', ''),
  'HTTP/2.0': (host) => rawRequest(host, BODY).replace('HTTP/1.1', 'HTTP/2.0'),
  'an upgrade to a WebSocket': (host) =>
    rawRequest(host, BODY, {
      headers: `${keyLine()}connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n`,
    }),
}

export function framings(world: () => AttackWorld): void {
  /** Engines get exactly one well-formed request, whatever a client sent. */
  const expectOneRequest = (calls: readonly EngineRequest[]): void => {
    for (const { target, head, body } of calls) {
      expect(target).toBe('/v1/chat/completions')
      expect(head.match(/^content-length: \d+$/gim)).toHaveLength(1)
      expect(head).not.toMatch(/^transfer-encoding/im)
      expect(head).not.toMatch(/x-attack: hidden/i)
      expect(JSON.parse(body)).toMatchObject({ model: expect.any(String) })
    }
    expect(calls.length).toBeLessThanOrEqual(1)
  }

  async function expectRefused(of: (host: string) => string, isEndUnknown = true): Promise<void> {
    const { engine, table } = world()
    for (const host of table.hosts) {
      engine.calls.length = 0
      const { status, closed } = await sendRaw(world(), of(host))
      expectOneRequest(engine.calls)
      // workerd decides about some of these. It reads what it accepts in one way, and forwards it as one request.
      if (table.isWorker) continue
      expect(engine.calls).toEqual([])
      expect([0, 400, 404, 405, 408, 417, 431, 501, 505]).toContain(status)
      if (isEndUnknown) expect(closed).toBe(true)
    }
  }

  it.each(OBSCURED_CHUNKED.map((line) => [line]))('a content-length and %j', (line) =>
    expectRefused((host) =>
      rawRequest(host, `0\r\n\r\n${HIDDEN}`, { framing: `content-length: ${5 + HIDDEN.length}\r\n${line}\r\n` }),
    ),
  )
  it.each(LENGTHS.map((line) => [line]))('a length as %j', (line) =>
    expectRefused((host) => rawRequest(host, BODY + HIDDEN, { framing: `${line}\r\n` })),
  )
  it.each(Object.entries(HEADS))('%s', (_name, text) => expectRefused((host) => text.replaceAll('HOST', host), false))
  it.each(CHUNKS.map((body) => [body.slice(0, 24), body]))('chunks framed as %j …', (_name, body) =>
    expectRefused((host) => rawRequest(host, body + HIDDEN, { framing: 'transfer-encoding: chunked\r\n' })),
  )
  it.each(['a b', 'a/b', 'a@b', 'a,b', '[::1', 'a\\b', ''])(
    'the host %j reaches no engine in a second reading',
    async (host) => {
      world().engine.calls.length = 0
      await sendRaw(world(), rawRequest(host, BODY))
      expectOneRequest(world().engine.calls)
    },
  )
  it.each(Object.entries(UNAMBIGUOUS))('%s is read in the one way there is', async (_name, of) => {
    const { engine, table } = world()
    for (const host of table.hosts) {
      engine.calls.length = 0
      const { status } = await sendRaw(world(), of(host))
      expect(status).toBe(200)
      expectOneRequest(engine.calls)
      expect(engine.calls[0]!.body).toBe(BODY)
      expect(engine.calls[0]!.head).not.toMatch(/^(?:upgrade|http2-settings|connection: upgrade)/im)
    }
  })
  it.each(Object.entries(EITHER))('%s is read in the one way there is, or refused', async (_name, of) => {
    const { engine, table } = world()
    for (const host of table.hosts) {
      engine.calls.length = 0
      const { status } = await sendRaw(world(), of(host))
      expectOneRequest(engine.calls)
      expect(engine.calls.map(({ body }) => body)).toEqual(status === 200 ? [BODY] : [])
    }
  })
  it('a request that hides in the body of a chat stays there', async () => {
    const { engine, table } = world()
    for (const host of table.hosts) {
      engine.calls.length = 0
      const body = chat({ user: HIDDEN })
      expect((await sendRaw(world(), rawRequest(host, body))).status).toBe(200)
      expectOneRequest(engine.calls)
      expect(engine.calls[0]!.head.toLowerCase()).toContain(`content-length: ${body.length}`)
    }
  })
  it('a correct content-length is the valid case that all of these differ from', async () => {
    const { engine, table } = world()
    engine.calls.length = 0
    for (const host of table.hosts)
      expect((await sendRaw(world(), rawRequest(host, BODY, { framing: LENGTH }))).status).toBe(200)
    expect(engine.calls).toHaveLength(table.hosts.length)
  })
}
