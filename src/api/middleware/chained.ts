import type { Context, ErrorHandler } from 'hono'
import type { Middleware, RequestEnv } from './middleware.ts'

/** Sets the response. */
type Step = (c: Context<RequestEnv>) => Promise<void>

interface ChainParts {
  /** Middleware, the outermost first. */
  readonly chain: readonly [Middleware, ...Middleware[]]
  /** Answers for what throws behind the first middleware. Those before it continue, as in Hono. */
  readonly onError: ErrorHandler<RequestEnv>
  readonly handler: (c: Context<RequestEnv>) => Promise<Response>
}

/**
 * One Hono handler of middleware and their handler, for the routes of most requests. Hono runs each middleware in an
 * asynchronous function of its own, which allocates 4 KB per request. Here a middleware that returns the promise of
 * `next` costs a call.
 */
export function chained({ chain: [first, ...others], onError, handler }: ChainParts): typeof handler {
  const failed = async (c: Context<RequestEnv>, error: unknown): Promise<void> => {
    if (!(error instanceof Error)) throw error
    c.res = await onError(error, c)
  }
  const answer: Step = (c) =>
    handler(c).then(
      (response) => {
        c.res = response
      },
      (error: unknown) => failed(c, error),
    )
  const behindFirst = others.reduceRight<Step>(
    (next, middleware) => (c) => {
      let passed: Promise<void> | null = null
      try {
        const done = middleware(c, () => (passed = next(c))) as Promise<void>
        // What is passed on is guarded already.
        return done === passed ? done : done.catch((error: unknown) => failed(c, error))
      } catch (error) {
        return failed(c, error)
      }
    },
    answer,
  )
  const chain: typeof handler = (c) => (first(c, () => behindFirst(c)) as Promise<void>).then(() => c.res)
  chains.add(chain)
  return chain
}

const chains = new WeakSet<object>()

/** Whether a handler was made by `chained`. It answers every request. */
export const isChained = (handler: object): boolean => chains.has(handler)
