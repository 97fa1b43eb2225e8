/** Stages of the time to first token that a stock vLLM reports, by the proxy in examples/ttft-reporter. */
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { servedModel } from '../engine.ts'
import { adminKey, startGateway } from '../gateway.ts'
import type { RunningGateway } from '../gateway.ts'
import { freePorts, open, sendJson } from '../http.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import { until } from '../until.ts'
import { withKey } from './asks.ts'
import { prompt } from './disaggregation.ts'

export const reportRow: Row = {
  name: 'node-ttft-report',
  says:
    'With the example proxy in front of a stock vLLM, /ttft_report has the queue and prefill time of each request, ' +
    'streamed or not, and their sum is at most the time to first byte at the client of a stream.',
  run: async (lab) => reports(lab),
}

const root = fileURLToPath(new URL('../../../../', import.meta.url))

async function reports(lab: Lab): Promise<string> {
  const engine = await lab.engine('a')
  const [proxyPort, reportPort] = await freePorts(2)
  const proxy = lab.processes.start({
    what: 'ttft reporter',
    command: [
      process.execPath,
      'examples/ttft-reporter/reporter.mjs',
      '--engine',
      engine.url,
      '--listen',
      `127.0.0.1:${proxyPort}`,
      '--report',
      `http://127.0.0.1:${reportPort}/ttft_report`,
    ],
    folder: root,
  })
  const gateway = await startGateway({
    kind: 'node',
    name: 'reports',
    processes: lab.processes,
    note: lab.note,
    engines: [{ ...engine, url: `http://127.0.0.1:${proxyPort}` }],
    each: {},
    pool: {},
    document: { ttft: { enabled: true, listen: `127.0.0.1:${reportPort}` } },
  })
  try {
    const seen: string[] = []
    for (const stream of [true, false, true, false]) seen.push(await one(gateway, stream, seen.length))
    return seen.join('; ')
  } finally {
    await gateway.stop()
    await proxy.stop()
  }
}

interface Stages {
  readonly prefill_queue_time_ms: number | null
  readonly prefill_compute_time_ms: number | null
  readonly ttft_ms: number | null
}

async function one(gateway: RunningGateway, stream: boolean, round: number): Promise<string> {
  const id = `report-${Date.now()}-${round}`
  const sentAt = performance.now()
  const { response } = await open({
    url: gateway.url,
    method: 'POST',
    path: '/v1/completions',
    headers: withKey({ 'x-request-id': id }),
    body: { model: servedModel, prompt: prompt(700 + round), max_tokens: 4, temperature: 0, ignore_eos: true, stream },
    limitMs: 60_000,
  })
  let firstMs = 0
  response.once('data', () => (firstMs = performance.now() - sentAt))
  await once(response, 'end')
  check(response.statusCode === 200, `status ${response.statusCode}`)
  let combined: Stages | null = null
  await until(
    async () => {
      const { combined: now } = await sendJson<{ combined: Stages }>({
        url: gateway.url,
        method: 'GET',
        path: `/ttft_report/${id}`,
        headers: { authorization: `Bearer ${adminKey}` },
      })
      combined = now
      return now.ttft_ms !== null
    },
    `the report of ${id}`,
    { limitMs: 5000 },
  )
  const { prefill_queue_time_ms: queued, prefill_compute_time_ms: computed, ttft_ms: ttft } = combined!
  const result = `${stream ? 'streamed' : 'whole'} ${queued?.toFixed(1)} + ${computed?.toFixed(1)} ms, at the client ${firstMs.toFixed(0)} ms`
  check(queued !== null && computed !== null && computed > 0 && ttft === queued + computed, result)
  check(ttft <= firstMs, result)
  return result
}
