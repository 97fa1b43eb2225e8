/**
 * Time to first token with and without hedging (docs/forwarding.md#hedging): four simulated engines under open-loop
 * load, of which one stalls at random, and the same without stalls. Shows the load that hedges add.
 *
 * Flags: --requests 600 (per row) · --rate 10 (requests per second) · --stall-share 0.2 (of the requests of one engine)
 * · --stall-ms 3000 · --seed 1
 */
import { parseConfig } from '../../src/config/parse.ts'
import { startGateway } from '../../src/platform/node/start-gateway.ts'
import { startFleet } from '../simulator/src/node/fleet-host.ts'
import type { FaultRule } from '../simulator/src/faults.ts'
import { randomOf } from './continuation/cases.ts'
import { quantile } from './quantile.ts'
import type { BenchOptions, BenchResult } from './result.ts'

const MODEL = 'sim'
const ENGINES = ['e0', 'e1', 'e2', 'e3']
/** Requests before those that count, from which the gateway learns. */
const WARM_UP = 150
const PROMPT_WORDS = [50, 600] as const
const OUTPUT_TOKENS = [4, 24] as const
const HEDGES = ['off', 'auto', 1_000] as const

interface Plan {
  readonly requests: number
  readonly ratePerS: number
  readonly seed: number
  readonly hedgeMs: (typeof HEDGES)[number]
  readonly stall: FaultRule | null
}

export default async function hedging({ flags, note }: BenchOptions): Promise<BenchResult> {
  const base = {
    requests: Number(flags['requests'] ?? 600),
    ratePerS: Number(flags['rate'] ?? 10),
    seed: Number(flags['seed'] ?? 1),
  }
  const stall: FaultRule = {
    kind: 'slow',
    delayMs: Number(flags['stall-ms'] ?? 3_000),
    share: Number(flags['stall-share'] ?? 0.2),
  }
  const rows: Row[] = []
  for (const fault of [stall, null])
    for (const hedgeMs of HEDGES) {
      note(`hedge_ms ${hedgeMs}, ${fault === null ? 'no stalls' : 'one engine stalls'}`)
      rows.push(await measure({ ...base, hedgeMs, stall: fault }))
    }
  const of = (stalls: boolean, hedge: Plan['hedgeMs']): Row =>
    rows.find((row) => row.stalls === stalls && row.hedge_ms === String(hedge))!
  return {
    rows,
    headline: {
      ttft_p99_ratio: ratio(of(true, 'auto').ttft_ms_p99, of(true, 'off').ttft_ms_p99),
      ttft_p50_ratio: ratio(of(true, 'auto').ttft_ms_p50, of(true, 'off').ttft_ms_p50),
      extra_requests_share: of(true, 'auto').extra_requests_share,
      extra_requests_share_without_stalls: of(false, 'auto').extra_requests_share,
      failed: rows.reduce((sum, { failed }) => sum + failed, 0),
      leaked_bookings: rows.reduce((sum, one) => sum + one.leaked_bookings, 0),
    },
  }
}

type Row = {
  readonly stalls: boolean
  readonly hedge_ms: string
  readonly requests: number
  readonly failed: number
  readonly ttft_ms_p50: number
  readonly ttft_ms_p90: number
  readonly ttft_ms_p99: number
  /** Requests at engines beyond those of clients, as a share of those. */
  readonly extra_requests_share: number
  readonly won: number
  readonly lost: number
  /** Late, without a second engine: the retry budget, mostly. */
  readonly not_sent: number
  readonly leaked_bookings: number
}

async function measure({ requests, ratePerS, seed, hedgeMs, stall }: Plan): Promise<Row> {
  const fleet = await startFleet({ model: MODEL, profile: 'demo', engines: ENGINES.map((id) => ({ id })) })
  const results: Record<string, number> = {}
  const gateway = await startGateway(configOf(fleet.urls, hedgeMs), {
    ...silentLog,
    info: (event, fields) => {
      const { hedge } = fields ?? {}
      if (event === 'request' && typeof hedge === 'string') results[hedge] = (results[hedge] ?? 0) + 1
    },
  })
  const random = randomOf(seed)
  try {
    if (stall !== null) fleet.engines[0]!.setFault(stall)
    await openLoop(WARM_UP, ratePerS, random, gateway.url)
    const before = engineRequests(fleet)
    for (const name in results) results[name] = 0
    const ttfts = await openLoop(requests, ratePerS, random, gateway.url)
    const sent = engineRequests(fleet) - before
    const good = ttfts.filter((one) => one !== null)
    return {
      stalls: stall !== null,
      hedge_ms: String(hedgeMs),
      requests,
      failed: requests - good.length,
      ttft_ms_p50: Math.round(quantile(good, 0.5)),
      ttft_ms_p90: Math.round(quantile(good, 0.9)),
      ttft_ms_p99: Math.round(quantile(good, 0.99)),
      extra_requests_share: Math.round((1000 * (sent - requests)) / requests) / 1000,
      won: results['won'] ?? 0,
      lost: results['lost'] ?? 0,
      not_sent: Object.entries(results).reduce((sum, [name, count]) => sum + (ENDS.has(name) ? 0 : count), 0),
      leaked_bookings: await bookings(gateway.url),
    }
  } finally {
    await gateway.stop(AbortSignal.timeout(1_000))
    await fleet.close()
  }
}

/** Results of hedges that were sent. */
const ENDS: ReadonlySet<string> = new Set(['won', 'lost', 'failed'])

const ADMIN = 'hedging-admin-key-of-no-use-elsewhere'
const silent = (): void => {}
const silentLog = { debug: silent, info: silent, warn: silent, error: silent }

const configOf = (urls: readonly string[], hedgeMs: Plan['hedgeMs']) =>
  parseConfig(
    {
      listen: '127.0.0.1:0',
      open: true,
      admin: { secret: ADMIN },
      clusters: [
        {
          id: 'c',
          pools: [
            {
              model: MODEL,
              retry: { hedge_ms: hedgeMs },
              engines: urls.map((url, at) => ({ id: ENGINES[at], url })),
            },
          ],
        },
      ],
    },
    {},
    { defaultVersion: 1, defaultObserveShare: 1, listens: true },
  )

const engineRequests = (fleet: Awaited<ReturnType<typeof startFleet>>): number =>
  fleet.engines.reduce((sum, { log }) => sum + log.inference, 0)

/** Requests at exponentially distributed intervals. Returns times to first token; null: failed. */
async function openLoop(
  count: number,
  ratePerS: number,
  random: () => number,
  url: string,
): Promise<readonly (number | null)[]> {
  const running: Promise<number | null>[] = []
  const from = performance.now()
  let at = 0
  for (let one = 0; one < count; one++) {
    at += (-1000 / ratePerS) * Math.log(1 - random())
    const body = bodyOf(random)
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, from + at - performance.now())))
    running.push(ttftMs(url, body))
  }
  return Promise.all(running)
}

function bodyOf(random: () => number): string {
  const between = ([min, max]: readonly [number, number]): number => min + Math.floor(random() * (max - min))
  // Prompts have nothing in common, so no cache has any of them.
  const prompt = Array.from({ length: between(PROMPT_WORDS) }, () => Math.floor(random() * 1e9).toString(36)).join(' ')
  return JSON.stringify({ model: MODEL, prompt, max_tokens: between(OUTPUT_TOKENS), stream: true })
}

async function ttftMs(url: string, body: string): Promise<number | null> {
  const from = performance.now()
  try {
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(`${url}/v1/completions`, { method: 'POST', headers, body })
    let first: number | null = null
    let text = ''
    for await (const chunk of response.body!) {
      first ??= performance.now() - from
      text += new TextDecoder().decode(chunk)
    }
    return response.status === 200 && text.endsWith('data: [DONE]\n\n') ? first : null
  } catch {
    return null
  }
}

async function bookings(url: string): Promise<number> {
  const headers = { authorization: `Bearer ${ADMIN}` }
  const { pools } = (await (await fetch(`${url}/v1/firstlight/fleet`, { headers })).json()) as {
    pools: { engines: { requests: number }[] }[]
  }
  return pools.flatMap(({ engines }) => engines).reduce((sum, { requests }) => sum + requests, 0)
}

const ratio = (a: number, b: number): number => Math.round((100 * a) / b) / 100
