/** The bookings of one I/O thread, at the thread that keeps the books. */
import { type Admission, endedAs, type Outcome } from '../../../core/contract/contract.ts'
import type { Admitted, Cluster, Lease, Log } from '../../../ports.ts'
import type { AnswerToAdmit, PoolQuestion, ToBooks } from './rpc.ts'

/** Whose thread is gone: no engine's fault. */
const ABANDONED = endedAs('abandoned')

export class ThreadClusterHost {
  readonly #cluster: (pool: number) => Cluster
  readonly #log: Log
  readonly #leases = new Map<number, Lease>()
  #closed = false

  /** @param cluster the pool of that number; throws for one that is not configured */
  constructor(cluster: (pool: number) => Cluster, log: Log) {
    this.#cluster = cluster
    this.#log = log
  }

  /** Bookings of this thread that have not ended. */
  get size(): number {
    return this.#leases.size
  }

  /** Has its effect on the books before it returns; what it returns is the answer. */
  receive(word: ToBooks): unknown {
    switch (word[0]) {
      case 'admit':
        return this.#admit(this.#cluster(word[1]), word[2], word[3])
      case 'resume':
        return this.#cluster(word[1])
          .resume(word[3])
          .then((lease) => this.#keep(word[2], lease))
      case 'renew':
        return this.#renew(word[1])
      case 'release':
        return this.#release(word[1], word[2])
      case 'leg_done':
        return this.#tell(word[1], (lease) => lease.legDone?.(word[2], word[3], word[4]))
      case 'first_token':
        return this.#tell(word[1], (lease) => lease.firstToken(word[2]))
      case 'progress':
        return this.#tell(word[1], (lease) => lease.progress(word[2]))
      case 'pool':
        return this.#ask(word[1], word[2], word[3])
    }
  }

  /** The thread is gone, and its streams with it: gives back what it had booked. Returns how many bookings that were. */
  close(): number {
    this.#closed = true
    const { size } = this.#leases
    for (const number of this.#leases.keys()) this.#release(number, ABANDONED)
    return size
  }

  #admit(cluster: Cluster, number: number, admission: Admission): AnswerToAdmit | Promise<AnswerToAdmit> {
    const admitted = cluster.admitNow?.(admission) ?? null
    if (admitted !== null) return this.#admitted(number, admitted)
    return cluster.admit(admission).then((later) => this.#admitted(number, later))
  }

  #admitted(number: number, admitted: Admitted): AnswerToAdmit {
    if ('refusal' in admitted) return admitted
    const { lease, ...answer } = admitted
    this.#keep(number, lease)
    return answer
  }

  #keep(number: number, lease: Lease): void {
    this.#leases.set(number, lease)
    // Booked for a thread that died meanwhile.
    if (this.#closed) this.#release(number, ABANDONED)
  }

  #release(number: number, outcome: Outcome): void {
    this.#tell(number, (lease) => lease.release(outcome))
    this.#leases.delete(number)
  }

  /** Late words about what has ended are no fault. */
  #tell(number: number, say: (lease: Lease) => Promise<void> | undefined): void {
    const lease = this.#leases.get(number)
    if (lease === undefined) return
    say(lease)?.catch((error: unknown) => this.#log.error('booking_failed', { error }))
  }

  /** false: not known here any more; the thread then resumes it under another number. */
  async #renew(number: number): Promise<boolean> {
    try {
      const lease = this.#leases.get(number)
      await lease?.renew()
      return lease !== undefined
    } catch {
      this.#leases.delete(number)
      return false
    }
  }

  #ask(pool: number, question: PoolQuestion, given: readonly unknown[]): unknown {
    const cluster = this.#cluster(pool)
    const method = cluster[question] as ((...given: readonly unknown[]) => unknown) | undefined
    if (method === undefined) throw new Error(`this pool has no ${question}`)
    return method.apply(cluster, [...given])
  }
}
