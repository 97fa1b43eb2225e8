import type { Answer, BrokenConnection, Incoming } from './answer.ts'
import type { Driver } from './driver.ts'
import type { EngineSettings } from './engine-options.ts'
import { EngineProcess, type FleetServices } from './engine-process.ts'
import { type FaultRule, FaultSwitch } from './faults.ts'
import { isInference } from './http-api/routes.ts'
import type { KvConnector } from './kv-connector.ts'
import type { KvEventSink } from './kv-events.ts'
import { RequestLog } from './request-log.ts'
import { supervise } from './supervise.ts'

/**
 * A vLLM server without a model: the engine model behind vLLM's HTTP API. It can be killed, restarted and made to
 * fail.
 */
export class SimulatedEngine {
  readonly settings: EngineSettings
  readonly log: RequestLog
  /** Set by a host that listens on a port. */
  url: string | null = null
  /** Destination of KV events, if `kvEvents` is set. */
  events: KvEventSink | null = null

  readonly #index: number
  readonly #services: FleetServices
  readonly #faults: FaultSwitch
  /** Interrupt functions of the requests in progress. */
  readonly #breakers = new Set<() => void>()
  readonly #observers = new Set<() => void>()
  #process: EngineProcess
  #down = false

  constructor(settings: EngineSettings, index: number, services: FleetServices) {
    this.settings = settings
    this.#index = index
    this.#services = services
    this.#faults = new FaultSwitch(services.clock, services.random)
    this.log = new RequestLog(settings.keepRequests, () => services.clock.now())
    this.#process = this.#boot()
  }

  get driver(): Driver {
    return this.#process.driver
  }

  get kv(): KvConnector | null {
    return this.#process.kv
  }

  /** True if it accepts connections. A host with a port follows this. */
  get listening(): boolean {
    return !this.#down && this.#faults.rule?.kind !== 'refuse'
  }

  get fault(): FaultRule | null {
    return this.#faults.rule
  }

  /** Registers a callback for changes of `listening`. The returned function removes it. */
  observe(observer: () => void): () => void {
    this.#observers.add(observer)
    return () => this.#observers.delete(observer)
  }

  /** Injects a fault; null clears it. `refuse` also resets running answers, as kill -9 does. */
  setFault(rule: FaultRule | null): void {
    this.#faults.set(rule)
    this.#applyToModel()
    if (rule?.kind === 'refuse') this.#breakAll()
    this.#notifyObservers()
  }

  /** Ends the process: connections are reset, and the cache and held blocks are lost. */
  kill(): void {
    this.#down = true
    this.#breakAll()
    this.#process.stop()
    this.#notifyObservers()
  }

  /** Starts a new process, after `kill` or instead of the running one. A fault remains. */
  restart(): void {
    if (!this.#down) this.kill()
    this.#down = false
    this.events?.restarted()
    this.#process = this.#boot()
    this.#applyToModel()
    this.#notifyObservers()
  }

  /** Answers one request, or resets its connection. */
  async handle(incoming: Incoming): Promise<Answer | BrokenConnection> {
    if (!this.listening) return { broken: 'reset' }
    this.log.record(incoming)
    const work = isInference(incoming)
    const rule = this.#faults.ruleFor(work)
    const serve = (): Promise<Answer | BrokenConnection> =>
      rule === null
        ? this.#process.answer(incoming)
        : this.#faults.apply(rule, incoming.signal, () => this.#process.answer(incoming))
    const answer = work ? await supervise(this.log, this.#breakers, incoming, serve) : await serve()
    if ('broken' in answer || !this.settings.requestIdHeaders) return answer
    const requestId = incoming.headers.get('x-request-id') ?? this.#services.newId()
    return { ...answer, headers: { ...answer.headers, 'x-request-id': requestId } }
  }

  #boot(): EngineProcess {
    const started: EngineProcess = new EngineProcess({
      settings: this.settings,
      index: this.#index,
      services: this.#services,
      load: () => this.log.running,
      eventSources: () => this.events?.sources() ?? {},
      ...(this.settings.kvEvents
        ? { cached: (changes) => this.events?.publish(changes, this.#services.clock.now()) }
        : {}),
      died: () => {
        if (this.#process === started) this.kill()
      },
    })
    return started
  }

  #applyToModel(): void {
    const { rule } = this.#faults
    this.driver.model.slowdown = rule?.kind === 'slow' ? (rule.factor ?? 1) : 1
    this.driver.freeze(rule?.kind === 'freeze')
    this.#process.hasWrongWeights = rule?.kind === 'wrong'
  }

  #breakAll(): void {
    for (const breakOff of Array.from(this.#breakers)) breakOff()
    this.#breakers.clear()
  }

  #notifyObservers(): void {
    for (const observer of this.#observers) observer()
  }
}
