/** Result of a benchmark. A file `packages/bench/NAME.ts` exports `default async (options) => BenchResult`. */
export interface BenchResult {
  /** One object per table row; keys are the columns, in snake_case with the unit at the end. */
  readonly rows: readonly BenchRow[]
  /** The figures that the design names, under its names. */
  readonly headline: Readonly<Record<string, number>>
}

export type BenchRow = Readonly<Record<string, string | number | boolean | null>>

export interface BenchOptions {
  /** `--key value` and `--flag` after the name; kebab-case as typed, `true` for a bare flag. */
  readonly flags: Readonly<Record<string, string | true>>
  /** Arguments that are no flags, such as paths of traces. */
  readonly args: readonly string[]
  /** Prints progress on stderr, so that the table on stdout stays clean. */
  note(line: string): void
}

export type Bench = (options: BenchOptions) => Promise<BenchResult>
