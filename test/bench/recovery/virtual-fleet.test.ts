import { describe, expect, it } from 'vitest'
import { type ClientRequest, VirtualFleet } from '../../../packages/bench/recovery/virtual-fleet.ts'
import { profileNamed } from '../../../packages/simulator/src/profiles.ts'

describe('a fleet in virtual time', () => {
  const request: ClientRequest = {
    tenant: 'usual',
    promptTokens: 500,
    outputTokens: 20,
    blocks: new Uint32Array(0),
    patienceMs: 60_000,
  }
  const profile = profileNamed('demo')
  const started = (): VirtualFleet => new VirtualFleet({ engines: [profile, profile, profile], random: () => 0.5 })

  function load(fleet: VirtualFleet, ms: number): void {
    for (const end = fleet.now + ms; fleet.now < end; fleet.run(fleet.now + 200)) fleet.send(request)
  }

  it('a fleet in virtual time answers requests in the time that its engines need', () => {
    const fleet = started()
    const served = fleet.send(request)
    fleet.run(1_000)
    expect(served.firstTokenAt).toBeGreaterThan(100)
    expect(served.endedAt).toBeGreaterThan(served.firstTokenAt!)
    expect(fleet.state.bookings).toBe(0)
  })

  it('a fleet in virtual time ejects an engine that stops, and uses it again after it continues', () => {
    const fleet = started()
    load(fleet, 10_000)
    fleet.models[0]!.freeze(true, fleet.now)
    load(fleet, 10_000)
    expect(fleet.events).toMatchObject([{ event: 'engine_down', engine: 'engine-0', condition: 'wedged' }])
    fleet.models[0]!.freeze(false, fleet.now)
    load(fleet, 10_000)
    expect(fleet.events.slice(1, 2)).toMatchObject([{ event: 'engine_up', engine: 'engine-0' }])
  })

  it('a fleet in virtual time gives requests to an engine that joins', () => {
    const fleet = started()
    load(fleet, 5_000)
    fleet.join([profile])
    load(fleet, 20_000)
    expect(new Set(fleet.served.map(({ engine }) => engine))).toContain('engine-3')
    fleet.run(fleet.now + 20_000)
    expect(fleet.state.bookings).toBe(0)
  })

  it('a fleet in virtual time frees the engine and the booking of a client that leaves', () => {
    const fleet = started()
    fleet.send({ ...request, leavesAtMs: 50 })
    fleet.run(60)
    expect(fleet.state.bookings).toBe(0)
    expect(fleet.models.map(({ running, waiting }) => running + waiting)).toEqual([0, 0, 0])
  })
})
