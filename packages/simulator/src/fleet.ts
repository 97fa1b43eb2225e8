import { type Clock, realClock } from './clock.ts'
import { handleRequest } from './engine-fetch.ts'
import { type EngineOptions, settingsOf } from './engine-options.ts'
import type { FleetServices } from './engine-process.ts'
import { SimulatedEngine } from './engine.ts'
import { KvNetwork } from './kv-network.ts'
import type { ReportSink } from './ttft-reporter.ts'

/** A fleet: the number of engines or a list; the other options are defaults of every engine. */
export interface FleetOptions extends Omit<EngineOptions, 'id'> {
  readonly engines?: number | readonly EngineOptions[]
  readonly clock?: Clock
  /** Random source for faults with a `share`, in [0, 1). */
  readonly random?: () => number
  readonly newId?: () => string
  /** Destination of the stage reports before each first token. */
  readonly report?: ReportSink | null
}

export interface Fleet {
  readonly engines: readonly SimulatedEngine[]
  readonly clock: Clock
  /** Returns the engine of that id; throws if there is none. */
  engine(id: string): SimulatedEngine
  /** Calls an engine without a network by the host of its URL: `http://engine-0.sim/v1/models`. */
  fetch(request: Request): Promise<Response>
  /** Such a base URL for each engine. */
  readonly urls: readonly string[]
  /** Stops all engines and interrupts running requests. */
  stop(): void
}

/** Creates engines that share a clock, a KV network and an encoder cache. A host can listen on ports for them. */
export function createFleet(options: FleetOptions = {}): Fleet {
  const {
    engines: engineList = 1,
    clock = realClock,
    random = Math.random,
    newId = hexId,
    report = null,
    ...shared
  } = options
  const services: FleetServices = { clock, random, newId, network: new KvNetwork(), encodings: new Set(), report }
  const each: readonly EngineOptions[] =
    typeof engineList === 'number' ? Array.from({ length: engineList }, () => ({})) : engineList
  const engines = each.map(
    (own, index) => new SimulatedEngine(settingsOf({ ...shared, ...own }, index), index, services),
  )
  const byId = new Map(engines.map((engine) => [engine.settings.id, engine]))
  if (byId.size !== engines.length) throw new RangeError('two engines of a fleet have the same id')
  const engine = (id: string): SimulatedEngine => {
    const found = byId.get(id)
    if (found === undefined) throw new RangeError(`unknown engine "${id}"; engines: ${[...byId.keys()].join(', ')}`)
    return found
  }
  return {
    engines,
    clock,
    engine,
    fetch: (request) => {
      const id = new URL(request.url).hostname.replace(/\.sim$/, '')
      const found = byId.get(id)
      if (found === undefined) return Promise.reject(new TypeError(`fetch failed: unknown simulated engine "${id}"`))
      return handleRequest(found, request)
    },
    urls: engines.map(({ settings }) => `http://${settings.id}.sim`),
    stop: () => {
      for (const one of engines) one.kill()
    },
  }
}

const hexId = (): string => crypto.randomUUID().replaceAll('-', '')
