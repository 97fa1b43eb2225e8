import type { PolicyConfig } from '../../../../src/core/contract/pool-config.ts'
import { CellChooser } from '../../../../src/core/routing/cells.ts'
import { GatewayRouter, STATS_INTERVAL_MS } from './gateway-router.ts'
import type { Job } from './job.ts'
import type { ReplayRouter, Route, RouterContext } from './router.ts'

interface CellsOptions {
  readonly name: string
  readonly policy: PolicyConfig
  readonly cells: number
  /** Isolates that choose cells. Each knows only what it has sent itself. */
  readonly isolates: number
}

interface Cell {
  readonly router: GatewayRouter
  /** Positions of its engines in the fleet. */
  readonly engines: readonly number[]
}

/** A pool divided over cells that own their engines, as `shards` does on Workers (the shipped choice of a cell). */
export class CellsRouter implements ReplayRouter {
  readonly name: string
  readonly scrapeMs = STATS_INTERVAL_MS
  readonly #cells: readonly Cell[]
  readonly #choosers: readonly CellChooser[]
  readonly #random: () => number
  readonly #routers = new Map<Job, GatewayRouter>()

  constructor({ name, policy, cells, isolates }: CellsOptions, context: RouterContext) {
    this.name = name
    this.#random = context.random
    this.#choosers = Array.from({ length: isolates }, () => new CellChooser(cells))
    this.#cells = Array.from({ length: cells }, (_, cell) => {
      const engines = [...context.engines.keys()].filter((at) => at % cells === cell)
      const part = {
        ...context,
        engines: engines.map((at) => context.engines[at]!),
        ...(context.specs === undefined ? {} : { specs: engines.map((at) => context.specs![at]!) }),
      }
      return { engines, router: new GatewayRouter({ name, policy }, part) }
    })
  }

  route(job: Job, now: number): Route | null {
    const chooser = this.#choosers[Math.floor(this.#random() * this.#choosers.length)]!
    const admission = { id: `r${job.index}`, blocks: job.blocks, session: job.request.session, tenant: '' }
    for (const at of chooser.order(admission, [...this.#cells.keys()], now).slice(0, 2)) {
      const { router, engines } = this.#cells[at]!
      chooser.recordSent(at, now)
      const route = router.route(job, now)
      if (route === null) continue
      this.#routers.set(job, router)
      return { ...route, engine: engines[route.engine]! }
    }
    return null
  }

  firstToken(job: Job, now: number): void {
    this.#routers.get(job)?.firstToken(job, now)
  }

  progress(job: Job, outputBlocks: number, now: number): void {
    this.#routers.get(job)?.progress(job, outputBlocks, now)
  }

  ended(job: Job, now: number): void {
    this.#routers.get(job)?.ended(job, now)
    this.#routers.delete(job)
  }

  scrape(now: number): void {
    for (const { router } of this.#cells) router.scrape(now)
  }
}
