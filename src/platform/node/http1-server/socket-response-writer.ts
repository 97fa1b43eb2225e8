/** One answer on a plain connection: its head is put together here and leaves with the first bytes. */
import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { limitWrite } from './connection-guard.ts'
import { chunkOf, LAST_CHUNK } from './chunked.ts'
import { writeTogether } from './write-coalesced.ts'
import type { ResponseWriter } from './response-writer.ts'

/** The connection an answer goes out on. */
export interface LineOwner {
  readonly socket: Socket
  /** Seconds it may idle, as clients are told. */
  readonly idleS: number
  /** Asked when the head is written: may it serve another request? */
  lasts(): boolean
  /** Told once: the answer is complete. `lasts`: what the client was told. */
  answered(lasts: boolean): void
}

// oxlint-disable-next-line no-control-regex -- control bytes are what it looks for
const NO_VALUE = /[^\t\x20-\x7e\x80-\xff]/

export class SocketResponseWriter implements ResponseWriter {
  readonly #owner: LineOwner
  readonly takesChunks = true
  begun = false
  /** Written with the next bytes; null: it has been. */
  #head: string | null = null
  #chunks = false
  #lasts = true
  #over = false
  #onDrain: (() => void) | null = null

  constructor(owner: LineOwner) {
    this.#owner = owner
  }

  get socket(): Socket {
    return this.#owner.socket
  }

  get gone(): boolean {
    return this.#owner.socket.destroyed
  }

  get holds(): boolean {
    return this.#owner.socket.writableLength > 0
  }

  /** Throws on a value that no header may have. */
  head(status: number, headers: readonly string[], framed: boolean): void {
    let text = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Unknown'}\r\n`
    let known = framed
    let dated = false
    for (let i = 0; i < headers.length; i += 2) {
      const name = headers[i]!
      const value = headers[i + 1]!
      if (NO_VALUE.test(value)) throw new TypeError(`invalid character in header ${name}`)
      known ||= name === 'content-length'
      dated ||= name === 'date'
      text += `${name}: ${value}\r\n`
    }
    this.#chunks = !known
    this.#lasts = this.#owner.lasts()
    if (!known) text += 'transfer-encoding: chunked\r\n'
    if (!dated) text += `date: ${dateNow()}\r\n`
    text += this.#lasts
      ? `connection: keep-alive\r\nkeep-alive: timeout=${this.#owner.idleS}\r\n\r\n`
      : 'connection: close\r\n\r\n'
    this.#head = text
    this.begun = true
  }

  write(bytes: Uint8Array): boolean {
    if (bytes.length === 0 || this.#over) return true
    return this.#send(this.#chunks ? chunkOf([bytes]) : [bytes])
  }

  flush(): void {
    if (this.#head !== null) this.#send([])
  }

  end(): void {
    if (this.#over) return
    if (this.#chunks) this.#send([LAST_CHUNK])
    else this.flush()
    this.#over = true
    if (this.holds) limitWrite(this.#owner.socket)
    this.#owner.answered(this.#lasts)
  }

  cut(): void {
    if (this.#over) return
    this.flush()
    this.#over = true
    this.#owner.socket.destroySoon()
  }

  destroy(): void {
    // The answer is complete: the connection is no longer this one's.
    if (this.#over) return
    this.#over = true
    this.#owner.socket.destroy()
  }

  drained(tell: () => void): void {
    this.#onDrain = tell
    limitWrite(this.#owner.socket)
  }

  /** The socket has taken all. */
  drain(): void {
    const tell = this.#onDrain
    this.#onDrain = null
    tell?.()
  }

  #send(pieces: readonly Uint8Array[]): boolean {
    const { socket } = this.#owner
    const head = this.#head
    this.#head = null
    // Whoever writes hears of it from the connection.
    if (socket.destroyed) return true
    if (head === null && pieces.length === 1) return socket.write(pieces[0]!)
    return writeTogether(socket, head ?? '', pieces)
  }
}

let dateSecond = 0
let dateText = ''

/** As heads say it (RFC 9110, 6.6.1), made once a second. */
function dateNow(): string {
  const now = Date.now()
  const second = Math.floor(now / 1000)
  if (second !== dateSecond) {
    dateSecond = second
    dateText = new Date(now).toUTCString()
  }
  return dateText
}
