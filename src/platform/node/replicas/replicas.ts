/** The other gateways in front of the same engines: each reads what the others book. See docs/replicas.md. */
import { randomUUID } from 'node:crypto'
import type { ResponseAffinity } from '../../../api/response-affinity.ts'
import { VERSION } from '../../../api/version.ts'
import type { ReplicasConfig } from '../../../config.ts'
import { type Address, addressText } from '../../../config/fields.ts'
import type { Decision, PoolConfig, ReplicaDigest } from '../../../core/contract/contract.ts'
import type { Cluster, StoredResponses, Log, PoolName } from '../../../ports.ts'
import { lookedUp, type Lookup } from '../discovery.ts'
import { withTimeout } from '../with-timeout.ts'
import { answerOf } from './authentication.ts'
import { Follower } from './follower.ts'
import { Journal } from './journal.ts'
import { DECISION_PATH, type LogServer, serveLog } from './log-server.ts'
import { ReplicatedCluster, ReplicatedHoldings } from './replicated.ts'

const LOOK_MS = 5_000
const PATIENCE_MS = 3_000
/** Of an operator's question. */
const ANSWER_MS = 1_000

export interface ReplicasParts {
  readonly lookup: Lookup
  readonly log: Log
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Tests: all waits are so many times shorter. */
  readonly haste?: number
}

/** What this gateway keeps itself. */
export interface OwnBooks {
  readonly cluster: (...name: PoolName) => Cluster
  /** As it is configured now; null: there is no such pool. */
  readonly pool: (...name: PoolName) => PoolConfig | null
  readonly held: ResponseAffinity
}

export class Replicas {
  readonly #config: ReplicasConfig
  readonly #parts: ReplicasParts
  readonly #journal: Journal
  /** By address. */
  readonly #followers = new Map<string, Follower>()
  /** What the names of peers last had. */
  readonly #known = new Map<string, readonly Address[]>()
  readonly #clusters = new WeakMap<Cluster, ReplicatedCluster>()
  #own: OwnBooks | null = null
  #holdings: StoredResponses | null = null
  #server: LogServer | null = null
  #looking: NodeJS.Timeout | undefined
  #closed = false

  constructor(config: ReplicasConfig, parts: ReplicasParts) {
    this.#config = config
    this.#parts = parts
    this.#journal = new Journal({
      id: randomUUID(),
      version: VERSION,
      now: parts.now,
      held: () => this.#own?.held.entries() ?? [],
    })
  }

  /** Before anything is asked of it. */
  join(own: OwnBooks): void {
    this.#own = own
    this.#holdings = new ReplicatedHoldings(own.held, this.#journal)
  }

  get holdings(): StoredResponses {
    return this.#holdings!
  }

  /** The books of a pool, which the others learn of. */
  cluster(books: Cluster, name: PoolName): Cluster {
    const known = this.#clusters.get(books)
    if (known !== undefined) return known
    const told = new ReplicatedCluster(books, name, {
      journal: this.#journal,
      replicas: () => this.digests,
      explainedElsewhere: (pool, id) => this.#explainedElsewhere(pool, id),
      pool: () => this.#own!.pool(...name),
    })
    this.#clusters.set(books, told)
    return told
  }

  get digests(): readonly ReplicaDigest[] {
    return [...this.#followers.values()].map(({ digest }) => digest).filter((digest) => digest !== null)
  }

  /** Where the others read; null: not open. */
  get address(): string | null {
    return this.#server?.address ?? null
  }

  /** Rejects with the system's error when the port cannot be had. */
  async open(): Promise<void> {
    const { log } = this.#parts
    this.#server = await serveLog(this.#journal, {
      ...this.#config.listen,
      secret: this.#config.secret,
      explain: (name, id) => this.#explain(name, id),
      log,
    })
    log.info('replication_ready', { address: this.#server.address, replica: this.#journal.id })
    await this.#look()
    this.#looking = setInterval(() => void this.#look(), LOOK_MS / (this.#parts.haste ?? 1)).unref()
  }

  /** After the last request. */
  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#looking)
    for (const follower of this.#followers.values()) follower.close()
    await this.#server?.close()
  }

  async #explain(name: PoolName, id: string): Promise<Decision | null> {
    return this.#own?.pool(...name) == null ? null : this.#own.cluster(...name).explain(id)
  }

  /** Never rejects: who does not answer in time has made none. */
  async #explainedElsewhere([cluster, pool]: PoolName, id: string): Promise<Decision | null> {
    const target = `${DECISION_PATH}?${new URLSearchParams({ cluster, pool, id })}`
    const ask = ({ address }: ReplicaDigest): Promise<Decision | null> =>
      askDecision(address, target, this.#config.secret)
    const following = this.digests.filter(({ state }) => state === 'following')
    const answers = await Promise.all(following.map((one) => ask(one).catch(() => null)))
    return answers.find((answer) => answer !== null) ?? null
  }

  /** Never rejects. */
  async #look(): Promise<void> {
    const found = await Promise.all(this.#config.peers.map((peer) => this.#addressesOf(peer)))
    if (this.#closed) return
    const wanted = new Map(found.flat().map((address) => [addressText(address), address]))
    for (const [text, follower] of this.#followers) {
      if (wanted.has(text)) follower.stay()
      // Taken out of the name before its streams have ended: it is followed until it goes.
      else if (!follower.leave()) this.#followers.delete(text)
    }
    for (const [text, address] of wanted)
      if (!this.#followers.has(text)) this.#followers.set(text, this.#follow(address))
  }

  /** A name server that is away, or late, changes nothing. */
  async #addressesOf({ host, port }: Address): Promise<readonly Address[]> {
    const answer = await withTimeout(PATIENCE_MS, lookedUp(this.#parts.lookup, host))
    if (answer === null || answer.value instanceof Error) return this.#known.get(`${host}:${port}`) ?? []
    const addresses = answer.value.map((address) => ({ host: address, port }))
    this.#known.set(`${host}:${port}`, addresses)
    return addresses
  }

  #follow(address: Address): Follower {
    const own = this.#own!
    return new Follower(
      { ...address, address: addressText(address) },
      {
        id: this.#journal.id,
        secret: this.#config.secret,
        log: this.#parts.log,
        haste: this.#parts.haste ?? 1,
        handedOver: (id, by) =>
          [...this.#followers.values()]
            .map((other) => (other === by ? null : other.handOver(id)))
            .find((adopted) => adopted !== null) ?? null,
        isFollowed: (id, by) => [...this.#followers.values()].some((other) => other !== by && other.id === id),
        books: (...name) => {
          const pool = own.pool(...name)
          return pool === null
            ? null
            : { cluster: own.cluster(...name), blockTokens: pool.blockTokens, leaseMs: pool.leaseMs }
        },
        held: own.held,
        heard: (pool, signal, at) => {
          if (own.pool(...pool)?.engines.some(({ id }) => id === signal.engine) !== true) return false
          const before = this.#journal.isDrained(pool, signal)
          if (!this.#journal.heard(pool, signal, at)) return false
          if (signal.kind === 'drain' && signal.draining !== before) {
            const event = signal.draining ? 'engine_draining' : 'engine_undrained'
            this.#parts.log.info(event, { cluster: pool[0], engine: signal.engine, replica: addressText(address) })
          }
          return true
        },
      },
    )
  }
}

/** Rejects when the replica does not answer in time. null: it made no such decision, or does not know the secret. */
async function askDecision(address: string, target: string, secret: string | null): Promise<Decision | null> {
  const signal = AbortSignal.timeout(ANSWER_MS)
  const first = await fetch(`http://${address}${target}`, { signal })
  if (secret === null) return first.ok ? ((await first.json()) as Decision | null) : null
  await first.body?.cancel()
  const proof = answerOf(secret, first.headers.get('www-authenticate') ?? undefined, target)
  if (first.status !== 401 || proof === null) return null
  const answer = await fetch(`http://${address}${target}`, { headers: { authorization: proof.authorization }, signal })
  const line = answer.ok ? proof.verifier.verify(await answer.text()) : null
  return line === null ? null : (JSON.parse(line) as Decision | null)
}
