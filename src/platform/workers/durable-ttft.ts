import type { TtftObject } from '../../../durable/ttft-object.ts'
import { shardKeyOf } from '../../core/reports/report-id.ts'
import type { AddedReport, StoreLimits } from '../../core/reports/report-store.ts'
import type { RequestReport } from '../../core/reports/ttft-state.ts'
import { hashText } from '../../core/routing/placement-hash.ts'
import type { Ttft } from '../../ports/ttft.ts'

/** Fixed: another number would divide the reports of running requests. */
const SHARDS = 4

/** Interval, ms, of batches. */
const BATCH_MS = 1_000

/** TTFT reports in Durable Objects, sharded by request; one call per shard and batch. */
export function durableTtft(namespace: DurableObjectNamespace<TtftObject>, limits: StoreLimits): Ttft {
  const share: StoreLimits = {
    ttlMs: limits.ttlMs,
    maxRequests: Math.ceil(limits.maxRequests / SHARDS),
    maxBytes: limits.maxBytes,
  }
  // A stub that failed stays unusable, so each call gets a new one.
  const open = (shard: number) => namespace.getByName(`ttft:${shard}`)
  const all = Array.from({ length: SHARDS }, (_, shard) => shard)
  return {
    batchMs: BATCH_MS,
    async report(partials) {
      const answers: AddedReport[] = []
      await callShards(
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
      const ownShard = shardOf(id)
      const found: RequestReport | null = await open(ownShard).find(id)
      if (found !== null) return found
      // The report is stored under the client's label, the query has the gateway's id.
      const others = await Promise.all(
        all
          .filter((shard) => shard !== ownShard)
          .map(async (shard): Promise<RequestReport | null> => open(shard).find(id)),
      )
      return others.find((one) => one !== null) ?? null
    },
    async flush(batch) {
      await callShards(
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

const shardOf = (id: string): number => hashText(shardKeyOf(id)) % SHARDS

interface ShardItem<Item> {
  readonly item: Item
  /** Position in its batch. */
  readonly index: number
}

function inShards<Item>(items: readonly Item[], idOf: (item: Item) => string): Map<number, ShardItem<Item>[]> {
  const shards = new Map<number, ShardItem<Item>[]>()
  for (const [index, item] of items.entries()) {
    const shard = shardOf(idOf(item))
    const there = shards.get(shard)
    if (there === undefined) shards.set(shard, [{ item, index }])
    else there.push({ item, index })
  }
  return shards
}

async function callShards<Item>(
  shards: ReadonlyMap<number, Item>,
  call: (shard: number, items: Item) => Promise<void>,
): Promise<void> {
  await Promise.all([...shards].map(([shard, items]) => call(shard, items)))
}
