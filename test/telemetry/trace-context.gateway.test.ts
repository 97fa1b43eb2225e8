/** Trace of a request and its propagation, on both runtimes. */
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startBuiltWorker } from '../kit/built-worker.ts'
import { startNodeGateway } from '../kit/node-gateway.ts'
import { until } from '../wait.ts'

interface Open {
  readonly url: string
  close(): Promise<void>
}

interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly kind: number
}

const onWorkers = (document: Record<string, unknown>): Promise<Open> =>
  startBuiltWorker({ FIRSTLIGHT_CONFIG: JSON.stringify(document) })

const portOf = (server: Server): number => (server.address() as AddressInfo).port
const TRACE = '0af7651916cd43dd8448eb211c80319c'
const PARENT = 'b7ad6b7169203331'

describe.each([
  ['Node', startNodeGateway],
  ['the built Worker', onWorkers],
] as const)('traces of a gateway on %s that samples every request', (_, start) => {
  const spans: Span[] = []
  const seen: IncomingHttpHeaders[] = []
  let servers: Server[]
  let gateway: Open

  beforeAll(async () => {
    const engine = createServer((request, response) => {
      if (request.method === 'POST') seen.push(request.headers)
      request
        .resume()
        .on('end', () =>
          response
            .writeHead(200, { 'content-type': 'application/json' })
            .end('{"id":"x","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}'),
        )
    })
    const collector = createServer((request, response) => {
      let body = ''
      request.on('data', (bytes: Buffer) => (body += String(bytes)))
      request.on('end', () => {
        const { resourceSpans } = JSON.parse(body) as { resourceSpans: { scopeSpans: { spans: Span[] }[] }[] }
        spans.push(...resourceSpans[0]!.scopeSpans[0]!.spans)
        response.end('{}')
      })
    })
    servers = [engine, collector]
    for (const server of servers) await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const document = {
      version: Date.now(),
      open: true,
      log: { level: 'silent' },
      traces: { endpoint: `http://127.0.0.1:${portOf(collector)}`, sample: 1 },
      clusters: [
        { id: 'c', pools: [{ model: 'm', engines: [{ id: 'e', url: `http://127.0.0.1:${portOf(engine)}` }] }] },
      ],
    }
    gateway = await start(document)
  })

  afterAll(async () => {
    await gateway.close()
    for (const server of servers) server.close()
  })

  const ask = async (headers: Record<string, string>): Promise<void> => {
    const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: '{"model":"m","messages":[{"role":"user","content":"hi"}]}',
    })
    expect(answer.status).toBe(200)
    await answer.text()
  }

  it('follows the client’s sampling decision, and decides if there is none', async () => {
    await ask({ traceparent: `00-${TRACE}-${PARENT}-01`, tracestate: 'a=b' })
    await ask({ traceparent: `00-${TRACE.replaceAll('0', '1')}-${PARENT}-00`, tracestate: 'c=d' })
    await ask({ tracestate: 'stray=1' })
    // Batches are sent after the responses; this one is the last.
    await until(() => spans.filter(({ kind }) => kind === 2).length === 2)

    const told = seen.map(({ traceparent }) =>
      /^00-([0-9a-f]{32})-([0-9a-f]{16})-(0[01])$/.exec(String(traceparent))!.slice(1),
    )
    expect(told.map(([trace, , flags]) => [trace, flags])).toEqual([
      [TRACE, '01'],
      [TRACE.replaceAll('0', '1'), '00'],
      [expect.stringMatching(/[1-9a-f]/), '01'],
    ])
    expect(seen.map(({ tracestate }) => tracestate)).toEqual(['a=b', 'c=d', undefined])
    // The engine's parent is the span of the call to it. A request that is not sampled exports nothing.
    expect(new Set(spans.map(({ traceId }) => traceId))).toEqual(new Set([told[0]![0], told[2]![0]]))
    for (const at of [0, 2]) {
      const own = spans.filter(({ traceId }) => traceId === told[at]![0])
      const [request] = own.filter(({ kind }) => kind === 2)
      expect(request?.parentSpanId).toBe(at === 0 ? PARENT : undefined)
      expect(own.find(({ kind }) => kind === 3)).toMatchObject({ spanId: told[at]![1], parentSpanId: request?.spanId })
    }
  })
})
