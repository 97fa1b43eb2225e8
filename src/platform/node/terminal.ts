/** The terminal this process was started from. */
import type { ReadStream, WriteStream } from 'node:tty'
import type { Terminal, TerminalEvents } from './commands/command.ts'

type Input = Pick<ReadStream, 'isTTY' | 'setRawMode' | 'setEncoding' | 'on' | 'off' | 'resume' | 'pause'>
type Output = Pick<WriteStream, 'isTTY' | 'columns' | 'rows' | 'write' | 'on' | 'off'>

/** Of a process: its streams, and what it hears. */
export interface Seat {
  readonly stdin: Input
  readonly stdout: Output
  readonly env: Readonly<Record<string, string | undefined>>
  on(event: string, listener: () => void): unknown
  off(event: string, listener: () => void): unknown
  kill(pid: number, signal: string): unknown
}

/** undefined: standard output is none that one can draw on. */
export function terminalOf(seat: Seat): Terminal | undefined {
  const { stdout, env } = seat
  if (stdout.isTTY !== true || env['TERM'] === 'dumb') return undefined
  return {
    // A terminal that does not know its size (a serial line) says 0.
    size: () => ({ columns: stdout.columns || 80, rows: stdout.rows || 24 }),
    write: (text) => void stdout.write(text),
    take: (events) => taken(seat, events),
    // The whole job, as the terminal itself would: there may be a shell or npx between it and us.
    suspend: () => void seat.kill(0, 'SIGTSTP'),
    onResume(resumed) {
      seat.on('SIGCONT', resumed)
      return () => void seat.off('SIGCONT', resumed)
    },
  }
}

const ENDS = ['exit', 'uncaughtExceptionMonitor'] as const

function taken(seat: Seat, { onKeys, onResize, onEnd }: TerminalEvents): () => void {
  const { stdin: input, stdout: output } = seat
  const hears = input.isTTY === true
  if (hears) {
    input.setRawMode(true)
    input.setEncoding('utf8')
    input.on('data', onKeys)
    input.resume()
  }
  output.on('resize', onResize)
  // The monitor is told before Node prints the error: on the drawn screen nobody would ever read it.
  for (const end of ENDS) seat.on(end, onEnd)
  return () => {
    for (const end of ENDS) seat.off(end, onEnd)
    output.off('resize', onResize)
    if (!hears) return
    input.off('data', onKeys)
    input.setRawMode(false)
    input.pause()
  }
}
