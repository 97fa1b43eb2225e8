/** Warnings about rejected requests per reason and window. */
const LINES = 10

const WINDOW_MS = 10_000

interface Window {
  readonly endsAt: number
  lines: number
  suppressed: number
}

interface SuppressedRefusals {
  readonly reason: string
  readonly suppressed: number
}

/** Limits log lines during an outage: the first refusals of a window are warnings, the others are counted. */
export class RefusalLogLimit {
  readonly #windows = new Map<string, Window>()

  /** Whether this refusal may be a warning. Reasons are a closed set. */
  admits(reason: string, now: number): boolean {
    let window = this.#windows.get(reason)
    if (window === undefined || now >= window.endsAt) {
      window = { endsAt: now + WINDOW_MS, lines: 0, suppressed: 0 }
      this.#windows.set(reason, window)
    }
    if (window.lines === LINES) window.suppressed += 1
    else window.lines += 1
    return window.suppressed === 0
  }

  /** Counts of suppressed refusals of ended windows; each is returned once. */
  ended(now: number): readonly SuppressedRefusals[] {
    const summaries: SuppressedRefusals[] = []
    for (const [reason, { endsAt, suppressed }] of this.#windows) {
      if (now < endsAt) continue
      this.#windows.delete(reason)
      if (suppressed > 0) summaries.push({ reason, suppressed })
    }
    return summaries
  }
}
