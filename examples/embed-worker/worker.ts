/** A Worker with its own authentication in front of the gateway. Cloudflare Access sends this header. */
import firstlight, { ClusterObject, EdgeObject, LimitObject, TtftObject } from 'firstlight/worker'

export { ClusterObject, EdgeObject, LimitObject, TtftObject }

type Env = Parameters<typeof firstlight.fetch>[1]

export default {
  fetch(request, env, ctx) {
    if (!request.headers.has('cf-access-jwt-assertion'))
      return Response.json({ error: { message: 'Sign in first.' } }, { status: 401 })
    return firstlight.fetch(request, env, ctx)
  },
} satisfies ExportedHandler<Env>
