/** A reverse proxy or balancer in front of a gateway, with node:http at both sides. */
import http, { type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { type LocalServer, serveLocally } from './local-server.ts'

export interface Forwarding {
  /** Origin of the next server, such as http://127.0.0.1:8000. */
  readonly to: string
  /** Default: the target of the request. */
  readonly target?: string
  /** Default: the headers of the request. */
  readonly headers?: Readonly<IncomingHttpHeaders>
}

/** Forwards each request as `route` returns, and its response unchanged. */
export function openReverseProxy(route: (request: IncomingMessage) => Forwarding): Promise<LocalServer> {
  const server = http.createServer((request, response) => {
    const { to, target = request.url!, headers = request.headers } = route(request)
    const { hostname, port } = new URL(to)
    const onward = http.request({ hostname, port, method: request.method, path: target, headers }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(response)
    })
    onward.on('error', () => response.destroy())
    request.pipe(onward)
  })
  return serveLocally(server)
}
