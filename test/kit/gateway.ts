/** A gateway in front of engines, on Node or as the built Worker in workerd, with one pool unless a test says more. */
import { until } from '../wait.ts'
import { startBuiltWorker, type BuiltWorker } from './built-worker.ts'
import { type LeavingPost, postAndLeave } from './leaving-client.ts'
import { startNodeGateway, type LogLine, type NodeGateway, type NodeGatewayOptions } from './node-gateway.ts'

export type Runtime = 'node' | 'worker'

/** For `describe.each`. */
export const runtimes = [
  ['Node', 'node'],
  ['the built Worker', 'worker'],
] as const

export const runtimeNames: Readonly<Record<Runtime, string>> = { node: 'Node', worker: 'the built Worker' }

export interface RunningGateway {
  readonly url: string
  close(): Promise<void>
}

/** Starts a gateway with a whole configuration. */
export const startRuntime = (runtime: Runtime, document: object): Promise<RunningGateway> =>
  runtime === 'worker' ? startBuiltWorker(document) : startNodeGateway(document)

/** How clients leave: workerd notices a reset at once, and an orderly close only when it writes. */
export const leavesBy = (runtime: Runtime): LeavingPost['by'] => (runtime === 'worker' ? 'reset' : 'close')

export const MODEL = 'm'

/** A chat with one message. */
export const CHAT = {
  path: '/v1/chat/completions',
  body: { model: MODEL, messages: [{ role: 'user', content: 'hi' }] },
} as const
export const ADMIN_KEY = 'admin-key-of-the-test-kit'

/** An engine of the kit. */
interface RunningEngine {
  readonly url: string
  close(): Promise<unknown> | void
}

type EngineEntry = Readonly<Record<string, unknown>> & { readonly id: string; readonly close?: never }

export interface GatewayOptions extends NodeGatewayOptions {
  /** Default: node. */
  readonly runtime?: Runtime
  /** Engines of the pool: those of the kit and addresses get the ids e0, e1 …; others are as in a configuration. */
  readonly engines?: readonly (RunningEngine | string | EngineEntry)[]
  /** Further keys of the pool. */
  readonly pool?: Readonly<Record<string, unknown>>
  /** Further keys of the configuration; `clusters` replaces the pool. */
  readonly config?: Readonly<Record<string, unknown>>
}

interface Fleet {
  readonly pools: readonly {
    readonly bookings: number
    readonly engines: readonly Readonly<Record<string, unknown>>[]
  }[]
}

type LeavingRequest = Omit<LeavingPost, 'url' | 'by'> & { readonly path: string }

export class TestGateway {
  readonly url: string
  /** Entries of the log. Empty for a Worker. */
  readonly lines: LogLine[]
  readonly #gateway: NodeGateway | BuiltWorker

  constructor(gateway: NodeGateway | BuiltWorker) {
    this.url = gateway.url
    this.lines = 'lines' in gateway ? gateway.lines : []
    this.#gateway = gateway
  }

  /** What only Node offers, such as a reload. */
  get node(): NodeGateway {
    if (!('adopt' in this.#gateway)) throw new Error('This gateway is a Worker')
    return this.#gateway
  }

  /** POST of a JSON body; a text is sent as it is. */
  post(path: string, body: unknown, init: RequestInit = {}): Promise<Response> {
    const headers = { 'content-type': 'application/json', ...(init.headers as Record<string, string> | undefined) }
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    return fetch(this.url + path, { method: 'POST', body: text, ...init, headers })
  }

  /** A chat with one message. */
  chat(changes: object = {}, init: RequestInit = {}): Promise<Response> {
    return this.post(CHAT.path, { ...CHAT.body, ...changes }, init)
  }

  /** A request whose client leaves when `signal` is aborted. Resolves when it has left. */
  leave({ path, ...post }: LeavingRequest, signal: AbortSignal): Promise<void> {
    const by = leavesBy('adopt' in this.#gateway ? 'node' : 'worker')
    return postAndLeave({ ...post, by, url: this.url + path }, signal)
  }

  /** GET with the key of the administrator. */
  get(path: string): Promise<Response> {
    return fetch(this.url + path, { headers: { authorization: `Bearer ${ADMIN_KEY}` } })
  }

  async fleet(): Promise<Fleet> {
    return (await (await this.get('/v1/firstlight/fleet')).json()) as Fleet
  }

  /** Engines of all pools, by id, as the fleet view shows them. */
  async engines<View = Readonly<Record<string, unknown>>>(): Promise<Readonly<Record<string, View>>> {
    const { pools } = await this.fleet()
    return Object.fromEntries(pools.flatMap(({ engines }) => engines).map((engine) => [engine['id'], engine as View]))
  }

  async bookings(): Promise<number> {
    return (await this.fleet()).pools.reduce((sum, pool) => sum + pool.bookings, 0)
  }

  /** Resolves when no request is booked: a release follows the last byte. */
  async idle(): Promise<void> {
    await until(async () => (await this.bookings()) === 0)
  }

  /** Entries of the log with this event. */
  logged(event: string): readonly LogLine[] {
    return this.lines.filter((line) => line['event'] === event)
  }

  async close(): Promise<void> {
    await this.#gateway.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}

export async function openGateway(options: GatewayOptions = {}): Promise<TestGateway> {
  const document = gatewayDocument(options)
  return new TestGateway(
    options.runtime === 'worker' ? await startBuiltWorker(document) : await startNodeGateway(document, options),
  )
}

/** The configuration that `openGateway` starts. */
export function gatewayDocument({ runtime = 'node', engines = [], pool = {}, config = {} }: GatewayOptions): object {
  return {
    version: Date.now(),
    open: true,
    admin: { secret: ADMIN_KEY },
    log: { level: runtime === 'node' ? 'info' : 'silent' },
    clusters: [{ id: 'c', pools: [{ model: MODEL, engines: engines.map(engineOf), ...pool }] }],
    ...config,
  }
}

function engineOf(engine: NonNullable<GatewayOptions['engines']>[number], at: number): object {
  if (typeof engine === 'string') return { id: `e${at}`, url: engine }
  return typeof engine.close === 'function' ? { id: `e${at}`, url: engine.url } : engine
}
