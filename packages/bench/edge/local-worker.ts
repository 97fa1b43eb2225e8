/**
 * The built Worker with the state of its pools in the isolate: no object is called. It is the floor of CPU for an
 * isolate that chooses by itself and books afterwards, which would also have to send its bookings.
 */
import type { Admission } from '../../../src/core/contract/admission.ts'
import type { PoolConfig } from '../../../src/core/contract/pool-config.ts'
import { applyEvent } from '../../../src/core/pool/apply-event.ts'
import type { BookingEvent } from '../../../src/core/contract/booking-event.ts'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import worker from '../../../src/worker.ts'

export { ClusterObject, EdgeObject, LimitObject, TtftObject } from '../../../src/worker.ts'

type Env = Parameters<typeof worker.fetch>[1]

/** Methods of ClusterObject that requests without faults call. */
class LocalPool {
  readonly #state = new PoolState({ random: Math.random, epoch: crypto.randomUUID() })

  async configure(version: number, pool: PoolConfig) {
    this.#state.configure(version, pool, Date.now())
  }

  async admit(admission: Admission, events: readonly BookingEvent[]) {
    this.#apply(events)
    const answer = this.#state.admit(admission, Date.now())
    if ('refusal' in answer) return answer
    const { key: _, ...admitted } = answer
    return admitted
  }

  async tell(events: readonly BookingEvent[]) {
    this.#apply(events)
  }

  async renew(key: string) {
    return this.#state.renew(key, Date.now())
  }

  async digest() {
    return this.#state.digest(Date.now())
  }

  #apply(events: readonly BookingEvent[]): void {
    for (const event of events) applyEvent(this.#state, event, Date.now())
  }
}

const pools = new Map<string, LocalPool>()

const namespace = {
  idFromName: (name: string) => name,
  get(name: string) {
    const pool = pools.get(name) ?? new LocalPool()
    pools.set(name, pool)
    return pool
  },
} as unknown as Env['CLUSTER']

export default {
  fetch: (request, env, ctx) => worker.fetch(request, { ...env, CLUSTER: namespace }, ctx),
} satisfies ExportedHandler<Env>
