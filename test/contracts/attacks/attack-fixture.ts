/**
 * A gateway with one engine that records the exact bytes it receives, one engine whose response a test sets, and raw
 * clients. Every request of a test has the header `x-attack`, which the gateway forwards: it distinguishes these
 * requests from probes.
 */
import net from 'node:net'
import type { FakeAnswer } from '../../kit/fake-answer.ts'
import type { EngineRequest as Received } from '../../kit/engine-request.ts'
import { FakeEngine } from '../../kit/fake-engine.ts'

export interface AttackedGateway {
  readonly url: string
  close(): Promise<unknown>
}

export interface AttackTable {
  start(document: Record<string, unknown>): Promise<AttackedGateway>
  /** Host headers to send: on Node each one selects another server (see test/node/inbound/both-servers.ts). */
  readonly hosts: readonly string[]
  /** workerd parses heads and bodies itself, before any code of the gateway runs. */
  readonly isWorker: boolean
}

export const attackKeys = {
  client: 'attack-client-secret-1',
  salted: 'attack-salted-secret-2',
  admin: 'attack-admin-secret-3',
  engine: 'attack-engine-secret-4',
  free: 'attack-free-secret-6',
  ranked: 'attack-ranked-secret-7',
  rankedFree: 'attack-ranked-free-secret-8',
} as const
export const SALT = 'attack-salt-5'
/** The configured priority of `ranked` and `rankedFree`. */
export const PRIORITY = 7
/** Name at the engine, and name for clients. */
export const MODEL = 'base/model'
export const ALIAS = 'alias'
/**
 * Number of cases of hostile responses. Each has its own address of the hostile engine and its own pools, so that an
 * open circuit, a failed health check or leftover bytes of one case cannot affect the next one.
 */
export const HOSTILE_CASES = 48
/** Model that only the hostile engine serves. */
export const hostileModel = (at: number): string => `hostile-${at}`
/** Model of the hostile engine and of a healthy one. */
export const mixedModel = (at: number): string => `mixed-${at}`

export interface EngineRequest {
  readonly target: string
  /** Head as received, without the blank line. */
  readonly head: string
  /** Body in Latin-1. */
  readonly body: string
}

/** Answers a request by writing to the socket. */
type Respond = (socket: net.Socket, request: EngineRequest) => void

/** One engine at many ports. */
export class HostileEngine {
  readonly calls: EngineRequest[] = []
  respond: Respond
  #engines: readonly FakeEngine[] = []

  constructor(respond: Respond) {
    this.respond = respond
  }

  async open(ports = 1): Promise<this> {
    const open = (): Promise<FakeEngine> => FakeEngine.open({ '*': (request) => this.#serve(request) })
    this.#engines = await Promise.all(Array.from({ length: ports }, open))
    return this
  }

  get urls(): readonly string[] {
    return this.#engines.map(({ url }) => url)
  }

  get url(): string {
    return this.urls[0]!
  }

  async close(): Promise<void> {
    await Promise.all(this.#engines.map((engine) => engine.close()))
  }

  #serve({ target, head, bytes, socket }: Received): FakeAnswer | void {
    if (!/^x-attack: /im.test(head)) return { body: '' }
    const request = { target, head, body: bytes.toString('latin1') }
    this.calls.push(request)
    this.respond(socket, request)
  }
}

const WHOLE = JSON.stringify({
  id: 'x',
  choices: [{ text: 'WELL' }],
  usage: { prompt_tokens: 2, completion_tokens: 1 },
})
export const wellAnswered: Respond = (socket) =>
  void socket.write(
    `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${WHOLE.length}\r\n\r\n${WHOLE}`,
  )

/** Maximum time for a response from the hostile engine alone. */
export const ANSWER_MS = 3_000

export interface AttackWorld {
  readonly gateway: AttackedGateway
  readonly table: AttackTable
  readonly engine: HostileEngine
  readonly hostile: HostileEngine
  close(): Promise<void>
}

export async function openAttackWorld(table: AttackTable): Promise<AttackWorld> {
  const engine = await new HostileEngine(wellAnswered).open(HOSTILE_CASES)
  const hostile = await new HostileEngine(wellAnswered).open(HOSTILE_CASES)
  const well = { id: 'well', url: engine.url, key: attackKeys.engine }
  // One response must not affect the next one: no circuit stays open and no retry is refused.
  const rest = { policy: 'round_robin', circuit: { failures: 1000, open_ms: 1 }, retry: { share: 1, min_per_s: 1000 } }
  const limits = { connect_ms: 2_000, first_byte_ms: 1_500, idle_ms: 1_500 }
  const gateway = await table.start({
    version: Date.now(),
    keys: [
      { name: 'client', secret: attackKeys.client },
      { name: 'salted', secret: attackKeys.salted, cache_salt: SALT },
      { name: 'free', secret: attackKeys.free, allow_overrides: true },
      { name: 'ranked', secret: attackKeys.ranked, priority: PRIORITY },
      { name: 'ranked-free', secret: attackKeys.rankedFree, priority: PRIORITY, allow_overrides: true },
    ],
    admin: { secret: attackKeys.admin },
    ttft: { enabled: true },
    log: { level: 'silent' },
    limits: { heartbeat_ms: 0, max_output_tokens: 1000, media_hosts: ['images.test', '*.cdn.test'] },
    clusters: [
      { id: 'good', pools: [{ model: MODEL, aliases: [ALIAS], ...rest, limits, engines: [well] }] },
      {
        id: 'bad',
        pools: hostile.urls.map((url, at) => ({
          model: hostileModel(at),
          ...rest,
          limits: { ...limits, answer_ms: ANSWER_MS },
          engines: [{ id: `ill-${at}`, url }],
        })),
      },
      {
        id: 'both',
        pools: hostile.urls.map((url, at) => ({
          model: mixedModel(at),
          ...rest,
          limits,
          engines: [
            { id: `ill-${at}`, url },
            { ...well, id: `well-${at}`, url: engine.urls[at]! },
          ],
        })),
      },
    ],
  })
  const close = async (): Promise<void> => {
    await gateway.close()
    await Promise.all([engine.close(), hostile.close()])
  }
  return { gateway, table, engine, hostile, close }
}

export interface RawAnswer {
  /** Status of the first response; 0: the connection closed without one. */
  readonly status: number
  /** All received bytes in Latin-1. */
  readonly text: string
  readonly closed: boolean
}

const QUIET_MS = 30_000

/** Sends bytes on a new connection and reads until the first response is complete or the connection is closed. */
export async function sendRaw({ gateway }: AttackWorld, text: string | Buffer): Promise<RawAnswer> {
  const { hostname, port } = new URL(gateway.url)
  const socket = net.connect(Number(port), hostname)
  let received = ''
  let closed = false
  await new Promise<void>((resolve) => {
    const limit = setTimeout(resolve, QUIET_MS)
    const done = (): void => {
      clearTimeout(limit)
      resolve()
    }
    socket.on('error', () => {})
    socket.on('close', () => {
      closed = true
      done()
    })
    socket.on('data', (bytes: Buffer) => {
      received += bytes.toString('latin1')
      // Responses to malformed requests close the connection, which tests check.
      if (isWhole(received) && !/^connection: close\r?$/im.test(received)) done()
    })
    socket.write(typeof text === 'string' ? Buffer.from(text, 'latin1') : text)
  })
  socket.destroy()
  return { status: Number(/^HTTP\/1\.[01] (\d{3})/.exec(received)?.[1] ?? 0), text: received, closed }
}

function isWhole(text: string): boolean {
  const end = text.indexOf('\r\n\r\n')
  if (end < 0) return false
  const length = /^content-length: (\d+)\r?$/im.exec(text.slice(0, end))
  return length === null ? text.endsWith('0\r\n\r\n') : text.length >= end + 4 + Number(length[1])
}

export const keyLine = (key: string = attackKeys.client): string => `authorization: Bearer ${key}\r\n`

/** A chat, with `content-length` unless the framing is given. */
export function rawRequest(
  host: string,
  body: string,
  {
    framing,
    path = '/v1/chat/completions',
    headers = keyLine(),
  }: { readonly framing?: string; readonly path?: string; readonly headers?: string } = {},
): string {
  const lines = framing ?? `content-length: ${Buffer.byteLength(body, 'latin1')}\r\n`
  return `POST ${path} HTTP/1.1\r\nhost: ${host}\r\nx-attack: 1\r\ncontent-type: application/json\r\n${headers}${lines}\r\n${body}`
}

export const chat = (more: object = {}, model: string = MODEL): string =>
  JSON.stringify({ model, messages: [{ role: 'user', content: 'hi' }], ...more })

/** Sends a body with fetch. */
export function post(
  { gateway }: AttackWorld,
  path: string,
  body: string | Uint8Array<ArrayBuffer>,
  headers: Readonly<Record<string, string>> = {},
  signal: AbortSignal | null = null,
): Promise<Response> {
  const own = { 'content-type': 'application/json', 'x-attack': '1', authorization: `Bearer ${attackKeys.client}` }
  return fetch(gateway.url + path, {
    method: 'POST',
    headers: { ...own, ...headers },
    body,
    redirect: 'manual',
    signal,
  })
}
