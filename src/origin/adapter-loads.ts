/** Loads adapters on engines for requests that need them, and unloads those that the pool state names. */
import type { AdapterLoad } from '../core/contract/placement.ts'
import { adaptersFromModels } from '../engines/model-list.ts'
import type { EngineTarget } from '../ports/engine-target.ts'
import { withDeadline } from '../timeout.ts'
import { timersOf } from '../timers.ts'
import type { AttemptContext, FailedOutcome } from './attempt-context.ts'
import type { LegResult } from './disagg/final-leg.ts'
import { commandEngine } from './pause/engine-command.ts'
import { readRoute } from './engine-route.ts'
import { knownEngines } from './known-engines.ts'
import { engineProbe, newProbeMemory } from './probes/engine-probe.ts'
import { jsonOf } from './probes/engine-detection.ts'
import type { PoolRoute } from './pool-route.ts'
import { serverOf } from './rank-targets.ts'
import type { UpstreamPorts } from './upstream-ports.ts'

const UNLOAD_MS = 30_000

const LIST_MS = 2_000

type Legs = (attempt: AttemptContext) => LegResult | Promise<LegResult>

/** The legs of a pool with adapters: a request for one is sent when its engine has it, under the engine's name. */
export const withAdapters =
  (legs: Legs): Legs =>
  (attempt) => {
    const { exchange, placed } = attempt
    return exchange.source.admission(placed.route).adapter === null ? legs(attempt) : prepared(attempt, legs)
  }

async function prepared(attempt: AttemptContext, legs: Legs): Promise<LegResult> {
  const { placed, ports } = attempt
  const { engine, placement } = placed
  if (!(await isTypeKnown(ports, engine))) return { failed: failed(engine) }
  const load = placement.kind === 'whole' ? placement.adapter : undefined
  if (load !== undefined && !(await loads(ports).load({ attempt, load }))) return { failed: failed(engine) }
  return legs(attempt)
}

const failed = (engine: EngineTarget): FailedOutcome => ({ engine, failure: 'lacks_adapter', status: null })

/**
 * Types name adapters differently, and SGLang answers an unknown name with the base model. So the type is found out
 * first, where no probe of this process or isolate has. false: the engine did not answer.
 */
async function isTypeKnown({ origin, log, now }: UpstreamPorts, engine: EngineTarget): Promise<boolean> {
  const known = knownEngines(origin)
  const server = serverOf(engine)
  if (known.isDetected(server)) return true
  const probe = await engineProbe(origin, log, newProbeMemory(known))(server, now)
  return probe?.kind === 'probe' && probe.healthy
}

interface LoadRequest {
  readonly attempt: AttemptContext
  readonly load: AdapterLoad
}

interface RunningLoad {
  readonly result: Promise<boolean>
  readonly endsAt: number
}

/** Loads that run, by the engine's URL: one at a time, and one for all requests that wait for the adapter. */
class AdapterLoads {
  readonly #byUrl = new Map<string, Map<string, RunningLoad>>()

  async load({ attempt, load }: LoadRequest): Promise<boolean> {
    const { exchange, placed, ports } = attempt
    const { route, engine } = placed
    const { loadMs } = route.pool.adapterLoading!
    const { url } = engine
    const running = this.#runningAt(url, ports.now())
    let own = running.get(load.load)
    if (own === undefined) {
      const before = [...running.values()].map(({ result }) => result)
      const result = Promise.all(before).then(() => loadNow(ports, route, serverOf(engine), load))
      own = { result, endsAt: ports.now() + loadMs * (before.length + 1) }
      running.set(load.load, own)
      const ended = result.finally(() => running.delete(load.load))
      // A client that leaves does not end it: others wait for it, and the pool state expects its result.
      exchange.scope.background(ended.then(() => {}))
    }
    const { scope, signal, longWait } = exchange
    try {
      const limitMs = Math.max(1, own.endsAt - ports.now())
      const loaded = withDeadline(limitMs, own.result, { timers: timersOf(scope, ports), signal })
      return await (longWait?.during(loaded) ?? loaded)
    } catch {
      if (signal.aborted) throw signal.reason
      return false
    }
  }

  /** Loads of an engine. On Workers a load that the end of its request interrupted never resolves. */
  #runningAt(url: string, now: number): Map<string, RunningLoad> {
    const running = this.#byUrl.get(url) ?? new Map<string, RunningLoad>()
    this.#byUrl.set(url, running)
    for (const [adapter, { endsAt }] of running) if (endsAt <= now) running.delete(adapter)
    return running
  }
}

/** Never rejects. */
async function loadNow(
  ports: UpstreamPorts,
  route: PoolRoute,
  server: EngineTarget,
  load: AdapterLoad,
): Promise<boolean> {
  const { cluster, pool } = route
  const startedAt = ports.now()
  const isLoaded = await changeAdapters(ports, route, server, load)
  const facts = { cluster: cluster.id, engine: server.id, adapter: load.load, unloaded: load.unload.join(' ') }
  if (isLoaded) ports.log.info('adapter_loaded', { ...facts, ms: ports.now() - startedAt })
  else ports.log.warn('adapter_load_failed', facts)
  const signal = { kind: 'adapter', engine: server.id, adapter: load.load, loaded: isLoaded } as const
  await ports
    .pool(cluster.id, pool.model)
    .observe([signal])
    .catch((error: unknown) => ports.log.warn('adapter_report_failed', { ...facts, error }))
  return isLoaded
}

async function changeAdapters(
  ports: UpstreamPorts,
  { pool }: PoolRoute,
  server: EngineTarget,
  { load, unload }: AdapterLoad,
): Promise<boolean> {
  const { sources, loadMs } = pool.adapterLoading!
  const { adapters } = knownEngines(ports.origin).typeOf(server)
  const path = sources[load]
  if (adapters?.load == null || adapters.unload === null || path === undefined) return false
  for (const name of unload) await commandEngine(ports, server, adapters.unload(name), UNLOAD_MS)
  const result = await commandEngine(ports, server, adapters.load(load, path), loadMs)
  // Another gateway may have loaded it meanwhile, which engines answer with an error.
  return result === 'obeyed' || (await isListed(ports, server, load))
}

async function isListed({ origin }: UpstreamPorts, server: EngineTarget, adapter: string): Promise<boolean> {
  try {
    const { text } = await readRoute(origin, server, '/v1/models', { limitMs: LIST_MS })
    return adaptersFromModels(jsonOf(text))?.includes(adapter) === true
  } catch {
    return false
  }
}

const byOrigin = new WeakMap<UpstreamPorts['origin'], AdapterLoads>()

function loads({ origin }: UpstreamPorts): AdapterLoads {
  const known = byOrigin.get(origin)
  if (known !== undefined) return known
  const added = new AdapterLoads()
  byOrigin.set(origin, added)
  return added
}
