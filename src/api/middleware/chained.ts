import type { Context, ErrorHandler } from 'hono'
import type { Middleware, RequestEnv } from './middleware.ts'

/** Sets the response. */
type Step = (c: Context<RequestEnv>) => Promise<void>

interface ChainParts {
  /** Middleware, the outermost first. */
  readonly chain: readonly [Middleware, ...Middleware[]]
  /** Answers for what throws behind the first middleware, which then continues. */
  readonly onError: ErrorHandler<RequestEnv>
  readonly handler: (c: Context<RequestEnv>) => Promise<Response>
}

/**
 * One Hono handler of middleware and their handler, for the routes of most requests. Hono runs each middleware in an
 * asynchronous function of its own with its own error handling, which allocates 4 KB per request. Here a middleware
 * that returns the promise of `next` costs a call.
 */
export function chained({ chain: [first, ...others], onError, handler }: ChainParts): typeof handler {
  const answer: Step = async (c) => {
    c.res = await handler(c)
  }
  const behindFirst = others.reduceRight<Step>(
    (next, middleware) => (c) => middleware(c, () => next(c)) as Promise<void>,
    answer,
  )
  const guarded: Step = async (c) => {
    try {
      await behindFirst(c)
    } catch (error) {
      if (!(error instanceof Error)) throw error
      c.res = await onError(error, c)
    }
  }
  const chain: typeof handler = async (c) => {
    await first(c, () => guarded(c))
    return c.res
  }
  chains.add(chain)
  return chain
}

const chains = new WeakSet<object>()

/** Whether a handler was made by `chained`. It answers every request. */
export const isChained = (handler: object): boolean => chains.has(handler)
