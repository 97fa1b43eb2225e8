/** Invalid line of a trace. The message has the line and the cause. */
export class TraceError extends Error {
  readonly line: number
  readonly problem: string

  constructor(line: number, problem: string) {
    super(`line ${line} of the trace ${problem}`)
    this.name = 'TraceError'
    this.line = line
    this.problem = problem
  }
}
