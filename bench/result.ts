/** What a benchmark hands back. A file `bench/NAME.ts` exports `default async (options) => BenchResult`. */
export interface BenchResult {
  /** One object a table row; the keys are the columns, in snake_case with the unit at the end. */
  readonly rows: readonly BenchRow[]
  /** The few figures the design promises, under the names it gives them. */
  readonly headline: Readonly<Record<string, number>>
}

export type BenchRow = Readonly<Record<string, string | number | boolean | null>>

export interface BenchOptions {
  /** `--key value` and `--flag` after the name; kebab-case as typed, `true` for a bare flag. */
  readonly flags: Readonly<Record<string, string | true>>
  /** What is not a flag: paths of traces and the like. */
  readonly args: readonly string[]
  /** For progress, so that the table on stdout stays clean. */
  note(line: string): void
}

export type Bench = (options: BenchOptions) => Promise<BenchResult>
