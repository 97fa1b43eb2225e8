import { type View, lastView } from '../../dashboard/wire.ts'
import { explainFetchError } from '../doctor/trouble.ts'
import { harmless } from './table.ts'
import * as z from 'zod/mini'
import { renderPath } from '../../config/problem.ts'
import { type ViewFigures, sorted, type Selection } from './draw.ts'
import { roleOf } from '../../dashboard/engine-state.ts'
import type { EngineFigures, PoolFigures } from './figures.ts'

/* The view as data, with the gateway's field names and units. */

export function viewJson(
  view: ViewFigures,
  { url, selection }: { readonly url: string; readonly selection: Selection },
) {
  const { version, config_version, started_at, at, draining, replicas = [] } = view.view
  return {
    name: 'top',
    gateway: { url, version, config_version, started_at, at, draining, replicas },
    all: poolJson(view.fleet),
    pools: view.pools.map((figures) => ({
      cluster: figures.pool?.cluster,
      model: figures.pool?.model,
      policy: figures.pool?.policy,
      reachable: figures.pool?.reachable,
      gateway: figures.pool?.gateway,
      ...poolJson(figures),
    })),
    engines: sorted(view, selection).map(engineJson),
  }
}

const poolJson = (figures: PoolFigures) => ({
  engines: figures.engines,
  engines_up: figures.up,
  requests: figures.running,
  requests_per_s: figures.requestsPerS,
  queued_prefill_tokens: figures.queuedTokens,
  longest_queue_s: figures.longestS,
  hit_rate: figures.hitRate,
  ttft_p50_ms: figures.ttftP50Ms,
  ttft_p99_ms: figures.ttftP99Ms,
  ttfts: figures.ttfts,
})

const engineJson = ({ pool, engine, text: message, grown, notes }: EngineFigures) => ({
  cluster: pool.cluster,
  model: pool.model,
  id: engine.id,
  role: roleOf({ pool, engine }),
  state: message,
  requests: engine.requests ?? null,
  requests_per_s: grown?.requestsPerS ?? null,
  queued_prefill_tokens: engine.queued_prefill_tokens ?? null,
  queued_prefill_s: engine.queued_prefill_s ?? null,
  active_blocks: engine.active_blocks ?? null,
  cached_blocks: engine.cached_blocks ?? null,
  cache_blocks: engine.cache_blocks ?? null,
  hit_rate: engine.hit_rate ?? null,
  ttft_ms: engine.ttft_ms ?? null,
  requests_total: engine.requests_total ?? null,
  failures_total: engine.failures_total ?? null,
  notes,
})

/* Validates views. Network data is drawn only if it has the expected shape. */

const maybe = z.nullish(z.number())
const counts = z.looseObject({ requests: z.number() })

const engine = z.looseObject({
  id: z.string(),
  role: z.string(),
  available: z.nullable(z.boolean()),
  healthy: z.optional(z.boolean()),
  draining: z.optional(z.boolean()),
  asleep: z.optional(z.boolean()),
  circuit: z.optional(z.string()),
  weight: maybe,
  requests: maybe,
  active_blocks: maybe,
  queued_prefill_s: maybe,
  queued_prefill_tokens: maybe,
  cached_blocks: maybe,
  cache_blocks: maybe,
  ttft_ms: maybe,
  hit_rate: maybe,
  requests_total: maybe,
  failures_total: maybe,
  counted_before: z.optional(counts),
  stats: z.nullish(z.looseObject({ running: z.number(), waiting: z.number(), kv_usage: maybe, age_ms: z.number() })),
  learned: z.optional(z.looseObject({ restarts: maybe, silent_miss: z.nullish(z.array(z.string())) })),
  kv_feed: z.optional(z.looseObject({ state: z.string() })),
  recent_ttft_ms: z.optional(z.array(z.number())),
})

const region = z.looseObject({
  reachable: z.boolean(),
  age_ms: z.number(),
  rtt_ms: z.number(),
  blocking_match: z.boolean(),
  engines: z.number(),
  requests: z.number(),
  queued: z.number(),
  expected_ttft_ms: z.nullable(z.number()),
})

const pool = z.looseObject({
  cluster: z.string(),
  model: z.string(),
  policy: z.string(),
  reachable: z.boolean(),
  bookings: z.nullable(z.number()),
  at: maybe,
  gateway: z.nullish(region),
  engines: z.array(engine),
})

const replica = z.looseObject({ host: z.string(), state: z.string() })

const view = z.looseObject({
  version: z.string(),
  started_at: z.number(),
  draining: z.boolean(),
  at: z.number(),
  pools: z.array(pool),
  replicas: z.optional(z.array(replica)),
})

/** Parses a view. Throws an Error that names the first invalid field. */
export function readView(value: unknown): View {
  const read = view.safeParse(value)
  // All fields that are drawn have been validated. The rest is passed through.
  if (read.success) return read.data as unknown as View
  throw new Error(`${renderPath(read.error.issues[0]!.path) || 'it'} is not valid in a gateway’s view`)
}

export interface Gateway {
  /** Base URL without a trailing slash. */
  readonly url: string
  /** Its admin key; null: none is sent. */
  readonly key: string | null
}

/** Thrown if no view is available. The message contains the cause and a next step. */
export class FeedUnavailable extends Error {
  readonly next: string

  constructor(message: string, next: string) {
    super(cut(harmless(message)))
    this.name = 'Unseen'
    this.next = next
  }
}

const MOST_CHARACTERS = 300
const cut = (text: string): string => (text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}…` : text)

/** The gateway sends a view every 1 to 2 s, or after 10 s if a Durable Object does not answer. */
const SILENT_MS = 15_000
/** Enough for a fleet of 10,000 engines. */
const MOST_TEXT = 32 * 2 ** 20

const isItThere = 'Check that the gateway runs at this address, or give another with --url.'
const giveKey = 'Set FIRSTLIGHT_ADMIN_KEY to admin.secret of the gateway’s configuration, or give --key.'

/** Yields views until the gateway ends the feed (every 5 minutes) or `stop` aborts. Throws Unseen. */
export async function* follow(gateway: Gateway, stop: AbortSignal, silentMs = SILENT_MS): AsyncGenerator<View> {
  const silence = new AbortController()
  const receive = () =>
    setTimeout(() => silence.abort(new FeedUnavailable(`no data for ${silentMs / 1000} s`, isItThere)), silentMs)
  let timer = receive()
  let views = 0
  try {
    const response = await open(gateway, AbortSignal.any([stop, silence.signal]))
    for await (const json of jsonOf(response.body!)) {
      clearTimeout(timer)
      views++
      yield viewOf(json)
      timer = receive()
    }
  } catch (error) {
    if (stop.aborted) return
    if (silence.signal.aborted) throw silence.signal.reason
    throw error instanceof FeedUnavailable
      ? error
      : new FeedUnavailable(explainFetchError(error, gateway.url), isItThere)
  } finally {
    clearTimeout(timer)
    silence.abort()
  }
  if (views === 0 && !stop.aborted)
    throw new FeedUnavailable('the feed ended before the first view', 'Retry, or see its log.')
}

async function open({ url, key }: Gateway, signal: AbortSignal): Promise<Response> {
  const headers = { accept: 'text/event-stream', ...(key === null ? {} : { authorization: `Bearer ${key}` }) }
  const response = await fetch(`${url}/v1/firstlight/live`, { headers, signal, redirect: 'manual' })
  if (response.ok && response.headers.get('content-type')?.startsWith('text/event-stream') === true) return response
  throw refusal(response.status, await messageIn(response), key)
}

/** Prefers the gateway's own error message. */
function refusal(status: number, message: string | null, key: string | null): FeedUnavailable {
  if (message === null) return new FeedUnavailable(`not a Firstlight gateway (HTTP ${status})`, isItThere)
  if (status === 401)
    return new FeedUnavailable(key === null ? 'the admin key is required' : 'the admin key was rejected', giveKey)
  return new FeedUnavailable(
    `it says: ${message}`,
    status === 404 ? isItThere : 'docs/api.md lists all error codes; its log has details.',
  )
}

async function messageIn(response: Response): Promise<string | null> {
  try {
    const { error } = (await response.json()) as { readonly error: { readonly message: unknown } }
    return typeof error.message === 'string' ? error.message : null
  } catch {
    return null
  }
}

/** Yields the JSON of each view event. */
async function* jsonOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const utf8 = new TextDecoder()
  let text = ''
  for await (const bytes of body) {
    text += utf8.decode(bytes, { stream: true })
    if (text.length > MOST_TEXT) throw new FeedUnavailable('the view of the fleet is too large', isItThere)
    const { json, rest } = lastView(text)
    text = rest
    if (json !== null) yield json
  }
}

function viewOf(json: string): View {
  try {
    return readView(JSON.parse(json))
  } catch (error) {
    throw new FeedUnavailable(
      `invalid view: ${error instanceof Error ? error.message : String(error)}`,
      'Use the same version of gateway and command.',
    )
  }
}
