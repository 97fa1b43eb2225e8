/** A gateway in front of engines, on Node or as the built Worker in workerd, with one pool unless a test says more. */
import { until } from '../wait.ts'
import { startBuiltWorker } from './built-worker.ts'
import { nodeConfig } from './node-gateway.ts'
import { openLog } from '../../src/platform/node/log.ts'
import { startGateway } from '../../src/platform/node/start-gateway.ts'

export type Runtime = 'node' | 'worker'

/** For `describe.each`. */
export const runtimes = [
  ['Node', 'node'],
  ['the built Worker', 'worker'],
] as const

export const MODEL = 'm'
export const ADMIN_KEY = 'admin-key-of-the-test-kit'

/** An engine of the kit. */
interface RunningEngine {
  readonly url: string
  close(): Promise<unknown> | void
}

type EngineEntry = Readonly<Record<string, unknown>> & { readonly id: string; readonly close?: never }

export interface GatewayOptions {
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

/** Entries of the log. */
export type LogLine = Readonly<Record<string, unknown>>

export class TestGateway {
  readonly url: string
  /** Empty for a Worker. */
  readonly lines: readonly LogLine[]
  readonly #stop: () => Promise<unknown>

  constructor(url: string, lines: readonly LogLine[], stop: () => Promise<unknown>) {
    this.url = url
    this.lines = lines
    this.#stop = stop
  }

  /** POST of a JSON body; a text is sent as it is. */
  post(path: string, body: unknown, init: RequestInit = {}): Promise<Response> {
    const headers = { 'content-type': 'application/json', ...(init.headers as Record<string, string> | undefined) }
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    return fetch(this.url + path, { method: 'POST', body: text, ...init, headers })
  }

  /** A chat with one message. */
  chat(changes: object = {}, init: RequestInit = {}): Promise<Response> {
    return this.post(
      '/v1/chat/completions',
      { model: MODEL, messages: [{ role: 'user', content: 'hi' }], ...changes },
      init,
    )
  }

  /** GET with the key of the administrator. */
  get(path: string): Promise<Response> {
    return fetch(this.url + path, { headers: { authorization: `Bearer ${ADMIN_KEY}` } })
  }

  async fleet(): Promise<Fleet> {
    return (await (await this.get('/v1/firstlight/fleet')).json()) as Fleet
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
    await this.#stop()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}

export async function openGateway(options: GatewayOptions = {}): Promise<TestGateway> {
  const document = gatewayDocument(options)
  if (options.runtime === 'worker') {
    const worker = await startBuiltWorker({ FIRSTLIGHT_CONFIG: JSON.stringify(document) })
    return new TestGateway(worker.url, [], () => worker.close())
  }
  const lines: LogLine[] = []
  const config = nodeConfig(document)
  const log = openLog(config.log.level, { write: (line) => void lines.push(JSON.parse(line) as LogLine) })
  const gateway = await startGateway(config, log)
  return new TestGateway(gateway.url, lines, () => gateway.stop(AbortSignal.timeout(1_000)))
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
