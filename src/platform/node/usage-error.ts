/** Errors of files and flags that an operator named. */
import { readFileSync } from 'node:fs'

/** Invalid command line or file. `next` is the suggested next step. */
export class UsageError extends Error {
  readonly next: string
  /** 1: the work was done, but another step failed. */
  readonly exitCode: 1 | 2

  constructor(message: string, next: string, exitCode: 1 | 2 = 2) {
    super(message)
    this.name = 'UsageError'
    this.next = next
    this.exitCode = exitCode
  }
}

/** Reads a file. Throws a UsageError that names the file and ends with `next`. */
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
