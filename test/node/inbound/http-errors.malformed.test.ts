/** Invalid HTTP requests: each gets a response at once, is counted and logged, and delays no other request. */
import type { Socket } from 'node:net'
import { describe, expect, it } from 'vitest'
import { HttpErrors } from '../../../src/platform/node/inbound/http-errors.ts'
import { openLog } from '../../../src/platform/node/log.ts'
import { gatewayKeys } from '../../contracts/gateway.ts'
import { chatBody, servers, jsonAnswer, useBothServers, requestText } from './both-servers.ts'
import { until } from '../../wait.ts'

const { both, connect } = useBothServers()

async function refusals(reason: string): Promise<number> {
  const answer = await fetch(`http://127.0.0.1:${both.port}/metrics`, {
    headers: { authorization: `Bearer ${gatewayKeys.admin}` },
  })
  return Number(
    new RegExp(`^firstlight_rejected_requests_total\\{reason="${reason}"\\} (\\d+)$`, 'm').exec(
      await answer.text(),
    )?.[1] ?? 0,
  )
}

const { plain: host } = servers
const GARBAGE = '\0\x01\x02 garbage\r\n\r\n'
/** Name, bytes sent, status, reason. */
const malformed: readonly (readonly [string, string, number, string])[] = [
  ['garbage', GARBAGE, 400, 'bad_http'],
  ['two lengths', requestText(host, { framing: 'content-length: 2\r\ncontent-length: 3' }), 400, 'bad_http'],
  [
    'a length and chunks',
    requestText(host, { framing: 'content-length: 2\r\ntransfer-encoding: chunked' }),
    400,
    'bad_http',
  ],
  ['a target that is no path', `OPTIONS * HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`, 400, 'bad_http'],
  ['an unknown expectation', requestText(host, { headers: 'expect: tea\r\n' }), 417, 'expectation_unmet'],
  [
    'a head over 32 KiB',
    `GET /health HTTP/1.1\r\nhost: ${host}\r\nx-long: ${'x'.repeat(40_000)}\r\n\r\n`,
    431,
    'head_too_large',
  ],
  [
    'another transfer encoding',
    requestText(host, { body: '0\r\n\r\n', framing: 'transfer-encoding: gzip, chunked' }),
    501,
    'transfer_encoding',
  ],
  [
    'another transfer encoding in a header of its own',
    requestText(host, { body: '0\r\n\r\n', framing: 'transfer-encoding: gzip\r\ntransfer-encoding: chunked' }),
    501,
    'transfer_encoding',
  ],
  [
    'chunks in chunks',
    requestText(host, { body: '0\r\n\r\n', framing: 'transfer-encoding: chunked, chunked' }),
    400,
    'bad_http',
  ],
]

describe('a client that sends', () => {
  it.each(malformed)('%s is refused and counted', async (_, text, status, reason) => {
    const before = await refusals(reason)
    const client = connect().send(text)
    const answer = await client.answer()
    expect(answer.head).toContain(` ${status} `)
    expect(answer.head).toContain('connection: close')
    expect(JSON.parse(answer.body)).toMatchObject({ error: { type: 'invalid_request_error' } })
    await until(() => client.closed)
    expect(await refusals(reason)).toBe(before + 1)
    expect(both.posts).toHaveLength(0)
  })

  const bare: readonly (readonly [string, string])[] = [
    ['every line', requestText(host).replaceAll('\r\n', '\n')],
    ['the request line', requestText(host).replace(' HTTP/1.1\r\n', ' HTTP/1.1\n')],
    ['a header', requestText(host).replace('json\r\n', 'json\n')],
    ['the blank line', requestText(host).replace('\r\n\r\n', '\r\n\n')],
    ['the last header and the blank line', requestText(host).replace('\r\n\r\n', '\n\n')],
  ]
  it.each(bare)('a bare line feed at the end of %s gets 400 at once', async (_, text) => {
    const answer = await connect().send(text).answer()
    expect(answer.head).toContain(' 400 ')
    expect(both.posts).toHaveLength(0)
  })
})

describe.each(Object.entries(servers))('behind a request in the same write, on the %s server', (_, name) => {
  const first = requestText(name)

  it('garbage gets its 400 after the request has its answer', async () => {
    both.answer = (socket) => void setTimeout(() => socket.write(jsonAnswer()), 30)
    const client = connect().send(first + GARBAGE)
    expect((await client.answer()).head).toContain(' 200 ')
    expect((await client.answer()).head).toContain(' 400 ')
    await until(() => client.closed)
    expect(both.posts).toHaveLength(1)
  })

  it('garbage never gets into the middle of a stream', async () => {
    const event = 'data: {"choices":[{"text":"a"}]}\n\n'
    both.answer = (socket) => {
      socket.write(
        `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n${event.length.toString(16)}\r\n${event}\r\n`,
      )
      setTimeout(() => socket.write('e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n'), 30)
    }
    const client = connect().send(requestText(name, { body: chatBody('x', { stream: true }) }) + GARBAGE)
    const answer = await client.answer()
    expect(answer).toMatchObject({ whole: true, body: expect.stringContaining('[DONE]') })
    expect((await client.answer()).head).toContain(' 400 ')
  })

  it('garbage costs no request of several its answer', async () => {
    const client = connect().send(first + first + first + GARBAGE)
    for (let n = 0; n < 3; n++) expect((await client.answer()).head).toContain(' 200 ')
    expect((await client.answer()).head).toContain(' 400 ')
    expect(both.posts).toHaveLength(3)
  })

  it('a malformed chunk of its own body gets 400 after the requests before it', async () => {
    const client = connect().send(
      first + requestText(name, { body: '3\r\nabc\r\nzz\r\n', framing: 'transfer-encoding: chunked' }),
    )
    expect((await client.answer()).head).toContain(' 200 ')
    expect((await client.answer()).head).toContain(' 400 ')
    expect(both.posts).toHaveLength(1)
  })

  it.each([
    ['a request', first],
    ['garbage', GARBAGE],
  ])('%s is ignored if the request closes the connection', async (_what, behind) => {
    const closing = requestText(name, {
      headers: `authorization: Bearer ${gatewayKeys.broad}\r\nconnection: close\r\n`,
    })
    const client = connect().send(closing + behind)
    const answer = await client.answer()
    expect(answer.head).toContain(' 200 ')
    await until(() => client.closed)
    expect(client.pending).toBe('')
    expect(both.posts).toHaveLength(1)
  })
})

describe('the log of malformed requests', () => {
  it('malformed requests are logged once a second with the number of suppressed ones, without client data', () => {
    let now = 0
    const counted: string[] = []
    const lines: Record<string, unknown>[] = []
    const log = openLog('info', { write: (line) => void lines.push(JSON.parse(line) as Record<string, unknown>) })
    const errors = new HttpErrors({ count: (reason) => void counted.push(reason), log, now: () => now })
    const fail = (code: string) =>
      errors.onClientError(Object.assign(new Error('secret'), { code }), {
        writable: true,
        remoteAddress: '192.0.2.1',
        end: () => {},
      } as unknown as Socket)
    fail('HPE_INVALID_METHOD')
    for (now = 1; now < 1_000; now += 100) fail('HPE_HEADER_OVERFLOW')
    now = 1_000
    fail('ERR_HTTP_REQUEST_TIMEOUT')
    expect(counted).toEqual(['bad_http', ...Array.from({ length: 10 }, () => 'head_too_large'), 'request_timeout'])
    expect(lines).toMatchObject([
      {
        level: 'info',
        event: 'request_malformed',
        status: 400,
        reason: 'bad_http',
        code: 'HPE_INVALID_METHOD',
        remote: '192.0.2.1',
      },
      { status: 408, reason: 'request_timeout', suppressed: 10 },
    ])
    expect(JSON.stringify(lines)).not.toContain('secret')
  })
})
