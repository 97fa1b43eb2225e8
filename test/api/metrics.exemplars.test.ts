/** Exemplars of `/metrics`, on both runtimes. */
import { afterEach, describe, expect, it } from 'vitest'
import { FakeEngine } from '../kit/fake-engine.ts'
import { ADMIN_KEY, openGateway, runtimes, type TestGateway } from '../kit/gateway.ts'
import { DONE, sseAnswer, token } from '../kit/sse.ts'
import { until } from '../wait.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const UNSAMPLED = TRACE.replaceAll('0', '1')
const OPEN_METRICS = 'application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2'

describe.each(runtimes)('/metrics on %s', (_, runtime) => {
  const open: AsyncDisposable[] = []
  afterEach(async () => {
    for (const one of open.splice(0).toReversed()) await one[Symbol.asyncDispose]()
  })

  async function openTraced(traces: (collector: FakeEngine) => object): Promise<TestGateway> {
    const engine = await FakeEngine.open({ 'POST *': sseAnswer([token('hi'), DONE]) })
    const collector = await FakeEngine.open({ '*': { body: {} } })
    const gateway = await openGateway({
      runtime,
      engines: [engine],
      pool: { observe_share: 1 },
      config: { traces: traces(collector), ttft: { enabled: true } },
    })
    open.push(engine, collector, gateway)
    for (const [trace, flags] of [
      [TRACE, '01'],
      [UNSAMPLED, '00'],
    ]) {
      const headers = { traceparent: `00-${trace}-b7ad6b7169203331-${flags}` }
      const answer = await gateway.chat({ stream: true }, { headers })
      expect(answer.status).toBe(200)
      await answer.text()
    }
    return gateway
  }

  const scrape = async (gateway: TestGateway, accept: string) => {
    const answer = await fetch(`${gateway.url}/metrics`, { headers: { accept, authorization: `Bearer ${ADMIN_KEY}` } })
    return { type: answer.headers.get('content-type'), text: await answer.text() }
  }

  /** Waits for the duration of both requests. */
  const whole = async (gateway: TestGateway, accept: string) => {
    let found = await scrape(gateway, accept)
    await until(async () => {
      found = await scrape(gateway, accept)
      return /request_duration_seconds_count\{.*\} 2$/m.test(found.text)
    })
    return found
  }

  it('/metrics shows the traces of sampled requests to scrapers that ask for OpenMetrics', async () => {
    const gateway = await openTraced(({ url }) => ({ endpoint: url, sample: 0 }))
    const { type, text } = await whole(gateway, OPEN_METRICS)
    expect(type).toBe('application/openmetrics-text; version=1.0.0; charset=utf-8')
    expect(text).toMatch(/\n# EOF\n$/)
    const marked = text.split('\n').filter((line) => line.includes(' # {'))
    expect(marked.map((line) => /^gen_ai_server_(\w+)_seconds_bucket/.exec(line)?.[1])).toEqual([
      'time_to_first_token',
      'request_duration',
    ])
    for (const line of marked)
      expect(line).toMatch(new RegExp(`# \\{trace_id="${TRACE}",span_id="[0-9a-f]{16}"\\} \\S+ \\S+$`))
    for (const accept of ['text/plain', '*/*', 'application/openmetrics-text;q=0.1,text/plain']) {
      const plain = await scrape(gateway, accept)
      expect(plain.type).toBe('text/plain; version=0.0.4; charset=utf-8')
      expect(plain.text).not.toContain(TRACE)
      expect(plain.text).not.toContain('# EOF')
    }
  })

  it('/metrics has no exemplars without traces, although the client samples', async () => {
    const gateway = await openTraced(() => ({}))
    const { text } = await whole(gateway, OPEN_METRICS)
    expect(text).toMatch(/\n# EOF\n$/)
    expect(text).not.toContain(' # {')
  })
})
