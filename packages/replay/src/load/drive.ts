import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { Job } from '../replay/job.ts'
import type { RunResult } from '../replay/run.ts'
import type { Trace } from '../replay/trace.ts'
import { promptOf } from './prompt.ts'
import { type RequestResult, send, type Target } from './send.ts'

interface DriveOptions {
  readonly target: Target
  readonly speed: number
  /** A turn of a chain waits for the previous answer. */
  readonly closedLoop: boolean
  /**
   * Think time starts when the previous turn was due, not when it was answered. This keeps the rate as long as answers
   * arrive in time.
   */
  readonly thinkFromStart: boolean
  /** Maximum number of requests in flight. Earlier requests of the trace go first. */
  readonly concurrency: number
  /** No request starts after this many milliseconds. */
  readonly timeMs: number
  readonly signal: AbortSignal
  progress(done: number, of: number, inFlight: number): void
}

export interface LoadResult {
  /** `jobs` are the requests that were sent, `refused` counts those without a complete answer. */
  readonly result: RunResult
  /** Engine names, indexed by `Job.engine`. */
  readonly engines: readonly string[]
  /** Number of failures by kind. */
  readonly problems: ReadonlyMap<string, number>
  /** Detail of the first failure of each kind. */
  readonly details: ReadonlyMap<string, string>
  /** Requests that were not sent because the time was over or a signal arrived. */
  readonly unsent: number
  /**
   * 99th percentile of the delay of request starts, in ms. A high value means that the load generator is overloaded.
   */
  readonly lateP99Ms: number
}

/** Sends a trace to a running gateway. Ends when everything is answered or `stop` aborts. */
export async function drive(trace: Trace, options: DriveOptions): Promise<LoadResult> {
  const run = new Drive(trace, options)
  await run.go()
  return run.driven()
}

class Drive {
  readonly #trace: Trace
  readonly #options: DriveOptions
  readonly #jobs: Job[]
  readonly #engines: { readonly cluster: string; readonly engine: string }[] = []
  readonly #problems = new Map<string, number>()
  readonly #details = new Map<string, string>()
  readonly #late: number[] = []
  readonly #queue: { readonly job: Job; readonly start: () => void }[] = []
  readonly #startedAt = performance.now()
  readonly #sent = new Set<Job>()
  #inFlight = 0
  #done = 0

  constructor(trace: Trace, options: DriveOptions) {
    this.#trace = trace
    this.#options = options
    this.#jobs = trace.requests.map((request, index) => new Job(index, request))
  }

  async go(): Promise<void> {
    const chains = new Map<string, Job[]>()
    for (const job of this.#jobs) {
      const chain = this.#options.closedLoop && job.request.chain !== null ? job.request.chain : `#${job.index}`
      chains.set(chain, [...(chains.get(chain) ?? []), job])
    }
    this.#showProgress()
    await Promise.all([...chains.values()].map((jobs) => this.#follow(jobs)))
  }

  driven(): LoadResult {
    const sent = this.#jobs.filter((job) => this.#sent.has(job))
    const answered = sent.filter(({ endedAt }) => endedAt >= 0)
    const computedTokens = new Float64Array(this.#engines.length)
    for (const job of answered) computedTokens[job.engine]! += Math.max(0, job.promptTokens - job.cachedTokens)
    const late = this.#late.sort((one, other) => one - other)
    return {
      result: {
        router: 'gateway',
        jobs: sent,
        refused: sent.length - answered.length,
        computedTokens,
        decisionsMs: new Float64Array(0),
        spanMs: performance.now() - this.#startedAt,
      },
      engines: this.#names(),
      problems: this.#problems,
      details: this.#details,
      unsent: this.#jobs.length - this.#done,
      lateP99Ms: late[Math.floor(late.length * 0.99)] ?? 0,
    }
  }

  /** Sends the jobs one after the other: a chain, or a single request. */
  async #follow(jobs: readonly Job[]): Promise<void> {
    let dueMs = jobs[0]!.request.atMs / this.#options.speed
    for (const [turn, job] of jobs.entries()) {
      const thinkMs = job.request.thinkMs / this.#options.speed
      if (turn > 0)
        dueMs = this.#options.thinkFromStart ? Math.max(this.#now(), dueMs + thinkMs) : this.#now() + thinkMs
      if (!(await this.#until(dueMs))) return
      await this.#turn(job)
      if (this.#over()) return this.#letNext()
      this.#late.push(Math.max(0, this.#now() - dueMs))
      await this.#exchange(job)
    }
  }

  async #exchange(job: Job): Promise<void> {
    const { target, signal } = this.#options
    const prompt = promptOf(job.request, this.#trace.blockTokens, job.index)
    job.sentAt = this.#now()
    this.#sent.add(job)
    // Later ones are shown with the next answer: the load generator must not spend its time on a terminal.
    if (this.#done === 0) this.#showProgress()
    const answer = await send(target, { prompt, outputTokens: job.outputTokens, session: job.request.session }, signal)
    this.#record(job, answer)
    this.#done += 1
    this.#showProgress()
    this.#letNext()
  }

  #showProgress(): void {
    this.#options.progress(this.#done, this.#jobs.length, this.#sent.size - this.#done)
  }

  #record(job: Job, answer: RequestResult): void {
    if (answer.problem === null || answer.engine !== '-' || answer.firstTokenAt >= 0) job.engine = this.#indexOf(answer)
    if (answer.problem !== null) {
      const problem = this.#options.signal.aborted ? 'stopped before the answer' : answer.problem
      this.#problems.set(problem, (this.#problems.get(problem) ?? 0) + 1)
      if (answer.detail !== null && !this.#details.has(problem)) this.#details.set(problem, answer.detail)
      return
    }
    job.firstTokenAt = answer.firstTokenAt - this.#startedAt
    job.endedAt = answer.endedAt - this.#startedAt
    job.longestGapMs = answer.longestGapMs
    job.cachedTokens = answer.cachedTokens
  }

  #indexOf({ cluster, engine }: RequestResult): number {
    const at = this.#engines.findIndex((names) => names.cluster === cluster && names.engine === engine)
    return at < 0 ? this.#engines.push({ cluster, engine }) - 1 : at
  }

  /** Names engines. Engines of different clusters may share a name. */
  #names(): string[] {
    const isOne = this.#engines.every(({ cluster }) => cluster === this.#engines[0]!.cluster)
    return this.#engines.map(({ cluster, engine }) => (isOne ? engine : `${cluster}/${engine}`))
  }

  /** Resolves when the concurrency limit admits the job. */
  #turn(job: Job): Promise<void> {
    if (this.#inFlight < this.#options.concurrency) {
      this.#inFlight += 1
      return Promise.resolve()
    }
    return new Promise((start) => {
      let at = this.#queue.length
      while (at > 0 && this.#queue[at - 1]!.job.index > job.index) at -= 1
      this.#queue.splice(at, 0, { job, start })
    })
  }

  /** Releases the slot to the next job in line. */
  #letNext(): void {
    const next = this.#queue.shift()
    if (next === undefined) this.#inFlight -= 1
    else next.start()
  }

  #over(): boolean {
    return this.#options.signal.aborted || this.#now() > this.#options.timeMs
  }

  /** Waits until the due time. Resolves with false if the run ends first. */
  async #until(dueMs: number): Promise<boolean> {
    if (dueMs > this.#options.timeMs) return false
    const leftMs = dueMs - this.#now()
    if (leftMs > 0) await sleep(leftMs, undefined, { signal: this.#options.signal }).catch(() => undefined)
    return !this.#over()
  }

  #now(): number {
    return performance.now() - this.#startedAt
  }
}
