/** Runs trials on several scratch copies at once. */
import { RUNTIMES, type Trial } from './mutation.ts'
import { Scratch } from './scratch.ts'
import { failingFiles, judge } from './suite.ts'
import type { Verdict, Verdicts } from './verdicts.ts'

/** Paths of one run without a mutation: few enough that an interruption loses little. */
const BASELINE_PATHS = 8

export interface RunOptions {
  readonly verdicts: Verdicts
  /** Scratch copies, each with its own test runner. */
  readonly jobs: number
  /** No trial starts after this time, in ms since the epoch. */
  readonly endsAt: number
  note(line: string): void
}

/** Stops without an error when `endsAt` is reached; `verdicts` then lacks the rest. */
export async function runTrials(trials: readonly Trial[], options: RunOptions): Promise<void> {
  if (trials.length === 0) return
  const copies = Array.from({ length: Math.min(options.jobs, trials.length) }, () => new Scratch())
  const remove = (): void => copies.forEach((copy) => copy.remove())
  process.once('SIGINT', interrupted).once('SIGTERM', interrupted).once('exit', remove)
  try {
    const [first, ...others] = copies as [Scratch, ...Scratch[]]
    await first.build()
    for (const copy of others) copy.copyWorkerOf(first)
    const waiting = trials.entries()
    await Promise.all([
      runBaselines(first, trials, options).then(() => runOnCopy(first, waiting, options)),
      ...others.map((copy) => runOnCopy(copy, waiting, options)),
    ])
  } finally {
    remove()
    process.removeListener('SIGINT', interrupted).removeListener('SIGTERM', interrupted).removeListener('exit', remove)
  }
}

/** Exits through `process.exit`, so that the handlers of `exit` remove the copies. */
const interrupted = (): void => process.exit(130)

async function runOnCopy(copy: Scratch, waiting: Iterator<[number, Trial]>, options: RunOptions): Promise<void> {
  while (Date.now() < options.endsAt) {
    const { value, done } = waiting.next()
    if (done === true) return
    const [at, trial] = value
    const { mutation, runtime, files } = trial
    const verdict = await copy.withMutation(mutation, () => judge(copy, runtime, files))
    options.verdicts.set(trial, verdict)
    options.note(`${at + 1} ${mutation.name} on ${runtime}: ${textOf(verdict)}`)
  }
}

/** A failing test shows nothing about a mutation if it fails without the mutation too. */
async function runBaselines(copy: Scratch, trials: readonly Trial[], options: RunOptions): Promise<void> {
  const { verdicts, note, endsAt } = options
  for (const runtime of RUNTIMES) {
    const paths = new Set(trials.flatMap((trial) => (trial.runtime === runtime ? trial.files : [])))
    const waiting = [...paths].filter((path) => !verdicts.hasBaseline(runtime, path))
    while (waiting.length > 0 && Date.now() < endsAt) {
      const some = waiting.splice(0, BASELINE_PATHS)
      const failing = await failingFiles(copy, runtime, some)
      verdicts.setBaseline(runtime, some, failing)
      note(`without a mutation on ${runtime}: ${failing.join(', ') || 'no test'} fails; ${waiting.length} paths wait`)
    }
  }
}

function textOf(verdict: Verdict): string {
  return verdict.kind === 'survived'
    ? `SURVIVED ${verdict.tests} tests`
    : `${verdict.kind} by ${verdict.by.replaceAll(/\s+/g, ' ').slice(0, 160)}`
}
