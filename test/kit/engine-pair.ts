/**
 * A gateway in front of two engines in turn: `a`, whose faults a test looks at, and `b`. Both are healthy, and have no
 * other GET route.
 */
import type { Route } from './fake-answer.ts'
import { FakeEngine } from './fake-engine.ts'
import { openGateway, type GatewayOptions, type TestGateway } from './gateway.ts'

/** What the gateway reports of an engine. */
export interface EngineView {
  readonly id: string
  readonly circuit: string
  readonly asleep: boolean
  readonly failures_total: number
  readonly context_tokens?: number
}

export interface EnginePairOptions extends Pick<GatewayOptions, 'runtime' | 'pool'> {
  /** Type of both engines. */
  readonly type: string
  /** Further keys of `a`, and of both. */
  readonly a?: object
  readonly both?: object
  /** Further engines of the pool. */
  readonly others?: readonly (Readonly<Record<string, unknown>> & { readonly id: string })[]
}

/** Opens an engine that is healthy and answers other GET requests with 404. */
export const openPlainEngine = (): Promise<FakeEngine> =>
  FakeEngine.open({ 'GET /health': { body: {} }, 'GET *': { status: 404, body: { detail: 'Not Found' } } })

export class EnginePair {
  readonly a: FakeEngine
  readonly b: FakeEngine
  readonly gateway: TestGateway

  private constructor(a: FakeEngine, b: FakeEngine, gateway: TestGateway) {
    this.a = a
    this.b = b
    this.gateway = gateway
  }

  static async open({ runtime, pool, type, a = {}, both = {}, others = [] }: EnginePairOptions): Promise<EnginePair> {
    const [one, other] = [await openPlainEngine(), await openPlainEngine()]
    const gateway = await openGateway({
      ...(runtime === undefined ? {} : { runtime }),
      engines: [{ id: 'a', url: one.url, type, ...both, ...a }, { id: 'b', url: other.url, type, ...both }, ...others],
      pool: { policy: 'round_robin', retry: { share: 1, min_per_s: 1000 }, stats_interval_ms: 60_000, ...pool },
    })
    return new EnginePair(one, other, gateway)
  }

  /** Sets the answers of both engines and clears their lists of requests. */
  answer(a: Route, b: Route): void {
    this.a.routes['POST *'] = a
    this.b.routes['POST *'] = b
    for (const { posts } of [this.a, this.b]) posts.length = 0
  }

  /** Sends requests until `a` has had one, and returns the last response. */
  async untilA<Answer>(send: () => Promise<Answer>): Promise<Answer> {
    for (let tries = 0; tries < 8; tries++) {
      const before = this.a.posts.length
      const answer = await send()
      if (this.a.posts.length > before) return answer
    }
    throw new Error('Engine a got no request.')
  }

  /** The gateway's view of `a`. */
  async view(): Promise<EngineView> {
    const { pools } = await this.gateway.fleet()
    return pools[0]!.engines.find(({ id }) => id === 'a') as unknown as EngineView
  }

  /** Counts the failures of `a` since now. */
  async failuresOfA(): Promise<() => Promise<number>> {
    const before = (await this.view()).failures_total
    return async () => (await this.view()).failures_total - before
  }

  async close(): Promise<void> {
    await this.gateway.close()
    await Promise.all([this.a.close(), this.b.close()])
  }
}
