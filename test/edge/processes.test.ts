import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { IsolateProcess } from '../../packages/bench/chaos/isolate-process.ts'
import { LogReader } from '../../packages/bench/chaos/log.ts'
import { type RunningFleet, startFleet } from '../../packages/simulator/src/node/fleet-host.ts'
import { until } from '../wait.ts'
import { ADMIN, admin, chat, frontDocument, MODEL, regionDocument } from './isolates.ts'

const OBJECTS = 'objects'
const ISOLATES = 3

let fleet: RunningFleet
let folder = ''
const log = new LogReader()
const started = new Set<IsolateProcess>()
const isolates: IsolateProcess[] = []
let front: object

const start = async (name: string, objectsOf: string | null, document: object) => {
  const one = await IsolateProcess.start({ name, registry: folder, objectsOf, document }, log)
  started.add(one)
  return one
}
const startIsolate = (at: number) => start(`isolate${at}`, OBJECTS, front)

beforeAll(async () => {
  folder = mkdtempSync(`${tmpdir()}/firstlight-processes-`)
  fleet = await startFleet({ engines: 2, model: MODEL })
  const regions = await Promise.all(
    ['a', 'b'].map((id, at) => start(`region-${id}`, null, regionDocument(id, fleet.urls[at]!))),
  )
  front = frontDocument({ isolates: ISOLATES, regions: [], plain: { a: regions[0]!.url, b: regions[1]!.url } })
  await start(OBJECTS, null, front)
  for (let at = 0; at < ISOLATES; at++) isolates.push(await startIsolate(at))
})

afterAll(async () => {
  await Promise.all([...started].map((one) => one.end()))
  await fleet.close()
  rmSync(folder, { recursive: true, force: true })
})

interface Fleet {
  readonly shared: boolean
  readonly pools: readonly {
    readonly cluster: string
    readonly bookings: number
    readonly engines: readonly { readonly requests_total: number; readonly draining: boolean }[]
  }[]
}

const fleetAt = async (at: number) => (await admin<Fleet>(isolates[at]!.url, '/v1/firstlight/fleet'))!
const sum = (all: readonly number[]) => all.reduce((a, b) => a + b, 0)
const totalAt = async (at: number) => sum((await fleetAt(at)).pools.map(({ engines }) => engines[0]!.requests_total))
const bookedAt = async (at: number) => sum((await fleetAt(at)).pools.map(({ bookings }) => bookings))

it('isolates in processes of their own share one view, which an isolate that is killed does not change', async () => {
  for (let n = 0; n < 9; n++) expect((await chat(isolates[n % ISOLATES]!.url, `question ${n}`)).status).toBe(200)
  for (let at = 0; at < ISOLATES; at++) await until(async () => (await totalAt(at)) === 9)
  const drained = await fetch(`${isolates[0]!.url}/v1/firstlight/engines/a/drain`, { method: 'POST', headers: ADMIN })
  expect(drained.status).toBe(200)

  // A stream is open when its isolate is killed.
  const stream = await fetch(`${isolates[1]!.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: 'Bearer one' },
    body: JSON.stringify({
      model: MODEL,
      stream: true,
      max_tokens: 4000,
      messages: [{ role: 'user', content: 'long' }],
    }),
  })
  await stream.body!.getReader().read()
  expect(await bookedAt(1)).toBe(1)
  await isolates[1]!.kill()
  started.delete(isolates[1]!)
  expect(await totalAt(0)).toBeGreaterThanOrEqual(9)

  isolates[1] = await startIsolate(1)
  for (let at = 0; at < ISOLATES; at++) {
    // Its change lets the view sync first.
    await chat(isolates[at]!.url, `news ${at}`)
    const { shared, pools } = await fleetAt(at)
    expect([shared, pools.find(({ cluster }) => cluster === 'a')!.engines[0]!.draining]).toEqual([true, true])
  }
  for (let n = 0; n < 6; n++) {
    const { status, headers } = await chat(isolates[n % ISOLATES]!.url, `more ${n}`)
    expect([status, headers.get('x-firstlight-cluster')]).toEqual([200, 'b'])
  }
  await until(async () => (await totalAt(2)) >= 18)
  // The object forgets the requests of an isolate that is silent; the region sees its connection close.
  for (const at of [0, 1, 2]) await until(async () => (await bookedAt(at)) === 0, 100)
  expect(fleet.engines.map(({ log: engine }) => engine.running)).toEqual([0, 0])
})
