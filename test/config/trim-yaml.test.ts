import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import * as yaml from 'js-yaml'
import { build } from 'esbuild'
import { expect, it } from 'vitest'
import { workerText } from '../../scripts/bundle-worker.ts'

const script = new URL('../../scripts/trim-yaml.mjs', import.meta.url).href
const { numbered, pictureless, readOnly, trimmable } = (await import(/* @vite-ignore */ script)) as Record<'numbered' | 'pictureless' | 'readOnly' | 'trimmable', (module: string) => string>
const own = readFileSync(fileURLToPath(import.meta.resolve('js-yaml')), 'utf8')

it('what a bundler may leave out of js-yaml changes nothing of what it says', async () => {
  const trimmed = (await import(/* @vite-ignore */ `data:text/javascript,${encodeURIComponent(trimmable(own))}`)) as typeof yaml
  expect(Object.keys(trimmed).toSorted()).toEqual(Object.keys(yaml).filter((name) => name !== 'default').toSorted())
  for (const schema of ['CORE_SCHEMA', 'YAML11_SCHEMA'] as const) {
    const values = [yaml, trimmed].map((module) => module.load('a: [1.5e3, ~, yes, 0o17, .inf, 2020-01-01]\nb: |\n  two\n  lines\n', { schema: module[schema] }))
    expect(values[1]).toEqual(values[0])
  }
  expect(trimmed.dump({ a: [1, 'x: y'] })).toBe(yaml.dump({ a: [1, 'x: y'] }))
})

it('a reader of the core schema is bundled without the writer', async () => {
  const bundle = async (module: string) => {
    const reader = `${module.slice(0, module.lastIndexOf('\nexport {'))}\nconsole.log(parseEvents, constructFromEvents, CORE_SCHEMA)`
    const { outputFiles } = await build({ stdin: { contents: reader }, bundle: true, format: 'esm', write: false, treeShaking: true })
    return outputFiles[0]!.text
  }
  expect(await bundle(own)).toContain('DUMP_SCHEMA')
  expect(await bundle(trimmable(own))).not.toContain('DUMP_SCHEMA')
})

it('a fault is told by the same words at the same place without its picture', async () => {
  const trimmed = (await import(/* @vite-ignore */ `data:text/javascript,${encodeURIComponent(pictureless(trimmable(own)))}`)) as typeof yaml
  for (const text of ['a: [1, 2', 'a: b: c', 'a: 1\n\tb: 2', '"\\q"', 'a: *b', '%YAML 9.9\n---\n']) {
    const [before, after] = [yaml, trimmed].map((module) => {
      try {
        return module.load(text)
      } catch (error) {
        const { reason, mark } = error as yaml.YAMLException
        return { reason, line: mark?.line, column: mark?.column, picture: mark?.snippet }
      }
    })
    expect(before).toMatchObject({ picture: expect.any(String) })
    expect(after).toEqual({ ...(before as object), picture: undefined })
  }
  expect(() => pictureless('')).toThrow('draws its pictures elsewhere')
})

/** Every kind of scalar and collection, tags, anchors, merges; and what is wrong in as many ways. */
const TEXTS = [
  'a: &x {k: 1, "l": \'two\\\'}\nb: *x\nc:\n  <<: *x\n  m: !!str 3\n',
  '- |-\n  kept\n   lines\n- >+\n  folded\n  text\n\n- "\\u00e9\\x41\\\n  b"\n- plain\n  over lines\n',
  '%YAML 1.2\n%TAG ! tag:yaml.org,2002:\n---\n!map {? !seq [1, 0x1f, 0o17, -.inf, .nan, 1e3, ~, yes, True] : null}\n...\n',
  '? complex\n: - a\n  - b: 1\n    c: 2\n',
  '{"json": [true, false, null, -0.5], "deep": {"er": {}}}',
  '', 'a: 1\na: 2', '[1, 2', '- a\n b', '&a &b c', '!<x', 'a: !!int x', '*gone', '\t- a', '"\\xZZ"', '{[a]: 1}', '--- a\n--- b\n',
]

it('what only reads, by numbers, reads the same and fails the same', async () => {
  const module = readOnly(pictureless(trimmable(own)))
  const trimmed = (await import(/* @vite-ignore */ `data:text/javascript,${encodeURIComponent(numbered(module))}`)) as typeof yaml
  const shortened = (await import(/* @vite-ignore */ `data:text/javascript,${encodeURIComponent(await workerText('js-yaml'))}`)) as typeof yaml
  // Of events, src/config/yaml.ts asks for these alone.
  const asked = ['type', 'start', 'valueStart', 'valueEnd', 'anchorStart']
  const read = ({ parseEvents, constructFromEvents, CORE_SCHEMA, mergeTag }: typeof yaml, text: string, names?: readonly string[]): unknown => {
    try {
      const events = parseEvents(text, {})
      return { events: events.map((event) => Object.fromEntries(Object.entries(event).filter(([name]) => names?.includes(name) ?? true))), values: constructFromEvents(events, { source: text, schema: CORE_SCHEMA.withTags(mergeTag), maxAliases: 100 }) }
    } catch (error) {
      const { reason, mark } = error as yaml.YAMLException
      return { reason, line: mark?.line }
    }
  }
  for (const text of TEXTS) {
    expect(read(trimmed, text), text).toEqual(read(yaml, text))
    expect(read(shortened, text, asked), text).toEqual(read(yaml, text, asked))
  }
  expect(trimmed.EVENT_ID).toEqual(yaml.EVENT_ID)
  expect(module).not.toContain('identify: Array.isArray')
  expect(numbered(module)).not.toMatch(/EVENT_ID\.|SCALAR_STYLE\.|=== NO_RANGE/)
  expect(() => readOnly('')).toThrow('writes its tags elsewhere')
  expect(() => numbered('')).toThrow('keeps its kinds elsewhere')
})
