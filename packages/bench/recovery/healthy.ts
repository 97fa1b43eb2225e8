/** Healthy fleets that look sick: overload, a long prefill, a key that aborts all its requests. Nothing may be ejected. */
import { setTimeout as sleep } from 'node:timers/promises'
import { ask } from './client.ts'
import { chatBody, steadyLoad } from './load.ts'
import { ADMIN_KEY, Site } from './site.ts'

export interface HealthyRow {
  readonly name: string
  /** Engines that a look at the fleet found out of use, counted once per engine and second. */
  readonly ejections: number
}

const KEYS = [
  { name: 'usual', secret: 'recovery-usual-key-of-no-use-elsewhere' },
  { name: 'aborting', secret: 'recovery-aborting-key-of-no-use-elsewhere' },
]
const LOOK_MS = 250
const RUN_MS = 20_000
const LONG_TOKENS = 25_000
const ABORT_MS = 30

type Disturb = (site: Site, signal: AbortSignal) => Promise<unknown>

const cases: readonly { readonly name: string; readonly disturb: Disturb }[] = [
  {
    name: 'healthy: overload at 1.5x',
    // An engine serves about 22 of these streams a second.
    disturb: ({ url, fleet }, signal) =>
      steadyLoad({ url, signal, perS: 1.5 * 22 * fleet.engines.length, key: KEYS[0]!.secret }),
  },
  {
    name: 'healthy: long prefills',
    disturb: async ({ url }, signal) => {
      while (!signal.aborted) {
        const body = chatBody(LONG_TOKENS, 4)
        await ask({ url, id: 'client-long', body, key: KEYS[0]!.secret, patienceMs: 60_000 })
      }
    },
  },
  {
    name: 'healthy: a key that aborts all its requests',
    disturb: async ({ url }, signal) => {
      while (!signal.aborted) {
        const body = chatBody(4_000, 40)
        void ask({ url, id: 'client-abort', body, key: KEYS[1]!.secret, patienceMs: ABORT_MS })
        await sleep(100)
      }
    },
  },
]

export async function falseEjections(engines: number, note: (line: string) => void): Promise<HealthyRow[]> {
  const rows: HealthyRow[] = []
  for (const { name, disturb } of cases) {
    note(name)
    rows.push({ name, ejections: await ejectionsUnder(disturb, engines) })
  }
  return rows
}

async function ejectionsUnder(disturb: Disturb, engines: number): Promise<number> {
  const site = await Site.start({ engines, document: { keys: KEYS } })
  const stop = new AbortController()
  try {
    const load = steadyLoad({ url: site.url, perS: 4, signal: stop.signal, key: KEYS[0]!.secret })
    await sleep(4_000)
    const disturbed = disturb(site, stop.signal)
    const until = performance.now() + RUN_MS
    const found = new Set<string>()
    while (performance.now() < until) {
      await sleep(LOOK_MS)
      for (const engine of await unavailable(site)) found.add(`${engine} ${Math.floor(performance.now() / 1000)}`)
    }
    stop.abort()
    await Promise.all([load, disturbed])
    return found.size
  } finally {
    stop.abort()
    await site.stop()
  }
}

interface FleetView {
  readonly pools: readonly {
    readonly engines: readonly { readonly id: string; readonly available: boolean }[]
  }[]
}

async function unavailable({ url }: Site): Promise<string[]> {
  const response = await fetch(`${url}/v1/firstlight/fleet`, { headers: { authorization: `Bearer ${ADMIN_KEY}` } })
  const { pools } = (await response.json()) as FleetView
  return pools.flatMap(({ engines }) => engines.flatMap(({ id, available }) => (available ? [] : [id])))
}
