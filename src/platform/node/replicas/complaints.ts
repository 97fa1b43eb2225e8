import type { Log } from '../../../ports.ts'

const NO_REPLICA = 'Something else listens there: `replicas.peers` must name the ports of `replicas.listen`.'
/** Who ended in order is back by then, or missed: a restart takes seconds. */
const MISSED_MS = 60_000
const ADVICE: Readonly<Record<string, string>> = {
  wrong_secret: 'Give all replicas the same `replicas.secret`.',
  no_replica: NO_REPLICA,
  status_503: 'It has too many readers.',
  other_version: 'Its version speaks of its bookings in another way. It is tried again; run the same version everywhere.',
  unreadable: 'It says what is not understood here. It is tried again; run the same version everywhere.',
}

/** What the log says of one replica: that it came, that it went and why, each once until it has stayed for a while. */
export class Complaints {
  readonly #log: Log
  readonly #address: string
  readonly #said = new Set<string>()
  /** It came, went and came again: whether it stays is to be seen. */
  #pending: { readonly version: string } | null = null
  #joins = 0
  /** It ended in order, and nobody has been there since. */
  #left: { readonly replica: string | null; readonly at: number } | null = null
  readonly #missedMs: number

  /** @param haste all waits are so many times shorter */
  constructor(log: Log, address: string, haste: number) {
    this.#log = log
    this.#address = address
    this.#missedMs = MISSED_MS / haste
  }

  joined(replica: string, version: string): void {
    this.#left = null
    if (++this.#joins > 2) this.#pending = { version }
    else this.#log.info('replica_joined', { address: this.#address, replica, version })
  }

  left(replica: string | null, bookings: number): void {
    this.#log.info('replica_left', { address: this.#address, replica, bookings })
    this.#left = { replica, at: performance.now() }
  }

  away(why: string, replica: string | null, error?: unknown): void {
    this.#pending = null
    const advice = ADVICE[why] ?? (why.startsWith('HPE_') ? NO_REPLICA : null)
    if (advice === null && this.#left !== null) return this.#missed(this.#left, why)
    const next = advice ?? 'It is tried again. Until it is back its work is not known here, and it chooses without knowing of ours.'
    this.#once(why, { replica, why, next, ...(error === undefined ? {} : { error }) })
  }

  #missed({ replica, at }: { readonly replica: string | null; readonly at: number }, why: string): void {
    if (performance.now() - at < this.#missedMs) return
    this.#once('left', { replica, why, next: 'It ended in order and has not come back. It is tried again; where it is to stay away, take it out of `replicas.peers`.' })
  }

  #once(what: string, fields: Readonly<Record<string, unknown>>): void {
    if (this.#said.has(what)) return
    this.#said.add(what)
    this.#log.warn('replica_away', { address: this.#address, ...fields })
  }

  /** It has stayed. */
  over(replica: string | null): void {
    if (this.#pending !== null) this.#log.info('replica_joined', { address: this.#address, replica, ...this.#pending })
    this.#pending = null
    this.#joins = 0
    this.#said.clear()
  }
}
