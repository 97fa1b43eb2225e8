import type { CapacityError } from '../contract/pool-capacity.ts'

/** Minutes for which the error is kept. */
const MINUTES = 60
const MINUTE_MS = 60_000

/** Interval of statements, ms: the arrivals that they come from have slices of this length. */
const STATE_MS = 10_000

/** Share of requests that may be refused or late in a minute with room: the rule plans for 99 of 100 waits. */
const MISSED_SHARE = 0.01

/** Requests of one minute. */
interface MinuteCount {
  /** Requests that arrived, with refused ones. */
  readonly arrivals: number
  /** Requests that were refused, or whose first token was late. */
  readonly missed: number
}

/** Capacity that was stated in a minute, requests per second. */
interface Stated {
  /** Start of the minute, ms since the epoch. */
  readonly at: number
  lowestPerS: number
  highestPerS: number
}

type Grade = 'right' | 'overstated' | 'understated'

/** Compares the stated capacity of a pool with the requests that came, minute by minute, for an hour. */
export class CapacityChecks {
  readonly #grades: { readonly at: number; readonly grade: Grade }[] = []
  readonly #countOf: (minuteAt: number) => MinuteCount | null
  #open: Stated | null = null
  #statedAt = -Infinity

  /** @param countOf counts of the complete minute that starts then. null: not known */
  constructor(countOf: (minuteAt: number) => MinuteCount | null) {
    this.#countOf = countOf
  }

  /** Whether the next statement is due, which takes a pass over all engines. */
  isDue(now: number): boolean {
    return Math.abs(now - this.#statedAt) >= STATE_MS
  }

  /**
   * Records the capacity that the rule states now.
   * @param perS requests per second. null: unknown
   */
  stated(perS: number | null, now: number): void {
    this.#statedAt = now
    const at = now - (now % MINUTE_MS)
    if (this.#open !== null && at > this.#open.at) {
      this.#close(this.#open)
      this.#open = null
    }
    if (perS === null) return
    // A clock that went back adds to the open minute.
    this.#open ??= { at, lowestPerS: perS, highestPerS: perS }
    this.#open.lowestPerS = Math.min(this.#open.lowestPerS, perS)
    this.#open.highestPerS = Math.max(this.#open.highestPerS, perS)
  }

  /** Error over the last hour. null: no minute with requests was compared. */
  error(now: number): CapacityError | null {
    const recent = this.#grades.filter(({ at }) => at >= now - MINUTE_MS * (MINUTES + 1))
    const count = (grade: Grade): number => recent.filter((one) => one.grade === grade).length
    if (recent.length === 0) return null
    return { minutes: recent.length, overstated: count('overstated'), understated: count('understated') }
  }

  #close(open: Stated): void {
    const count = this.#countOf(open.at)
    if (count === null || count.arrivals === 0) return
    this.#grades.push({ at: open.at, grade: gradeOf(open, count) })
    if (this.#grades.length > MINUTES) this.#grades.shift()
  }
}

/** Grades a minute by all its statements: engines that leave or join within it are no error of the rule. */
function gradeOf({ lowestPerS, highestPerS }: Stated, { arrivals, missed }: MinuteCount): Grade {
  const servedPerS = ((1 - MISSED_SHARE) * arrivals * 1000) / MINUTE_MS
  if (missed > MISSED_SHARE * arrivals) return servedPerS <= lowestPerS ? 'overstated' : 'right'
  return servedPerS > highestPerS ? 'understated' : 'right'
}
