import type { Args, Command, Io } from './command.ts'
import type { ProgressStream } from './progress-stream.ts'

const WIDTH = 30

/** Columns of a terminal that does not report its width. */
const COLUMNS = 80

/** Lines of `--progress`, beside that for the start. */
const LINES = 10

interface ProgressBar {
  /** @param detail what the work waits for */
  draw(done: number, of: number, detail?: string): void
  clear(): void
}

const SILENT: ProgressBar = { draw() {}, clear() {} }

/** Flag of the commands that show their progress. */
export const progressFlag = {
  progress: {
    type: 'boolean',
    about: 'Print progress to standard error as lines. On a terminal, a bar is always drawn.',
  },
} as const satisfies Command['flags']

/** Shows the progress of a command: a bar on a terminal, elsewhere lines with `--progress` or nothing. */
export function progressOf(label: string, args: Pick<Args, 'on'>, io: Pick<Io, 'err' | 'progress'>): ProgressBar {
  const { progress: stream } = io
  if (stream?.isTTY === true) return progressBar(label, stream)
  return args.on('progress') ? progressLines(label, (line) => io.err(line)) : SILENT
}

/** Draws a progress bar on standard error if it is a terminal; otherwise prints nothing, so that logs stay readable. */
export function progressBar(label: string, stream: ProgressStream = process.stderr): ProgressBar {
  if (stream.isTTY !== true) return SILENT
  return {
    draw(done, of, detail) {
      const filled = Math.round((WIDTH * done) / Math.max(1, of))
      const text = `${'█'.repeat(filled)}${'░'.repeat(WIDTH - filled)} ${textOf(label, done, of, detail)}`
      // A line that wraps could not be drawn over.
      stream.write(`\r${text.slice(0, (stream.columns || COLUMNS) - 1)}\u001b[K`)
    },
    clear() {
      stream.write('\r\u001b[K')
    },
  }
}

/** Prints a line for the start and for each tenth that is done. */
function progressLines(label: string, print: (line: string) => void): ProgressBar {
  let printed = -1
  return {
    draw(done, of, detail) {
      const tenth = Math.floor((LINES * done) / Math.max(1, of))
      if (tenth <= printed) return
      printed = tenth
      print(textOf(label, done, of, detail))
    },
    clear() {},
  }
}

const textOf = (label: string, done: number, of: number, detail?: string): string =>
  `${done}/${of} ${label}${detail === undefined || detail === '' ? '' : `, ${detail}`}`
