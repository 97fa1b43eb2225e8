/** Reports how many steps of an examination are done, and names those under way. */
export type ReportSteps = (done: number, of: number, underWay: readonly string[]) => void

/** Steps of an examination, several at a time. */
export class Steps {
  readonly #of: number
  readonly #report: ReportSteps
  readonly #underWay = new Set<string>()
  #done = 0

  constructor(of: number, report: ReportSteps) {
    this.#of = of
    this.#report = report
  }

  async run<Result>(name: string, work: () => Promise<Result>): Promise<Result> {
    this.#underWay.add(name)
    this.#show()
    try {
      return await work()
    } finally {
      this.#underWay.delete(name)
      this.#done += 1
      this.#show()
    }
  }

  #show(): void {
    this.#report(this.#done, this.#of, [...this.#underWay])
  }
}
