/** The least Worker with a router: it passes every request on to an engine. Baseline of cold starts. */
import { DurableObject } from 'cloudflare:workers'
import { Hono } from 'hono'

const app = new Hono<{ Bindings: { readonly ENGINES: string } }>()

app.all('*', ({ env, req }) => {
  const { pathname, search } = new URL(req.url)
  return fetch(env.ENGINES.split(' ')[0]! + pathname + search, req.raw)
})

export default app

// wrangler.toml binds these classes.
export class ClusterObject extends DurableObject {}
export class TtftObject extends DurableObject {}
export class LimitObject extends DurableObject {}
export class EdgeObject extends DurableObject {}
