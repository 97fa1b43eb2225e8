/** Result of probing a gateway, depending on its digest. */
import { describe, expect, it } from 'vitest'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import type { EngineSignal } from '../../../src/core/contract/engine-signal.ts'
import type { PoolRoute } from '../../../src/origin/pool-route.ts'
import { FleetProbe } from '../../../src/origin/probes/fleet-probe.ts'
import type { PoolPort } from '../../../src/ports/pool.ts'
import { unusedPorts } from '../../kit/unused-ports.ts'
import type { Ports } from '../../../src/ports.ts'
import { admission, engine, failed, pool } from '../../kit/pool-fixtures.ts'

function open() {
  const state = new PoolState({ random: () => 0.5, epoch: 'e' })
  const world = { now: 1_000_000, answers: true, signals: [] as EngineSignal[], probes: 0 }
  state.configure(
    1,
    pool({ engines: [engine('paris', { isGateway: true })], circuit: { failures: 3, openMs: 60_000 } }),
    world.now,
  )
  const ports = {
    pool: () =>
      ({
        observe: async (signals: readonly EngineSignal[]) => {
          world.signals.push(...signals)
          return state.observe(signals, world.now)
        },
      }) as Partial<PoolPort> as PoolPort,
    ...unusedPorts,
    now: () => world.now,
    origin: {} as Ports['origin'],
    log: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
  } as Partial<Ports> as Ports
  const digests = { refresh: async () => (world.probes++, world.answers) }
  const route = {
    cluster: { id: 'paris', gateway: {} },
    pool: { model: 'qwen', statsIntervalMs: 2_000 },
    targets: new Map([['paris', { kind: 'gateway', id: 'paris', url: 'http://r', headers: [], binding: null }]]),
  } as unknown as PoolRoute
  const probe = new FleetProbe([route], ports, { digests, via: '1.1 a' })
  /** A round one second later. Resolves with whether the gateway gets requests. */
  const round = async (answers: boolean): Promise<boolean> => {
    world.now += 1_000
    world.answers = answers
    await probe.round()
    return isGiven()
  }
  const isGiven = () => state.digest(world.now).engines[0]!.available
  const fail = () => {
    const booked = state.admit(admission(), world.now)
    if ('refusal' in booked) throw new Error(booked.refusal.detail)
    state.release(booked.key, { ...failed, failedEngine: 'paris' }, world.now)
  }
  return { world, round, isGiven, fail }
}

describe('a gateway', () => {
  it('a gateway without one digest still gets requests', async () => {
    const { round } = open()
    await round(true)
    for (let i = 0; i < 10; i++) expect(await round(i % 3 === 2)).toBe(true)
  })

  it('without three digests in a row gets none until the next digest, and is probed every second', async () => {
    const { round, world } = open()
    const given = []
    for (const answers of [true, true, false, false, false, false, true, true]) given.push(await round(answers))
    // The second round of responding gateways sends no query: it is not due.
    expect(given).toEqual([true, true, true, true, false, false, true, true])
    expect(world.probes).toBe(6)
  })

  it('a gateway gets requests again with its next digest, whatever failed meanwhile', async () => {
    const { round, isGiven, fail } = open()
    await round(true)
    await round(true)
    for (let i = 0; i < 3; i++) fail()
    expect(isGiven()).toBe(false)
    expect(await round(false)).toBe(false)
    expect(await round(true)).toBe(true)
  })
})
