/** Trace of a request and its propagation, on both runtimes. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { FakeEngine } from '../kit/fake-engine.ts'
import { openGateway, runtimes, type TestGateway } from '../kit/gateway.ts'
import { completion } from '../kit/sse.ts'
import { until } from '../wait.ts'

interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly kind: number
}

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const PARENT = 'b7ad6b7169203331'

describe.each(runtimes)('traces of a gateway on %s that samples every request', (_, runtime) => {
  const spans: Span[] = []
  let engine: FakeEngine
  let collector: FakeEngine
  let gateway: TestGateway

  beforeAll(async () => {
    engine = await FakeEngine.open({ 'POST *': { body: completion() } })
    collector = await FakeEngine.open({
      '*': ({ json }) => {
        const { resourceSpans } = json as { resourceSpans: { scopeSpans: { spans: Span[] }[] }[] }
        spans.push(...resourceSpans[0]!.scopeSpans[0]!.spans)
        return { body: {} }
      },
    })
    gateway = await openGateway({
      runtime,
      engines: [engine],
      config: { traces: { endpoint: collector.url, sample: 1 } },
    })
  })

  afterAll(async () => {
    await gateway.close()
    await Promise.all([engine.close(), collector.close()])
  })

  const ask = async (headers: Record<string, string>): Promise<void> => {
    const answer = await gateway.chat({}, { headers })
    expect(answer.status).toBe(200)
    await answer.text()
  }

  it('a gateway that samples every request follows the client’s sampling decision, and decides if there is none', async () => {
    await ask({ traceparent: `00-${TRACE}-${PARENT}-01`, tracestate: 'a=b' })
    await ask({ traceparent: `00-${TRACE.replaceAll('0', '1')}-${PARENT}-00`, tracestate: 'c=d' })
    await ask({ tracestate: 'stray=1' })
    // Batches are sent after the responses; this one is the last.
    await until(() => spans.filter(({ kind }) => kind === 2).length === 2)

    const forwarded = engine.posts.map(({ headers }) =>
      /^00-([0-9a-f]{32})-([0-9a-f]{16})-(0[01])$/.exec(headers['traceparent']!)!.slice(1),
    )
    expect(forwarded.map(([trace, , flags]) => [trace, flags])).toEqual([
      [TRACE, '01'],
      [TRACE.replaceAll('0', '1'), '00'],
      [expect.stringMatching(/[1-9a-f]/), '01'],
    ])
    expect(engine.posts.map(({ headers }) => headers['tracestate'])).toEqual(['a=b', 'c=d', undefined])
    // The engine's parent is the span of the call to it. A request that is not sampled exports nothing.
    expect(new Set(spans.map(({ traceId }) => traceId))).toEqual(new Set([forwarded[0]![0], forwarded[2]![0]]))
    for (const at of [0, 2]) {
      const own = spans.filter(({ traceId }) => traceId === forwarded[at]![0])
      const [request] = own.filter(({ kind }) => kind === 2)
      expect(request?.parentSpanId).toBe(at === 0 ? PARENT : undefined)
      expect(own.find(({ kind }) => kind === 3)).toMatchObject({
        spanId: forwarded[at]![1],
        parentSpanId: request?.spanId,
      })
    }
  })
})
