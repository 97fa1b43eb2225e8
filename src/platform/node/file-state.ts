import { statSync, type Stats } from 'node:fs'

export const stateIn = ({ mtimeMs, ino, size }: Stats): string => `${mtimeMs} ${ino} ${size}`

/**
 * Fingerprints a file for change detection. Read it before the file, so that no later change is missed. Throws if the
 * file does not exist.
 */
export const stateOf = (file: string): string => stateIn(statSync(file))
