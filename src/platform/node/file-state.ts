import { statSync, type Stats } from 'node:fs'

export const stateIn = ({ mtimeMs, ino, size }: Stats): string => `${mtimeMs} ${ino} ${size}`

/**
 * Tells a file from what it becomes. Asked for before it is read, so that no change after that is missed. Throws when
 * there is none.
 */
export const stateOf = (file: string): string => stateIn(statSync(file))
