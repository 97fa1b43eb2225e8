import http2 from 'node:http2'
import https from 'node:https'
import { once } from 'node:events'
import tls from 'node:tls'
import { afterEach, describe, expect, it } from 'vitest'
import { localhost } from '../../kit/localhost-certificate.ts'
import { ask, chunked, openWire, parseRaw, REQUEST_BODY, requestText, type Wire, type WireOptions } from './wire.ts'
import { FakeEngine } from '../../kit/fake-engine.ts'

const HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n'
const EVENTS = [
  'data: {"choices":[{"text":"a"}]}\n\n',
  'data: {"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":1}}\n\n',
  'data: [DONE]\n\n',
]
const SHOWN = EVENTS[0]! + EVENTS[2]!

let engine: FakeEngine
let wire: Wire

afterEach(async () => {
  await wire.close()
  await engine.close()
})

async function open(secure: tls.TlsOptions | undefined, options: WireOptions): Promise<void> {
  engine = await FakeEngine.open(
    { '*': ({ socket }) => void socket.write(HEAD + chunked(EVENTS)) },
    secure === undefined ? {} : { secure },
  )
  wire = await openWire(engine, options)
}

describe('an engine behind TLS', () => {
  it('answers over connections that are kept, byte for byte', async () => {
    await open(localhost, { ca: localhost.cert, hideUsage: true })
    for (let i = 0; i < 5; i++) expect(await ask(wire.port)).toMatchObject({ whole: true, body: SHOWN })
    expect(engine.accepted).toBe(1)
    expect(wire.ends.map(({ end, usage }) => [end, usage?.promptTokens])).toEqual(
      Array.from({ length: 5 }, () => ['complete', 2]),
    )
  })

  it('an engine behind TLS gets a long body whole, and answers at length', async () => {
    const answer = `data: ${'y'.repeat(300_000)}\n\n`
    await open(localhost, { ca: localhost.cert })
    engine.routes['*'] = ({ socket, raw: request }) =>
      void socket.write(HEAD + chunked([`: ${request.length}\n\n`, answer]))
    const body = JSON.stringify({ prompt: 'x'.repeat(500_000) })
    const got = await ask(wire.port, requestText('1.1', body))
    expect(got.whole).toBe(true)
    expect(Number(/^: (\d+)/.exec(got.body)![1])).toBeGreaterThan(500_000)
    expect(got.body.endsWith(answer)).toBe(true)
  })

  it('an engine behind TLS is rejected if its certificate is not trusted', async () => {
    await open(localhost, {})
    expect(await ask(wire.port)).toMatchObject({ whole: true, body: 'connect' })
  })

  it('an engine behind TLS that breaks off gives its client a cut', async () => {
    await open(localhost, { ca: localhost.cert })
    engine.routes['*'] = ({ socket }) => {
      socket.write(HEAD + chunked([EVENTS[0]!]).slice(0, -5))
      setTimeout(() => socket.destroy(), 40)
    }
    expect(await ask(wire.port)).toMatchObject({ whole: false, body: `${EVENTS[0]}data: {"error":"reset"}\n\n` })
  })
})

it('a client behind TLS gets the same bytes', async () => {
  await open(undefined, { hideUsage: true, context: { createServer: https.createServer, serverOptions: localhost } })
  const socket = tls.connect({ port: wire.port, host: '127.0.0.1', ca: localhost.cert })
  let raw = ''
  socket.on('data', (bytes: Buffer) => (raw += bytes.toString('latin1')))
  socket.write(requestText())
  await expect.poll(() => parseRaw(raw).whole).toBe(true)
  expect(parseRaw(raw).body).toBe(SHOWN)
  socket.destroy()
})

it('an HTTP/2 client gets the payload without any framing of ours', async () => {
  await open(undefined, {
    hideUsage: true,
    context: { createServer: http2.createServer } as WireOptions['context'] & object,
  })
  const session = http2.connect(`http://127.0.0.1:${wire.port}`)
  const stream = session.request({
    ':method': 'POST',
    ':path': '/v1/chat/completions',
    'content-type': 'application/json',
  })
  stream.end(REQUEST_BODY)
  let body = ''
  stream.on('data', (bytes: Buffer) => (body += bytes.toString('latin1')))
  await once(stream, 'end')
  expect(body).toBe(SHOWN)
  await new Promise<void>((resolve) => session.close(resolve))
})
