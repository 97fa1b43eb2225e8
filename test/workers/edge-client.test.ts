import { expect, it } from 'vitest'
import { RegionLedger } from '../../src/core/edge/region-ledger.ts'
import type { RegionShare, SyncAnswer, SyncBatch } from '../../src/core/edge/sync.ts'
import type { Log } from '../../src/ports/log.ts'
import type { RequestScope } from '../../src/ports/request-scope.ts'
import { EdgeClient } from '../../src/platform/workers/edge-client.ts'
import { RegionPool } from '../../src/platform/workers/region-pool.ts'
import { admission, engines, outcome, pool } from '../kit/pool-fixtures.ts'
import { turns } from '../wait.ts'

const log: Log = { writes: () => false, debug() {}, info() {}, warn() {}, error() {} }

type Sync = (batch: SyncBatch) => Promise<SyncAnswer>

/** An isolate with one region, whose shared object answers `sync` like this. */
async function open(sync: Sync, syncMs = 1_000) {
  let calls = 0
  const object = {
    sync: (batch: SyncBatch) => {
      calls += 1
      return sync(batch)
    },
    digest: async () => null,
  }
  const edge = new EdgeClient({
    open: () => object as unknown as ReturnType<ConstructorParameters<typeof EdgeClient>[0]['open']>,
    log,
    newId: () => 'isolate',
    configVersion: 1,
    syncMs,
  })
  const ledger = new RegionLedger({ cluster: 'a', pool: 'm', engine: 'a', random: Math.random, epoch: 'e' })
  const cluster = new RegionPool({ cluster: 'a', pool: 'm', ledger, views: edge, client: edge })
  await cluster.configure(1, pool({ engines: engines('a') }))
  return { edge, cluster, calls: () => calls }
}

/** A request: it may start a sync before its body is read, and its admission follows. */
function request(edge: EdgeClient) {
  const work: Promise<unknown>[] = []
  const scope = { background: (one: Promise<unknown>) => void work.push(one) } as unknown as RequestScope
  edge.syncIfStale(scope)
  return { scope, work }
}

const shareOf = (changes: Partial<RegionShare>): RegionShare => ({
  cluster: 'a',
  pool: 'm',
  draining: false,
  circuit: null,
  acknowledged: 0,
  fraction: 1,
  elsewhere: 0,
  ...changes,
})

const answerOf = (share: Partial<RegionShare>): SyncAnswer => ({
  version: 1,
  epoch: 'e',
  seq: 1,
  isolates: 2,
  startedAt: 1,
  nextMs: 0,
  regions: [shareOf(share)],
})

it('the first request after a pause does not go to a region that was drained meanwhile', async () => {
  const { edge, cluster, calls } = await open(async () => answerOf({ draining: true }))
  const { scope } = request(edge)
  expect(await cluster.admit(admission(), scope)).toHaveProperty('refusal')
  expect(calls()).toBe(1)
})

it('requests do not wait for an object that hangs, and views report the figures of the isolate', async () => {
  const { edge, cluster } = await open(() => new Promise(() => {}))
  const all: Promise<unknown>[] = []
  for (let n = 0; n < 20; n++) {
    const { scope, work } = request(edge)
    const admitted = await cluster.admit(admission({ id: `r${n}` }), scope)
    if ('refusal' in admitted) throw new Error(admitted.refusal.detail)
    await admitted.lease.release(outcome())
    all.push(...work)
  }
  expect((await cluster.overview.digest!()).engines.map(({ id }) => id)).toEqual(['a'])
  expect(edge.view).toMatchObject({ shared: false })
  // Nothing outlives its time limit, so the platform ends no request's work.
  await Promise.all(all)
})

it('a view of an isolate without requests has the number of isolates as of now', async () => {
  let isolates = 0
  const { edge, cluster } = await open(async () => ({ ...answerOf({}), seq: (isolates += 1), isolates }), 0)
  for (const expected of [1, 2]) {
    await cluster.overview.digest!()
    expect(edge.view).toEqual({ shared: true, isolates: expected })
  }
})

it('a new isolate sends its first totals an interval after its start, not beside its first response', async () => {
  const { edge, calls } = await open(async () => answerOf({}), 500)
  const work: Promise<unknown>[] = []
  edge.recordChange({ background: (one) => void work.push(one) })
  await turns()
  expect(calls()).toBe(0)
  await Promise.all(work)
  expect(calls()).toBe(1)
})
