import type { EdgePrompts } from '../prompt/edge-prompts.ts'
import type { Middleware } from './middleware.ts'

/** Tells an edge which prompts it need not leave to this gateway. */
export const offerPrompts =
  (edgePrompts: Pick<EdgePrompts, 'offer'>): Middleware =>
  (c, next) => {
    const exchange = c.get('exchange')
    const offer = edgePrompts.offer(c.get('caller'), exchange.routes[0]!)
    exchange.clientHeaders = [...exchange.clientHeaders, ...offer]
    return next()
  }
