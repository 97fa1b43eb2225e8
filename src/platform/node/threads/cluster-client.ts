/** The Cluster port of an I/O thread: every pool's books are with another thread. */
import type { EarlyLegRole } from '../../../core/contract/legs.ts'
import type {
  Admission,
  EngineSignal,
  Outcome,
  PoolConfig,
  Resume,
  StageTimes,
  Usage,
} from '../../../core/contract/contract.ts'
import type { KvEventDelta } from '../../../core/kv-events/delta.ts'
import type { RegistryAnswer, RegistryCall } from '../../../core/lmcache/registry-call.ts'
import type { Admitted, Cluster, Lease } from '../../../ports.ts'
import type { RpcChannel, AnswerToAdmit, PoolQuestion, ToBooks } from './rpc.ts'
type Books = Pick<RpcChannel<ToBooks, never>, 'call' | 'notify'>

/** @param numberOf the pool's place in the configuration; throws for one that is not in it */
export function threadClusters(
  books: Books,
  numberOf: (clusterId: string, pool: string) => number,
): (clusterId: string, pool: string) => Cluster {
  const clusters = new Map<number, Cluster>()
  let leases = 0
  const nextLease = () => ++leases
  return (clusterId, pool) => {
    const number = numberOf(clusterId, pool)
    const known = clusters.get(number)
    if (known !== undefined) return known
    const cluster = new ThreadClusterClient(books, number, nextLease)
    clusters.set(number, cluster)
    return cluster
  }
}

class ThreadClusterClient implements Cluster {
  readonly #books: Books
  readonly #pool: number
  readonly #nextLease: () => number

  constructor(books: Books, pool: number, nextLease: () => number) {
    this.#books = books
    this.#pool = pool
    this.#nextLease = nextLease
  }

  async admit(admission: Admission): Promise<Admitted> {
    const lease = this.#nextLease()
    const answer = (await this.#books.call(['admit', this.#pool, lease, compact(admission)])) as AnswerToAdmit
    if ('refusal' in answer) return answer
    return { lease: new ThreadLease(this.#books, lease), ...answer }
  }

  async resume(booking: Resume): Promise<Lease> {
    const lease = this.#nextLease()
    await this.#books.call(['resume', this.#pool, lease, { ...booking, admission: compact(booking.admission) }])
    return new ThreadLease(this.#books, lease)
  }

  async configure(version: number, pool: PoolConfig): Promise<void> {
    await this.#ask('configure', [version, pool])
  }

  async observe(signals: readonly EngineSignal[]): Promise<void> {
    await this.#ask('observe', [signals])
  }

  rank(admission: Admission) {
    return this.#ask('rank', [compact(admission)]) as ReturnType<Cluster['rank']>
  }

  registry(call: RegistryCall) {
    return this.#ask('registry', [call]) as Promise<RegistryAnswer>
  }

  feed(feeds: readonly KvEventDelta[]) {
    return this.#ask('feed', [feeds]) as ReturnType<NonNullable<Cluster['feed']>>
  }

  digest() {
    return this.#ask('digest', []) as ReturnType<Cluster['digest']>
  }

  outlook() {
    return this.#ask('outlook', []) as ReturnType<Cluster['outlook']>
  }

  explain(id: string) {
    return this.#ask('explain', [id]) as ReturnType<Cluster['explain']>
  }

  glance(decisions: number) {
    return this.#ask('glance', [decisions]) as ReturnType<NonNullable<Cluster['glance']>>
  }

  #ask(question: PoolQuestion, given: readonly unknown[]): Promise<unknown> {
    return this.#books.call(['pool', this.#pool, question, given])
  }
}

/** A booking that another thread holds. Only a sign of life wants an answer; order does the rest. */
class ThreadLease implements Lease {
  /** Not quite, but all the same nobody need wait for what is said. */
  readonly inProcess = true
  readonly #books: Books
  readonly #number: number

  constructor(books: Books, number: number) {
    this.#books = books
    this.#number = number
  }

  async legDone(part: EarlyLegRole, stages: StageTimes, usage: Usage | null = null): Promise<void> {
    this.#books.notify(['leg_done', this.#number, part, stages, usage])
  }

  async firstToken(stages: StageTimes): Promise<void> {
    this.#books.notify(['first_token', this.#number, stages])
  }

  async progress(outputBlocks: number): Promise<void> {
    // Said every block of every stream; a load that is a block out of date is as good.
    this.#books.notify(['progress', this.#number, outputBlocks], true)
  }

  async renew(): Promise<void> {
    const known = await this.#books.call(['renew', this.#number])
    if (known !== true) throw new Error('the booking is not known there any more: resume it')
  }

  async release(outcome: Outcome): Promise<void> {
    this.#books.notify(['release', this.#number, outcome])
  }
}

/** A view takes the whole buffer below it along when it is cloned. */
function compact(admission: Admission): Admission {
  const { blocks } = admission
  return blocks.byteLength === blocks.buffer.byteLength ? admission : { ...admission, blocks: blocks.slice() }
}
