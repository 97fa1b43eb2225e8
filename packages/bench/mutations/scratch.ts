/** A copy of the working tree. Mutations are applied to it, never to the working tree itself. */
import { execFile, execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { patternOf, root } from './catalogue.ts'
import type { Mutation } from './mutation.ts'

const LONG_AGO = new Date(0)
const LATER = new Date('2100-01-01')

export class Scratch {
  readonly folder = mkdtempSync(join(tmpdir(), 'firstlight-mutations-'))

  /** Copies what git tracks and what it would add. Packages are shared with the working tree. */
  constructor() {
    const files = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
      cwd: root,
      encoding: 'utf8',
    })
    for (const file of files.split('\0')) {
      if (file === '' || !existsSync(join(root, file))) continue
      mkdirSync(dirname(join(this.folder, file)), { recursive: true })
      cpSync(join(root, file), join(this.folder, file))
    }
    symlinkSync(join(root, 'node_modules'), join(this.folder, 'node_modules'))
    this.#copyBuild(root, 'dist/dashboard')
  }

  /** Builds the Worker of the unchanged copy. */
  async build(): Promise<void> {
    const code = `const { buildWorker } = await import('./scripts/build-worker.ts'); await buildWorker('dist/worker')`
    await promisify(execFile)(process.execPath, ['--input-type=module', '-e', code], { cwd: this.folder })
  }

  copyWorkerOf(other: Scratch): void {
    this.#copyBuild(other.folder, 'dist/worker')
  }

  #copyBuild(from: string, path: string): void {
    if (existsSync(join(from, path))) cpSync(join(from, path), join(this.folder, path), { recursive: true })
  }

  /** Sets the age of the built Worker: the project `node` builds it again if a source is newer. */
  setWorkerOutdated(isOutdated: boolean): void {
    const built = join(this.folder, 'dist/worker/worker.js')
    const at = isOutdated ? LONG_AGO : LATER
    if (existsSync(built)) utimesSync(built, at, at)
  }

  /** Applies the mutation, runs, and reverts it. */
  async withMutation<Value>({ file, find, replace }: Mutation, run: () => Promise<Value>): Promise<Value> {
    const path = join(this.folder, file)
    const text = readFileSync(path, 'utf8')
    // A function, because `$` in a replacement string has a special meaning.
    writeFileSync(
      path,
      text.replace(patternOf(find), () => replace),
    )
    try {
      return await run()
    } finally {
      writeFileSync(path, text)
    }
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 })
  }
}
