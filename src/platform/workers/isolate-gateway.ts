/** The gateway of one isolate. Rebuilt when the configuration changes. */
import { problemResponse } from '../../api/error-response.ts'
import { openaiErrors } from '../../protocols/error-shape.ts'
import type { Config } from '../../config.ts'
import type { Totals } from '../../core/edge/sync.ts'
import { Failure } from '../../failure.ts'
import { createGateway, type Gateway, type RouteGroup } from '../../gateway.ts'
import type { Log } from '../../ports/log.ts'
import type { RequestScope } from '../../ports/request-scope.ts'
import { openVocabularies, type OpenVocabulary, tokenizersOf, vocabularyIn } from '../../vocabulary.ts'
import { CONFIG_KEY, type ConfigEnv, type ConfigSource } from './config-source.ts'
import { boundAssets } from './dashboard-assets.ts'
import { EDGE_OBJECT, EdgeClient, SYNC_MS } from './edge-client.ts'
import { workersLog } from './log.ts'
import { type PortsEnv, workersPorts } from './ports.ts'
import { RequestTimers } from './request-timers.ts'
import { type VocabularyEnv, vocabularySource } from './vocabulary-bindings.ts'
import { WorkersRequest } from './workers-request.ts'

export interface GatewayEnv extends ConfigEnv, PortsEnv, VocabularyEnv {
  /** The dashboard's files. */
  readonly ASSETS?: Fetcher
}

/** Responses from this status on may be refusals, which other isolates' views count. */
const REJECTED_STATUS = 400

interface BuiltGateway {
  readonly config: Config
  readonly gateway: Gateway
  /** null: the deployment is older than the shared state. */
  readonly edge: EdgeClient | null
}

interface Call {
  readonly env: GatewayEnv
  readonly ctx: ExecutionContext
  readonly fetchOf: (built: BuiltGateway) => Gateway['fetch']
}

interface IsolateOptions {
  /** It takes views for the shared object, and is no isolate with requests of its own. Absent: false. */
  readonly isReader?: boolean
  /** Interval, ms, at which the isolate shares its state. Absent: a second. */
  readonly syncMs?: number
}

/** Requests share finished gateways, never pending ones, because a promise may not pass from one request to another. */
export class IsolateGateway {
  readonly #source: ConfigSource
  readonly #log: Log
  readonly #options: { readonly isReader: boolean; readonly syncMs: number }
  #built: BuiltGateway | null = null

  constructor(source: ConfigSource, { isReader = false, syncMs = SYNC_MS }: IsolateOptions = {}) {
    this.#source = source
    this.#options = { isReader, syncMs }
    this.#log = workersLog(() => this.#built?.config.log.level ?? 'info')
  }

  fetch(request: Request, env: GatewayEnv, ctx: ExecutionContext): Promise<Response> {
    return this.#answer(request, { env, ctx, fetchOf: ({ gateway }) => gateway.fetch })
  }

  /** Answers with the routes of these groups only. The result outlives configurations. */
  only(groups: readonly RouteGroup[]): IsolateGateway['fetch'] {
    let known: { readonly built: BuiltGateway; readonly fetch: Gateway['fetch'] } | null = null
    const fetchOf = (built: BuiltGateway): Gateway['fetch'] => {
      if (known?.built !== built) known = { built, fetch: built.gateway.only(groups) }
      return known.fetch
    }
    return (request, env, ctx) => this.#answer(request, { env, ctx, fetchOf })
  }

  async #answer(request: Request, { env, ctx, fetchOf }: Call): Promise<Response> {
    try {
      const loaded = await this.#source.current(env, (work) => ctx.waitUntil(work))
      if ('problem' in loaded) return errorResponse(loaded.problem === 'missing' ? MISSING : INVALID)
      const built = await this.#builtOf(loaded.config, env)
      if (built === null) return errorResponse(NO_VOCABULARY)
      built.gateway.configRefused(this.#source.refusedAt)
      const scope = scopeOf(request, ctx)
      built.edge?.syncIfStale(scope)
      const answer = fetchOf(built)(new WorkersRequest(request), scope)
      // A client disconnect would otherwise stop the request's JavaScript before its booking is released.
      ctx.waitUntil(answer)
      const response = await answer
      if (response.status >= REJECTED_STATUS) built.edge?.recordChange(scope)
      return response
    } catch (error) {
      // An exception that leaves the handler would close the client's connection without a response.
      this.#log.error('request_failed', { error })
      return errorResponse(new Failure('internal', 'The gateway failed to handle this request. Its log has the cause.'))
    }
  }

  /** View of the fleet for the live feed. null: there is no usable configuration. */
  async view(env: GatewayEnv): Promise<unknown> {
    const loaded = await this.#source.current(env, () => undefined)
    if ('problem' in loaded) return null
    const built = await this.#builtOf(loaded.config, env)
    await built?.edge?.readStatus()
    built?.gateway.configRefused(this.#source.refusedAt)
    return built?.gateway.view() ?? null
  }

  /**
   * Builds the gateway. A configuration whose vocabularies cannot be loaded does not replace a running one. null: no
   * configuration has ever been usable.
   */
  async #builtOf(config: Config, env: GatewayEnv): Promise<BuiltGateway | null> {
    if (this.#built?.config === config) return this.#built
    const vocabularies = await this.#vocabularies(config, env)
    if (vocabularies === null) return this.#built
    const edge = this.#edgeOf(config, env)
    // Without the state of its predecessor: the shared object adds up both, as those of two isolates.
    const gateway = createGateway(config, workersPorts(config, env, this.#log, edge), {
      vocabularyOf: vocabularyIn(vocabularies),
      assets: boundAssets(env.ASSETS),
      ...(edge === null ? {} : { workerGroup: edge }),
    })
    edge?.setTotals(async () => (await gateway.answer({ about: 'counts' })) as Totals)
    // A promise of another request may not be resolved here, so waiting requests are answered when they get a place.
    this.#built?.gateway.supersede(gateway, false)
    this.#built = { config, gateway, edge }
    return this.#built
  }

  #edgeOf(config: Config, { EDGE }: GatewayEnv): EdgeClient | null {
    if (EDGE === undefined) return null
    return new EdgeClient({
      open: () => EDGE.getByName(EDGE_OBJECT),
      log: this.#log,
      newId: () => crypto.randomUUID(),
      configVersion: config.version,
      ...this.#options,
    })
  }

  /** null: one is missing or invalid; the log names it and the next step. */
  async #vocabularies(config: Config, env: GatewayEnv): Promise<ReadonlyMap<string, OpenVocabulary> | null> {
    const names = tokenizersOf(config)
    if (names.length === 0) return new Map()
    try {
      return await openVocabularies(names, vocabularySource(env))
    } catch (error) {
      this.#log.error('vocabulary_missing', { error })
      return null
    }
  }
}

const NO_VOCABULARY = new Failure(
  'not_configured',
  "A configured vocabulary is missing or invalid. See the Worker's log.",
)

const MISSING = new Failure(
  'not_configured',
  'This gateway has no configuration: set the variable or secret FIRSTLIGHT_CONFIG, or put the key ' +
    `${CONFIG_KEY} into a KV namespace bound as CONFIG.`,
)

const INVALID = new Failure(
  'not_configured',
  'The configuration of this gateway is not valid. Its log names every problem; `firstlight check` does too.',
)

function errorResponse(failure: Failure): Response {
  return problemResponse(failure, openaiErrors, crypto.randomUUID())
}

function scopeOf(request: Request, ctx: ExecutionContext): RequestScope {
  return {
    background: (work) => ctx.waitUntil(work),
    client: ctx,
    remoteAddress: request.headers.get('cf-connecting-ip'),
    timers: new RequestTimers(),
    bind,
  }
}

/** The runtime continues a promise in the request that waits for it, and refuses I/O for another request. */
function bind(callback: () => void): () => void {
  const { promise, resolve } = Promise.withResolvers<void>()
  void promise.then(callback)
  return resolve
}
