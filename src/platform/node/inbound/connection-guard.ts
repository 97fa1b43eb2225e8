/**
 * Limits of client connections: their number (`limits.connections`) and the time without a read (`limits.write_ms`).
 */
import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import type { FailureReason } from '../../../failure.ts'
import type { Log } from '../../../ports/log.ts'
import { WheelTimer } from '../wheel-timer.ts'
import { LimitedLine } from './limited-line.ts'
import { WriteLimit, writeLimits } from './write-limit.ts'

export interface ConnectionLimits {
  /** Most client connections at a time. */
  readonly connections: number
  /** Longest time in which a client reads nothing of its response; 0: no limit. */
  readonly writeMs: number
}

interface ConnectionGuardParts {
  /** Called for each connection: a reload may change the limits. */
  readonly limits: () => ConnectionLimits
  readonly count: (reason: Extract<FailureReason, 'connections_full' | 'write_timeout'>) => void
  /** Response to a connection beyond the limit, as an HTTP/1.1 message. null: none, it is closed. */
  readonly refusal: string | null
  readonly log: Log
}

/** Connections being refused at a time, each with a descriptor. Others are refused before their request is read. */
const MAX_REFUSED = 32

/** Descriptors of listeners, logs, health checks and other files. */
const BASE_DESCRIPTORS = 48

const MIN_CONNECTIONS = 16

/** Time for a refused client to send its request and read the response. */
const REFUSAL_MS = 1_000

/**
 * Connections that this process can serve: each may need another one to an engine. Infinity: the limit is not known.
 * @param threads threads of this process that listen
 */
export function connectionsFor(descriptors: number | null, threads: number): number {
  if (descriptors === null) return Infinity
  const share = Math.floor(descriptors / threads)
  return Math.max(MIN_CONNECTIONS, Math.floor((share - MAX_REFUSED - BASE_DESCRIPTORS) / 2))
}

/**
 * Soft limit of open files (`ulimit -n`), which Node raises to the hard limit at its start. null: unknown or
 * unlimited.
 */
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
  readonly #line: LimitedLine

  constructor(parts: ConnectionGuardParts) {
    this.#parts = parts
    this.#line = new LimitedLine((fields) => parts.log.warn('connections_full', fields))
  }

  /** Counts a connection. false: it is beyond the limit and has been refused. */
  admits(socket: Socket): boolean {
    const { connections } = this.#parts.limits()
    if (this.#open >= connections) {
      this.#refuse(socket, connections)
      return false
    }
    this.#open++
    socket.once('close', () => this.#open--)
    return true
  }

  /** Limits the time in which the client reads nothing. `socket`: the one to which responses are written. */
  limitWrites(socket: Socket): void {
    const { limits, count, log } = this.#parts
    writeLimits.set(
      socket,
      new WriteLimit(socket, () => limits().writeMs, {
        ended: () => {
          count('write_timeout')
          log.info('write_timeout', { write_ms: limits().writeMs, remote: socket.remoteAddress ?? null })
        },
      }),
    )
  }

  #refuse(socket: Socket, limit: number): void {
    this.#note(socket, limit)
    socket.on('error', () => {})
    const { refusal } = this.#parts
    if (refusal === null) return void socket.destroy()
    if (this.#refused >= MAX_REFUSED) {
      // The system takes it at once. On a slow network the reset may overtake it.
      socket.write(refusal, 'latin1')
      return void socket.destroy()
    }
    this.#refused++
    const timer = new WheelTimer(() => socket.destroy())
    timer.set(REFUSAL_MS)
    socket.once('close', () => {
      this.#refused--
      timer.cancel()
    })
    // Clients reject a response that precedes their request, and a close with an unread request resets the connection.
    socket.once('data', () => socket.end(refusal, 'latin1'))
    socket.once('end', () => socket.destroy())
  }

  #note(socket: Socket, limit: number): void {
    this.#parts.count('connections_full')
    this.#line.write({
      limit,
      remote: socket.remoteAddress ?? null,
      next: 'Raise the limit of open files (ulimit -n), or limits.connections where that is set.',
    })
  }
}
