import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { parseYaml } from '../../../src/config/yaml.ts'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'
import { completion } from '../../kit/sse.ts'
import { firstlight, firstlightIn } from '../run-cli.ts'

const listOf = (...ids: string[]) => ({ body: { data: ids.map((id) => ({ id, object: 'model' })) } })
const open = (...ids: string[]) =>
  FakeEngine.open({ 'GET /v1/models': listOf(...ids), 'POST *': { body: completion('hello') } })

interface ConfigText {
  readonly listen: string
  readonly keys?: readonly { readonly secret: { readonly sha256: string } }[]
  readonly clusters: readonly {
    readonly pools: readonly { readonly model: string; readonly engines: readonly { readonly url: string }[] }[]
  }[]
}

describe('firstlight init', () => {
  let folder: string
  let file: string
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'init-'))
    file = join(folder, 'firstlight.yaml')
  })
  afterEach(() => rmSync(folder, { recursive: true }))
  const written = (): ConfigText => parseYaml(readFileSync(file, 'utf8')).value as ConfigText

  it('a written configuration serves requests as it is', async () => {
    await using one = await open('Qwen/Qwen3-8B')
    await using other = await open('Qwen/Qwen3-8B')
    const { code, out, err } = await firstlight('init', one.url, `${other.url}/v1/`, '--output', file)
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toContain(`firstlight serve --config ${file}`)
    const gateway = await startNodeGateway({ ...written(), listen: '127.0.0.1:0' })
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'Qwen/Qwen3-8B', messages: [{ role: 'user', content: 'hi' }] }),
    })
    expect(response.status).toBe(200)
    await response.text()
    await gateway.close()
    expect(written().clusters[0]!.pools[0]!.engines.map(({ url }) => url)).toEqual([one.url, other.url])
  })

  it('each model gets a pool, and a server of several models is in one of them', async () => {
    await using alone = await FakeEngine.open({
      'GET /v1/models': { body: { data: [{ id: 'c' }, { id: 'lora', parent: 'c' }] } },
    })
    await using both = await open('a', 'b')
    await using one = await open('b')
    expect((await firstlight('init', alone.url, both.url, one.url, '-o', file)).code).toBe(0)
    const pools = written().clusters[0]!.pools.map(({ model, engines }) => [model, engines.map(({ url }) => url)])
    expect(pools).toEqual([
      ['c', [alone.url]],
      ['b', [both.url, one.url]],
    ])
    expect(readFileSync(file, 'utf8')).not.toContain('lora')
    expect((await firstlight('check', file)).code).toBe(0)
    const gateway = await startNodeGateway({ ...written(), listen: '127.0.0.1:0' })
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'a', messages: [{ role: 'user', content: 'hi' }] }),
    })
    expect([response.status, await response.json()]).toEqual([200, expect.anything()])
    expect(both.posts.map(({ json }) => (json as { model: string }).model)).toEqual(['a'])
    await gateway.close()
  })

  it('a gateway for other machines gets keys, and the secret is printed and not stored', async () => {
    await using engine = await open('m')
    const { code, out } = await firstlight('init', engine.url, '--listen', '0.0.0.0:8080', '--output', file)
    expect(code).toBe(0)
    const secret = /sk-fl-[\w-]{43}/.exec(out)![0]
    expect(readFileSync(file, 'utf8')).not.toContain(secret)
    expect(written().keys![0]!.secret.sha256).toMatch(/^[0-9a-f]{64}$/)
    expect(out).toContain('export FIRSTLIGHT_ADMIN_KEY=')
    expect((await firstlightIn({ env: { FIRSTLIGHT_ADMIN_KEY: 'x'.repeat(20) } }, 'check', file)).code).toBe(0)
  })

  it('two questions replace the command line on a terminal', async () => {
    await using engine = await open('m')
    const questions: string[] = []
    const answers = [` ${engine.url}, `, 'yes']
    const question = async (text: string): Promise<string> => {
      questions.push(text)
      return answers[questions.length - 1]!
    }
    expect((await firstlightIn({ question }, 'init', '--output', file)).code).toBe(0)
    expect(questions).toHaveLength(2)
    expect(written()).toMatchObject({ listen: '0.0.0.0:8080' })
  })

  it('the key of the engines is read from the environment, and only its name is written', async () => {
    await using engine = await FakeEngine.open({
      'GET /v1/models': ({ headers }) =>
        headers['authorization'] === 'Bearer hush' ? listOf('m') : { status: 401, body: { error: 'key' } },
    })
    const refused = await firstlight('init', engine.url, '--output', file)
    expect([refused.code, refused.err]).toEqual([2, expect.stringContaining('--key-env')])
    const env = { VLLM_KEY: 'hush' }
    expect((await firstlightIn({ env }, 'init', engine.url, '--key-env', 'VLLM_KEY', '-o', file)).code).toBe(0)
    const text = readFileSync(file, 'utf8')
    expect(text).toContain('key: { env: VLLM_KEY }')
    expect(text).not.toContain('hush')
  })

  it.each([
    ['http://127.0.0.1:1', 'connection refused'],
    ['ftp://a', 'is not a URL of an engine'],
  ])('an address such as %s is named with what is wrong, and nothing is written', async (url, why) => {
    const { code, err } = await firstlight('init', url, '--output', file)
    expect([code, err]).toEqual([2, expect.stringContaining(why)])
    expect(() => readFileSync(file)).toThrow('ENOENT')
  })

  it('a file that exists is kept unless --force is given', async () => {
    await using engine = await open('m')
    writeFileSync(file, 'mine')
    const { code, err } = await firstlight('init', engine.url, '--output', file)
    expect([code, err]).toEqual([2, expect.stringContaining('--force')])
    expect(readFileSync(file, 'utf8')).toBe('mine')
    expect((await firstlight('init', engine.url, '--output', file, '--force')).code).toBe(0)
    expect(written().clusters[0]!.pools[0]!.model).toBe('m')
  })
})
