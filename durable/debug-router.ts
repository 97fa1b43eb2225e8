import { AutoRouter, error, type IRequest } from 'itty-router'
import type { Decision } from '../src/core/contract/decision.ts'
import type { PoolDigest } from '../src/core/contract/pool-digest.ts'

interface DebugSource {
  digest(): Promise<PoolDigest>
  explain(id: string): Promise<Decision | null>
}

/** Debug routes for `stub.fetch`; no entry routes clients here. */
export function debugRouter(object: DebugSource) {
  return AutoRouter({ missing: () => error(404, 'GET /digest or GET /decisions/:id') })
    .get('/digest', () => object.digest())
    .get('/decisions/:id', async ({ params }: IRequest) => {
      const id = decodeURIComponent(params['id'] ?? '')
      return (await object.explain(id)) ?? error(404, `decision "${id}" not found`)
    })
}
