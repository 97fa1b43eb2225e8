/**
 * The shape by which llm-d sizes its endpoint picker: prompts of 100,000 tokens (about 400 KB), answers of 1,000 events,
 * 100 engines. llm-d publishes 35 to 46 cores of the picker and 7 of Envoy for 98.7 requests/s. Here: CPU of a gateway
 * per request, at the highest number of streams that gateway, engines and clients together carry on this machine.
 */
import { type LoadResult, rssBytes, runLoad, startScript } from '../proxy/processes.ts'
import type { BenchResult, BenchRow } from '../result.ts'
import { type Gateway, type GatewaySite, OWN, ROUND_ROBIN, SMG_CACHE_AWARE, startGateway } from './gateways.ts'

const ENGINES = 100
const BYTES = 400_000
const EVENTS = 1_000
const TTFT_MS = 200
const ITL_MS = 10
/** Duration of a stream without any other load. */
const STREAM_MS = TTFT_MS + EVENTS * ITL_MS
const STREAMS = [32, 64, 128, 256, 512]
/** A longer median duration, relative to that of an idle machine, shows that the machine is at its limit. */
const MAX_SLOWDOWN = 1.25
const WARM_REQUESTS = 2_000
/** Requests per second that llm-d publishes cores for, and those cores. */
const LLM_D_PER_S = 98.7
const LLM_D_CORES = [35, 46] as const

interface Step extends LoadResult {
  readonly streams: number
  readonly perS: number
  readonly rssMb: number
}

/** @param maxStreams steps beyond are not tried */
export async function measureLlmdShape(
  site: Omit<GatewaySite, 'engines' | 'model'>,
  maxStreams: number,
): Promise<BenchResult> {
  const engines = await startScript('stub-engine.ts', ['0', String(ENGINES)])
  const urls = engines.ports.map((port) => `http://127.0.0.1:${port}`)
  const rows: BenchRow[] = []
  let own: Step | null = null
  try {
    for (const name of [OWN, ROUND_ROBIN, SMG_CACHE_AWARE]) {
      const gateway = await startGateway(name, { ...site, engines: urls, model: 'fake' })
      if (gateway === null) continue
      try {
        await warm(gateway, urls[0]!)
        // Others get the load that Firstlight carried.
        const steps = own === null ? STREAMS.filter((streams) => streams <= maxStreams) : [own.streams]
        const step = await highest(gateway, steps, site.note)
        if (name === OWN) own = step
        rows.push(rowOf(name, step))
      } finally {
        await gateway.end()
      }
    }
  } finally {
    engines.stop()
  }
  return { rows: [...rows, ...llmdRows()], headline: own === null ? {} : headlineOf(own) }
}

async function warm(gateway: Gateway, engine: string): Promise<void> {
  await fetch(`${engine}/pace/0/0/16`)
  const load = { port: gateway.port, head: gateway.head, connections: 16, bytes: 8_192, distinct: true }
  await runLoad({ ...load, requests: WARM_REQUESTS, warmRequests: 16 }, null)
  await fetch(`${engine}/pace/${TTFT_MS}/${ITL_MS}/${EVENTS}`)
}

/** The last step before the machine is at its limit, or the first if that one is beyond. */
async function highest(gateway: Gateway, steps: readonly number[], note: (line: string) => void): Promise<Step> {
  let best: Step | null = null
  for (const streams of steps) {
    note(`${gateway.name}, ${streams} streams …`)
    const step = await measure(gateway, streams)
    const isLate = step.total_ms_p50 > MAX_SLOWDOWN * STREAM_MS
    if (best === null || !isLate) best = step
    if (isLate) break
  }
  return best!
}

/** One request of each client warms it up, the next is measured. */
async function measure(gateway: Gateway, streams: number): Promise<Step> {
  const load = {
    port: gateway.port,
    head: gateway.head,
    connections: streams,
    bytes: BYTES,
    maxTokens: EVENTS,
    distinct: true,
  }
  const plan = { ...load, requests: streams, warmRequests: streams, rampMs: STREAM_MS }
  const result = await runLoad(plan, gateway.pid)
  const perS = (1_000 * streams) / result.total_ms_p50
  return { ...result, streams, perS, rssMb: rssBytes(gateway.pid) / 2 ** 20 }
}

const rowOf = (name: string, { streams, perS, cpu_us: us, ...rest }: Step): BenchRow => ({
  part: 'llm-d',
  gateway: name,
  streams,
  requests_per_s: Number(perS.toFixed(1)),
  cpu_ms_per_request: Number((us! / 1_000).toFixed(2)),
  cores_at_98_7_per_s: Number(coresOf(us!).toFixed(2)),
  first_byte_p50_ms: rest.ttfb_ms_p50,
  first_byte_p99_ms: rest.ttfb_ms_p99,
  duration_p50_ms: Math.round(rest.total_ms_p50),
  rss_mb: Math.round(rest.rssMb),
  errors: rest.errors,
})

const coresOf = (us: number): number => (us / 1e6) * LLM_D_PER_S

const llmdRows = (): BenchRow[] =>
  LLM_D_CORES.map((cores) => ({
    part: 'llm-d',
    gateway: 'llm-d endpoint picker, as published',
    requests_per_s: LLM_D_PER_S,
    cpu_ms_per_request: Number(((1_000 * cores) / LLM_D_PER_S).toFixed(0)),
    cores_at_98_7_per_s: cores,
  }))

const headlineOf = ({ cpu_us: us, perS }: Step): Record<string, number> => ({
  llm_d_shape_cpu_ms: Number((us! / 1_000).toFixed(2)),
  llm_d_shape_requests_per_s: Number(perS.toFixed(1)),
  llm_d_shape_cores_vs_published: Number((coresOf(us!) / LLM_D_CORES[0]).toFixed(4)),
})
