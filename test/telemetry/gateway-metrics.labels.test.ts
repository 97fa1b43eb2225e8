import { afterAll, beforeAll, expect, it } from 'vitest'
import { FakeEngine } from '../kit/fake-engine.ts'
import { openGateway, type TestGateway } from '../kit/gateway.ts'
import { DONE, sseAnswer, token } from '../kit/sse.ts'

let engine: FakeEngine
let gateway: TestGateway

beforeAll(async () => {
  engine = await FakeEngine.open({ 'POST *': sseAnswer([token('a'), DONE]) })
  gateway = await openGateway({
    engines: [engine],
    pool: { adapters: ['poet'] },
    config: { ttft: { enabled: true }, log: { level: 'error' } },
  })
})

afterAll(async () => {
  await gateway.close()
  await engine.close()
})

const post = async (path: string, body: unknown, headers: Readonly<Record<string, string>> = {}): Promise<number> => {
  const response = await gateway.post(path, body, { headers })
  await response.text()
  return response.status
}

/** A client that sends its own label wherever a request allows one. */
async function wave(word: string): Promise<void> {
  const chat = '/v1/chat/completions'
  const body = { messages: [{ role: 'user', content: word }], user: word, session_id: word, stream: true }
  const label = { 'x-request-id': word, traceparent: word, 'x-session-id': word }
  expect(await post(chat, { ...body, model: word })).toBe(404)
  expect(await post(chat, { ...body, model: 'm', firstlight: { policy: word } })).toBe(400)
  expect(await post(`/v1/${word}`, body)).toBe(404)
  expect(await post(chat, { ...body, model: 'm' }, label)).toBe(200)
  expect(await post(chat, { ...body, model: 'poet', firstlight: { session: word } }, label)).toBe(200)
  // The policy cannot rank without a lookup, so another one replaces it.
  expect(await post(chat, { ...body, model: 'm', firstlight: { policy: 'kv_aware' } }, label)).toBe(200)
  await post('/ttft_report', { role: 'pd', request_id: word, prefill_queue_time_ms: 3, [word]: 1 })
}

async function series(): Promise<string[]> {
  const text = await (await gateway.get('/metrics')).text()
  return text
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => line.slice(0, line.lastIndexOf(' ')))
}

it('the metrics page has a bounded number of series for made-up names, and none with a client’s text', async () => {
  await wave('evil-0')
  const before = await series()
  for (let at = 1; at < 30; at++) await wave(`evil-${at}`)
  const after = await series()
  expect(after.filter((one) => one.includes('evil'))).toEqual([])
  expect(after.filter((one) => !before.includes(one))).toEqual([])
  expect(before.some((one) => one.startsWith('firstlight_decisions_total') && one.includes('kv_aware'))).toBe(true)
})
