import { describe, expect, it } from 'vitest'
import {
  headerOf,
  headersForClient,
  headersForEngine,
  headersForTarget,
  headersInit,
  headersOfAnswer,
} from '../../src/origin/headers.ts'

const TO = { via: '1.1 us', tokenHeader: 'x-token-assertion' }
const names = (flat: readonly string[]) => flat.filter((_, i) => i % 2 === 0)

describe('headers for an engine', () => {
  it('headers for an engine exclude the client’s credentials and connection headers', () => {
    const flat = headersForEngine(
      new Headers({
        Host: 'gateway',
        Authorization: 'Bearer client',
        'X-Api-Key': 'client',
        Cookie: 'a=b',
        Connection: 'keep-alive, X-Secret-Hop',
        'X-Secret-Hop': '1',
        'Transfer-Encoding': 'chunked',
        'Content-Length': '7',
        Expect: '100-continue',
        TE: 'trailers',
        Upgrade: 'h2c',
        'Proxy-Authorization': 'x',
        'X-Token-Assertion': 'eyJ',
      }),
      'r1',
      TO,
      true,
    )
    expect(flat).toEqual(['accept-encoding', 'identity', 'x-request-id', 'r1', 'via', '1.1 us'])
  })

  it('headers for an engine exclude headers about addresses, engines and the gateway', () => {
    const forged = {
      'X-Forwarded-For': '1.2.3.4',
      Forwarded: 'for=x',
      'CF-Connecting-IP': 'x',
      'X-Firstlight-Options': '{}',
      'X-Data-Parallel-Rank': '3',
      Origin: 'https://evil',
      'Sec-Fetch-Mode': 'cors',
    }
    expect(names(headersForEngine(new Headers(forged), 'r', TO, true))).toEqual([
      'accept-encoding',
      'x-request-id',
      'via',
    ])
  })

  it('headers for an engine include those of the request, and the gateway’s id instead of the client’s', () => {
    const flat = headersForEngine(
      new Headers({
        'Content-Type': 'application/json',
        traceparent: '00-a-b-01',
        tracestate: 'x=y',
        'x-session-id': 's',
        'X-Request-Id': 'theirs',
        'Accept-Encoding': 'gzip',
        'CDN-Loop': 'a.example; loops=1',
      }),
      'ours',
      TO,
      true,
    )
    expect(flat).toEqual([
      'cdn-loop',
      'a.example; loops=1',
      'content-type',
      'application/json',
      'traceparent',
      '00-a-b-01',
      'tracestate',
      'x=y',
      'x-session-id',
      's',
      'accept-encoding',
      'identity',
      'x-request-id',
      'ours',
      'via',
      '1.1 us',
    ])
  })

  it('headers for an engine are replaced by those configured for the engine', () => {
    const target = {
      id: 'e',
      url: 'http://e',
      headers: ['authorization', 'Bearer engine', 'x-session-id', 'fixed'],
      binding: null,
    }
    const flat = headersForTarget(['x-session-id', 'client', 'accept', '*/*'], target)
    expect(flat).toEqual(['accept', '*/*', 'authorization', 'Bearer engine', 'x-session-id', 'fixed'])
  })
})

describe('headers of an answer', () => {
  it('headers of an answer lose framing headers and those named by `connection`, and are lower-case', () => {
    const raw = [
      'Content-Type',
      'text/event-stream',
      'Connection',
      'X-Hop, close',
      'X-Hop',
      '1',
      'Transfer-Encoding',
      'chunked',
      'Content-Length',
      '3',
      'Keep-Alive',
      'timeout=5',
      'X-Kept',
      'Yes',
    ]
    expect(headersOfAnswer(raw)).toEqual(['content-type', 'text/event-stream', 'x-kept', 'Yes'])
  })

  it('name neither the engine’s server nor its address to a client, and cannot speak for the gateway', () => {
    const answer = [
      'server',
      'uvicorn',
      'date',
      'x',
      'location',
      'http://10.0.0.1:8000/',
      'x-request-id',
      'engine',
      'x-firstlight-engine',
      'forged',
      'server-timing',
      'db;dur=1',
      'alt-svc',
      'h3',
      'via',
      '1.1 rack-7',
      'set-cookie',
      'SERVERID=10.0.0.1',
      'content-type',
      'application/json',
      'endpoint-load-metrics',
      'JSON {}',
    ]
    expect(headersForClient(answer)).toEqual(['content-type', 'application/json', 'endpoint-load-metrics', 'JSON {}'])
  })

  it('headers of an answer exclude the engine’s CORS headers, which the gateway sets', () => {
    expect(
      headersForClient([
        'access-control-allow-origin',
        '*',
        'access-control-allow-credentials',
        'true',
        'vary',
        'accept-encoding',
      ]),
    ).toEqual(['vary', 'accept-encoding'])
  })

  it('headers of an answer are looked up by their first value', () => {
    expect(headerOf(['a', '1', 'b', '2', 'a', '3'], 'a')).toBe('1')
    expect(headerOf(['a', 'b'], 'b')).toBeNull()
  })

  it.each([
    [
      'each once',
      ['content-type', 'text/plain', 'x-a', '1'],
      [
        ['content-type', 'text/plain'],
        ['x-a', '1'],
      ],
    ],
    [
      'one said twice',
      ['x-a', '1', 'x-b', '2', 'x-a', '3'],
      [
        ['x-a', '1, 3'],
        ['x-b', '2'],
      ],
    ],
    [
      'those named as what every object has',
      ['__proto__', '1', 'constructor', '2'],
      [
        ['__proto__', '1'],
        ['constructor', '2'],
      ],
    ],
    ['none', [], []],
  ])('reach `Response` whole: %s', (_, flat, seen) => {
    expect([...new Response(null, { headers: headersInit(flat) }).headers]).toEqual(seen)
  })
})
