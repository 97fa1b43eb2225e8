import { expect, it, vi } from 'vitest'
import { Keyring } from '../../src/api/keys.ts'

it('a keyring remembers a right secret and no wrong one, so that guesses fill no memory', async () => {
  const hashing = vi.spyOn(crypto.subtle, 'digest')
  const ring = new Keyring([{ secret: 'right', holder: 'team' }])
  const hashes = async (secret: string): Promise<number> => {
    hashing.mockClear()
    await ring.find(secret)
    return hashing.mock.calls.length
  }
  expect(await ring.find('right')).toBe('team')
  expect(await ring.find('wrong')).toBeNull()
  expect(await hashes('right')).toBe(0)
  expect(await hashes('wrong')).toBe(1)
  hashing.mockRestore()
})

/** Of `right`: `printf right | sha256sum`. */
const SHA256 = '27042f4e6eca7d0b2a7ee4026df2ecfa51d3339e6d122aa099118ecd8563bad9'

it('a keyring that knows only the hash of a secret lets in whoever has the secret, and nobody who has the hash', async () => {
  const ring = new Keyring([{ secret: { sha256: SHA256 }, holder: 'team' }, { secret: 'other', holder: 'others' }])
  const found = await Promise.all(['right', 'other', SHA256, `sha256:${SHA256}`, 'Right', 'right\n', ''].map((secret) => ring.find(secret)))
  expect(found).toEqual(['team', 'others', null, null, null, null, null])
})
