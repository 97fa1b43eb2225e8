/**
 * Mirror traffic: repeats a share of the requests for a model at another one, discards the answers, and charges no key.
 * A repeated request is booked like any other, but is sent once, never waits, and begins after its original's answer.
 */
import type { BodyAllocation, BodyMemory } from '../body-memory.ts'
import type { Config } from '../config.ts'
import { concatBytes } from '../core/bytes.ts'
import type { Mirror, MirrorCounts } from '../core/traffic/mirror-counts.ts'
import { Failure } from '../failure.ts'
import type { Exchange } from '../origin/exchange.ts'
import type { Ports } from '../ports.ts'
import type { RequestScope } from '../ports/request-scope.ts'
import type { ProtocolEndpoint } from '../protocols/protocols.ts'
import { ANYONE, type Caller } from './auth/caller.ts'
import { rewriteBody } from './body/body-rewrite.ts'
import { parseInferenceRequest, type ParseParts } from './body/parse-request.ts'
import { type ExchangeParts, InferenceExchange } from './inference-exchange.ts'
import { InferenceObserver, type RequestEnd } from './inference-observer.ts'
import { type HttpRequest, RequestContext } from './request-context.ts'
import { outputTokensOf } from './request-end.ts'

/** Share of `limits.buffered_bytes` that bodies of repeated requests may have. */
const MEMORY_SHARE = 1 / 8

/** Headers for engines that belong to the original alone. */
const OWN_HEADERS = ['x-request-id', 'traceparent', 'tracestate']

type Forward = (exchange: InferenceExchange) => Promise<Response>

export interface MirrorParts extends ExchangeParts, ParseParts {
  readonly config: ExchangeParts['config'] & ParseParts['config'] & Pick<Config, 'weightedModels'>
  readonly ports: Ports
  readonly bodyMemory: BodyMemory
  readonly mirrorCounts: MirrorCounts
  /** Sends a request to one engine, once. */
  readonly forwardOnce: (exchange: Exchange) => Promise<Response>
}

/** A setting with the pool whose requests are repeated. */
interface MirrorRule extends Mirror {
  readonly share: number
  /** null: any pool. */
  readonly cluster: string | null
}

/** A request that will be repeated. */
interface Copy {
  readonly rule: MirrorRule
  readonly endpoint: ProtocolEndpoint
  readonly caller: Caller
  readonly options: { readonly session?: string }
  readonly request: HttpRequest
  readonly memory: BodyAllocation
}

export class Mirrors {
  readonly #parts: MirrorParts
  /** By the name of the weighted model. */
  readonly #byName: ReadonlyMap<string, MirrorRule>
  readonly #running = new Set<AbortController>()
  #heldBytes = 0
  #hasEnded = false

  constructor(parts: MirrorParts) {
    this.#parts = parts
    this.#byName = new Map(
      parts.config.weightedModels.flatMap(({ name, mirror }) =>
        mirror === null ? [] : [[name, { ...mirror, name, cluster: null }]],
      ),
    )
  }

  /** Adds the mirror to the forwarder of inference requests. */
  around(next: Forward): Forward {
    return async (exchange) => {
      const copy = this.#hasEnded ? null : this.#copyOf(exchange)
      if (copy === null) return next(exchange)
      let isRepeated = false
      try {
        const response = await next(exchange)
        isRepeated = response.status === 200 && !this.#hasEnded && isOfPool(exchange, copy.rule)
        if (isRepeated) exchange.scope.background(this.#repeat(copy, exchange.scope))
        return response
      } finally {
        if (!isRepeated) copy.memory.release()
      }
    }
  }

  /** Ends the repeated requests that run, and begins no more. */
  end(): void {
    this.#hasEnded = true
    for (const running of this.#running) running.abort()
  }

  /** null: the request is not repeated. */
  #copyOf(exchange: InferenceExchange): Copy | null {
    const { inference } = exchange
    const { endpoint, body, caller, options, incoming } = inference
    const rule = this.#ruleOf(exchange)
    if (rule === null || endpoint.mirrorEdit === null || exchange.pinned !== null) return null
    if (this.#parts.ports.random() >= rule.share) return null
    this.#parts.mirrorCounts.follow(exchange, rule)
    const edits = { model: rule.to, includeUsage: false, cacheSalt: null, further: endpoint.mirrorEdit }
    const pieces = rewriteBody(body.bytes, body.json, edits)
    const memory = this.#hold(pieces.reduce((sum, { length }) => sum + length, 0))
    if (memory === null) {
      this.#parts.mirrorCounts.dropped(rule)
      return null
    }
    // A copy: the memory of the client's body is used again when its answer begins.
    const bytes = pieces.length === 1 ? pieces[0]!.slice() : concatBytes(pieces)
    return {
      rule,
      endpoint,
      caller: callerOf(caller),
      options: options.session === undefined ? {} : { session: options.session },
      request: requestOf(exchange, incoming.path + incoming.query, bytes),
      memory,
    }
  }

  #ruleOf({ inference: { chosen }, routes }: InferenceExchange): MirrorRule | null {
    const named = chosen === null ? undefined : this.#byName.get(chosen.name)
    if (named !== undefined) return named
    const route = routes.find(({ pool }) => pool.mirror !== null)
    return route === undefined ? null : { ...route.pool.mirror!, name: route.pool.model, cluster: route.cluster.id }
  }

  /** Memory of a body. null: there is no room. */
  #hold(bytes: number): BodyAllocation | null {
    const { bodyMemory, config } = this.#parts
    if (this.#heldBytes + bytes > config.limits.bufferedBytes * MEMORY_SHARE) return null
    const memory = bodyMemory.open()
    try {
      memory.grow(bytes)
    } catch (error) {
      if (error instanceof Failure) return null
      throw error
    }
    this.#heldBytes += bytes
    let isHeld = true
    return {
      // The whole body is counted already.
      grow: () => {},
      release: () => {
        if (isHeld) this.#heldBytes -= bytes
        isHeld = false
        memory.release()
      },
    }
  }

  /** Never rejects. The client's answer has begun. */
  async #repeat(copy: Copy, scope: RequestScope): Promise<void> {
    const { ports, forwardOnce, mirrorCounts } = this.#parts
    const running = new AbortController()
    this.#running.add(running)
    let isOpen = false
    try {
      await ports.yieldToEventLoop?.()
      const exchange = await this.#exchangeOf(copy, scope, running.signal)
      isOpen = true
      await discard(await forwardOnce(exchange), running.signal)
    } catch (error) {
      if (!isOpen) mirrorCounts.dropped(copy.rule)
      ports.log.debug('mirror_failed', { model: copy.rule.name, to: copy.rule.to, error })
    } finally {
      this.#running.delete(running)
      copy.memory.release()
    }
  }

  async #exchangeOf(copy: Copy, original: RequestScope, signal: AbortSignal): Promise<InferenceExchange> {
    const { endpoint, caller, options, request, memory, rule } = copy
    const { ports } = this.#parts
    const incoming = new RequestContext(
      { ...request, signal },
      scopeOf(original, signal),
      ports,
      endpoint.protocol.errors,
    )
    incoming.memory = memory
    const inference = await parseInferenceRequest(
      { ...this.#parts, optionsOf: () => options },
      endpoint,
      incoming,
      caller,
    )
    signal.throwIfAborted()
    const observer = new InferenceObserver({ ...this.#parts, costs: null, end: this.#endOf(rule) })
    return new InferenceExchange({ ...this.#parts, waitingRequests: null, observer }, inference, ports.random())
  }

  /** Counts the result, and nothing else: no usage, limits, budgets, reports or log. */
  #endOf(rule: MirrorRule): RequestEnd {
    const { mirrorCounts } = this.#parts
    return ({ record }) => {
      const isDropped = record.engine === null && record.failedAttempts.length === 0
      if (isDropped || record.result === 'abandoned') mirrorCounts.dropped(rule)
      else mirrorCounts.repeated(rule, record, outputTokensOf(record))
    }
  }
}

const isOfPool = ({ record }: InferenceExchange, { cluster, name }: MirrorRule): boolean =>
  cluster === null || (record.cluster === cluster && record.model === name)

/** A client of its own, refused first. Only its cache and its regions are those of the original's key. */
const callerOf = ({ cacheSalt, regions, edgeRegions, regionPreference }: Caller): Caller => ({
  ...ANYONE,
  regions,
  ...(edgeRegions === undefined ? {} : { edgeRegions }),
  regionPreference,
  // No key can have this name.
  tenant: '(mirror)',
  requestClass: 'sheddable',
  edge: false,
  cacheSalt,
})

/** The client's connection is not the repeated request's, and only a drain ends it. */
const scopeOf = (original: RequestScope, signal: AbortSignal): RequestScope => ({
  ...(original.timers === undefined ? {} : { timers: original.timers }),
  ...(original.bind === undefined ? {} : { bind: (callback: () => void) => original.bind!(callback) }),
  background: (work) => original.background(work),
  client: null,
  remoteAddress: null,
  isClosing: () => signal.aborted,
})

function requestOf({ headers: sent }: InferenceExchange, url: string, bytes: Uint8Array): HttpRequest {
  const headers = new Headers()
  for (let at = 0; at + 1 < sent.length; at += 2) headers.append(sent[at]!, sent[at + 1]!)
  for (const name of OWN_HEADERS) headers.delete(name)
  return { method: 'POST', url, headers, signal: NO_ABORT, collect: () => bytes, giveBack: () => {} }
}

const NO_ABORT = new AbortController().signal

/** Reads an answer to its end, or until the gateway ends it. */
async function discard(response: Response, signal: AbortSignal): Promise<void> {
  const reader = response.body?.getReader()
  if (reader === undefined) return
  const cancel = (): void => void reader.cancel().catch(() => {})
  signal.addEventListener('abort', cancel)
  if (signal.aborted) cancel()
  try {
    while (!(await reader.read()).done);
  } finally {
    signal.removeEventListener('abort', cancel)
  }
}
