import { spawnSync } from 'node:child_process'
import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startFleet, type RunningFleet } from '../../../packages/simulator/src/node/fleet-host.ts'
import { rawReports } from '../../../packages/simulator/src/node/raw-reports.ts'
import { reportUrl } from '../../../packages/simulator/src/ttft-reporter.ts'
import { parseExposition } from '../../telemetry/parse-exposition.ts'
import { SILENCE } from '../../kit/fake-answer.ts'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { startNodeGateway, type NodeGateway } from '../../kit/node-gateway.ts'
import { until } from '../../wait.ts'

async function gatewayBefore(
  fleet: Pick<RunningFleet, 'urls'>,
  changes: Record<string, unknown> = {},
): Promise<NodeGateway> {
  const engines = fleet.urls.map((url, at) => ({ id: `e${at}`, url }))
  return startNodeGateway({
    clusters: [{ id: 'c', pools: [{ model: 'sim', engines }] }],
    ...changes,
    log: { level: 'info', ...(changes['log'] as object | undefined) },
  })
}

const stop = (gateway: NodeGateway) => gateway.stop(AbortSignal.abort())

function ask(url: string, headers: Record<string, string> = {}): Promise<Response> {
  const body = JSON.stringify({
    model: 'sim',
    stream: true,
    max_tokens: 5,
    messages: [{ role: 'user', content: 'Where did the time go?' }],
  })
  return fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
  })
}

/** Sends the path unchanged: `fetch` would normalise it. */
async function rawGet(address: string, path: string): Promise<string> {
  const { hostname: host, port } = new URL(`http://${address}`)
  const socket = connect({ host, port: Number(port) })
  socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`)
  let text = ''
  for await (const bytes of socket) text += String(bytes)
  return text
}

interface Report {
  readonly combined: Record<string, number | null>
}

const complete = (url: string, id: string) =>
  until(async () => {
    const answer = await fetch(`${url}/ttft_report/${id}`)
    if (!answer.ok) return null
    const report = (await answer.json()) as Report
    return report.combined['ttft_ms'] === null ? null : report
  })

describe('a gateway before engines that report', () => {
  let fleet: RunningFleet
  let gateway: NodeGateway
  let sink: (report: Readonly<Record<string, string | number>>) => void = () => {}

  beforeAll(async () => {
    fleet = await startFleet({ engines: 1, report: (report) => sink(report) })
    gateway = await gatewayBefore(fleet, {
      ttft: { enabled: true, listen: '127.0.0.1:0', log: true, comment: true },
      log: { routing: true },
    })
    sink = rawReports(new URL(`http://${gateway.reports}/ttft_report`))
  })

  afterAll(async () => {
    await stop(gateway)
    await fleet.close()
  })

  it('TTFT reports have every stage of a text request and their sum, under the client’s id', async () => {
    await (await ask(gateway.url, { 'x-request-id': 'where-1' })).text()
    const { combined } = await complete(gateway.url, 'where-1')
    expect(combined['ttft_ms']).toBe(combined['prefill_queue_time_ms']! + combined['prefill_compute_time_ms']!)
    expect(combined['t_request_ingress_ns']).toBeGreaterThan(1.7e18)
    const about = (await (await fetch(`${gateway.url}/v1/firstlight/requests/where-1`)).json()) as {
      stages_ms: Record<string, number>
      ttft_report: Report
      record: Record<string, unknown>
    }
    expect(about.stages_ms['ttft']).toBeGreaterThan(0)
    expect(about.ttft_report.combined['ttft_ms']).toBe(combined['ttft_ms'])
    expect(about.record).toMatchObject({ engine: 'e0', cluster: 'c', result: 'complete', status: 200 })
    expect(
      gateway.lines.some(
        (line) => line['event'] === 'ttft_report' && line['news'] === 'complete' && line['request_id'] === 'where-1',
      ),
    ).toBe(true)
  })

  it('an ended request is one line of the log with its stages', async () => {
    const answer = await ask(gateway.url, { 'x-request-id': 'line-1' })
    await answer.text()
    const line = await until(
      async () => gateway.lines.find((one) => one['event'] === 'request' && one['request_id'] === 'line-1') ?? null,
    )
    expect(line).toMatchObject({
      status: 200,
      engine: 'e0',
      cluster: 'c',
      policy: 'predicted',
      result: 'complete',
      output_tokens: 5,
      stages_ms: { ttft: expect.any(Number) },
    })
    expect(gateway.lines.filter((one) => one['event'] === 'request' && one['request_id'] === 'line-1')).toHaveLength(1)
    const routing = gateway.lines
      .map((one) => String(one['event']))
      .find((event) => event.startsWith('Routing request line-1 '))
    expect(routing).toMatch(
      /^Routing request line-1 with session id None to http:\/\/127\.0\.0\.1:\d+ at [\d.]+, process time = [\d.]+$/,
    )
  })

  it('TTFT reports send late stages to the client in a last comment, and early ones in Server-Timing', async () => {
    const answer = await ask(gateway.url)
    expect(answer.headers.get('server-timing')).toMatch(/edge;dur=[\d.]+.*admit;dur=/)
    const text = await answer.text()
    expect(text).toMatch(/data: \[DONE\]\n\n: server-timing .*first_byte;dur=[\d.]+, ttft;dur=[\d.]+\n\n$/)
    expect((await fetch(`${gateway.url}/health`)).headers.get('server-timing')).toMatch(/^edge;dur=/)
    expect((await fetch(`${gateway.url}/metrics`)).headers.get('server-timing')).toMatch(/^edge;dur=/)
    expect((await fetch(`${gateway.url}/nowhere`)).headers.get('server-timing')).toMatch(/^edge;dur=/)
  })

  it('TTFT reports are accepted from a sender that disconnects without reading the response', async () => {
    const url = new URL(`${gateway.url}/ttft_report`)
    const { port } = url
    for (let at = 0; at < 20; at++)
      rawReports(url)({
        role: 'pd',
        request_id: `raw-${at}`,
        prefill_queue_time_ms: 1,
        prefill_compute_time_ms: 2,
        emb_cache_transfer_time_ms: 0,
      })
    for (let at = 0; at < 20; at++) expect((await complete(gateway.url, `raw-${at}`)).combined['ttft_ms']).toBe(3)
    // In pieces; the connection ends right after the last one.
    const body = JSON.stringify({
      role: 'pd',
      request_id: 'raw-cut',
      prefill_queue_time_ms: 4,
      prefill_compute_time_ms: 5,
      emb_cache_transfer_time_ms: 0,
    })
    const socket = connect({ host: '127.0.0.1', port: Number(port) })
    socket.write(`POST /ttft_report HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n`)
    setTimeout(() => socket.end(`\r\n${body}`, () => socket.destroy()), 30)
    expect((await complete(gateway.url, 'raw-cut')).combined['ttft_ms']).toBe(9)
  })

  it('TTFT reports are the only route on their own port', async () => {
    const base = `http://${gateway.reports}`
    expect((await fetch(`${base}/v1/models`)).status).toBe(404)
    expect((await fetch(`${base}/v1/firstlight/fleet`)).status).toBe(404)
    expect((await fetch(`${base}/ttft_report/nobody`)).status).toBe(404)
  })

  it('TTFT reports allow no other path by `..`', async () => {
    const answers = await Promise.all(
      ['../..', '%2e%2e', '.%2E', 'x/../..'].map((up) =>
        rawGet(gateway.reports!, `/ttft_report/${up}/v1/firstlight/fleet`),
      ),
    )
    for (const answer of answers) expect(answer).toMatch(/^HTTP\/1\.1 404 /)
  })

  it('TTFT reports are accepted in batches, with the positions of invalid ones', async () => {
    const batch = [
      { role: 'pd', request_id: 'b-1', prefill_queue_time_ms: 1 },
      { role: 'pd' },
      { role: 'pd', request_id: 'b-2', prefill_queue_time_ms: 2 },
    ]
    const answer = await fetch(`${gateway.url}/ttft_report`, { method: 'POST', body: JSON.stringify(batch) })
    expect(await answer.json()).toEqual({ accepted: 2, rejected: [{ index: 1, detail: 'role or request_id missing' }] })
    expect(
      ((await (await fetch(`${gateway.url}/ttft_report/b-2`)).json()) as Report).combined['prefill_queue_time_ms'],
    ).toBe(2)
  })

  it.each([['{"role":"pd","request_id":"x","prefill_queue_time_ms":NaN}'], ['{"role":"pd"'], ['[1]'], ['7']])(
    'a TTFT report of %s is refused with the reason',
    async (body) => {
      const answer = await fetch(`${gateway.url}/ttft_report`, { method: 'POST', body })
      expect(answer.status).toBe(400)
      expect(await answer.json()).toEqual(
        body === '[1]'
          ? { accepted: 0, rejected: [{ index: 0, detail: expect.any(String) }] }
          : { detail: expect.any(String) },
      )
    },
  )

  it('TTFT reports appear in metrics that a strict parser accepts, without an address', async () => {
    const answer = await fetch(`${gateway.url}/metrics`)
    expect(answer.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
    const text = await answer.text()
    const families = parseExposition(text)
    expect(text).not.toMatch(/127\.0\.0\.1|http:/)
    const count = families
      .get('gen_ai_server_time_to_first_token_seconds')!
      .samples.find(({ name }) => name.endsWith('_count'))
    expect(count?.value).toBeGreaterThan(0)
    const stages = new Set(families.get('firstlight_stage_seconds')!.samples.map(({ labels }) => labels['stage']))
    for (const stage of ['admit', 'first_byte', 'prefill_queue', 'prefill_compute', 'reported_ttft'])
      expect(stages).toContain(stage)
    expect(families.get('firstlight_decisions_total')!.samples[0]).toMatchObject({
      labels: { policy: 'predicted', fallback: '' },
    })
  })
})

// Debian: apt install prometheus.
const hasPromtool = spawnSync('promtool', ['--version']).status === 0

it.skipIf(!hasPromtool)('promtool finds no fault with the metrics', async () => {
  const fleet = await startFleet({ engines: 2 })
  const gateway = await gatewayBefore(fleet)
  for (let times = 0; times < 4; times++) await (await ask(gateway.url)).text()
  const input = await (await fetch(`${gateway.url}/metrics`)).text()
  const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], { input, encoding: 'utf8' })
  expect([status, stdout, stderr]).toEqual([0, '', ''])
  await stop(gateway)
  await fleet.close()
})

describe('a gateway with reports off', () => {
  it('a gateway with reports off names the setting, and stores nothing', async () => {
    const fleet = await startFleet({ engines: 1 })
    const gateway = await gatewayBefore(fleet)
    const answer = await fetch(`${gateway.url}/ttft_report`, { method: 'POST', body: '{"role":"pd","request_id":"a"}' })
    expect(answer.status).toBe(404)
    expect(await answer.text()).toContain('ttft.enabled')
    expect((await fetch(`${gateway.url}/ttft_report/a`)).status).toBe(404)
    expect(gateway.reports).toBeNull()
    await (await ask(gateway.url, { 'x-request-id': 'off-1' })).text()
    const about = (await (await fetch(`${gateway.url}/v1/firstlight/requests/off-1`)).json()) as {
      ttft_report: unknown
      stages_ms: Record<string, number>
    }
    expect(about.ttft_report).toBeNull()
    expect(about.stages_ms['ttft']).toBeGreaterThan(0)
    await stop(gateway)
    await fleet.close()
  })
})

describe('a token', () => {
  it('a token of ttft is accepted in the path or in the header, and never logged', async () => {
    const gateway = await gatewayBefore(
      { urls: ['http://127.0.0.1:9'] },
      { admin: { secret: 'boss' }, ttft: { enabled: true, token: 'hush-hush' } },
    )
    const post = (path: string, headers: Record<string, string> = {}) =>
      fetch(`${gateway.url}${path}`, {
        method: 'POST',
        headers,
        body: '{"role":"pd","request_id":"a","prefill_queue_time_ms":1}',
      })
    expect((await post('/ttft_report')).status).toBe(401)
    expect((await post('/ttft_report/wrong')).status).toBe(401)
    expect((await post('/ttft_report/hush-hush')).status).toBe(200)
    expect((await post('/ttft_report', { authorization: 'Bearer hush-hush' })).status).toBe(200)
    expect((await fetch(`${gateway.url}/ttft_report/a`)).status).toBe(401)
    expect((await fetch(`${gateway.url}/ttft_report/hush-hush/a`)).status).toBe(200)
    expect((await fetch(`${gateway.url}/ttft_report/a`, { headers: { authorization: 'Bearer boss' } })).status).toBe(
      200,
    )
    expect((await fetch(`${gateway.url}/ttft_report/hush-hush/a/b`)).status).toBe(404)
    expect((await fetch(`${gateway.url}/metrics`)).status).toBe(401)
    expect((await fetch(`${gateway.url}/metrics`, { headers: { authorization: 'Bearer boss' } })).status).toBe(200)
    expect(JSON.stringify(gateway.lines)).not.toContain('hush-hush')
    await stop(gateway)
  })
})

describe('a relay', () => {
  it('ttft.relay passes reports on, chunks and all', async () => {
    const authenticator = await gatewayBefore(
      { urls: ['http://127.0.0.1:9'] },
      { ttft: { enabled: true, token: 'far' } },
    )
    const beside = await gatewayBefore(
      { urls: ['http://127.0.0.1:9'] },
      { ttft: { enabled: true, relay: { url: authenticator.url, token: 'far' } } },
    )
    const partials = [
      { role: 'pd', request_id: 'far-1', prefill_queue_time_ms: 1, emb_cache_transfer_time_ms: 0 },
      { role: 'pd', request_id: 'far-1', prefill_compute_time_ms: 2, chunk: 0, chunks: 2 },
      { role: 'pd', request_id: 'far-1', prefill_compute_time_ms: 3, chunk: 1, last: true },
    ]
    for (const one of partials) await fetch(`${beside.url}/ttft_report`, { method: 'POST', body: JSON.stringify(one) })
    expect((await complete(authenticator.url, 'far/far-1')).combined['ttft_ms']).toBe(6)
    await stop(beside)
    await stop(authenticator)
  })
})

describe('traces', () => {
  it('traces carry the client’s trace to the engine and to the collector', async () => {
    const fleet = await startFleet({ engines: 1 })
    const collector = await FakeEngine.open()
    const gateway = await gatewayBefore(fleet, {
      traces: { endpoint: collector.url, headers: { 'x-key': 'k' }, sample: 0 },
    })
    const traceId = '0af7651916cd43dd8448eb211c80319c'
    await (await ask(gateway.url, { traceparent: `00-${traceId}-b7ad6b7169203331-01`, tracestate: 'a=b' })).text()
    await (await ask(gateway.url)).text()
    const batch = await until(() => collector.posts[0])
    expect([batch.path, batch.headers['x-key']]).toEqual(['/v1/traces', 'k'])
    const { resourceSpans } = batch.json as unknown as {
      resourceSpans: { scopeSpans: { spans: Record<string, unknown>[] }[] }[]
    }
    const spans = resourceSpans[0]!.scopeSpans[0]!.spans
    expect(spans.map(({ traceId: id }) => id)).toEqual([traceId, traceId, traceId])
    const [request, choice, engine] = spans
    expect(request).toMatchObject({ name: 'chat sim', kind: 2, parentSpanId: 'b7ad6b7169203331' })
    expect(choice).toMatchObject({ parentSpanId: request!['spanId'] })
    expect(request!['attributes']).toContainEqual({ key: 'gen_ai.usage.output_tokens', value: { intValue: '5' } })
    const seen = fleet.engines[0]!.log.recent.map(({ headers }) => headers)
    expect(seen[0]!['traceparent']).toBe(`00-${traceId}-${String(engine!['spanId'])}-01`)
    expect(seen[0]!['tracestate']).toBe('a=b')
    expect(seen[1]!['traceparent']).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/)
    await stop(gateway)
    await collector.close()
    await fleet.close()
  })

  it('traces are counted and logged if the collector rejects them, as with a wrong key', async () => {
    const fleet = await startFleet({ engines: 1 })
    const collector = await FakeEngine.open({ 'POST *': { status: 401 } })
    const gateway = await gatewayBefore(fleet, { traces: { endpoint: collector.url, sample: 1 } })
    for (let at = 0; at < 3; at++) await (await ask(gateway.url)).text()
    await until(async () =>
      (await (await fetch(`${gateway.url}/metrics`)).text()).includes('\nfirstlight_dropped_spans_total 3\n')
        ? true
        : null,
    )
    expect(collector.posts).toHaveLength(1)
    expect(
      gateway.lines.find((line) => line['event'] === 'batch_export_failed' && line['exporter'] === 'traces'),
    ).toMatchObject({
      error: { message: expect.stringContaining('401') },
    })
    await stop(gateway)
    await collector.close()
    await fleet.close()
  })

  it('traces delay nothing if the collector hangs', async () => {
    const fleet = await startFleet({ engines: 1 })
    const silent = await FakeEngine.open({ '*': SILENCE })
    const gateway = await gatewayBefore(fleet, { traces: { endpoint: silent.url, sample: 1 } })
    for (let at = 0; at < 3; at++) expect(await (await ask(gateway.url)).text()).toContain('[DONE]')
    await stop(gateway)
    await silent.close()
    await fleet.close()
  })
})

it('engines report only if enabled, in any spelling of yes', () => {
  for (const yes of ['1', 'true', 'True', 'TRUE'])
    expect(reportUrl({ TTFT_ENABLED: yes })?.href).toBe('http://127.0.0.1:28886/ttft_report')
  for (const no of ['0', '', 'no', 'false']) expect(reportUrl({ TTFT_ENABLED: no })).toBeNull()
  expect(reportUrl({})).toBeNull()
  expect(reportUrl({ TTFT_ENABLED: '1', VLLM_TTFT_REPORT_URL: 'http://10.0.0.1:9/ttft_report' })?.host).toBe(
    '10.0.0.1:9',
  )
})

it('a gateway with keys accepts reports without a token at ttft.listen only', async () => {
  const gateway = await gatewayBefore(
    { urls: ['http://127.0.0.1:9'] },
    { keys: [{ name: 'a', secret: 'client-secret' }], ttft: { enabled: true, listen: '127.0.0.1:0' } },
  )
  const body = JSON.stringify({ role: 'pd', request_id: 'x', prefill_queue_time_ms: 1 })
  const statuses = []
  for (const url of [`http://${gateway.reports}`, gateway.url]) {
    const posted = await fetch(`${url}/ttft_report`, { method: 'POST', body })
    const read = await fetch(`${url}/ttft_report/x`)
    statuses.push(posted.status, read.status)
    await Promise.all([posted.text(), read.text()])
  }
  await stop(gateway)
  expect(statuses).toEqual([200, 200, 401, 401])
})
