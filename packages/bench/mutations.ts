/**
 * Mutation testing: applies one deliberate fault at a time to a copy of the tree and runs the tests that must catch it,
 * on each runtime concerned. Flags:
 * `--only TEXT[,TEXT]`: mutations with one of the texts in their name or file.
 * `--results FILE`: keeps verdicts in FILE and skips trials that it has a verdict for.
 * `--again KIND[,KIND]`: runs trials again whose verdict in FILE is of this kind, such as `survived` or `inconclusive`.
 * `--minutes N`: starts no trial after N minutes. `--jobs N`: trials at once (default 1).
 * `--check`: only verifies that each mutation can be applied.
 */
import { mutations } from './mutations/all.ts'
import { catalogueProblems } from './mutations/catalogue.ts'
import { trialsOf, type Mutation } from './mutations/mutation.ts'
import { runTrials } from './mutations/runner.ts'
import { Verdicts, type Verdict } from './mutations/verdicts.ts'
import type { Bench, BenchOptions, BenchResult, BenchRow } from './result.ts'

const bench: Bench = async ({ flags, note }) => {
  const problems = catalogueProblems(mutations)
  if (problems.length > 0)
    throw new Error(`Update packages/bench/mutations, these mutations do not fit the tree:\n${problems.join('\n')}`)
  const chosen = chooseMutations(flags)
  if (flags['check'] !== undefined) return { rows: [], headline: { mutants: chosen.length } }
  const verdicts = new Verdicts(textFlag(flags, 'results') ?? null)
  const again = textFlag(flags, 'again')?.split(',') ?? []
  const isWaiting = (verdict: Verdict | null): boolean => verdict === null || again.includes(verdict.kind)
  const trials = chosen.flatMap(trialsOf).filter((trial) => isWaiting(verdicts.of(trial)))
  note(`${trials.length} trials of ${chosen.length} mutations`)
  const endsAt = Date.now() + numberFlag(flags, 'minutes', Infinity) * 60_000
  await runTrials(trials, { verdicts, jobs: numberFlag(flags, 'jobs', 1), endsAt, note })
  return report(chosen.map((mutation) => resultOf(mutation, verdicts)))
}
export default bench

type Flags = BenchOptions['flags']

function chooseMutations(flags: Flags): readonly Mutation[] {
  const only = textFlag(flags, 'only')
  const parts = only?.split(',') ?? ['']
  const chosen = mutations.filter(({ name, file }) => parts.some((part) => name.includes(part) || file.includes(part)))
  if (chosen.length === 0) throw new Error(`--only ${only}: no mutation has this text in its name or file`)
  return chosen
}

function textFlag(flags: Flags, name: string): string | undefined {
  const value = flags[name]
  if (value === true) throw new Error(`--${name} needs a value`)
  return value
}

function numberFlag(flags: Flags, name: string, otherwise: number): number {
  const value = textFlag(flags, name)
  if (value === undefined) return otherwise
  if (!(Number(value) > 0)) throw new Error(`--${name} ${value}: not a positive number`)
  return Number(value)
}

interface Result {
  readonly mutation: Mutation
  readonly kind: Verdict['kind'] | 'equivalent' | 'not run'
  /** Runtimes that decide the kind, and the reason or the failing test. */
  readonly detail: string
}

/** A mutation is caught only if a test fails on every runtime concerned. */
function resultOf(mutation: Mutation, verdicts: Verdicts): Result {
  const trials = trialsOf(mutation).map((trial) => ({ runtime: trial.runtime, verdict: verdicts.of(trial) }))
  const withKind = (kind: Verdict['kind']) => trials.filter(({ verdict }) => verdict?.kind === kind)
  for (const kind of ['unloadable', 'inconclusive'] as const)
    for (const { runtime, verdict } of withKind(kind))
      if (verdict !== null && 'by' in verdict) return { mutation, kind, detail: `${runtime}: ${verdict.by}` }
  if (trials.some(({ verdict }) => verdict === null)) return { mutation, kind: 'not run', detail: '' }
  const runtimes = withKind('survived').map(({ runtime }) => runtime)
  const { equivalent, survives } = mutation
  if (equivalent !== undefined && runtimes.length === trials.length)
    return { mutation, kind: 'equivalent', detail: equivalent }
  if (runtimes.length > 0) return { mutation, kind: 'survived', detail: `${runtimes.join(', ')}: ${survives ?? ''}` }
  return { mutation, kind: 'caught', detail: '' }
}

function report(results: readonly Result[]): BenchResult {
  const count = (kind: Result['kind']): number => results.filter((result) => result.kind === kind).length
  const disproved = results.filter(({ mutation, kind }) => kind === 'caught' && isExcused(mutation))
  if (disproved.length > 0)
    throw new Error(
      'a test catches mutations that the catalogue excuses: ' +
        `${disproved.map(({ mutation }) => mutation.name).join(', ')}`,
    )
  const mutants = count('caught') + count('survived')
  return {
    rows: results.filter(({ kind }) => kind !== 'caught').map(rowOf),
    headline: {
      caught_share: mutants === 0 ? 1 : count('caught') / mutants,
      mutants,
      caught: count('caught'),
      survivors: count('survived'),
      equivalent: count('equivalent'),
      not_judged: results.length - mutants - count('equivalent'),
    },
  }
}

const isExcused = ({ equivalent, survives }: Mutation): boolean => equivalent !== undefined || survives !== undefined

const rowOf = ({ mutation, kind, detail }: Result): BenchRow => ({
  mutation: mutation.name,
  file: mutation.file,
  result: kind,
  detail: detail.replaceAll(/\s+/g, ' ').slice(0, 200),
  impact: mutation.impact,
})
