/** Large admin responses are computed in steps, so that other requests are served in between. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { mapYielding } from '../src/map-yielding.ts'
import type { EngineDigest } from '../src/core/contract/pool-digest.ts'
import { TtftState } from '../src/core/reports/ttft-state.ts'
import { countedUpTo } from '../src/core/reports/rollups.ts'
import { createGateway } from '../src/gateway.ts'
import type { PoolPort } from '../src/ports/pool.ts'
import type { Ttft } from '../src/ports/ttft.ts'
import { record } from './contracts/ttft.ts'
import { parseExposition } from './telemetry/parse-exposition.ts'
import { configOf, onePool, openRecordingPorts } from './kit/recording-ports.ts'

describe('work in turns', () => {
  it('work in turns returns the same as without yielding, a few items at a time', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer(), { maxLength: 120 }), fc.boolean(), async (items, later) => {
        const runs = [0]
        const turn = async () => void runs.push(0)
        const work = (item: number, index: number) => {
          runs[runs.length - 1]! += 1
          return later ? Promise.resolve([item, index]) : [item, index]
        }
        expect(await mapYielding(turn, items, work)).toEqual(items.map((item, index) => [item, index]))
        expect(Math.max(...runs)).toBeLessThanOrEqual(25)
        expect(runs.length).toBe(Math.max(1, Math.ceil(items.length / 25)))
      }),
    )
  })

  it('work in turns rejects as the work does', async () => {
    await expect(
      mapYielding(
        async () => undefined,
        [1, 2],
        async (item) => Promise.reject(new Error(`${item} is broken`)),
      ),
    ).rejects.toThrow('1 is broken')
  })
})

const ENGINES = 200
const STAGES = { edge: 1, admit: 2, connect: 3, first_byte: 200, ttft: 300 }

const engineOf = (id: string): EngineDigest => ({
  id,
  role: 'any',
  weight: 1,
  available: true,
  healthy: true,
  draining: false,
  asleep: false,
  circuit: 'closed',
  requests: 3,
  activeBlocks: 40,
  queuedPrefillS: 1 / 3,
  queuedPrefillTokens: 900,
  cachedBlocks: 100,
  cacheBlocks: 1000,
  ttftMs: 250,
  hitRate: 0.4,
  requestsTotal: 9,
  failuresTotal: 1,
  stats: null,
})

/** A gateway with 200 engines, each with a completed request. `onTurn` runs while it computes the response. */
function largeGateway(onTurn: ((ttft: TtftState) => void) | null) {
  const { ports, scope } = openRecordingPorts()
  const names = Array.from({ length: ENGINES }, (_, at) => `engine-${at}`)
  const state = new TtftState({ store: null })
  state.flush({ source: 's', epoch: 1, seq: 1, records: names.map((engine) => record({ engine, stages: STAGES })) }, 0)
  const ttft: Ttft = {
    batchMs: 0,
    report: async () => [],
    find: async () => null,
    flush: async () => undefined,
    rollups: async () => state.rollups(),
    counted: async (limitsMs) => state.rollups().map((group) => countedUpTo(group, limitsMs)),
    forget: async () => undefined,
  }
  const own = ports.pool('paris', onePool.pools[0]!.model)
  const cluster: PoolPort = { ...own, digest: async () => ({ ...(await own.digest()), engines: names.map(engineOf) }) }
  let turns = 0
  const turn = async () => {
    turns += 1
    onTurn?.(state)
  }
  const gateway = createGateway(configOf(), {
    ...ports,
    pool: () => cluster,
    ttft,
    ...(onTurn === null ? {} : { yieldToEventLoop: turn }),
  })
  const get = (path: string) =>
    gateway.fetch(new Request(`http://127.0.0.1${path}`, { headers: { host: '127.0.0.1' } }), scope)
  return { get, turns: () => turns }
}

describe('before 200 engines', () => {
  it('/metrics is written in pieces with a yield after each, with the same content', async () => {
    const whole = await (await largeGateway(null).get('/metrics')).text()
    const { get, turns } = largeGateway(() => undefined)
    const pieces: number[] = []
    let text = ''
    const reader = (await get('/metrics')).body!.getReader()
    for (let before = turns(), { value } = await reader.read(); value !== undefined; { value } = await reader.read()) {
      expect(turns()).toBeGreaterThan(before)
      before = turns()
      pieces.push(value.length)
      text += new TextDecoder().decode(value)
    }
    expect(text).toBe(whole)
    expect(pieces.length).toBeGreaterThan(10)
    expect(Math.max(...pieces)).toBeLessThan(100_000)
  })

  it('/metrics has the values of the time of the request, whatever ends while it is written', async () => {
    let seq = 1
    const { get, turns } = largeGateway((state) => {
      seq += 1
      state.flush(
        { source: 's', epoch: 1, seq, records: [record({ engine: `engine-${seq % ENGINES}`, stages: STAGES })] },
        0,
      )
    })
    const families = parseExposition(await (await get('/metrics')).text())
    expect(turns()).toBeGreaterThan(10)
    const counts = (name: string) =>
      families
        .get(name.replace(/_count$/, ''))!
        .samples.filter((sample) => sample.name === name)
        .map(({ value }) => value)
    for (const name of [
      'firstlight_requests_total',
      'gen_ai_server_request_duration_seconds_count',
      'gen_ai_server_time_to_first_token_seconds_count',
    ])
      expect(counts(name)).toEqual(Array.from({ length: ENGINES }, () => 1))
    expect(new Set(counts('firstlight_stage_seconds_count'))).toEqual(new Set([1]))
  })

  it('the fleet is listed with yields, with the same content', async () => {
    const { get, turns } = largeGateway(() => undefined)
    const fleet = await (await get('/v1/firstlight/fleet')).json()
    expect(turns()).toBe(ENGINES / 25 - 1)
    expect(fleet).toEqual(await (await largeGateway(null).get('/v1/firstlight/fleet')).json())
  })
})
