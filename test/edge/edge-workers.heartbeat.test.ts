import { afterAll, beforeAll, expect, it } from 'vitest'
import { type RunningWorkers, startWorkers } from '../../scripts/edge-workers.ts'
import { type HeldAnswer, HeldEngine } from '../kit/held-engine.ts'
import { postAndLeave } from '../kit/leaving-client.ts'
import { completion, DONE, sseEvent } from '../kit/sse.ts'
import { until } from '../wait.ts'
import { admin, MODEL } from './isolates.ts'

let engine: HeldEngine
let workers: RunningWorkers
let front = ''

const HEARTBEAT_MS = 200
const EVENT = sseEvent({ choices: [{ index: 0, delta: { content: 'hello' }, finish_reason: null }] })

beforeAll(async () => {
  engine = await HeldEngine.open({ routes: () => ({ 'GET *': { body: { data: [] } } }) })
  const common = {
    version: 1,
    admin: { secret: 'admin' },
    limits: { heartbeat_ms: HEARTBEAT_MS },
    log: { level: 'silent' },
  }
  const region = {
    ...common,
    keys: [{ name: 'edge', secret: 'k', edge: true, allow_overrides: true }],
    clusters: [{ id: 'a', pools: [{ model: MODEL, engines: [{ id: 'a-0', url: engine.url }] }] }],
  }
  const gateway = { url: 'http://a.invalid', key: 'k', binding: 'REGION_A', models: [{ model: MODEL }] }
  const edge = { ...common, open: true, clusters: [{ id: 'a', gateway }] }
  workers = await startWorkers(
    [
      {
        name: 'front',
        bindings: { FIRSTLIGHT_CONFIG: JSON.stringify(edge) },
        services: { REGION_A: 'region' },
        port: 0,
      },
      { name: 'region', bindings: { FIRSTLIGHT_CONFIG: JSON.stringify(region) }, port: 0 },
    ],
    { quiet: true },
  )
  front = workers.urls['front']!
})

afterAll(async () => {
  await workers.stop()
  await engine.close()
})

/** Returns a wait for the first request that the engine gets from now on. */
function nextAtEngine(): () => Promise<HeldAnswer> {
  const before = engine.engine.posts.length
  return () => until(() => engine.held.find(({ request }) => engine.engine.posts.indexOf(request) >= before))
}

/** Opens a stream and waits until the engine has it, which then sends a head and a comment. */
async function open(signal: AbortSignal) {
  const arrival = nextAtEngine()
  const answer = fetch(`${front}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: MODEL, stream: true, messages: [{ role: 'user', content: 'hi' }] }),
    signal,
  })
  const engineSide = await arrival()
  engineSide.begin(': engine\n\n')
  return { answer, engineSide }
}

async function bookings(): Promise<number> {
  const views = await Promise.all(
    [front, workers.urls['region']!].map((url) =>
      admin<{ pools: { bookings: number }[] }>(url, '/v1/firstlight/fleet'),
    ),
  )
  return views.reduce((sum, view) => sum + view!.pools[0]!.bookings, 0)
}

it('a stream through both Workers has one heartbeat per interval and is complete', async () => {
  const startedAt = performance.now()
  const { answer, engineSide } = await open(new AbortController().signal)
  const response = await answer
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  const pings = () => text.match(/: ping\n/g)?.length ?? 0
  while (pings() < 8) {
    text += (await reader.read()).value ?? ''
    // A slow machine sends fewer; only a second sender sends more. The first one comes after two intervals.
    expect(pings()).toBeLessThanOrEqual((performance.now() - startedAt) / HEARTBEAT_MS)
  }
  engineSide.end(EVENT + DONE)
  for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value
  expect(text).toContain('hello')
  expect(text).not.toContain('error')
  // On a busy machine the stream may end later than the next heartbeat.
  expect(text).toMatch(/data: \[DONE\]\n\n(?:: ping\n)*$/)
  await until(async () => (await bookings()) === 0)
})

it.each(['while the engine is silent', 'while it streams'])('the engine sees a client leave %s', async (when) => {
  const client = new AbortController()
  const { answer, engineSide } = await open(client.signal)
  const closed = engineSide.request.ended
  const streams = when === 'while it streams' ? setInterval(() => engineSide.write(EVENT), 50) : null
  const response = await answer
  await response.body!.getReader().read()
  expect(await bookings()).toBe(2)
  client.abort()
  await closed
  if (streams !== null) clearInterval(streams)
  await until(async () => (await bookings()) === 0)
})

/** A request without a stream, which the engine holds, and its client. */
async function openWhole(by: 'close' | 'reset') {
  const arrival = nextAtEngine()
  const client = new AbortController()
  const body = { model: MODEL, messages: [{ role: 'user', content: 'hi' }] }
  const left = postAndLeave({ url: `${front}/v1/chat/completions`, body, by }, client.signal)
  return { engineSide: await arrival(), leave: () => (client.abort(), left) }
}

it('the engine of a region sees a client leave that waits for an answer without a stream, if its connection is reset', async () => {
  const { engineSide, leave } = await openWhole('reset')
  await leave()
  await engineSide.request.ended
  expect(engineSide.isAborted).toBe(true)
  await until(async () => (await bookings()) === 0)
})

it('workerd does not report a client that closes its connection while it waits for an answer without a stream', async () => {
  const { engineSide, leave } = await openWhole('close')
  await leave()
  const later = await openWhole('reset')
  await later.leave()
  await later.engineSide.request.ended
  await until(async () => (await bookings()) === 2)
  expect(engineSide.isAborted).toBe(false)
  engineSide.send({ body: completion('late') })
  await until(async () => (await bookings()) === 0)
})
