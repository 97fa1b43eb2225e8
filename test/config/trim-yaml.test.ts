import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import * as yaml from 'js-yaml'
import { build } from 'esbuild'
import { expect, it } from 'vitest'

const script = new URL('../../scripts/trim-yaml.mjs', import.meta.url).href
const { pictureless, trimmable } = (await import(/* @vite-ignore */ script)) as Record<'pictureless' | 'trimmable', (module: string) => string>
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
