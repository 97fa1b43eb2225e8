import { describe, expect, it, vi } from 'vitest'
import { Authenticator } from '../../src/api/auth/authenticator.ts'
import { keyOrAdmin } from '../../src/api/auth/key-or-admin.ts'
import { KeyStore } from '../../src/api/auth/key-store.ts'
import type { Failure } from '../../src/failure.ts'
import { configOf } from '../kit/recording-ports.ts'
import { unusedPorts } from '../kit/unused-ports.ts'

it('a key store caches valid secrets only, so that guesses use no memory', async () => {
  const hashing = vi.spyOn(crypto.subtle, 'digest')
  const ring = new KeyStore([{ secret: 'right', holder: 'team' }])
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

const ports = { ...unusedPorts, now: () => Date.now(), log: { warn: () => undefined } }

/** Output of `printf right | sha256sum`. */
const SHA256 = '27042f4e6eca7d0b2a7ee4026df2ecfa51d3339e6d122aa099118ecd8563bad9'

it('a key store with only the hash of a secret accepts the secret and rejects the hash', async () => {
  const ring = new KeyStore([
    { secret: { sha256: SHA256 }, holder: 'team' },
    { secret: 'other', holder: 'others' },
  ])
  const found = await Promise.all(
    ['right', 'other', SHA256, `sha256:${SHA256}`, 'Right', 'right\n', ''].map((secret) => ring.find(secret)),
  )
  expect(found).toEqual(['team', 'others', null, null, null, null, null])
})

describe('a key of its own beside the admin key', () => {
  const keys = [{ name: 'a', secret: 'client-secret-1' }]
  const verdict = async (admin: string | undefined, secret: string | null, shown: string | null): Promise<string> => {
    const authenticator = new Authenticator(configOf({ keys, ...(admin === undefined ? {} : { admin }) }), ports)
    const headers = new Headers(shown === null ? {} : { authorization: `Bearer ${shown}` })
    return keyOrAdmin(
      authenticator,
      secret,
      'metrics.key',
    )(headers).then(
      () => 'in',
      (error: unknown) => `${(error as Failure).reason}: ${(error as Failure).message}`,
    )
  }

  it('its own key beside the admin key opens alone, and so does the admin key', async () => {
    expect(await verdict(undefined, 'scraper-secret', 'scraper-secret')).toBe('in')
    expect(await verdict('admin-secret', 'scraper-secret', 'admin-secret')).toBe('in')
  })

  it('its own key beside the admin key reports what is missing or wrong if no admin key is configured', async () => {
    expect(await verdict(undefined, 'scraper-secret', 'other')).toBe(
      'key_wrong: Invalid key. It must equal metrics.key of the configuration.',
    )
    expect(await verdict(undefined, 'scraper-secret', null)).toBe(
      'key_missing: No key was given. Send metrics.key as `authorization: Bearer <key>`.',
    )
  })

  it('its own key beside the admin key is named if neither is configured', async () => {
    expect(await verdict(undefined, null, 'other')).toBe(
      'not_configured: Access is disabled. Set metrics.key or admin.secret in the configuration and send it as a bearer token.',
    )
  })
})
