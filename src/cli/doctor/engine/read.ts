/** Reads all facts from one engine with few and small requests. */
import * as z from 'zod/mini'
import {
  DETECTION_PATHS,
  detectEngineType,
  METRICS_PATHS,
  readMetrics as readLoad,
} from '../../../engines/engine-registry.ts'
import { INSPECTIONS, KV_EVENT_SOURCES } from '../../../engines/engine-guides.ts'
import type { EngineType } from '../../../engines/engine-type.ts'
import type { KvEventSource } from '../../../engines/kv-event-source.ts'
import type { ServerInfo } from '../../../engines/inspection.ts'
import { modelCards } from '../../../engines/model-list.ts'
import { namesPattern, samplesOf } from '../../../engines/prometheus-text.ts'
import { type Answer, ask, type AskResult, type Endpoint, isAnswer, jsonOf } from '../ask.ts'
import { watchIdle } from '../keep-alive.ts'
import { reachOf } from '../reach.ts'
import type { ConnectError } from '../../connect-error.ts'
import {
  baseCard,
  cardOf,
  type EngineFacts,
  inDevMode,
  type Metrics,
  type ModelList,
  type Switches,
  type TokenizeAnswers,
} from './facts.ts'
import { generate, SAMPLE_CHAT, SAMPLE_TEXT } from './sample.ts'

export interface ReadOptions {
  /** Time limit of each question. */
  readonly limitMs: number
  /** Time limit of a completion of one token. */
  readonly generateMs: number
  /** How long an idle connection is watched; 0: not at all. */
  readonly idleMs: number
  /** True if completions may be requested. */
  readonly generate: boolean
  /** Model to request, if served; null: the first model. */
  readonly model: string | null
}

/** The engine runs programs to collect its environment for this answer. */
const INFO_MS = 15_000

export async function readEngine(place: Endpoint, options: ReadOptions): Promise<EngineFacts | ConnectError> {
  const health = await ask(place, { path: '/health', limitMs: options.limitMs })
  if (!isAnswer(health)) return health
  const idle = options.idleMs === 0 ? Promise.resolve(null) : watchIdle(place, '/health', options.idleMs)
  const asks: AskPath = (path) => ask(place, { path, limitMs: options.limitMs })
  const keyed = Object.keys(place.headers).some((name) => name.toLowerCase() === 'authorization')
  const withoutKey = { url: place.url, headers: {} }
  const [version, models, keyless, keylessHealth, metrics, events, switches] = await Promise.all([
    asks('/version'),
    asks('/v1/models').then(readModels),
    ask(withoutKey, { path: '/v1/models', limitMs: options.limitMs }),
    ask(withoutKey, { path: '/health', limitMs: options.limitMs }),
    metricsOf(asks),
    readEventSources(asks),
    readSwitches(asks),
  ])
  const model = (options.model === null ? null : cardOf(models, options.model)) ?? baseCard(models)
  const [tokens, info, generated] = await Promise.all([
    tokenize(place, model?.id ?? null, options.limitMs),
    inDevMode(switches) ? readInfo(place) : null,
    model === null || !options.generate || isAway(switches, metrics)
      ? null
      : generate(place, model, options.generateMs),
  ])
  const versionText = isAnswer(version) && version.status === 200 ? version.text : ''
  const type = await typeOf(asks, { versionText, owner: model?.ownedBy ?? null, metrics, health })
  return {
    reach: reachOf(place.url),
    keyed,
    health,
    version: readVersion(version),
    type,
    models,
    metrics,
    tokens,
    switches,
    info,
    generated,
    // In older versions only the flags show it.
    events: events ?? (info === null ? null : info.events === null ? [] : [info.events]),
    withoutKey: isAnswer(keyless) ? keyless.status : null,
    guarded: !isAnswer(keylessHealth) || keylessHealth.status !== health.status,
    idle: await idle,
  }
}

/** True if the engine is asleep or paused. Requests to it would hang. */
export const isAway = ({ paused, sleeping }: Switches, { scraped }: Metrics): boolean =>
  paused === true || sleeping === true || scraped?.asleep === true

function readVersion(result: AskResult): string | null {
  const read = z.object({ version: z.string() }).safeParse(jsonOf(result))
  return read.success ? read.data.version : null
}

const readModels = (result: AskResult): ModelList => ({ result, cards: modelCards(jsonOf(result)) })

/** Sockets of the first route that lists them. Other types report them elsewhere, and the bridge reads them. */
async function readEventSources(asks: AskPath): Promise<readonly KvEventSource[] | null> {
  for (const { path, read } of KV_EVENT_SOURCES) {
    const sources = read(jsonOf(await asks(path)))
    if (sources !== null) return sources
  }
  return null
}

async function readInfo(place: Endpoint): Promise<ServerInfo | null> {
  for (const { info } of INSPECTIONS) {
    const read = info.read(jsonOf(await ask(place, { path: info.path, limitMs: INFO_MS })))
    if (read !== null) return read
  }
  return null
}

type AskPath = (path: string) => Promise<AskResult>

/** Metrics of the first path that has them. */
async function metricsOf(asks: AskPath): Promise<Metrics> {
  let first: Metrics | null = null
  for (const path of METRICS_PATHS) {
    const metrics = readMetrics(await asks(path))
    if (metrics.scraped !== null) return metrics
    first ??= metrics
  }
  return first!
}

interface TypeSigns {
  readonly versionText: string
  readonly owner: string | null
  readonly metrics: Metrics
  readonly health: Answer
}

/** Routes that show a type are requested only if nothing else does. */
async function typeOf(asks: AskPath, { versionText, owner, metrics, health }: TypeSigns): Promise<EngineType> {
  const evidence = {
    metrics: isAnswer(metrics.result) && metrics.result.status === 200 ? metrics.result.text : null,
    owners: owner === null ? [] : [owner],
    server: String(health.headers.server ?? ''),
  }
  const known = metrics.scraped?.type ?? detectEngineType(evidence)
  if (known !== detectEngineType({})) return known
  const routes: Record<string, string> = { '/version': versionText }
  for (const path of DETECTION_PATHS) {
    const result = await asks(path)
    if (isAnswer(result) && result.status === 200) routes[path] = result.text
  }
  return detectEngineType({ ...evidence, routes })
}

const CACHE_NAMES = namesPattern(INSPECTIONS.flatMap(({ metrics }) => [metrics.cacheConfig, metrics.rejections]))

function readMetrics(result: AskResult): Metrics {
  const text = isAnswer(result) && result.status === 200 ? result.text : ''
  const samples = samplesOf(text, CACHE_NAMES)
  const all = INSPECTIONS.map(({ metrics }) => metrics)
  const rejections = all.flatMap(({ rejections: name }) => samples.get(name) ?? [])
  const isServed = (prefix: string): boolean => text.startsWith(prefix) || text.includes(`\n${prefix}`)
  return {
    result,
    scraped: readLoad(text),
    cacheConfig: all.flatMap(({ cacheConfig: name }) => samples.get(name) ?? [])[0]?.labels ?? new Map(),
    rejections: rejections.length === 0 ? null : rejections.reduce((sum, { value }) => sum + value, 0),
    connectors: all.flatMap(({ connectors }) =>
      connectors.flatMap(([prefix, name]) => (isServed(prefix) ? [name] : [])),
    ),
  }
}

/** A GET on a POST route shows whether the route exists, without side effects. */
const exists = (result: AskResult): boolean => isAnswer(result) && result.status === 405

async function readSwitches(asks: AskPath): Promise<Switches> {
  const [paused, sleeping, adapters, profiler, speech, chats] = await Promise.all(
    [
      '/is_paused',
      '/is_sleeping',
      '/v1/load_lora_adapter',
      '/start_profile',
      '/v1/audio/transcriptions',
      '/v1/chat/completions',
    ].map(asks),
  )
  return {
    paused: readFlag(paused!, 'is_paused'),
    sleeping: readFlag(sleeping!, 'is_sleeping'),
    loadsAdapters: exists(adapters!),
    profiles: exists(profiler!),
    isSpeechOnly: exists(speech!) && isAnswer(chats!) && chats!.status === 404,
  }
}

function readFlag(result: AskResult, name: string): boolean | null {
  const read = z.record(z.string(), z.unknown()).safeParse(jsonOf(result))
  const value = read.success ? read.data[name] : null
  return typeof value === 'boolean' ? value : null
}

const tokenAnswer = z.object({ tokens: z.array(z.int()), token_strs: z.nullish(z.array(z.string())) })

async function tokenize(place: Endpoint, model: string | null, limitMs: number): Promise<TokenizeAnswers> {
  const about = model === null ? {} : { model }
  const asks = (body: object): Promise<AskResult> =>
    ask(place, { method: 'POST', path: '/tokenize', limitMs, body: { ...about, ...body } })
  const [result, chat] = await Promise.all([asks({ prompt: SAMPLE_TEXT, return_token_strs: true }), asks(SAMPLE_CHAT)])
  const read = tokenAnswer.safeParse(jsonOf(result))
  const readChat = tokenAnswer.safeParse(jsonOf(chat))
  return {
    result,
    ids: read.success ? read.data.tokens : null,
    strings: read.success && read.data.token_strs?.length === read.data.tokens.length,
    chat: readChat.success ? readChat.data.tokens : null,
  }
}

/**
 * Computes how far the engine's clock is ahead, in ms; null: unknown, or explained by rounding to a second and the
 * round trip.
 */
export function skewMs({ headers, at, tookMs }: Answer): number | null {
  const dateMs = Date.parse(headers.date ?? '')
  if (Number.isNaN(dateMs)) return null
  // `Date` is truncated to the second and may be written at any time during the round trip.
  const earliest = at - tookMs - 1000
  if (dateMs < earliest) return dateMs - earliest
  return dateMs > at ? dateMs - at : 0
}
