import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { endpoints } from '../../src/protocols/protocols.ts'
import { failures } from '../../src/failure.ts'

const page = readFileSync(new URL('../../docs/api.md', import.meta.url), 'utf8')

describe('docs/api.md', () => {
  it.each(endpoints.map(({ path }) => path))('docs/api.md names %s', (path) => {
    expect(page).toContain(`${path}\``)
  })

  // A cut stream has no status of its own.
  const { engine_truncated, ...answered } = failures
  it.each(Object.values(answered).map(({ code, status }) => [code, status] as const))(
    'docs/api.md names the error code %s with its status',
    (code, status) => {
      expect(page.split('\n').some((line) => line.startsWith(`| ${status} |`) && line.includes(`\`${code}\``))).toBe(
        true,
      )
    },
  )

  it('docs/api.md names the code of the event that ends a broken stream', () => {
    expect(page).toContain(`\`${engine_truncated.code}\``)
  })
})
