/** What clients get while the only picker of an Envoy is gone or does not answer, and when it is back. */
import type { BenchRow } from '../result.ts'
import { until } from '../conformance/until.ts'
import { bookingsLeft } from './bookings.ts'
import type { EnvoyMode } from './envoy.ts'
import { freePort, type Site } from './site.ts'

const MODES = ['full_duplex', 'heads', 'buffered'] as const satisfies readonly EnvoyMode[]

/** Requests in each state of the picker. */
const REQUESTS = 3

/** Limit of Envoy for a message of the picker, where it has one. */
const MESSAGE_TIMEOUT_S = 1

/** A client waits longer than the limit of Envoy. */
const CLIENT_LIMIT_MS = 4_000

/** A response that takes as long is none. */
const HANGS = 'no answer'

export interface FailureModeRow extends BenchRow {
  readonly mode: string
  readonly failure_mode: 'open' | 'closed'
  /** Statuses of the requests; `*` marks those that the picker placed. */
  readonly up: string
  readonly killed: string
  readonly stopped: string
  readonly back: string
}

export interface FailureModesResult {
  readonly rows: readonly FailureModeRow[]
  readonly leaked: number
}

export async function runFailureModes(site: Site, note: (line: string) => void): Promise<FailureModesResult> {
  const port = await freePort()
  let picker = await site.serve(port)
  const rows: FailureModeRow[] = []
  try {
    for (const mode of MODES)
      for (const failsOpen of [false, true]) {
        const envoy = await site.envoy(mode, [port], { failsOpen, messageTimeoutS: MESSAGE_TIMEOUT_S })
        const up = await statuses(envoy.port)
        process.kill(picker.pid, 'SIGKILL')
        await picker.exited
        const killed = await statuses(envoy.port)
        picker = await site.serve(port)
        await placedAgain(envoy.port)
        process.kill(picker.pid, 'SIGSTOP')
        const stopped = await statuses(envoy.port).finally(() => process.kill(picker.pid, 'SIGCONT'))
        await placedAgain(envoy.port)
        const back = await statuses(envoy.port)
        rows.push({ mode, failure_mode: failsOpen ? 'open' : 'closed', up, killed, stopped, back })
        note(JSON.stringify(rows.at(-1)))
        envoy.stop()
      }
    return { rows, leaked: await bookingsLeft(picker) }
  } finally {
    picker.stop()
  }
}

/** Statuses of some requests, each status once. */
async function statuses(port: number): Promise<string> {
  const all: string[] = []
  for (let sent = 0; sent < REQUESTS; sent++) all.push(await statusOf(port))
  return [...new Set(all)].join(', ')
}

const placedAgain = (port: number): Promise<number> =>
  until(async () => (await statusOf(port)) === '200*', 'the picker to place requests again')

async function statusOf(port: number): Promise<string> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'fake', messages: [{ role: 'user', content: 'hi' }], stream: true }),
      signal: AbortSignal.timeout(CLIENT_LIMIT_MS),
    })
    await response.text()
    return `${response.status}${response.headers.has('x-firstlight-decision') ? '*' : ''}`
  } catch {
    return HANGS
  }
}
