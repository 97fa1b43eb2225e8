import { afterAll, beforeAll, expect, it } from 'vitest'
import { FakeEngine } from '../kit/fake-engine.ts'
import { until } from '../wait.ts'
import { admin, chat, type Isolates, startIsolates } from './isolates.ts'

const OPEN_MS = 6_000

/** Region that refuses its digest, so that it stays a candidate, and breaks each request. */
let broken: FakeEngine
/** By id: the runtime sends a request again whose connection breaks. */
const requests = new Set<string>()
let edge: Isolates

beforeAll(async () => {
  broken = await FakeEngine.open({
    'GET *': { status: 403 },
    '*': ({ headers, socket }) => {
      requests.add(headers['x-request-id']!)
      socket.destroy()
    },
  })
  edge = await startIsolates({
    isolates: 4,
    regions: ['a'],
    plain: { x: broken.url },
    model: { circuit: { failures: 3, open_ms: OPEN_MS } },
  })
})

afterAll(async () => {
  await edge.close()
  await broken.close()
})

interface Fleet {
  readonly pools: readonly { readonly cluster: string; readonly engines: readonly { readonly circuit: string }[] }[]
}

const circuitAt = async (url: string) =>
  (await admin<Fleet>(url, '/v1/firstlight/fleet'))!.pools.find(({ cluster }) => cluster === 'x')!.engines[0]!.circuit

it('a circuit that one isolate opens is open for all, and one of them tries the region', async () => {
  for (const url of edge.urls) await chat(url, 'hello')
  await until(async () => {
    await chat(edge.urls[1]!, `fail ${Math.random()}`)
    return (await circuitAt(edge.urls[1]!)) === 'open'
  })
  const openedAt = performance.now()
  // Each isolate has changes to report, so its view comes after its sync.
  for (const url of edge.urls) {
    await chat(url, `news ${Math.random()}`)
    expect(await circuitAt(url)).toBe('open')
  }
  const before = requests.size
  let sent = 0
  while (sent < 8 && performance.now() - openedAt < OPEN_MS * 0.8) {
    const { status, headers } = await chat(edge.urls[sent++ % 4]!, `other ${Math.random()}`)
    expect(status).toBe(200)
    expect(headers.get('x-firstlight-cluster')).toBe('a')
  }
  expect(sent).toBeGreaterThan(4)
  expect(requests.size).toBe(before)
  // After the pause one trial opens the circuit again, for all isolates.
  await until(async () => {
    await chat(edge.urls[sent++ % 4]!, `trial ${Math.random()}`)
    return requests.size > before
  })
  for (let n = 0; n < 20; n++) expect((await chat(edge.urls[n % 4]!, `more ${Math.random()}`)).status).toBe(200)
  // A second isolate may try before it has the first one's result; four separate circuits would try four times.
  expect(requests.size - before).toBeLessThanOrEqual(2)
})
