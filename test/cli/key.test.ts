import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createHash } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { parseYaml } from '../../src/config/yaml.ts'
import { firstlight } from './run-cli.ts'
import { startNodeGateway } from '../kit/node-gateway.ts'

const folder = mkdtempSync(join(tmpdir(), 'key-'))
afterAll(() => rmSync(folder, { recursive: true }))

const cluster = { id: 'c', pools: [{ model: 'm', engines: [{ id: 'e', url: 'http://127.0.0.1:9' }] }] }
/** Configuration snippets in the output, each as a document. */
const snippets = (out: string): { readonly keys: readonly { readonly secret: Record<string, string> }[] }[] =>
  [...out.matchAll(/^ {2}keys:\n {4}- .*$/gm)].map(([text]) => parseYaml(text.replaceAll(/^ {2}/gm, '')).value as never)

describe('firstlight key', () => {
  it('firstlight key generates a different key each time, with 256 bits, and prints it once', async () => {
    const { code, out, err } = await firstlight('key', 'team-a')
    expect({ code, err }).toEqual({ code: 0, err: '' })
    const secret = out.split('\n')[0]!
    expect(secret).toMatch(/^sk-fl-[\w-]{43}$/)
    expect(out.split(secret)).toHaveLength(2)
    expect((await firstlight('key', 'team-a')).out.split('\n')[0]).not.toBe(secret)
  })

  it('firstlight key prints configuration that accepts only this key, by hash and by name', async () => {
    const { out } = await firstlight('key', 'team-a')
    const secret = out.split('\n')[0]!
    const [hashed, named] = snippets(out)
    expect(hashed!.keys).toEqual([
      { name: 'team-a', secret: { sha256: createHash('sha256').update(secret).digest('hex') } },
    ])
    expect(named!.keys).toEqual([{ name: 'team-a', secret: { env: 'TEAM_A_KEY' } }])
    expect(out).toContain('export TEAM_A_KEY=')
    expect(out).toContain('wrangler secret put TEAM_A_KEY')
    const gateway = await startNodeGateway({ ...hashed, clusters: [cluster] })
    const models = (key: string) =>
      fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } }).then(({ status }) => status)
    expect([
      await models(secret),
      await models(`${secret}x`),
      await models(hashed!.keys[0]!.secret['sha256']!),
    ]).toEqual([200, 401, 401])
    await gateway.close()
  })

  it('firstlight key prints a hash that conflicts with the key in the same document', async () => {
    const { out } = await firstlight('key', 'team-a')
    const secret = out.split('\n')[0]!
    const file = join(folder, 'twice.json')
    writeFileSync(file, JSON.stringify({ ...snippets(out)[0], admin: { secret }, clusters: [cluster] }))
    const { code, err } = await firstlight('check', file)
    expect([code, err]).toEqual([1, expect.stringContaining('keys[0].secret: is also the secret of admin')])
    expect(err).not.toContain(secret)
  })

  it('firstlight key writes a file that only its owner may read, even if it was readable before', async () => {
    const file = join(folder, 'new.json')
    const { out } = await firstlight('key', 'b.2', '--json', file)
    const secret = out.split('\n')[0]!
    expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({
      name: 'b.2',
      key: secret,
      sha256: createHash('sha256').update(secret).digest('hex'),
      env: 'B_2_KEY',
    })
    expect(statSync(file).mode & 0o777).toBe(0o600)
    const old = join(folder, 'old.json')
    writeFileSync(old, '{}')
    chmodSync(old, 0o644)
    await firstlight('key', '--json', old)
    expect(statSync(old).mode & 0o777).toBe(0o600)
  })

  it.each([
    [[], 'client', 'CLIENT_KEY'],
    [['7up'], '7up', 'CLIENT_7UP_KEY'],
    [['1.5'], '1.5', 'CLIENT_1_5_KEY'],
    [['True'], 'True', 'TRUE_KEY'],
    [['a-'], 'a-', 'A_KEY'],
  ])('%j is named %s, its variable %s', async (argv, name, env) => {
    const [hashed, named] = snippets((await firstlight('key', ...argv)).out)
    expect([hashed, named].map((document) => document!.keys[0])).toMatchObject([{ name }, { name, secret: { env } }])
  })

  it.each([
    [['team a'], 'NAME must be 1 to 63 letters'],
    [['\u001b[2J'], 'got "\\u001b[2J"'],
    [['a', 'b'], 'one key at a time'],
    [['--json', folder], 'is a folder'],
  ])('%j ends with 2 and no key', async (argv, says) => {
    const { code, out, err } = await firstlight('key', ...argv)
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toContain(says)
  })
})
