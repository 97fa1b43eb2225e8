import type { Continuable, NotContinued } from '../core/continuation/continuable.ts'
import type { StageTimes } from '../core/contract/stages.ts'
import { hasEnded, type OpenRecord, openRecord, type RequestRecord } from '../core/reports/request-record.ts'
import type { AddableField } from '../engines/engine-type.ts'
import type { RegionPreference } from '../core/routing/region-preference.ts'
import type { Config } from '../config.ts'
import type { WaitingRequests } from '../origin/placement/waiting-requests.ts'
import type { BodyEdit } from '../origin/body-edit.ts'
import type { Exchange } from '../origin/exchange.ts'
import type { PoolRoute } from '../origin/pool-route.ts'
import { type EngineHeaderRules, headersForEngine } from '../origin/headers.ts'
import type { EngineTarget } from '../ports/engine-target.ts'
import { ANYONE } from './auth/caller.ts'
import { regionHeaders } from './auth/residency.ts'
import type { Trace } from '../telemetry/trace-context.ts'
import type { RequestHistory } from './request-history.ts'
import type { EdgePrompts } from './prompt/edge-prompts.ts'
import { AdmissionBuilder, type AdmissionSources, saltOf } from './prompt/admission-builder.ts'
import { canRequestUsage, rewriteBody } from './body/body-rewrite.ts'
import type { JsonBody } from './body/body.ts'
import { replaceFormModel } from './body/multipart.ts'
import type { PoolEdit } from './body/pool-edits.ts'
import { MAX_SESSION_CHARS } from './body/request-fields.ts'
import type { InferenceRequest } from './inference-request.ts'
import { countsTokens, type Permit } from './key-limits.ts'
import { engineModel } from './model-registry.ts'
import type { RequestCosts } from './request-costs.ts'
import type { RunningIds } from './running-ids.ts'

/**
 * Header values allow only these characters, and a request with an invalid header would count as its region's failure.
 */
const headerJson = (value: object): string =>
  JSON.stringify(value).replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)

/** Name of a session at a region, which it bounds. */
const regionSession = (tenant: string, id: string): string => `${tenant}:${id}`.slice(0, MAX_SESSION_CHARS)

/** Whether a stream is read on its way. `chance` in [0, 1). */
function readsStream({ routes, caller, incoming }: InferenceRequest, chance: number): boolean {
  if (incoming.scope.delivery?.readsAnswer === false) return false
  const { observeShare, retry } = routes[0]!.pool
  return chance < observeShare || retry.midStream !== 'off' || countsTokens(caller)
}

/** Adds what is known of the request when its prompt is measured. */
function describeRequest(record: OpenRecord, admissions: AdmissionBuilder, route: PoolRoute): void {
  const { sequences, encodeItems } = admissions.of(route)
  record.sequences = sequences
  record.textOnly = encodeItems === 0
  const session = admissions.sessionIn(route)
  if (session !== null) record.session = session
}

const NO_HEADERS: readonly string[] = []

const NO_BODY: JsonBody = { bytes: new Uint8Array(0), json: {} }

export interface ExchangeParts extends AdmissionSources {
  readonly config: Pick<Config, 'limits' | 'version' | 'ttft'>
  /** null: the gateway prefers no region. */
  readonly regionPreference: RegionPreference | null
  readonly engineHeaders: EngineHeaderRules
  /** Requests that wait for room. undefined: requests do not wait. */
  readonly waits: WaitingRequests | undefined
  readonly runningIds: RunningIds
  readonly recent: RequestHistory
  /** Changes of a pool to the bodies of its requests. */
  readonly editsOf: (route: PoolRoute) => PoolEdit
  /** Receives each request at its end. */
  readonly end: RequestEnd
  /** null: no pool counts costs. */
  readonly costs: RequestCosts | null
}

/** Receives a request that has ended. */
export type RequestEnd = (request: EndedRequest) => void

interface EndedRequest {
  readonly record: RequestRecord
  readonly exchange: InferenceExchange
  readonly parsed: InferenceRequest
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
  readonly stages: StageTimes
  readonly scope: Exchange['scope']
  /** null: the key has no limits, or traces are off. */
  permit: Permit | null = null
  trace: Trace | null = null
  readonly waits: WaitingRequests | undefined
  readonly signal: Exchange['signal']
  readonly lastComment: boolean
  readonly record: OpenRecord
  onResponseId?: NonNullable<Exchange['onResponseId']>
  ownAnswer?: NonNullable<Exchange['ownAnswer']>
  clientHeaders: readonly string[]
  readonly parsed: InferenceRequest
  readonly #admissions: AdmissionBuilder
  readonly #end: RequestEnd
  readonly #costs: RequestCosts | null
  readonly #editsOf: ExchangeParts['editsOf']
  readonly #edgePrompts: EdgePrompts | null
  readonly #runningIds: RunningIds
  /** `x-request-id` at engines. */
  readonly #engineId: string
  /** null: streams of the pool are not continued. */
  #continuable: Continuable | NotContinued | null = null
  /** Engines' name of the model → the rewritten body, which attempts on one pool share. */
  #rewrittenFor: string | null = null
  #rewritten: readonly Uint8Array[] = []

  /** Measures the prompt for the first pool. `chance` in [0, 1): decides whether a stream is observed. */
  constructor(parts: ExchangeParts, parsed: InferenceRequest, chance: number) {
    const { incoming, endpoint, body, fields, routes } = parsed
    const { request, requestId } = incoming
    const { config } = parts
    this.parsed = parsed
    this.id = incoming.id
    this.requestId = requestId
    this.receivedAt = incoming.receivedAt
    this.protocol = endpoint.protocol
    this.expectsJson = endpoint.protocol.answersJson(body.json)
    this.path = endpoint.path + incoming.query
    this.stream = endpoint.streams && fields.stream === true
    // Responses that do not stream are always read.
    this.observe = !this.stream || readsStream(parsed, chance)
    this.hideUsage = this.stream && this.observe && endpoint.usageOnRequest && canRequestUsage(body.json)
    this.writeMs = config.limits.writeMs
    this.heartbeatMs = this.stream ? config.limits.heartbeatMs : 0
    this.routes = routes
    this.configVersion = config.version
    this.pinned = parsed.pinned
    this.regionPreference = parsed.caller.regionPreference ?? parts.regionPreference
    this.scope = incoming.scope
    this.waits = parts.waits
    this.signal = request.signal
    this.lastComment = config.ttft.comment
    this.clientHeaders = incoming.cors ?? NO_HEADERS
    this.#edgePrompts = parts.edgePrompts
    this.#end = parts.end
    this.#costs = parts.costs
    this.#editsOf = parts.editsOf
    this.#admissions = new AdmissionBuilder(parsed, parts)
    const edge = incoming.elapsedMs()
    // Measures the prompt.
    this.#admissions.of(routes[0]!)
    this.stages = { edge, tokens: incoming.elapsedMs() - edge }
    this.record = openRecord({
      id: this.id,
      requestId,
      receivedAt: this.receivedAt,
      path: incoming.path,
      model: routes[0]!.pool.model,
      stream: this.stream,
    })
    describeRequest(this.record, this.#admissions, routes[0]!)
    parts.recent.add({ model: parsed.model, tenant: parsed.caller.tenant, record: this.record })
    incoming.logOnStreamEnd = true
    this.#runningIds = parts.runningIds
    this.#engineId = parts.runningIds.take(requestId, this.id)
    this.headers = headersForEngine(request.headers, this.#engineId, parts.engineHeaders, endpoint.form)
  }

  get requestedModel(): string {
    return this.parsed.chosen?.name ?? this.parsed.model
  }

  get json(): JsonBody['json'] {
    return this.parsed.body.json
  }

  /** A stream may run for hours, so it releases its prompt. */
  onResponseStart(written: boolean): void {
    const { request, memory } = this.parsed.incoming
    memory?.release()
    this.parsed.body = NO_BODY
    this.#rewritten = []
    this.#rewrittenFor = null
    const unread = this.#admissions.begun()
    if (written && unread && 'collect' in request) request.giveBack()
  }

  body(route: PoolRoute, leg?: BodyEdit): readonly Uint8Array[] {
    const { body, endpoint, caller, fields, model } = this.parsed
    const name = leg?.model ?? engineModel(model, route.pool).model
    if (endpoint.form) return replaceFormModel(body, name)
    const mayAdd = (field: AddableField): boolean => leg?.addable?.includes(field) ?? true
    const cacheSalt = mayAdd('cache_salt') && endpoint.salted ? saltOf(caller, fields) : null
    const edit = this.#editsOf(route)(this, leg)
    // Every attempt has its own legs, so nothing is cached.
    if (edit !== undefined) {
      const includeUsage = this.hideUsage && mayAdd('stream_options') && !edit.remove.includes('stream_options')
      return rewriteBody(body.bytes, body.json, { model: name, includeUsage, cacheSalt, leg: edit })
    }
    if (this.#rewrittenFor !== name) {
      this.#rewritten = rewriteBody(body.bytes, body.json, { model: name, includeUsage: this.hideUsage, cacheSalt })
      this.#rewrittenFor = name
    }
    return this.#rewritten
  }

  continuation(): Continuable | NotContinued | null {
    return this.#continuable
  }

  needsTokenIds({ retry }: PoolRoute['pool'], priority: string | undefined): boolean {
    if (!this.stream || retry.midStream === 'off' || this.scope.delivery !== undefined) return false
    const json = priority === undefined ? this.json : { ...this.json, priority: Number(priority) }
    this.#continuable ??= this.protocol.continuable(json, retry.midStream)
    return typeof this.#continuable !== 'string'
  }

  admission(route: PoolRoute): ReturnType<Exchange['admission']> {
    return this.#admissions.of(route)
  }

  forGateway(route: PoolRoute, target: EngineTarget): readonly string[] {
    const { options, caller } = this.parsed
    const session = caller.tenant === ANYONE.tenant ? null : this.#admissions.sessionIn(route)
    // The region has one key for all clients of this gateway.
    const sent = session === null ? options : { ...options, session: regionSession(caller.tenant, session.id) }
    const ours = Object.keys(sent).length === 0 ? [] : ['x-firstlight-options', headerJson(sent)]
    const all = [...ours, ...regionHeaders(caller)]
    const prompt = this.#admissions.forRegion(route, target, [...this.headers, ...all])
    return [...all, ...prompt]
  }

  gatewayAnswered(route: PoolRoute, headers: readonly string[]): void {
    this.#edgePrompts?.recordOffer(route, headers)
  }

  hints(route: PoolRoute): Promise<StageTimes> | null {
    return this.#admissions.hints(route)
  }

  charge(route: PoolRoute, key: string): void {
    const { id, scope } = this
    const { caller } = this.parsed
    const { tenant, team } = caller
    const payer = { key: tenant, team: team?.name ?? null, model: route.pool.model }
    this.#costs?.charge({ route, key, id, payer, caller, scope })
  }

  onEnd(): void {
    const { cluster, model, usage } = this.record
    const route = this.routes.find((one) => one.cluster.id === cluster && one.pool.model === model)
    if (usage !== null && route !== undefined) this.#admissions.learn(route, usage)
    this.parsed.incoming.memory?.release()
    this.#runningIds.release(this.#engineId)
    const { record } = this
    if (!hasEnded(record)) throw new Error(`request ${record.id} has no result: fill in its record first`)
    this.#end({ record, exchange: this, parsed: this.parsed })
  }
}
