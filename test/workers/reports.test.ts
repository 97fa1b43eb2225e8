import { createExecutionContext, reset, waitOnExecutionContext } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { afterEach, expect, it } from 'vitest'
import { ConfigSource } from '../../src/platform/workers/config-source.ts'
import { IsolateGateway } from '../../src/platform/workers/isolate-gateway.ts'
import { parseExposition } from '../telemetry/parse-exposition.ts'

afterEach(() => reset())

const document = (changes: object = {}) => ({
  open: true,
  admin: { secret: 'boss' },
  clusters: [{ id: 'c', pools: [{ model: 'm', engines: [{ id: 'e', url: 'http://127.0.0.1:9' }] }] }],
  log: { level: 'silent' },
  ttft: { enabled: true },
  ...changes,
})

function open(changes: object = {}, bindings: object = {}): (path: string, init?: RequestInit) => Promise<Response> {
  // Tests wait for the work behind a response, which includes the next sync.
  const live = new IsolateGateway(new ConfigSource(), { syncMs: 0 })
  const given = { ...env, FIRSTLIGHT_CONFIG: JSON.stringify(document(changes)), ...bindings }
  return async (path, init) => {
    const context = createExecutionContext()
    const response = await live.fetch(new Request(`https://gateway.test${path}`, init), given, context)
    await waitOnExecutionContext(context)
    return response
  }
}

const boss = { headers: { authorization: 'Bearer boss' } }
const ask = {
  method: 'POST',
  headers: { 'content-type': 'application/json', 'x-request-id': 'w-1' },
  body: '{"model":"m","messages":[{"role":"user","content":"hi"}]}',
}

it('a gateway on Workers merges reports that come to different gateways', async () => {
  const [one, other] = [open(), open()]
  const post = (send: typeof one, body: object) => send('/ttft_report', { method: 'POST', body: JSON.stringify(body) })
  await post(one, { role: 'pd', request_id: 'chatcmpl-a-1a2b3c4d', prefill_queue_time_ms: 1 })
  const answer = await post(other, {
    role: 'pd',
    request_id: 'a',
    prefill_compute_time_ms: 2,
    emb_cache_transfer_time_ms: 0,
  })
  expect(await answer.json()).toMatchObject({ request_id: 'a', combined: { ttft_ms: 3 } })
  expect(await (await one('/ttft_report/a')).json()).toMatchObject({ by_role: { pd: { prefill_queue_time_ms: 1 } } })
  expect((await post(one, { role: 'pd', request_id: 'a', prefill_queue_time_ms: -1 })).status).toBe(400)
})

it('a gateway on Workers builds its metrics from the objects, including requests of other isolates', async () => {
  const [one, other] = [open(), open()]
  expect((await one('/v1/chat/completions', ask)).status).toBe(503)
  expect((await other('/metrics')).status).toBe(401)
  const families = parseExposition(await (await other('/metrics', boss)).text())
  expect(families.get('firstlight_requests_total')?.samples).toEqual([
    { name: 'firstlight_requests_total', labels: { model: 'm', cluster: '', engine: '', result: 'refused' }, value: 1 },
  ])
  expect(families.get('firstlight_decisions_total')?.samples[0]?.value).toBeGreaterThan(0)
  expect(families.get('firstlight_engine_num_requests')?.samples[0]).toMatchObject({
    labels: { engine: 'e' },
    value: 0,
  })
  const about = (await (await other('/v1/firstlight/requests/w-1', boss)).json()) as { record: { result: string } }
  expect(about.record.result).toBe('refused')
})

it('a gateway on Workers calls no object of the reports while they are off', async () => {
  const untouchable = new Proxy({}, { get: () => expect.fail('an object of the reports was called') })
  const send = open({ ttft: { enabled: false } }, { TTFT: untouchable })
  expect((await send('/ttft_report', { method: 'POST', body: '{"role":"pd","request_id":"a"}' })).status).toBe(404)
  await send('/v1/chat/completions', ask)
  const text = await (await send('/metrics', boss)).text()
  expect(parseExposition(text).has('firstlight_decisions_total')).toBe(true)
  expect(text).not.toContain('firstlight_requests_total')
})
