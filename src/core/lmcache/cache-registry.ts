import type { Admission } from '../contract/admission.ts'
import type { EngineSpec, PoolConfig } from '../contract/pool-config.ts'
import { hintsOf } from './cache-hints.ts'
import { ChunkDirectory } from './chunk-directory.ts'
import { holdersOf } from './prefix-match.ts'
import type { CacheEvents, RegisteredInstance, RegistryAnswer, RegistryCall } from './registry-call.ts'

/** Timeout after which an instance without heartbeat is removed, milliseconds (LMCache's own `--instance-timeout`). */
const SILENT_MS = 30_000

/** Maximum number of rows, about 110 bytes each. At 256 tokens per chunk and one rank: 25 million tokens. */
const MAX_ROWS = 100_000

const MAX_INSTANCES = 1_000

interface InstanceEntry extends RegisteredInstance {
  readonly registeredAt: number
  engines: readonly string[]
  seenAt: number
  /** The engines changed, so instances must register again. */
  isOld: boolean
}

/** Cursor of an instance's events. */
interface Cursor {
  readonly incarnation: number
  seq: number
}

/**
 * The registry LMCache servers report to, for one pool: what a coordinator keeps, as far as routing reads it.
 * In memory only; what was stored before it began is learned again as it is stored or read again.
 */
export class CacheRegistry {
  readonly #directory = new ChunkDirectory(MAX_ROWS)
  readonly #instances = new Map<string, InstanceEntry>()
  readonly #cursors = new Map<string, Cursor>()
  #engines: readonly EngineSpec[] = []
  #worldSize = 1

  /** Applies a configuration. If engines changed, instances must register again, which assigns their engines. */
  configure({ engines }: Pick<PoolConfig, 'engines'>): void {
    const [before, after] = [this.#engines, engines].map((all) =>
      JSON.stringify(all.map(({ id, lmcacheInstance }) => [id, lmcacheInstance])),
    )
    const isFirst = this.#engines.length === 0
    this.#engines = engines
    if (!isFirst && after !== before) for (const instance of this.#instances.values()) instance.isOld = true
  }

  call(request: RegistryCall, now: number): RegistryAnswer {
    this.#sweep(now)
    switch (request.kind) {
      case 'register':
        return { kind: 'register', again: this.#register(request.instance, request.engines, now) }
      case 'heartbeat':
        return { kind: 'heartbeat', known: this.#heartbeat(request.id, now) }
      case 'leave':
        this.#drop(request.id)
        return { kind: 'leave' }
      case 'list':
        return { kind: 'list', instances: [...this.#instances.values()], keys: this.#directory.size }
      case 'events':
        return { kind: 'events', ...this.#ingest(request.batches) }
      case 'lookup':
        return {
          kind: 'lookup',
          rows: Array.from(request.keys.ranks, (_, at) => this.#directory.row(request.keys, at)),
        }
    }
  }

  /** Returns the admission with hints for its chunks, and without the chunks. */
  withHints(admission: Admission, now: number): Admission {
    if (admission.chunks === undefined || admission.chunks === null) return admission
    const { chunks, ...rest } = admission
    this.#sweep(now)
    // No server reports, which is not the same as no match.
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
    if (this.#instances.size > MAX_INSTANCES) this.#drop(this.#instances.keys().next().value!)
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

  /** Applies a batch. Repeated batches and late ones of an earlier incarnation change nothing. */
  #offer(batch: CacheEvents): 'applied' | 'duplicates' | 'stale' {
    const cursor = this.#cursors.get(batch.instance)
    if (cursor !== undefined) {
      if (batch.incarnation < cursor.incarnation) return 'stale'
      if (batch.incarnation > cursor.incarnation) this.#directory.dropMemory(batch.instance)
      else if (batch.seq <= cursor.seq) return 'duplicates'
    }
    this.#cursors.delete(batch.instance)
    this.#cursors.set(batch.instance, { incarnation: batch.incarnation, seq: batch.seq })
    if (this.#cursors.size > MAX_INSTANCES) this.#drop(this.#cursors.keys().next().value!)
    if (batch.kind === 'store' && batch.worldSize > 0) this.#worldSize = batch.worldSize
    this.#directory.apply(batch)
    return 'applied'
  }

  #drop(id: string): void {
    this.#directory.dropMemory(id)
    this.#instances.delete(id)
    this.#cursors.delete(id)
  }

  #sweep(now: number): void {
    for (const { id, seenAt } of this.#instances.values()) if (now - seenAt > SILENT_MS) this.#drop(id)
  }

  /** Configured instances of engines, and instances by address for the others. */
  #pairs(): { readonly engine: string; readonly instance: string }[] {
    const named = this.#engines.flatMap(({ id, lmcacheInstance }) =>
      lmcacheInstance == null ? [] : [{ engine: id, instance: lmcacheInstance }],
    )
    const unassigned = new Set(
      this.#engines.filter(({ lmcacheInstance }) => lmcacheInstance == null).map(({ id }) => id),
    )
    const found = [...this.#instances.values()].flatMap(({ id, engines }) =>
      engines.filter((engine) => unassigned.has(engine)).map((engine) => ({ engine, instance: id })),
    )
    return [...named, ...found]
  }
}
