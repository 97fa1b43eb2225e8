import type { Log } from '../../../ports/log.ts'
import { isServerError } from './connection.ts'

const ADVICE: readonly (readonly [error: RegExp, next: string])[] = [
  [/^WRONGPASS/, 'Correct the user and password in `replicas.url`.'],
  [/^NOAUTH/, 'Add the user and password to `replicas.url`.'],
  // Then the texts for a right that a script lacks, the second of Redis 7.0 and 7.2.
  [
    /^NOPERM|^ERR (ACL failure in script|The user executing the script)/,
    'Grant the rights that docs/replicas.md lists.',
  ],
  [/^MOVED/, 'The server is a node of a cluster: set `replicas.cluster: true`.'],
  [/^OOM/, 'Raise `maxmemory` of the server.'],
]

const UNREACHABLE =
  'The gateway retries. Until the server is back, replicas do not receive the bookings of each other. Check ' +
  '`replicas.url`.'

/** Logs each change of the server's state once, and each kind of rejection once for a connection. */
export class ServerLog {
  isUp = false
  readonly #log: Log
  readonly #logged = new Set<string>()

  constructor(log: Log) {
    this.#log = log
  }

  up(): void {
    if (this.isUp) return
    this.isUp = true
    this.#log.info('replicas_connected')
  }

  down(error: Error): void {
    if (this.isUp) this.#logged.clear()
    this.isUp = false
    this.#once('replicas_disconnected', error)
  }

  /** Logs why a command failed if the server rejected it: the end of a connection is logged by `down`. */
  rejected(error: Error): void {
    if (isServerError(error)) this.#once('replicas_rejected', error)
  }

  #once(event: string, error: Error): void {
    const next = ADVICE.find(([known]) => known.test(error.message))?.[1] ?? UNREACHABLE
    const kind = event + next
    if (this.#logged.has(kind)) return
    this.#logged.add(kind)
    // Node's error for several failed addresses has no message.
    const why = error.message === '' ? ((error as NodeJS.ErrnoException).code ?? error.name) : error.message
    this.#log.warn(event, { why, next })
  }
}
