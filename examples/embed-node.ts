/**
 * A gateway inside a Node program that has its own server and its own authentication.
 * Run: `ENGINE_URL=http://127.0.0.1:8000 MODEL=llama-3-8b node embed-node.ts` (Node 22.18 or newer), beside `npm install firstlight`.
 */
import { createServer } from 'node:http'
import { openGateway } from 'firstlight/node'

const { ENGINE_URL, MODEL } = process.env
const gateway = await openGateway(`
open: true                       # this program authenticates the clients
clusters:
  - id: local
    pools:
      - model: ${MODEL}
        engines: [{ id: a, url: ${ENGINE_URL} }]
`)

const server = createServer((request, response) => {
  if (request.headers['x-team'] === undefined) {
    response.writeHead(401, { 'content-type': 'application/json' }).end('{"error":{"message":"Send x-team."}}')
    return
  }
  gateway.handler(request, response)
})
server.listen(Number(process.env['PORT'] ?? 8080), '127.0.0.1', () => console.log(server.address()))

process.once('SIGTERM', () => server.close(() => void gateway.close()))
