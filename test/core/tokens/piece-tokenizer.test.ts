import { Tokenizer } from '@huggingface/tokenizers'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { PieceTokenizer } from '../../../src/core/tokens/piece-tokenizer.ts'
import { AddedTokenFinder } from '../../../src/core/tokens/added-token-finder.ts'
import { compileVocabulary } from '../../../src/core/tokens/compile-vocabulary.ts'
import { Vocabulary, type AddedToken } from '../../../src/core/tokens/vocabulary.ts'
import { families, familyJson, idsOf, openTokenizer, texts } from './families.ts'
import { encodeUtf8 } from './support.ts'

describe.each(Object.keys(families))('the family %s', (name) => {
  const json = familyJson(name)
  const tokenizer = openTokenizer(json)

  it("a tokenizer family gives the ids that Hugging Face's Rust tokenizers recorded", () => {
    const recorded = families[name]?.ids ?? []
    expect(recorded).toHaveLength(texts.length)
    for (const [i, text] of texts.entries()) expect([text, idsOf(tokenizer, text, true)]).toEqual([text, recorded[i]])
  })

  // The JavaScript library does not support added tokens that strip or follow NFC.
  it.skipIf(name === 'added')('a tokenizer family gives the ids of @huggingface/tokenizers on random text', () => {
    const reference = new Tokenizer(json, {})
    fc.assert(
      fc.property(name === 'gpt2' ? anyText.map(withoutNextLine) : anyText, (text) => {
        expect(idsOf(tokenizer, text)).toEqual(reference.encode(text, { add_special_tokens: false }).ids)
      }),
      { numRuns: 600 },
    )
  })
})

/**
 * Removes text on which the JavaScript library differs from the Rust one (recorded above): white space in its GPT-2
 * pattern, and `'ſ` as a contraction.
 */
const withoutNextLine = (text: string): string => text.replaceAll('\u0085', '')
const anyText = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        "'s",
        "'LL",
        "don't ",
        ' ',
        '  ',
        '\n',
        '\r\n',
        '\t',
        '\u0085',
        '\u00a0',
        '12',
        '3456',
        'e\u0301',
        'Å',
        '中文',
        '한',
        'ᄒ',
        'ᅡ',
        '!',
        '==',
        '<',
        '|>',
        'The',
        ' gateway',
        'aaaa',
      ),
      fc.constantFrom('<|im_start|>', '<|im_end|>', '<|endoftext|>'),
      fc.string({ unit: 'grapheme', maxLength: 6 }),
      fc.string({ maxLength: 10 }),
    ),
    { maxLength: 20 },
  )
  .map((parts) => parts.join('').replace(/\ufeff|ſ/g, ''))

describe('the three ways to keep merges', () => {
  it.each([
    ['qwen2', 'one'],
    ['all_merges', 'all'],
    ['listed', 'list'],
  ])('%s is kept as %s', (family, merges) => {
    const file = compileVocabulary({ tokenizer: familyJson(family), template: null, specials: {} })
    expect(new Vocabulary(file).header.merges).toBe(merges)
  })
})

const message = (i: number): string =>
  `<|im_start|>user\nmessage ${i} of a long conversation, ${'and so on '.repeat(i)}<|im_end|>`

describe('caches', () => {
  it('caches change no id, however often a text is seen and in whatever order', () => {
    const tokenizer = openTokenizer(familyJson('qwen2'))
    const pool = texts.map((text) => text.repeat(6))
    const fresh = pool.map((text) => idsOf(freshTokenizer(), text))
    fc.assert(
      fc.property(fc.array(fc.nat(pool.length - 1), { maxLength: 60 }), (order) => {
        for (const i of order) expect(idsOf(tokenizer, pool[i] ?? '')).toEqual(fresh[i])
      }),
      { numRuns: 50 },
    )
  })

  it('caches give the ids of a conversation as those of its messages in a row', () => {
    const tokenizer = openTokenizer(familyJson('qwen2'))
    const apart = [1, 2, 3, 4].flatMap((i) => idsOf(freshTokenizer(), message(i)))
    expect(idsOf(tokenizer, [1, 2, 3, 4].map(message).join(''))).toEqual(apart)
    expect(idsOf(tokenizer, [1, 2, 3, 4].map(message).join(''))).toEqual(apart)
  })
})

const qwen = familyJson('qwen2')
const vocabulary = new Vocabulary(compileVocabulary({ tokenizer: qwen, template: null, specials: {} }))
/** The same vocabulary with empty caches. */
const freshTokenizer = (): PieceTokenizer => new PieceTokenizer({ vocabulary, encodeUtf8 })

const han = (length: number): string =>
  String.fromCodePoint(...Array.from({ length }, (_, i) => 0x4e00 + ((i * 7919) % 20_000)))
const letters = (length: number): string =>
  Array.from({ length }, (_, i) => String.fromCharCode(97 + ((i * i * 31 + i * 7) % 26))).join('')

const kinds: [string, (length: number) => string][] = [
  ['one letter', (length) => 'a'.repeat(length)],
  ['random letters', letters],
  ['blanks', (length) => ' '.repeat(length)],
  ['marks', (length) => '='.repeat(length)],
  ['Han', han],
]

describe('text without a split', () => {
  it.each(kinds)('text without a split takes steps in proportion to its length: %s', (_, make) => {
    const steps = (length: number): number => {
      const tokenizer = freshTokenizer()
      idsOf(tokenizer, make(length))
      return tokenizer.steps
    }
    // Twice the text is slightly more than twice the work: the heap gets one more level.
    expect(steps(20_000) / steps(10_000)).toBeLessThan(2.4)
    expect(steps(20_000)).toBeLessThan(20_000 * 3 * 25)
  })

  it('text without a split is rejected if one word or all long words together are too long', () => {
    expect(() => idsOf(freshTokenizer(), 'a'.repeat(300_000))).toThrow('without a split')
    expect(() => idsOf(freshTokenizer(), `${'a'.repeat(120_000)} `.repeat(9))).toThrow('without a split')
    expect(idsOf(freshTokenizer(), `${'a'.repeat(1000)} `.repeat(20)).length).toBeGreaterThan(1000)
  })
})

describe('combining marks', () => {
  const acute = '\u0301'
  const below = '\u0316'

  it.each([
    ['of one sort', `a${acute.repeat(200)}`],
    ['in no order', `a${acute.repeat(64)}${below.repeat(64)}`],
    ['outside the plane of two bytes', `a${'\u{1e8d0}'.repeat(100)}${'\u{1d165}'.repeat(30)}`],
    ['anywhere', `${'some é text '.repeat(33)}${acute.repeat(127)}${' and more'.repeat(10)}`],
  ])('more than a hundred in a row %s are rejected if the tokenizer normalizes', (_, text) => {
    expect(() => idsOf(freshTokenizer(), text)).toThrow('combining marks')
    expect(idsOf(openTokenizer(familyJson('llama3')), text).length).toBeGreaterThan(0)
  })

  it('combining marks of any language are accepted, however many in total', () => {
    const text = `${`a${acute.repeat(15)}${below.repeat(16)}`.repeat(500)} नमस्ते ${'\u{1e8d0}'.repeat(31)}`
    expect(idsOf(freshTokenizer(), text)).toEqual(idsOf(freshTokenizer(), text.normalize('NFC')))
  })
})

describe('added tokens', () => {
  const plain = (text: string, id: number): AddedToken => ({ id, text, left: false, right: false, normalized: false })

  it('added tokens match leftmost first, then longest', () => {
    const unit = fc.constantFrom('<', '|', 'a', '🙂')
    const token = fc.array(unit, { maxLength: 4 }).map((units) => units.join(''))
    fc.assert(
      fc.property(
        fc.uniqueArray(token, { maxLength: 8 }),
        fc.array(unit, { maxLength: 30 }),
        fc.nat(10),
        (tokens, units, from) => {
          const text = units.join('')
          const found = new AddedTokenFinder(tokens.map(plain)).find(text, from)
          const places = tokens.flatMap((one, id) =>
            one === '' ? [] : [{ id, at: text.indexOf(one, from), length: one.length }],
          )
          const [first] = places.filter(({ at }) => at >= 0).sort((a, b) => a.at - b.at || b.length - a.length)
          expect(found).toEqual(
            first === undefined ? null : { id: first.id, from: first.at, to: first.at + first.length },
          )
        },
      ),
      { numRuns: 1000 },
    )
  })

  it('added tokens take linear time even if hundreds have a common start', () => {
    let compared = 0
    const reserved = Array.from({ length: 256 }, (_, id) => plain(`<|reserved_special_token_${id}|>`, id))
    class TokenCounts extends String {
      override charAt(at: number): string {
        compared++
        return super.charAt(at)
      }
      override startsWith(other: string, at: number): boolean {
        compared++
        return super.startsWith(other, at)
      }
    }
    const text = new TokenCounts('<|'.repeat(10_000)) as unknown as string
    expect(new AddedTokenFinder(reserved).find(text, 0)).toBeNull()
    expect(compared).toBeLessThan(4 * 10_000)
  })

  it('after NFC normalization match in NFC', () => {
    const json = familyJson('qwen2')
    const id = Math.max(...Object.values(json.model.vocab)) + 1
    json.added_tokens.push({
      id,
      content: 'cafe\u0301',
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: true,
      special: false,
    } as (typeof json.added_tokens)[number])
    for (const text of ['cafe\u0301', 'caf\u00e9']) expect(idsOf(openTokenizer(json), text)).toEqual([id])
  })
})
