/**
 * A gateway in front of one raw engine, and a raw client. A request with a host in capitals is handled by node:http and
 * Hono instead of the own HTTP/1.1 server, so a test can send the same request to both servers.
 */
import { once } from 'node:events'
import net from 'node:net'
import { afterAll, afterEach, beforeAll } from 'vitest'
import { gatewayDocument, gatewayKeys } from '../../contracts/gateway.ts'
import { startNodeGateway, type LogLine } from '../../kit/node-gateway.ts'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { parseRaw, type RawAnswer } from '../http1/wire.ts'

export const servers = { plain: 'gateway.test', adapter: 'Gateway.Test' } as const
export type ServerName = keyof typeof servers

export interface BothServers {
  readonly port: number
  /** POSTs that the engine received, head and body. */
  readonly posts: string[]
  /** Entries of the log. */
  readonly lines: LogLine[]
  readonly engine: FakeEngine
  /** Responds to the next POSTs. */
  answer: (socket: net.Socket, request: string) => void
  close(): Promise<void>
}

const WHOLE = '{"choices":[{"text":"x"}],"usage":{"prompt_tokens":2,"completion_tokens":1}}'
export const jsonAnswer = (body = WHOLE, status = '200 OK'): string =>
  `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`

type Limits = Readonly<Record<string, unknown>>

/** Opens both servers and stores them in `both`. `limits` replaces those of `gatewayDocument`. */
export async function openBothServers(limits: Limits = {}, both = {} as BothServers): Promise<BothServers> {
  const posts: string[] = []
  const engine = await FakeEngine.open({
    'GET *': { body: '' },
    '*': ({ socket, raw }) => {
      posts.push(raw)
      both.answer(socket, raw)
    },
  })
  const base = gatewayDocument([engine.url])
  const gateway = await startNodeGateway({
    ...base,
    limits: { ...(base['limits'] as object), ...limits },
    log: { level: 'info' },
  })
  return Object.assign(both, {
    port: Number(new URL(gateway.url).port),
    posts,
    lines: gateway.lines,
    engine,
    answer: (socket: net.Socket) => void socket.write(jsonAnswer()),
    close: async () => {
      await gateway.stop(AbortSignal.abort())
      await engine.close()
    },
  } satisfies BothServers)
}

/**
 * Opens both servers before the tests of a file, resets them after each test and closes them after all. `connect`
 * opens a connection that is closed after its test.
 */
export function useBothServers(limits: Limits = {}): {
  readonly both: BothServers
  connect(): RawClient
} {
  const both = {} as BothServers
  const clients: RawClient[] = []
  beforeAll(() => openBothServers(limits, both).then(() => undefined))
  afterAll(() => both.close())
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.close()
    both.answer = (socket) => void socket.write(jsonAnswer())
    both.posts.length = 0
    both.lines.length = 0
  })
  return {
    both,
    connect: () => {
      const client = new RawClient(both.port)
      clients.push(client)
      return client
    },
  }
}

export const key = `authorization: Bearer ${gatewayKeys.broad}\r\n`
/** Uses the engine's model name, so the gateway edits nothing. */
export const chatBody = (content = 'Hello', more: object = {}): string =>
  JSON.stringify({ model: 'Qwen/Qwen3-8B', messages: [{ role: 'user', content }], ...more })

/** A request as text. `framing` replaces the content-length; `version` is the HTTP version. */
export function requestText(
  host: string,
  {
    headers = key,
    body = chatBody(),
    framing,
    version = '1.1',
  }: { headers?: string; body?: string; framing?: string; version?: string } = {},
): string {
  return `POST /v1/chat/completions HTTP/${version}\r\nhost: ${host}\r\ncontent-type: application/json\r\n${headers}${framing ?? `content-length: ${Buffer.byteLength(body)}`}\r\n\r\n${body}`
}

/** A connection whose responses are read one by one. */
export class RawClient {
  readonly socket: net.Socket
  #text = ''
  closed = false

  constructor(port: number) {
    this.socket = net.connect(port, '127.0.0.1')
    this.socket.on('error', () => {})
    this.socket.on('data', (bytes: Buffer) => (this.#text += bytes.toString('latin1')))
    this.socket.on('close', () => (this.closed = true))
  }

  send(text: string | Uint8Array): this {
    if (typeof text === 'string') this.socket.write(text, 'latin1')
    else this.socket.write(text)
    return this
  }

  /** Bytes that have arrived and were not read yet. */
  get pending(): string {
    return this.#text
  }

  /** Reads the next response; one without a length or chunks ends with the connection. */
  async answer(): Promise<RawAnswer> {
    for (;;) {
      const parsed = parseRaw(this.#text)
      if (parsed.whole) {
        const { body, head } = parsed
        const chunks = head.includes('transfer-encoding: chunked')
        const end = this.#text.indexOf('\r\n\r\n') + 4
        this.#text = this.#text.slice(chunks ? this.#text.indexOf('0\r\n\r\n', end) + 5 : end + body.length)
        return parsed
      }
      if (this.closed) return parsed
      await Promise.race([once(this.socket, 'data'), once(this.socket, 'close')])
    }
  }

  /** Reads an interim response, which is only a head. */
  async interim(): Promise<string> {
    while (!this.#text.includes('\r\n\r\n')) await once(this.socket, 'data')
    const end = this.#text.indexOf('\r\n\r\n') + 4
    const head = this.#text.slice(0, end)
    this.#text = this.#text.slice(end)
    return head
  }

  async close(): Promise<void> {
    this.socket.destroy()
    if (!this.closed) await once(this.socket, 'close')
  }
}
