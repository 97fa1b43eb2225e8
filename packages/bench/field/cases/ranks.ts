/** Data-parallel ranks behind one address. */
import { engineTypeOf } from '../../../../src/engines/engine-registry.ts'
import type { EngineTypeName } from '../../../../src/engines/engine-type.ts'
import { fromVllmRouter } from '../../../convert/src/vllm-router.ts'
import { eventually, expectEqual } from '../expectation.ts'
import type { CellRun, FieldCase } from '../field-case.ts'
import { engineId, type EngineView } from '../site-pool.ts'
import { serves } from '../replies.ts'

/** Gauges of each rank: running and waiting requests. */
const GAUGES: Readonly<Record<string, readonly [running: string, waiting: string, label: string]>> = {
  vllm: ['vllm:num_requests_running', 'vllm:num_requests_waiting', 'engine'],
  sglang: ['sglang:num_running_reqs', 'sglang:num_queue_reqs', 'dp_rank'],
}

/** Metrics of a server whose first rank is busy and whose others are idle. */
function metricsOf(type: string, ranks: number): string {
  const [running, waiting, label] = GAUGES[type]!
  const lines = Array.from({ length: ranks }, (_, rank) => {
    const labels = `{${label}="${rank}",model_name="m"}`
    return `${running}${labels} ${rank === 0 ? 8 : 0}\n${waiting}${labels} ${rank === 0 ? 4 : 0}\n`
  })
  return `# TYPE ${running} gauge\n# TYPE ${waiting} gauge\n${lines.join('')}`
}

const headerOf = ({ engine }: CellRun): string => engineTypeOf(engine as EngineTypeName).ranks!.header

/** Ranks that the clients' requests had. */
const ranksAt = (cell: CellRun, letter: string): string[] =>
  cell.pool.posts(letter).map(({ headers }) => String(headers[headerOf(cell)]))

const REQUESTS = 10

const s5: FieldCase = {
  plan: {
    letters: ['a'],
    pool: () => ({ policy: 'least_loaded', stats_interval_ms: 1_000 }),
    engine: () => ({ data_parallel: 2 }),
    routes: (_letter, type) => ({ 'GET /metrics': { body: metricsOf(type, 2) } }),
  },
  async run(cell) {
    const { pool, fixture } = cell
    const load = async (): Promise<unknown> => {
      const { pools } = (await pool.admin('/v1/firstlight/fleet')) as { pools: { engines: EngineView[] }[] }
      const own = pools.flatMap(({ engines }) => engines).filter(({ id }) => id.startsWith(engineId('a', pool.model)))
      return own.map(({ stats }) => {
        const { running, waiting } = (stats ?? {}) as { running?: number; waiting?: number }
        return [running, waiting]
      })
    }
    pool.script({ a: serves(fixture, 'from a') })
    // Workers read the load while requests come.
    await eventually('load of the ranks', async () => (await pool.ask(fixture), await load()), [
      [8, 4],
      [0, 0],
    ])
    pool.script({ a: serves(fixture, 'from a') })
    for (let sent = 0; sent < REQUESTS; sent++) expectEqual('status', (await pool.ask(fixture)).status, 200)
    expectEqual('ranks of the requests', ranksAt(cell, 'a'), Array<string>(REQUESTS).fill('1'))
  },
}

const RANKS_PER_NODE = 4

/** Keys of the engines that the converter writes for the command line of two nodes. */
function convertedEngines(urls: readonly string[]): readonly Readonly<Record<string, unknown>>[] {
  const words = ['--worker-urls', ...urls, '--intra-node-data-parallel-size', String(RANKS_PER_NODE)]
  const [pool] = fromVllmRouter({ words, text: '', model: 'm' })!.pools
  return pool!['engines'] as readonly Readonly<Record<string, unknown>>[]
}

const s6: FieldCase = {
  plan: {
    letters: ['a', 'b'],
    engine: (letter, _type, urls) => {
      const { id: _id, url: _url, ...converted } = convertedEngines(urls)[['a', 'b'].indexOf(letter)]!
      return converted
    },
    routes: (_letter, type) => ({ 'GET /metrics': { body: metricsOf(type, RANKS_PER_NODE) } }),
  },
  async run(cell) {
    const { pool, fixture } = cell
    pool.script({ a: serves(fixture, 'from a'), b: serves(fixture, 'from b') })
    for (let sent = 0; sent < 4 * RANKS_PER_NODE; sent++) expectEqual('status', (await pool.ask(fixture)).status, 200)
    const all = Array.from({ length: RANKS_PER_NODE }, (_, rank) => String(rank))
    for (const letter of ['a', 'b'])
      expectEqual(`ranks of ${letter}`, [...new Set(ranksAt(cell, letter))].toSorted(), all)
  },
}

export const ranks: Readonly<Record<string, FieldCase>> = { S5: s5, S6: s6 }
