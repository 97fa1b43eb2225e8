/**
 * Cases from the field before the built gateway on Node and the built Worker: every case x protocol x engine type x
 * runtime of `field/matrix.json`.
 * `npm run bench -- field [--case S8,O4] [--protocol chat] [--engine vllm] [--runtime node] [--concurrency N]`
 *
 * `cases`: cells that ran. `cases_missing`: cells of the matrix that should run and have no code; with a selection, those
 * that were left out, too. `cases_later`: cells that wait for another issue.
 *
 * `npm run bench -- field --agents [--agent claude-code]`: coding agents from npm instead.
 */
import { fileURLToPath } from 'node:url'
import { buildWorker } from '../../scripts/build-worker.ts'
import { ENGINE_TYPES } from '../../src/engines/engine-registry.ts'
import { protocols } from '../../src/protocols/protocols.ts'
import { agentsBench } from './field-agents/bench.ts'
import { fieldCases } from './field/cases/all.ts'
import { cellsOf, matrix, RUNTIMES, type Cell } from './field/matrix.ts'
import { runGroup, type CellResult } from './field/run-cells.ts'
import type { Bench, BenchOptions, BenchResult } from './result.ts'

const CONCURRENCY = 6
const PROGRESS_MS = 5_000
const WORKER = fileURLToPath(new URL('../../.cache/bench/field-worker', import.meta.url))

const bench: Bench = async (options) =>
  options.flags['agents'] === undefined ? casesBench(options) : agentsBench(options)

export default bench

async function casesBench({ flags, note }: BenchOptions): Promise<BenchResult> {
  const cells = cellsOf(matrix, {
    protocols: protocols.map(({ name }) => name),
    engines: ENGINE_TYPES.map(({ name }) => name),
  })
  const due = cells.filter(({ state }) => state === 'runs')
  const selected = due.filter((cell) => cell.id in fieldCases && isSelected(cell, flags))
  const results: CellResult[] = []
  const startedAt = performance.now()
  const progress = setInterval(
    () =>
      note(
        `${results.length} of ${selected.length} cells, ${results.filter(({ seen }) => seen !== null).length} failed`,
      ),
    PROGRESS_MS,
  )
  const done = (result: CellResult): void => {
    results.push(result)
    if (result.seen !== null) note(`FAILED ${nameOf(result)}: ${result.seen}`)
  }
  const concurrency = Number(flags['concurrency'] ?? CONCURRENCY)
  try {
    const script = await buildWorker(WORKER)
    // One site of each runtime at a time.
    await Promise.all(
      RUNTIMES.map(async (runtime) => {
        for (const { name: engine } of ENGINE_TYPES) {
          const own = selected.filter((cell) => cell.engine === engine && cell.runtime === runtime)
          if (own.length > 0) await runGroup({ runtime, engine, cells: own }, { script, concurrency, done })
        }
      }),
    )
  } finally {
    clearInterval(progress)
  }
  note(`${results.length} cells in ${Math.round((performance.now() - startedAt) / 1000)} s`)
  return {
    rows: [...byCase(results, cells)],
    headline: {
      cases: results.length,
      failed: results.filter(({ seen }) => seen !== null).length,
      cases_missing: due.length - results.length,
      cases_later: cells.filter(({ state }) => state === 'later').length,
    },
  }
}

const nameOf = ({ id, protocol, engine, runtime }: Cell): string => `${id} ${protocol} ${engine} ${runtime}`

/** A flag has a list of values. */
function isSelected({ id, protocol, engine, runtime }: Cell, flags: BenchOptions['flags']): boolean {
  const has = (flag: string, value: string): boolean =>
    typeof flags[flag] !== 'string' || flags[flag].split(',').includes(value)
  return has('case', id) && has('protocol', protocol) && has('engine', engine) && has('runtime', runtime)
}

function* byCase(results: readonly CellResult[], cells: ReturnType<typeof cellsOf>) {
  for (const { id, what } of matrix.cases) {
    const own = results.filter((one) => one.id === id)
    const failed = own.filter(({ seen }) => seen !== null)
    yield {
      case: id,
      cells: own.length,
      failed: failed.length,
      later: cells.filter((one) => one.id === id && one.state === 'later').length,
      slowest_ms: Math.max(0, ...own.map(({ ms }) => ms)),
      what,
      first_failure: failed[0] === undefined ? '' : `${nameOf(failed[0])}: ${failed[0].seen!.split('\n')[0]}`,
    }
  }
}
