import type { Admission, EngineSpec, PoolConfig } from '../contract/contract.ts'
import { ChunkDirectory } from './directory.ts'
import { holdersOf, hintsOf } from './prefix-match.ts'
import type { CacheEvents, RegisteredInstance, RegistryAnswer, RegistryCall } from './registry-call.ts'

/** Without a heartbeat for this long an instance is gone (LMCache's own `--instance-timeout`). */
const SILENT_MS = 30_000
/** Some 110 bytes each. At 256 tokens a chunk and one rank: 25 million tokens. */
const MOST_ROWS = 100_000
const MOST_INSTANCES = 1_000

interface Instance extends RegisteredInstance {
  readonly registeredAt: number
  engines: readonly string[]
  seenAt: number
  /** The engines changed since: whom it serves is to be said again. */
  isOld: boolean
}

/** How far an instance's events have come. */
interface Cursor {
  readonly incarnation: number
  seq: number
}

/**
 * The registry LMCache servers report to, for one pool: what a coordinator keeps, as far as routing reads it.
 * In memory only; what was stored before it began is learned again as it is stored or read again.
 */
export class CacheRegistry {
  readonly #directory = new ChunkDirectory(MOST_ROWS)
  readonly #instances = new Map<string, Instance>()
  readonly #cursors = new Map<string, Cursor>()
  #engines: readonly EngineSpec[] = []
  #worldSize = 1

  /** A new configuration. When engines came or left, instances are asked to register again, which finds their engines anew. */
  configure({ engines }: Pick<PoolConfig, 'engines'>): void {
    const [before, after] = [this.#engines, engines].map((all) =>
      JSON.stringify(all.map(({ id, lmcacheInstance }) => [id, lmcacheInstance])),
    )
    const isFirst = this.#engines.length === 0
    this.#engines = engines
    if (!isFirst && after !== before) for (const instance of this.#instances.values()) instance.isOld = true
  }

  call(call: RegistryCall, now: number): RegistryAnswer {
    this.#sweep(now)
    switch (call.kind) {
      case 'register':
        return { kind: 'register', again: this.#register(call.instance, call.engines, now) }
      case 'heartbeat':
        return { kind: 'heartbeat', known: this.#heartbeat(call.id, now) }
      case 'leave':
        this.#drop(call.id)
        return { kind: 'leave' }
      case 'list':
        return { kind: 'list', instances: [...this.#instances.values()], keys: this.#directory.size }
      case 'events':
        return { kind: 'events', ...this.#ingest(call.batches) }
      case 'lookup':
        return { kind: 'lookup', rows: Array.from(call.keys.ranks, (_, at) => this.#directory.row(call.keys, at)) }
    }
  }

  /** The admission with what is known of its chunks as hints; the chunks themselves are not kept any longer. */
  hinted(admission: Admission, now: number): Admission {
    if (admission.chunks === undefined || admission.chunks === null) return admission
    const { chunks, ...rest } = admission
    this.#sweep(now)
    // Nobody reports: that is not the same as nobody holding it.
    if (this.#cursors.size === 0 && this.#instances.size === 0) return rest
    const holders = holdersOf(this.#directory.leading(chunks.keys, this.#worldSize), chunks.tokens)
    const engines = this.#engines.map(({ id }) => id)
    return {
      ...rest,
      hints: hintsOf(holders, {
        pairs: this.#pairs(),
        engines,
        shared: chunks.shared,
        promptTokens: admission.promptTokens,
      }),
    }
  }

  #register(instance: RegisteredInstance, engines: readonly string[], now: number): boolean {
    const known = this.#instances.get(instance.id)
    this.#instances.delete(instance.id)
    this.#instances.set(instance.id, { ...instance, engines, registeredAt: now, seenAt: now, isOld: false })
    if (this.#instances.size > MOST_INSTANCES) this.#drop(this.#instances.keys().next().value!)
    return known !== undefined
  }

  #heartbeat(id: string, now: number): boolean {
    const instance = this.#instances.get(id)
    if (instance === undefined) return false
    instance.seenAt = now
    return !instance.isOld
  }

  #ingest(batches: readonly CacheEvents[]): {
    readonly applied: number
    readonly duplicates: number
    readonly stale: number
  } {
    const counts = { applied: 0, duplicates: 0, stale: 0 }
    for (const batch of batches) counts[this.#offer(batch)] += 1
    return counts
  }

  /** Repeats and what a dead incarnation said late change nothing. */
  #offer(batch: CacheEvents): 'applied' | 'duplicates' | 'stale' {
    const cursor = this.#cursors.get(batch.instance)
    if (cursor !== undefined) {
      if (batch.incarnation < cursor.incarnation) return 'stale'
      if (batch.incarnation > cursor.incarnation) this.#directory.fence(batch.instance)
      else if (batch.seq <= cursor.seq) return 'duplicates'
    }
    this.#cursors.delete(batch.instance)
    this.#cursors.set(batch.instance, { incarnation: batch.incarnation, seq: batch.seq })
    if (this.#cursors.size > MOST_INSTANCES) this.#drop(this.#cursors.keys().next().value!)
    if (batch.kind === 'store' && batch.worldSize > 0) this.#worldSize = batch.worldSize
    this.#directory.apply(batch)
    return 'applied'
  }

  #drop(id: string): void {
    this.#directory.fence(id)
    this.#instances.delete(id)
    this.#cursors.delete(id)
  }

  #sweep(now: number): void {
    for (const { id, seenAt } of this.#instances.values()) if (now - seenAt > SILENT_MS) this.#drop(id)
  }

  /** What the configuration says, and by address for the engines it says nothing of. */
  #pairs(): { readonly engine: string; readonly instance: string }[] {
    const named = this.#engines.flatMap(({ id, lmcacheInstance }) =>
      lmcacheInstance == null ? [] : [{ engine: id, instance: lmcacheInstance }],
    )
    const open = new Set(this.#engines.filter(({ lmcacheInstance }) => lmcacheInstance == null).map(({ id }) => id))
    const found = [...this.#instances.values()].flatMap(({ id, engines }) =>
      engines.filter((engine) => open.has(engine)).map((engine) => ({ engine, instance: id })),
    )
    return [...named, ...found]
  }
}
