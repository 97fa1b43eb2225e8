import { json, type Answer, type BrokenConnection, type Incoming } from './answer.ts'
import type { Clock } from './clock.ts'
import { Driver } from './driver.ts'
import type { EngineSettings } from './engine-options.ts'
import { FaultSwitch, type FaultRule } from './faults.ts'
import { KvPeer, type KvNetwork } from './kv-peer.ts'
import { RequestLog } from './request-log.ts'
import { supervise } from './supervise.ts'
import { metricsText } from './wire/metrics-text.ts'
import { isInference, route, type Routed } from './wire/routes.ts'
import { ServingMetrics } from './wire/serving-metrics.ts'
import { engineDead } from './wire/wire-error.ts'

/** What the engines of a fleet share. */
export interface FleetServices {
  readonly clock: Clock
  readonly random: () => number
  readonly newId: () => string
  readonly network: KvNetwork
  /** Content hashes of images, sounds, videos that some encode engine has encoded. */
  readonly encodings: Set<number>
}

/** A vLLM server that computes nothing: the engine model behind vLLM's wire. */
export class SimulatedEngine implements Routed {
  readonly settings: EngineSettings
  readonly index: number
  readonly log: RequestLog
  /** Set by a host that listens on a port. */
  url: string | null = null
  driver!: Driver
  metrics!: ServingMetrics
  kv: KvPeer | null = null
  sleepLevel = 0

  readonly #services: FleetServices
  readonly #faults: FaultSwitch
  /** Breaks off what is being answered. */
  readonly #breakers = new Set<() => void>()
  readonly #observers = new Set<() => void>()
  #encodedHere = new Set<number>()
  #startedAt = 0
  #down = false
  #dying = false

  constructor(settings: EngineSettings, index: number, services: FleetServices) {
    this.settings = settings
    this.index = index
    this.#services = services
    this.#faults = new FaultSwitch(services.clock, services.random)
    this.log = new RequestLog(settings.keepRequests, () => services.clock.now())
    this.#boot()
  }

  get clock(): Clock {
    return this.#services.clock
  }
  get limits(): EngineSettings['limits'] {
    return this.settings.limits
  }
  get model(): string {
    return this.settings.model
  }
  get served(): readonly string[] {
    return [this.settings.model, ...this.settings.adapters]
  }
  get devMode(): boolean {
    return this.settings.devMode
  }
  get pooling(): boolean {
    return this.settings.pooling
  }
  get perRequestMetrics(): boolean {
    return this.settings.perRequestMetrics
  }
  get maxNumQueuedReqs(): number | null {
    return this.settings.maxNumQueuedReqs
  }
  get maxNumQueuedTokens(): number | null {
    return this.settings.maxNumQueuedTokens
  }
  get fingerprint(): string {
    return 'vllm-0.32.0-simulated'
  }
  get load(): number {
    return this.log.running
  }
  get paused(): boolean {
    return this.driver.model.paused && this.sleepLevel === 0
  }

  /** Does it take connections? A host that listens follows it. */
  get listening(): boolean {
    return !this.#down && this.#faults.rule?.kind !== 'refuse'
  }

  get fault(): FaultRule | null {
    return this.#faults.rule
  }

  /** Called when `listening` may have changed. The answer stops that. */
  observe(observer: () => void): () => void {
    this.#observers.add(observer)
    return () => this.#observers.delete(observer)
  }

  /** Injects a fault, or heals with null. `refuse` also breaks what is being answered, as kill -9 does. */
  setFault(rule: FaultRule | null): void {
    this.#faults.set(rule)
    this.driver.model.slowdown = rule?.kind === 'slow' ? (rule.factor ?? 1) : 1
    if (rule?.kind === 'refuse') this.#breakAll()
    this.#tell()
  }

  /** Ends the process at once: connections break, the cache and what it held for others are lost. */
  kill(): void {
    this.#down = true
    this.kv?.leave()
    this.#breakAll()
    this.driver.model.abortAll(this.clock.now())
    this.#tell()
  }

  /** Starts a fresh process after `kill` or `crash`. */
  restart(): void {
    if (!this.#down) this.kill()
    this.#boot()
    this.#tell()
  }

  /** What a fatal request does: errors for everybody, then the process exits. */
  crash(): void {
    if (this.#dying) return
    this.#dying = true
    this.clock.after(300, () => this.kill())
  }

  async handle(incoming: Incoming): Promise<Answer | BrokenConnection> {
    if (!this.listening) return { broken: 'reset' }
    this.log.seen(incoming)
    const work = isInference(incoming)
    const rule = this.#faults.meet(work)
    const serve = (): Promise<Answer | BrokenConnection> =>
      rule === null ? this.#serve(incoming) : this.#faults.apply(rule, incoming.signal, () => this.#serve(incoming))
    const answer = work ? await supervise(this.log, this.#breakers, incoming, serve) : await serve()
    if ('broken' in answer || !this.settings.requestIdHeaders) return answer
    const requestId = incoming.headers.get('x-request-id') ?? this.newId()
    return { ...answer, headers: { ...answer.headers, 'x-request-id': requestId } }
  }

  encoded(item: number): boolean {
    const known = this.#encodedHere.has(item) || this.#services.encodings.has(item)
    this.#encodedHere.add(item)
    if (this.settings.role === 'encode') this.#services.encodings.add(item)
    return known
  }

  newId(): string {
    return this.#services.newId()
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
    const created = Math.floor(this.#startedAt / 1000)
    const { model, adapters, limits } = this.settings
    const item = (id: string, root: string, parent: string | null): object => ({
      id,
      object: 'model',
      created,
      owned_by: 'vllm',
      root,
      parent,
      max_model_len: limits.maxModelLen,
      permission: [permission(id, created)],
    })
    return json(200, {
      object: 'list',
      data: [item(model, model, null), ...adapters.map((adapter) => item(adapter, adapter, model))],
    })
  }

  metricsText(): string {
    return metricsText({
      model: this.driver.model,
      metrics: this.metrics,
      modelName: this.settings.model,
      sleepLevel: this.sleepLevel,
      prefixCaching: this.settings.prefixCaching,
      kv: this.kv,
      adapters: this.settings.adapters,
      maxAdapters: this.settings.adapters.length,
      startedAtS: this.#startedAt / 1000,
    })
  }

  serverInfo(): object {
    return { vllm_config: `simulated profile=${this.settings.profile} ${JSON.stringify(this.settings.limits)}` }
  }

  async #serve(incoming: Incoming): Promise<Answer> {
    const { apiKey } = this.settings
    const guarded = /^\/(v1|v2|inference)(\/|$)/.test(incoming.path)
    if (apiKey !== null && guarded && incoming.headers.get('authorization') !== `Bearer ${apiKey}`) {
      return json(401, { error: 'Unauthorized' })
    }
    if (this.#dying && incoming.path === '/health') return { status: 503, headers: {}, body: '' }
    if (this.#dying && isInference(incoming)) return engineDead().answer()
    return route(this, incoming)
  }

  #boot(): void {
    const { settings } = this
    this.#down = false
    this.#dying = false
    this.sleepLevel = 0
    this.#encodedHere = new Set()
    this.#startedAt = this.clock.now()
    this.metrics = new ServingMetrics()
    this.driver = new Driver(this.clock, settings)
    this.kv =
      settings.connector === null
        ? null
        : new KvPeer({
            engineId: `${settings.id}-${this.newId()}`,
            network: this.#services.network,
            driver: this.driver,
            clock: this.clock,
            port: 5600 + this.index,
          })
  }

  async #idle(): Promise<void> {
    const { model } = this.driver
    while (model.running + model.waiting > 0) await new Promise<void>((resolve) => this.clock.after(5, resolve))
  }

  #breakAll(): void {
    for (const breakOff of Array.from(this.#breakers)) breakOff()
    this.#breakers.clear()
  }

  #tell(): void {
    for (const observer of this.#observers) observer()
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
