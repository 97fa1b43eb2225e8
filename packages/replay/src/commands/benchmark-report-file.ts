import { randomUUID } from 'node:crypto'
import type { Args, Command } from '../../../../src/cli/commands/command.ts'
import { asJson, outputOf } from '../../../../src/cli/commands/output-file.ts'
import { UsageError } from '../../../../src/platform/node/usage-error.ts'
import { benchmarkReport, type MeasuredRun } from '../report/benchmark-report.ts'

/** `--benchmark-report FILE` of `replay` and `load`. */
export const benchmarkReportFlag: Command['flags'] = {
  'benchmark-report': {
    type: 'string',
    value: 'FILE',
    about: 'Write the figures of one run in version 0.2 of the benchmark report of llm-d.',
  },
}

/** Writes the report of a run at its end. Checks that the file can be written before the work begins. */
export function benchmarkReportOf(args: Args): (run: () => Omit<MeasuredRun, 'uid'>) => void {
  const write = outputOf(args, 'benchmark-report')
  return (run) => write(() => asJson(benchmarkReport({ ...run(), uid: randomUUID() })))
}

/** Throws a UsageError if a report is asked for and there are several runs: it describes one. */
export function hasReport(args: Args, runs: number): boolean {
  if (args.text('benchmark-report') === null) return false
  if (runs === 1) return true
  throw new UsageError(
    `--benchmark-report describes one run, not ${runs}.`,
    'Give one policy, one load and one seed: --policies predicted --load 0.7',
  )
}
