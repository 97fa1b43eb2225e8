import { realClock, type Clock } from './driver.ts'
import { SimulatedEngine } from './engine.ts'
import { settle, type EngineOptions } from './engine-options.ts'
import type { FleetServices } from './engine-process.ts'
import { KvNetwork } from './kv-peer.ts'
import type { ReportSink } from './ttft-reporter.ts'
import { type Answer, type BrokenConnection, type Incoming, type Sink, json } from './answer.ts'
import { type FaultRule, readFault } from './faults.ts'

/**
 * Serves the engine as a `fetch` function, for tests in workerd and for a gateway in the same process. Where a socket
 * would be reset, the call rejects with a TypeError or the body errors.
 */
export async function handleRequest(engine: SimulatedEngine, request: Request): Promise<Response> {
  const aborted = new AbortController()
  if (request.signal.aborted) aborted.abort(request.signal.reason)
  request.signal.addEventListener('abort', () => aborted.abort(request.signal.reason), { once: true })
  const url = new URL(request.url)
  const incoming: Incoming = {
    method: request.method,
    path: url.pathname,
    query: url.searchParams,
    headers: new Map(request.headers),
    body: await request.text(),
    signal: aborted.signal,
  }
  const answer = await orAborted(engine.handle(incoming), request.signal)
  if ('broken' in answer)
    throw new TypeError(`fetch failed: the simulated engine reset the connection (${answer.broken})`)
  const body = typeof answer.body === 'string' ? answer.body : readable(answer, aborted.signal)
  return new Response(body, { status: answer.status, headers: answer.headers })
}

/** `fetch` rejects with the signal's reason immediately when it aborts. */
function orAborted(
  answer: Promise<Answer | BrokenConnection>,
  signal: AbortSignal,
): Promise<Answer | BrokenConnection> {
  return new Promise((resolve, reject) => {
    const leave = (): void => reject(signal.reason)
    if (signal.aborted) leave()
    signal.addEventListener('abort', leave, { once: true })
    answer.then(resolve, reject)
  })
}

function readable(answer: Answer, signal: AbortSignal): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  let stop: (() => void) | null = null
  return new ReadableStream<Uint8Array>({
    start(controller) {
      let open = true
      const close = (how: () => void): void => {
        if (!open) return
        open = false
        how()
      }
      const sink: Sink = {
        write: (text) => {
          if (open) controller.enqueue(encoder.encode(text))
        },
        end: () => close(() => controller.close()),
        fail: () =>
          close(() => controller.error(new TypeError('terminated: the simulated engine reset the connection'))),
      }
      stop = (answer.body as (sink: Sink) => () => void)(sink)
      const leave = (): void => {
        close(() => controller.error(signal.reason))
        stop?.()
      }
      if (signal.aborted) leave()
      signal.addEventListener('abort', leave, { once: true })
    },
    cancel() {
      stop?.()
    },
  })
}

/** A fleet: the number of engines or a list; the other options are defaults of every engine. */
export interface FleetOptions extends Omit<EngineOptions, 'id'> {
  readonly engines?: number | readonly EngineOptions[]
  readonly clock?: Clock
  /** Random source for faults with a `share`, in [0, 1). */
  readonly random?: () => number
  readonly newId?: () => string
  /** Destination of the stage reports before each first token. */
  readonly report?: ReportSink | null
}

export interface Fleet {
  readonly engines: readonly SimulatedEngine[]
  readonly clock: Clock
  /** Returns the engine of that id; throws if there is none. */
  engine(id: string): SimulatedEngine
  /** Calls an engine without a network by the host of its URL: `http://engine-0.sim/v1/models`. */
  fetch(request: Request): Promise<Response>
  /** Such a base URL for each engine. */
  readonly urls: readonly string[]
  /** Stops all engines and interrupts running requests. */
  stop(): void
}

/** Creates engines that share a clock, a KV network and an encoder cache. A host can listen on ports for them. */
export function createFleet(options: FleetOptions = {}): Fleet {
  const {
    engines: engineList = 1,
    clock = realClock,
    random = Math.random,
    newId = hexId,
    report = null,
    ...shared
  } = options
  const services: FleetServices = { clock, random, newId, network: new KvNetwork(), encodings: new Set(), report }
  const each: readonly EngineOptions[] =
    typeof engineList === 'number' ? Array.from({ length: engineList }, () => ({})) : engineList
  const engines = each.map((own, index) => new SimulatedEngine(settle({ ...shared, ...own }, index), index, services))
  const byId = new Map(engines.map((engine) => [engine.settings.id, engine]))
  if (byId.size !== engines.length) throw new RangeError('two engines of a fleet have the same id')
  const engine = (id: string): SimulatedEngine => {
    const found = byId.get(id)
    if (found === undefined) throw new RangeError(`unknown engine "${id}"; engines: ${[...byId.keys()].join(', ')}`)
    return found
  }
  return {
    engines,
    clock,
    engine,
    fetch: (request) => {
      const id = new URL(request.url).hostname.replace(/\.sim$/, '')
      const found = byId.get(id)
      if (found === undefined) return Promise.reject(new TypeError(`fetch failed: unknown simulated engine "${id}"`))
      return handleRequest(found, request)
    },
    urls: engines.map(({ settings }) => `http://${settings.id}.sim`),
    stop: () => {
      for (const one of engines) one.kill()
    },
  }
}

const hexId = (): string => crypto.randomUUID().replaceAll('-', '')

/* The control API. */

const bad = (message: string): Answer => json(400, { error: message })

/**
 * The control API of a simulated fleet; real engines have no such API.
 *
 * - `GET /_sim/engines`: all engines with their counters; `GET /_sim/engines/ID` adds the newest requests.
 * - `PUT /_sim/engines/ID/fault` with a fault as JSON, `DELETE` to clear it; ID `all` means every engine.
 * - `POST /_sim/engines/ID/kill`, `/restart`.
 */
export async function control(fleet: Fleet, incoming: Incoming): Promise<Answer> {
  const [, , collection, id, action] = incoming.path.split('/')
  if (collection !== 'engines') return json(404, { error: 'only /_sim/engines[/ID[/fault|kill|restart]]' })
  if (id === undefined || id === '') return json(200, { engines: fleet.engines.map(summary) })
  const engines = id === 'all' ? fleet.engines : fleet.engines.filter(({ settings }) => settings.id === id)
  if (engines.length === 0) return json(404, { error: `unknown engine "${id}"` })
  if (action === undefined) return json(200, engines.map(detail))
  if (action === 'fault') return setFaults(engines, incoming)
  if (incoming.method !== 'POST') return json(405, { error: 'use POST' })
  if (action === 'kill') for (const engine of engines) engine.kill()
  else if (action === 'restart') for (const engine of engines) engine.restart()
  else return json(404, { error: `no action "${action}": fault, kill or restart` })
  return json(200, engines.map(summary))
}

function setFaults(engines: readonly SimulatedEngine[], incoming: Incoming): Answer {
  let rule: FaultRule | null = null
  if (incoming.method !== 'DELETE') {
    try {
      rule = readFault(incoming.body)
    } catch (error) {
      return bad((error as Error).message)
    }
  }
  for (const engine of engines) engine.setFault(rule)
  return json(200, engines.map(summary))
}

/** Summarises an engine for tests and people. */
function summary(engine: SimulatedEngine): object {
  const { log, settings, kv } = engine
  const { model } = engine.driver
  return {
    id: settings.id,
    url: engine.url,
    role: settings.role,
    model: settings.model,
    profile: settings.profile,
    listening: engine.listening,
    fault: engine.fault === null ? null : snakeKeys(engine.fault),
    requests: log.requests,
    inference: log.inference,
    open: log.running,
    aborted: log.aborted,
    running: model.running,
    waiting: model.waiting,
    kv_usage: model.usage,
    counters: snakeKeys(model.counters),
    kv:
      kv === null
        ? null
        : {
            prefill_legs: kv.prefillLegs,
            decode_legs: kv.decodeLegs,
            late_reads: kv.lateReads,
            violations: snakeKeys(kv.violations),
          },
  }
}

const detail = (engine: SimulatedEngine): object => ({
  ...summary(engine),
  by_path: Object.fromEntries(engine.log.byPath),
  recent: engine.log.recent,
})

const snakeKeys = (record: object): object =>
  Object.fromEntries(
    Object.entries(record).map(([key, value]) => [
      key.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      value,
    ]),
  )
