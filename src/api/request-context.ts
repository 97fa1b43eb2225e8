import type { HeaderSource } from '../origin/headers.ts'
import type { Ports } from '../ports.ts'
import type { AbortSignalLike } from '../ports/abort-signal.ts'
import type { RequestScope } from '../ports/request-scope.ts'
import type { BodyAllocation } from '../body-memory.ts'
import type { BodySource } from './body/body.ts'
import type { ErrorShape } from '../protocols/error-shape.ts'
import { type AccessLogFields, newAccessLogFields } from './access-log-fields.ts'
import { splitUrl } from '../url.ts'

/** A request as handlers read it. A web `Request` is one; a platform may pass a lighter object. */
export type HttpRequest = BodySource & {
  readonly method: string
  /** Absolute URL, or path and query. */
  readonly url: string
  readonly headers: HeaderSource
  /** Aborted when the client disconnects, as far as the runtime detects it. */
  readonly signal: AbortSignalLike
}

const REQUEST_ID_PATTERN = /^[\w.:=-]{1,128}$/

/** One inbound request: what every response needs, read before anything can fail. */
export class RequestContext {
  readonly request: HttpRequest
  readonly scope: RequestScope
  /** The gateway's own id. */
  readonly id: string
  /** The client's label, or the gateway's id. */
  readonly requestId: string
  /** `ports.now()` at arrival. */
  readonly receivedAt: number
  readonly path: string
  /** `?…` or ''. */
  readonly query: string
  readonly shape: ErrorShape
  /** CORS headers for every response, flat. null: none (`cors.ts`). */
  cors: readonly string[] | null = null
  /** Fields of the log line of the request; handlers add to them. */
  readonly logFields: AccessLogFields
  /**
   * Memory of the body in `limits.buffered_bytes`. `InferenceSource` releases it when an engine's answer begins. If
   * none does, `InferenceObserver` releases it with the exchange, or `requestLog` and the error boundary with the
   * response. Only the first release has an effect.
   */
  memory: BodyAllocation | null = null
  /** An exchange is open: `requestEnd` logs an engine's answer after its last byte. `requestLog` logs all others. */
  logOnStreamEnd = false
  readonly #ports: Pick<Ports, 'now'>

  constructor(request: HttpRequest, scope: RequestScope, ports: Pick<Ports, 'now' | 'newId'>, shape: ErrorShape) {
    this.request = request
    this.scope = scope
    this.#ports = ports
    this.receivedAt = ports.now()
    this.id = ports.newId()
    const label = request.headers.get('x-request-id')
    const isLabel = label !== null && REQUEST_ID_PATTERN.test(label)
    this.requestId = isLabel ? label : this.id
    const { path, query } = splitUrl(request.url)
    this.path = path
    this.query = query
    this.shape = shape
    this.logFields = newAccessLogFields(isLabel ? label : undefined, this.id, request.method)
  }

  /** Time since arrival, ms. */
  elapsedMs(): number {
    return Math.max(0, this.#ports.now() - this.receivedAt)
  }
}
