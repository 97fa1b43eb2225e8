/** Runs the command line inside the test's process. Returns its output and exit code. */
import { main } from '../../bin/commands.ts'
import type { Io } from '../../src/cli/commands/command.ts'

export const firstlight = (...argv: string[]) => firstlightIn({}, ...argv)

/** Runs it with other DNS answers, environment variables or a terminal for progress. */
export async function firstlightIn(
  world: Partial<Pick<Io, 'env' | 'lookup' | 'question' | 'progress'>>,
  ...argv: string[]
): Promise<{ code: number; out: string; err: string }> {
  const out: string[] = []
  const err: string[] = []
  const never = new AbortController().signal
  const code = await main(argv, {
    out: (line) => out.push(line),
    err: (line) => err.push(line),
    env: {},
    stop: never,
    stopNow: never,
    ...world,
  })
  return { code, out: out.join('\n'), err: err.join('\n') }
}
