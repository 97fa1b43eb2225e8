/** Pools of an I/O thread: the state of every pool is in the main thread. */
import type { Admission } from '../../../core/contract/admission.ts'
import type { BookingEvent } from '../../../core/contract/booking-event.ts'
import type { Renewal } from '../../../core/contract/renewal.ts'
import type { Resume } from '../../../core/contract/resume.ts'
import type { AdmitAnswer } from '../../../core/pool/admission-result.ts'
import { RemotePool } from '../../../origin/pools/remote-pool.ts'
import type { PoolMethod, PoolTransport } from '../../../origin/pools/pool-transport.ts'
import type { PoolPort } from '../../../ports/pool.ts'
import type { PoolMessage } from './messages.ts'
import type { RpcChannel } from './rpc.ts'

type Channel = Pick<RpcChannel<PoolMessage, never>, 'call' | 'notify'>

/** @param numberOf the pool's place in the configuration; throws for a pool that is not in it */
export function remotePools(
  channel: Channel,
  numberOf: (clusterId: string, pool: string) => number,
  now: () => number = () => Date.now(),
): (clusterId: string, pool: string) => PoolPort {
  const pools = new Map<number, PoolPort>()
  return (clusterId, pool) => {
    const number = numberOf(clusterId, pool)
    const known = pools.get(number)
    if (known !== undefined) return known
    const remotePool = new RemotePool({
      transport: new ThreadTransport(channel, number),
      now,
      random: () => Math.random(),
    })
    pools.set(number, remotePool)
    return remotePool
  }
}

class ThreadTransport implements PoolTransport {
  readonly #channel: Channel
  readonly #pool: number

  constructor(channel: Channel, pool: number) {
    this.#channel = channel
    this.#pool = pool
  }

  call(method: PoolMethod, args: readonly unknown[]): Promise<unknown> {
    return this.#channel.call(['pool', this.#pool, method, args])
  }

  admit(admission: Admission): Promise<AdmitAnswer> {
    return this.#channel.call(['admit', this.#pool, admission]) as Promise<AdmitAnswer>
  }

  wait(admission: Admission, waitedMs: number): Promise<AdmitAnswer> {
    return this.#channel.call(['wait', this.#pool, admission, waitedMs]) as Promise<AdmitAnswer>
  }

  async resume(booking: Resume): Promise<void> {
    await this.#channel.call(['resume', this.#pool, booking])
  }

  renew(key: string): Promise<Renewal> {
    return this.#channel.call(['renew', this.#pool, key]) as Promise<Renewal>
  }

  async send(event: BookingEvent): Promise<void> {
    // Progress is sent once per block of every stream, so it may wait for other messages.
    this.#channel.notify(['event', this.#pool, event], event[0] === 'progress')
  }
}
