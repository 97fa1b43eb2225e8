/** Files that a command writes at the end of a long run. */
import { chmodSync, closeSync, openSync, statSync, unlinkSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Args } from './command.ts'
import { UsageError } from '../../platform/node/usage-error.ts'

/**
 * Returns a function that writes to the file named by a flag, or does nothing if the flag is absent. Checks that the
 * file can be written before the work begins. `secret`: only the owner may read the file.
 */
export function outputOf(args: Args, flag: string, { secret = false } = {}): (text: () => string | Uint8Array) => void {
  const file = args.text(flag)
  if (file === null) return () => {}
  const known = statSync(file, { throwIfNoEntry: false })
  if (known?.isDirectory() === true)
    throw new UsageError(
      `--${flag}: ${file} is a folder, not a file.`,
      `Name a file in it: --${flag} ${file.replace(/\/+$/, '')}/out.${flag}`,
    )
  const folder = dirname(file)
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true)
    throw new UsageError(`--${flag}: there is no folder ${folder}.`, `Create it first: mkdir -p ${folder}`)
  // Opening a pipe for this check would end its input.
  if (known === undefined || known.isFile()) orUsageError(flag, file, 2, () => closeSync(openSync(file, 'a')))
  if (known === undefined) unlinkSync(file)
  return (text) => {
    const written = text()
    orUsageError(flag, file, 1, () => {
      if (secret && known?.isFile() === true) chmodSync(file, OWNER_ONLY)
      writeFileSync(file, written, secret ? { mode: OWNER_ONLY } : {})
    })
  }
}

function orUsageError(flag: string, file: string, exitCode: 1 | 2, write: () => void): void {
  try {
    write()
  } catch (error) {
    const { code = 'unknown error' } = error as NodeJS.ErrnoException
    throw new UsageError(
      `--${flag}: ${file} cannot be written (${code}).`,
      'Check permissions and free space, or name another file.',
      exitCode,
    )
  }
}

const OWNER_ONLY = 0o600

/** Formats a value for a `--json` file. */
export const asJson = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`
