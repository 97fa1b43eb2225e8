/** Bundles `firstlight` into one file for Node, as packages ship it. */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { gitCommit } from '../src/cli/version-text.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

export interface NodeBundle {
  readonly bytes: number
  /** Names of the bundled packages. */
  readonly packages: readonly string[]
}

/**
 * Bundles only used code, without comments: V8 keeps the source in the heap for the life of the process, and one
 * character beyond Latin-1 doubles its size. Packages with native code or worker files stay external. `outfile` is
 * replaced atomically, because a gateway may be loading it.
 */
export async function bundleNode(outfile: string): Promise<NodeBundle> {
  const { metafile, outputFiles } = await build({
    write: false,
    entryPoints: ['bin/program.ts'],
    outfile,
    absWorkingDir: root,
    bundle: true,
    external: ['pino-pretty', 'zeromq', '@redis/client'],
    platform: 'node',
    define: { FIRSTLIGHT_COMMIT: JSON.stringify(builtFrom()), FIRSTLIGHT_DOCS: 'false' },
    format: 'esm',
    target: 'node22',
    minifyWhitespace: true,
    // Node prints the whole source line of an uncaught error.
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

/** Commit of the checkout. A container build has no `.git`, and gets the commit as an argument. */
const builtFrom = (): string => process.env['FIRSTLIGHT_COMMIT']?.slice(0, 12) || (gitCommit(root) ?? '')

/** Licence texts that must accompany a copy. */
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
