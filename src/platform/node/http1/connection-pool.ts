/** Keep-alive connections to one engine. */
import { type Certificates, EngineConnection } from './engine-connection.ts'

interface ConnectionPoolOptions {
  /** Idle connections are closed after this time: before the engine closes them during the next request. */
  readonly idleMs: number
  readonly maxIdle: number
  readonly now: () => number
  /** Certificates of a new connection. Throws if their files cannot be used. */
  readonly certificates: () => Certificates
  /** Closes the idle connections to all engines. false: there was none. */
  readonly freeDescriptors: () => boolean
}

export class ConnectionPool {
  readonly #url: URL
  readonly #options: ConnectionPoolOptions
  /** Last in, first out, so that connections in excess become idle for long and are closed. */
  readonly #idle: EngineConnection[] = []
  readonly #all = new Set<EngineConnection>()
  #isClosed = false

  constructor(url: URL, options: ConnectionPoolOptions) {
    this.#url = url
    this.#options = options
  }

  /** Returns a connection for one request. `fresh`: a new one, which the engine cannot be closing already. */
  take(fresh: boolean): EngineConnection {
    if (!fresh) {
      for (let idle = this.#idle.pop(); idle !== undefined; idle = this.#idle.pop()) {
        if (idle.socket.destroyed || this.#stale(idle)) {
          idle.drop()
          continue
        }
        idle.reused = true
        return idle
      }
    }
    const connection = new EngineConnection(this.#url, this.#options.certificates(), (done, reusable) =>
      this.#back(done, reusable),
    )
    this.#all.add(connection)
    if (this.#isClosed) connection.socket.unref()
    return connection
  }

  /** Closes connections that have been idle for `idleMs`. */
  sweep(): void {
    while (this.#idle.length > 0 && this.#stale(this.#idle[0]!)) this.#idle.shift()!.drop()
  }

  get open(): number {
    return this.#all.size
  }

  /** Closes the idle connections. false: there was none. */
  closeIdle(): boolean {
    const idle = this.#idle.splice(0)
    for (const connection of idle) connection.drop()
    return idle.length > 0
  }

  /** Closes each connection as soon as it is idle. Until then, none keeps the process running. */
  close(): void {
    this.#isClosed = true
    this.closeIdle()
    for (const { socket } of this.#all) socket.unref()
  }

  freeDescriptors(): boolean {
    return this.#options.freeDescriptors()
  }

  #stale(connection: EngineConnection): boolean {
    return this.#options.now() - connection.idleSince >= this.#options.idleMs
  }

  #back(connection: EngineConnection, reusable: boolean): void {
    if (reusable && !this.#isClosed && this.#idle.length < this.#options.maxIdle) {
      connection.idleSince = this.#options.now()
      this.#idle.push(connection)
      return
    }
    this.#all.delete(connection)
    const at = this.#idle.indexOf(connection)
    if (at >= 0) this.#idle.splice(at, 1)
    if (!connection.socket.destroyed) connection.drop()
  }
}
