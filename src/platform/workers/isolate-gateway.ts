/** The gateway of one isolate. Rebuilt when the configuration changes. */
import { problemResponse } from '../../api/error-response.ts'
import { openaiErrors } from '../../protocols/error-shape.ts'
import { Failure } from '../../failure.ts'
import type { Gateway, RouteGroup } from '../../gateway.ts'
import type { RequestScope } from '../../ports/request-scope.ts'
import type { ConfigSource } from './config-source.ts'
import { EdgeClient, SYNC_MS } from './edge-client.ts'
import { GatewayBuilder, type GatewayEnv } from './gateway-builder.ts'
import { RequestTimers } from './request-timers.ts'
import { WorkersRequest } from './workers-request.ts'

/** Responses from this status on may be refusals, which other isolates' views count. */
const REJECTED_STATUS = 400

interface Call {
  readonly env: GatewayEnv
  readonly ctx: ExecutionContext
  readonly fetchOf: (gateway: Gateway) => Gateway['fetch']
}

interface IsolateOptions {
  /** Interval, ms, at which the isolate shares its state. Absent: a second. */
  readonly syncMs?: number
}

export class IsolateGateway {
  readonly #builder: GatewayBuilder<{ readonly views: EdgeClient; readonly client: EdgeClient }>

  constructor(source: ConfigSource, { syncMs = SYNC_MS }: IsolateOptions = {}) {
    this.#builder = new GatewayBuilder(source, (parts, { version }) => {
      const client = new EdgeClient({ ...parts, newId: () => crypto.randomUUID(), configVersion: version, syncMs })
      return { views: client, client }
    })
  }

  fetch(request: Request, env: GatewayEnv, ctx: ExecutionContext): Promise<Response> {
    return this.#answer(request, { env, ctx, fetchOf: (gateway) => gateway.fetch })
  }

  /** Answers with the routes of these groups only. The result outlives configurations. */
  only(groups: readonly RouteGroup[]): IsolateGateway['fetch'] {
    let known: { readonly gateway: Gateway; readonly fetch: Gateway['fetch'] } | null = null
    const fetchOf = (gateway: Gateway): Gateway['fetch'] => {
      if (known?.gateway !== gateway) known = { gateway, fetch: gateway.only(groups) }
      return known.fetch
    }
    return (request, env, ctx) => this.#answer(request, { env, ctx, fetchOf })
  }

  async #answer(request: Request, { env, ctx, fetchOf }: Call): Promise<Response> {
    try {
      const built = await this.#builder.current(env, (work) => ctx.waitUntil(work))
      if (built instanceof Failure) return errorResponse(built)
      const client = built.edge?.client
      const scope = scopeOf(request, ctx)
      client?.syncIfStale(scope)
      const answer = fetchOf(built.gateway)(new WorkersRequest(request), scope)
      // A client disconnect would otherwise stop the request's JavaScript before its booking is released.
      ctx.waitUntil(answer)
      const response = await answer
      if (response.status >= REJECTED_STATUS) client?.recordChange(scope)
      return response
    } catch (error) {
      // An exception that leaves the handler would close the client's connection without a response.
      this.#builder.log.error('request_failed', { error })
      return errorResponse(new Failure('internal', 'The gateway failed to handle this request. Its log has the cause.'))
    }
  }
}

function errorResponse(failure: Failure): Response {
  return problemResponse(failure, openaiErrors, crypto.randomUUID())
}

function scopeOf(request: Request, ctx: ExecutionContext): RequestScope {
  return {
    background: (work) => ctx.waitUntil(work),
    client: ctx,
    remoteAddress: request.headers.get('cf-connecting-ip'),
    timers: new RequestTimers(),
    bind,
  }
}

/** The runtime continues a promise in the request that waits for it, and refuses I/O for another request. */
function bind(callback: () => void): () => void {
  const { promise, resolve } = Promise.withResolvers<void>()
  void promise.then(callback)
  return resolve
}
