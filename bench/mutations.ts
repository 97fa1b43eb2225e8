/**
 * Do the tests notice when the source is wrong? Puts one deliberate break at a time into a scratch copy of the tree and runs
 * the tests that cover it, on each runtime that has to notice. `--only TEXT[,TEXT]`: breaks whose name or file
 * holds one of them;
 * `--check`: only whether each break still fits its file.
 */
import type { Bench, BenchRow } from './result.ts'
import { mutations } from './mutations/all.ts'
import { RUNTIMES, type Mutation, type Runtime } from './mutations/mutation.ts'
import { misplaced, Scratch, sourceText } from './mutations/scratch.ts'
import { runTests, type Verdict } from './mutations/suite.ts'

interface Result {
  readonly mutation: Mutation
  readonly verdicts: readonly (readonly [Runtime, Verdict])[]
}

/** Runs what has to be done at an exit. */
const interrupted = (): void => process.exit(130)

const bench: Bench = async ({ flags, note }) => {
  const { only } = flags
  if (only === true) throw new Error('--only needs a part of a name or a path, e.g. --only prefix-index')
  const parts = only?.split(',') ?? ['']
  const chosen = mutations.filter(({ name, file }) => parts.some((part) => name.includes(part) || file.includes(part)))
  if (chosen.length === 0) throw new Error(`no break has "${only}" in its name or file`)
  refuseStale(chosen)
  if (flags['check'] !== undefined) return { rows: [], headline: { mutants: mutations.length } }
  const scratch = new Scratch()
  const remove = (): void => scratch.remove()
  process.once('SIGINT', interrupted).once('SIGTERM', interrupted).once('exit', remove)
  try {
    return report(await runAll(scratch, chosen, note))
  } finally {
    remove()
    process.removeListener('SIGINT', interrupted).removeListener('SIGTERM', interrupted).removeListener('exit', remove)
  }
}
export default bench

/** A break whose text is gone tests nothing: the list would rot and the share of caught ones would still look good. */
function refuseStale(all: readonly Mutation[]): void {
  const names = new Set<string>()
  const problems: string[] = []
  for (const mutation of all) {
    const problem = names.has(mutation.name)
      ? 'another break has the same name'
      : misplaced(mutation, sourceText(mutation.file))
    names.add(mutation.name)
    if (problem !== null) problems.push(`${mutation.name}: ${problem}: ${mutation.file}`)
  }
  if (problems.length > 0)
    throw new Error(
      `${problems.length} breaks do not fit the source. Update them in bench/mutations:\n${problems.join('\n')}`,
    )
}

async function runAll(scratch: Scratch, chosen: readonly Mutation[], note: (line: string) => void): Promise<Result[]> {
  await scratch.build()
  const unbroken = new Map<string, Verdict>()
  const results: Result[] = []
  for (const [at, mutation] of chosen.entries()) {
    const verdicts: (readonly [Runtime, Verdict])[] = []
    for (const [runtime, files] of testsOf(mutation)) {
      const before = await withoutBreak(scratch, unbroken, runtime, files)
      const verdict =
        before.kind === 'passed' ? await scratch.broken(mutation, () => runTests(scratch, runtime, files)) : before
      verdicts.push([runtime, verdict])
      note(`${at + 1}/${chosen.length} ${mutation.name} on ${runtime}: ${told(verdict)}`)
    }
    results.push({ mutation, verdicts })
  }
  return results
}

/** Without the break the tests have to pass, or their failure shows nothing. Run once for each set of tests. */
async function withoutBreak(
  scratch: Scratch,
  known: Map<string, Verdict>,
  runtime: Runtime,
  files: readonly string[],
): Promise<Verdict> {
  const name = `${runtime} ${files.join(' ')}`
  const verdict = known.get(name) ?? (await runTests(scratch, runtime, files))
  known.set(name, verdict)
  if (verdict.kind === 'passed') return verdict.tests > 0 ? verdict : { kind: 'useless', by: 'no test was run' }
  return { kind: 'useless', by: `the tests fail without the break: ${verdict.by}` }
}

const testsOf = ({ tests }: Mutation) =>
  RUNTIMES.flatMap((runtime) => (tests[runtime] === undefined ? [] : [[runtime, tests[runtime]] as const]))

function told(verdict: Verdict): string {
  return verdict.kind === 'passed'
    ? `all ${verdict.tests} tests pass`
    : `${verdict.kind} by ${verdict.by.replaceAll(/\s+/g, ' ').slice(0, 160)}`
}

/** Caught: by a test on every runtime that has to notice. */
const isCaught = ({ verdicts }: Result): boolean => verdicts.every(([, { kind }]) => kind === 'failed')

function report(results: readonly Result[]): { rows: BenchRow[]; headline: Record<string, number> } {
  const unloadable = results.filter(({ verdicts }) => verdicts.some(([, { kind }]) => kind === 'unloadable'))
  if (unloadable.length > 0)
    throw new Error(
      `breaks that do not load test nothing: ${unloadable.map(({ mutation }) => mutation.name).join(', ')}`,
    )
  const wrong = results.filter(
    ({ mutation, verdicts }) => mutation.equivalent !== undefined && verdicts.some(([, { kind }]) => kind === 'failed'),
  )
  if (wrong.length > 0)
    throw new Error(
      `a test notices breaks that are listed as equivalent: ${wrong.map(({ mutation }) => mutation.name).join(', ')}`,
    )
  const judged = results.filter(({ mutation }) => mutation.equivalent === undefined)
  const caught = judged.filter(isCaught).length
  return {
    rows: results.map(rowOf),
    headline: {
      mutants: judged.length,
      caught,
      caught_share: judged.length === 0 ? 1 : caught / judged.length,
      survivors: judged.length - caught,
    },
  }
}

function rowOf({ mutation, verdicts }: Result): BenchRow {
  const survived = verdicts.filter(([, { kind }]) => kind === 'passed').map(([runtime]) => runtime)
  const useless = verdicts.flatMap(([, verdict]) => (verdict.kind === 'useless' ? [verdict.by] : []))[0]
  const state =
    mutation.equivalent !== undefined
      ? `equivalent: ${mutation.equivalent}`
      : useless !== undefined
        ? `NOT TESTED: ${useless}`
        : survived.length === 0
          ? 'caught'
          : `SURVIVED on ${survived.join(', ')}`
  return { break: mutation.name, file: mutation.file, result: state, why: mutation.why }
}
