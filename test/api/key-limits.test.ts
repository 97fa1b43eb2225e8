import { expect, it } from 'vitest'
import { type RequestLimiter, reserve } from '../../src/api/key-limits.ts'
import { UNLIMITED } from '../../src/core/limits/key-limiter.ts'
import type { KeyLimits } from '../../src/core/limits/key-limits.ts'
import { openRecordingPorts } from '../kit/recording-ports.ts'

/** A limiter with renewals, and timers that a test rings. */
function setUp() {
  const renewed: string[] = []
  const settled: string[] = []
  let ring: (() => void) | null = null
  const limiter: RequestLimiter = {
    reserve: () => ({ exceeded: null, retryAfterMs: 0, requests: null, tokens: null }),
    settle: ({ id }) => void settled.push(id),
    renewal: {
      everyMs: 10_000,
      async renew({ key, id }) {
        renewed.push(`${key} ${id}`)
        if (renewed.length === 1) throw new Error('the object is out of reach')
      },
    },
  }
  const timers = {
    set(delayMs: number, next: () => void) {
      expect(delayMs).toBe(10_000)
      ring = next
      return { cancel: () => void (ring = null) }
    },
  }
  const context = { limiter, ports: openRecordingPorts().ports }
  const ask = (limits: Partial<KeyLimits>) =>
    reserve(context, { tenant: 'ada', limits: { ...UNLIMITED, ...limits }, team: null }, request)
  const request = { id: 'r', timers, promptTokens: 1, sequences: 1, outputLimit: null }
  return { renewed, settled, ask, ring: () => ring?.(), isSet: () => ring !== null }
}

it('a request with a limit of concurrent requests is renewed until it is settled, also after a failed renewal', async () => {
  const { renewed, settled, ask, ring, isSet } = setUp()
  const permit = await ask({ concurrent: 3 })
  ring()
  ring()
  expect(renewed).toEqual(['ada r', 'ada r'])
  await permit!.settle(null)
  expect(settled).toEqual(['r'])
  expect(isSet()).toBe(false)
})

it('a request without that limit costs no renewals', async () => {
  const { ask, isSet } = setUp()
  await ask({ requestsPerMin: 3 })
  expect(isSet()).toBe(false)
})
