import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { buildWorker } from '../../../scripts/build-worker.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))

/** Text of a Worker in this folder, built with the settings of the gateway's own. */
export const bundleOf = (file: string): Promise<string> =>
  inFolder((folder) => buildWorker(folder, fileURLToPath(new URL(file, import.meta.url))))

/**
 * Text of the gateway's Worker at an earlier commit, with the packages installed now. Built without wrangler, because
 * older versions of wrangler.toml expect a bundle of their own. null: the checkout has no such commit.
 * @param missing Durable Objects that wrangler.toml binds now, and that version does not have
 */
export async function bundleOfCommit(commit: string, missing: readonly string[]): Promise<string | null> {
  const entry = [
    `export * from './src/worker.ts'`,
    `export { default } from './src/worker.ts'`,
    `import { DurableObject } from 'cloudflare:workers'`,
    ...missing.map((name) => `export class ${name} extends DurableObject {}`),
  ]
  return inFolder(async (folder) => {
    try {
      const file = join(folder, 'sources.tar')
      execFileSync('git', ['archive', '-o', file, commit, 'src', 'durable'], { cwd: root, stdio: 'ignore' })
      execFileSync('tar', ['-xf', file, '-C', folder])
    } catch {
      return null
    }
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
    const { outputFiles } = await build({
      stdin: { contents: entry.join('\n'), resolveDir: folder },
      bundle: true,
      minify: true,
      format: 'esm',
      target: 'es2024',
      external: ['cloudflare:*'],
      write: false,
      logLevel: 'error',
    })
    return outputFiles[0]!.text
  })
}

async function inFolder<Result>(use: (folder: string) => Promise<Result>): Promise<Result> {
  const folder = mkdtempSync(join(tmpdir(), 'firstlight-worker-'))
  try {
    return await use(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
