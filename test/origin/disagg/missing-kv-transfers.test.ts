import { expect, it } from 'vitest'
import { MissingKvTransfers } from '../../../src/origin/disagg/missing-kv-transfers.ts'

const p0 = { kind: 'server' as const, id: 'p0', url: 'http://p0', headers: [], binding: null }
const PATH = '/v1/messages'

it('S30: after three legs in a row without a KV transfer, further ones are left out for a minute', () => {
  const missing = new MissingKvTransfers()
  for (const now of [0, 1, 2]) {
    expect(missing.isKnown(p0, PATH, now)).toBe(false)
    missing.missed(p0, PATH, now)
  }
  expect(missing.isKnown(p0, `${PATH}?beta=true`, 60_001)).toBe(true)
  expect(missing.isKnown(p0, '/v1/chat/completions', 3)).toBe(false)
  expect(missing.isKnown(p0, PATH, 60_002)).toBe(false)
  // The leg that is tried then shows that nothing has changed.
  missing.missed(p0, PATH, 60_002)
  expect(missing.isKnown(p0, PATH, 60_003)).toBe(true)
})

it('a KV transfer in between starts the count again', () => {
  const missing = new MissingKvTransfers()
  missing.missed(p0, PATH, 0)
  missing.missed(p0, PATH, 0)
  missing.transferred(p0, PATH)
  missing.missed(p0, PATH, 0)
  expect(missing.isKnown(p0, PATH, 1)).toBe(false)
})
