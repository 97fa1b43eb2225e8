import { env } from 'cloudflare:workers'
import { evictDurableObject } from 'cloudflare:test'
import { expect, it } from 'vitest'
import { decodeIssuedKey } from '../../src/core/keys/issued-key.ts'

const keyOf = (name: string) => decodeIssuedKey({ name, sha256: 'a'.repeat(64), createdAt: 1 })!
const open = () => env.EDGE.getByName('edge:issued-keys')

it('keys outlive an eviction of their object', async () => {
  const stub = open()
  const { version, keys } = (await stub.readIssuedKeys(null))!
  expect(keys).toEqual([])
  expect(await stub.addIssuedKey(keyOf('ada'))).toBe(true)
  expect(await stub.addIssuedKey(keyOf('ada'))).toBe(false)
  await evictDurableObject(stub)
  const stored = (await open().readIssuedKeys(version))!
  expect(stored.keys).toEqual([keyOf('ada')])
  expect(await open().readIssuedKeys(stored.version)).toBeNull()
  expect(await open().removeIssuedKey('ada')).toBe(true)
  expect(await open().removeIssuedKey('ada')).toBe(false)
  expect((await open().readIssuedKeys(stored.version))!.keys).toEqual([])
})
