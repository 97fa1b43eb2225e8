import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { examineWorker, readPace } from '../../../src/cli/doctor/worker.ts'
import type { Subject } from '../../../src/cli/doctor/finding.ts'
import { chat, type Isolates, startIsolates } from '../../edge/isolates.ts'

const options = { limitMs: 5_000, sampleMs: 1 }
const marksOf = ({ findings }: Subject) => Object.fromEntries(findings.map(({ check, mark }) => [check, mark]))

describe('doctor --worker', () => {
  let edge: Isolates
  beforeAll(async () => {
    edge = await startIsolates({ isolates: 1, regions: ['a'] })
    await chat(edge.urls[0]!, 'hello')
  })
  afterAll(() => edge.close())

  const examine = (headers: Readonly<Record<string, string>>) => examineWorker({ url: edge.urls[0]!, headers }, options)

  it('reports placement and shared state of a Worker', async () => {
    const placed = await examine({ authorization: 'Bearer admin', 'cf-placement': 'remote-FRA' })
    expect(marksOf(placed)).toMatchObject({ ready: 'ok', cf_placement: 'ok', shared_state: 'ok' })
    const local = await examine({ authorization: 'Bearer admin', 'cf-placement': 'local-EWR' })
    expect(marksOf(local)).toMatchObject({ cf_placement: 'note' })
  })

  it('doctor --worker asks for the admin key', async () => {
    const subject = await examine({ authorization: 'Bearer wrong' })
    expect(marksOf(subject)).toEqual({ ready: 'ok', admin_key: 'note' })
  })

  it('doctor --worker reports a Worker that does not answer', async () => {
    expect(marksOf(await examineWorker({ url: 'http://127.0.0.1:9', headers: {} }, options))).toEqual({
      reachable: 'unreachable',
    })
  })
})

it('the pace of admit is read over all engines', () => {
  const text = [
    'firstlight_stage_seconds_bucket{engine="a",stage="admit",le="0.01"} 90',
    'firstlight_stage_seconds_bucket{engine="a",stage="admit",le="0.02"} 100',
    'firstlight_stage_seconds_bucket{engine="a",stage="admit",le="+Inf"} 100',
    'firstlight_stage_seconds_bucket{engine="b",stage="admit",le="0.01"} 100',
    'firstlight_stage_seconds_bucket{engine="b",stage="admit",le="0.02"} 100',
    'firstlight_stage_seconds_bucket{engine="b",stage="admit",le="+Inf"} 100',
    'firstlight_stage_seconds_bucket{engine="b",stage="edge",le="+Inf"} 900',
  ].join('\n')
  const answer = { status: 200, headers: {}, text, tookMs: 1, at: 0 }
  expect(readPace(answer)).toEqual({ calls: 200, p99S: 0.02 })
  expect(readPace({ ...answer, text: '' })).toBeNull()
})

/** A Worker whose counter of admits grows by `growth` with each read of `/metrics`. */
async function paceOf(growth: number) {
  let calls = 100
  const server = await FakeEngine.open({
    'GET /metrics': () => {
      calls += growth
      const body =
        `firstlight_stage_seconds_bucket{stage="admit",le="0.002"} ${calls}\n` +
        `firstlight_stage_seconds_bucket{stage="admit",le="+Inf"} ${calls}\n`
      return { body }
    },
    '*': { body: { status: 'ready', shared: true, pools: [] } },
  })
  const { url } = server
  try {
    const { findings } = await examineWorker({ url, headers: {} }, options)
    return findings.find(({ check }) => check === 'admit')
  } finally {
    await server.close()
  }
}

it('more admits than one object serves are a reason for shards', async () => {
  expect(await paceOf(0)).toMatchObject({ mark: 'ok' })
  expect(await paceOf(10_000)).toMatchObject({ mark: 'warning', next: expect.stringContaining('`shards`') })
})
