/**
 * Time and CPU to the first response of a cold isolate: from the start of workerd, which compiles and evaluates the
 * Worker, to the end of its first completion. Compared in pairs with the Worker before fronts, regions and shared state
 * (BEFORE), and with a Worker of a router and one `fetch` (hono-worker.ts). All contain the start of workerd itself; CPU
 * depends less on other work of the machine.
 */
import { readFileSync } from 'node:fs'
import { startEdge } from '../../../scripts/edge.ts'
import { median } from '../median.ts'
import { childNamed, cpuSeconds } from '../proxy/processes.ts'
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
  /** CPU of workerd, ms. */
  readonly cold_cpu_ms: number
  readonly cold_cpu_ratio?: number
  readonly cold_cpu_ratio_hono: number
}

interface Start {
  readonly ms: number
  readonly cpuMs: number
}

/** @param baseline path of another bundle (a `worker.js`) to compare with in place of BEFORE's */
export async function coldStart(
  engines: readonly string[],
  note: BenchOptions['note'],
  baseline?: string,
): Promise<ColdStart> {
  const scripts = new Map([
    ['native', readFileSync(new URL('../../../dist/worker/worker.js', import.meta.url), 'utf8')],
    ['hono', await bundleOf('hono-worker.ts')],
  ])
  const before = baseline === undefined ? await bundleOfCommit(BEFORE, ADDED_OBJECTS) : readFileSync(baseline, 'utf8')
  if (before !== null) scripts.set('before', before)
  const starts = new Map<string, Start[]>([...scripts.keys()].map((name) => [name, []]))
  // The first round warms the file cache and is not counted.
  for (let round = 0; round <= REPEATS; round++) {
    note(`cold start ${round}/${REPEATS}`)
    for (const [name, script] of round % 2 === 0 ? scripts : [...scripts].toReversed()) {
      const start = await coldStartOf(script, engines)
      if (round > 0) starts.get(name)!.push(start)
    }
  }
  const native = starts.get('native')!
  const of = (name: string, read: (start: Start) => number) => median(starts.get(name)!.map(read))
  const ratioTo = (name: string, read: (start: Start) => number) =>
    median(starts.get(name)!.map((start, at) => read(native[at]!) / read(start)))
  return {
    cold_first_response_ms: of('native', ms),
    cold_first_response_ms_hono: of('hono', ms),
    ...(before === null ? {} : { cold_first_response_ratio: ratioTo('before', ms) }),
    cold_first_response_ratio_hono: ratioTo('hono', ms),
    cold_cpu_ms: of('native', cpuMs),
    ...(before === null ? {} : { cold_cpu_ratio: ratioTo('before', cpuMs) }),
    cold_cpu_ratio_hono: ratioTo('hono', cpuMs),
  }
}

const ms = (start: Start): number => start.ms
const cpuMs = (start: Start): number => start.cpuMs

async function coldStartOf(script: string, engines: readonly string[]): Promise<Start> {
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
    const took = performance.now() - startedAt
    return { ms: took, cpuMs: 1000 * cpuSeconds(childNamed(process.pid, 'workerd')) }
  } finally {
    await edge.stop()
  }
}
