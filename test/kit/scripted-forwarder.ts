/** Scripted dependencies of a forwarder: engines that respond or fail, clusters that book and count. */
import { AnswerStart } from '../../src/origin/relay/answer-start.ts'
import type { EngineError } from '../../src/protocols/engine-error.ts'
import { chat } from '../../src/protocols/chat.ts'
import type { Admission } from '../../src/core/contract/admission.ts'
import type { EngineSignal } from '../../src/core/contract/engine-signal.ts'
import type { Outcome } from '../../src/core/contract/outcome.ts'
import type { Placement } from '../../src/core/contract/placement.ts'
import type { Refusal } from '../../src/core/contract/refusal.ts'
import type { Resume } from '../../src/core/contract/resume.ts'
import type { StageTimes } from '../../src/core/contract/stages.ts'
import { openRecord } from '../../src/core/reports/request-record.ts'
import { type Exchange, plainExchange } from '../../src/origin/exchange.ts'
import type { PoolRoute } from '../../src/origin/pool-route.ts'
import { passOverAll } from '../../src/origin/placement/placement-passes.ts'
import type { PoolDigests } from '../../src/origin/digests/pool-digests.ts'
import { OriginError, type OriginAnswer, type OriginRequest } from '../../src/ports/origin.ts'
import type { AdmitResult, PoolPort } from '../../src/ports/pool.ts'
import type { Lease } from '../../src/ports/lease.ts'
import type { RelayResult, RelayOptions } from '../../src/ports/relay.ts'
import type { Ports } from '../../src/ports.ts'
import { unusedPorts } from './unused-ports.ts'

/** Behaviour of one engine at its next request. */
export type Meeting =
  | { readonly fails: OriginError['failure']; readonly when?: 'send' | 'first_byte' }
  | {
      readonly status: number
      readonly body?: string
      readonly sse?: boolean
      readonly headers?: readonly string[]
      readonly end?: RelayResult['end']
    }
  /** Hangs until the client disconnects. */
  | 'hangs'

export interface RecordedBooking {
  readonly admission: Admission
  readonly engine: string
  readonly outcomes: Outcome[]
  readonly firstTokens: StageTimes[]
}

export class ScriptedForwarder {
  readonly bookings: RecordedBooking[] = []
  readonly sent: OriginRequest[] = []
  readonly relays: RelayOptions[] = []
  readonly background: Promise<unknown>[] = []
  readonly logged: string[] = []
  /** Fields of the warnings. */
  readonly warnings: unknown[] = []
  /** Signals about engines, with the cluster that received them. */
  readonly signals: (EngineSignal & { readonly cluster: string })[] = []
  readonly client = new AbortController()
  readonly meetings: Map<string, Meeting[]> = new Map()
  /** Clusters that refuse only while another one can serve. */
  readonly panicking = new Set<string>()
  /** Cluster id → result of admit in place of a booking. */
  readonly refusals: Map<string, Refusal['reason'] | 'throws' | 'never'> = new Map()
  clock = 1000

  constructor(engines: Readonly<Record<string, readonly Meeting[]>>) {
    for (const [id, meetings] of Object.entries(engines)) this.meetings.set(id, [...meetings])
  }

  get open(): number {
    return this.bookings.filter(({ outcomes }) => outcomes.length === 0).length
  }

  /** Resolves when all messages after the responses have arrived. */
  async settled(): Promise<void> {
    while (this.background.length > 0) await this.background.pop()
  }

  route(clusterId: string, engines: readonly string[]): PoolRoute {
    const targets = new Map(
      engines.map((id) => [id, { kind: 'server', id, url: `http://${id}`, headers: [], binding: null }]),
    )
    const retry = { share: 0.2, minPerS: 1, hedgeMs: 'off', midStream: 'off' }
    const limits = { connectMs: 1, firstByteMs: 2, prefillMs: 3, idleMs: 4, answerMs: 5 }
    return {
      cluster: { id: clusterId, gateway: null },
      pool: { model: 'm', leaseMs: 60_000, blockTokens: 2, limits, retry, engines: [], adapters: [], lmcache: null },
      targets,
    } as unknown as PoolRoute
  }

  exchange(routes: readonly PoolRoute[], changes: Partial<Exchange> = {}): Exchange {
    return {
      ...plainExchange,
      id: 'id-1',
      requestId: 'label',
      receivedAt: 900,
      method: 'POST',
      protocol: chat,
      path: '/v1/chat/completions',
      headers: ['content-type', 'application/json'],
      source: { body: () => [new Uint8Array(2)], admission: () => ({ id: 'id-1', model: 'm' }) as Admission },
      stream: true,
      observe: true,
      routes,
      configVersion: 7,
      heartbeatMs: 0,
      clientHeaders: [],
      pinned: null,
      stages: { edge: 1.5 },
      scope: { background: (work) => void this.background.push(work), client: null, remoteAddress: null },
      signal: this.client.signal,
      record: openRecord({
        id: 'id-1',
        requestId: 'label',
        receivedAt: 900,
        path: '/v1/chat/completions',
        model: 'm',
        stream: true,
      }),
      ...changes,
    }
  }

  readonly digests: PoolDigests = {
    firstPass: ({ routes }) => passOverAll(routes),
    latest: () => null,
    current: () => null,
    sent: () => null,
    fallback: (admission, route) => placement([...route.targets.keys()].filter((id) => !admission.avoid.includes(id))),
  }

  readonly ports: Ports = {
    ...unusedPorts,
    pool: (clusterId) => this.#cluster(clusterId),
    origin: { send: (request) => this.#send(request) },
    now: () => this.clock,
    random: () => 0.5,
    newId: () => 'new',
    log: {
      debug: () => {},
      info: () => {},
      warn: (event, fields) => {
        this.logged.push(event)
        this.warnings.push(fields)
      },
      error: (event) => void this.logged.push(event),
    },
  }

  #cluster(clusterId: string): PoolPort {
    return {
      admit: (admission: Admission) => this.#admit(clusterId, admission),
      resume: (booking: Resume) => this.#resume(booking),
      observe: async (signals: readonly EngineSignal[]) => {
        this.signals.push(...signals.map((signal) => ({ ...signal, cluster: clusterId })))
        return []
      },
    } as Partial<PoolPort> as PoolPort
  }

  async #admit(clusterId: string, admission: Admission): Promise<AdmitResult> {
    const refusal = this.refusals.get(clusterId)
    if (refusal === 'throws') throw new Error('object overloaded')
    if (refusal === 'never') return new Promise(() => {})
    const mayPanic = this.panicking.has(clusterId)
    if (refusal !== undefined && !(mayPanic && admission.isLastResort === true))
      return { refusal: { reason: refusal, detail: 'x', retryAfterMs: 500, ...(mayPanic ? { mayPanic } : {}) } }
    const chosen = placement(
      [...this.meetings.keys()].filter((id) => id.startsWith(clusterId) && !admission.avoid.includes(id)),
    )
    if (chosen === null) return { refusal: { reason: 'no_engine', detail: 'x', retryAfterMs: 1500 } }
    const events = mayPanic ? { events: [{ event: 'panic_mode', engine: chosen.engine } as const] } : {}
    const lease = this.#lease(admission, chosen.engine)
    return { lease, placement: chosen, policy: 'first', predictedTtftMs: null, ...events }
  }

  async #resume({ admission, placement: chosen }: Resume): Promise<Lease> {
    return this.#lease(admission, chosen.kind === 'whole' ? chosen.engine : chosen.decode)
  }

  #lease(admission: Admission, engine: string): Lease {
    const booking: RecordedBooking = { admission, engine, outcomes: [], firstTokens: [] }
    this.bookings.push(booking)
    return {
      legDone: async () => {},
      firstToken: async (stages) => void booking.firstTokens.push(stages),
      progress: async () => {},
      renew: async () => {},
      release: async (outcome) => void booking.outcomes.push(outcome),
    }
  }

  async #send(request: OriginRequest): Promise<OriginAnswer> {
    this.sent.push(request)
    const meeting = this.meetings.get(request.target.id)?.shift() ?? { status: 200 }
    if (meeting === 'hangs') {
      return new Promise((_, reject) =>
        request.signal.addEventListener('abort', () => reject(request.signal.reason as Error)),
      )
    }
    if ('fails' in meeting) {
      const error = new OriginError(meeting.fails, 'connect to http://10.0.0.1 failed')
      if (meeting.when !== 'first_byte') throw error
      return this.#answer({ status: 200 }, Promise.reject(error))
    }
    return this.#answer(meeting, Promise.resolve())
  }

  #answer(meeting: Exclude<Meeting, 'hangs' | { fails: unknown }>, firstByte: Promise<void>): OriginAnswer {
    firstByte.catch(() => {})
    const { status, body = 'data: x\n\n', headers = [], sse = status < 300, end = 'complete' } = meeting
    return {
      status,
      headers: ['content-type', sse ? 'text/event-stream' : 'application/json', ...headers],
      sse,
      firstByte: () => firstByte,
      read: async () => new TextEncoder().encode(body),
      reader: () => ({ read: async () => null, cancel: () => {} }),
      pass: (relay) => {
        this.relays.push(relay)
        const settle = () =>
          relay.settled({
            end,
            failure: end === 'engine_truncated' ? 'reset' : null,
            events: 4,
            usage: null,
            bytes: body.length,
          })
        relay.onResponseId?.('resp_1')
        queueMicrotask(settle)
        return new Response(body, { status: relay.status, headers: Object.fromEntries(pairs(relay.headers)) })
      },
      firstBytes: () => new TextEncoder().encode(body),
      fault: () => (body.includes('"error"') ? faultIn(body) : null),
      discard: () => {},
    }
  }
}

function faultIn(body: string): EngineError | null {
  const head = { status: 200, headers: [], sse: true }
  const start = new AnswerStart(head, { protocol: chat, isJson: false, isStream: true })
  const bytes = new TextEncoder().encode(body)
  start.take(bytes)
  return start.fault(() => bytes)
}

export function pairs(flat: readonly string[]): [string, string][] {
  const out: [string, string][] = []
  for (let i = 0; i < flat.length; i += 2) out.push([flat[i]!, flat[i + 1]!])
  return out
}

function placement(engines: readonly string[]): Extract<Placement, { kind: 'whole' }> | null {
  const [engine, ...runnersUp] = engines
  return engine === undefined ? null : { kind: 'whole', engine, runnersUp }
}
