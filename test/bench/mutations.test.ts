import { describe, expect, it } from 'vitest'
import { mutations } from '../../packages/bench/mutations/all.ts'
import { catalogueProblems, mismatchOf } from '../../packages/bench/mutations/catalogue.ts'

describe('the list of mutations', () => {
  it('the list of mutations applies to the current tree, each mutation at exactly one place', () => {
    expect(catalogueProblems(mutations)).toEqual([])
  })

  it('the list of mutations reports mutations that do not match, share a name or have no test', () => {
    const [first] = mutations
    const broken = { ...first!, find: 'no such text', tests: { node: ['test/no-such-file'] } }
    expect(catalogueProblems([first!, broken])).toEqual([
      `${first!.name}: another mutation has this name`,
      `${first!.name}: ${first!.file}: the text must occur once, but occurs 0 times: "no such text"`,
      `${first!.name}: no test file has "test/no-such-file" in its path`,
    ])
  })
})

describe('the text of a mutation', () => {
  const matches = (find: string, source: string) => mismatchOf({ find, replace: '' }, source) === null

  it('matches whatever the line breaks and the indentation', () => {
    expect(matches('call(one, two)', 'call(\n  one,\n  two)')).toBe(true)
    expect(matches('return one', 'return\n  one')).toBe(true)
  })

  it('the text of a mutation does not join words', () => expect(matches('return one', 'returnone')).toBe(false))

  it('the text of a mutation must occur once', () => expect(matches('one', 'one, one')).toBe(false))

  it('the text of a mutation must differ from its replacement', () => {
    expect(mismatchOf({ find: 'one', replace: 'one' }, 'one')).toBe('the replacement equals the text')
  })
})
