import { expect, it } from 'vitest'
import { cachedTokensOf } from '../../src/dashboard/decision.ts'
import type { Decision } from '../../src/dashboard/wire.ts'

const seen = (placement: object, actual: object | null) =>
  cachedTokensOf({ placement, actual } as unknown as Pick<Decision, 'placement' | 'actual'>)

it('a decision shows cached tokens of whole requests, not of the decode leg of a split', () => {
  expect(seen({ kind: 'whole', engine: 'a' }, { cached_tokens: 512 })).toBe(512)
  expect(seen({ kind: 'whole', engine: 'a' }, { cached_tokens: null })).toBeNull()
  expect(seen({ kind: 'whole', engine: 'a' }, null)).toBeNull()
  expect(seen({ kind: 'split', prefill: 'p', decode: 'd' }, { cached_tokens: 0 })).toBeNull()
  expect(seen({ kind: 'staged', encode: ['e'], prefill: 'p', decode: 'd' }, { cached_tokens: 0 })).toBeNull()
  expect(seen({ kind: 'staged', encode: ['e'], prefill: null, decode: 'd' }, { cached_tokens: 64 })).toBe(64)
})
