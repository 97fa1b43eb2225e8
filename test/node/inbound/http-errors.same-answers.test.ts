/**
 * The two servers of a Node gateway behave as one: the same response, the same request to the engine, and the same log
 * line.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { endpoints } from '../../../src/protocols/protocols.ts'
import { gatewayCases, gatewayKeys, requestOf } from '../../contracts/gateway.ts'
import { servers, jsonAnswer, openBothServers, RawClient, type BothServers, type ServerName } from './both-servers.ts'
import { chunked, type RawAnswer } from '../http1/wire.ts'
import { until } from '../../wait.ts'

let both: BothServers
beforeAll(async () => {
  both = await openBothServers()
})
afterAll(() => both.close())
beforeEach(() => {
  both.answer = (socket) => void socket.write(jsonAnswer())
})

interface TestRequest {
  readonly path?: string
  readonly headers: readonly (readonly [string, string])[]
  readonly body: string | Uint8Array
  readonly chunked?: boolean
}

interface Observation {
  readonly answer: RawAnswer
  readonly posts: readonly string[]
  readonly line: Record<string, unknown>
}

async function ask(
  context: ServerName,
  { path = '/v1/chat/completions', headers, body, chunked: inChunks = false }: TestRequest,
): Promise<Observation> {
  both.posts.length = 0
  both.lines.length = 0
  const bytes = typeof body === 'string' ? Buffer.from(body) : Buffer.from(body)
  const client = new RawClient(both.port)
  const fields = [
    ['Host', servers[context]],
    ...headers,
    inChunks ? ['Transfer-Encoding', 'chunked'] : ['Content-Length', String(bytes.length)],
  ]
  client.send(`POST ${path} HTTP/1.1\r\n${fields.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`)
  if (inChunks)
    client
      .send(`${bytes.length.toString(16)}\r\n`)
      .send(bytes)
      .send('\r\n0\r\n\r\n')
  else client.send(bytes)
  const answer = await client.answer()
  await client.close()
  const line = await until(() => both.lines.find(({ event }) => event === 'request'), 1)
  return { answer, posts: [...both.posts], line }
}

/** Removes what differs from one request to the next on the same server. */
const passing = (text: string): string =>
  text
    .replace(/^date: .*$/m, 'date')
    .replace(/dur=[\d.]+/g, 'dur')
    .replace(/^(x-firstlight-decision: ).*$/m, '$1')
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g, 'id')

/** Headers have no order; the first line does. */
function headOf(head: string): { readonly first: string; readonly fields: readonly string[] } {
  const [first, ...fields] = passing(head).split('\r\n')
  return { first: first!, fields: fields.toSorted() }
}

const LINE_VARIES = ['time', 'id', 'head_ms', 'duration_ms', 'stages_ms', 'predicted_ttft_ms']

function settled({ answer, posts, line }: Observation): unknown {
  const split = posts.map((request) => {
    const end = request.indexOf('\r\n\r\n')
    return { head: headOf(request.slice(0, end)), body: request.slice(end + 4) }
  })
  const kept = Object.entries(line)
    .filter(([name]) => !LINE_VARIES.includes(name))
    .map(([name, value]) => [name, typeof value === 'string' ? passing(value) : value])
  const stages = Object.keys((line['stages_ms'] ?? {}) as object)
  return {
    head: headOf(answer.head),
    body: answer.body,
    whole: answer.whole,
    posts: split,
    line: Object.fromEntries(kept),
    stages,
    fields: Object.keys(line),
  }
}

async function same(sent: TestRequest): Promise<Observation> {
  const plain = await ask('plain', sent)
  const adapter = await ask('adapter', sent)
  expect(settled(plain)).toEqual(settled(adapter))
  return plain
}

const labelled = ['X-Request-Id', 'both-1'] as const

describe('both servers of a gateway on Node reject alike:', () => {
  const cases = Object.values(gatewayCases)
    .flat()
    .filter(({ send }) => (send.method ?? 'POST') === 'POST' && endpoints.some(({ path }) => path === send.path))
  it.each(cases.map((one) => [one.name, one] as const))(
    'both servers of a gateway on Node reject alike: %s',
    async (_, one) => {
      const { path, headers, body, chunked: inChunks } = requestOf(one.send)
      const { answer } = await same({
        path,
        headers: [...Object.entries(headers), ...('x-request-id' in headers ? [] : [labelled])],
        body: body!,
        chunked: inChunks,
      })
      expect(answer.head).toContain(` ${one.status} `)
    },
  )
})

const STREAM = [
  'data: {"choices":[{"text":"a","finish_reason":"stop"}]}\n\n',
  'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":1}}\n\n',
  'data: [DONE]\n\n',
]
const streams = (socket: { write(text: string): unknown }): void =>
  void socket.write(
    `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-engine: 1\r\ntransfer-encoding: chunked\r\n\r\n${chunked(STREAM)}`,
  )
const key = ['Authorization', `Bearer ${gatewayKeys.broad}`] as const
const chat = (more: object = {}): string =>
  JSON.stringify({ model: 'qwen', messages: [{ role: 'user', content: 'Grüße' }], ...more })

describe('both servers of a gateway on Node serve alike:', () => {
  it('a non-streaming response', async () => {
    const { answer, posts } = await same({ headers: [key, labelled], body: chat() })
    expect(answer.head).toContain('200 ok')
    expect(posts).toHaveLength(1)
  })

  it('a stream with usage for the gateway only', async () => {
    both.answer = streams
    const { answer, posts } = await same({ headers: [key, labelled], body: chat({ stream: true }) })
    expect(posts[0]).toContain('"include_usage":true')
    expect(answer.body).toBe(STREAM[0]! + STREAM[2]!)
  })

  it('a stream with usage for the client', async () => {
    both.answer = streams
    const { answer } = await same({
      headers: [key, labelled],
      body: chat({ stream: true, stream_options: { include_usage: true } }),
    })
    expect(answer.body).toBe(STREAM.join(''))
  })

  it('a body in chunks', async () => {
    expect((await same({ headers: [key, labelled], body: chat(), chunked: true })).answer.head).toContain('200 ok')
  })

  it('both servers of a gateway on Node serve alike: headers twice, in any case, with blanks, beyond ASCII, and some that no engine may see', async () => {
    const headers = [
      key,
      labelled,
      ['X-Twice', 'a'],
      ['x-twice', ' b\t'],
      ['Accept', 'text/plain'],
      ['accept', 'text/html'],
      ['X-Latin', 'gr\u00fc\u00dfe'],
      ['Cookie', 'a=b'],
      ['User-Agent', 'one'],
      ['User-Agent', 'two'],
      ['Connection', 'keep-alive, X-Hop'],
      ['X-Hop', '1'],
      ['X-Forwarded-For', '1.2.3.4'],
      ['Traceparent', '00-0123456789abcdef0123456789abcdef-0123456789abcdef-01'],
      ['X-Session-Id', 'conversation'],
    ] as const
    const { posts } = await same({ headers, body: chat() })
    expect(posts[0]).toMatch(/x-twice: a, b\r\n/)
    expect(posts[0]).not.toMatch(/x-hop|x-forwarded|cookie/i)
  })

  it('an engine’s refusal', async () => {
    both.answer = (socket) => void socket.write(jsonAnswer('{"error":{"message":"no"}}', '422 Unprocessable Entity'))
    expect((await same({ headers: [key, labelled], body: chat() })).answer.head).toContain('422')
  })

  it('both servers of a gateway on Node serve alike: engines that fail', async () => {
    both.answer = (socket) => void socket.write(jsonAnswer('{}', '500 Internal Server Error'))
    expect((await same({ headers: [key, labelled], body: chat() })).answer.head).toContain('502')
  })

  it('an engine that answers without a body', async () => {
    both.answer = (socket) => void socket.write('HTTP/1.1 204 No Content\r\n\r\n')
    expect((await same({ headers: [key, labelled], body: chat() })).answer.head).toContain('502')
  })

  it.each([false, true])(
    'an upload, every byte of it, under the model’s own name (in chunks: %s)',
    async (inChunks) => {
      both.answer = (socket) =>
        void socket.write(
          'HTTP/1.1 200 OK\r\ncontent-type: text/vtt; charset=utf-8\r\ncontent-length: 7\r\n\r\nWEBVTT\n',
        )
      const sound = Array.from({ length: 50_000 }, (_, i) => String.fromCharCode(((i * 7919) >>> 5) & 255)).join('')
      const form = (model: string) =>
        `--B\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n${sound}\r\n--B\r\nContent-Disposition: form-data; name="model"\r\n\r\n${model}\r\n--B--`
      const type = ['Content-Type', 'multipart/form-data; boundary="B"'] as const
      const { answer, posts } = await same({
        path: '/v1/audio/transcriptions',
        headers: [key, labelled, type],
        body: Buffer.from(form('qwen'), 'latin1'),
        chunked: inChunks,
      })
      expect(posts[0]!.slice(posts[0]!.indexOf('\r\n\r\n') + 4)).toBe(form('Qwen/Qwen3-8B'))
      expect(posts[0]).toContain('content-type: multipart/form-data; boundary="B"\r\n')
      expect(answer.head).toContain('content-type: text/vtt; charset=utf-8')
      expect(answer.body).toBe('WEBVTT\n')
    },
  )

  it.each(['/v1/completions', '/v1/responses', '/v1/messages', '/v1/embeddings', '/tokenize'])(
    'both servers of a gateway on Node serve alike: %s',
    async (path) => {
      expect(
        (await same({ path, headers: [key, labelled], body: chat({ input: 'x', prompt: 'x' }) })).answer.head,
      ).toContain('200 ok')
    },
  )
})
