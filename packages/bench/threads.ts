/**
 * Cost and benefit of several threads. `books`: cost of a request's bookings in one thread and from another thread, and
 * the maximum rate of one thread with the pool state. `gateway`: CPU per request and requests per second of `serve
 * --workers N` with the same stub engines, interleaved. CPU figures are of threads and processes, so they hold on a
 * busy machine; requests per second need a core for each of engines, load and threads.
 *
 * Flags: --part books|gateway|both · --workers 1,2 · --repeats 3 · --seconds 2
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { PoolConfig } from '../../src/core/contract/pool-config.ts'
import { readEngine } from '../../src/core/contract/decode.ts'
import { defaultPool } from '../replay/src/replay/default-pool.ts'
import { memoryPools, type MemoryPools } from '../../src/platform/node/memory-pools.ts'
import { ThreadBookings } from '../../src/platform/node/threads/thread-bookings.ts'
import { RpcChannel } from '../../src/platform/node/threads/rpc.ts'
import type { PoolMessage } from '../../src/platform/node/threads/messages.ts'
import { rssBytes, runLoad, startServed, startScript, type LoadResult, type StartedProcess } from './proxy/processes.ts'
import { median } from './median.ts'
import { quantile } from './quantile.ts'
import type { BenchOptions, BenchResult, BenchRow } from './result.ts'
import { drive, type EdgePlan, type EdgeResult } from './threads/edge.ts'

export default async function threads({ flags, note }: BenchOptions): Promise<BenchResult> {
  const part = String(flags.part ?? 'both')
  const ms = Number(flags.seconds ?? 2) * 1000
  const rows: BenchRow[] = []
  if (part !== 'gateway') rows.push(...(await poolRows(ms, note)))
  if (part !== 'books')
    rows.push(
      ...(await gatewayRows({
        counts: String(flags.workers ?? '1,2')
          .split(',')
          .map(Number),
        repeats: Number(flags.repeats ?? 3),
        ms,
        note,
      })),
    )
  return { rows, headline: {} }
}

type Note = (line: string) => void

const SHAPES = [
  { engines: 4, blocks: 16 },
  { engines: 64, blocks: 16 },
  { engines: 64, blocks: 400 },
] as const
const LOADS = [
  { name: 'one at a time', edges: 1, inFlight: 1, holdMs: 0 },
  { name: '64 at a time', edges: 1, inFlight: 64, holdMs: 0 },
  { name: '2 threads, 64 each', edges: 2, inFlight: 64, holdMs: 0 },
  { name: '2 threads, 64 each, 10 ms to the first token', edges: 2, inFlight: 64, holdMs: 10 },
] as const

async function poolRows(ms: number, note: Note): Promise<BenchRow[]> {
  const rows: BenchRow[] = []
  for (const { engines, blocks } of SHAPES) {
    for (const { name, edges, inFlight, holdMs } of LOADS) {
      note(`books: ${engines} engines, ${blocks} blocks, ${name}`)
      const clusters = memoryPools({ source: () => ({ version: 1, pool: poolOf(engines) }) })
      const plan = { inFlight, ms, blocks, holdMs }
      const shape = { part: 'books', engines, blocks, load: name }
      await drive(clusters.pool('bench', 'm'), 'warm', { ...plan, ms: 500 })
      const alone = await drive(clusters.pool('bench', 'm'), 'here', plan)
      rows.push({ ...shape, where: 'same thread', ...figures(alone.cpuUs / alone.requests, null, alone.admitMs) })
      rows.push({ ...shape, where: 'another thread', ...(await fromThreads(clusters, edges, plan)) })
      clusters.close()
    }
  }
  return rows
}

/** This thread keeps the pool state, as the main thread of a gateway does. */
async function fromThreads(clusters: MemoryPools, edges: number, plan: EdgePlan): Promise<BenchRow> {
  const cluster = clusters.pool('bench', 'm')
  const workers = Array.from(
    { length: edges },
    (_, number) => new Worker(new URL('./threads/edge.ts', import.meta.url), { workerData: { bench: 'edge', number } }),
  )
  const run = (runPlan: EdgePlan): Promise<EdgeResult[]> =>
    Promise.all(workers.map((worker) => resultOf(worker, runPlan)))
  for (const worker of workers) {
    const host = new ThreadBookings(() => cluster, console as never)
    const line: RpcChannel<never, PoolMessage> = new RpcChannel<never, PoolMessage>(worker, (word) =>
      host.receive(word),
    )
    worker.on('message', (message: readonly unknown[] | object) => {
      if (Array.isArray(message)) line.receive(message)
    })
  }
  await run({ ...plan, ms: 500 })
  const before = process.threadCpuUsage()
  const results = await run(plan)
  const { user, system } = process.threadCpuUsage(before)
  await Promise.all(workers.map((worker) => worker.terminate()))
  const requests = results.reduce((sum, result) => sum + result.requests, 0)
  const edgeUs = results.reduce((sum, result) => sum + result.cpuUs, 0) / requests
  return figures(
    (user + system) / requests,
    edgeUs,
    results.flatMap(({ admitMs }) => admitMs),
  )
}

function resultOf(worker: Worker, plan: EdgePlan): Promise<EdgeResult> {
  return new Promise((resolve) => {
    const onMessage = (message: readonly unknown[] | { readonly result: EdgeResult }): void => {
      if (!('result' in message)) return
      worker.off('message', onMessage)
      resolve(message.result)
    }
    worker.on('message', onMessage)
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, no window
    worker.postMessage({ plan })
  })
}

/** Maximum requests per second of a core that only keeps the pool state. */
function figures(poolUs: number, edgeUs: number | null, admitMs: readonly number[]): BenchRow {
  return {
    books_cpu_us: rounded(poolUs),
    edge_cpu_us: edgeUs === null ? null : rounded(edgeUs),
    requests_per_s_at_full_core: Math.round(1e6 / poolUs),
    admit_ms_p50: rounded(quantile(admitMs, 0.5)),
    admit_ms_p99: rounded(quantile(admitMs, 0.99)),
  }
}

function poolOf(count: number): PoolConfig {
  const engines = Array.from({ length: count }, (_, at) => readEngine({ id: `e${at}` }))
  return { ...defaultPool(), cluster: 'bench', pool: 'm', engines }
}

const SCENARIOS = [
  { name: '1k burst c64', connections: 64, bytes: 1024, pace: [0, 0] },
  { name: '1k paced c64', connections: 64, bytes: 1024, pace: [20, 5] },
  { name: '220k c16', connections: 16, bytes: 220_000, pace: [0, 0] },
] as const
const ENGINES = 4

async function gatewayRows({
  counts,
  repeats,
  ms,
  note,
}: {
  readonly counts: readonly number[]
  readonly repeats: number
  readonly ms: number
  readonly note: Note
}): Promise<BenchRow[]> {
  const engines: StartedProcess[] = []
  for (let at = 0; at < ENGINES; at++) engines.push(await startScript('stub-engine.ts', ['0']))
  const folder = mkdtempSync(join(tmpdir(), 'firstlight-bench-'))
  const gateways = new Map<number, StartedProcess>()
  const runs = new Map<string, LoadResult[]>()
  try {
    for (const count of counts) gateways.set(count, await startGateway(folder, engines, count))
    for (let repeat = 0; repeat < repeats; repeat++) {
      for (const scenario of SCENARIOS) {
        for (const [count, { port, pid }] of repeat % 2 === 0 ? gateways : [...gateways].reverse()) {
          note(`gateway ${repeat + 1}/${repeats}: ${scenario.name}, ${count}`)
          const key = `${scenario.name}|${count}`
          runs.set(key, [
            ...(runs.get(key) ?? []),
            await runLoad({ ...scenario, port, ms, warmMs: repeat === 0 ? 2000 : 500 }, pid),
          ])
        }
      }
    }
    return SCENARIOS.flatMap(({ name }) =>
      counts.map((count) => gatewayRow({ name, count, ms, runs, rssMb: rssBytes(gateways.get(count)!.pid) / 2 ** 20 })),
    )
  } finally {
    for (const started of [...gateways.values(), ...engines]) started.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

function gatewayRow({
  name,
  count,
  ms,
  runs,
  rssMb,
}: {
  readonly name: string
  readonly count: number
  readonly ms: number
  readonly runs: ReadonlyMap<string, readonly LoadResult[]>
  readonly rssMb: number
}): BenchRow {
  const results = runs.get(`${name}|${count}`)!
  return {
    part: 'gateway',
    load: name,
    workers: count,
    cpu_us: rounded(median(results.map((result) => result.cpu_us!))),
    requests_per_s: Math.round(median(results.map(({ requests }) => requests / (ms / 1000)))),
    ttfb_ms_p50: rounded(median(results.map((result) => result.ttfb_ms_p50))),
    ttfb_ms_p99: rounded(median(results.map((result) => result.ttfb_ms_p99))),
    errors: results.reduce((sum, { errors }) => sum + errors, 0),
    rss_mb: Math.round(rssMb),
  }
}

async function startGateway(
  folder: string,
  engines: readonly StartedProcess[],
  workers: number,
): Promise<StartedProcess> {
  const file = join(folder, `firstlight-${workers}.json`)
  const pool = {
    model: 'fake',
    policy: 'predicted',
    engines: engines.map(({ port }, at) => ({ id: `e${at}`, url: `http://127.0.0.1:${port}` })),
  }
  writeFileSync(
    file,
    JSON.stringify({
      listen: '127.0.0.1:0',
      workers,
      log: { level: 'warn' },
      clusters: [{ id: 'bench', pools: [pool] }],
    }),
  )
  return startServed(file)
}

const rounded = (value: number): number => Math.round(value * 100) / 100
