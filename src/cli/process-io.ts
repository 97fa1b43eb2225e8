import { createInterface } from 'node:readline/promises'
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
    ...(process.env['TERM'] === 'dumb' ? {} : { progress: process.stderr }),
    ...(process.stdin.isTTY && process.stdout.isTTY ? { question } : {}),
    ...(terminal === undefined ? {} : { terminal }),
  }
}

async function question(text: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stdout })
  try {
    return await lines.question(text)
  } finally {
    lines.close()
  }
}
