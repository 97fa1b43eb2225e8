import { openRecord, type OpenRecord } from '../core/reports/request-record.ts'
import type { RegionPreference } from '../core/routing/region-preference.ts'
import type { Config } from '../config.ts'
import type { WaitingRequests } from '../origin/placement/waiting-requests.ts'
import type { Exchange, ExchangeObserver, ResponseStorage } from '../origin/exchange.ts'
import type { PoolRoute } from '../origin/pool-route.ts'
import { type EngineHeaderRules, headersForEngine } from '../origin/headers.ts'
import type { Trace } from '../telemetry/trace-context.ts'
import { engineQuery } from './engine-query.ts'
import { canRequestUsage } from './body/body-rewrite.ts'
import type { InferenceRequest } from './inference-request.ts'
import { InferenceSource, type SourceParts } from './inference-source.ts'
import { countsTokens, type Permit } from './key-limits.ts'
import type { RunningIds } from './running-ids.ts'

/** Whether a stream is read on its way. `chance` in [0, 1). */
function readsStream({ routes, caller, incoming }: InferenceRequest, chance: number): boolean {
  if (incoming.scope.delivery?.readsAnswer === false) return false
  const { observeShare, retry } = routes[0]!.pool
  return chance < observeShare || retry.midStream !== 'off' || countsTokens(caller)
}

/** Adds what is known of the request when its prompt is measured. */
function describeRequest(record: OpenRecord, source: InferenceSource, route: PoolRoute): void {
  const { sequences, encodeItems } = source.admission(route)
  record.sequences = sequences
  record.textOnly = encodeItems === 0
  const session = source.sessionIn(route)
  if (session !== null) record.session = session
}

const NO_HEADERS: readonly string[] = []

export interface ExchangeParts extends SourceParts {
  readonly config: Pick<Config, 'limits' | 'version' | 'ttft'>
  /** null: the gateway prefers no region. */
  readonly regionPreference: RegionPreference | null
  readonly engineHeaders: EngineHeaderRules
  /** Requests that wait for room. null: requests do not wait. */
  readonly waitingRequests: WaitingRequests | null
  readonly runningIds: RunningIds
  readonly observer: ExchangeObserver
}

/**
 * A validated request as `forward` processes it, until its end, when its log line is written. A class, because it is
 * created for every request.
 */
export class InferenceExchange implements Exchange {
  readonly id: string
  readonly requestId: string
  readonly receivedAt: number
  readonly method = 'POST'
  readonly protocol: Exchange['protocol']
  readonly expectsJson: boolean
  readonly requestedModel: string
  readonly path: string
  headers: readonly string[]
  readonly stream: boolean
  readonly observe: boolean
  readonly hideUsage: boolean
  readonly heartbeatMs: number
  readonly writeMs: number
  readonly routes: readonly PoolRoute[]
  readonly configVersion: number
  readonly pinned: Exchange['pinned']
  readonly regionPreference: RegionPreference | null
  readonly stages: Exchange['stages']
  scope: Exchange['scope']
  /** null: the key has no limits, or traces are off. */
  permit: Permit | null = null
  trace: Trace | null = null
  readonly waitingRequests: WaitingRequests | null
  signal: Exchange['signal']
  longWait: Exchange['longWait'] = null
  readonly lastComment: boolean
  readonly record: OpenRecord
  storage: ResponseStorage | null = null
  clientHeaders: readonly string[]
  readonly inference: InferenceRequest
  readonly source: InferenceSource
  readonly observer: ExchangeObserver
  /** `x-request-id` at engines. */
  readonly engineRequestId: string

  /** Measures the prompt for the first pool. `chance` in [0, 1): decides whether a stream is observed. */
  constructor(parts: ExchangeParts, inference: InferenceRequest, chance: number) {
    const { incoming, endpoint, body, fields, routes } = inference
    const { request, requestId } = incoming
    const { config } = parts
    this.inference = inference
    this.id = incoming.id
    this.requestId = requestId
    this.receivedAt = incoming.receivedAt
    this.protocol = endpoint.protocol
    this.expectsJson = endpoint.protocol.answersJson(body.json)
    this.requestedModel = inference.chosen?.name ?? inference.model
    this.path = endpoint.path + engineQuery(incoming.query)
    this.stream = endpoint.streams && fields.stream === true
    // Responses that do not stream are always read.
    this.observe = !this.stream || readsStream(inference, chance)
    this.hideUsage = this.stream && this.observe && endpoint.usageOnRequest && canRequestUsage(body.json)
    this.writeMs = config.limits.writeMs
    this.heartbeatMs = this.stream ? config.limits.heartbeatMs : 0
    this.routes = routes
    this.configVersion = config.version
    this.pinned = inference.pinned
    this.regionPreference = inference.caller.regionPreference ?? parts.regionPreference
    this.scope = incoming.scope
    this.waitingRequests = parts.waitingRequests
    this.signal = request.signal
    this.lastComment = config.ttft.comment
    this.clientHeaders = incoming.cors ?? NO_HEADERS
    this.observer = parts.observer
    this.source = new InferenceSource(parts, inference, this)
    const edge = incoming.elapsedMs()
    // Measures the prompt.
    this.source.admission(routes[0]!)
    this.stages = { edge, tokens: incoming.elapsedMs() - edge }
    this.record = openRecord({
      id: this.id,
      requestId,
      receivedAt: this.receivedAt,
      path: incoming.path,
      model: routes[0]!.pool.model,
      stream: this.stream,
    })
    describeRequest(this.record, this.source, routes[0]!)
    this.engineRequestId = parts.runningIds.take(requestId, this.id)
    this.headers = headersForEngine(request.headers, this.engineRequestId, parts.engineHeaders, endpoint.form)
  }
}
