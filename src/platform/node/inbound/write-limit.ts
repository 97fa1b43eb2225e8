/** Time in which a client reads nothing of its response (`limits.write_ms`). */
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { WheelTimer } from '../wheel-timer.ts'

/** Checks of a client that reads nothing, within its limit. */
const CHECKS = 20

export const writeLimits = new WeakMap<Socket, WriteLimit>()

/** Starts the write timeout of a socket that has not taken all that was written. */
export function limitWrite(socket: Socket): void {
  writeLimits.get(socket)?.watch()
}

/** Bytes that the client has not taken. libuv counts down one large write as the system takes it; Node does not. */
const waitingBytes = (socket: Socket): number =>
  socket.writableLength +
  // oxlint-disable-next-line no-underscore-dangle -- node:net has no public API for it
  ((socket as Socket & { readonly _handle?: { readonly writeQueueSize?: number } })._handle?.writeQueueSize ?? 0)

/** Counts checks instead of time, because time in which this process did not run is not the client's. */
export class WriteLimit {
  readonly #socket: Socket
  readonly #limitMs: () => number
  readonly #ended: () => void
  readonly #timer = new WheelTimer(() => this.#check())
  #isWatching = false
  #waiting = 0
  #checks = 0

  constructor(socket: Socket, limitMs: () => number, { ended }: { readonly ended: () => void }) {
    this.#socket = socket
    this.#limitMs = limitMs
    this.#ended = ended
  }

  watch(): void {
    if (this.#isWatching || this.#limitMs() <= 0) return
    this.#isWatching = true
    this.#waiting = waitingBytes(this.#socket)
    this.#checks = 0
    this.#timer.set(this.#limitMs() / CHECKS)
  }

  #check(): void {
    const socket = this.#socket
    const waiting = waitingBytes(socket)
    if (socket.destroyed || waiting === 0) {
      this.#isWatching = false
      return
    }
    this.#checks = waiting < this.#waiting ? 0 : this.#checks + 1
    this.#waiting = waiting
    if (this.#checks < CHECKS) return this.#timer.set(this.#limitMs() / CHECKS)
    this.#isWatching = false
    this.#ended()
    // The reset also frees what the system has buffered. Node cannot reset a TLS connection.
    if (socket instanceof TLSSocket) socket.destroy()
    else socket.resetAndDestroy()
  }
}
