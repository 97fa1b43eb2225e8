/** One HTTP/1.1 connection to an engine: one request at a time, heads parsed, body bytes handed over as they came. */
import net from 'node:net'
import tls from 'node:tls'
import { urlHost } from '../../../url.ts'
import { writeTogether } from './response-writer.ts'
import { parseAnswerHead, type ParsedHead } from './response-head.ts'

/**
 * Reads go into one reused buffer a connection: as small as a burst of tokens while that is enough, since thousands of
 * streams wait at a time; bigger where an engine has more to say at once.
 */
const READ_BYTES = [4 * 1024, 16 * 1024, 64 * 1024] as const
const HEAD_LIMIT_BYTES = 32 * 1024
const HEAD_END = '\r\n\r\n'
/** 100 and 103 before an answer. Who sends more floods us, and would for as long as a first byte may take. */
const MOST_INTERIM = 16

/** Who a connection serves at the moment. Called synchronously; `bytes` are valid until the call returns, unless `holds` says they were kept. */
export interface ConnectionUser {
  head(head: ParsedHead): void
  bytes(bytes: Buffer): void
  /** Does anyone still hold the bytes last given? */
  readonly holds: boolean
  /** The connection is gone. `untouched`: not one byte of the answer had come. */
  closed(error: Error | null, untouched: boolean): void
}

/** The engine spoke something that is not the HTTP we accept. */
export class MalformedAnswer extends Error {}

export class Connection {
  readonly socket: net.Socket
  /** It has served a request before this one. */
  reused = false
  /** A connection stood, at some time. */
  connected = false
  /** Since when nobody uses it, epoch ms. */
  idleSince = 0
  readonly #release: (connection: Connection, reusable: boolean) => void
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

  /** @param ca authorities trusted for https; undefined: those Node trusts */
  constructor(url: URL, ca: string | undefined, release: (connection: Connection, reusable: boolean) => void) {
    this.#release = release
    this.socket = url.protocol === 'https:' ? this.#openTls(url, ca) : this.#openPlain(url)
    this.socket.once(url.protocol === 'https:' ? 'secureConnect' : 'connect', () => (this.connected = true))
    this.socket.on('error', (error) => (this.#error = error))
    this.socket.on('end', () => this.#ended())
    this.socket.on('close', () => this.#ended())
  }

  /** Neither TCP nor TLS is through yet. */
  get connecting(): boolean {
    return !this.connected
  }

  use(user: ConnectionUser, head: string, body: readonly Uint8Array[] | null): void {
    this.#user = user
    this.#inHead = true
    this.#interim = 0
    this.#answered = false
    this.#headBytes = null
    writeTogether(this.socket, head, body ?? [])
  }

  /** The message has ended: the connection may serve another. */
  free(reusable: boolean): void {
    this.#user = null
    this.#release(this, reusable && !this.socket.destroyed)
  }

  /** Nobody wants what is still to come. */
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
        // The same memory takes every read, unless a write still holds the last one.
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

  #openTls(url: URL, ca: string | undefined): tls.TLSSocket {
    const host = urlHost(url)
    const socket = tls.connect({
      host,
      port: Number(url.port || 443),
      ...(net.isIP(host) === 0 ? { servername: host } : {}),
      ALPNProtocols: ['http/1.1'],
      ...(ca === undefined ? {} : { ca }),
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
    // Bytes nobody asked for: a confused or hostile engine.
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
        end < 0 || end > HEAD_LIMIT_BYTES || this.#interim > MOST_INTERIM
          ? null
          : parseAnswerHead(rest.toString('latin1', 0, end))
      if (head === null || head.status === 101)
        return this.fail(new MalformedAnswer('the engine sent a malformed head'))
      rest = rest.subarray(end + HEAD_END.length)
      // 100 and 103 come before the answer.
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
