/**
 * Groups of a gateway's routes in a Hono application, each behind its own authentication: clients below `/llm`, operators
 * below `/ops`.
 * Run: `ENGINE_URL=http://127.0.0.1:8000 MODEL=llama-3-8b node embed-groups.ts` (Node 22.18 or newer), beside
 * `npm install firstlight hono @hono/node-server`.
 */
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { bearerAuth } from 'hono/bearer-auth'
import { openGateway } from 'firstlight/node'

const { ENGINE_URL, MODEL } = process.env
const adminKey = crypto.randomUUID()
const gateway = await openGateway(`
open: true                       # the application authenticates the clients
admin: { secret: ${adminKey} }
clusters:
  - id: local
    pools:
      - model: ${MODEL}
        engines: [{ id: a, url: ${ENGINE_URL} }]
`)
const clients = gateway.only('inference', 'models')
const operators = gateway.only('admin', 'metrics', 'health')

const app = new Hono()
app.use('/llm/*', bearerAuth({ token: process.env['TEAM_TOKEN'] ?? 'change-me' }))
app.mount('/llm', clients.fetch)
app.use('/ops/*', bearerAuth({ token: process.env['OPERATOR_TOKEN'] ?? 'change-me-too' }))
// The admin API has a key of its own, which the operators of this application need not know.
app.mount('/ops', (request) => {
  const headers = new Headers(request.headers)
  headers.set('authorization', `Bearer ${adminKey}`)
  return operators.fetch(new Request(request, { headers }))
})

const port = Number(process.env['PORT'] ?? 8080)
const server = serve({ fetch: app.fetch, hostname: '127.0.0.1', port }, (address) => console.log(address))

process.once('SIGTERM', () => server.close(() => void gateway.close()))
