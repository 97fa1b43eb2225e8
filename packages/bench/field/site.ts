/** One gateway as it is shipped, on one runtime, before scripted engines of one type. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { FakeEngine } from '../../../test/kit/fake-engine.ts'
import { startEdge } from '../../../scripts/edge.ts'
import { startServed } from '../proxy/processes.ts'
import { ADMIN, FIELD_KEY, limitedKey } from './credentials.ts'
import { engineRoutes } from './engine-routes.ts'
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
    const { url, stop } = await startGateway(plan, documentOf(plan, engines, own.url))
    const pools = [...engines].map(([model, opened]) => [model, new SitePool(url, model, opened)] as const)
    return new Site(new Map(pools), () => Promise.all([stop(), own.close()]))
  }

  async close(): Promise<void> {
    await this.#stop()
    for (const { engines } of this.pools.values()) for (const engine of engines.values()) await engine.close()
  }
}

async function openEngines({ letters, routes }: PoolPlan, model: string, type: string): Promise<Engines> {
  const opened = new Map<string, FakeEngine>()
  for (const letter of letters)
    opened.set(letter, await FakeEngine.open({ ...engineRoutes(type), ...routes?.(letter, type, model) }))
  return opened
}

/** @param ownUrl engine that fails all requests, before providers, which are the last resort */
function documentOf({ type, config, pools }: SitePlan, engines: ReadonlyMap<string, Engines>, ownUrl: string): object {
  return {
    version: Date.now(),
    admin: { secret: ADMIN },
    log: { level: 'silent' },
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

async function startGateway(
  { runtime, script }: SitePlan,
  document: object,
): Promise<{ url: string; stop(): Promise<unknown> }> {
  if (runtime === 'worker')
    return startEdge({
      port: 0,
      bindings: { FIRSTLIGHT_CONFIG: JSON.stringify(document) },
      script,
      quiet: true,
      direct: true,
    })
  const folder = mkdtempSync(join(tmpdir(), 'firstlight-field-'))
  const file = join(folder, 'firstlight.json')
  writeFileSync(file, JSON.stringify(document))
  const { port, stop } = await startServed(file)
  return {
    url: `http://127.0.0.1:${port}`,
    stop: async () => {
      stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
