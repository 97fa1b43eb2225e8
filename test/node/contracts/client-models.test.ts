import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { compileVocabulary } from '../../../src/core/tokens/compile-vocabulary.ts'
import { readTokenizerConfig } from '../../../src/core/tokens/tokenizer-config.ts'
import { clientModelsContract } from '../../contracts/client-models.ts'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { MODEL, openGateway } from '../../kit/gateway.ts'

clientModelsContract('node')

const modelFile = (name: string): Record<string, unknown> =>
  JSON.parse(readFileSync(new URL(`../../vectors/model/${name}`, import.meta.url), 'utf8')) as Record<string, unknown>

it('the vocabulary of the pool counts tokens if no engine does, and the request is logged and settled', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'firstlight-count-'))
  const tokenizer = join(folder, 'sim.vocab')
  const config = readTokenizerConfig(modelFile('tokenizer_config.json'))
  writeFileSync(tokenizer, compileVocabulary({ tokenizer: modelFile('tokenizer.json'), ...config }))
  const engine = await FakeEngine.open({ 'POST *': { status: 404, body: { detail: 'Not Found' } } })
  await using gateway = await openGateway({ engines: [engine], pool: { tokenizer } })
  const count = async (content: string) => {
    const body = { model: MODEL, messages: [{ role: 'user', content }] }
    const response = await gateway.post('/v1/messages/count_tokens', body)
    return [response.status, ((await response.json()) as { input_tokens: number }).input_tokens] as const
  }
  const [status, short] = await count('hi')
  expect([status, short > 0]).toEqual([200, true])
  expect((await count('hi '.repeat(100)))[1]).toBeGreaterThan(short + 90)
  await gateway.idle()
  expect(gateway.logged('request').filter(({ path }) => path === '/v1/messages/count_tokens')).toMatchObject([
    { status: 200, result: 'complete' },
    { status: 200, result: 'complete' },
  ])
  await engine.close()
  rmSync(folder, { recursive: true })
})
