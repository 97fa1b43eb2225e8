/** One connection to a fake engine: reads requests one after the other, and writes their replies. */
import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { Piece, FakeAnswer, Route } from './fake-answer.ts'
import { EngineRequest } from './engine-request.ts'

const NOTHING = Buffer.alloc(0)
/** For another protocol, such as TLS. */
const BAD_REQUEST = 'HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n'
const LAST_CHUNK = '0\r\n\r\n'

export class EngineConnection {
  readonly #socket: Socket
  readonly #number: number
  readonly #route: (request: EngineRequest) => Route
  /** Response that is sent at the head of a request, before its body is read. null: none. */
  readonly #refusal: () => string | null
  #received: Buffer = Buffer.alloc(0)
  #isBusy = false
  #isRefused = false

  constructor(
    socket: Socket,
    number: number,
    { route, refusal }: { readonly route: (request: EngineRequest) => Route; readonly refusal: () => string | null },
  ) {
    this.#socket = socket
    this.#number = number
    this.#route = route
    this.#refusal = refusal
  }

  begin(): void {
    this.#socket.on('data', (bytes: Buffer) => {
      this.#received = this.#received.length === 0 ? bytes : Buffer.concat([this.#received, bytes])
      const refusal = this.#refusal()
      if (this.#isRefused) this.#received = NOTHING
      else if (refusal !== null && this.#received.toString('latin1', 0, 4) === 'POST') this.#refuse(refusal)
      else if (!/^[A-Z]/.test(this.#received.toString('latin1', 0, 1))) this.#socket.end(BAD_REQUEST)
      else if (!this.#isBusy) void this.#serve()
    })
  }

  /** The rest of the request is read and ignored. */
  #refuse(refusal: string): void {
    this.#received = NOTHING
    this.#isRefused = true
    this.#socket.end(refusal)
  }

  async #serve(): Promise<void> {
    this.#isBusy = true
    for (let request = this.#next(); request !== null; request = this.#next()) {
      const route = this.#route(request)
      const answer = typeof route === 'function' ? await route(request) : route
      if (answer !== undefined) await this.#answer(request, answer)
    }
    this.#isBusy = false
  }

  /** Takes the next complete request from the received bytes. */
  #next(): EngineRequest | null {
    const end = this.#received.indexOf('\r\n\r\n')
    if (end < 0) return null
    const head = this.#received.toString('latin1', 0, end)
    const rest = this.#received.subarray(end + 4)
    const body = /^transfer-encoding: *chunked/im.test(head) ? chunkedBody(rest) : bodyWithLength(head, rest)
    if (body === null) return null
    this.#received = rest.subarray(body.size)
    return new EngineRequest(this.#socket, this.#number, head, body.bytes)
  }

  async #answer(request: EngineRequest, answer: FakeAnswer): Promise<void> {
    const { raw, pieces, version, end = version === '1.0' ? 'truncate' : 'keep' } = answer
    const body = bodyOf(answer)
    const isChunked = raw === undefined && version === undefined && pieces !== undefined && !hasLength(answer)
    const isWhole = end === 'keep' || end === 'close'
    // One write, so that no part of a short response can be lost to a reset.
    await this.#write(
      Buffer.concat([
        raw === undefined ? headOf(answer, body, isChunked) : bytesOf(raw),
        request.method === 'HEAD' ? NOTHING : body,
      ]),
    )
    const steps = iteratorOf(pieces ?? [])
    for (let step = await steps.next(); step.done !== true; step = await steps.next()) {
      if (this.#socket.destroyed) return
      await this.#piece(step.value, isChunked)
    }
    if (isChunked && isWhole) await this.#write(Buffer.from(LAST_CHUNK))
    if (isWhole || version === '1.0') request.finish('complete')
    else if (end !== 'hang') request.finish('truncated')
    if (end === 'close' || end === 'truncate') this.#socket.end()
    else if (end === 'reset') this.#socket.resetAndDestroy()
    else if (end === 'hang') await request.ended
  }

  async #piece(piece: Piece, isChunked: boolean): Promise<void> {
    if (typeof piece === 'number') return new Promise((resolve) => setTimeout(resolve, piece))
    if (piece instanceof Promise) return void (await Promise.race([piece, this.#closed()]))
    const bytes = typeof piece === 'string' ? Buffer.from(piece) : Buffer.from(piece)
    if (bytes.length === 0) return
    const framed = [Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]
    await this.#write(isChunked ? Buffer.concat(framed) : bytes)
  }

  #closed(): Promise<void> {
    return new Promise((resolve) => this.#socket.once('close', () => resolve()))
  }

  /** Resolves when the kernel has accepted the bytes, so a client that stops reading delays it. */
  #write(bytes: Uint8Array): Promise<void> {
    if (bytes.length === 0 || this.#socket.destroyed) return Promise.resolve()
    return new Promise((resolve) => {
      const done = (): void => {
        this.#socket.off('close', done)
        resolve()
      }
      this.#socket.once('close', done)
      this.#socket.write(bytes, done)
    })
  }
}

/** Not `for await`, which waits for a promise without looking at the connection. */
function iteratorOf(pieces: NonNullable<FakeAnswer['pieces']>): Iterator<Piece> | AsyncIterator<Piece> {
  return Symbol.asyncIterator in pieces ? pieces[Symbol.asyncIterator]() : pieces[Symbol.iterator]()
}

const hasLength = ({ headers = {} }: FakeAnswer): boolean =>
  Object.keys(headers).some((name) => name.toLowerCase() === 'content-length')

const bytesOf = (raw: string | Uint8Array): Uint8Array => (typeof raw === 'string' ? Buffer.from(raw, 'latin1') : raw)

function bodyOf({ body }: FakeAnswer): Buffer {
  if (body === undefined) return NOTHING
  if (body instanceof Uint8Array) return Buffer.from(body)
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
}

function headOf(answer: FakeAnswer, body: Buffer, isChunked: boolean): Buffer {
  const { status = 200, headers = {}, version = '1.1' } = answer
  const has = (name: string): boolean => Object.keys(headers).some((one) => one.toLowerCase() === name)
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const isJson = answer.body !== undefined && typeof answer.body !== 'string' && !(answer.body instanceof Uint8Array)
  if (isJson && !has('content-type')) lines.push('content-type: application/json\r\n')
  if (!has('date')) lines.push(`date: ${new Date().toUTCString()}\r\n`)
  // Otherwise a client may send its next request on the connection that ends.
  if (answer.end === 'close' && !has('connection')) lines.push('connection: close\r\n')
  if (isChunked) lines.push('transfer-encoding: chunked\r\n')
  else if (version === '1.1' && !has('content-length') && answer.pieces === undefined)
    lines.push(`content-length: ${body.length}\r\n`)
  return Buffer.from(
    `HTTP/${version} ${status} ${STATUS_CODES[status] ?? 'Unknown'}\r\n${lines.join('')}\r\n`,
    'latin1',
  )
}

interface ReceivedBody {
  readonly bytes: Buffer
  /** Bytes on the wire, with their framing. */
  readonly size: number
}

function bodyWithLength(head: string, rest: Buffer): ReceivedBody | null {
  const size = Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? 0)
  return rest.length < size ? null : { bytes: rest.subarray(0, size), size }
}

/** Null: the last chunk has not arrived. Trailers are not supported. */
function chunkedBody(rest: Buffer): ReceivedBody | null {
  const chunks: Buffer[] = []
  for (let at = 0; ;) {
    const line = rest.indexOf('\r\n', at)
    if (line < 0) return null
    const size = Number.parseInt(rest.toString('latin1', at, line), 16)
    const begin = line + 2
    if (rest.length < begin + size + 2) return null
    if (size === 0) return { bytes: Buffer.concat(chunks), size: begin + 2 }
    chunks.push(rest.subarray(begin, begin + size))
    at = begin + size + 2
  }
}
