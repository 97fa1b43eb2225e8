/** Engines over our own HTTP/1.1 client: no fetch, no web streams on the way of a token. */
import { headersForTarget } from '../../../origin/headers.ts'
import { type Origin, OriginError, type OriginAnswer, type OriginRequest } from '../../../ports.ts'
import { EngineConnections } from './engine-connections.ts'
import { SocketAnswer } from './socket-answer.ts'
import { SocketSource } from './socket-source.ts'

export interface NodeOriginOptions {
  /** Epoch milliseconds. */
  readonly now?: () => number
  /** Idle connections are dropped after this long: before vLLM (uvicorn, 5 s) does it in the middle of our next request. */
  readonly idleSocketMs?: number
  /** Idle connections kept to one engine. */
  readonly maxIdleSockets?: number
}

export interface NodeOrigin extends Origin {
  /** Drops the connections nobody uses. */
  close(): void
}

/** `idleSocketMs` when nothing else is said. */
export const IDLE_MS = 4_000
const MAX_IDLE = 256
const SWEEP_MS = 1_000

interface Engine {
  readonly url: URL
  readonly basePath: string
  readonly connections: EngineConnections
}

export function socketOrigin(options: NodeOriginOptions = {}): NodeOrigin {
  const now = options.now ?? Date.now
  const engines = new Map<string, Engine>()
  const sweeper = setInterval(() => {
    for (const engine of engines.values()) engine.connections.sweep()
  }, SWEEP_MS)
  sweeper.unref()
  const engineOf = (base: string): Engine => {
    let engine = engines.get(base)
    if (engine === undefined) {
      const url = new URL(base)
      const limits = { idleMs: options.idleSocketMs ?? IDLE_MS, maxIdle: options.maxIdleSockets ?? MAX_IDLE, now }
      engine = { url, basePath: url.pathname.replace(/\/$/, ''), connections: new EngineConnections(url, limits) }
      engines.set(base, engine)
    }
    return engine
  }
  return {
    async send(request: OriginRequest): Promise<OriginAnswer> {
      request.signal.throwIfAborted()
      const call: Call = { request, engine: engineOf(request.target.url), firstByteBy: now() + request.firstByteMs, now }
      try {
        return await ask(call, false)
      } catch (error) {
        // The engine closed an idle connection as we took it: no work was begun, so a fresh one may try again.
        if (error instanceof IdleConnectionClosed) return ask(call, true)
        throw error
      }
    },
    close() {
      clearInterval(sweeper)
      for (const engine of engines.values()) engine.connections.close()
      engines.clear()
    },
  }
}

interface Call {
  readonly request: OriginRequest
  readonly engine: Engine
  readonly firstByteBy: number
  readonly now: () => number
}

class IdleConnectionClosed extends OriginError {}

/** Resolves with the head; timers and listeners of this stage are gone by then. */
function ask(call: Call, fresh: boolean): Promise<OriginAnswer> {
  return new Promise<OriginAnswer>((resolve, reject) => {
    const { request, engine, firstByteBy, now } = call
    const text = requestHead(request, engine)
    const connection = engine.connections.take(fresh)
    const { reused } = connection
    const done = (): void => {
      clearTimeout(timer)
      clearTimeout(connectTimer)
      request.signal.removeEventListener('abort', onAbort)
    }
    const giveUp = (error: unknown): void => {
      done()
      connection.drop()
      reject(error)
    }
    const onAbort = (): void => giveUp(request.signal.reason)
    const timer = setTimeout(
      () => giveUp(new OriginError('first_byte_timeout', `no head from ${engine.url.host} within ${request.firstByteMs} ms`)),
      Math.max(0, firstByteBy - now()),
    )
    const connectTimer = connection.connecting
      ? setTimeout(
          () => connection.connecting && giveUp(new OriginError('connect_timeout', `no connection to ${engine.url.host} within ${request.connectMs} ms`)),
          request.connectMs,
        )
      : undefined
    request.signal.addEventListener('abort', onAbort)
    const source: SocketSource = new SocketSource(connection, engine.url.host, {
      head: (head) => {
        done()
        resolve(new SocketAnswer(head, source, { firstByteBy, now, signal: request.signal }))
      },
      failed: (error, untouched) => {
        done()
        if (!connection.connected) reject(new OriginError('connect', `cannot connect to ${engine.url.host}: ${error.message}`, { cause: error }))
        else if (reused && untouched && error.failure === 'reset') reject(new IdleConnectionClosed('reset', error.message, { cause: error }))
        else reject(error)
      },
    })
    connection.use(source, text, request.body ?? [])
  })
}

// oxlint-disable-next-line no-control-regex -- control bytes are what it looks for
const UNSAFE = /[\0-\x08\x0a-\x1f\x7f]|[^\0-\xff]/

function requestHead(request: OriginRequest, engine: Engine): string {
  const headers = headersForTarget(request.headers, request.target)
  // A line break in a path or value would be a second request.
  if (UNSAFE.test(request.path) || request.path.includes(' ') || UNSAFE.test(headers.join(''))) {
    throw new OriginError('malformed', 'a header or the path holds a byte that HTTP/1.1 cannot carry')
  }
  let head = `${request.method} ${engine.basePath}${request.path} HTTP/1.1\r\nhost: ${engine.url.host}\r\n`
  for (let i = 0; i < headers.length; i += 2) head += `${headers[i]}: ${headers[i + 1]}\r\n`
  let length = 0
  for (const piece of request.body ?? []) length += piece.length
  if (request.body !== null || request.method === 'POST') head += `content-length: ${length}\r\n`
  return `${head}\r\n`
}
