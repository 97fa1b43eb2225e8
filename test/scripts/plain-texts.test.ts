import { parseSync } from 'vite'
import { describe, expect, it } from 'vitest'
import { plainTexts } from '../../scripts/source-checks/plain-texts.ts'

const problemsOf = (text: string, path = 'src/api/example.ts'): string[] =>
  plainTexts({ path, text, parsed: parseSync(path, text) })

describe('texts that users read', () => {
  it.each([
    `const text = 'This gateway does not remember such a request.'`,
    `const text = 'No cluster remembers this decision.'`,
    'const text = `The engine ${id} knows no model.`',
    `const text = 'the value is no list'`,
    `const text = 'the booking is not known here any more'`,
    `const text = 'Say which model: ?model=NAME.'`,
    'const text = `or say \\`open: true\\``',
    `const text = 'the limit means nothing'`,
    `const text = 'requests with tools ' + 'or images'`,
  ])('a text in which a program acts like a person is reported: %s', (text) => {
    expect(problemsOf(text)).toHaveLength(1)
  })

  it.each([
    [`const text = 'The model is no longer configured.'`, 'src/api/example.ts'],
    [`const text = 'There is no engine with this id.'`, 'src/api/example.ts'],
    [`const text = 'The gateway reads the log.' // The gateway knows nothing.`, 'src/api/example.ts'],
    [`const name = 'knows'`, 'src/api/example.ts'],
    [`const text = 'the engine knows'`, 'test/api/example.test.ts'],
    [`const text = 'the engine is no server'`, 'packages/simulator/src/http-api/example.ts'],
  ])('a plain text, a comment or another file is not reported: %s in %s', (text, path) => {
    expect(problemsOf(text, path)).toEqual([])
  })
})
