import { disableInspectorSignal, onReload, type StopSignals, watchSignals } from '../platform/node/signals.ts'
import type { Io } from './commands/command.ts'
import { terminalOf } from './terminal.ts'

/**
 * Creates the I/O of a command from the real process. Until a command requests `stop`, signals end the process as
 * usual.
 */
export function processIo(): Io {
  let signals: StopSignals | null = null
  disableInspectorSignal()
  const terminal = terminalOf(process)
  // A reader that closes the pipe early (`firstlight check | head`) is no failure.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1))
  return {
    out: (line) => void process.stdout.write(`${line}\n`),
    err: (line) => void process.stderr.write(`${line}\n`),
    env: process.env,
    get stop() {
      signals ??= watchSignals()
      return signals.stop
    },
    get stopNow() {
      signals ??= watchSignals()
      return signals.stopNow
    },
    onReload,
    ...(terminal === undefined ? {} : { terminal }),
  }
}
