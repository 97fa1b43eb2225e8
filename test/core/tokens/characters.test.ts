import { Tokenizer } from '@huggingface/tokenizers'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { compileVocabulary } from '../../../src/core/tokens/compile-vocabulary.ts'
import { Vocabulary, VocabularyError } from '../../../src/core/tokens/vocabulary.ts'
import { characterJson, recorded, type CharacterJson } from './characters.ts'
import { idsOf, openTokenizer } from './families.ts'

const names = Object.keys(recorded.families)

describe.each(names)('a vocabulary like that of %s', (name) => {
  const tokenizer = openTokenizer(characterJson(name))
  const { ids } = recorded.families[name]!

  it("a vocabulary of characters gives the ids that Hugging Face's Rust tokenizers recorded", () => {
    expect(ids).toHaveLength(recorded.texts.length)
    for (const [i, text] of recorded.texts.entries())
      expect([text, idsOf(tokenizer, text, true)]).toEqual([text, ids[i]])
  })

  it('a vocabulary of characters gives the same ids from its caches, at the start of a prompt and elsewhere', () => {
    const long = recorded.texts.map((text) => text.repeat(4)).filter((text) => text.length > 64)
    const first = long.map((text) => idsOf(tokenizer, text))
    const later = long.map((text) => idsOf(tokenizer, `</s>${text}`))
    const fresh = openTokenizer(characterJson(name))
    expect(long.map((text) => idsOf(fresh, `</s>${text}`))).toEqual(later)
    expect(long.map((text) => idsOf(fresh, text))).toEqual(first)
  })
})

const anyText = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        ' ',
        '  ',
        '\n',
        '\n\n',
        '\t',
        '▁',
        'the ',
        ' gateway',
        'routing',
        'aaaa',
        '<0x41>',
        '中文',
        '한',
      ),
      fc.constantFrom('<s>', '</s>', '<unk>', 'e\u0301', '🙂', '\u200d', '\u00ad', 'ﬁ', 'q'),
      fc.string({ unit: 'grapheme', maxLength: 6 }),
      fc.string({ maxLength: 10 }),
    ),
    { maxLength: 20 },
  )
  .map((parts) => parts.join('').replaceAll('\ufeff', ''))

describe('on random text', () => {
  it.each(['gemma', 'llama2'])('%s gives the ids of @huggingface/tokenizers', (name) => {
    const json = characterJson(name)
    const tokenizer = openTokenizer(json)
    const reference = new Tokenizer(json as never, {})
    fc.assert(
      fc.property(anyText, (text) => {
        expect(idsOf(tokenizer, text)).toEqual(reference.encode(text, { add_special_tokens: false }).ids)
      }),
      { numRuns: 2000 },
    )
  })

  it('pieces that no merge crosses give the ids of the whole text', () => {
    const json = characterJson('gemma')
    const tokenizer = openTokenizer(json)
    // A merge of each letter with a mark, far behind all others: no text is divided any more.
    const whole = structuredClone(json)
    const vocab = whole.model['vocab'] as Record<string, number>
    const letters = Object.keys(vocab).filter((token) => [...token].length === 1)
    let id = 100_000
    for (const left of letters) for (const right of letters) vocab[left + right] ??= id++
    const undivided = openTokenizer(whole)
    fc.assert(
      fc.property(anyText, (text) => {
        expect(idsOf(tokenizer, text)).toEqual(idsOf(undivided, text))
      }),
      { numRuns: 300 },
    )
  })
})

const kinds: [string, (length: number) => string][] = [
  ['one letter', (length) => 'a'.repeat(length)],
  ['blanks', (length) => ' '.repeat(length)],
  ['marks', (length) => '▁'.repeat(length)],
  ['a token again and again', (length) => 'routing'.repeat(length / 7)],
  ['unknown characters', (length) => '𓀀'.repeat(length / 4)],
]

describe.each(['gemma', 'llama2', 't5', 'unigram_bytes'])('hostile text for %s', (name) => {
  it.each(kinds)('hostile text takes steps in proportion to its length: %s', (_, make) => {
    const steps = (length: number): number => {
      const tokenizer = openTokenizer(characterJson(name))
      idsOf(tokenizer, make(length))
      return tokenizer.steps
    }
    // `max`: some of it takes no steps at all.
    expect(steps(20_000)).toBeLessThan(2.4 * Math.max(100, steps(10_000)))
    expect(steps(20_000)).toBeLessThan(20_000 * 3 * 25)
  })

  it('hostile text is rejected if one word is too long', () => {
    // What no merge crosses is no long word for BPE; a run of blanks is.
    const text = name === 'gemma' || name === 'llama2' ? ' '.repeat(100_000) : 'a'.repeat(300_000)
    expect(() => idsOf(openTokenizer(characterJson(name)), text)).toThrow('without a split')
  })
})

const changed = (name: string, change: (json: CharacterJson) => void): CharacterJson => {
  const json = characterJson(name)
  change(json)
  return json
}
const compile = (json: CharacterJson): Uint8Array =>
  compileVocabulary({ tokenizer: json, template: null, specials: {} })

describe('compiling a vocabulary of characters', () => {
  it.each([
    ['gemma', 'list'],
    ['llama2', 'all'],
    ['t5', 'scores'],
  ])('%s keeps its merges as %s', (name, merges) => {
    expect(new Vocabulary(compile(characterJson(name))).header.merges).toBe(merges)
  })

  it.each<[string, CharacterJson, RegExp]>([
    [
      'a byte without a token',
      changed('gemma', ({ model }) => delete (model['vocab'] as object)['<0x41>' as never]),
      /the byte 65/,
    ],
    ['whole pieces first', changed('gemma', ({ model }) => (model['ignore_merges'] = true)), /ignore_merges/],
    [
      'merges of bytes',
      changed('gemma', ({ model }) => {
        ;(model['vocab'] as Record<string, number>)['<0x41><0x42>'] = 5000
        ;(model['merges'] as string[][]).push(['<0x41>', '<0x42>'])
      }),
      /single bytes/,
    ],
    ['another normalizer', changed('gemma', (json) => (json.normalizer = { type: 'Lowercase' })), /Lowercase/],
    ['a damaged table', changed('t5', (json) => (json.normalizer = precompiled('AAAA'))), /damaged/],
    ['another regex', changed('t5', (json) => (json.normalizer = replace({ Regex: '\\s+' }))), /Replace/],
    ['another pre-tokenizer', changed('gemma', (json) => (json.pre_tokenizer = { type: 'Digits' })), /Digits/],
    ['a split that finds blanks', changed('gemma', (json) => (json.normalizer = null)), /pre-tokenizer/],
    ['Unigram without words', changed('t5', (json) => (json.pre_tokenizer = null)), /division into words/],
    ['Unigram without an unknown token', changed('t5', ({ model }) => (model['unk_id'] = null)), /unk_id/],
    ['a piece without a score', changed('t5', ({ model }) => (model['vocab'] = [['a']])), /id 0|unk_id/],
  ])('compiling a vocabulary of characters rejects %s with a next step', (_, json, message) => {
    expect(() => compile(json)).toThrow(VocabularyError)
    expect(() => compile(json)).toThrow(message)
  })

  it('compiling a vocabulary of characters accepts ids beyond 2^18, as Gemma 3 has them', () => {
    const json = changed('gemma', ({ added_tokens: added }) => added.push({ id: 262_144, content: '<image>' }))
    expect(idsOf(openTokenizer(json), 'a<image>').at(-1)).toBe(262_144)
  })
})

const precompiled = (map: string): unknown => ({ type: 'Precompiled', precompiled_charsmap: map })
const replace = (pattern: unknown): unknown => ({ type: 'Replace', pattern, content: ' ' })
