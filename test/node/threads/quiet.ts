import type { Log } from '../../../src/ports/log.ts'

const nothing = (): void => {}

/** A log without output. */
export const quiet: Log = { debug: nothing, info: nothing, warn: nothing, error: nothing }
