import { afterAll, beforeAll, expect, it } from 'vitest'
import { until } from '../wait.ts'
import { ADMIN, admin, chat, type Isolates, startIsolates } from './isolates.ts'

interface Pool {
  readonly cluster: string
  readonly bookings: number
  readonly engines: readonly { readonly requests_total: number; readonly draining: boolean; readonly circuit: string }[]
}

interface Fleet {
  readonly shared: boolean
  readonly isolates: number
  readonly pools: readonly Pool[]
}

let edge: Isolates

beforeAll(async () => {
  edge = await startIsolates({ isolates: 4, regions: ['a', 'b'] })
})

afterAll(() => edge.close())

const fleetAt = async (url: string) => (await admin<Fleet>(url, '/v1/firstlight/fleet'))!
const totalAt = async (url: string) =>
  (await fleetAt(url)).pools.reduce((sum, { engines }) => sum + engines[0]!.requests_total, 0)

it('all isolates report the same fleet, usage and decisions', async () => {
  const before = await totalAt(edge.urls[0]!)
  const ids = new Map<string, string>()
  for (let n = 0; n < 20; n++) {
    const { status, headers } = await chat(edge.urls[n % 4]!, `question ${n}`)
    expect(status).toBe(200)
    ids.set(/^[^;,]+/.exec(headers.get('x-firstlight-decision')!)![0].trim(), headers.get('x-request-id')!)
  }
  for (const url of edge.urls) await until(async () => (await totalAt(url)) === before + 20)
  const [first, ...others] = await Promise.all(edge.urls.map((url) => fleetAt(url)))
  expect(first!.shared).toBe(true)
  expect(first!.isolates).toBe(4)
  for (const other of others) expect(comparable(other)).toEqual(comparable(first!))
  const usages = await Promise.all(edge.urls.map((url) => admin(url, '/v1/firstlight/usage')))
  for (const usage of usages) expect(usage).toEqual(usages[0])
  for (const [decision, request] of [...ids].slice(0, 4)) {
    const decisions = await Promise.all(edge.urls.map((url) => admin(url, `/v1/firstlight/decisions/${decision}`)))
    expect(decisions[0]).not.toBeNull()
    for (const found of decisions) expect(found).toEqual(decisions[0])
    const requests = await Promise.all(edge.urls.map((url) => admin(url, `/v1/firstlight/requests/${request}`)))
    for (const found of requests) expect(found).toEqual(requests[0])
  }
  const metrics = await Promise.all(edge.urls.map(counters))
  expect(metrics[0]!.length).toBeGreaterThan(10)
  for (const found of metrics) expect(found).toEqual(metrics[0])
})

/** Lines of the counters in `/metrics`; gauges are taken when they are read. */
async function counters(url: string): Promise<readonly string[]> {
  const response = await fetch(`${url}/metrics`, { headers: ADMIN })
  expect(response.status).toBe(200)
  const lines = (await response.text()).split('\n')
  const names = new Set(lines.flatMap((line) => /^# TYPE (\S+) counter/.exec(line)?.[1] ?? []))
  return lines.filter((line) => names.has(/^[a-z_]+/.exec(line)?.[0] ?? '')).sort()
}

/** Removes what each isolate measures itself: sequence numbers, times and round trips. */
const comparable = ({ pools }: Fleet) => pools.map(({ cluster, bookings, engines }) => ({ cluster, bookings, engines }))

it('a drain at one isolate holds at all of them', async () => {
  const response = await fetch(`${edge.urls[0]}/v1/firstlight/engines/a/drain`, { method: 'POST', headers: ADMIN })
  expect(response.status).toBe(200)
  const drainedAt = async (url: string) =>
    (await fleetAt(url)).pools.find(({ cluster }) => cluster === 'a')!.engines[0]!.draining
  for (const url of edge.urls) expect(await drainedAt(url)).toBe(true)
  for (const url of edge.urls) await synced(url)
  for (let n = 0; n < 12; n++) expect(await regionOf(edge.urls[n % 4]!)).toBe('b')
  await fetch(`${edge.urls[2]}/v1/firstlight/engines/a/undrain`, { method: 'POST', headers: ADMIN })
  for (const url of edge.urls) expect(await drainedAt(url)).toBe(false)
})

/** Reads a view of an isolate after its sync. */
async function synced(url: string): Promise<void> {
  await chat(url, `news ${Math.random()}`)
  await fleetAt(url)
}

async function regionOf(url: string): Promise<string> {
  const { status, headers } = await chat(url, `where ${Math.random()}`)
  expect(status).toBe(200)
  return headers.get('x-firstlight-cluster')!
}

it('viewers at two isolates get the same events', async () => {
  const [one, other] = await Promise.all([events(edge.urls[0]!, 2), events(edge.urls[3]!, 2)])
  expect(one.map(({ id }) => id).some((id) => other.some((event) => event.id === id))).toBe(true)
  for (const event of one) {
    const same = other.find(({ id }) => id === event.id)
    if (same !== undefined) expect(same.data).toBe(event.data)
  }
})

interface ServerEvent {
  readonly id: string
  readonly data: string
}

async function events(url: string, count: number): Promise<ServerEvent[]> {
  const response = await fetch(`${url}/v1/firstlight/live`, { headers: ADMIN })
  expect(response.status).toBe(200)
  const found: ServerEvent[] = []
  let text = ''
  const utf8 = new TextDecoder()
  for await (const bytes of response.body!) {
    text += utf8.decode(bytes as Uint8Array, { stream: true })
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const [, id = '', data = ''] = /^id: (.*)\nevent: view\ndata: (.*)$/s.exec(text.slice(0, end)) ?? []
      found.push({ id, data })
      text = text.slice(end + 2)
    }
    if (found.length >= count) break
  }
  return found
}
