import { expect, it } from 'vitest'
import { readPool } from '../../../src/core/contract/decode.ts'
import { pool } from '../../kit/pool-fixtures.ts'

it('decoding fills in the fields of an engine that an older edge does not send', () => {
  expect(readPool({ ...pool(), engines: [{ id: 'a' }] }).engines[0]).toMatchObject({ id: 'a', role: 'any', weight: 1 })
})

it('decoding keeps fields that are not in this version', () => {
  expect(readPool({ ...pool(), tomorrow: true } as never)).toMatchObject({ tomorrow: true })
})

it('decoding rejects a pool without a field that every edge sends, and names the field', () => {
  const { leaseMs: _leaseMs, circuit: _circuit, ...incomplete } = pool()
  expect(() => readPool(incomplete)).toThrow(
    'pool "qwen" of cluster "paris": leaseMs, circuit must be set. ' +
      'Deploy the same version of the gateway and of the Durable Objects.',
  )
})
