import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { compileVocabulary } from '../../../src/core/tokens/compile-vocabulary.ts'
import { readTokenizerConfig } from '../../../src/core/tokens/tokenizer-config.ts'
import { visitPool } from './ask.ts'
import { FASTAPI, jsonOf, realVllm, recorded } from './recorded-vllm.ts'
import type { Routes } from '../../kit/fake-answer.ts'
import { useEngines } from '../../kit/use-engines.ts'

const stub = useEngines(FASTAPI)

const modelFile = (name: string): Record<string, unknown> =>
  JSON.parse(readFileSync(new URL(`../../vectors/model/${name}`, import.meta.url), 'utf8')) as Record<string, unknown>
const vocabulary = (changes: object = {}): Uint8Array =>
  compileVocabulary({
    tokenizer: modelFile('tokenizer.json'),
    ...readTokenizerConfig({ ...modelFile('tokenizer_config.json'), ...changes }),
  })

/** Two engines with recorded responses; the second one with changes. */
async function pair(changes: Routes = {}, pool: object = {}, files: Readonly<Record<string, Uint8Array>> = {}) {
  const [a, b] = await Promise.all([stub(realVllm), stub({ ...realVllm, ...changes })])
  return visitPool(
    {
      model: 'tiny',
      ...pool,
      engines: [
        { id: 'a', url: a.url },
        { id: 'b', url: b.url },
      ],
    },
    files,
  )
}
const withVocabulary = (file: Uint8Array, changes?: Routes) =>
  pair(changes, { tokenizer: 'tiny.vocab' }, { 'tiny.vocab': file })
const models = (change: object) => {
  const list = jsonOf('models') as { data: object[] }
  return { 'GET /v1/models': { body: { ...list, data: [{ ...list.data[0], ...change }] } } }
}

describe('firstlight doctor for the engines of one pool', () => {
  it('doctor for a pool finds no difference', async () => {
    expect((await pair()).find('alike').mark).toBe('ok')
  })

  it.each<[string, Routes, string, string]>([
    ['models', models({ root: 'models/other' }), 'same_model: problem', 'a: models/tiny | b: models/other'],
    ['lengths', models({ max_model_len: 2048 }), 'same_length: warning', 'a: 4096 | b: 2048'],
    ['versions', { 'GET /version': { body: { version: '0.31.0' } } }, 'same_version: note', 'a: 0.32.0 | b: 0.31.0'],
    [
      'block sizes',
      {
        'GET /metrics': {
          body: recorded.metrics.replace('{_block_size_resolved="True",block_size="32"', '{block_size="64"'),
        },
      },
      'same_blocks: note',
      'a: 32 | b: 64',
    ],
    ['tokenizers', { 'POST /tokenize': { body: { tokens: [1, 2, 3] } } }, 'same_tokens: problem', '(a | b)'],
    [
      'chat templates',
      {
        'POST /tokenize': ({ text }) => ({
          body: text.includes('"messages"') ? { tokens: [1, 2, 3] } : recorded.tokenize,
        }),
      },
      'same_template: problem',
      '(a | b)',
    ],
  ])('doctor for a pool finds different %s', async (_, changes, mark, says) => {
    const seen = await pair(changes)
    expect(seen.marks).toContain(mark)
    expect(seen.find(mark.split(':')[0]!).message).toContain(says)
  })
})

describe('firstlight doctor and a vocabulary', () => {
  it('doctor with a vocabulary explains a missing vocabulary', async () => {
    expect((await pair()).find('vocabulary')).toMatchObject({
      mark: 'note',
      next: expect.stringContaining('firstlight vocab compile'),
    })
  })

  it('doctor with a vocabulary finds the same ids and the same template as a real engine', async () => {
    const seen = await withVocabulary(vocabulary())
    expect(seen.find('vocabulary')).toMatchObject({ mark: 'ok', message: 'tiny.vocab: same token ids as a, b' })
    expect(seen.find('chat_template').mark).toBe('ok')
  })

  it('doctor with a vocabulary finds another template', async () => {
    const seen = await withVocabulary(
      vocabulary({ chat_template: '{% for m in messages %}{{ m.content }}{% endfor %}' }),
    )
    expect(seen.find('vocabulary').mark).toBe('ok')
    expect(seen.find('chat_template')).toMatchObject({
      mark: 'problem',
      message: 'differs from that of a, b: other token ids for the sample chat',
    })
    expect(seen.code).toBe(1)
  })

  it('doctor with a vocabulary reports other token ids and the engine', async () => {
    const seen = await withVocabulary(vocabulary(), { 'POST /tokenize': { body: { tokens: [7, 8] } } })
    expect(seen.find('vocabulary')).toMatchObject({
      mark: 'problem',
      message: 'tiny.vocab differs from b: other token ids for the sample text',
    })
  })

  it('doctor with a vocabulary reports a missing or damaged file', async () => {
    expect((await pair({}, { tokenizer: 'gone.vocab' })).find('vocabulary')).toMatchObject({
      mark: 'problem',
      message: expect.stringContaining("vocabulary 'gone.vocab': cannot be read"),
    })
    expect((await withVocabulary(new Uint8Array(9))).find('vocabulary').mark).toBe('problem')
  })
})
