/** References of the docs to each other and to the command line. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { commands as loadCommands } from '../../bin/commands.ts'
import openApiDocument from '../../src/api/openapi/document.json' with { type: 'json' }

const commands = await loadCommands()

const root = fileURLToPath(new URL('../../', import.meta.url))
const inFolder = (folder: string): string[] =>
  readdirSync(resolve(root, folder)).flatMap((name) => (name.endsWith('.md') ? [resolve(root, folder, name)] : []))
const packages = ['simulator', 'replay', 'convert', 'bench'].map((name) => `packages/${name}`)
const pages = ['.', 'docs', 'docs/decisions', 'docs/measurements', 'docs/tutorials', 'durable', ...packages].flatMap(
  inFolder,
)
const sourceFolders = ['src', 'durable']
  .flatMap((folder) =>
    readdirSync(resolve(root, folder), { recursive: true, encoding: 'utf8' }).map((name) =>
      resolve(root, folder, name),
    ),
  )
  .filter((file) => file.endsWith('/README.md'))
  .map(dirname)
const read = (page: string): string => readFileSync(page, 'utf8')
const named = (page: string): string => relative(root, page)

/** Anchors that GitHub generates from headings. */
function anchorsOf(text: string): Set<string> {
  const found = new Set<string>()
  const seen = new Map<string, number>()
  for (const line of text.replaceAll(/^ *```[\s\S]*?^ *```/gm, '').split('\n')) {
    const title = /^#{1,6} +(.*)$/.exec(line)?.[1]?.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    if (title === undefined) continue
    const slug = title
      .trim()
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-')
    const before = seen.get(slug) ?? 0
    seen.set(slug, before + 1)
    found.add(before === 0 ? slug : `${slug}-${before}`)
  }
  return found
}

interface Link {
  readonly target: string
  readonly anchor: string | undefined
}

function linksOf(page: string): Link[] {
  return [...read(page).matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, link]) => {
    if (/^https?:/.test(link!)) return []
    const [path = '', anchor] = link!.split('#')
    return [{ target: path === '' ? page : resolve(dirname(page), path), anchor }]
  })
}

it.each(sourceFolders.map((folder) => [named(folder), folder]))(
  '%s/README.md names each file of its folder',
  (_, folder) => {
    const text = read(resolve(folder, 'README.md'))
    const files = readdirSync(folder).filter((name) => name.endsWith('.ts'))
    expect(files.filter((name) => !text.includes(`\`${name}\``))).toEqual([])
    const namedFiles = [...text.matchAll(/^\| (`[^|]*)\|/gm)].flatMap(([, cell]) => [
      ...cell!.matchAll(/`([a-z0-9-]+\.ts)`/g),
    ])
    expect(namedFiles.map(([, name]) => name!).filter((name) => !files.includes(name))).toEqual([])
  },
)

describe('the pages', () => {
  it.each(pages.map((page) => [named(page), page]))('%s links to what is there', (_, page) => {
    const broken = linksOf(page).filter(
      ({ target, anchor }) => !existsSync(target) || (anchor !== undefined && !anchorsOf(read(target)).has(anchor)),
    )
    expect(broken.map(({ target, anchor }) => `${named(target)}#${anchor ?? ''}`)).toEqual([])
  })

  it('the docs can all be found from the README', () => {
    const reached = new Set([resolve(root, 'README.md')])
    for (const page of reached) {
      // A link to a folder includes its files.
      const targets = linksOf(page).flatMap(({ target }) =>
        existsSync(target) && statSync(target).isDirectory() ? inFolder(target) : [target],
      )
      for (const target of targets) if (target.endsWith('.md') && existsSync(target)) reached.add(target)
    }
    expect(pages.filter((page) => !reached.has(page)).map(named)).toEqual([])
  })

  it('the docs show no flag that its command does not have', () => {
    const wrong = pages.flatMap((page) =>
      [...read(page).matchAll(/firstlight ([a-z]+)((?: [^\n`#|]*)?)/g)].flatMap(([, name, rest]) => {
        // Words after ` -- ` are not flags of the command.
        const flags = commands.find((command) => command.name === name)?.flags
        const shown =
          flags === undefined
            ? []
            : [...rest!.split(' -- ')[0]!.matchAll(/--([a-z][a-z0-9-]*)/g)].map(([, flag]) => flag!)
        return shown
          .filter((flag) => flag !== 'help' && flags?.[flag] === undefined)
          .map((flag) => `${named(page)}: ${name} --${flag}`)
      }),
    )
    expect(wrong).toEqual([])
  })

  it('the docs name only benches that exist', () => {
    const wrong = pages.flatMap((page) =>
      [...read(page).matchAll(/npm run bench -- ([a-z][a-z0-9-]*)/g)]
        .filter(([, name]) => {
          const bench = resolve(root, `packages/bench/${name}.ts`)
          return !existsSync(bench) || !/^export default /m.test(read(bench))
        })
        .map(([, name]) => `${named(page)}: ${name}`),
    )
    expect(wrong).toEqual([])
  })

  it('the docs name only routes of the admin API that exist', () => {
    // The other two are for bridges and gateways.
    const machines = ['/v1/firstlight/digest', '/v1/firstlight/kv-events']
    const routes = [...Object.keys(openApiDocument.paths), ...machines].map(
      (path) => new RegExp(`^${path.replaceAll(/\{[^}]+\}/g, '[^/]+')}$`),
    )
    const wrong = pages.flatMap((page) =>
      [...read(page).matchAll(/(?:GET|POST|PUT|DELETE) `?(?:HOST)?(\/v1\/firstlight\/[A-Za-z0-9_/{}:-]+)/g)]
        .filter(([, path]) => !routes.some((route) => route.test(path!)))
        .map(([, path]) => `${named(page)}: ${path}`),
    )
    expect(wrong).toEqual([])
  })

  it('the docs name every script, and no other', () => {
    const { scripts } = JSON.parse(readFileSync(resolve(root, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>
    }
    const lifecycle = new Set(['prepare', 'prepack', 'pretest'])
    const contributing = read(resolve(root, 'CONTRIBUTING.md'))
    expect(
      Object.keys(scripts).filter(
        (name) =>
          !lifecycle.has(name) &&
          !contributing.includes(`npm ${name}\``) &&
          !contributing.includes(`npm run ${name}`) &&
          !contributing.includes(`· \`${name}\``),
      ),
    ).toEqual([])
    const scriptsNamed = pages.flatMap((page) =>
      [...read(page).matchAll(/npm run ([a-z][a-z:-]*)/g)].map(([, name]) => name!),
    )
    expect(scriptsNamed.filter((name) => scripts[name] === undefined)).toEqual([])
  })
})
