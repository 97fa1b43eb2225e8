import type { Answer, BrokenConnection, Incoming, BodyStream } from './answer.ts'
import type { Driver } from './driver.ts'
import type { EngineSettings } from './engine-options.ts'
import { EngineProcess, type FleetServices } from './engine-process.ts'
import { FaultSwitch, type FaultRule } from './faults.ts'
import type { KvConnector } from './kv-connector.ts'
import type { KvEventSink } from './kv-events.ts'
import { RequestLog } from './engine-counters.ts'
import { isInference } from './http-api/routes.ts'

/**
 * Counts one inference request from start to end, however it ends, and allows the engine to interrupt it. `breakers`
 * has one interrupt function per running request.
 */
export async function supervise(
  log: RequestLog,
  breakers: Set<() => void>,
  incoming: Incoming,
  serve: () => Promise<Answer | BrokenConnection>,
): Promise<Answer | BrokenConnection> {
  let settled = false
  let onBreak: (() => void) | null = null
  const breakOff = (): void => onBreak?.()
  const settle = (clientGone: boolean): void => {
    if (settled) return
    settled = true
    log.running -= 1
    breakers.delete(breakOff)
    if (clientGone) log.clientLeft()
  }
  log.inference += 1
  log.running += 1
  breakers.add(breakOff)
  const broken = new Promise<BrokenConnection>((resolve) => {
    onBreak = () => {
      settle(false)
      resolve({ broken: 'reset' })
    }
  })
  incoming.signal.addEventListener('abort', () => settle(true), { once: true })
  let answer: Answer | BrokenConnection
  try {
    answer = await Promise.race([serve(), broken])
  } catch (error) {
    settle(false)
    throw error
  }
  if ('broken' in answer || typeof answer.body === 'string') {
    settle(false)
    return answer
  }
  return { ...answer, body: watch(answer.body, settle, (breakStream) => (onBreak = breakStream)) }
}

/** Reports to `settle` how the stream ended, and stops its source if a fault ended it early. */
function watch(
  body: BodyStream,
  settle: (clientGone: boolean) => void,
  onBreak: (run: () => void) => void,
): BodyStream {
  return (sink) => {
    let stop: (() => void) | null = null
    let over = false
    const finish = (how: () => void): void => {
      over = true
      settle(false)
      how()
      stop?.()
    }
    stop = body({
      write: (text) => sink.write(text),
      end: () => finish(() => sink.end()),
      fail: () => finish(() => sink.fail()),
    })
    if (over) stop()
    onBreak(() => finish(() => sink.fail()))
    return () => {
      settle(true)
      stop?.()
    }
  }
}

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
    this.#slow()
    if (rule?.kind === 'refuse') this.#breakAll()
    this.#tell()
  }

  /** Ends the process: connections are reset, and the cache and held blocks are lost. */
  kill(): void {
    this.#down = true
    this.#breakAll()
    this.#process.stop()
    this.#tell()
  }

  /** Starts a new process, after `kill` or instead of the running one. A fault remains. */
  restart(): void {
    if (!this.#down) this.kill()
    this.#down = false
    this.events?.restarted()
    this.#process = this.#boot()
    this.#slow()
    this.#tell()
  }

  /** Answers one request, or resets its connection. */
  async handle(incoming: Incoming): Promise<Answer | BrokenConnection> {
    if (!this.listening) return { broken: 'reset' }
    this.log.record(incoming)
    const work = isInference(incoming)
    const rule = this.#faults.meet(work)
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
    const born: EngineProcess = new EngineProcess({
      settings: this.settings,
      index: this.#index,
      services: this.#services,
      load: () => this.log.running,
      eventSources: () => this.events?.sources() ?? {},
      ...(this.settings.kvEvents
        ? { cached: (changes) => this.events?.publish(changes, this.#services.clock.now()) }
        : {}),
      died: () => {
        if (this.#process === born) this.kill()
      },
    })
    return born
  }

  #slow(): void {
    const { rule } = this.#faults
    this.driver.model.slowdown = rule?.kind === 'slow' ? (rule.factor ?? 1) : 1
  }

  #breakAll(): void {
    for (const breakOff of Array.from(this.#breakers)) breakOff()
    this.#breakers.clear()
  }

  #tell(): void {
    for (const observer of this.#observers) observer()
  }
}
