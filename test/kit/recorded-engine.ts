/** An engine that sends recorded responses: x-request-id names the exchange, or a test gives the text. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { bodyText, type Exchange } from '../../packages/bench/conformance/vector.ts'

export interface RecordedEngine {
  readonly url: string
  /** Received bodies by request id. */
  readonly got: ReadonlyMap<string, string>
  /** Sends this stream in the next responses, cut at these offsets. */
  stream(text: Buffer, cuts: readonly number[]): void
  close(): void
}

export async function recordedEngine(exchanges: readonly Exchange[]): Promise<RecordedEngine> {
  const byName = new Map(exchanges.map((exchange) => [exchange.name, exchange]))
  const got = new Map<string, string>()
  let script: { text: Buffer; cuts: readonly number[] } | null = null
  const server = createServer((request, response) => {
    void readAll(request).then(async (body) => {
      const name = String(request.headers['x-request-id'])
      if (request.method === 'GET' && ['/health', '/metrics'].includes(request.url!)) return response.end()
      got.set(name, body)
      if (script !== null) return play(response, script)
      const exchange = byName.get(name)
      if (exchange === undefined) return response.writeHead(500).end(`no exchange is named ${name}`)
      const { status, headers } = exchange.response
      const text = Buffer.from(bodyText(exchange.response))
      response.writeHead(status, {
        ...headers,
        ...(headers['content-type']?.startsWith('text/event-stream') ? {} : { 'content-length': text.length }),
      })
      return response.end(text)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    got,
    stream: (text, cuts) => (script = { text, cuts }),
    close: () => closeAll(server),
  }
}

async function play(
  response: ServerResponse,
  { text, cuts }: { text: Buffer; cuts: readonly number[] },
): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
  let from = 0
  for (const to of [...cuts, text.length]) {
    response.write(text.subarray(from, to))
    from = to
    await turn()
  }
  response.end()
}

async function readAll(request: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = []
  for await (const piece of request) pieces.push(piece as Buffer)
  return Buffer.concat(pieces).toString('utf8')
}

function closeAll(server: Server): void {
  server.close()
  server.closeAllConnections()
}
