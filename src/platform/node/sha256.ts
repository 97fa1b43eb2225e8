import { createHash } from 'node:crypto'

/** 64 hexadecimal digits, lower case: as `keys[].secret.sha256` has them. */
export const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
