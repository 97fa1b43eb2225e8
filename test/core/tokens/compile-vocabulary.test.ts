import { describe, expect, it } from 'vitest'
import { compileVocabulary } from '../../../src/core/tokens/compile-vocabulary.ts'
import { readTokenizerConfig } from '../../../src/core/tokens/tokenizer-config.ts'
import { unicodeClasses } from '../../../src/core/tokens/unicode-table.ts'
import { Vocabulary, VocabularyError } from '../../../src/core/tokens/vocabulary.ts'
import { familyJson, idsOf, openTokenizer, type TokenizerJson } from './families.ts'

const compile = (tokenizer: unknown): Uint8Array => compileVocabulary({ tokenizer, template: null, specials: {} })

function changed(change: (json: TokenizerJson) => void): TokenizerJson {
  const json = familyJson('qwen2')
  change(json)
  return json
}

const withModel = (fields: Record<string, unknown>): TokenizerJson =>
  changed(({ model }) => Object.assign(model, fields))

describe('compiling a vocabulary', () => {
  it.each<[string, unknown, RegExp]>([
    ['what is no tokenizer', [], /no `model`/],
    ['Unigram with words of bytes', withModel({ type: 'Unigram' }), /pre-tokenizer/],
    ['WordPiece', withModel({ type: 'WordPiece' }), /"WordPiece", not BPE/],
    ['bytes as a fallback with words of bytes', withModel({ byte_fallback: true }), /pre-tokenizer/],
    ['dropout', withModel({ dropout: 0.1 }), /dropout/],
    ['subword marks', withModel({ continuing_subword_prefix: '##' }), /continuing_subword_prefix/],
    ['word ends', withModel({ end_of_word_suffix: '</w>' }), /end_of_word_suffix/],
    ['another normalizer', changed((json) => (json.normalizer = { type: 'NFKC' })), /NFKC/],
    [
      'a normalizer in a row',
      changed((json) => (json.normalizer = { type: 'Sequence', normalizers: [{ type: 'Lowercase' }] })),
      /Lowercase/,
    ],
    ['no pre-tokenizer', changed((json) => (json.pre_tokenizer = null)), /pre-tokenizer/],
    ['another regex', changed((json) => (json.pre_tokenizer = splitBy('\\w+'))), /splits by/],
    [
      'a prefix space',
      changed((json) => (json.pre_tokenizer = { type: 'ByteLevel', add_prefix_space: true })),
      /pre-tokenizer/,
    ],
    [
      'an unknown post-processor',
      changed((json) => (json.post_processor = { type: 'BertProcessing' })),
      /post-processor/,
    ],
    [
      'whole-word tokens',
      changed((json) => Object.assign(json.added_tokens[0] as object, { single_word: true })),
      /whole words/,
    ],
    ['a byte without a token', changed(({ model }) => delete model.vocab['!']), /the byte 33/],
    ['a token that is no bytes', changed(({ model }) => (model.vocab['中'] = 5000)), /not made of bytes/],
    ['an id beyond the limit', changed(({ model }) => (model.vocab['zzzzq'] = 600_000)), /600000/],
    ['a merge of three', changed(({ model }) => model.merges.push('a b c' as never)), /"a b c" is not a pair/],
    ['a merge that is no text', changed(({ model }) => model.merges.push(null as never)), /null is not a pair/],
    [
      'an added token with an id below zero',
      changed((json) => Object.assign(json.added_tokens[0] as object, { id: -1 })),
      /an added token is .*-1/,
    ],
    [
      'an added token with half an id',
      changed((json) => Object.assign(json.added_tokens[0] as object, { id: 1.5 })),
      /an added token is .*1\.5/,
    ],
    [
      'an added token with an id beyond the limit',
      changed((json) => Object.assign(json.added_tokens[0] as object, { id: 1e9 })),
      /an added token is .*1000000000/,
    ],
    [
      'a start token without an id',
      changed((json) => (json.post_processor = startToken(['x']))),
      /names .*which it does not define/,
    ],
    ['merges of unknown tokens', changed(({ model }) => model.merges.push(['zq', 'qz'])), /unknown tokens/],
  ])('compiling a vocabulary rejects %s with a next step', (_, json, message) => {
    expect(() => compile(json)).toThrow(VocabularyError)
    expect(() => compile(json)).toThrow(message)
  })

  it('compiling a vocabulary accepts merges written as pairs or as text with a space', () => {
    const written = withModel({ merges: familyJson('qwen2').model.merges.map((pair) => pair.join(' ')) })
    expect(compile(written)).toEqual(compile(familyJson('qwen2')))
  })

  it('compiling a vocabulary follows the merges even if a whole token would match that merging never produces', () => {
    // Merge "ab" + "c" comes before "a" + "bc", so "abc" of the second merge cannot be reached from single bytes.
    const json = withModel(tinyModel())
    expect(idsOf(openTokenizer(json), 'abc')).toEqual([tokenId(json, 'ab'), tokenId(json, 'c')])
    const lax = withModel({ ...tinyModel(), ignore_merges: true })
    expect(idsOf(openTokenizer(lax), 'abc')).toEqual([tokenId(lax, 'abc')])
  })

  it('compiling a vocabulary is small: less than three bytes and the text for a token, and the classes of characters', () => {
    const file = compile(familyJson('qwen2'))
    const textBytes = Array.from(
      { length: new Vocabulary(file).size },
      (_, id) => new Vocabulary(file).bytesOf(id).length,
    ).reduce((a, b) => a + b)
    expect(file.length).toBeLessThan(textBytes + 3 * new Vocabulary(file).size + unicodeClasses.runs.length + 1000)
  })

  it('compiling a vocabulary is rejected if it is truncated or damaged', () => {
    const file = compile(familyJson('qwen2'))
    expect(() => new Vocabulary(file.subarray(0, file.length - 1))).toThrow('truncated or damaged')
    expect(() => new Vocabulary(file.subarray(0, 40))).toThrow('damaged')
    expect(() => new Vocabulary(new TextEncoder().encode('{"model": {"type": "BPE"}}'))).toThrow(
      'firstlight vocab compile',
    )
    expect(() => new Vocabulary(new Uint8Array(3))).toThrow(VocabularyError)
  })
})

describe('readTokenizerConfig', () => {
  it('readTokenizerConfig returns the template and the special tokens, written as text or as objects', () => {
    expect(
      readTokenizerConfig({ chat_template: 't', bos_token: '<s>', eos_token: { content: '</s>' }, pad_token: null }),
    ).toEqual({
      template: 't',
      specials: { bos_token: '<s>', eos_token: '</s>' },
    })
  })

  it('readTokenizerConfig uses the template named default, and requires --template without one', () => {
    expect(readTokenizerConfig(named('default')).template).toBe('d')
    expect(() => readTokenizerConfig(named('rag'))).toThrow('--template')
  })
})

const named = (name: string): unknown => ({
  chat_template: [
    { name: 'tool_use', template: 'u' },
    { name, template: 'd' },
  ],
})

const startToken = (ids: unknown): unknown => ({
  type: 'TemplateProcessing',
  single: [{ SpecialToken: { id: '<s>' } }, { Sequence: { id: 'A' } }],
  special_tokens: { '<s>': { id: '<s>', ids } },
})

const splitBy = (regex: string): unknown => ({
  type: 'Sequence',
  pretokenizers: [
    { type: 'Split', pattern: { Regex: regex }, behavior: 'Isolated', invert: false },
    { type: 'ByteLevel', add_prefix_space: false, use_regex: false },
  ],
})

const tokenId = (json: TokenizerJson, token: string): number => json.model.vocab[token] as number

/** Single bytes, and `ab`, `bc`, `abc`, whose own merge cannot be reached. */
function tinyModel(): Partial<TokenizerJson['model']> {
  const bytes = Object.entries(familyJson('qwen2').model.vocab).filter(
    ([token, id]) => id > 2 && [...token].length === 1 && id < 259,
  )
  const vocab = Object.fromEntries(bytes)
  return {
    vocab: { ...vocab, ab: 300, bc: 301, abc: 302 },
    merges: [
      ['a', 'b'],
      ['b', 'c'],
      ['a', 'bc'],
    ],
  }
}
