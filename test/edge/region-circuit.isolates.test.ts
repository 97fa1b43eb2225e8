import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { FakeEngine } from '../kit/fake-engine.ts'
import { until } from '../wait.ts'
import { admin, chat, type Isolates, startIsolates } from './isolates.ts'

/** Longer than the test. */
const LONG_MS = 3_600_000
const SHORT_MS = 3_000

/** Region that refuses its digest, so that it stays a candidate, and breaks each request. */
let broken: FakeEngine
/** By id: the runtime sends a request again whose connection breaks. */
const requests = new Set<string>()
let edge: Isolates | null = null

beforeAll(async () => {
  broken = await FakeEngine.open({
    'GET *': { status: 403 },
    '*': ({ headers, socket }) => {
      requests.add(headers['x-request-id']!)
      socket.destroy()
    },
  })
})

afterEach(async () => {
  await edge?.close()
  edge = null
})
afterAll(() => broken.close())

interface Fleet {
  readonly pools: readonly { readonly cluster: string; readonly engines: readonly { readonly circuit: string }[] }[]
}

const circuitAt = async (url: string) =>
  (await admin<Fleet>(url, '/v1/firstlight/fleet'))!.pools.find(({ cluster }) => cluster === 'x')!.engines[0]!.circuit

/** Starts four isolates. One of them opens the circuit of the region, for this time at first. */
async function withOpenCircuit(openMs: number): Promise<readonly string[]> {
  edge = await startIsolates({
    isolates: 4,
    regions: ['a'],
    plain: { x: broken.url },
    model: { circuit: { failures: 3, open_ms: openMs } },
  })
  const { urls } = edge
  for (const url of urls) await chat(url, 'hello')
  await until(async () => {
    await chat(urls[1]!, `fail ${Math.random()}`)
    return (await circuitAt(urls[1]!)) !== 'closed'
  })
  // Each isolate has changes to report, so its view comes after its sync.
  for (const url of urls) await chat(url, `news ${Math.random()}`)
  return urls
}

it('a circuit that one isolate opens is open for all', async () => {
  const urls = await withOpenCircuit(LONG_MS)
  for (const url of urls) expect(await circuitAt(url)).toBe('open')
  const before = requests.size
  for (let n = 0; n < 8; n++) {
    const { status, headers } = await chat(urls[n % 4]!, `other ${Math.random()}`)
    expect([status, headers.get('x-firstlight-cluster')]).toEqual([200, 'a'])
  }
  expect(requests.size).toBe(before)
})

it('after the pause of a circuit one isolate tries the region, and opens the circuit again for all', async () => {
  const urls = await withOpenCircuit(SHORT_MS)
  const before = requests.size
  let sent = 0
  await until(async () => {
    await chat(urls[sent++ % 4]!, `trial ${Math.random()}`)
    return requests.size > before
  })
  const triedAt = performance.now()
  for (let n = 0; n < 20; n++) expect((await chat(urls[n % 4]!, `more ${Math.random()}`)).status).toBe(200)
  // A second isolate may try before it has the first one's result, and each further pause ends with a trial. Four
  // separate circuits would try four times.
  const pauses = Math.floor((performance.now() - triedAt) / SHORT_MS)
  expect(requests.size - before).toBeLessThanOrEqual(2 * (1 + pauses))
})
