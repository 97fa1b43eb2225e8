/** A request as a fake engine received it. */
import type { Socket } from 'node:net'

export class EngineRequest {
  readonly socket: Socket
  /** Number of its connection, from 1. */
  readonly connection: number
  readonly method: string
  /** With the query. */
  readonly target: string
  /** By lower-case name; repeated ones are joined with `, `. */
  readonly headers: Readonly<Record<string, string>>
  /** Head as received (Latin-1), without the blank line. */
  readonly head: string
  readonly bytes: Buffer
  /** Of its response: `truncated` by the engine, or `aborted` by the client before its end. */
  state: 'open' | 'complete' | 'truncated' | 'aborted' = 'open'
  readonly #ended = Promise.withResolvers<void>()

  constructor(socket: Socket, connection: number, head: string, bytes: Buffer) {
    this.socket = socket
    this.connection = connection
    this.head = head
    this.bytes = bytes
    const [first = '', ...lines] = head.split('\r\n')
    const [method = '', target = ''] = first.split(' ')
    this.method = method
    this.target = target
    this.headers = headersOf(lines)
    socket.once('close', () => this.finish('aborted'))
  }

  /** Without the query. */
  get path(): string {
    return this.target.split('?', 1)[0]!
  }

  /** Head and body as received (Latin-1), without the framing of chunks. */
  get raw(): string {
    return `${this.head}\r\n\r\n${this.bytes.toString('latin1')}`
  }

  get text(): string {
    return this.bytes.toString('utf8')
  }

  get json(): Readonly<Record<string, unknown>> {
    return JSON.parse(this.text === '' ? '{}' : this.text) as Readonly<Record<string, unknown>>
  }

  /** A request of the gateway itself: it watches each engine whose output is overdue, as on a busy machine. */
  get isTrial(): boolean {
    return this.text.includes('"Are you there?"')
  }

  /** Address of the engine that the client connected to. */
  get address(): string {
    return this.socket.localAddress ?? ''
  }

  /** Resolves when the response is complete or its client is gone. */
  get ended(): Promise<void> {
    return this.#ended.promise
  }

  finish(state: Exclude<EngineRequest['state'], 'open'>): void {
    if (this.state !== 'open') return
    this.state = state
    this.#ended.resolve()
  }
}

function headersOf(lines: readonly string[]): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {}
  for (const line of lines) {
    const colon = line.indexOf(':')
    const name = line.slice(0, colon).toLowerCase()
    const value = line.slice(colon + 1).trim()
    headers[name] = headers[name] === undefined ? value : `${headers[name]}, ${value}`
  }
  return headers
}
