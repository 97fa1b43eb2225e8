/** Files that a command line names: read, or written once a long run is over. */
import { chmodSync, closeSync, openSync, readFileSync, statSync, unlinkSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { UsageError, type Args } from './command.ts'

/** The bytes of a file. Throws a UsageError that names it, ending in `next`. */
export function readInput(file: string, next: string): Buffer {
  try {
    return readFileSync(file)
  } catch (error) {
    throw new UsageError(cannotRead(file, (error as NodeJS.ErrnoException).code), next)
  }
}

function cannotRead(file: string, code = 'unknown error'): string {
  if (code === 'ENOENT' || code === 'ENOTDIR') return `There is no file ${file === '' ? '""' : file}.`
  return code === 'EISDIR' ? `${file} is a folder, not a file.` : `${file} cannot be read (${code}).`
}

/**
 * What writes to the file a flag names; does nothing where the flag is absent. Asked for before the work begins: a name
 * that cannot be written is a UsageError then, and not after minutes. `secret`: nobody but its owner may read it.
 */
export function outputOf(args: Args, flag: string, { secret = false } = {}): (text: () => string | Uint8Array) => void {
  const file = args.text(flag)
  if (file === null) return () => {}
  const known = statSync(file, { throwIfNoEntry: false })
  if (known?.isDirectory() === true) throw new UsageError(`--${flag}: ${file} is a folder, not a file.`, `Name a file in it: --${flag} ${file.replace(/\/+$/, '')}/out.${flag}`)
  const folder = dirname(file)
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true) throw new UsageError(`--${flag}: there is no folder ${folder}.`, `Make it first: mkdir -p ${folder}`)
  // A pipe would take the opening for all there is.
  if (known === undefined || known.isFile()) orSay(flag, file, 2, () => closeSync(openSync(file, 'a')))
  if (known === undefined) unlinkSync(file)
  return (text) => {
    const written = text()
    orSay(flag, file, 1, () => {
      if (secret && known?.isFile() === true) chmodSync(file, OWNER_ONLY)
      writeFileSync(file, written, secret ? { mode: OWNER_ONLY } : {})
    })
  }
}

function orSay(flag: string, file: string, exitCode: 1 | 2, write: () => void): void {
  try {
    write()
  } catch (error) {
    const { code = 'unknown error' } = error as NodeJS.ErrnoException
    throw new UsageError(`--${flag}: ${file} cannot be written (${code}).`, 'Make room for it there, or name another file.', exitCode)
  }
}

const OWNER_ONLY = 0o600

/** A value as the files of `--json` hold it. */
export const asJson = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`
