import { afterAll, beforeAll, expect, it } from 'vitest'
import { startBuiltWorker, type BuiltWorker } from '../../kit/built-worker.ts'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { sseAnswer } from '../../kit/sse.ts'
import { until } from '../../wait.ts'

const KEY = 'an-admin-key-of-this-test'
const EVENT = 'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
let hanging: FakeEngine
let worker: BuiltWorker

beforeAll(async () => {
  hanging = await FakeEngine.open({ 'POST *': sseAnswer([EVENT], { end: 'hang' }) })
  const pool = { model: 'm', observe_share: 0, limits: { native_ms: 300 }, engines: [{ id: 'e', url: hanging.url }] }
  worker = await startBuiltWorker({
    open: true,
    admin: { secret: KEY },
    ttft: { enabled: true },
    clusters: [{ id: 'c', pools: [pool] }],
  })
})
afterAll(async () => {
  await worker.close()
  await hanging.close()
})

const read = async (path: string) =>
  (await fetch(worker.url + path, { headers: { authorization: `Bearer ${KEY}` } })).text()
const bookings = async () =>
  (JSON.parse(await read('/v1/firstlight/fleet')) as { pools: readonly { bookings: number }[] }).pools[0]!.bookings

it('a client that leaves a native stream of a hung engine leaves no booking', async () => {
  const leave = new AbortController()
  const body = JSON.stringify({ model: 'm', stream: true, messages: [{ role: 'user', content: 'x' }] })
  const response = await fetch(`${worker.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
    signal: leave.signal,
  })
  const { value } = await response.body!.getReader().read()
  expect(new TextDecoder().decode(value)).toBe(EVENT)
  leave.abort()
  // The booking lasted for `native_ms`, until it lapsed.
  await until(async () => /^firstlight_requests_total\{.*result="lapsed"\} 1$/m.test(await read('/metrics')))
  await until(async () => (await bookings()) === 0)
})
