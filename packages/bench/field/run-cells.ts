/** Runs the cells of one runtime and engine type: a site for each configuration, its pools side by side. */
import { createHash } from 'node:crypto'
import { fieldCases } from './cases/all.ts'
import type { FieldCase } from './field-case.ts'
import { fixtureFor } from './fixture.ts'
import type { Cell, Runtime } from './matrix.ts'
import type { PoolPlan } from './pool-plan.ts'
import { Site } from './site.ts'
import type { SitePool } from './site-pool.ts'

export interface CellResult extends Cell {
  /** What was seen. null: as it should be. */
  readonly seen: string | null
  readonly ms: number
}

export interface CellGroup {
  readonly runtime: Runtime
  readonly engine: string
  readonly cells: readonly Cell[]
}

interface RunOptions {
  /** Text of the built Worker. */
  readonly script: string
  /** Pools whose cells run at the same time. */
  readonly concurrency: number
  readonly done: (result: CellResult) => void
}

/** Most pools of a site, so that each starts soon. */
const SITE_POOLS = 40

export async function runGroup({ runtime, engine, cells }: CellGroup, options: RunOptions): Promise<void> {
  const byConfig = new Map<string, { readonly config: FieldCase['config']; readonly pools: Map<string, Cell[]> }>()
  for (const cell of cells) {
    const { config } = fieldCases[cell.id]!
    const key = JSON.stringify(config ?? null)
    if (!byConfig.has(key)) byConfig.set(key, { config, pools: new Map() })
    const { pools } = byConfig.get(key)!
    const model = modelOf(cell)
    pools.set(model, [...(pools.get(model) ?? []), cell])
  }
  for (const { config, pools } of byConfig.values()) {
    const all = [...pools]
    for (let at = 0; at < all.length; at += SITE_POOLS) {
      const some = all.slice(at, at + SITE_POOLS)
      const plans = new Map(some.map(([model, [first]]) => [model, fieldCases[first!.id]!.plan] as const))
      const plan = { runtime, type: engine, config: config ?? {}, pools: plans, script: options.script }
      const site = await Site.open(plan).catch((error: unknown) => String(error))
      if (typeof site === 'string') {
        for (const cell of some.flatMap(([, own]) => own)) options.done({ ...cell, seen: site, ms: 0 })
        continue
      }
      try {
        await inParallel(some, options.concurrency, ([model, own]) =>
          runInPool(site, { model, cells: own }, options.done),
        )
      } finally {
        await site.close()
      }
    }
  }
}

async function runInPool(
  site: Site,
  { model, cells }: { readonly model: string; readonly cells: readonly Cell[] },
  done: RunOptions['done'],
): Promise<void> {
  const pool = site.pools.get(model)!
  for (const cell of cells) {
    const startedAt = performance.now()
    const logged = pool.log().length
    let seen: string | null = null
    try {
      await fieldCases[cell.id]!.run({ ...cell, fixture: fixtureFor(cell.protocol), pool })
    } catch (error) {
      seen = `${error instanceof Error ? error.message : String(error)}\n${logOf(pool, logged)}`
    }
    done({ ...cell, seen, ms: Math.round(performance.now() - startedAt) })
  }
}

const LOG_LINES = 12

/** Last lines of the gateway's log since `from` that are about a pool: they have the cause of a failure. */
function logOf({ log, model }: SitePool, from: number): string {
  const name = model.replaceAll('_', '-')
  const lines = log()
    .slice(from)
    .split('\n')
    .filter((line) => line.includes(name) || line.includes(model))
  return lines.slice(-LOG_LINES).join('\n')
}

/** Name of the pool's model: cells with the same plan share a pool unless their case changes its state. */
function modelOf({ id, protocol }: Cell): string {
  const { plan, ownPool = false } = fieldCases[id]!
  return ownPool ? `${id.toLowerCase()}-${protocol}` : `plan-${planName(plan)}`
}

const names = new Map<PoolPlan, string>()

/** Equal for the same plan object. */
function planName(plan: PoolPlan): string {
  const name = names.get(plan) ?? createHash('sha256').update(String(names.size)).digest('hex').slice(0, 6)
  names.set(plan, name)
  return name
}

async function inParallel<Item>(
  items: readonly Item[],
  limit: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const rest = [...items]
  const line = async (): Promise<void> => {
    for (let item = rest.shift(); item !== undefined; item = rest.shift()) await work(item)
  }
  await Promise.all(Array.from({ length: limit }, line))
}
