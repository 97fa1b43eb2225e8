import { parseSync } from 'vite'
import { describe, expect, it } from 'vitest'
import { literalAccessors } from '../../scripts/source-checks/literal-accessors.ts'

const problemsOf = (text: string, path = 'src/api/example.ts'): string[] =>
  literalAccessors({ path, text, parsed: parseSync(path, text) })

describe('accessors in object literals', () => {
  it.each(['const of = (one) => ({ get text() { return one.read() } })', 'const one = { a: 1, set text(to) {} }'])(
    'an accessor in an object literal of the request path is reported: %s',
    (text) => {
      expect(problemsOf(text)).toHaveLength(1)
    },
  )

  it.each([
    ['class One { get text() { return 1 } }', 'src/api/example.ts'],
    ['const one = { get: () => 1, text() { return 2 } }', 'src/api/example.ts'],
    ['const ports = { get alerts() { return 1 } }', 'src/platform/node/example.ts'],
  ])('other code is not reported: %s in %s', (text, path) => {
    expect(problemsOf(text, path)).toEqual([])
  })
})
