/** Bundles `firstlight` for Node, as packages ship it. */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type OutputFile } from 'esbuild'
import { gitCommit } from '../src/cli/version-text.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

export interface NodeBundle {
  readonly bytes: number
  /** Names of the bundled packages. */
  readonly packages: readonly string[]
}

/** File of the folder → source. The other files are chunks. */
const ENTRIES = { program: 'bin/program.ts', thread: 'src/platform/node/threads/entry.ts' } as const

/**
 * Bundles only used code, without comments, in chunks: V8 keeps the source of each loaded file in the heap for the life
 * of the process, and one character beyond Latin-1 doubles its size. Packages with native code or worker files stay
 * external.
 */
export async function bundleNode(folder: string): Promise<NodeBundle> {
  const { metafile, outputFiles } = await build({
    write: false,
    entryPoints: ENTRIES,
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    absWorkingDir: root,
    bundle: true,
    splitting: true,
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
  replaceFiles(folder, outputFiles)
  const sources = Object.values(metafile.outputs).flatMap(({ inputs }) => Object.keys(inputs))
  const packages = sources.map((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1])
  return {
    bytes: outputFiles.reduce((sum, { path, contents }) => sum + (path.endsWith('.mjs') ? contents.length : 0), 0),
    packages: [...new Set(packages)].filter((name) => name !== undefined).sort(),
  }
}

/** Gives the folder these files alone. Each is replaced atomically, because a gateway may be loading it. */
function replaceFiles(folder: string, files: readonly OutputFile[]): void {
  mkdirSync(folder, { recursive: true })
  for (const { path, contents } of files) {
    writeFileSync(`${path}.new`, contents)
    renameSync(`${path}.new`, path)
  }
  const names = new Set(files.map(({ path }) => basename(path)))
  for (const name of readdirSync(folder)) if (!names.has(name)) rmSync(join(folder, name))
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
