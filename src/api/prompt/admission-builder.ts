/** Builds the admission of a request per pool, because pools differ in block size, tokenizer and names. */
import type { Mutable } from '../../core/mutable.ts'
import { PAYLOAD_VERSION } from '../../core/contract/payload-version.ts'
import type { Overrides } from '../../core/contract/admission.ts'
import type { StageTimes } from '../../core/contract/stages.ts'
import type { ClientSession } from '../../core/contract/client-session.ts'
import type { Usage } from '../../core/contract/outcome.ts'
import type { PromptProfile } from '../../core/tokens/prompt-analyzer.ts'
import { isTooFragmented } from '../../core/tokens/prompt-fragments.ts'
import type { PromptRequest } from '../../core/tokens/prompt-request.ts'
import type { Prompt } from '../../core/tokens/prompt.ts'
import { connectors } from '../../origin/disagg/connectors.ts'
import type { PoolRoute } from '../../origin/pool-route.ts'
import type { RequestAdmission } from '../../origin/request-source.ts'
import type { CacheLookups } from '../../origin/lmcache/cache-lookups.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import { UNREADABLE } from '../../protocols/prompt-texts.ts'
import { engineModel } from '../model-registry.ts'
import type { InferenceRequest } from '../inference-request.ts'
import type { RequestFields } from '../body/request-fields.ts'
import type { RequestOptions } from '../body/requested-options.ts'
import type { Caller } from '../auth/caller.ts'
import type { EdgePrompts } from './edge-prompts.ts'
import type { PromptAnalyzers } from './prompt-analyzers.ts'
import { sessionIn } from '../body/request-session.ts'
import { estimateTokensByChars } from './split-estimate.ts'

/** Shared parts of admissions: the pools' analyzers, the LMCache lookups, and prompts that an edge has measured. */
export interface AdmissionSources {
  readonly analyzers: PromptAnalyzers
  readonly promptLookups: PromptLookups
  /** null: there are no edges, and no regions. */
  readonly edgePrompts: EdgePrompts | null
  readonly measure: MeasurePrompt
}

/** LMCache lookups of the prompts. */
type PromptLookups = Pick<CacheLookups, 'wanted' | 'gather'>

/** Lookups of a gateway without a pool that has them. */
export const noLookups: PromptLookups = {
  wanted: () => false,
  gather: () => Promise.reject(new Error('no pool has lookups')),
}

/** Measures the prompt of a request for a pool. */
export type MeasurePrompt = (inference: InferenceRequest, route: PoolRoute, request: PromptRequest) => PromptProfile

/** Admission for one pool. */
interface PoolAdmission {
  readonly route: PoolRoute
  /** null: an answer has begun. */
  request: PromptRequest | null
  prompt: PromptProfile
  readonly session: ClientSession | null
  admission: RequestAdmission
  hasLookedUp: boolean
}

export class AdmissionBuilder {
  readonly #inference: InferenceRequest
  readonly #analyzers: PromptAnalyzers
  readonly #lookups: PromptLookups
  readonly #edgePrompts: EdgePrompts | null
  readonly #measure: MeasurePrompt
  // There is nearly always one entry: searching a list is faster than creating a map.
  #poolAdmissions: readonly PoolAdmission[] = []
  /** No lookup may still read the prompt. */
  #isUnread = true
  /** The prompt, which all pools share. null: it was not read yet, or an answer has begun. */
  #prompt: Prompt | null = null

  constructor(inference: InferenceRequest, { analyzers, promptLookups, edgePrompts, measure }: AdmissionSources) {
    this.#inference = inference
    this.#analyzers = analyzers
    this.#lookups = promptLookups
    this.#edgePrompts = edgePrompts
    this.#measure = measure
  }

  /** The prompt, which is read once. */
  get prompt(): Prompt {
    return (this.#prompt ??= readPrompt(this.#inference))
  }

  admission(route: PoolRoute): RequestAdmission {
    return this.#poolAdmission(route).admission
  }

  /** Session that the client names in the sources of this pool. */
  sessionIn(route: PoolRoute): ClientSession | null {
    return this.#poolAdmission(route).session
  }

  /** The measured prompt as headers for a region. `others`: headers that it gets besides. */
  forRegion(route: PoolRoute, target: EngineTarget, others: readonly string[]): readonly string[] {
    const { request, prompt } = this.#poolAdmission(route)
    if (request === null || this.#edgePrompts === null) return []
    return this.#edgePrompts.headersFor(route, { request, prompt }, target, others)
  }

  /** Releases the prompt. Returns false if a lookup may still read it. */
  begun(): boolean {
    this.#prompt = null
    for (const entry of this.#poolAdmissions) entry.request = null
    return this.#isUnread
  }

  /** Learns the bytes per token from the engine's count. */
  learn(route: PoolRoute, { promptTokens }: Usage): void {
    for (const entry of this.#poolAdmissions)
      if (entry.route === route) this.#analyzers.learn(route, entry.prompt, promptTokens)
  }

  /** Looks up external caches and adds their hints to the admission, once. Resolves with the time; null: not needed. */
  lookUpCaches(route: PoolRoute): Promise<StageTimes> | null {
    return this.#wanted(route) ? this.#lookUp(this.#poolAdmission(route)) : null
  }

  async #lookUp(entry: PoolAdmission): Promise<StageTimes> {
    const { route, request, prompt: own } = entry
    if (entry.hasLookedUp || request === null) return {}
    entry.hasLookedUp = true
    this.#isUnread = false
    const { profile, known, stages } = await this.#lookups.gather(route, {
      ...engineModel(this.#inference.model, route.pool),
      profile: own,
      salt: request.salts[0] ?? null,
      byEngine: (tokenizer, call) =>
        this.#analyzers.measureByEngine(
          route,
          { request: { ...request, prompt: request.prompt, withIds: true }, own },
          tokenizer,
          call,
        ),
      background: (work) => this.#inference.incoming.scope.background(work),
    })
    entry.prompt = profile
    entry.admission = { ...admissionOf(this.#inference, entry), ...known }
    return stages
  }

  #wanted(route: PoolRoute): boolean {
    const { options } = this.#inference
    return this.#lookups.wanted(route, options.policy ?? null, () => computesAll(this.#inference))
  }

  #poolAdmission(route: PoolRoute): PoolAdmission {
    for (const entry of this.#poolAdmissions) if (entry.route === route) return entry
    const request = this.#requestIn(route)
    const prompt = this.#measure(this.#inference, route, request)
    const session = sessionIn(this.#inference, route)
    const admission = admissionOf(this.#inference, { route, prompt, session })
    const entry: PoolAdmission = { route, request, prompt, session, admission, hasLookedUp: false }
    // Not `push`, which makes room for 17 entries.
    this.#poolAdmissions = this.#poolAdmissions.concat(entry)
    return entry
  }

  #requestIn(route: PoolRoute): PromptRequest {
    const { endpoint, body, caller, fields, model } = this.#inference
    const salt = endpoint.salted ? (saltOf(caller, fields) ?? fields.cache_salt ?? null) : null
    return new UnreadPromptRequest(this, {
      bodyBytes: body.bytes.byteLength,
      adapter: engineModel(model, route.pool).adapter,
      salts: salt === null ? UNSALTED : [salt],
      withIds: this.#wanted(route),
    })
  }
}

/**
 * Reads the prompt when it is needed: one that an edge has measured is not read here. A class, because V8 creates a
 * hidden class for each object literal with a getter, and keeps all that the getter refers to until the next full
 * garbage collection.
 */
class UnreadPromptRequest implements PromptRequest {
  readonly #source: { readonly prompt: Prompt }
  readonly bodyBytes: number
  readonly adapter: string | null
  readonly salts: readonly string[]
  readonly tenant = null
  readonly withIds: boolean

  constructor(
    source: { readonly prompt: Prompt },
    { bodyBytes, adapter, salts, withIds }: Required<Omit<PromptRequest, 'prompt' | 'tenant'>>,
  ) {
    this.#source = source
    this.bodyBytes = bodyBytes
    this.adapter = adapter
    this.salts = salts
    this.withIds = withIds
  }

  get prompt(): Prompt {
    return this.#source.prompt
  }
}

/** A prompt in pieces counts by the size of its body alone. */
function readPrompt({ endpoint: { protocol }, body: { bytes, json } }: InferenceRequest): Prompt {
  return isTooFragmented(json, bytes.byteLength, protocol.promptFields.ids) ? UNREADABLE : protocol.prompt(json)
}

const UNSALTED: readonly string[] = []

/** Combines the tenant's salt with the client's; null: the client's is unchanged. */
export function saltOf(caller: Caller, fields: RequestFields): string | null {
  if (caller.cacheSalt === null) return null
  return fields.cache_salt ? `${caller.cacheSalt}:${fields.cache_salt}` : caller.cacheSalt
}

function admissionOf(
  inference: InferenceRequest,
  { route, prompt, session }: Pick<PoolAdmission, 'route' | 'prompt' | 'session'>,
): RequestAdmission {
  const { incoming, caller, body, fields, options } = inference
  const { model, adapter } = engineModel(inference.model, route.pool)
  const deadlineMs = options.ttft_deadline_ms ?? caller.ttftDeadlineMs
  // Optional fields are added afterwards: spreads of empty objects would double the cost of this function.
  const admission: Mutable<RequestAdmission> = {
    version: PAYLOAD_VERSION,
    id: incoming.id,
    model,
    adapter,
    promptTokens: prompt.promptTokens,
    tokenSource: prompt.tokenSource,
    blocks: prompt.blocks,
    session: session?.id ?? null,
    // Without the right to choose it, authorization has refused or replaced the client's.
    priority: options.priority ?? fields.priority ?? 0,
    expectedOutputTokens: options.expected_output_tokens ?? null,
    streams: inference.endpoint.streams && fields.stream === true,
    tenant: caller.tenant,
    requestClass: options.class ?? caller.requestClass,
    overrides: overridesOf(options),
    hints: null,
    unsplittable: unsplittable(inference, route),
    computesAll: computesAll(inference),
    sequences: inference.endpoint.protocol.bounds.sequences(body.json),
    encodeItems: prompt.items,
  }
  const outputLimitTokens = outputLimit(inference)
  if (outputLimitTokens !== null) admission.outputLimitTokens = Math.max(0, outputLimitTokens)
  if (caller.weight !== 1) admission.keyWeight = caller.weight
  if (deadlineMs !== null) admission.ttftDeadlineMs = deadlineMs
  if (route.pool.split.estimate === 'chars4') admission.splitTokens = estimateTokensByChars(body.json)
  return admission
}

/** An upload has no JSON with a limit. */
const outputLimit = ({ endpoint, body }: InferenceRequest): number | null =>
  endpoint.form ? null : endpoint.protocol.bounds.limit(body.json)

const computesAll = ({ endpoint, body }: InferenceRequest): boolean => endpoint.protocol.computesAll(body.json)

/** Returns why the request cannot be split; null: it can. */
function unsplittable({ endpoint, body }: InferenceRequest, { pool: { split } }: PoolRoute): string | null {
  const { protocol } = endpoint
  const connector = connectors[split.connector]
  const found =
    endpoint.unsplittable ??
    (protocol.splitting === null
      ? 'the protocol is not split'
      : protocol.splitting.unsplittable(body.json, connector.isExempt))
  return found ?? connector.unsplittable(protocol, body.json, split)
}

function overridesOf({ policy, overlap_weight: overlapWeight, temperature }: RequestOptions): Overrides | null {
  if (policy === undefined && overlapWeight === undefined && temperature === undefined) return null
  return {
    ...(policy === undefined ? {} : { policy }),
    ...(overlapWeight === undefined ? {} : { overlapWeight }),
    ...(temperature === undefined ? {} : { temperature }),
  }
}
