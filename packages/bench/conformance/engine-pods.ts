/** Engines of pods in one process: each pod has an address of loopback's network, and the same ports. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

const ANSWER_MS = 40

export interface EnginePod {
  readonly ip: string
  readyAt: number
  firstRequestAt: number | null
  deletedAt: number | null
  lastRequestAt: number
  /** Requests that are being answered. */
  running: number
}

export class EnginePods {
  readonly pods = new Map<string, EnginePod>()
  readonly #byIp = new Map<string, EnginePod>()
  readonly #servers: Server[] = []
  requests = 0
  /** Body of the newest complete request. */
  lastBody = ''

  /** Requests that are being answered. */
  get running(): number {
    return [...this.pods.values()].reduce((sum, { running }) => sum + running, 0)
  }

  /** Opens one more port of all pods. */
  async open(): Promise<number> {
    const server = createServer((request, response) => this.#serve(request, response))
    this.#servers.push(server)
    await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve))
    return (server.address() as AddressInfo).port
  }

  add(name: string, ip: string): EnginePod {
    const pod = { ip, readyAt: performance.now(), firstRequestAt: null, deletedAt: null, lastRequestAt: 0, running: 0 }
    this.pods.set(name, pod)
    this.#byIp.set(ip, pod)
    return pod
  }

  /** The pod's process ends: its address refuses requests. */
  end(name: string): void {
    this.#byIp.delete(this.pods.get(name)!.ip)
  }

  close(): void {
    for (const server of this.#servers) {
      server.closeAllConnections()
      server.close()
    }
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const pod = this.#byIp.get(request.socket.localAddress ?? '')
    if (pod === undefined) return void request.socket.destroy()
    const json = (body: object) =>
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    if (request.method === 'POST') {
      const now = performance.now()
      pod.firstRequestAt ??= now
      pod.lastRequestAt = now
      this.requests++
      pod.running++
      void text(request).then(
        (body) => (this.lastBody = body),
        () => undefined,
      )
      return void setTimeout(() => {
        pod.running--
        json({ choices: [{ text: 'a' }], usage: { prompt_tokens: 3 } })
      }, ANSWER_MS)
    }
    if (request.url === '/v1/models') return void json({ object: 'list', data: [{ id: 'm', object: 'model' }] })
    if (request.url === '/health') return void json({})
    response.writeHead(404).end()
  }
}
