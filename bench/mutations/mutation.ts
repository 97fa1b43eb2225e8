/** One deliberate break of the source, and the tests that have to notice it. */
export interface Mutation {
  /** Short and unique: names the break in reports and for `--only`. */
  readonly name: string
  /** From the root of the repository. */
  readonly file: string
  /** Text that stands exactly once in the file, wherever lines are broken. No line numbers: those change with every edit. */
  readonly there: string
  readonly instead: string
  /** What goes wrong for users when this break is shipped. */
  readonly why: string
  readonly tests: Tests
  /** The break changes no behaviour, with the reason. It is run all the same: a failing test shows that the reason is wrong. */
  readonly equivalent?: string
}

/** Where tests run. `built`: in the vitest project `node`, against the built Worker. */
export type Runtime = 'node' | 'workers' | 'built'

/** Parts of test paths, as vitest takes them, for each runtime that has to notice. */
export type Tests = Readonly<Partial<Record<Runtime, readonly string[]>>>

export const RUNTIMES: readonly Runtime[] = ['node', 'workers', 'built']
