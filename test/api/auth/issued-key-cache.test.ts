import { expect, it } from 'vitest'
import { ANYONE } from '../../../src/api/auth/caller.ts'
import { callerByKey } from '../../../src/api/auth/find-caller.ts'
import { IssuedKeyCache } from '../../../src/api/auth/issued-key-cache.ts'
import { decodeIssuedKey, type IssuedKey } from '../../../src/core/keys/issued-key.ts'
import { sha256 } from '../../../src/sha256.ts'

const keyOf = async (name: string): Promise<IssuedKey> =>
  decodeIssuedKey({ name, sha256: await sha256(`secret of ${name}`), createdAt: 1 })!

/** A store that counts its reads. */
function world() {
  const state = { keys: [] as IssuedKey[], version: 0, reads: 0, isDown: false, now: 0, warnings: 0 }
  const cache = new IssuedKeyCache({
    store: {
      read: async (known) => {
        state.reads += 1
        if (state.isDown) throw new Error('down')
        return known === String(state.version) ? null : { version: String(state.version), keys: state.keys }
      },
      add: async () => true,
      remove: async () => true,
    },
    refreshMs: 5_000,
    callerOf: ({ name }) => ({ ...ANYONE, tenant: name }),
    now: () => state.now,
    log: { warn: () => void (state.warnings += 1) },
  })
  const change = async (...names: string[]): Promise<void> => {
    state.keys = await Promise.all(names.map(keyOf))
    state.version += 1
  }
  const tenant = async (name: string) => (await cache.find(`secret of ${name}`))?.caller.tenant ?? null
  return { state, cache, change, tenant }
}

it('a key that was made elsewhere is accepted within a second', async () => {
  const { state, change, tenant } = world()
  expect(await tenant('ada')).toBeNull()
  await change('ada')
  state.now = 1_000
  expect(await tenant('ada')).toBe('ada')
})

it('a key that was revoked elsewhere is accepted for the refresh time at most', async () => {
  const { state, change, tenant } = world()
  await change('ada')
  expect(await tenant('ada')).toBe('ada')
  await change()
  state.now = 4_999
  expect(await tenant('ada')).toBe('ada')
  state.now = 5_000
  expect(await tenant('ada')).toBeNull()
})

it('a key that was made with an end is accepted until then', async () => {
  const { state, cache } = world()
  const sha = await sha256('secret-of-ada')
  const expires = '1970-01-01T00:01:00.000Z'
  state.keys = [decodeIssuedKey({ name: 'ada', sha256: sha, createdAt: 1, expires })!]
  const find = callerByKey(cache, () => state.now)
  const ask = () => find(new Headers({ authorization: 'Bearer secret-of-ada' }), false)
  state.now = 59_999
  expect((await ask()).tenant).toBe('ada')
  state.now = 60_000
  await expect(ask()).rejects.toMatchObject({ reason: 'key_expired' })
})

it('unknown secrets cause one read in a second', async () => {
  const { state, tenant } = world()
  for (let tries = 0; tries < 100; tries++) await tenant(`stranger ${tries}`)
  expect(state.reads).toBe(1)
  state.now = 1_000
  for (let tries = 0; tries < 100; tries++) await tenant(`stranger ${tries}`)
  expect(state.reads).toBe(2)
})

it('a store that is away leaves the last copy in use', async () => {
  const { state, change, tenant } = world()
  await change('ada')
  expect(await tenant('ada')).toBe('ada')
  state.isDown = true
  state.now = 60_000
  expect(await tenant('ada')).toBe('ada')
  expect([state.reads, state.warnings]).toEqual([2, 1])
})

it('a store that was never read refuses nobody for good', async () => {
  const { state, change, tenant } = world()
  await change('ada')
  state.isDown = true
  await expect(tenant('ada')).rejects.toMatchObject({ reason: 'state_unreachable' })
  state.isDown = false
  state.now = 1_000
  expect(await tenant('ada')).toBe('ada')
})
