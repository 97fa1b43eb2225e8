/** `firstlight` in one file for Node, as a package ships it. */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const root = fileURLToPath(new URL('..', import.meta.url))

export interface NodeBundle {
  readonly bytes: number
  /** Names of the packages it carries parts of. */
  readonly packages: readonly string[]
}

/**
 * Every text and function of a module that is loaded lies in the heap for as long as the process runs, so only what is
 * used is taken of the packages, and no comments: one letter beyond Latin-1 among them doubles the whole text.
 * Not taken: what brings machine code or starts threads from files of its own. `outfile` is replaced at once: a
 * gateway may be about to load it.
 */
export async function bundleNode(outfile: string): Promise<NodeBundle> {
  const { metafile, outputFiles } = await build({
    write: false,
    entryPoints: ['src/node.ts'],
    outfile,
    absWorkingDir: root,
    bundle: true,
    external: ['pino', 'zeromq', '@redis/client'],
    platform: 'node',
    format: 'esm',
    target: 'node22',
    minifyWhitespace: true,
    // What Node prints of a fault has its line in it.
    lineLimit: 160,
    legalComments: 'none',
    sourcemap: 'linked',
    sourcesContent: false,
    metafile: true,
    logLevel: 'warning',
  })
  mkdirSync(dirname(outfile), { recursive: true })
  for (const { path, contents } of outputFiles) {
    writeFileSync(`${path}.new`, contents)
    renameSync(`${path}.new`, path)
  }
  const [output] = Object.values(metafile.outputs).filter(({ entryPoint }) => entryPoint !== undefined)
  const packages = Object.keys(output!.inputs).map((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1])
  return { bytes: output!.bytes, packages: [...new Set(packages)].filter((name) => name !== undefined).sort() }
}

/** What their authors ask to be kept with a copy. */
export function licencesOf(packages: readonly string[]): string {
  return packages
    .map((name) => `${name}\n${'='.repeat(name.length)}\n\n${licenceOf(`${root}node_modules/${name}`).trim()}\n`)
    .join('\n\n')
}

function licenceOf(folder: string): string {
  const text = ['LICENSE', 'LICENSE.md', 'LICENSE.txt']
    .map((name) => `${folder}/${name}`)
    .find((file) => existsSync(file))
  if (text !== undefined) return readFileSync(text, 'utf8')
  const { license, author, homepage } = JSON.parse(readFileSync(`${folder}/package.json`, 'utf8')) as Record<
    string,
    unknown
  >
  return [license, author, homepage].filter((word) => typeof word === 'string').join('\n')
}
