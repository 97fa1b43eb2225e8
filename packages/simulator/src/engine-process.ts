import { json, type Answer, type Incoming } from './answer.ts'
import type { CacheChange } from './cache-journal.ts'
import { Driver } from './driver.ts'
import type { Clock } from './clock.ts'
import type { EngineSettings } from './engine-options.ts'
import type { KvConnector } from './kv-connector.ts'
import { ResponsePeer } from './kv-response.ts'
import { LmcachePeer } from './kv-lmcache.ts'
import { KvPeer } from './kv-peer.ts'
import type { KvNetwork } from './kv-network.ts'
import type { ReportSink } from './ttft-reporter.ts'
import { metricsText } from './http-api/metrics-text.ts'
import { ServingMetrics } from './http-api/serving-metrics.ts'
import { isInference, route, type RoutedEngine } from './http-api/routes.ts'
import { StoredResponses } from './http-api/stored-responses.ts'
import { engineDead } from './http-api/wire-error.ts'

/** State shared by the engines of a fleet. */
export interface FleetServices {
  readonly clock: Clock
  /** In [0, 1). */
  readonly random: () => number
  readonly newId: () => string
  readonly network: KvNetwork
  /** Content hashes of images, audio and video that an encode engine has encoded. */
  readonly encodings: Set<number>
  /** `TTFT_ENABLED`; null: off. */
  readonly report: ReportSink | null
}

interface ProcessOptions {
  readonly settings: EngineSettings
  readonly index: number
  readonly services: FleetServices
  /** Number of requests in progress. */
  readonly load: () => number
  /** Called once when a request has crashed the process. */
  readonly died: () => void
  /** Changes of the prefix cache. Omit to disable the journal. */
  readonly cached?: (changes: readonly CacheChange[]) => void
  /** `GET /kv_event_sources`. */
  readonly eventSources: () => object
}

/** Observed on a real server: errors for all requests, and the port closes within half a second. */
const DYING_MS = 300

/** One run of a vLLM server: the state that a restart loses. */
export class EngineProcess implements RoutedEngine {
  readonly settings: EngineSettings
  readonly driver: Driver
  readonly clock: Clock
  readonly metrics: ServingMetrics
  readonly responses = new StoredResponses(1000)
  readonly kv: KvConnector | null
  readonly report: ReportSink | null
  sleepLevel = 0
  hasWrongWeights = false

  readonly #options: ProcessOptions
  readonly #startedAt: number
  readonly #encodedHere = new Set<number>()
  #dying = false

  constructor(options: ProcessOptions) {
    const { settings, services, index } = options
    this.#options = options
    this.settings = settings
    this.clock = services.clock
    this.report = services.report
    this.#startedAt = services.clock.now()
    const metrics = new ServingMetrics(settings.limits.maxModelLen)
    this.metrics = metrics
    this.driver = new Driver(services.clock, settings, {
      gap: (ms) => metrics.interToken.record(ms / 1000),
      step: (tokens) => metrics.stepTokens.record(tokens),
      ...(options.cached === undefined ? {} : { cached: options.cached }),
    })
    this.kv = this.#connect(index)
  }

  get load(): number {
    return this.#options.load()
  }

  get paused(): boolean {
    return this.driver.model.paused && this.sleepLevel === 0
  }

  async answer(incoming: Incoming): Promise<Answer> {
    const { apiKey } = this.settings
    const guarded = /^\/(v1|v2|inference)(\/|$)/.test(incoming.path)
    if (apiKey !== null && guarded && incoming.headers.get('authorization') !== `Bearer ${apiKey}`) {
      return json(401, { error: 'Unauthorized' })
    }
    if (this.#dying && incoming.path === '/health') return { status: 503, headers: {}, body: '' }
    if (this.#dying && isInference(incoming)) return engineDead().answer()
    return route(this, incoming)
  }

  crash(): void {
    if (this.#dying) return
    this.#dying = true
    this.clock.after(DYING_MS, () => this.#options.died())
  }

  /** Ends all running work. */
  stop(): void {
    this.kv?.leave()
    this.driver.model.abortAll(this.clock.now())
    this.driver.model.pause()
    this.driver.arm()
  }

  encoded(item: number): boolean {
    const { encodings } = this.#options.services
    const known = this.#encodedHere.has(item) || encodings.has(item)
    this.#encodedHere.add(item)
    if (this.settings.role === 'encode') encodings.add(item)
    return known
  }

  newId(): string {
    return this.#options.services.newId()
  }

  sleep(level: number, abort: boolean): void {
    const { model } = this.driver
    if (abort) model.abortAll(this.clock.now())
    this.sleepLevel = level
    model.pause()
    model.resetCache()
    this.driver.arm()
  }

  wake(): void {
    this.sleepLevel = 0
    this.resume()
  }

  async pause(mode: 'abort' | 'wait' | 'keep', clearCache: boolean): Promise<void> {
    const { model } = this.driver
    if (mode === 'abort') model.abortAll(this.clock.now())
    if (mode === 'wait') await this.#idle()
    model.pause()
    if (clearCache) model.resetCache()
    this.driver.arm()
  }

  resume(): void {
    this.driver.model.resume(this.clock.now())
    this.driver.arm()
  }

  resetCache(): boolean {
    return this.driver.model.resetCache()
  }

  modelList(): Answer {
    const created = Math.floor(this.clock.now() / 1000)
    const { model, modelPath, adapters, limits } = this.settings
    const item = (id: string, parent: string | null): object => ({
      id,
      object: 'model',
      created,
      owned_by: 'vllm',
      root: parent === null ? modelPath : id,
      parent,
      max_model_len: limits.maxModelLen,
      permission: [permission(this.newId().slice(0, 16), created)],
    })
    return json(200, { object: 'list', data: [item(model, null), ...adapters.map((adapter) => item(adapter, model))] })
  }

  metricsText(): string {
    return metricsText({
      model: this.driver.model,
      metrics: this.metrics,
      settings: this.settings,
      sleepLevel: this.sleepLevel,
      kv: this.kv,
      startedAtS: this.#startedAt / 1000,
    })
  }

  eventSources(): object {
    return this.#options.eventSources()
  }

  serverInfo(parsed: boolean): object {
    const config = configOf(this.settings)
    return {
      vllm_config: parsed ? config : `simulated profile=${this.settings.profile} ${JSON.stringify(config)}`,
      vllm_env: { VLLM_SERVER_DEV_MODE: true },
    }
  }

  #connect(index: number): KvConnector | null {
    const { connector, id, role, receiver } = this.settings
    const { network, clock, newId } = this.#options.services
    switch (connector) {
      case null:
        return null
      case 'nixl':
        return new KvPeer({ engineId: `${id}-${newId()}`, network, driver: this.driver, clock, port: 5600 + index })
      case 'lmcache':
        return new LmcachePeer(network, receiver)
      case 'response':
        return new ResponsePeer(network, role === 'prefill')
    }
  }

  async #idle(): Promise<void> {
    const { model } = this.driver
    while (model.running + model.waiting > 0) await new Promise<void>((resolve) => this.clock.after(5, resolve))
  }
}

const CONNECTORS = { nixl: 'NixlConnector', lmcache: 'LMCacheConnectorV1', response: 'ExampleConnector' } as const
const KV_ROLES = { any: 'kv_both', prefill: 'kv_producer', decode: 'kv_consumer', encode: 'kv_both' } as const

/** The parts of vLLM's configuration that apply here, under vLLM's names. */
function configOf({
  model,
  modelPath,
  limits,
  maxNumQueuedReqs,
  maxNumQueuedTokens,
  prefixCaching,
  connector,
  role,
}: EngineSettings): object {
  return {
    model_config: {
      model: modelPath,
      served_model_name: model,
      max_model_len: limits.maxModelLen,
      enable_sleep_mode: true,
    },
    cache_config: {
      block_size: limits.blockTokens,
      num_gpu_blocks: limits.cacheBlocks,
      enable_prefix_caching: prefixCaching,
    },
    scheduler_config: {
      max_num_seqs: limits.maxNumSeqs,
      max_num_batched_tokens: limits.maxNumBatchedTokens,
      max_num_queued_reqs: maxNumQueuedReqs,
      max_num_queued_tokens: maxNumQueuedTokens,
    },
    kv_transfer_config: connector === null ? null : { kv_connector: CONNECTORS[connector], kv_role: KV_ROLES[role] },
    kv_events_config: null,
  }
}

const permission = (id: string, created: number): object => ({
  id: `modelperm-${id}`,
  object: 'model_permission',
  created,
  allow_create_engine: false,
  allow_sampling: true,
  allow_logprobs: true,
  allow_search_indices: false,
  allow_view: true,
  allow_fine_tuning: false,
  organization: '*',
  group: null,
  is_blocking: false,
})
