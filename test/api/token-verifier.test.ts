import { exportJWK, generateKeyPair, SignJWT, UnsecuredJWT } from 'jose'
import { beforeAll, describe, expect, it } from 'vitest'
import { TokenVerifier, looksLikeToken } from '../../src/api/auth/token-verifier.ts'
import { Failure } from '../../src/failure.ts'

const NOW = Date.parse('2026-11-23T12:00:00Z')
const config = {
  jwksUrl: 'https://issuer.test/certs',
  issuer: 'https://issuer.test',
  audience: 'firstlight',
  nameClaim: 'email',
} as never
type Pair = Awaited<ReturnType<typeof generateKeyPair>>

let first: Pair
let second: Pair
beforeAll(async () => {
  ;[first, second] = await Promise.all([generateKeyPair('ES256'), generateKeyPair('RS256')])
})

/** An issuer with changeable keys, and a verifier of its tokens. */
class World {
  now = NOW
  fetches = 0
  fails = false
  keys: readonly Pair[]
  readonly verifier = new TokenVerifier(config, {
    now: () => this.now,
    log: { warn: () => undefined },
    services: {
      fetchJson: async () => {
        this.fetches++
        if (this.fails) throw new Error('no route to host')
        const keys = await Promise.all(
          this.keys.map(async (pair) => ({ ...(await exportJWK(pair.publicKey)), kid: pair === first ? 'a' : 'b' })),
        )
        return { keys }
      },
    },
  })

  constructor(keys: readonly Pair[]) {
    this.keys = keys
  }

  verdict = (token: string): Promise<string> =>
    this.verifier.name(token).catch((error: unknown) => {
      if (error instanceof Failure) return `${error.reason}: ${error.message}`
      throw error
    })
}

const sign = (pair: Pair, claims: object = {}, header: object = {}): Promise<string> =>
  new SignJWT({
    email: 'ann@example.com',
    iss: 'https://issuer.test',
    aud: 'firstlight',
    exp: NOW / 1000 + 3600,
    ...claims,
  } as never)
    .setProtectedHeader({ alg: pair === first ? 'ES256' : 'RS256', kid: pair === first ? 'a' : 'b', ...header })
    .sign(pair.privateKey)

describe('TokenVerifier', () => {
  it('TokenVerifier returns the name in the configured claim, and remembers the token until it expires', async () => {
    const world = new World([first])
    const token = await sign(first)
    expect([await world.verdict(token), await world.verdict(token)]).toEqual([
      'jwt:ann@example.com',
      'jwt:ann@example.com',
    ])
    expect(world.fetches).toBe(1)
    world.now += 3_700_000
    expect(await world.verdict(token)).toMatch(/^key_wrong: .*it has expired/)
  })

  it.each([
    [{ iss: 'https://other.test' }, "its claim 'iss'"],
    [{ aud: 'other' }, "its claim 'aud'"],
    [{ exp: undefined }, "its claim 'exp'"],
    [{ exp: NOW / 1000 - 61 }, 'it has expired'],
    [{ nbf: NOW / 1000 + 61 }, "its claim 'nbf'"],
    [{ email: undefined }, "its claim 'email'"],
    [{ email: 'a b' }, "its claim 'email'"],
    [{ email: 'x'.repeat(121) }, "its claim 'email'"],
  ])('TokenVerifier rejects %j', async (claims, why) => {
    expect(await new World([first]).verdict(await sign(first, claims))).toContain(`Invalid token: ${why}`)
  })

  it('TokenVerifier rejects signatures of other keys, without a signature, and changed claims', async () => {
    const world = new World([first])
    const foreign = await sign(second, {}, { kid: 'a', alg: 'RS256' })
    const none = new UnsecuredJWT({ email: 'ann' }).setIssuer('https://issuer.test').encode()
    const [head, , signature] = (await sign(first)).split('.')
    const claims = Buffer.from(JSON.stringify({ email: 'root', exp: 9e9, aud: 'firstlight' })).toString('base64url')
    for (const token of [foreign, `${none}x`, `${head}.${claims}.${signature}`])
      expect(await world.verdict(token)).toMatch(/^key_wrong: .*signature or its format/)
  })

  it('TokenVerifier rejects HMAC, whose secret would be the public key', async () => {
    const secret = new TextEncoder().encode(JSON.stringify(await exportJWK(first.publicKey)))
    const token = await new SignJWT({ email: 'ann' }).setProtectedHeader({ alg: 'HS256', kid: 'a' }).sign(secret)
    expect(await new World([first]).verdict(token)).toMatch(/^key_wrong/)
  })

  it('TokenVerifier fetches keys again for an unknown key id, at most every 30 s', async () => {
    const world = new World([first])
    await world.verdict(await sign(first))
    world.keys = [first, second]
    const rotated = await sign(second)
    expect(await world.verdict(rotated)).toMatch(/^key_wrong/)
    expect(world.fetches).toBe(1)
    world.now += 30_000
    expect(await world.verdict(rotated)).toBe('jwt:ann@example.com')
    expect(world.fetches).toBe(2)
  })

  it('TokenVerifier goes on with the keys it has while the issuer is away, and refuses without any', async () => {
    const world = new World([first])
    world.fails = true
    expect(await world.verdict(await sign(first))).toMatch(/^issuer_unreachable/)
    expect(await world.verdict(await sign(first, { jti: '2' }))).toMatch(/^issuer_unreachable/)
    expect(world.fetches).toBe(1)
    world.now += 30_000
    world.fails = false
    expect(await world.verdict(await sign(first))).toBe('jwt:ann@example.com')
    world.fails = true
    world.now += 601_000
    expect(await world.verdict(await sign(first, { jti: '3' }))).toBe('jwt:ann@example.com')
  })

  it('TokenVerifier tells tokens from keys', async () => {
    expect(looksLikeToken(await sign(first))).toBe(true)
    for (const text of ['sk-1234', 'a.b.c', 'eyJ.a', 'eyJhIjoxfQ..']) expect(looksLikeToken(text)).toBe(false)
  })
})
