import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { nodePorts } from '../src/platform/node/ports.ts'
import { configOf } from './kit/recording-ports.ts'

const read = (path: string): string => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')

const optionalIn = (path: string): string[] =>
  Array.from(read(path).matchAll(/^ {2}readonly (\w+)\?:/gm), ([, name]) => name!)

/** Capability → the page's cell for a Node process. */
function documented(): ReadonlyMap<string, string> {
  const section = read('docs/embed.md').split('### Capabilities of a runtime')[1]!.split('\n### ')[0]!
  const rows = section.matchAll(/^\| `([\w.]+)` \| [^|]+ \| ([^|]+) \|/gm)
  return new Map(Array.from(rows, ([, name, onNode]) => [name!, onNode!]))
}

it('the capabilities of a runtime are on the page for programs', () => {
  const shared = optionalIn('src/ports/shared-state.ts').map((name) => `shared.${name}`)
  const all = optionalIn('src/ports.ts').flatMap((name) => (name === 'shared' ? shared : [name]))
  expect([...documented().keys()].sort()).toEqual(all.sort())
})

it('the capabilities of a Node process are those on the page for programs', async () => {
  const silent = (): void => undefined
  const ports = nodePorts(configOf(), { debug: silent, info: silent, warn: silent, error: silent })
  const has = (name: string): boolean =>
    name.split('.').reduce<unknown>((value, key) => (value as Record<string, unknown>)[key], ports) !== undefined
  for (const [name, onNode] of documented()) expect([name, has(name)]).toEqual([name, onNode === 'yes'])
  await ports.close()
})
