import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { compileVocabulary } from '../../../src/core/tokens/compile-vocabulary.ts'
import { readTokenizerConfig } from '../../../src/core/tokens/tokenizer-config.ts'
import { openVocabulary } from '../../../src/vocabulary.ts'
import { analyzerOf, requestOf } from './support.ts'

const vector = (path: string): unknown =>
  JSON.parse(readFileSync(new URL(`../../vectors/${path}`, import.meta.url), 'utf8'))
const { texts, chats } = vector('tokens.json') as {
  texts: { text: string; ids: number[] }[]
  chats: { chat: Record<string, unknown>; ids: number[] }[]
}
const file = compileVocabulary({
  tokenizer: vector('model/tokenizer.json'),
  ...readTokenizerConfig(vector('model/tokenizer_config.json')),
})
const analyzer = analyzerOf(await openVocabulary(file))

const ids = (endpoint: 'tokenize' | 'chat', body: unknown): number[] | string => {
  const measured = analyzer.measure(requestOf(endpoint, body, { withIds: true }))
  return measured.ids === null ? String(measured.inexact) : [...measured.ids]
}

describe('ids recorded from vLLM', () => {
  it.each(texts.map(({ text, ids: expected }, i) => [i, text, expected] as const))('text %i', (_, prompt, expected) => {
    expect(ids('tokenize', { prompt })).toEqual(expected)
  })

  it.each(chats.map(({ chat, ids: expected }, i) => [i, chat, expected] as const))('chat %i', (_, chat, expected) => {
    expect(ids('chat', chat)).toEqual(expected)
  })
})
