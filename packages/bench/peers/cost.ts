/**
 * CPU, first byte and memory of gateways that run at the same time in front of the same stub engines and get the load in
 * turns, so that a busy machine disturbs all alike.
 */
import { median } from '../median.ts'
import { type LoadResult, rssBytes, runLoad, startScript } from '../proxy/processes.ts'
import type { BenchResult, BenchRow } from '../result.ts'
import {
  type Gateway,
  type GatewaySite,
  OWN,
  ROUND_ROBIN,
  SMG_CACHE_AWARE,
  SMG_POLICIES,
  startGateway,
} from './gateways.ts'
import { type PairedRatio, pairedRatio } from './paired-ratio.ts'

interface Scenario {
  readonly name: string
  readonly connections: number
  readonly bytes: number
  readonly stream?: boolean
  readonly pace: readonly [ttftMs: number, itlMs: number]
  /** Of a slice, about a second on an idle machine. All that end in a slice count, whenever they began. */
  readonly requests: number
}

const C1 = '1k c1'
const BURST = '1k burst c64'
const BURST_256 = '1k burst c256'
const LONG = '220k c16'
const PLAIN = '1k plain c64'
const PACED = '1k paced c32'

const SCENARIOS: readonly Scenario[] = [
  { name: C1, connections: 1, bytes: 1024, pace: [0, 0], requests: 1_500 },
  { name: BURST, connections: 64, bytes: 1024, pace: [0, 0], requests: 4_000 },
  { name: BURST_256, connections: 256, bytes: 1024, pace: [0, 0], requests: 4_000 },
  { name: LONG, connections: 16, bytes: 220_000, pace: [0, 0], requests: 600 },
  { name: PLAIN, connections: 64, bytes: 1024, stream: false, pace: [0, 0], requests: 8_000 },
  { name: PACED, connections: 32, bytes: 1024, pace: [20, 5], requests: 400 },
]

/** Measured in every round; the others in each third round, with a quarter of the requests. */
const ALWAYS = [OWN, ROUND_ROBIN, SMG_CACHE_AWARE]
const SUBJECTS = [
  ...ALWAYS,
  ...SMG_POLICIES.filter((name) => name !== SMG_CACHE_AWARE),
  'vllm-router:cache_aware',
  'nginx',
  'dynamo:round-robin',
  'dynamo:kv',
]
const ROUNDS_PER_OTHER = 3
const ENGINES = 4
const OTHERS_SHARE = 1 / 4
const TOKENS = 16
/** A JavaScript gateway costs more until its code is optimized. */
const WARM_REQUESTS = 20_000
const PEER_WARM_REQUESTS = 1_000

interface Slice extends LoadResult {
  readonly rssMb: number
}

/** Slices of a scenario by gateway and round; null: not measured in that round. */
type Slices = ReadonlyMap<string, readonly (Slice | null)[]>

export interface CostPlan {
  readonly pairs: number
  /** Only scenarios with this in their name. */
  readonly scenario: string
}

export async function measureCost(
  site: Omit<GatewaySite, 'engines' | 'model'>,
  { pairs, scenario: word }: CostPlan,
): Promise<BenchResult> {
  const engines = await startScript('stub-engine.ts', ['0', String(ENGINES)])
  const urls = engines.ports.map((port) => `http://127.0.0.1:${port}`)
  const gateways: Gateway[] = []
  try {
    for (const name of SUBJECTS) {
      site.note(`starting ${name} …`)
      const started = await startGateway(name, { ...site, engines: urls, model: 'fake' })
      if (started !== null) gateways.push(started)
    }
    for (const gateway of gateways) await warm(gateway, site.note)
    const measured = new Map<string, Slices>()
    for (const scenario of SCENARIOS.filter(({ name }) => name.includes(word))) {
      // A gateway may drop the field that sets the pace.
      await fetch(`${urls[0]}/pace/${scenario.pace.join('/')}/${TOKENS}`)
      measured.set(scenario.name, await measureScenario(scenario, gateways, { pairs, note: site.note }))
    }
    return { rows: rowsOf(measured), headline: headlineOf(measured) }
  } finally {
    await Promise.all(gateways.map((gateway) => gateway.end()))
    engines.stop()
  }
}

async function warm(gateway: Gateway, note: (line: string) => void): Promise<void> {
  note(`warming ${gateway.name} …`)
  const requests = gateway.name === OWN ? WARM_REQUESTS : PEER_WARM_REQUESTS
  const load = { port: gateway.port, head: gateway.head, connections: 64, bytes: 1024, maxTokens: TOKENS }
  await runLoad({ ...load, requests, warmRequests: 64 }, null)
  await runLoad({ ...load, stream: false, requests: requests / 2, warmRequests: 64 }, null)
  await runLoad({ ...load, connections: 8, bytes: 220_000, requests: requests / 20, warmRequests: 8 }, null)
}

async function measureScenario(
  { name, requests, pace, stream = true, ...shape }: Scenario,
  gateways: readonly Gateway[],
  { pairs, note }: { readonly pairs: number; note(line: string): void },
): Promise<Slices> {
  const slices = new Map<string, (Slice | null)[]>(gateways.map((gateway) => [gateway.name, []]))
  const own = gateways.find((gateway) => gateway.name === OWN)!
  // A JavaScript gateway compiles code for a new shape of load. Until then a request costs twice as much.
  const load = { port: own.port, ...shape, stream, maxTokens: TOKENS }
  await runLoad({ ...load, requests, warmRequests: shape.connections }, null)
  for (let round = 0; round < pairs; round += 1) {
    note(`${name}, round ${round + 1} of ${pairs} …`)
    for (const gateway of round % 2 === 0 ? gateways : gateways.toReversed()) {
      const isMain = ALWAYS.includes(gateway.name)
      const hasPace = pace[1] === 0 || !gateway.hasOwnEngines
      const isDue = hasPace && (isMain || round % ROUNDS_PER_OTHER === 0)
      const counts = { requests: isMain ? requests : requests * OTHERS_SHARE, warmRequests: shape.connections }
      const slice = isDue
        ? await runLoad({ ...load, port: gateway.port, head: gateway.head, ...counts }, gateway.pid)
        : null
      slices.get(gateway.name)!.push(slice === null ? null : { ...slice, rssMb: rssBytes(gateway.pid) / 2 ** 20 })
    }
  }
  return slices
}

const figure = (slices: Slices, name: string, pick: (one: Slice) => number | null): (number | null)[] =>
  slices.get(name)?.map((slice) => (slice === null ? null : pick(slice))) ?? []

const ratioTo = (slices: Slices, peer: string, pick: (one: Slice) => number | null): PairedRatio | null =>
  pairedRatio(figure(slices, OWN, pick), figure(slices, peer, pick))

const cpu = ({ cpu_us: us }: Slice): number | null => us
const firstByte = ({ ttfb_ms_p99: ms }: Slice): number => ms
const memory = ({ rssMb }: Slice): number => rssMb

function rowsOf(measured: ReadonlyMap<string, Slices>): BenchRow[] {
  return [...measured].flatMap(([scenario, slices]) =>
    [...slices].map(([name, of]) => {
      const found = of.filter((slice) => slice !== null)
      const middle = (pick: (one: Slice) => number): number | null =>
        found.length === 0 ? null : median(found.map(pick))
      const ratio = name === OWN ? null : ratioTo(slices, name, cpu)
      return {
        part: 'cost',
        scenario,
        gateway: name,
        cpu_us: middle(({ cpu_us: us }) => us!),
        firstlight_cpu_ratio: ratio?.ratio ?? null,
        ratio_low: ratio?.low ?? null,
        ratio_high: ratio?.high ?? null,
        first_byte_p50_ms: middle(({ ttfb_ms_p50: ms }) => ms),
        first_byte_p99_ms: middle(firstByte),
        rss_mb: Math.round(Math.max(0, ...found.map(memory))),
        pairs: found.length,
        errors: found.reduce((sum, { errors }) => sum + errors, 0),
      }
    }),
  )
}

function headlineOf(measured: ReadonlyMap<string, Slices>): Record<string, number> {
  const versus = (scenario: string, pick = cpu as (one: Slice) => number | null): number | null =>
    ratioTo(measured.get(scenario) ?? new Map(), ROUND_ROBIN, pick)?.ratio ?? null
  const smg = [...measured.values()].map((slices) => ratioTo(slices, SMG_CACHE_AWARE, cpu)?.ratio ?? null)
  const peak = (name: string): number =>
    Math.max(0, ...[...measured.values()].flatMap((slices) => figure(slices, name, memory).map((mb) => mb ?? 0)))
  const hasRoundRobin = peak(ROUND_ROBIN) > 0
  const figures: Readonly<Record<string, number | null>> = {
    cpu_vs_smg_cache_aware_max: smg.includes(null) ? null : Math.max(...smg.map(Number)),
    cpu_vs_round_robin_burst: versus(BURST),
    cpu_vs_round_robin_220k: versus(LONG),
    cpu_vs_round_robin_c1: versus(C1),
    cpu_vs_round_robin_paced: versus(PACED),
    cpu_vs_round_robin_plain: versus(PLAIN),
    first_byte_p99_vs_round_robin_c256: versus(BURST_256, firstByte),
    rss_vs_round_robin: hasRoundRobin ? peak(OWN) / peak(ROUND_ROBIN) : null,
  }
  return Object.fromEntries(Object.entries(figures).filter((entry): entry is [string, number] => entry[1] !== null))
}
