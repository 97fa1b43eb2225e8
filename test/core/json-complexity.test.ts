import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { exceedsJsonComplexity } from '../../src/core/json-complexity.ts'

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)
/** Pieces of a document: the smallest limit that accepts it. */
function piecesOf(text: string): number {
  const bytes = bytesOf(text)
  let low = 0
  let high = 6 * bytes.length
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    if (exceedsJsonComplexity(bytes, middle)) low = middle + 1
    else high = middle
  }
  return low
}

/** Slot in which src/core/json-complexity.ts looks up a name that is the first of its object. */
function slotOf(name: string): number {
  let hash = 256
  for (const byte of bytesOf(name)) hash = Math.imul(hash ^ byte, 0x9e3779b1)
  return (hash ^ (hash >>> 15)) & 255
}

const list = <const T>(count: number, of: (at: number) => T): T[] => Array.from({ length: count }, (_, at) => of(at))
const each = (count: number, value: unknown): number => piecesOf(JSON.stringify(value)) / count

/** Bounds from the parsed document, in 64ths of a piece: every name counted as new (`most`) or as known (`least`). */
function bounds(value: unknown, text: string): { readonly min: number; readonly max: number } {
  let min = 0
  let names = 0
  const visit = (one: unknown): void => {
    if (typeof one === 'string') min += 192
    if (typeof one !== 'object' || one === null) return
    min += Array.isArray(one) ? 128 : 384
    if (!Array.isArray(one)) {
      names += Object.keys(one).length
      min += 192 * Object.keys(one).length
    }
    Object.values(one).forEach(visit)
  }
  visit(value)
  // Every other byte counts too; the comma and the digits of a fraction count at most 48.
  return { min, max: min + 577 * names + 48 * text.length + 320 * (text.match(/\\/g)?.length ?? 0) }
}

describe('the pieces of a document', () => {
  it('the pieces of a document are between the costs with all names known and with all names new', () => {
    const documents = fc.tuple(
      fc.jsonValue({ stringUnit: fc.constantFrom('"', '\\', '[', '{', ',', ':', 'a', 'é', '\n') }),
      fc.constantFrom('', ' ', '\n\t'),
    )
    fc.assert(
      fc.property(documents, ([value, space]) => {
        const text = JSON.stringify(value, null, space)
        const { min, max } = bounds(JSON.parse(text), text)
        const pieces = piecesOf(text)
        expect(pieces).toBeGreaterThanOrEqual(Math.min(Math.floor(min / 64), 6 * text.length))
        expect(pieces).toBeLessThanOrEqual(Math.ceil(max / 64))
      }),
    )
  })

  // A piece is 0.1 us of JSON.parse. Numbers in brackets: longest measured time in us.
  it.each<[string, number, unknown]>([
    ['a new name (0.9)', 12, Object.fromEntries(list(10_000, (at) => [`k${at}`, 1]))],
    ['a new name that is an index (0.35)', 12, Object.fromEntries(list(10_000, (at) => [4099 * at, 1]))],
    ['a mapping of a new name (1.7)', 18, list(10_000, (at) => ({ [`k${at}`]: 1 }))],
    ['a mapping of a known name (1.0, when there are too many kinds of mappings)', 9, list(10_000, () => ({ a: 1 }))],
    [
      'the same again in a row of eight (0.1 each)',
      30,
      list(10_000, () => ({ a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, h: 1 })),
    ],
    ['a mapping (0.1)', 6, list(10_000, () => ({}))],
    ['a list (0.1)', 2.2, list(10_000, () => [])],
    ['a short text (0.2 to 0.5)', 3, list(10_000, String)],
    ['a short text with an escape (0.4 to 0.9)', 8, list(10_000, (at) => `\n${at}`)],
    ['a long text (0.1)', 3, list(10_000, () => 'a'.repeat(500))],
    ['a token id (0.02)', 0.3, list(10_000, (at) => 100_000 + at)],
    ['a fraction (0.07)', 1, list(10_000, (at) => at + 0.5)],
  ])('the pieces of a document count %s as %f', (_, pieces, value) => {
    const found = each(10_000, value)
    expect(found).toBeGreaterThan(pieces)
    expect(found).toBeLessThan(1.2 * pieces + 0.1)
  })

  it('the pieces of a document of mappings with the same few names in ever another order are those of new names', () => {
    let state = 1
    const shuffled = (): [string, number][] =>
      list(100, (at) => at)
        .map((at) => ({ at, by: (state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0) }))
        .sort((a, b) => a.by - b.by)
        .slice(0, 8)
        .map(({ at }) => [`q${at}`, 1])
    expect(
      each(
        1_000,
        list(1_000, () => Object.fromEntries(shuffled())),
      ),
    ).toBeGreaterThan(6 + 8 * 11)
  })

  // V8's time for a sequence of names depends on the first one: such documents took 0.3 s when only that one counted.
  it.each<[string, (at: number) => [string, unknown]]>([
    // Found by the hash: all names have one slot.
    [
      'a new name in the same slot',
      (() => {
        const found: string[] = []
        for (let at = 0; found.length < 1_000; at++) if (slotOf(`"q${at}"`) === 7) found.push(`q${at}`)
        return (at: number): [string, unknown] => [found[at]!, 1]
      })(),
    ],
    ['a new name with a mapping behind it', (at) => [`k${at}`, {}]],
    ['a new name with mappings in a list behind it', (at) => [`k${at}`, [{ a: 1 }, 2, { a: { b: 1 } }]]],
    ['a long name', (at) => [`${'long '.repeat(20)}${at}`, 1]],
  ])('the pieces of a document of known names behind %s equal those of new names', (_, first) => {
    const row = Object.fromEntries(list(20, (at) => [`r${at}`, 1]))
    expect(
      each(
        1_000,
        list(1_000, (at) => ({ ...Object.fromEntries([first(at)]), ...row })),
      ),
    ).toBeGreaterThan(6 + 21 * 12)
  })

  it('the pieces of a document of a row with a known beginning equal those of new names if it never continued that way', () => {
    const row = Object.fromEntries(list(20, (at) => [`r${at}`, 1]))
    expect(
      each(
        500,
        list(500, (at) => [{ [`k${at}`]: 1 }, { [`k${at}`]: 1, ...row }]),
      ),
    ).toBeGreaterThan(6 + 12 + 6 + 3 + 20 * 12)
  })

  it('the pieces of a document of names with equal beginnings behind an escaped quote are separate', () => {
    expect(each(1_000, Object.fromEntries(list(1_000, (at) => [`"${at}`, 1])))).toBeGreaterThan(12)
    expect(each(1_000, Object.fromEntries(list(1_000, (at) => [`${'long '.repeat(20)}${at}`, 1])))).toBeGreaterThan(12)
  })

  const call = (at: number) => ({
    id: `call_${at}`,
    type: 'function',
    function: { name: 'weather', arguments: '{"city":"Paris"}' },
  })
  it.each<[string, unknown]>([
    [
      'a conversation of 25,000 messages',
      { messages: list(25_000, (at) => ({ role: at % 2 ? 'user' : 'assistant', content: `Message ${at}` })) },
    ],
    [
      'one of 10,000 messages in parts',
      { messages: list(10_000, (at) => ({ role: 'user', content: [{ type: 'text', text: `Message ${at}` }] })) },
    ],
    [
      'one of 10,000 messages, half of them calls',
      {
        messages: list(10_000, (at) =>
          at % 2
            ? { role: 'tool', tool_call_id: `call_${at - 1}`, content: 'Rain' }
            : { role: 'assistant', content: null, tool_calls: [call(at)] },
        ),
      },
    ],
    [
      'a tool of 10,000 properties',
      {
        tools: [
          {
            parameters: {
              properties: Object.fromEntries(
                list(10_000, (at) => [`property_${at}`, { type: 'string', description: `What ${at} is` }]),
              ),
            },
          },
        ],
      },
    ],
    ['a million token ids', { prompt: list(1_000_000, (at) => (at * 7919) % 150_000) }],
    ['an embedding of 50,000 texts', { input: list(50_000, (at) => `Text ${at}`) }],
    ['a bias for 20,000 tokens', { logit_bias: Object.fromEntries(list(20_000, (at) => [at, -100])) }],
    ['a text of 10 MB', { prompt: 'a "b" \n'.repeat(1_500_000) }],
  ])('the pieces of a document are within the default limit for %s', (_, body) => {
    for (const space of [undefined, 1])
      expect(exceedsJsonComplexity(bytesOf(JSON.stringify(body, null, space)), 500_000)).toBe(false)
  })

  it('the pieces of a document are not counted after two colons in a row, which is no JSON: 33 MB of them do not take long', () => {
    const reads = { of: 0 }
    const text = `{"${'a'.repeat(64)}"${':'.repeat(10_000)}`
    const bytes = new Proxy(bytesOf(text), {
      get(target, name) {
        if (typeof name === 'string') reads.of += 1
        const value: unknown = Reflect.get(target, name, target)
        return typeof value === 'function' ? (value.bind(target) as unknown) : value
      },
    })
    expect(exceedsJsonComplexity(bytes, 500)).toBe(false)
    expect(reads.of).toBeLessThan(10 * text.length)
  })

  it.each(['"a', '["', '"\\"', ']]]]]]', '\u{1f600}'.repeat(9)])(
    'the pieces of a document of what is no JSON are no reason to refuse it: %s',
    (text) => {
      expect(exceedsJsonComplexity(bytesOf(text), 5)).toBe(false)
    },
  )

  it('the pieces of a document are counted no further than to the limit', () => {
    const opened = new Uint8Array(2 ** 24).fill('['.charCodeAt(0))
    let read = 0
    const watched = new Proxy(opened, {
      get(target, name) {
        if (typeof name === 'string' && /^\d+$/.test(name)) read++
        return Reflect.get(target, name, target) as unknown
      },
    })
    expect(exceedsJsonComplexity(watched, 1000)).toBe(true)
    expect(read).toBeLessThan(1010)
  })
})
