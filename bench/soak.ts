/**
 * Mixed outcomes until the books must be zero: streams, plain answers, aborts at every moment, client errors, and engines
 * that refuse, hang, reset, answer 500 and come back. Afterwards every ledger of every engine must be exactly zero.
 *
 * Flags: --requests 20000 (for each runtime) · --runtime both|node|workers · --workers 1 (I/O threads on Node) ·
 * --concurrency 48 · --seed 1
 */
import http from 'node:http'
import { startFleet, type RunningFleet } from '../src/platform/node/simulator-host.ts'
import { exchange, pick, seeded, type Outcomes } from './soak/mix.ts'
import { ADMIN_KEY, nodeSubject, workersSubject, type Subject } from './soak/subjects.ts'
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

export default async function soak({ flags, note }: BenchOptions): Promise<BenchResult> {
  const requests = Number(flags.requests ?? 20_000)
  const runtimes = flags.runtime === undefined || flags.runtime === 'both' ? ['node', 'workers'] : [String(flags.runtime)]
  const rows: BenchRow[] = []
  for (const runtime of runtimes) {
    const fleet = await startFleet({ engines: 4, model: 'sim', profile: 'test' } as Parameters<typeof startFleet>[0])
    const subject = await (runtime === 'node' ? nodeSubject(fleet.urls, Number(flags.workers ?? 1)) : workersSubject(fleet.urls))
    try {
      const plan = { requests, concurrency: Number(flags.concurrency ?? 48), seed: Number(flags.seed ?? 1) }
      rows.push({ runtime, ...(await run(subject, fleet, plan, (line) => note(`${runtime}: ${line}`))) })
    } finally {
      await subject.stop()
      await fleet.close()
    }
  }
  const sum = (key: string): number => rows.reduce((total, row) => total + Number(row[key]), 0)
  const leaked = sum('leaked_bookings')
  if (leaked !== 0) process.exitCode = 1
  return {
    rows,
    headline: { requests: sum('requests'), leaked_bookings: leaked, rss_growth_bytes: Math.max(...rows.map((row) => Number(row['rss_growth_bytes']))) },
  }
}

interface Plan {
  readonly requests: number
  readonly concurrency: number
  readonly seed: number
}

async function run(subject: Subject, fleet: RunningFleet, plan: Plan, note: (line: string) => void): Promise<BenchRow> {
  const random = seeded(plan.seed)
  const agent = new http.Agent({ keepAlive: true, maxSockets: plan.concurrency * 2 })
  const outcomes: Outcomes = {}
  let sent = 0
  const target = { url: subject.url, agent, random }
  const client = async (share: number): Promise<void> => {
    while (sent < share) {
      sent++
      if (sent % Math.ceil(plan.requests / 20) === 0) {
        stir(fleet, random)
        note(`${sent}/${plan.requests} ${JSON.stringify(outcomes)}`)
      }
      const outcome = await exchange(pick(random), target)
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
    }
  }
  const drive = (upTo: number): Promise<unknown> => Promise.all(Array.from({ length: plan.concurrency }, () => client(upTo)))
  // A third warms up code, pools and rings to their bounds; growth is counted after it.
  await drive(Math.floor(plan.requests / 3))
  const before = subject.rss()
  await drive(plan.requests)
  for (const engine of fleet.engines) engine.setFault(null)
  agent.destroy()
  const leaked = await ledgers(subject.url)
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
    lapsed: await lapsed(subject.url),
    zero_after_s: leaked.afterS,
    rss_before_mb: Math.round(before / 2 ** 20),
    rss_after_mb: Math.round(after / 2 ** 20),
    rss_growth_bytes: after - before,
  }
}

/** Another fault for a random engine; at least one stays whole. */
function stir(fleet: RunningFleet, random: () => number): void {
  const at = 1 + Math.floor(random() * (fleet.engines.length - 1))
  fleet.engines[at]!.setFault(FAULTS[Math.floor(random() * FAULTS.length)]!)
}

interface Ledgers {
  bookings: number
  blocks: number
  prefillS: number
  /** How long after the last request all were zero. */
  afterS: number
}

interface FleetView {
  readonly pools: readonly { bookings: number | null; engines: readonly { requests: number; active_blocks: number; queued_prefill_s: number }[] }[]
}

/** What is still booked once nothing can be under way: waits out hung engines and lapsing leases of workerd's lost clients. */
async function ledgers(url: string): Promise<Ledgers> {
  let seen: Ledgers = { bookings: NaN, blocks: NaN, prefillS: NaN, afterS: NaN }
  for (let i = 1; i <= 90; i++) {
    await new Promise((resolve) => setTimeout(resolve, 1000))
    const view = (await (await asked(`${url}/v1/firstlight/fleet`)).json()) as FleetView
    seen = { bookings: 0, blocks: 0, prefillS: 0, afterS: i }
    for (const pool of view.pools) {
      seen.bookings += pool.bookings ?? NaN
      for (const engine of pool.engines) {
        seen.bookings += engine.requests
        seen.blocks += engine.active_blocks
        seen.prefillS += engine.queued_prefill_s
      }
    }
    if (seen.bookings === 0 && seen.blocks === 0 && seen.prefillS === 0) break
  }
  return seen
}

/** Bookings that a limit ended, since nobody could see an end of their streams. */
async function lapsed(url: string): Promise<number> {
  const text = await (await asked(`${url}/metrics`)).text()
  return [...text.matchAll(/^firstlight_requests_total\{.*result="lapsed".*\} (\d+)$/gm)].reduce((sum, [, count]) => sum + Number(count), 0)
}

const asked = (url: string): Promise<Response> => fetch(url, { headers: { authorization: `Bearer ${ADMIN_KEY}` } })
