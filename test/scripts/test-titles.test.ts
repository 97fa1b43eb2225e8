import { parseSync } from 'vite'
import { expect, it } from 'vitest'
import { testTitles } from '../../scripts/source-checks/test-titles.ts'

const problemsOf = (text: string, path = 'test/core/example.test.ts'): string[] =>
  testTitles({ path, text, parsed: parseSync(path, text) })

it.each([
  ['a verb', `it('refuses a second key', () => {})`],
  ['a verb in a describe', `describe('a lease', () => { it('is renewed', () => {}) })`],
  ['a plural verb', `test('are read in order', () => {})`],
  ['a verb in a table of cases', `it.each([1, 2])('keeps %s', () => {})`],
  ['a verb in a conditional test', `it.skipIf(isSlow).each([1])('never ends', () => {})`],
  ['a verb in a template', 'it(`returns ${status}`, () => {})'],
  ['a noun that is a verb here', `it('requests the models once', () => {})`],
])('a title without a subject is reported: %s', (_, text) => {
  expect(problemsOf(text)).toHaveLength(1)
  expect(problemsOf(text, 'src/core/example.ts')).toEqual([])
})

it.each([
  ['a subject', `it('a gateway refuses a second key', () => {})`],
  ['a noun that is a verb elsewhere', `it('requests of clients are counted', () => {})`],
  ['a value of a table', `it.each([1])('%s is kept', () => {})`],
  ['a call of another function', `submit('refuses a second key')`],
  ['a title that is computed', `it(title, () => {})`],
])('a title with a subject is none: %s', (_, text) => {
  expect(problemsOf(text)).toEqual([])
})
