/** Bounds what clients' connections hold: how many there are (`limits.connections`), and how long one may read nothing (`limits.write_ms`). */
import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import type { FailureReason } from '../../../failure.ts'
import type { Log } from '../../../ports.ts'
import { Deadline } from '../deadline.ts'

export interface ConnectionLimits {
  /** Connections of clients that are served at once. */
  readonly connections: number
  /** Longest time a client may read nothing of its answer; 0: no limit. */
  readonly writeMs: number
}

export interface ConnectionGuardParts {
  /** Asked each time: a reload may change them. */
  readonly limits: () => ConnectionLimits
  readonly count: (reason: Extract<FailureReason, 'connections_full' | 'write_timeout'>) => void
  /** The answer to a connection beyond the limit, as bytes of HTTP/1.1. */
  readonly refusal: string
  readonly log: Log
}

/** Connections that are being refused at once, each of which has a descriptor. Beyond it they are answered before their request is read. */
const MOST_REFUSED = 32
/** Listeners, logs, probes, what else the process has open. */
const BASE_DESCRIPTORS = 48
const FEWEST_CONNECTIONS = 16
/** A refused client has this long to send its request and read the answer. */
const REFUSAL_MS = 1_000
const LINE_EVERY_MS = 1_000
/** How often a client that reads nothing is looked at within its limit. */
const LOOKS = 20

/**
 * Connections that this process can serve: each may need another one to an engine. Infinity: the limit is not known.
 * @param threads threads of this process that listen
 */
export function connectionsFor(descriptors: number | null, threads: number): number {
  if (descriptors === null) return Infinity
  const share = Math.floor(descriptors / threads)
  return Math.max(FEWEST_CONNECTIONS, Math.floor((share - MOST_REFUSED - BASE_DESCRIPTORS) / 2))
}

/** The soft limit of open files (`ulimit -n`), which Node raises to the hard one at its start. null: not known, or none. */
export function descriptorLimit(): number | null {
  try {
    const found = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))
    return found === null ? null : Number(found[1])
  } catch {
    return null
  }
}

export class ConnectionGuard {
  readonly #parts: ConnectionGuardParts
  #open = 0
  #refused = 0
  #nextLineAt = -Infinity
  #suppressed = 0

  constructor(parts: ConnectionGuardParts) {
    this.#parts = parts
  }

  /** false: the connection is beyond the limit, and is answered here. */
  admits(socket: Socket): boolean {
    const { limits, count, log } = this.#parts
    const { connections } = limits()
    if (this.#open >= connections) {
      this.#refuse(socket, connections)
      return false
    }
    this.#open++
    socket.once('close', () => this.#open--)
    writeLimits.set(
      socket,
      new WriteLimit(socket, () => limits().writeMs, {
        ended: () => {
          count('write_timeout')
          log.info('write_timeout', { write_ms: limits().writeMs, remote: socket.remoteAddress ?? null })
        },
      }),
    )
    return true
  }

  #refuse(socket: Socket, limit: number): void {
    this.#note(socket, limit)
    socket.on('error', () => {})
    if (this.#refused >= MOST_REFUSED) {
      // Small enough for the system to take at once. A reset behind it may overtake it where the network is slow.
      socket.write(this.#parts.refusal, 'latin1')
      return void socket.destroy()
    }
    this.#refused++
    const deadline = new Deadline(() => socket.destroy())
    deadline.set(REFUSAL_MS)
    socket.once('close', () => {
      this.#refused--
      deadline.cancel()
    })
    // Clients take an answer that comes before their request for garbage, and closing with a request unread resets the connection.
    socket.once('data', () => socket.end(this.#parts.refusal, 'latin1'))
    socket.once('end', () => socket.destroy())
  }

  #note(socket: Socket, limit: number): void {
    const { count, log } = this.#parts
    count('connections_full')
    const now = performance.now()
    if (now < this.#nextLineAt) {
      this.#suppressed++
      return
    }
    this.#nextLineAt = now + LINE_EVERY_MS
    log.warn('connections_full', {
      limit,
      remote: socket.remoteAddress ?? null,
      next: 'Raise the limit of open files (ulimit -n), or limits.connections where that is set.',
      ...(this.#suppressed === 0 ? {} : { suppressed: this.#suppressed }),
    })
    this.#suppressed = 0
  }
}

const writeLimits = new WeakMap<Socket, WriteLimit>()

/** Call when the socket has not taken all that was written: a client that takes none of it for too long is cut off. */
export function limitWrite(socket: Socket): void {
  writeLimits.get(socket)?.watch()
}

/** What the client has not taken. libuv counts down what the system takes of one large write; Node does not. */
const waitingBytes = (socket: Socket): number =>
  socket.writableLength +
  // oxlint-disable-next-line no-underscore-dangle -- node:net measures progress by it, and has no public name for it
  ((socket as Socket & { readonly _handle?: { readonly writeQueueSize?: number } })._handle?.writeQueueSize ?? 0)

/** Looks are counted, not time: while this process stood still, the client had no chance. */
class WriteLimit {
  readonly #socket: Socket
  readonly #limitMs: () => number
  readonly #ended: () => void
  readonly #deadline = new Deadline(() => this.#look())
  #isWatching = false
  #waiting = 0
  #looks = 0

  constructor(socket: Socket, limitMs: () => number, { ended }: { readonly ended: () => void }) {
    this.#socket = socket
    this.#limitMs = limitMs
    this.#ended = ended
  }

  watch(): void {
    if (this.#isWatching || this.#limitMs() <= 0) return
    this.#isWatching = true
    this.#waiting = waitingBytes(this.#socket)
    this.#looks = 0
    this.#deadline.set(this.#limitMs() / LOOKS)
  }

  #look(): void {
    const socket = this.#socket
    const waiting = waitingBytes(socket)
    if (socket.destroyed || waiting === 0) {
      this.#isWatching = false
      return
    }
    this.#looks = waiting < this.#waiting ? 0 : this.#looks + 1
    this.#waiting = waiting
    if (this.#looks < LOOKS) return this.#deadline.set(this.#limitMs() / LOOKS)
    this.#isWatching = false
    this.#ended()
    socket.resetAndDestroy()
  }
}
