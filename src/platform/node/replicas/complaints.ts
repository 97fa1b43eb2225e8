import type { Log } from '../../../ports.ts'

const NO_REPLICA = 'Something else listens there: `replicas.peers` must name the ports of `replicas.listen`.'
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

  constructor(log: Log, address: string) {
    this.#log = log
    this.#address = address
  }

  joined(replica: string, version: string): void {
    if (++this.#joins > 2) this.#pending = { version }
    else this.#log.info('replica_joined', { address: this.#address, replica, version })
  }

  away(why: string, replica: string | null, error?: unknown): void {
    this.#pending = null
    if (this.#said.has(why)) return
    this.#said.add(why)
    const next = ADVICE[why] ?? (why.startsWith('HPE_') ? NO_REPLICA : 'It is tried again. Until it is back its work is not known here, and it chooses without knowing of ours.')
    this.#log.warn('replica_away', { address: this.#address, replica, why, next, ...(error === undefined ? {} : { error }) })
  }

  /** It has stayed. */
  over(replica: string | null): void {
    if (this.#pending !== null) this.#log.info('replica_joined', { address: this.#address, replica, ...this.#pending })
    this.#pending = null
    this.#joins = 0
    this.#said.clear()
  }
}
