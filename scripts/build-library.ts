/**
 * Writes dist/lib and dist/types, the importable entries of the package: `firstlight`, `firstlight/node` and
 * `firstlight/worker`. Dependencies stay external: npm installs them with the package.
 */
import { execFileSync } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const root = fileURLToPath(new URL('..', import.meta.url))
const tsc = fileURLToPath(new URL('../node_modules/typescript/bin/tsc', import.meta.url))

/** Entry → source. */
const ENTRIES = { index: 'src/index.ts', node: 'src/platform/node/embed.ts', worker: 'src/worker.ts' } as const

export async function buildLibrary(): Promise<void> {
  for (const folder of ['lib', 'types']) rmSync(`${root}dist/${folder}`, { recursive: true, force: true })
  await build({
    entryPoints: ENTRIES,
    outdir: 'dist/lib',
    outExtension: { '.js': '.mjs' },
    absWorkingDir: root,
    bundle: true,
    // Classes such as ConfigError exist once, whichever entries a program imports.
    splitting: true,
    packages: 'external',
    define: { FIRSTLIGHT_DOCS: 'false' },
    external: ['cloudflare:workers'],
    platform: 'neutral',
    format: 'esm',
    target: 'node22',
    legalComments: 'none',
    logLevel: 'warning',
  })
  declarations([ENTRIES.index, ENTRIES.node], 'node')
  declarations([ENTRIES.worker], '../worker-configuration.d.ts', '@cloudflare/vitest-plugin/types')
}

/** Writes the declarations of entries. The two runtimes have conflicting global types, so each has its own run. */
function declarations(entries: readonly string[], ...types: string[]): void {
  const config = `${root}dist/library.tsconfig.json`
  const compilerOptions = {
    types,
    noEmit: false,
    declaration: true,
    emitDeclarationOnly: true,
    rootDir: '..',
    outDir: 'types',
  }
  const files = entries.map((file) => `../${file}`)
  writeFileSync(config, JSON.stringify({ extends: '../tsconfig.json', compilerOptions, include: [], files }))
  execFileSync(process.execPath, [tsc, '-p', config], { stdio: 'inherit' })
  rmSync(config)
}

await buildLibrary()
