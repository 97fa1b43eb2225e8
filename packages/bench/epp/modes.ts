/** Chats through the picker in each processing mode, some aborted, while a broken proxy sends to the same picker. */
import type { BenchRow } from '../result.ts'
import { bookingsLeft } from './bookings.ts'
import { sendBroken } from './broken-messages.ts'
import { runChats } from './chats.ts'
import { type EnvoyMode, MODES } from './envoy.ts'
import type { Site } from './site.ts'

const ABORT_EVERY = 50

/** Prompts as long as those of llm-d's published load. */
const LONG_BYTES = 400_000

/** Share of requests with a long prompt, in a run of its own. */
const LONG_SHARE = 0.02

interface ModesResult {
  readonly rows: readonly BenchRow[]
  /** Through the picker, in all modes. */
  readonly requests: number
  readonly lost: number
  readonly leaked: number
  /** Requests that were lost beside broken messages. */
  readonly hurt: number
}

export async function runModes(site: Site, requests: number, note: (line: string) => void): Promise<ModesResult> {
  // As many as the picker serves in one mode, so that its code is as warm.
  const alone = await runChats({ port: site.gateway.port, requests, connections: 16, abortEvery: ABORT_EVERY })
  const rows: BenchRow[] = [{ mode: 'gateway', ...alone, broken_calls: 0 }]
  const sum = { requests: 0, lost: alone.lost, hurt: 0 }
  for (const mode of Object.keys(MODES) as EnvoyMode[]) {
    if (mode === 'static') continue
    const envoy = await site.envoy(mode)
    const ends = new AbortController()
    const broken = sendBroken(site.pickerPort, ends.signal)
    const counts = await runChats({ port: envoy.port, requests, connections: 16, abortEvery: ABORT_EVERY })
    ends.abort()
    const long = await runChats({
      port: envoy.port,
      requests: Math.ceil(requests * LONG_SHARE),
      connections: 4,
      abortEvery: 10,
      bytes: LONG_BYTES,
    })
    rows.push({ mode, ...counts, broken_calls: await broken }, { mode: `${mode}, 400 KB`, ...long, broken_calls: 0 })
    sum.requests += counts.sent + long.sent
    sum.lost += counts.lost + long.lost
    sum.hurt += counts.lost
    note(`${mode}: ${counts.complete} complete, ${counts.aborted} aborted, ${counts.lost + long.lost} lost`)
    envoy.stop()
  }
  return { rows, ...sum, leaked: await bookingsLeft(site.picker) }
}
