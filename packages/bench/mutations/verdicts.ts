/** Verdicts of trials, kept in a file so that an interrupted run can be resumed. */
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import type { Runtime, Trial } from './mutation.ts'

export type Verdict =
  /** Every test passed: the mutation survived. */
  | { readonly kind: 'survived'; readonly tests: number }
  /** `by`: the first test that failed, or the other error that ended the run. */
  | { readonly kind: 'caught'; readonly by: string }
  /** The source does not load, so no test judged the mutation. */
  | { readonly kind: 'unloadable'; readonly by: string }
  /** No test ran, or the tests fail without the mutation too. */
  | { readonly kind: 'inconclusive'; readonly by: string }

interface Content {
  readonly verdicts: Record<string, Verdict>
  /** Runtime and part of a test path → matching test files that fail without a mutation. */
  readonly baselines: Record<string, string[]>
}

export class Verdicts {
  readonly #file: string | null
  readonly #content: Content

  /** `file`: null keeps the verdicts in memory only. */
  constructor(file: string | null) {
    this.#file = file
    this.#content =
      file !== null && existsSync(file)
        ? (JSON.parse(readFileSync(file, 'utf8')) as Content)
        : { verdicts: {}, baselines: {} }
  }

  /** null: the trial has not run. */
  of(trial: Trial): Verdict | null {
    const verdict = this.#content.verdicts[keyOf(trial)] ?? null
    const failing = this.#baselineFailure(trial)
    return verdict?.kind === 'caught' && failing !== null
      ? { kind: 'inconclusive', by: `${failing} fails without the mutation` }
      : verdict
  }

  set(trial: Trial, verdict: Verdict): void {
    this.#content.verdicts[keyOf(trial)] = verdict
    this.#save()
  }

  /** Whether the tests at this path have passed without a mutation. */
  hasBaseline(runtime: Runtime, path: string): boolean {
    return this.#content.baselines[`${runtime} ${path}`]?.length === 0
  }

  /** A test file of the trial that fails without the mutation too; null if none is known. */
  #baselineFailure({ runtime, files }: Trial): string | null {
    return files.flatMap((path) => this.#content.baselines[`${runtime} ${path}`] ?? [])[0] ?? null
  }

  setBaseline(runtime: Runtime, paths: readonly string[], failing: readonly string[]): void {
    for (const path of paths)
      this.#content.baselines[`${runtime} ${path}`] = failing.filter((file) => file.includes(path))
    this.#save()
  }

  #save(): void {
    if (this.#file === null) return
    // Renamed into place: an interrupted write must not lose the verdicts of an hour.
    writeFileSync(`${this.#file}.part`, `${JSON.stringify(this.#content, null, 2)}\n`)
    renameSync(`${this.#file}.part`, this.#file)
  }
}

/** Without the name, the prose and the test paths, so that editing them keeps the verdict. */
function keyOf({ mutation: { file, find, replace }, runtime }: Trial): string {
  const hash = createHash('sha256')
    .update(JSON.stringify([file, find, replace, runtime]))
    .digest('hex')
  return `${file} ${runtime} ${hash.slice(0, 16)}`
}
