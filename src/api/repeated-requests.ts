import type { KeyUsage } from '../core/limits/key-usage.ts'
import { RefusedRequests, requestName } from '../core/overload/refused-requests.ts'
import { Failure } from '../failure.ts'
import type { Ports } from '../ports.ts'
import type { InferenceRequest } from './inference-request.ts'
import { sessionIn } from './body/request-session.ts'
import { OPTIONS_HEADER } from './body/requested-options.ts'

/** Longer bodies are decided anew: the comparison would delay other requests. */
const MAX_BODY_BYTES = 1024 * 1024

/** What the check reads from the gateway. */
interface RepeatCheckContext {
  readonly ports: Pick<Ports, 'now'>
  readonly usage: Pick<KeyUsage, 'add'>
}

/** Clients that repeat a request at once, although its refusal had a Retry-After. */
export class RepeatedRequests {
  readonly #refused = new RefusedRequests()

  /**
   * Rejects a request that was refused a moment ago, before its prompt is measured. Returns the name of the request for
   * `failed`; null: it was not needed.
   */
  check({ ports, usage }: RepeatCheckContext, inference: InferenceRequest): string | null {
    const now = ports.now()
    if (this.#refused.isQuiet(now) || isLong(inference)) return null
    const name = nameOf(inference)
    const retryAfterMs = this.#refused.retryAfterMs(name, now)
    if (retryAfterMs === null) return name
    usage.add(inference.caller.tenant, { engine: null, usage: null })
    throw new Failure('overloaded', 'This request was refused a moment ago. Wait for the time in retry-after.', {
      retryAfterMs,
      cause: 'repeated before its Retry-After',
    })
  }

  /** Records the refusal of a request for lack of room. */
  failed({ ports }: RepeatCheckContext, error: unknown, inference: InferenceRequest, name: string | null): void {
    if (!(error instanceof Failure) || error.reason !== 'overloaded' || isLong(inference)) return
    this.#refused.refused(name ?? nameOf(inference), error.retryAfterMs ?? 0, ports.now())
  }
}

const isLong = ({ body }: InferenceRequest): boolean => body.bytes.length > MAX_BODY_BYTES

/** Everything of a request that its admission depends on. */
function nameOf(inference: InferenceRequest): string {
  const { incoming, endpoint, caller, body, routes } = inference
  return requestName(
    [
      caller.tenant,
      incoming.scope.remoteAddress ?? '',
      endpoint.path,
      incoming.request.headers.get(OPTIONS_HEADER) ?? '',
      sessionIn(inference, routes[0]!)?.id ?? '',
    ],
    body.bytes,
  )
}
