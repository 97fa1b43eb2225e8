/** One HTTP/1.1 connection to an engine: one request at a time; heads are parsed, body bytes are passed on as read. */
import net from 'node:net'
import tls from 'node:tls'
import { urlHost } from '../../../url.ts'
import { writeTogether } from './response-writer.ts'
import { parseResponseHead, type ResponseHead } from './response-head.ts'

/**
 * Sizes of the reused read buffer of a connection. It starts small, because thousands of streams wait at a time, and
 * grows when a read fills it.
 */
const READ_BYTES = [4 * 1024, 16 * 1024, 64 * 1024] as const
const HEAD_LIMIT_BYTES = 32 * 1024
const HEAD_END = '\r\n\r\n'
/**
 * Most interim responses (100, 103): an engine that sends them without end would hold the request until its first-byte
 * timeout.
 */
const MAX_INTERIM = 16

/** User of a connection. Called synchronously; `bytes` are valid until the call returns, unless `holds` is true. */
export interface ConnectionUser {
  head(head: ResponseHead): void
  bytes(bytes: Buffer): void
  /** The bytes last passed are still in use. */
  readonly holds: boolean
  /** Handles the end of the connection. `untouched`: no byte of a response had arrived. */
  closed(error: Error | null, untouched: boolean): void
}

/** The engine's response is not valid HTTP/1.1. */
export class MalformedResponse extends Error {}

/** Of a TLS connection to an engine, PEM. */
export type Certificates = Pick<tls.ConnectionOptions, 'ca' | 'cert' | 'key'>

export class EngineConnection {
  readonly socket: net.Socket
  /** It has served a request before this one. */
  reused = false
  /** The connection was established. */
  connected = false
  /** Start of its idle time, epoch ms. */
  idleSince = 0
  readonly #release: (connection: EngineConnection, reusable: boolean) => void
  #user: ConnectionUser | null = null
  /** Index in READ_BYTES. */
  #size = 0
  #buffer = Buffer.allocUnsafeSlow(READ_BYTES[0])
  #held = false
  #inHead = true
  #interim = 0
  #headBytes: Buffer | null = null
  #answered = false
  #error: Error | null = null

  /** @param certificates authorities and certificate for https; absent ones: those Node has */
  constructor(
    url: URL,
    certificates: Certificates,
    release: (connection: EngineConnection, reusable: boolean) => void,
  ) {
    this.#release = release
    this.socket = url.protocol === 'https:' ? this.#openTls(url, certificates) : this.#openPlain(url)
    this.socket.once(url.protocol === 'https:' ? 'secureConnect' : 'connect', () => (this.connected = true))
    this.socket.on('error', (error) => (this.#error = error))
    this.socket.on('end', () => this.#ended())
    this.socket.on('close', () => this.#ended())
  }

  /** The TCP or TLS handshake is not complete. */
  get connecting(): boolean {
    return !this.connected
  }

  use(user: ConnectionUser, head: string, body: readonly Uint8Array[] | null): void {
    this.#user = user
    this.#inHead = true
    this.#interim = 0
    this.#answered = false
    this.#headBytes = null
    if (body === null) this.socket.write(head, 'latin1')
    else writeTogether(this.socket, head, body)
  }

  /** Releases the connection at the end of a message. `reusable`: it may serve another request. */
  free(reusable: boolean): void {
    this.#user = null
    this.#release(this, reusable && !this.socket.destroyed)
  }

  /** Closes the connection without a call to its user. */
  drop(): void {
    this.#user = null
    this.socket.destroy()
  }

  fail(error: Error): void {
    const user = this.#user
    this.#user = null
    this.socket.destroy()
    user?.closed(error, !this.#answered)
  }

  #openPlain(url: URL): net.Socket {
    return net.connect({
      host: urlHost(url),
      port: Number(url.port || 80),
      noDelay: true,
      keepAlive: true,
      onread: {
        // The same memory for every read, unless a write still uses it.
        buffer: () => {
          const bytes = READ_BYTES[this.#size]!
          if (this.#held || this.#buffer.length !== bytes) {
            this.#held = false
            this.#buffer = Buffer.allocUnsafeSlow(bytes)
          }
          return this.#buffer
        },
        callback: (size, buffer) => {
          const full = size === buffer.length
          this.#read(full ? (buffer as Buffer) : (buffer as Buffer).subarray(0, size))
          if (full && this.#size < READ_BYTES.length - 1) this.#size++
          return true
        },
      },
    })
  }

  #openTls(url: URL, certificates: Certificates): tls.TLSSocket {
    const host = urlHost(url)
    const socket = tls.connect({
      host,
      port: Number(url.port || 443),
      ...(net.isIP(host) === 0 ? { servername: host } : {}),
      ALPNProtocols: ['http/1.1'],
      ...certificates,
    })
    socket.setNoDelay(true)
    socket.setKeepAlive(true)
    socket.on('data', (bytes: Buffer) => this.#read(bytes))
    return socket
  }

  #read(bytes: Buffer): void {
    // An exception in a socket callback would end the process.
    try {
      this.#take(bytes)
    } catch (error) {
      this.fail(error instanceof Error ? error : new Error(String(error)))
    }
  }

  #take(bytes: Buffer): void {
    const user = this.#user
    // Bytes without a request: the engine is faulty or hostile.
    if (user === null) return void this.socket.destroy()
    this.#answered = true
    if (!this.#inHead) return this.#body(user, bytes)
    let rest = this.#headBytes === null ? bytes : Buffer.concat([this.#headBytes, bytes])
    for (;;) {
      const end = rest.indexOf(HEAD_END, 0, 'latin1')
      if (end < 0 && rest.length <= HEAD_LIMIT_BYTES) {
        this.#headBytes = Buffer.from(rest)
        return
      }
      const head =
        end < 0 || end > HEAD_LIMIT_BYTES || this.#interim > MAX_INTERIM
          ? null
          : parseResponseHead(rest.toString('latin1', 0, end))
      if (head === null || head.status === 101)
        return this.fail(new MalformedResponse('the engine sent a malformed response head'))
      rest = rest.subarray(end + HEAD_END.length)
      // Interim responses precede the response.
      if (head.status < 200) {
        this.#interim++
        continue
      }
      this.#headBytes = null
      this.#inHead = false
      user.head(head)
      if (this.#user === user && rest.length > 0) this.#body(user, rest)
      return
    }
  }

  #body(user: ConnectionUser, bytes: Buffer): void {
    user.bytes(bytes)
    this.#held = user.holds
  }

  #ended(): void {
    const user = this.#user
    this.#user = null
    this.socket.destroy()
    this.#release(this, false)
    user?.closed(this.#error, !this.#answered)
  }
}
