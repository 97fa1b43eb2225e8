/** The baseline: node:http in, node:http out, with `pipe` in between, engines in turn. `node http-pipe.ts URL…` */
import http from 'node:http'
import type { AddressInfo } from 'node:net'

const engines = process.argv.slice(2).map((url) => new URL(url))
const agent = new http.Agent({ keepAlive: true, maxFreeSockets: 512 })
let turn = 0

const server = http.createServer({ noDelay: true }, (incoming, outgoing) => {
  const engine = engines[turn++ % engines.length]!
  const headers = { ...incoming.headers, host: engine.host }
  const request = http.request(
    { agent, host: engine.hostname, port: engine.port, method: incoming.method!, path: incoming.url!, headers },
    (answer) => {
      outgoing.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(outgoing)
    },
  )
  request.on('error', () => outgoing.destroy())
  outgoing.on('close', () => request.destroy())
  incoming.pipe(request)
})
server.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ port: (server.address() as AddressInfo).port })))
