import type { Params, Result, Router } from 'hono/router'
import { TrieRouter } from 'hono/router/trie-router'

/**
 * Router that finds the handlers of a path without parameters once. Hono's default router compiles all routes to one
 * expression, which takes 5 ms of a cold start; its trie is searched for every request. Handlers behind one that always
 * answers are left out: Hono calls a single handler without its chain of promises.
 */
export class StaticRouter<Handler> implements Router<Handler> {
  readonly name = 'StaticRouter'
  readonly #trie = new TrieRouter<Handler>()
  /** Method and path of routes without parameters. Bounds `#found`, because clients choose methods and paths. */
  readonly #static = new Set<string>()
  readonly #found = new Map<string, Result<Handler>>()
  readonly #answers: (handler: Handler) => boolean

  /** @param answers whether the handler answers every request, and never calls `next` */
  constructor(answers: (handler: Handler) => boolean) {
    this.#answers = answers
  }

  add(method: string, path: string, handler: Handler): void {
    this.#trie.add(method, path, handler)
    this.#found.clear()
    if (!/[:*]/.test(path)) this.#static.add(method + path)
  }

  match(method: string, path: string): Result<Handler> {
    const key = method + path
    const known = this.#found.get(key)
    if (known !== undefined) return known
    const found = this.#upToAnswer(this.#trie.match(method, path))
    if (this.#static.has(key)) this.#found.set(key, found)
    return found
  }

  #upToAnswer(result: Result<Handler>): Result<Handler> {
    // A trie has no stash of parameters.
    const [handlers] = result as [[Handler, Params][]]
    const last = handlers.findIndex(([handler]) => this.#answers(handler))
    return last < 0 ? result : [handlers.slice(0, last + 1)]
  }
}
