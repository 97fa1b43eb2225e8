/**
 * A rolling restart: engines drain with a deadline, stop and start again, one after the other, under running streams.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { startFleet, type RunningFleet } from '../../simulator/src/node/fleet-host.ts'
import { difference, expectedTokens, type PromptOptions } from '../chaos/expected.ts'
import { MODEL, randomOf } from './cases.ts'

const ENGINES = ['e0', 'e1', 'e2', 'e3']
const DEADLINE_S = 1
/** Time from the deadline to the end of the engine, as a service manager has it, ms. */
const GRACE_MS = 2_000
/** Time for which an engine is down, ms. */
const DOWN_MS = 1_000
const LOOK_MS = 50
/** Time for the last releases to reach the pool's object, ms. */
const SETTLE_MS = 1_000
const OUTPUT_TOKENS = [100, 500] as const
const ADMIN = 'restart-admin-key-of-no-use-elsewhere'

export interface Restart {
  readonly concurrent: number
  readonly streams: number
  /** Moves of streams off an engine that drains. */
  readonly continued: number
  /** Requests with an error, another status or other text. */
  readonly wrong: number
  readonly leaked_bookings: number
}

interface Plan {
  readonly concurrent: number
  readonly seed: number
  start(document: object): Promise<{ readonly url: string; stop(): unknown }>
  note(line: string): void
}

/** Restarts each of four engines once, while `concurrent` clients send one stream after the other. */
export async function measureRestart({ concurrent, seed, start, note }: Plan): Promise<Restart> {
  const fleet = await startFleet({ model: MODEL, profile: 'demo', engines: ENGINES.map((id) => ({ id })) })
  const count = { streams: 0, wrong: 0 }
  const ending = new AbortController()
  const gateway = await start(documentOf(fleet.urls))
  const random = randomOf(seed)
  const client = async (): Promise<void> => {
    while (!ending.signal.aborted) {
      const fault = await streamFault(gateway.url, promptOptionsOf(random))
      count.streams++
      if (fault !== null && ++count.wrong <= 5) note(fault)
    }
  }
  try {
    const clients = Array.from({ length: concurrent }, client)
    await until(async () => (await bookings(gateway.url)).size >= concurrent)
    for (const id of ENGINES) await restart(id, fleet, gateway.url)
    ending.abort()
    await Promise.all(clients)
    await sleep(SETTLE_MS)
    const leaked = (await bookings(gateway.url)).size
    return { concurrent, ...count, continued: await continuations(gateway.url), leaked_bookings: leaked }
  } finally {
    await gateway.stop()
    await fleet.close()
  }
}

/** Only `mid_stream` differs from the defaults. */
const documentOf = (urls: readonly string[]): object => ({
  open: true,
  admin: { secret: ADMIN },
  // Continuations are counted.
  ttft: { enabled: true },
  log: { level: 'silent' },
  clusters: [
    {
      id: 'c',
      pools: [
        { model: MODEL, retry: { mid_stream: 'ids' }, engines: urls.map((url, at) => ({ id: ENGINES[at], url })) },
      ],
    },
  ],
})

async function restart(id: string, fleet: RunningFleet, url: string): Promise<void> {
  await admin(url, 'POST', `/v1/firstlight/engines/${id}/drain?deadline_s=${DEADLINE_S}`)
  await sleep(1_000 * DEADLINE_S + GRACE_MS)
  fleet.engine(id).setFault({ kind: 'refuse' })
  await sleep(DOWN_MS)
  fleet.engine(id).setFault(null)
  await admin(url, 'POST', `/v1/firstlight/engines/${id}/undrain`)
  await until(async () => (await bookings(url)).at.get(id)?.available === true)
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await sleep(LOOK_MS)
}

interface EngineView {
  readonly id: string
  readonly requests: number
  readonly available: boolean
}

async function bookings(url: string): Promise<{ readonly size: number; readonly at: Map<string, EngineView> }> {
  const { pools } = (await admin(url, 'GET', '/v1/firstlight/fleet')) as { pools: { engines: EngineView[] }[] }
  const engines = pools.flatMap((pool) => pool.engines)
  const size = engines.reduce((sum, { requests }) => sum + requests, 0)
  return { size, at: new Map(engines.map((engine) => [engine.id, engine])) }
}

async function continuations(url: string): Promise<number> {
  const text = await (await fetchAdmin(url, 'GET', '/metrics')).text()
  const counts = [...text.matchAll(/^firstlight_stream_continuations_total\{.*"continued".*\} (\d+)$/gm)]
  return counts.reduce((sum, [, count]) => sum + Number(count), 0)
}

const fetchAdmin = (url: string, method: string, path: string): Promise<Response> =>
  fetch(url + path, { method, headers: { authorization: `Bearer ${ADMIN}` } })

const admin = async (url: string, method: string, path: string): Promise<unknown> =>
  (await fetchAdmin(url, method, path)).json()

function promptOptionsOf(random: () => number): PromptOptions {
  const [min, max] = OUTPUT_TOKENS
  const text = Array.from({ length: 40 }, () => Math.floor(random() * 1e9).toString(36)).join(' ')
  return { isCompletion: random() < 0.5, text, maxTokens: min + Math.floor(random() * (max - min)) }
}

/** Sends the request. Returns what is wrong with the response; null: nothing. */
async function streamFault(url: string, options: PromptOptions): Promise<string | null> {
  const { isCompletion, text, maxTokens } = options
  const prompt = isCompletion ? { prompt: text } : { messages: [{ role: 'user', content: text }] }
  let raw = ''
  try {
    const response = await fetch(`${url}/v1/${isCompletion ? 'completions' : 'chat/completions'}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: MODEL, ...prompt, max_tokens: maxTokens, ignore_eos: true, stream: true }),
    })
    raw = await response.text()
    if (response.status !== 200) return `${response.status}: ${raw.slice(0, 200)}`
  } catch (error) {
    return `${String(error)} (${String((error as Error).cause)})`
  }
  const got = [...raw.matchAll(/^data: (\{.*)$/gm)].map((match) => textIn(match[1]!)).join('')
  const { lost, duplicate } = difference(got, expectedTokens(MODEL, options), true)
  if (lost + duplicate > 0) return `${lost} tokens lost, ${duplicate} twice`
  return raw.endsWith('data: [DONE]\n\n') ? null : `end: ${raw.slice(-200)}`
}

function textIn(payload: string): string {
  const { choices } = JSON.parse(payload) as { choices?: { text?: string; delta?: { content?: string } }[] }
  return choices?.[0]?.text ?? choices?.[0]?.delta?.content ?? ''
}
