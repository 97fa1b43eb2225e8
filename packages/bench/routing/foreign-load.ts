/**
 * Half of the load goes past the gateway. The gateway sees it only in what the engines report; it is compared with a
 * gateway that books every request, and with one that gets no reports. `bound_*` are bounds: at every interval the
 * gateway receives each request on the engines with its prompt, then its first token and its end.
 */
import { readAdmission } from '../../../src/core/contract/decode.ts'
import type { EngineGauges, ReplayEngine } from '../../replay/src/replay/replay-engine.ts'
import { GatewayRouter } from '../../replay/src/replay/gateway-router.ts'
import { chance } from '../../replay/src/replay/chance.ts'
import { fleetOf, replay, type FleetPlan } from '../../replay/src/replay/plan.ts'
import { engineProfile } from '../../replay/src/replay/engine-profile.ts'
import { speedsOn } from '../../replay/src/replay/sustained-speed.ts'
import type { ReplayRouter, Route, RouterContext, RouterKind } from '../../replay/src/replay/router.ts'
import type { Job } from '../../replay/src/replay/job.ts'
import type { Trace } from '../../replay/src/replay/trace.ts'
import { longSharedPrefixes } from '../../replay/src/replay/workloads.ts'
import { arriving } from '../policies/workloads.ts'
import type { BenchResult } from '../result.ts'

const ENGINES = 8
/** Engines that get the foreign load of the skewed case. */
const SKEWED = 3
const REQUESTS = 1500
const LOAD = 0.6
const SEEDS = [1, 2, 3]

/** Interval of the engines' reports, or of reports to the gateway, milliseconds; absent: the default. */
const INTERVALS_MS: Readonly<Record<string, number>> = {
  reports_10s: 10_000,
  reports_1s: 1000,
  reports_500ms: 500,
  reports_250ms: 250,
  bound_10s: 10_000,
  bound_1s: 1000,
  bound_250ms: 250,
}
const KNOWLEDGE = ['books_all', 'reports', 'nothing', ...Object.keys(INTERVALS_MS)]

interface Case {
  readonly name: string
  /** Number of engines that get requests past the gateway; 0: all requests come through it. */
  readonly foreignEngines: number
}

const CASES: readonly Case[] = [
  { name: 'even', foreignEngines: ENGINES },
  { name: 'skewed', foreignEngines: SKEWED },
  { name: 'none', foreignEngines: 0 },
]

export function foreignLoad(): BenchResult {
  const fleet = fleetOf(ENGINES, { kind: 'vllm', profile: engineProfile('agentic') })
  const speedAt = speedsOn(fleet)
  const rows = CASES.flatMap((one) =>
    KNOWLEDGE.map((knows) => ({ case: one.name, knows, ttft_mean_ms: meanTtftMs({ fleet, speedAt }, one, knows) })),
  )
  const of = (name: string, knows: string) => rows.find((row) => row.case === name && row.knows === knows)!.ttft_mean_ms
  const ratio = (name: string, knows: string) => Math.round((1000 * of(name, knows)) / of(name, 'books_all')) / 1000
  return {
    rows,
    headline: {
      foreign_load_ttft_ratio: Math.max(ratio('even', 'reports'), ratio('skewed', 'reports')),
      foreign_load_ttft_ratio_1s: Math.max(ratio('even', 'reports_1s'), ratio('skewed', 'reports_1s')),
      foreign_load_ttft_ratio_250ms: Math.max(ratio('even', 'reports_250ms'), ratio('skewed', 'reports_250ms')),
      foreign_load_ttft_ratio_bound_1s: Math.max(ratio('even', 'bound_1s'), ratio('skewed', 'bound_1s')),
      foreign_load_ttft_ratio_bound_250ms: Math.max(ratio('even', 'bound_250ms'), ratio('skewed', 'bound_250ms')),
      foreign_load_ttft_ratio_without_reports: Math.max(ratio('even', 'nothing'), ratio('skewed', 'nothing')),
      own_load_ttft_ratio: Math.round((1000 * of('none', 'reports')) / of('none', 'nothing')) / 1000,
    },
  }
}

interface Setting {
  readonly fleet: FleetPlan
  readonly speedAt: ReturnType<typeof speedsOn>
}

function meanTtftMs({ fleet, speedAt }: Setting, { foreignEngines }: Case, knows: string): number {
  let sum = 0
  for (const seed of SEEDS) {
    const trace = traceOf(seed)
    const pace = { closedLoop: false, concurrency: Infinity, holdAt: null, seed, clockMs: null }
    const speed = speedAt(LOAD, trace, pace)
    const kind: RouterKind = {
      name: knows,
      doc: '',
      source: '',
      create: (context) => new HalfRouter(context, { foreignEngines, knows, seed }),
    }
    const { jobs } = replay(trace, fleet, kind, { ...pace, speed })
    const own = jobs.filter((job) => foreignEngines === 0 || !isForeign(job))
    sum += own.reduce((total, { firstTokenAt, sentAt }) => total + firstTokenAt - sentAt, 0) / own.length
  }
  return Math.round(sum / SEEDS.length)
}

function traceOf(seed: number): Trace {
  const trace = longSharedPrefixes({
    name: 'prefixes',
    requests: REQUESTS,
    prefixes: 40,
    seed,
  })
  return arriving(trace, 3, chance(10 + seed))
}

const isForeign = ({ index }: Job): boolean => index % 2 === 1

/** The gateway for one half; the other half goes to engines in random order, past it. */
class HalfRouter implements ReplayRouter {
  readonly name: string
  readonly #gateway: GatewayRouter
  readonly #random: () => number
  readonly #foreignEngines: number
  readonly #knows: string
  /** Requests past the gateway since the last interval. */
  #unreported: { readonly job: Job; readonly engine: number }[] = []

  constructor(
    context: RouterContext,
    options: { readonly foreignEngines: number; readonly knows: string; readonly seed: number },
  ) {
    const { foreignEngines, knows, seed } = options
    this.name = knows
    const engines = knows.startsWith('reports') ? context.engines : context.engines.map((engine) => silent(engine))
    const policy = { name: 'predicted', options: {} }
    this.#gateway = new GatewayRouter({ name: knows, policy }, { ...context, engines })
    this.#random = chance(seed + 100)
    this.#foreignEngines = foreignEngines
    this.#knows = knows
  }

  get scrapeMs(): number {
    return INTERVALS_MS[this.#knows] ?? this.#gateway.scrapeMs
  }

  route(job: Job, now: number): Route | null {
    if (this.#foreignEngines === 0 || !isForeign(job)) return this.#gateway.route(job, now)
    const engine = Math.floor(this.#random() * this.#foreignEngines)
    if (this.#knows === 'books_all') this.#receive(job, engine, now)
    if (this.#knows.startsWith('bound')) this.#unreported.push({ job, engine })
    return { engine }
  }

  firstToken(job: Job, now: number): void {
    this.#gateway.firstToken(job, now)
  }

  progress(job: Job, outputBlocks: number, now: number): void {
    this.#gateway.progress(job, outputBlocks, now)
  }

  ended(job: Job, now: number): void {
    this.#gateway.ended(job, now)
  }

  scrape(now: number): void {
    this.#gateway.scrape(now)
    for (const { job, engine } of this.#unreported) if (job.endedAt < 0) this.#receive(job, engine, now)
    this.#unreported = []
  }

  #receive(job: Job, engine: number, now: number): void {
    const placement = { kind: 'whole', engine: `engine-${engine}`, runnersUp: [] } as const
    const delivery = job.firstTokenAt < 0 ? 'now' : { outputBlocks: 0 }
    this.#gateway.receive({ job, admission: admissionOf(job), placement }, delivery, now)
  }
}

function admissionOf({ index, promptTokens, blocks }: Job): ReturnType<typeof readAdmission> {
  return readAdmission({
    id: `r${index}`,
    configVersion: 1,
    model: 'replay',
    promptTokens,
    streams: true,
    tokenSource: 'exact',
    blocks,
  })
}

/** The engine without reports of its load. */
function silent(engine: ReplayEngine): ReplayEngine {
  return new Proxy(engine, {
    get(target, name) {
      if (name === 'gauges') return (): EngineGauges => ({ running: 0, waiting: 0, kvUsage: 0 })
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}
