/** Memory of a long body: released as soon as the engine has the body, and not before. */
import { once } from 'node:events'
import net, { type Socket } from 'node:net'
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { ServerRequest } from '../../../src/platform/node/http1/server-request.ts'
import { type LocalServer, serveLocally } from '../../kit/local-server.ts'
import { startNodeGateway, type NodeGateway } from '../../kit/node-gateway.ts'

const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`
const HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n'
const FIRST = chunk('data: {"choices":[{"delta":{"content":"a"}}]}\n\n')
const LAST = `${chunk('data: [DONE]\n\n')}0\r\n\r\n`
/** More than the sockets between gateway and engine can hold. */
const LONG = 24 * 1024 * 1024

/** Receives a paused connection with a request in it; `read` resolves with the request's body. */
type Engine = (socket: Socket, read: () => Promise<string>) => Promise<void>

let engine: Engine
let gateway: NodeGateway
/** Bodies that the gateway collected. */
let collected: { readonly mock: { readonly results: readonly { readonly value: unknown }[] } }
let server: LocalServer | undefined
/** No FakeEngine: it reads and pauses the socket itself, to leave the body of a request unread. */
const listener = net.createServer((socket) => {
  socket.on('error', () => {})
  socket.once('data', (begin: Buffer) => {
    socket.pause()
    if (begin.toString('latin1', 0, 3) === 'GET') return void socket.end('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n')
    void engine(socket, () => bodyOf(socket, begin)).catch(() => socket.destroy())
  })
})

/** Reads the rest of a body; `begin` contains the whole head. */
async function bodyOf(socket: Socket, begin: Buffer): Promise<string> {
  const head = begin.indexOf('\r\n\r\n') + 4
  const reads = [begin.subarray(head)]
  const length = Number(/content-length: (\d+)/.exec(begin.toString('latin1', 0, head))![1])
  socket.resume()
  for (let missing = length - reads[0]!.length; missing > 0; missing -= reads.at(-1)!.length)
    reads.push(...((await once(socket, 'data')) as [Buffer]))
  return Buffer.concat(reads).toString('latin1')
}

beforeEach(async () => {
  server ??= await serveLocally(listener)
  const { url } = server
  gateway = await startNodeGateway({
    clusters: [{ id: 'here', pools: [{ model: 'm', stats_interval_ms: 3_600_000, engines: [{ id: 'a', url }] }] }],
  })
  collected = vi.spyOn(ServerRequest.prototype, 'collect')
})
afterAll(() => server?.close())
afterEach(async () => {
  vi.restoreAllMocks()
  await gateway.close()
})

/** `begun` is called at the first bytes of the response. */
const ask = async (content: string, begun = (): void => {}): Promise<string> => {
  const body = JSON.stringify({
    model: 'm',
    stream: true,
    stream_options: { include_usage: true },
    messages: [{ role: 'user', content }],
  })
  const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  })
  expect(answer.status).toBe(200)
  let text = ''
  for await (const piece of answer.body!.pipeThrough(new TextDecoderStream())) {
    begun()
    text += piece
  }
  return text
}

describe('the memory of a long body', () => {
  it('the memory of a long body is freed when its response begins', async () => {
    let got = ''
    engine = async (socket, read) => {
      got = await read()
      socket.write(HEAD + FIRST + LAST)
    }
    expect(await ask('x'.repeat(1_000_000))).toContain('[DONE]')
    expect(got.length).toBeGreaterThan(1_000_000)
    expect(((await collected.mock.results[0]!.value) as Uint8Array).length).toBe(0)
  })

  it('the memory of a long body is left alone while an engine that answers early has not read it all', async () => {
    let got = ''
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>()
    engine = async (socket, read) => {
      socket.write(HEAD + FIRST)
      // The gateway still holds most of the body.
      await begun
      got = await read()
      socket.write(LAST)
    }
    const content = 'abcdefghij'.repeat(LONG / 10)
    expect(await ask(content, begin)).toContain('[DONE]')
    expect((JSON.parse(got) as { messages: { content: string }[] }).messages[0]!.content === content).toBe(true)
  })
})
