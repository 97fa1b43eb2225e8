/** The Worker of the version before isolates shared state: its objects have no `sync`. For tests of version skew. */
import { DurableObject } from 'cloudflare:workers'
import worker, { ClusterObject, LimitObject, TtftObject } from '../../../src/worker.ts'

export { ClusterObject, LimitObject, TtftObject }

export class EdgeObject extends DurableObject {}

type Env = Parameters<typeof worker.fetch>[1]

function withoutEdge(env: Env): Env {
  const rest: { EDGE?: unknown } = { ...env }
  delete rest.EDGE
  return rest as Env
}

export default {
  fetch: (request, env, ctx) => worker.fetch(request, withoutEdge(env), ctx),
} satisfies ExportedHandler<Env>
