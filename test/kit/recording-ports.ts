/** A configuration, and ports that record their calls: enough to check what the gateway forwards. */
import type { Config } from '../../src/config.ts'
import { parseConfig } from '../../src/config/parse.ts'
import type { Admission } from '../../src/core/contract/admission.ts'
import type { PoolDigest } from '../../src/core/contract/pool-digest.ts'
import type { Decision } from '../../src/core/contract/decision.ts'
import type { EngineSignal } from '../../src/core/contract/engine-signal.ts'
import type { Refusal } from '../../src/core/contract/refusal.ts'
import type { Usage } from '../../src/core/contract/outcome.ts'
import type { PoolPort } from '../../src/ports/pool.ts'
import type { Lease } from '../../src/ports/lease.ts'
import type { Log } from '../../src/ports/log.ts'
import type { OriginAnswer, OriginRequest } from '../../src/ports/origin.ts'
import type { Ports } from '../../src/ports.ts'
import type { RelayOptions } from '../../src/ports/relay.ts'
import type { RequestScope } from '../../src/ports/request-scope.ts'
import { unusedPorts } from './unused-ports.ts'

const decoder = new TextDecoder()

export interface ConfigChanges {
  readonly keys?: readonly unknown[]
  readonly open?: boolean
  readonly admin?: string
  readonly loopback?: boolean
  readonly clusters?: readonly unknown[]
  readonly limits?: Readonly<Record<string, number>>
}

/** Engines `a` and `b` of one cluster serve `Qwen/Qwen3-8B`, alias `qwen`, adapter `poet`. */
export const onePool = {
  id: 'paris',
  pools: [
    {
      model: 'Qwen/Qwen3-8B',
      aliases: ['qwen'],
      adapters: ['poet'],
      policy: 'round_robin',
      engines: [
        { id: 'a', url: 'http://10.0.0.1:8000' },
        { id: 'b', url: 'http://10.0.0.2:8000', key: 'engine-secret' },
      ],
    },
  ],
}

export function configOf(changes: ConfigChanges = {}): Config {
  const document = {
    version: 7,
    clusters: changes.clusters ?? [onePool],
    ...(changes.keys === undefined ? {} : { keys: changes.keys }),
    ...(changes.open === undefined ? {} : { open: changes.open }),
    ...(changes.admin === undefined ? {} : { admin: { secret: changes.admin } }),
    ...(changes.limits === undefined ? {} : { limits: changes.limits }),
  }
  return parseConfig(document, {}, { defaultVersion: 1, defaultObserveShare: 1, listens: changes.loopback ?? true })
}

/** Response of a fake engine; the body can depend on the request. */
export type Answerer = (
  request: OriginRequest,
  body: string | null,
) => { status?: number; headers?: readonly string[]; body?: string; responseId?: string; usage?: Usage }

export interface RecordingPorts {
  readonly ports: Ports
  readonly scope: RequestScope
  /** Requests that reached engines. */
  readonly sent: { request: OriginRequest; body: string | null }[]
  readonly admissions: Admission[]
  readonly signals: EngineSignal[]
  readonly logged: { level: string; event: string; fields: Readonly<Record<string, unknown>> }[]
  answer: Answerer
  refusal: Refusal | null
  chance: number
}

export function openRecordingPorts(): RecordingPorts {
  let ids = 0
  const logged: RecordingPorts['logged'] = []
  const world: RecordingPorts = {
    sent: [],
    admissions: [],
    signals: [],
    logged,
    answer: (_request, body) => ({ body: JSON.stringify({ echo: body }) }),
    refusal: null,
    chance: 0.5,
    scope: { background: (work) => void work.catch(() => undefined), client: null, remoteAddress: '192.0.2.1' },
    ports: {
      ...unusedPorts,
      pool: () => cluster,
      origin: { send: async (request) => answerOf(world, request) },
      now: () => 1_000_000,
      random: () => world.chance,
      newId: () => `gw-${++ids}`,
      log: logOf(logged),
    },
  }
  const cluster: PoolPort = {
    configure: async () => undefined,
    admit: async (admission) => {
      if (world.refusal !== null) return { refusal: world.refusal }
      world.admissions.push(admission)
      const engine = ['a', 'b', 'far'].find((id) => !admission.avoid.includes(id)) ?? 'a'
      return {
        lease,
        placement: { kind: 'whole', engine, runnersUp: [] },
        policy: 'round_robin',
        predictedTtftMs: null,
      }
    },
    resume: async () => lease,
    observe: async (signals) => {
      world.signals.push(...signals)
      return []
    },
    digest: async () => digest,
    decisions: {
      dryRun: async (admission) =>
        world.refusal === null ? { decision: decisionOf(admission) } : { refusal: world.refusal },
      explain: async (id) => {
        const admission = world.admissions.find((one) => one.id === id)
        return admission === undefined ? null : decisionOf(admission)
      },
    },
    region: {
      digest: async () => ({
        version: 1,
        cluster: 'local',
        pool: 'qwen',
        configVersion: 1,
        engines: 0,
        requests: 0,
        queued: 0,
        confidence: 0,
        soonest: null,
        usual: null,
        prefixes: '',
      }),
    },
  }
  return world
}

const lease: Lease = {
  legDone: async () => undefined,
  firstToken: async () => undefined,
  progress: async () => undefined,
  renew: async () => undefined,
  release: async () => undefined,
}

const digest: PoolDigest = {
  version: 1,
  cluster: 'paris',
  pool: 'Qwen/Qwen3-8B',
  configVersion: 7,
  seq: 1,
  epoch: 'e',
  at: 1,
  bookings: 3,
  engines: [],
}

function decisionOf(admission: Admission): Decision {
  return {
    id: admission.id,
    at: 1,
    cluster: 'paris',
    pool: 'Qwen/Qwen3-8B',
    model: admission.model,
    attempt: 0,
    promptTokens: admission.promptTokens,
    tokenSource: admission.tokenSource,
    policy: admission.overrides?.policy ?? 'round_robin',
    fallback: null,
    placement: { kind: 'whole', engine: 'a', runnersUp: ['b'] },
    candidates: [{ engine: 'a', cost: 1, terms: { queuedPrefillS: 1 } }],
    excluded: [],
    predictedTtftMs: null,
    predictedCachedTokens: null,
    shadow: null,
    actual: null,
  }
}

function logOf(logged: RecordingPorts['logged']): Log {
  const at =
    (level: string) =>
    (event: string, fields: Readonly<Record<string, unknown>> = {}) =>
      void logged.push({ level, event, fields })
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

function answerOf(world: RecordingPorts, request: OriginRequest): OriginAnswer {
  const body =
    request.body === null ? null : request.body.map((piece) => decoder.decode(piece, { stream: true })).join('')
  world.sent.push({ request, body })
  const answer = world.answer(request, body)
  const bytes = Uint8Array.from(new TextEncoder().encode(answer.body ?? ''))
  return {
    status: answer.status ?? 200,
    headers: answer.headers ?? ['content-type', 'application/json'],
    sse: (answer.headers ?? []).includes('text/event-stream'),
    firstByte: async () => undefined,
    read: async () => bytes,
    pass: (relay) => pass(relay, bytes, answer),
    reader: () => ({ read: async () => null, cancel: () => {} }),
    firstBytes: () => new Uint8Array(),
    fault: () => null,
    discard: () => undefined,
  }
}

function pass(relay: RelayOptions, bytes: Uint8Array<ArrayBuffer>, seen: ReturnType<Answerer>): Response {
  const headers = new Headers()
  for (let i = 0; i < relay.headers.length; i += 2) headers.append(relay.headers[i]!, relay.headers[i + 1]!)
  if (seen.responseId !== undefined) relay.onResponseId?.(seen.responseId)
  relay.settled({ end: 'complete', failure: null, events: 0, bytes: bytes.length, usage: seen.usage ?? null })
  return new Response(bytes, { status: relay.status, headers })
}

export type Post = (path: string, body: unknown, headers?: Readonly<Record<string, string>>) => Promise<Response>

/** Sends requests to a gateway as a client does; a text `body` is sent unchanged. */
export function poster(
  gateway: { fetch(request: Request, scope: RequestScope): Promise<Response> },
  world: RecordingPorts,
): Post {
  return (path, body, headers = {}) => {
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    return gateway.fetch(
      new Request(`http://localhost${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: text,
      }),
      world.scope,
    )
  }
}
