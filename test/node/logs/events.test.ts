import { globSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'

const root = new URL('../../../', import.meta.url)
const read = (pattern: string): { readonly file: string; readonly text: string }[] =>
  globSync(pattern, { cwd: root }).map((file) => ({ file, text: readFileSync(new URL(file, root), 'utf8') }))

/** Possible first arguments of each log call, and the level if it is certain. */
function events(): { readonly file: string; readonly level: string; readonly event: string }[] {
  return [...read('src/**/*.ts'), ...read('durable/*.ts')].flatMap(({ file, text }) => [
    ...[...text.matchAll(/\b[lL]og\??(?:\.(debug|info|warn|error)|\[([^;\n]*?)\])\(([^,]*?)[,)]/g)].flatMap(
      ([, level, chosen, argument]) =>
        [...argument!.replaceAll(/=== '[^']*'/g, '').matchAll(/'([^']*)'/g)].map(([, event]) => ({
          file,
          level: level ?? chosen!,
          event: event!,
        })),
    ),
    ...[...text.matchAll(/\b(?:event: |complain\()'([^']*)'/g)].map(([, event]) => ({
      file,
      level: 'error',
      event: event!,
    })),
  ])
}

it('every log event has a name in lower-case words joined by _, so that a filter needs no quotes', () => {
  expect(events().length).toBeGreaterThan(90)
  expect(events().filter(({ event }) => !/^[a-z]+(?:_[a-z]+)*$/.test(event))).toEqual([])
})

it('no warning is logged that the docs do not explain', () => {
  const pages = read('docs/*.md')
    .map(({ text }) => text)
    .join('\n')
  const names = new Set([...pages.matchAll(/`([a-z_]+)`/g)].map(([, name]) => name))
  expect(events().filter(({ level, event }) => /warn|error/.test(level) && !names.has(event))).toEqual([])
})
