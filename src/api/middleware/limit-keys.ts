import { Failure } from '../../failure.ts'
import { rejectExchange } from '../../origin/retry/rejected-exchange.ts'
import type { Ports } from '../../ports.ts'
import { timersOf } from '../../timers.ts'
import type { InferenceExchange } from '../inference-exchange.ts'
import { hasLimits, type Permit, type RequestLimiter, type RequestTokens, reserve } from '../key-limits.ts'
import type { Middleware } from './middleware.ts'

interface LimitKeysParts {
  readonly ports: Pick<Ports, 'now' | 'log' | 'timers'>
  readonly limiter: RequestLimiter
}

/** Reserves the request in the limits of its key and of the key's team. Rejects with `rate_limited`. */
export const limitKeys =
  (parts: LimitKeysParts): Middleware =>
  async (c, next) => {
    const caller = c.get('caller')
    if (hasLimits(caller)) {
      const exchange = c.get('exchange')
      const permit = await permitOf(parts, exchange, caller)
      exchange.permit = permit
      if (permit !== null) exchange.clientHeaders = [...exchange.clientHeaders, ...permit.headers]
    }
    await next()
  }

/** null: the carrier of the limits is unreachable, so nothing is limited. */
async function permitOf(
  parts: LimitKeysParts,
  exchange: InferenceExchange,
  caller: Parameters<typeof reserve>[1],
): Promise<Permit | null> {
  const timers = timersOf(exchange.scope, parts.ports)
  try {
    return await reserve(parts, caller, { id: exchange.id, timers, ...tokensOf(exchange) })
  } catch (error) {
    if (error instanceof Failure) {
      rejectExchange(exchange, error, parts.ports.now())
      throw error
    }
    parts.ports.log.warn('key_limit_unavailable', { error })
    return null
  }
}

/** Tokens that the request may use. */
function tokensOf({ inference, protocol, routes, source }: InferenceExchange): RequestTokens {
  if (!inference.endpoint.computes) return NO_TOKENS
  const { promptTokens, sequences = 1 } = source.admission(routes[0]!)
  return { promptTokens, sequences, outputLimit: protocol.bounds.limit(source.json) }
}

const NO_TOKENS: RequestTokens = { promptTokens: 0, sequences: 1, outputLimit: 0 }
