import { describe, expect, it } from 'vitest'
import { RegionLedger } from '../../../src/core/edge/region-ledger.ts'
import type { RegionShare } from '../../../src/core/edge/sync.ts'
import { bookingKey } from '../../../src/core/pool/bookings.ts'
import { admission, engine, failed, outcome, pool } from '../../kit/pool-fixtures.ts'

const NOW = 1_000_000

function open() {
  const ledger = new RegionLedger({ cluster: 'paris', pool: 'qwen', engine: 'paris', random: () => 0.5, epoch: 'e' })
  const engines = [{ ...engine('paris', { maxInFlight: 8 }), isGateway: true }]
  ledger.state.configure(1, pool({ engines, retry: { share: 0, minPerS: 1 } }), NOW)
  return ledger
}

const share = (changes: Partial<RegionShare> = {}): RegionShare => ({
  cluster: 'paris',
  pool: 'qwen',
  draining: false,
  circuit: null,
  acknowledged: 0,
  fraction: 1,
  elsewhere: 0,
  ...changes,
})

/** Number of requests that the ledger books before it refuses. */
function booked(ledger: RegionLedger, attempt = 0): number {
  for (let count = 0; ; count++) if ('refusal' in ledger.state.admit(admission({ attempt }), NOW)) return count
}

describe('the ledger of an isolate', () => {
  it.each([
    [{}, 8],
    [{ fraction: 0.5 }, 4],
    [{ elsewhere: 6 }, 2],
    [{ elsewhere: 20 }, 1],
  ])('the ledger of an isolate books its part of max_in_flight: %j gives %i', (changes, count) => {
    const ledger = open()
    ledger.follow(share(changes), NOW)
    expect(booked(ledger)).toBe(count)
  })

  it('the ledger of an isolate has its part of the retry minimum, ten seconds of it', () => {
    const ledger = open()
    ledger.follow(share({ fraction: 0.3 }), NOW)
    expect(booked(ledger, 1)).toBe(3)
  })

  it('the ledger of an isolate reports a circuit that its own requests open, once, and no change for one that it follows', () => {
    const ledger = open()
    const changes: boolean[] = []
    for (let n = 0; n < 3; n++) {
      const made = admission({ tenant: `team-${n}` })
      ledger.state.admit(made, NOW)
      ledger.state.release(bookingKey(made), failed, NOW)
      changes.push(ledger.touched(bookingKey(made)))
    }
    expect(changes).toEqual([false, false, true])
    expect(ledger.report(NOW)).toMatchObject({ changes: 1, circuit: { state: 'open', leftMs: 10_000 } })
    expect(ledger.takeDecisions()).toHaveLength(3)
    expect(ledger.takeDecisions()).toHaveLength(0)

    const other = open()
    const circuit = { state: 'open', leftMs: 4_000, openings: 1 } as const
    other.follow(share({ circuit }), NOW)
    expect(other.touched(null)).toBe(false)
    expect(booked(other)).toBe(0)
    other.follow(share({ circuit: { state: 'closed', leftMs: 0, openings: 0 } }), NOW)
    expect(booked(other)).toBe(8)
  })

  it('the ledger of an isolate does not follow a circuit that is older than its own change', () => {
    const ledger = open()
    const circuit = { state: 'open', leftMs: 0, openings: 1 } as const
    ledger.follow(share({ circuit }), NOW)
    const trial = admission()
    ledger.state.admit(trial, NOW)
    ledger.touched(bookingKey(trial))
    ledger.state.release(bookingKey(trial), outcome(), NOW)
    expect(ledger.touched(bookingKey(trial))).toBe(true)
    ledger.follow(share({ circuit: { ...circuit, leftMs: 9_000 }, acknowledged: 0 }), NOW)
    expect(ledger.report(NOW).circuit.state).toBe('closed')
  })

  it('the ledger of an isolate drains and undrains', () => {
    const ledger = open()
    ledger.follow(share({ draining: true }), NOW)
    expect(booked(ledger)).toBe(0)
    ledger.follow(share(), NOW)
    expect(booked(ledger)).toBe(8)
  })
})
