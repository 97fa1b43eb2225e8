/**
 * Expected results of PrefillQueue, from "Queued prefill" in docs/routing.md. An engine prefills first come, first
 * served, one prompt at a time, each for the time of its cost model (M/D/1). The model stores the rest of each prompt
 * in microseconds; elapsed time is subtracted from the first prompt first.
 */
import type { Prefill } from '../../../../src/core/pool/estimators/prefill-queue.ts'

export interface Job extends Prefill {
  readonly order: number
  readonly micros: number
  left: number
  counts: boolean
  presumedAt: number | null
  ended: boolean
}

export class PrefillQueueModel {
  /** Jobs that have not ended, in booking order. */
  #jobs: Job[] = []
  #booked = 0
  /** Time up to which the model has advanced, ms. */
  #at = 0
  /** First job that counts, and the time at which the engine could start it. */
  #head: Job | undefined
  #headSince = 0

  get waiting(): readonly Job[] {
    return this.#jobs.filter(({ counts }) => counts)
  }

  /** Seconds until a prompt booked now would start. A first token later than 4 times its step and 5 s is overdue. */
  seconds(now: number): number {
    const [head, ...behind] = this.waiting
    const elapsed = (now - this.#headSince) * 1000
    const lateness = elapsed / (4 * sum(this.#stepOf(head), 'micros') + 5e6)
    const overdue =
      head?.streams === true && lateness > 1 ? elapsed * (1 - 1 / lateness) + lateness * sum(behind, 'micros') : 0
    return Math.max(0, sum(this.waiting, 'left') - Math.max(0, now - this.#at) * 1000, overdue) / 1e6
  }

  add(prefill: Prefill, now: number): Job {
    this.settle(now)
    const micros = Math.round(prefill.seconds * 1e6)
    const job: Job = {
      ...prefill,
      order: this.#booked++,
      micros,
      left: micros,
      counts: true,
      presumedAt: null,
      ended: false,
    }
    this.#jobs.push(job)
    this.#look(now)
    return job
  }

  /** Unstreamed prompts count as prefilled when their time has passed and no job is before them. */
  settle(now: number): void {
    this.pass(now)
    for (let head = this.waiting[0]; head?.streams === false && head.left === 0; head = this.waiting[0])
      this.#presume(head, now)
  }

  pass(now: number): void {
    let micros = Math.max(0, now - this.#at) * 1000
    for (const job of this.waiting) micros -= job.left - (job.left = Math.max(0, job.left - micros))
    this.#at = now
  }

  /** Prefills are in order: all jobs before it are done, and the next one starts now. */
  firstToken(job: Job, now: number): void {
    if (job.ended) return
    for (const other of this.#jobs) {
      other.left = other.order > job.order && other.counts ? other.micros : 0
      if (other.order < job.order && other.streams === false && other.counts) this.#presume(other, now)
    }
    this.#at = now
    this.end(job, now)
    this.#headSince = now
  }

  end(job: Job, now: number): void {
    Object.assign(job, { ended: true, counts: false })
    this.#jobs = this.#jobs.filter((other) => other !== job)
    this.#look(now)
  }

  #presume(job: Job, now: number): void {
    Object.assign(job, { counts: false, presumedAt: now, left: 0 })
    this.#look(now)
  }

  #look(now: number): void {
    if (this.waiting[0] !== this.#head) this.#headSince = now
    this.#head = this.waiting[0]
  }

  /** Jobs that can share its engine step of 8192 new tokens. */
  #stepOf(head: Job | undefined): readonly Job[] {
    const from = this.#jobs.filter(({ order }) => head !== undefined && order >= head.order)
    const end = from.findIndex((_, at) => at > 0 && sum(from.slice(0, at + 1), 'newTokens') > 8192)
    return end < 0 ? from : from.slice(0, end)
  }
}

export const sum = (jobs: readonly Job[], what: 'left' | 'micros' | 'newTokens' | 'work'): number =>
  jobs.reduce((all, job) => all + job[what], 0)
