/** One deliberate fault in the source, and the tests that must fail because of it. */
export interface Mutation {
  /** Short and unique. Names the mutation in reports and for `--only`. */
  readonly name: string
  /** Source file, from the root of the repository. */
  readonly file: string
  /**
   * Text that occurs exactly once in the file; white space is ignored. No line numbers: those change with every edit.
   */
  readonly find: string
  readonly replace: string
  /** What users would notice if this fault were released. */
  readonly impact: string
  readonly tests: Tests
  /** Why the mutation changes no behaviour. It is run all the same: a failing test disproves the reason. */
  readonly equivalent?: string
  /** Why no test catches this mutation although it changes behaviour. Counts as a survivor. */
  readonly survives?: string
}

/** Where tests run. `built`: in the vitest project `node`, against the built Worker. */
export type Runtime = 'node' | 'workers' | 'built'

/** Parts of test paths, as vitest takes them, for each runtime that must catch the mutation. */
export type Tests = Readonly<Partial<Record<Runtime, readonly string[]>>>

export const RUNTIMES: readonly Runtime[] = ['node', 'workers', 'built']

/** One run of tests: a mutation on one runtime. */
export interface Trial {
  readonly mutation: Mutation
  readonly runtime: Runtime
  readonly files: readonly string[]
}

export function trialsOf(mutation: Mutation): Trial[] {
  return RUNTIMES.flatMap((runtime) => {
    const files = mutation.tests[runtime]
    return files === undefined ? [] : [{ mutation, runtime, files }]
  })
}
