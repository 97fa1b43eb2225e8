import { AutoRouter, error, type IRequest } from 'itty-router'
import type { ClusterDigest, Decision } from '../src/core/cluster/contract.ts'

export interface Debugged {
  digest(): Promise<ClusterDigest>
  explain(id: string): Promise<Decision | null>
}

/** What an operator may look at with `stub.fetch`; nothing of it is reachable from outside unless an entry routes there. */
export function debugRouter(object: Debugged) {
  return AutoRouter({ missing: () => error(404, 'GET /digest or GET /decisions/:id') })
    .get('/digest', () => object.digest())
    .get('/decisions/:id', async ({ params }: IRequest) => {
      const id = decodeURIComponent(params['id'] ?? '')
      return (await object.explain(id)) ?? error(404, `no decision "${id}" is kept here`)
    })
}
