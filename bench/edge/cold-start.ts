/**
 * Time to the first response of a cold isolate: from the start of workerd, which compiles and evaluates the Worker, to
 * the end of its first completion. Compared in pairs with the Worker before fronts, regions and shared state (BEFORE),
 * and with a Worker of a router and one `fetch` (hono-worker.ts). All times contain the start of workerd itself.
 */
import { readFileSync } from 'node:fs'
import { startEdge } from '../../scripts/edge.ts'
import { median } from '../median.ts'
import type { BenchOptions } from '../result.ts'
import { bundleOf, bundleOfCommit } from './bundle.ts'

const REPEATS = 15
/** The last version without fronts, regions on Workers and shared state. */
const BEFORE = '77507aa2'
const ADDED_OBJECTS = ['LimitObject', 'EdgeObject']

export interface ColdStart {
  readonly cold_first_response_ms: number
  readonly cold_first_response_ms_hono: number
  /** To the Worker of BEFORE, or of `--baseline FILE`; median of the pairs. Absent in a checkout without history. */
  readonly cold_first_response_ratio?: number
  readonly cold_first_response_ratio_hono: number
}

/** @param baseline path of another bundle (a `worker.js`) to compare with in place of BEFORE's */
export async function coldStart(
  engines: readonly string[],
  note: BenchOptions['note'],
  baseline?: string,
): Promise<ColdStart> {
  const scripts = new Map([
    ['native', readFileSync(new URL('../../dist/worker/worker.js', import.meta.url), 'utf8')],
    ['hono', await bundleOf('hono-worker.ts')],
  ])
  const before = baseline === undefined ? await bundleOfCommit(BEFORE, ADDED_OBJECTS) : readFileSync(baseline, 'utf8')
  if (before !== null) scripts.set('before', before)
  const timesMs = new Map<string, number[]>([...scripts.keys()].map((name) => [name, []]))
  // The first round warms the file cache and is not counted.
  for (let round = 0; round <= REPEATS; round++) {
    note(`cold start ${round}/${REPEATS}`)
    for (const [name, script] of round % 2 === 0 ? scripts : [...scripts].toReversed()) {
      const ms = await firstResponseMs(script, engines)
      if (round > 0) timesMs.get(name)!.push(ms)
    }
  }
  const native = timesMs.get('native')!
  const ratioTo = (name: string) => median(timesMs.get(name)!.map((ms, at) => native[at]! / ms))
  return {
    cold_first_response_ms: median(native),
    cold_first_response_ms_hono: median(timesMs.get('hono')!),
    ...(before === null ? {} : { cold_first_response_ratio: ratioTo('before') }),
    cold_first_response_ratio_hono: ratioTo('hono'),
  }
}

async function firstResponseMs(script: string, engines: readonly string[]): Promise<number> {
  const pool = { model: 'fake', engines: engines.map((url, i) => ({ id: `e${i}`, url })) }
  const document = { open: true, version: 1, log: { level: 'silent' }, clusters: [{ id: 'bench', pools: [pool] }] }
  const bindings = { FIRSTLIGHT_CONFIG: JSON.stringify(document), ENGINES: engines.join(' ') }
  const startedAt = performance.now()
  const edge = await startEdge({ port: 0, bindings, script, direct: true, quiet: true })
  try {
    const body = JSON.stringify({ model: 'fake', stream: true, messages: [{ role: 'user', content: 'Hello' }] })
    const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body }
    const response = await fetch(`${edge.url}/v1/chat/completions`, init)
    await response.text()
    if (response.status !== 200) throw new Error(`the first request returned status ${response.status}`)
    return performance.now() - startedAt
  } finally {
    await edge.stop()
  }
}
