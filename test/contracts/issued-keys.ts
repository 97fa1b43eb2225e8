/** Keys that an operator makes at run time, and teams of keys, on any runtime. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { FakeEngine } from '../kit/fake-engine.ts'
import { ADMIN_KEY, openGateway, type Runtime, runtimeNames, type TestGateway } from '../kit/gateway.ts'
import { completion } from '../kit/sse.ts'

const admin = { headers: { authorization: `Bearer ${ADMIN_KEY}` } }

/** Key as the API shows it, or an error. */
interface KeyView {
  readonly name: string
  readonly source: string
  readonly key: string
  readonly usage?: object
  readonly error: { readonly param: string; readonly message: string }
}

export function issuedKeysContract(runtime: Runtime): void {
  describe(`keys made at run time on ${runtimeNames[runtime]}`, () => {
    let folder: string
    let engine: FakeEngine
    let gateway: TestGateway

    beforeEach(async () => {
      folder = mkdtempSync(join(tmpdir(), 'issued-keys-'))
      engine = await FakeEngine.open({ 'POST *': { body: completion('hello') } })
      const file = runtime === 'node' ? { file: join(folder, 'keys', 'keys.json') } : {}
      gateway = await openGateway({
        runtime,
        engines: [engine],
        config: {
          open: false,
          admin: { secret: ADMIN_KEY },
          keys: [{ name: 'configured', secret: 'configured-secret', team: 'small' }],
          teams: [
            { name: 'small', limits: { requests_per_min: 2 } },
            { name: 'none', models: ['n'] },
          ],
          issued_keys: file,
        },
        pool: { aliases: ['n'] },
      })
    })
    afterEach(async () => {
      await gateway.close()
      await engine.close()
      rmSync(folder, { recursive: true })
    })

    const make = async (body: object): Promise<{ readonly status: number; readonly json: KeyView }> => {
      const response = await gateway.post('/v1/firstlight/keys', body, admin)
      return { status: response.status, json: (await response.json()) as KeyView }
    }
    const chat = async (secret: string, changes: object = {}): Promise<{ status: number; text: string }> => {
      const response = await gateway.chat(changes, { headers: { authorization: `Bearer ${secret}` } })
      return { status: response.status, text: await response.text() }
    }
    const list = async (): Promise<readonly KeyView[]> =>
      ((await (await gateway.get('/v1/firstlight/keys')).json()) as { keys: KeyView[] }).keys
    const revoke = (name: string): Promise<Response> =>
      fetch(`${gateway.url}/v1/firstlight/keys/${name}`, { method: 'DELETE', ...admin })

    it('the list has all rights of a key', async () => {
      const rights = {
        team: 'none',
        models: ['n'],
        class: 'sheddable',
        weight: 2,
        priority: 3,
        allow_overrides: true,
        ttft_deadline_ms: 500,
        budgets: [{ per: 'day', tokens: 1000, engine_s: null, money: null, at_end: 'sheddable' }],
      }
      const { status } = await make({
        name: 'ada',
        ...rights,
        budgets: [{ per: 'day', tokens: 1000, at_end: 'sheddable' }],
      })
      expect(status).toBe(200)
      expect((await list()).find(({ name }) => name === 'ada')).toMatchObject({
        ...rights,
        regions: null,
        region_order: null,
        limits: null,
      })
    })

    it('a new key is accepted until it is revoked', async () => {
      const { status, json } = await make({ name: 'ada', owner: 'Ada', limits: { requests_per_min: 100 } })
      expect(status).toBe(200)
      expect(json).toMatchObject({ name: 'ada', owner: 'Ada', source: 'issued', limits: { requests_per_min: 100 } })
      expect(json.key).toMatch(/^sk-fl-[0-9a-f]{64}$/)
      expect((await chat(json.key)).status).toBe(200)
      expect((await chat('configured-secret')).status).toBe(200)
      expect((await revoke('ada')).status).toBe(200)
      expect((await chat(json.key)).status).toBe(401)
      expect((await revoke('ada')).status).toBe(404)
      if (runtime === 'node')
        expect(gateway.logged('admin_action')).toMatchObject([
          { action: 'issue_key', name: 'ada', owner: 'Ada' },
          { action: 'revoke_key', name: 'ada' },
        ])
      await gateway.idle()
    })

    it('no view and no file contains a secret', async () => {
      const { json } = await make({ name: 'ada' })
      const secret = json.key
      await chat(secret)
      const listed = await list()
      expect(await (await gateway.get('/v1/firstlight/keys')).json()).toHaveProperty('issued_keys', true)
      expect(listed.map(({ name, source }) => `${source} ${name}`)).toEqual(['configuration configured', 'issued ada'])
      expect(listed[1]!.usage).toMatchObject({ requests: 1, refused: 0 })
      for (const path of ['keys', 'fleet', 'usage'])
        expect(await (await gateway.get(`/v1/firstlight/${path}`)).text()).not.toContain(secret)
      expect(JSON.stringify(listed)).not.toMatch(/[0-9a-f]{64}|configured-secret/)
      expect(JSON.stringify(gateway.lines)).not.toContain(secret)
      if (runtime === 'node') expect(readFileSync(join(folder, 'keys', 'keys.json'), 'utf8')).not.toContain(secret)
    })

    it('a body that is not valid is refused with path and rule, and makes no key', async () => {
      const cases = [
        [{ name: 'configured' }, 'name', 'there is a key with this name'],
        [{ name: 'a b' }, 'name', 'must be 1 to 63 letters'],
        [{ name: 'x', models: ['m', 'unknown'] }, 'models[1]', 'is served by no pool'],
        [{ name: 'x', team: 'smal' }, 'team', 'did you mean "small"'],
        [{ name: 'x', expires: '2020-01-31' }, 'expires', 'is in the past'],
        [{ name: 'x', expires: 'soon' }, 'expires', 'must be a date'],
        [{ name: 'x', limits: { requests_per_min: 0 } }, 'limits.requests_per_min', 'must be at least 1'],
        [{ name: 'x', secret: 'own' }, 'secret', 'is not a known key'],
        [{ name: 'x', cache_salt: { env: 'HOME' } }, 'cache_salt', 'is not a known key'],
        [{}, 'name', 'is required'],
      ] as const
      for (const [body, param, rule] of cases) {
        const { status, json } = await make(body)
        expect([status, json.error.param], JSON.stringify(body)).toEqual([400, param])
        expect(json.error.message.toLowerCase()).toContain(rule)
      }
      expect(await list()).toHaveLength(1)
    })

    it('a name is given once', async () => {
      expect((await make({ name: 'ada' })).status).toBe(200)
      expect((await make({ name: 'ada' })).json.error).toMatchObject({ param: 'name' })
    })

    it('keys made at run time only the administrator makes, lists and revokes keys', async () => {
      const { json } = await make({ name: 'ada' })
      const headers = { authorization: `Bearer ${json.key}` }
      expect((await gateway.post('/v1/firstlight/keys', { name: 'eve' }, { headers })).status).toBe(401)
      expect((await fetch(`${gateway.url}/v1/firstlight/keys`, { headers })).status).toBe(401)
      expect((await fetch(`${gateway.url}/v1/firstlight/keys/ada`, { method: 'DELETE', headers })).status).toBe(401)
      expect(await list()).toHaveLength(2)
    })

    it('a key of the configuration is not revoked here', async () => {
      const response = await revoke('configured')
      expect([response.status, await response.text()]).toEqual([400, expect.stringContaining('in the configuration')])
    })

    it('the models of a team are those of its keys that name none', async () => {
      const { json } = await make({ name: 'ada', team: 'none' })
      expect((await chat(json.key, { model: 'n' })).status).toBe(200)
      expect((await chat(json.key)).status).toBe(404)
    })

    it('all keys of a team share its limits', async () => {
      const { json } = await make({ name: 'ada', team: 'small' })
      expect((await chat(json.key)).status).toBe(200)
      expect((await chat('configured-secret')).status).toBe(200)
      const refused = await chat('configured-secret')
      expect(refused.status).toBe(429)
      expect(refused.text).toContain('The team small has reached its limit of 2 requests per minute')
      const other = await make({ name: 'bob' })
      expect((await chat(other.json.key)).status).toBe(200)
    })
  })
}
