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
