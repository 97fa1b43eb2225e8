/** A copy of the working tree that breaks are put into, so that nothing is ever broken where people work. */
import { execFile, execFileSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdtempSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Mutation } from './mutation.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const LONG_AGO = new Date(0)
const LATER = new Date('2100-01-01')

/** Matches `there` however the formatter wraps it: any white space is as good as any other, and none between signs. */
function patternOf(there: string): RegExp {
  const pieces = there.trim().match(/\w+|\s+|[^\w\s]/g) ?? []
  let pattern = ''
  for (const [at, piece] of pieces.entries()) {
    if (/\s/.test(piece)) continue
    const isSpaced = at > 0 && /\s/.test(pieces[at - 1]!)
    const isWord = /\w/.test(piece)
    const follows = at === 0 ? '' : pieces[isSpaced ? at - 2 : at - 1]!
    pattern += at === 0 ? '' : isSpaced && isWord && /\w/.test(follows) ? '\\s+' : '\\s*'
    pattern += piece.replaceAll(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
  }
  return new RegExp(pattern, 'g')
}

/** Why the text cannot be replaced; null: it stands once. */
export function misplaced({ there, instead }: Pick<Mutation, 'there' | 'instead'>, text: string | null): string | null {
  if (text === null) return 'the file does not exist'
  const found = text.match(patternOf(there))?.length ?? 0
  if (found === 1) return there === instead ? 'the break changes nothing' : null
  return found === 0 ? 'the text does not occur in the file' : `the text occurs ${found} times in the file`
}

/** Text of a source in the working tree; null: there is no such file. */
export function sourceText(file: string): string | null {
  return existsSync(join(root, file)) ? readFileSync(join(root, file), 'utf8') : null
}

export class Scratch {
  readonly folder = mkdtempSync(join(tmpdir(), 'firstlight-mutations-'))

  /** Copies what git tracks and what it would add; packages are shared. */
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
    if (existsSync(join(root, 'dist/dashboard')))
      cpSync(join(root, 'dist/dashboard'), join(this.folder, 'dist/dashboard'), { recursive: true })
  }

  /** Builds the Worker of the unbroken copy. */
  async build(): Promise<void> {
    const code = `const { buildWorker } = await import('./scripts/build-worker.ts'); await buildWorker('dist/worker')`
    await promisify(execFile)(process.execPath, ['--input-type=module', '-e', code], { cwd: this.folder })
  }

  /** Project `node` builds the Worker anew when a source is newer. `isWanted`: it has to; else it need not. */
  rebuilds(isWanted: boolean): void {
    const built = join(this.folder, 'dist/worker/worker.js')
    if (existsSync(built)) utimesSync(built, isWanted ? LONG_AGO : LATER, isWanted ? LONG_AGO : LATER)
  }

  /** Puts the break in, runs, takes it out again. */
  async broken<Value>(mutation: Mutation, run: () => Promise<Value>): Promise<Value> {
    const path = join(this.folder, mutation.file)
    const text = readFileSync(path, 'utf8')
    // A function, since a replacement text may hold dollars.
    writeFileSync(
      path,
      text.replace(patternOf(mutation.there), () => mutation.instead),
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
