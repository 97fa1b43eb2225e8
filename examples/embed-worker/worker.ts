/**
 * A Worker with its own authentication in front of the gateway. Clients sign in at Cloudflare Access, which sends a
 * header; health and metrics are for the operator's network, and all other routes of the gateway are absent.
 */
import firstlight, { ClusterObject, EdgeObject, LimitObject, TtftObject } from 'firstlight/worker'

export { ClusterObject, EdgeObject, LimitObject, TtftObject }

type Env = Parameters<typeof firstlight.fetch>[1]

const clients = firstlight.only('inference', 'models')
const operators = firstlight.only('health', 'metrics')

const OPERATOR_PATHS = new Set(['/health', '/ready', '/metrics'])

export default {
  fetch(request, env, ctx) {
    if (OPERATOR_PATHS.has(new URL(request.url).pathname)) return operators.fetch(request, env, ctx)
    if (!request.headers.has('cf-access-jwt-assertion'))
      return Response.json({ error: { message: 'Sign in first.' } }, { status: 401 })
    return clients.fetch(request, env, ctx)
  },
} satisfies ExportedHandler<Env>
