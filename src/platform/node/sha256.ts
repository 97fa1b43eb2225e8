import { createHash } from 'node:crypto'

/** SHA-256 as 64 lower-case hexadecimal digits, the format of `keys[].secret.sha256`. */
export const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
