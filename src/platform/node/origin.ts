/** Engines over node:http: one keep-alive pool per engine, bytes pulled by the client's pace. */
import http from 'node:http'
import https from 'node:https'
import type { TLSSocket } from 'node:tls'
import { PulledAnswer } from '../../origin/pulled-answer.ts'
import { headersForTarget, headersOfAnswer } from '../../origin/headers.ts'
import { OriginError, type Origin, type OriginAnswer, type OriginRequest } from '../../ports.ts'
import { originErrorOf } from './origin-errors.ts'
import { MessageSource } from './origin-source.ts'

export interface NodeOriginOptions {
  /** Epoch milliseconds. */
  readonly now?: () => number
  /** Idle sockets are dropped after this long: before vLLM (uvicorn, 5 s) does it in the middle of our next request. */
  readonly idleSocketMs?: number
  /** Idle sockets kept for one engine. */
  readonly maxIdleSockets?: number
}

export interface NodeOrigin extends Origin {
  /** Drops the sockets nobody uses. */
  close(): void
}

export function nodeOrigin(options: NodeOriginOptions = {}): NodeOrigin {
  const now = options.now ?? Date.now
  const agents = new Map<string, http.Agent>()
  const agentOf = (base: URL): http.Agent => {
    let agent = agents.get(base.origin)
    if (agent === undefined) {
      const settings = {
        keepAlive: true,
        noDelay: true,
        timeout: options.idleSocketMs ?? 4_000,
        maxFreeSockets: options.maxIdleSockets ?? 256,
        scheduling: 'lifo' as const,
      }
      agent = base.protocol === 'https:' ? new https.Agent(settings) : new http.Agent(settings)
      agents.set(base.origin, agent)
    }
    return agent
  }
  return {
    async send(request: OriginRequest): Promise<OriginAnswer> {
      request.signal.throwIfAborted()
      const base = new URL(request.target.url)
      const firstByteBy = now() + request.firstByteMs
      const call: Call = { request, base, firstByteBy, now }
      try {
        return await ask(call, agentOf(base))
      } catch (error) {
        // The engine closed an idle socket as we took it: no work was begun, so one fresh socket may try again.
        if (error instanceof IdleSocketClosed) return ask(call, false)
        throw error
      }
    },
    close() {
      for (const agent of agents.values()) agent.destroy()
      agents.clear()
    },
  }
}

interface Call {
  readonly request: OriginRequest
  readonly base: URL
  readonly firstByteBy: number
  readonly now: () => number
}

class IdleSocketClosed extends OriginError {}

function ask(call: Call, agent: http.Agent | false): Promise<OriginAnswer> {
  return new Promise<OriginAnswer>((resolve, reject) => new Ask(call, agent, { resolve, reject }).begin())
}

interface Verdict {
  resolve(answer: OriginAnswer): void
  reject(error: unknown): void
}

/** One request on one socket, up to the answer's head. */
class Ask {
  readonly #call: Call
  readonly #verdict: Verdict
  readonly #outgoing: http.ClientRequest
  readonly #onAbort: () => void
  readonly #headTimer: ReturnType<typeof setTimeout>
  #connectTimer: ReturnType<typeof setTimeout> | null = null
  #connected = false
  #bytesBefore = 0

  constructor(call: Call, agent: http.Agent | false, verdict: Verdict) {
    this.#call = call
    this.#verdict = verdict
    const { request, base } = call
    const client = base.protocol === 'https:' ? https : http
    this.#outgoing = client.request({
      agent,
      protocol: base.protocol,
      hostname: base.hostname.replace(/^\[|\]$/g, ''),
      port: base.port,
      method: request.method,
      path: base.pathname.replace(/\/$/, '') + request.path,
      headers: requestHeaders(request, base),
    })
    this.#onAbort = () => void this.#outgoing.destroy(reasonOf(request.signal))
    const leftMs = Math.max(0, call.firstByteBy - call.now())
    this.#headTimer = setTimeout(() => this.#outgoing.destroy(new OriginError('first_byte_timeout', `no head from ${base.host} within ${request.firstByteMs} ms`)), leftMs)
  }

  begin(): void {
    const { request } = this.#call
    request.signal.addEventListener('abort', this.#onAbort)
    this.#outgoing.on('socket', (socket) => this.#socket(socket as TLSSocket))
    this.#outgoing.on('response', (message) => this.#head(message))
    // Without a listener Node would destroy the socket for us; with it the reason is known.
    this.#outgoing.on('upgrade', (_message, socket) => {
      socket.destroy()
      this.#failed(new OriginError('malformed', 'the engine switched protocols unasked'))
    })
    this.#outgoing.on('error', (error) => this.#failed(error))
    for (const piece of request.body ?? []) this.#outgoing.write(piece)
    this.#outgoing.end()
  }

  #socket(socket: TLSSocket): void {
    this.#bytesBefore = socket.bytesRead
    if (!socket.connecting) {
      this.#connected = true
      return
    }
    const { request, base } = this.#call
    const timeout = new OriginError('connect_timeout', `no connection to ${base.host} within ${request.connectMs} ms`)
    this.#connectTimer = setTimeout(() => this.#outgoing.destroy(timeout), request.connectMs)
    socket.once(base.protocol === 'https:' ? 'secureConnect' : 'connect', () => {
      this.#connected = true
      if (this.#connectTimer !== null) clearTimeout(this.#connectTimer)
    })
  }

  #head(message: http.IncomingMessage): void {
    this.#release()
    const { request, base, firstByteBy, now } = this.#call
    const source = new MessageSource(this.#outgoing, message, base.host)
    const head = { status: message.statusCode ?? 0, headers: headersOfAnswer(message.rawHeaders) }
    this.#verdict.resolve(new PulledAnswer(head, source, { firstByteBy, now, signal: request.signal }))
  }

  /** Before the head. After it the source hears of errors. */
  #failed(cause: unknown): void {
    this.#release()
    const { request, base } = this.#call
    if (request.signal.aborted) return this.#verdict.reject(request.signal.reason)
    const error = originErrorOf(cause, this.#connected, base.host)
    const untouched = this.#outgoing.reusedSocket && (this.#outgoing.socket?.bytesRead ?? 0) === this.#bytesBefore
    if (untouched && error.failure === 'reset') this.#verdict.reject(new IdleSocketClosed('reset', error.message, { cause }))
    else this.#verdict.reject(error)
  }

  #release(): void {
    clearTimeout(this.#headTimer)
    if (this.#connectTimer !== null) clearTimeout(this.#connectTimer)
    this.#call.request.signal.removeEventListener('abort', this.#onAbort)
  }
}

function requestHeaders(request: OriginRequest, base: URL): string[] {
  const headers = headersForTarget(request.headers, request.target)
  headers.push('host', base.host)
  if (request.body !== null) {
    let length = 0
    for (const piece of request.body) length += piece.length
    headers.push('content-length', String(length))
  } else if (request.method === 'POST') headers.push('content-length', '0')
  return headers
}

/** `destroy` wants an Error; an abort's reason may be anything. */
function reasonOf(signal: AbortSignal): Error {
  const reason: unknown = signal.reason
  return reason instanceof Error ? reason : new Error('the client is gone', { cause: reason })
}
