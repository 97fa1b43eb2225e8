import type { TtftObject } from '../../../durable/ttft.ts'
import { homeOf } from '../../core/reports/partial.ts'
import type { Added, StoreLimits } from '../../core/reports/report-store.ts'
import type { FoundReport } from '../../core/reports/ttft-state.ts'
import { hashText } from '../../core/routing/rendezvous.ts'
import type { Ttft } from '../../ports.ts'

/** A fixed number: another one would put requests that are under way into two places. */
const SHARDS = 4
/** Long enough for company, short enough to be there when somebody asks. */
const BATCH_MS = 1_000

/** Reports in Durable Objects, sharded by request: one call a shard for a batch, however many requests are in it. */
export function durableTtft(namespace: DurableObjectNamespace<TtftObject>, limits: StoreLimits): Ttft {
  const share: StoreLimits = {
    ttlMs: limits.ttlMs,
    maxRequests: Math.ceil(limits.maxRequests / SHARDS),
    maxBytes: limits.maxBytes,
  }
  // A stub that broke stays broken: each call gets a fresh one.
  const open = (shard: number) => namespace.getByName(`ttft:${shard}`)
  const all = Array.from({ length: SHARDS }, (_, shard) => shard)
  return {
    batchMs: BATCH_MS,
    async report(partials) {
      const answers: Added[] = []
      await each(
        inShards(partials, ({ id }) => id),
        async (shard, items) => {
          const added = await open(shard).report(
            items.map(({ item }) => item),
            share,
          )
          for (const [at, one] of added.entries()) answers[items[at]!.index] = one
        },
      )
      return answers
    },
    async find(id) {
      const home = shardOf(id)
      const found: FoundReport | null = await open(home).find(id)
      if (found !== null) return found
      // Known there by the client's label, asked for by ours.
      const others = await Promise.all(
        all.filter((shard) => shard !== home).map(async (shard): Promise<FoundReport | null> => open(shard).find(id)),
      )
      return others.find((one) => one !== null) ?? null
    },
    async flush(batch) {
      await each(
        inShards(batch.records, ({ requestId }) => requestId),
        (shard, items) => open(shard).flush({ ...batch, records: items.map(({ item }) => item) }, share),
      )
    },
    async rollups() {
      return (await Promise.all(all.map(async (shard) => open(shard).rollups()))).flat()
    },
    async forget(names, before) {
      await Promise.all(all.map((shard) => open(shard).forget(names, before)))
    },
  }
}

const shardOf = (id: string): number => hashText(homeOf(id)) % SHARDS

interface Placed<Item> {
  readonly item: Item
  /** Its place in the batch it came in. */
  readonly index: number
}

function inShards<Item>(items: readonly Item[], idOf: (item: Item) => string): Map<number, Placed<Item>[]> {
  const shards = new Map<number, Placed<Item>[]>()
  for (const [index, item] of items.entries()) {
    const shard = shardOf(idOf(item))
    const there = shards.get(shard)
    if (there === undefined) shards.set(shard, [{ item, index }])
    else there.push({ item, index })
  }
  return shards
}

async function each<Item>(
  shards: ReadonlyMap<number, Item>,
  call: (shard: number, items: Item) => Promise<void>,
): Promise<void> {
  await Promise.all([...shards].map(([shard, items]) => call(shard, items)))
}
