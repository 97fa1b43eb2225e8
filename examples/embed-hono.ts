/**
 * A gateway below `/llm` of a Hono application, behind the application's own authentication.
 * Run: `ENGINE_URL=http://127.0.0.1:8000 MODEL=llama-3-8b node embed-hono.ts` (Node 22.18 or newer), beside
 * `npm install firstlight hono @hono/node-server`.
 */
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { bearerAuth } from 'hono/bearer-auth'
import { openGateway } from 'firstlight/node'

const { ENGINE_URL, MODEL } = process.env
const gateway = await openGateway(`
open: true                       # the application authenticates the clients
clusters:
  - id: local
    pools:
      - model: ${MODEL}
        engines: [{ id: a, url: ${ENGINE_URL} }]
`)

const app = new Hono()
app.use('/llm/*', bearerAuth({ token: process.env['TEAM_TOKEN'] ?? 'change-me' }))
app.mount('/llm', gateway.fetch)

const port = Number(process.env['PORT'] ?? 8080)
const server = serve({ fetch: app.fetch, hostname: '127.0.0.1', port }, (address) => console.log(address))

process.once('SIGTERM', () => server.close(() => void gateway.close()))
