/** One gateway as it is shipped, on one runtime, before scripted engines of one type. */
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { FakeEngine } from '../../../test/kit/fake-engine.ts'
import { localhost } from '../../../test/kit/localhost-certificate.ts'
import { startEdge } from '../../../scripts/edge.ts'
import { startServed } from '../proxy/processes.ts'
import { ADMIN, FIELD_KEY, limitedKey } from './credentials.ts'
import { engineRoutes } from './engine-routes.ts'
import { FieldCluster } from './field-cluster.ts'
import type { Runtime } from './matrix.ts'
import type { PoolPlan } from './pool-plan.ts'
import { engineId, SitePool } from './site-pool.ts'

export interface SitePlan {
  readonly runtime: Runtime
  readonly type: string
  /** Further keys of the configuration. */
  readonly config: Readonly<Record<string, unknown>>
  /** Pools by model name. */
  readonly pools: ReadonlyMap<string, PoolPlan>
  /** Text of the built Worker. */
  readonly script: string
}

type Engines = ReadonlyMap<string, FakeEngine>

export class Site {
  readonly pools: ReadonlyMap<string, SitePool>
  readonly #stop: () => Promise<unknown>

  private constructor(pools: ReadonlyMap<string, SitePool>, stop: () => Promise<unknown>) {
    this.pools = pools
    this.#stop = stop
  }

  static async open(plan: SitePlan): Promise<Site> {
    const engines = new Map<string, Engines>()
    for (const [model, pool] of plan.pools) engines.set(model, await openEngines(pool, model, plan.type))
    const own = await FakeEngine.open({ 'GET *': { body: {} }, '*': { status: 500, body: {} } })
    const podEngines = [...plan.pools].flatMap(([model, { pods }]) => (pods === true ? [...engines.get(model)!] : []))
    const cluster = podEngines.length === 0 ? null : await FieldCluster.open(podEngines)
    const gateway = await startGateway(plan, documentOf(plan, engines, own.url), cluster?.env ?? {})
    const pools = [...engines].map(([model, opened]) => [model, new SitePool(gateway, model, opened)] as const)
    return new Site(new Map(pools), () => Promise.all([gateway.stop(), own.close(), cluster?.close()]))
  }

  async close(): Promise<void> {
    await this.#stop()
    for (const { engines } of this.pools.values()) for (const engine of engines.values()) await engine.close()
  }
}

async function openEngines({ letters, routes, secure }: PoolPlan, model: string, type: string): Promise<Engines> {
  const opened = new Map<string, FakeEngine>()
  const options = secure === true ? { secure: localhost } : {}
  for (const letter of letters)
    opened.set(letter, await FakeEngine.open({ ...engineRoutes(type), ...routes?.(letter, type, model) }, options))
  return opened
}

/** @param ownUrl engine that fails all requests, before providers, which are the last resort */
function documentOf({ type, config, pools }: SitePlan, engines: ReadonlyMap<string, Engines>, ownUrl: string): object {
  return {
    version: Date.now(),
    admin: { secret: ADMIN },
    log: { level: 'warn' },
    keys: [
      { name: 'field', secret: FIELD_KEY },
      ...[...pools].map(([model, { keyLimits = {} }]) => ({
        name: model,
        secret: limitedKey(model),
        limits: { tokens_per_min: 100_000_000, ...keyLimits },
      })),
    ],
    ...config,
    clusters: [
      {
        id: 'c',
        pools: [...pools].map(([model, { pool, engine }]) => ({
          model,
          policy: 'round_robin',
          retry: { share: 1, min_per_s: 1000 },
          circuit: { failures: 1000 },
          stats_interval_ms: 60_000,
          engines: enginesOf({ model, type, ownUrl, engine }, engines.get(model)!),
          ...pool?.(type, model),
        })),
      },
    ],
  }
}

interface PoolParts {
  readonly engine: PoolPlan['engine'] | undefined
  readonly model: string
  readonly type: string
  readonly ownUrl: string
}

/** Engines of one pool in the configuration. */
function enginesOf({ model, type, ownUrl, engine }: PoolParts, engines: Engines): readonly object[] {
  const urls = [...engines.values()].map(({ url }) => url)
  const kind = type === 'external' ? { kind: 'external' } : type === 'unknown' ? {} : { type }
  const own = type === 'external' ? [{ id: engineId('own', model), url: `${ownUrl}/${model}` }] : []
  return [
    ...own,
    ...[...engines].map(([letter, { url }]) => ({
      id: engineId(letter, model),
      url,
      ...kind,
      ...engine?.(letter, type, urls),
    })),
  ]
}

interface StartedGateway {
  readonly url: string
  readonly log: () => string
  stop(): Promise<unknown>
}

async function startGateway(
  { runtime, script }: SitePlan,
  document: object,
  env: Readonly<Record<string, string>>,
): Promise<StartedGateway> {
  if (runtime === 'worker') {
    const lines: string[] = []
    const bindings = { FIRSTLIGHT_CONFIG: JSON.stringify(document) }
    const edge = await startEdge({ port: 0, bindings, script, logged: (line) => void lines.push(line), direct: true })
    return { ...edge, log: () => lines.join('\n') }
  }
  const folder = mkdtempSync(join(tmpdir(), 'firstlight-field-'))
  const file = join(folder, 'firstlight.json')
  writeFileSync(file, JSON.stringify(document))
  const logFile = join(folder, 'log')
  const { port, stop } = await startServed(file, { stdout: openSync(logFile, 'w'), env })
  return {
    url: `http://127.0.0.1:${port}`,
    log: () => readFileSync(logFile, 'utf8'),
    stop: async () => {
      stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
