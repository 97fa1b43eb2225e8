/** First byte under workerd with a long way between client and engines: near the object (floor), and placed Workers. */
import { readFileSync } from 'node:fs'
import { startWorkers, type RunningWorkers, type WorkerSpec } from '../../../scripts/edge-workers.ts'
import { median } from '../median.ts'

/** Round trips, ms: New York to Frankfurt; from a placed Worker to engines. */
const WAY_MS = 89
const ENGINE_MS = 2
/** The first requests of an isolate configure its object. */
const SKIPPED = 3

const way = readFileSync(new URL('./way.mjs', import.meta.url), 'utf8')
const MODEL = 'fake'

/** @param urls engines */
export async function placedPaths(
  urls: readonly string[],
  requests: number,
): Promise<Readonly<Record<string, number>>> {
  const floor = await timed(urls, requests, floorWorkers)
  const placed = await timed(urls, requests, placedWorkers)
  return { floor_ms: floor, placed_ms: placed, above_floor_ms: placed - floor }
}

type Arrangement = (urls: readonly string[]) => readonly WorkerSpec[]

/** Median time to the first byte, ms. */
async function timed(urls: readonly string[], requests: number, arrange: Arrangement): Promise<number> {
  const running = await startWorkers(arrange(urls), { quiet: true })
  try {
    const times: number[] = []
    for (let n = 0; n < requests + SKIPPED; n++) times.push(await firstByteMs(running, n))
    return Math.round(median(times.slice(SKIPPED)) * 10) / 10
  } finally {
    await running.stop()
  }
}

async function firstByteMs({ urls }: RunningWorkers, n: number): Promise<number> {
  const body = JSON.stringify({ model: MODEL, stream: true, messages: [{ role: 'user', content: `question ${n}` }] })
  const from = performance.now()
  const response = await fetch(`${urls['front']}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  })
  if (response.status !== 200) throw new Error(`the front answered ${response.status}: ${await response.text()}`)
  const reader = response.body!.getReader()
  await reader.read()
  const took = performance.now() - from
  while (!(await reader.read()).done);
  return took
}

const documentOf = (rest: object) => ({
  FIRSTLIGHT_CONFIG: JSON.stringify({ version: 1, log: { level: 'silent' }, ...rest }),
})

/** Bindings of a front with one region, bound as REGION_C. */
export function frontDocument(model: string, options: object = {}) {
  const gateway = { url: 'http://c.internal', key: 'k', binding: 'REGION_C', models: [{ model, ...options }] }
  return documentOf({ open: true, clusters: [{ id: 'c', gateway }] })
}

/** Bindings of that region. `edge`: it accepts prompts that the front has measured. */
export function regionDocument(pool: object, edge = true) {
  const keys = [{ name: 'edge', secret: 'k', edge, allow_overrides: true }]
  return documentOf({ keys, clusters: [{ id: 'c', pools: [pool] }] })
}

const poolOf = (urls: readonly string[]) => ({
  model: MODEL,
  engines: urls.map((url, at) => ({ id: `e${at}`, url, binding: 'WAY' })),
})

const wayTo = (name: string, ms: number, to?: string): WorkerSpec => ({
  name,
  script: way,
  objects: false,
  bindings: { WAY_MS: String(ms) },
  ...(to === undefined ? {} : { services: { TO: to } }),
})

const floorWorkers: Arrangement = (urls) => [
  {
    name: 'front',
    bindings: documentOf({ open: true, clusters: [{ id: 'c', pools: [poolOf(urls)] }] }),
    services: { WAY: 'way' },
    port: 0,
  },
  wayTo('way', WAY_MS),
]

const placedWorkers: Arrangement = (urls) => [
  { name: 'front', bindings: frontDocument(MODEL), services: { REGION_C: 'far' }, port: 0 },
  wayTo('far', WAY_MS, 'region'),
  { name: 'region', bindings: regionDocument(poolOf(urls)), services: { WAY: 'near' } },
  wayTo('near', ENGINE_MS),
]
