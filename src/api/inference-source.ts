import type { Continuable, NotContinued } from '../core/continuation/continuable.ts'
import type { StageTimes } from '../core/contract/stages.ts'
import type { ClientSession } from '../core/contract/client-session.ts'
import type { Usage } from '../core/contract/outcome.ts'
import type { AddableField } from '../engines/engine-type.ts'
import type { BodyEdit } from '../origin/body-edit.ts'
import type { PoolRoute } from '../origin/pool-route.ts'
import type { RequestAdmission, RequestSource } from '../origin/request-source.ts'
import type { EngineTarget } from '../ports/engine-target.ts'
import { ANYONE } from './auth/caller.ts'
import { regionHeaders } from './auth/residency.ts'
import type { JsonBody } from './body/body.ts'
import { rewriteBody } from './body/body-rewrite.ts'
import { replaceFormModel } from './body/multipart.ts'
import type { PoolEdit } from './body/pool-edits.ts'
import { MAX_SESSION_CHARS, OPTIONS_HEADER } from './body/requested-options.ts'
import type { InferenceRequest } from './inference-request.ts'
import { engineModel } from './model-registry.ts'
import { AdmissionBuilder, type AdmissionSources, saltOf } from './prompt/admission-builder.ts'

/**
 * Header values allow only these characters, and a request with an invalid header would count as its region's failure.
 */
const headerJson = (value: object): string =>
  JSON.stringify(value).replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)

/** Name of a session at a region, which it bounds. */
const regionSession = (tenant: string, id: string): string => `${tenant}:${id}`.slice(0, MAX_SESSION_CHARS)

const NO_BODY: JsonBody = { bytes: new Uint8Array(0), json: {} }

export interface SourceParts extends AdmissionSources {
  /** Changes of a pool to the bodies of its requests. */
  readonly editsOf: (route: PoolRoute) => PoolEdit
}

/** How the answer will be read. */
interface AnswerReading {
  readonly stream: boolean
  readonly hideUsage: boolean
}

/** Bodies and admissions of a validated request. */
export class InferenceSource implements RequestSource {
  readonly inference: InferenceRequest
  readonly #admissions: AdmissionBuilder
  readonly #editsOf: SourceParts['editsOf']
  readonly #isStream: boolean
  readonly #hidesUsage: boolean
  /** Set for endpoints that the gateway can answer itself. */
  ownAnswer?: () => Response
  /** Set by `prepareContinuation`, when a body is made, as its pool allows. null: the stream is not continued. */
  #continuable: Continuable | NotContinued | null = null
  /** Engines' name of the model → the rewritten body, which attempts on one pool share. */
  #rewrittenFor: string | null = null
  #rewritten: readonly Uint8Array[] = []

  constructor(parts: SourceParts, inference: InferenceRequest, { stream, hideUsage }: AnswerReading) {
    this.inference = inference
    this.#admissions = new AdmissionBuilder(inference, parts)
    this.#editsOf = parts.editsOf
    this.#isStream = stream
    this.#hidesUsage = hideUsage
  }

  get json(): JsonBody['json'] {
    return this.inference.body.json
  }

  body(route: PoolRoute, legEdit?: BodyEdit): readonly Uint8Array[] {
    const { body, endpoint, caller, fields, model } = this.inference
    const name = legEdit?.model ?? engineModel(model, route.pool).model
    if (endpoint.form) return replaceFormModel(body, name)
    const mayAdd = (field: AddableField): boolean => legEdit?.addable?.includes(field) ?? true
    const cacheSalt = mayAdd('cache_salt') && endpoint.salted ? saltOf(caller, fields) : null
    const edit = this.#editsOf(route)(this, legEdit)
    // Every attempt has its own legs, so nothing is cached.
    if (edit !== undefined) {
      const includeUsage = this.#hidesUsage && mayAdd('stream_options') && !edit.remove.includes('stream_options')
      return rewriteBody(body.bytes, body.json, { model: name, includeUsage, cacheSalt, further: edit })
    }
    if (this.#rewrittenFor !== name) {
      this.#rewritten = rewriteBody(body.bytes, body.json, { model: name, includeUsage: this.#hidesUsage, cacheSalt })
      this.#rewrittenFor = name
    }
    return this.#rewritten
  }

  continuation(): Continuable | NotContinued | null {
    return this.#continuable
  }

  prepareContinuation({ retry }: PoolRoute['pool'], priority: string | undefined): boolean {
    const { endpoint, incoming } = this.inference
    this.#continuable = null
    if (!this.#isStream || retry.midStream === 'off' || incoming.scope.delivery !== undefined) return false
    const json = priority === undefined ? this.json : { ...this.json, priority: Number(priority) }
    this.#continuable = endpoint.protocol.continuable(json, retry.midStream)
    return typeof this.#continuable !== 'string'
  }

  admission(route: PoolRoute): RequestAdmission {
    return this.#admissions.admission(route)
  }

  lookUpCaches(route: PoolRoute): Promise<StageTimes> | null {
    return this.#admissions.lookUpCaches(route)
  }

  /** Session that the client names in the sources of this pool. */
  sessionIn(route: PoolRoute): ClientSession | null {
    return this.#admissions.sessionIn(route)
  }

  gatewayHeaders(route: PoolRoute, target: EngineTarget, others: readonly string[]): readonly string[] {
    const { options, caller } = this.inference
    const session = caller.tenant === ANYONE.tenant ? null : this.#admissions.sessionIn(route)
    // The region has one key for all clients of this gateway.
    const sent = session === null ? options : { ...options, session: regionSession(caller.tenant, session.id) }
    const ours = Object.keys(sent).length === 0 ? [] : [OPTIONS_HEADER, headerJson(sent)]
    const all = [...ours, ...regionHeaders(caller)]
    const prompt = this.#admissions.forRegion(route, target, [...others, ...all])
    return [...all, ...prompt]
  }

  /** A stream may run for hours, so it releases its prompt. */
  release(isWritten: boolean): void {
    const { request, memory } = this.inference.incoming
    memory?.release()
    this.inference.body = NO_BODY
    this.#rewritten = []
    this.#rewrittenFor = null
    const unread = this.#admissions.begun()
    if (isWritten && unread && 'collect' in request) request.giveBack()
  }

  /** Learns the bytes per token from the engine's count. */
  learn(route: PoolRoute, usage: Usage): void {
    this.#admissions.learn(route, usage)
  }
}
