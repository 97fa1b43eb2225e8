import type { Job } from '../job.ts'

/** Requests in flight by engine, as seen by a router that sees only its own traffic. */
export class InFlight {
  readonly counts: Int32Array

  constructor(engines: number) {
    this.counts = new Int32Array(engines)
  }

  begin(engine: number): void {
    this.counts[engine]! += 1
  }

  end(job: Job): void {
    this.counts[job.engine]! -= 1
  }
}

export function indexOfMin(values: ArrayLike<number>): number {
  let best = 0
  for (let at = 1; at < values.length; at += 1) if (values[at]! < values[best]!) best = at
  return best
}
