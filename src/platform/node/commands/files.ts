/** Files that a command line names: read, or written once a long run is over. */
import { readFileSync, statSync, writeFileSync } from 'node:fs'
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
 * that cannot be written is a UsageError then, and not after minutes.
 */
export function outputOf(args: Args, flag: string): (text: () => string | Uint8Array) => void {
  const file = args.text(flag)
  if (file === null) return () => {}
  if (statSync(file, { throwIfNoEntry: false })?.isDirectory() === true) throw new UsageError(`--${flag}: ${file} is a folder, not a file.`, `Name a file in it: --${flag} ${file.replace(/\/+$/, '')}/out.${flag}`)
  const folder = dirname(file)
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true) throw new UsageError(`--${flag}: there is no folder ${folder}.`, `Make it first: mkdir -p ${folder}`)
  return (text) => writeFileSync(file, text())
}

/** A value as the files of `--json` hold it. */
export const asJson = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`
