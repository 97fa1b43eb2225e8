import type { Log } from '../../../src/ports.ts'

const nothing = (): void => {}

/** A log that nobody reads. */
export const quiet: Log = { debug: nothing, info: nothing, warn: nothing, error: nothing }
