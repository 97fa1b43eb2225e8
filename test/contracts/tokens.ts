/** Tokens of an identity provider and keys that expire, on any runtime. */
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { FakeEngine } from '../kit/fake-engine.ts'
import { runtimeNames, startRuntime, type RunningGateway, type Runtime } from '../kit/gateway.ts'

export function tokenContract(runtime: Runtime): void {
  const name = runtimeNames[runtime]
  describe(`tokens and expiring keys on ${name}`, () => {
    let gateway: RunningGateway
    let sign: (claims?: object) => Promise<string>
    let issuer: FakeEngine

    beforeAll(async () => {
      const pair = await generateKeyPair('ES256')
      const keys = [{ ...(await exportJWK(pair.publicKey)), kid: 'a' }]
      issuer = await FakeEngine.open({ 'GET /certs': { body: { keys } } })
      const exp = Math.floor(Date.now() / 1000) + 600
      sign = (claims = {}) =>
        new SignJWT({
          email: 'ann@example.com',
          iss: 'https://issuer.test',
          aud: 'firstlight',
          exp,
          ...claims,
        } as never)
          .setProtectedHeader({ alg: 'ES256', kid: 'a' })
          .sign(pair.privateKey)
      gateway = await startRuntime(runtime, {
        log: { level: 'silent' },
        keys: [
          { name: 'old', secret: 'old-secret', expires: '2026-01-31' },
          { name: 'new', secret: 'new-secret', expires: '2999-01-31T00:00:00Z' },
          {
            name: 'rotated',
            models: ['b'],
            secrets: [
              { secret: 'first-secret', expires: '2026-01-31' },
              { secret: 'second-secret', from: '2026-01-01', expires: '2999-01-31' },
              { secret: 'third-secret' },
              { secret: 'fourth-secret', from: '2999-01-01' },
            ],
          },
        ],
        jwt: {
          jwks_url: `${issuer.url}/certs`,
          issuer: 'https://issuer.test',
          audience: 'firstlight',
          name_claim: 'email',
          models: ['a'],
        },
        clusters: [
          {
            id: 'c',
            pools: ['a', 'b'].map((model) => ({
              model,
              engines: [{ id: model, url: `http://127.0.0.1:9/${model}` }],
            })),
          },
        ],
      })
    }, 60_000)
    afterAll(async () => {
      await gateway.close()
      await issuer.close()
    })

    const models = async (key: string, headers: Record<string, string> = {}): Promise<readonly [number, unknown]> => {
      const all = { authorization: `Bearer ${key}`, ...headers }
      const response = await fetch(`${gateway.url}/v1/models`, { headers: all })
      const body = (await response.json()) as { data?: { id: string }[]; error?: { code: string } }
      return [response.status, body.error?.code ?? body.data?.map(({ id }) => id)]
    }

    it(`with tokens and expiring keys, ${name} serves the owner of a valid token with the rights of \`jwt\``, async () => {
      expect(await models(await sign())).toEqual([200, ['a']])
    })

    it(`with tokens and expiring keys, ${name} serves a key before it expires, and not afterwards`, async () => {
      expect(await models('new-secret')).toEqual([200, ['a', 'b']])
      expect(await models('old-secret')).toEqual([401, 'expired_api_key'])
    })

    it(`with tokens and expiring keys, ${name} accepts each secret of a key from its beginning until its end`, async () => {
      expect(await models('first-secret')).toEqual([401, 'expired_api_key'])
      expect(await models('second-secret')).toEqual([200, ['b']])
      expect(await models('third-secret')).toEqual([200, ['b']])
      expect(await models('fourth-secret')).toEqual([401, 'invalid_api_key'])
    })

    it(`with tokens and expiring keys, ${name} rejects a token of another audience, and a changed one`, async () => {
      expect(await models(await sign({ aud: 'other' }))).toEqual([401, 'invalid_api_key'])
      expect(await models(`${await sign()}A`)).toEqual([401, 'invalid_api_key'])
    })

    it(`with tokens, ${name} tries the x-api-key beside a token of another issuer`, async () => {
      const foreign = await sign({ iss: 'https://other.test' })
      expect(await models(foreign, { 'x-api-key': 'new-secret' })).toEqual([200, ['a', 'b']])
      expect(await models('eyJhbGciOiJub25lIn0.x.y', { 'x-api-key': 'new-secret' })).toEqual([200, ['a', 'b']])
      expect(await models(foreign, { 'x-api-key': 'no-secret' })).toEqual([401, 'invalid_api_key'])
      expect(await models(foreign)).toEqual([401, 'invalid_api_key'])
    })

    it(`with tokens, ${name} rejects an expired or changed token of its issuer, also beside a valid x-api-key`, async () => {
      const key = { 'x-api-key': 'new-secret' }
      expect(await models(await sign(), key)).toEqual([200, ['a']])
      expect(await models(await sign({ exp: 1 }), key)).toEqual([401, 'invalid_api_key'])
      expect(await models(await sign({ aud: 'other' }), key)).toEqual([401, 'invalid_api_key'])
      expect(await models(`${await sign()}A`, key)).toEqual([401, 'invalid_api_key'])
    })
  })
}
