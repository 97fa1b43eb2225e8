import { type Stats, statSync } from 'node:fs'

export const fingerprintOf = ({ mtimeMs, ino, size }: Stats): string => `${mtimeMs} ${ino} ${size}`

/**
 * Fingerprints a file for change detection. Read it before the file, so that no later change is missed. Throws if the
 * file does not exist.
 */
export const fileFingerprint = (file: string): string => fingerprintOf(statSync(file))
