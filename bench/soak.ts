/**
 * Mixed outcomes until the books must be zero: streams, plain answers, aborts at every moment, client errors, and
 * engines
 * that refuse, hang, reset, answer 500 and come back. Afterwards every ledger of every engine must be exactly zero, no
 * engine may have been forgotten at work, no broken stream may have looked whole, and nobody may have had reason to
 * complain.
 *
 * Flags: --requests 20000 (for each runtime) · --runtime both|node|workers · --workers 1 (I/O threads on Node) ·
 * --concurrency 48 · --seed 1 · --upheavals 0: so many times, spread over the load, the gateway itself is changed under
 * way. On Node threads are killed and processes replaced (SIGTERM) by ones with other engines, pools, policies, limits
 * and
 * keys; on Workers two edges learn of such configurations at different times, and their object is evicted, loses its
 * alarms, and has its clock set forward and back. · --replicas 3: on Node alone, so many gateways over one Valkey
 * server; upheavals kill one and start it again, end it in order, or stop it for longer than a lease. With
 * --kill-engine
 * they also kill, freeze and empty the server and cut its connections.
 * · --regions 2: an edge before so many regional gateways, which share the engines; upheavals do the same to those.
 */
import http from 'node:http'
import { startFleet, type RunningFleet } from '../src/platform/node/simulator-host.ts'
import { MODEL, POOLS } from './soak/document.ts'
import { exchange, pick, seeded, type Outcomes } from './soak/mix.ts'
import { asked, type Ledger } from './soak/ledger.ts'
import { Regions } from './soak/regions.ts'
import { Replicas } from './soak/replicas.ts'
import { NodeUpheavals } from './soak/node-upheavals.ts'
import { nodeSubject, workersSubject, type Subject } from './soak/subjects.ts'
import { WorkersUpheavals } from './soak/workers-upheavals.ts'
import type { FaultRule } from '../src/simulator/faults.ts'
import type { BenchOptions, BenchResult, BenchRow } from './result.ts'

const FAULTS: readonly (FaultRule | null)[] = [
  null,
  { kind: 'status', status: 500, share: 0.3 },
  { kind: 'refuse' },
  { kind: 'reset', after: 2, share: 0.3 },
  { kind: 'reset', after: 0, share: 0.3 },
  { kind: 'hang', where: 'head', share: 0.05 },
  { kind: 'hang', where: 'middle', after: 2, share: 0.05 },
  { kind: 'cut', after: 2, share: 0.3 },
  { kind: 'close_idle', share: 0.3 },
  { kind: 'malformed', where: 'head', share: 0.2 },
  { kind: 'slow', factor: 3, delayMs: 20 },
]

/** Those a gateway can tell from an answer though it reads none of it: then no broken stream may look whole. */
const TOLD = FAULTS.filter((fault) => fault?.kind !== 'cut')

export default async function soak({ flags, note }: BenchOptions): Promise<BenchResult> {
  const requests = Number(flags.requests ?? 20_000)
  const replicas = Number(flags.replicas ?? 1)
  const runtimes =
    replicas > 1
      ? ['node']
      : flags.runtime === undefined || flags.runtime === 'both'
        ? ['node', 'workers']
        : [String(flags.runtime)]
  const rows: BenchRow[] = []
  for (const runtime of runtimes) {
    const plan = {
      requests,
      concurrency: Number(flags.concurrency ?? 48),
      seed: Number(flags.seed ?? 1),
      upheavals: Number(flags.upheavals ?? 0),
    }
    // Two more roads through the same engines, for configurations that take them.
    const fleet = await startFleet({
      engines: 4,
      model: MODEL,
      adapters: POOLS.slice(1),
      connector: 'nixl',
      profile: 'test',
    } as Parameters<typeof startFleet>[0])
    const subject = await subjectOf(runtime, {
      ...plan,
      urls: fleet.urls,
      workers: Number(flags.workers ?? 1),
      replicas,
      killEngine: flags['kill-engine'] !== undefined,
      regions: Number(flags.regions ?? 0),
    })
    let stopped = false
    try {
      const row = await run(subject, fleet, plan, (line) => note(`${runtime}: ${line}`))
      await subject.stop()
      stopped = true
      for (const complaint of subject.complaints) note(`${runtime}: ${complaint}`)
      const lies = plan.upheavals > 0 ? Number(row['clean_end_without_done']) : 0
      rows.push({ runtime, ...row, complaints: subject.complaints.length + lies })
    } finally {
      if (!stopped) await subject.stop()
      await fleet.close()
    }
  }
  const sum = (key: string): number => rows.reduce((total, row) => total + Number(row[key]), 0)
  const leaked = sum('leaked_bookings')
  if (leaked !== 0 || sum('complaints') !== 0 || sum('engines_busy') !== 0) process.exitCode = 1
  return {
    rows,
    headline: {
      requests: sum('requests'),
      leaked_bookings: leaked,
      rss_growth_bytes: Math.max(...rows.map((row) => Number(row['rss_growth_bytes']))),
    },
  }
}

interface Plan {
  readonly requests: number
  readonly concurrency: number
  readonly seed: number
  readonly upheavals: number
}

function subjectOf(
  runtime: string,
  {
    urls,
    workers,
    replicas,
    killEngine,
    regions,
    seed,
    upheavals,
  }: Plan & {
    readonly urls: readonly string[]
    readonly workers: number
    readonly replicas: number
    readonly killEngine: boolean
    readonly regions: number
  },
): Promise<Subject> {
  if (replicas > 1) return Replicas.start(urls, { replicas, killEngine }, seeded(seed))
  if (regions > 0) return Regions.start(urls, regions, runtime)
  if (upheavals === 0) return runtime === 'node' ? nodeSubject(urls, workers) : workersSubject(urls)
  const random = seeded(seed)
  return runtime === 'node' ? NodeUpheavals.start(urls, workers, random) : WorkersUpheavals.start(urls, random)
}

async function run(subject: Subject, fleet: RunningFleet, plan: Plan, note: (line: string) => void): Promise<BenchRow> {
  const random = seeded(plan.seed)
  const agent = new http.Agent({ keepAlive: true, maxSockets: plan.concurrency * 2 })
  const outcomes: Outcomes = {}
  let sent = 0
  // Its own chance: the same upheavals in the same order, whatever the clients do.
  const upheavals = new Upheavals(subject, seeded(plan.seed + 1), note)
  const every = Math.ceil(plan.requests / (plan.upheavals + 1))
  const client = async (share: number): Promise<void> => {
    while (sent < share) {
      sent++
      if (sent % Math.ceil(plan.requests / 20) === 0) {
        stir(fleet, random, plan.upheavals > 0 ? TOLD : FAULTS)
        note(`${sent}/${plan.requests} ${JSON.stringify(outcomes)}`)
      }
      if (sent % every === 0) upheavals.next()
      const outcome = await exchange(pick(random), { url: subject.target(), key: subject.key, agent, random })
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
    }
  }
  const drive = (upTo: number): Promise<unknown> =>
    Promise.all(Array.from({ length: plan.concurrency }, () => client(upTo)))
  // A third warms up code, pools and rings to their bounds; growth is counted after it.
  await drive(Math.floor(plan.requests / 3))
  const before = subject.rss()
  await drive(plan.requests)
  await upheavals.over()
  for (const engine of fleet.engines) engine.setFault(null)
  agent.destroy()
  const leaked = await zero(subject)
  const after = subject.rss()
  note(`outcomes ${JSON.stringify(outcomes)}`)
  return {
    requests: sent,
    ok: outcomes['ok'] ?? 0,
    aborted: outcomes['aborted'] ?? 0,
    cut: outcomes['cut'] ?? 0,
    clean_end_without_done: outcomes['clean_end_without_done'] ?? 0,
    leaked_bookings: leaked.bookings,
    leaked_blocks: leaked.blocks,
    leaked_prefill_s: leaked.prefillS,
    lapsed: await lapsed(subject.target()),
    zero_after_s: leaked.afterS,
    engines_busy: fleet.engines.reduce((total, { log }) => total + log.running, 0),
    rss_before_mb: Math.round(before / 2 ** 20),
    rss_after_mb: Math.round(after / 2 ** 20),
    rss_growth_bytes: after - before,
  }
}

/** One at a time, while the load goes on. */
class Upheavals {
  readonly #subject: Subject
  readonly #random: () => number
  readonly #note: (line: string) => void
  #last: Promise<void> = Promise.resolve()

  constructor(subject: Subject, random: () => number, note: (line: string) => void) {
    this.#subject = subject
    this.#random = random
    this.#note = note
  }

  next(): void {
    this.#last = this.#last.then(async () => this.#note(`upheaval: ${await this.#subject.upheave?.(this.#random)}`))
  }

  over(): Promise<void> {
    return this.#last
  }
}

/** Another fault for a random engine; at least one stays whole. */
function stir(fleet: RunningFleet, random: () => number, faults: readonly (FaultRule | null)[]): void {
  const at = 1 + Math.floor(random() * (fleet.engines.length - 1))
  fleet.engines[at]!.setFault(faults[Math.floor(random() * faults.length)]!)
}

const UNKNOWN: Ledger = { bookings: NaN, blocks: NaN, prefillS: NaN }

interface Zero extends Ledger {
  /** How long after the last request all were zero, seconds. */
  readonly afterS: number
}

/**
 * What is still booked once nothing can be under way: waits out hung engines and lapsing leases of workerd's lost
 * clients.
 */
async function zero(subject: Subject): Promise<Zero> {
  let seen = UNKNOWN
  for (let afterS = 1; afterS <= 90; afterS++) {
    await new Promise((resolve) => setTimeout(resolve, 1000))
    // A gateway whose threads have just been killed is asked again.
    seen = await subject.ledger().catch(() => UNKNOWN)
    if (seen.bookings === 0 && seen.blocks === 0 && seen.prefillS === 0) return { ...seen, afterS }
  }
  return { ...seen, afterS: Infinity }
}

/** Bookings that a limit ended, since nobody could see an end of their streams. */
async function lapsed(url: string): Promise<number> {
  const text = await (await asked(`${url}/metrics`)).text()
  return [...text.matchAll(/^firstlight_requests_total\{.*result="lapsed".*\} (\d+)$/gm)].reduce(
    (sum, [, count]) => sum + Number(count),
    0,
  )
}
