/**
 * Chaos run: faults of engines, client aborts, overload, and kills, restarts, reloads and evictions of the gateway
 * under open-loop load. Checks that every request ends once, streams are whole, no prompt is sent to a client, bookings
 * are released, limits of a key hold and memory does not grow.
 *
 * Flags: --minutes 2 (for all deployments together) · --seed 1 · --rate 25 (requests per second) ·
 * --deployment process,threads,replicas,cluster,regions,workers,isolates (default: all) · --settle-s 90 (most time for
 * ledgers to be zero). Exits with 1 if an invariant is broken.
 */
import { ChaosRun, type Figures } from './chaos/chaos-run.ts'
import { seeded } from './chaos/clients.ts'
import type { Deployment } from './chaos/deployment.ts'
import { changedDocument, MODEL, poolOf, POOLS } from './chaos/document.ts'
import { Isolates } from './chaos/isolates.ts'
import { NodeGateway } from './chaos/node-gateway.ts'
import { Regions } from './chaos/regions.ts'
import { Replicas } from './chaos/replicas.ts'
import { OneServer, ServerCluster } from './chaos/valkey.ts'
import { WorkersGateway } from './chaos/workers-gateway.ts'
import { startFleet } from '../simulator/src/node/fleet-host.ts'
import { median } from './median.ts'
import type { BenchOptions, BenchResult, BenchRow } from './result.ts'

type Start = (urls: readonly string[], random: () => number) => Promise<Deployment>

const DEPLOYMENTS: Readonly<Record<string, Start>> = {
  process: (urls, random) => NodeGateway.start(urls, 1, random),
  threads: (urls, random) => NodeGateway.start(urls, 2, random),
  replicas: async (urls, random) => Replicas.start(changedDocument(urls, 1, random), await OneServer.start(), random),
  cluster: async (urls, random) => {
    const document = changedDocument(urls, 1, random)
    return Replicas.start(document, await ServerCluster.start(poolOf(document)), random)
  },
  regions: (urls) => Regions.start(urls, 2),
  workers: (urls, random) => WorkersGateway.start(urls, random),
  isolates: (urls, random) => Isolates.start(urls, 3, random),
}

const INVARIANTS = [
  'lost_tokens',
  'duplicate_tokens',
  'leaked_prompts',
  'client_errors',
  'leaked_bookings',
  'limit_violations',
] as const

export default async function chaos({ flags, note }: BenchOptions): Promise<BenchResult> {
  const names = String(flags['deployment'] ?? Object.keys(DEPLOYMENTS).join()).split(',')
  const unknown = names.find((name) => DEPLOYMENTS[name] === undefined)
  if (unknown !== undefined)
    throw new Error(`--deployment: "${unknown}" is none of ${Object.keys(DEPLOYMENTS).join(', ')}.`)
  const ms = (Number(flags['minutes'] ?? 2) * 60_000) / names.length
  const plan = {
    ms,
    seed: Number(flags['seed'] ?? 1),
    ratePerS: Number(flags['rate'] ?? 25),
    settleS: Number(flags['settle-s'] ?? 90),
  }
  const runs: Figures[] = []
  const rows: BenchRow[] = []
  for (const name of names) {
    const figures = await runOn(name, plan, (line) => note(`${name}: ${line}`))
    runs.push(figures)
    const { gapRatios, ...row } = figures
    rows.push({ deployment: name, ...row, gap_ratio_p50: gapRatios.length === 0 ? null : median(gapRatios) })
  }
  const headline: Record<string, number> = {}
  for (const key of INVARIANTS) headline[key] = runs.reduce((sum, one) => sum + one[key], 0)
  const ratios = runs.flatMap(({ gapRatios }) => gapRatios)
  const growths = runs.flatMap((one) => one.rss_growth_bytes ?? [])
  const isBroken = Object.values(headline).some((value) => value !== 0) || runs.some(({ problems }) => problems > 0)
  if (isBroken) process.exitCode = 1
  return {
    rows,
    headline: {
      ...headline,
      ...(ratios.length === 0 ? {} : { gap_ratio_p50: median(ratios) }),
      ...(growths.length === 0 ? {} : { rss_growth_bytes: Math.max(...growths) }),
    },
  }
}

interface Plan {
  readonly ms: number
  readonly seed: number
  readonly ratePerS: number
  readonly settleS: number
}

async function runOn(name: string, plan: Plan, note: (line: string) => void): Promise<Figures> {
  const fleet = await startFleet({
    engines: 4,
    model: MODEL,
    adapters: POOLS.slice(1),
    connector: 'nixl',
    profile: 'demo',
  })
  try {
    const deployment = await DEPLOYMENTS[name]!(fleet.urls, seeded(plan.seed))
    let isStopped = false
    try {
      const run = new ChaosRun({ ...plan, deployment, fleet, note })
      await run.drive()
      await deployment.stop()
      isStopped = true
      return run.figures()
    } finally {
      if (!isStopped) await deployment.stop()
    }
  } finally {
    await fleet.close()
  }
}
