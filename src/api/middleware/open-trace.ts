import type { Ports } from '../../ports.ts'
import type { Telemetry } from '../../telemetry/telemetry.ts'
import { beginTrace, withTrace } from '../../telemetry/trace-context.ts'
import type { Middleware } from './middleware.ts'

interface OpenTraceParts {
  readonly ports: Pick<Ports, 'newId' | 'random'>
  readonly telemetry: Pick<Telemetry, 'sample'>
}

/** Begins the trace of an exchange, or continues the client's. */
export const openTrace =
  ({ ports, telemetry }: OpenTraceParts): Middleware =>
  (c, next) => {
    const exchange = c.get('exchange')
    const { request, logFields } = c.get('incoming')
    const trace = beginTrace(request.headers.get('traceparent'), {
      sample: telemetry.sample,
      newId: () => ports.newId(),
      random: () => ports.random(),
    })
    exchange.trace = trace
    exchange.headers = withTrace(exchange.headers, trace)
    logFields.trace_id = trace.traceId
    return next()
  }
