/** The terminal of this process. */
import type { ReadStream, WriteStream } from 'node:tty'

type Input = Pick<ReadStream, 'isTTY' | 'setRawMode' | 'setEncoding' | 'on' | 'off' | 'resume' | 'pause'>

type Output = Pick<WriteStream, 'isTTY' | 'columns' | 'rows' | 'write' | 'on' | 'off'>

/** Standard streams and signals of a process. @testing */
export interface ProcessStdio {
  readonly stdin: Input
  readonly stdout: Output
  readonly env: Readonly<Record<string, string | undefined>>
  on(event: string, listener: () => void): unknown
  off(event: string, listener: () => void): unknown
  kill(pid: number, signal: string): unknown
}

/** Returns undefined if standard output is not an interactive terminal. */
export function terminalOf(signals: ProcessStdio): Terminal | undefined {
  const { stdout, env } = signals
  if (stdout.isTTY !== true || env['TERM'] === 'dumb') return undefined
  return {
    // A terminal without a known size (a serial line) reports 0.
    size: () => ({ columns: stdout.columns || 80, rows: stdout.rows || 24 }),
    write: (text) => void stdout.write(text),
    capture: (events) => captureInput(signals, events),
    // Stops the whole job, as the terminal does: a shell or npx may be the parent.
    suspend: () => void signals.kill(0, 'SIGTSTP'),
    onResume(resumed) {
      signals.on('SIGCONT', resumed)
      return () => void signals.off('SIGCONT', resumed)
    },
  }
}

const ENDS = ['exit', 'uncaughtExceptionMonitor'] as const

function captureInput(signals: ProcessStdio, { onKeys, onResize, onEnd }: TerminalEvents): () => void {
  const { stdin: input, stdout: output } = signals
  const hasSignals = input.isTTY === true
  if (hasSignals) {
    input.setRawMode(true)
    input.setEncoding('utf8')
    input.on('data', onKeys)
    input.resume()
  }
  output.on('resize', onResize)
  // The monitor runs before Node prints the error. Otherwise the error would appear on the alternate screen and be
  // lost.
  for (const end of ENDS) signals.on(end, onEnd)
  return () => {
    for (const end of ENDS) signals.off(end, onEnd)
    output.off('resize', onResize)
    if (!hasSignals) return
    input.off('data', onKeys)
    input.setRawMode(false)
    input.pause()
  }
}

/** A terminal that supports cursor control. */
export interface Terminal {
  size(): { readonly columns: number; readonly rows: number }
  write(text: string): void
  /** Switches to raw input without echo until the returned function is called. */
  capture(events: TerminalEvents): () => void
  /** Suspends this job, as Ctrl-Z does. `onResume` handlers run when it continues. */
  suspend(): void
  /** Registers a handler that runs when this job continues. The returned function removes it. */
  onResume(resumed: () => void): () => void
}

/** @testing */
export interface TerminalEvents {
  /** One key, several keys, or pasted text. */
  onKeys(keys: string): void
  onResize(): void
  /** The process is about to exit. Only synchronous writes are possible. */
  onEnd(): void
}
