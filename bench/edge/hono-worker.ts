/** The least Worker with a router: it passes every request on to an engine. Baseline of cold starts. */
import { Hono } from 'hono'

const app = new Hono<{ Bindings: { readonly ENGINES: string } }>()

app.all('*', ({ env, req }) => {
  const { pathname, search } = new URL(req.url)
  return fetch(env.ENGINES.split(' ')[0]! + pathname + search, req.raw)
})

export default app
