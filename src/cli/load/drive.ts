import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RunResult } from '../../simulator/replay/run.ts'
import { type Trace, type TraceRequest, Job } from '../../simulator/replay/trace.ts'
import { rollHash } from '../../simulator/block-pool.ts'
import { explainFetchError } from '../doctor/trouble.ts'

export interface Target {
  /** Base URL, without a path. */
  readonly url: string
  readonly model: string
  readonly key: string | null
}

/** Result of one request. Milliseconds of the process's monotonic clock; -1: did not happen. */
export interface Answered {
  readonly firstTokenAt: number
  readonly endedAt: number
  readonly longestGapMs: number
  readonly outputTokens: number
  readonly cachedTokens: number
  /** Engine name as the gateway reports it; "-" if it does not. */
  readonly engine: string
  readonly cluster: string
  /** null: success. */
  readonly problem: string | null
  /** Detail from the answer. */
  readonly detail: string | null
}

interface Event {
  readonly choices?: readonly { readonly text?: string }[]
  readonly error?: { readonly message?: string }
  readonly usage?: {
    readonly completion_tokens?: number
    readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null
  } | null
}

/** Sends one streaming completion. Never rejects: failures are part of the result. */
export async function send(
  target: Target,
  request: { readonly prompt: readonly number[]; readonly outputTokens: number; readonly session: string | null },
  signal: AbortSignal,
): Promise<Answered> {
  const result = {
    firstTokenAt: -1,
    endedAt: -1,
    longestGapMs: 0,
    outputTokens: 0,
    cachedTokens: 0,
    engine: '-',
    cluster: '-',
    problem: null as string | null,
    detail: null as string | null,
  }
  try {
    const answer = await fetch(`${target.url}/v1/completions`, {
      method: 'POST',
      signal,
      headers: headersOf(target, request.session),
      body: bodyOf(target.model, request),
    })
    await readAnswer(answer, result)
  } catch (error) {
    const why = explainFetchError(error, target.url)
    result.problem = result.firstTokenAt < 0 ? why : TRUNCATED
    if (result.firstTokenAt >= 0) result.detail = why
  } finally {
    result.endedAt = performance.now()
  }
  return result
}

/** Problem of a stream that ended after its first token, without an error event or `[DONE]`. */
const TRUNCATED = 'truncated stream'

async function readAnswer(
  answer: Response,
  result: { -readonly [Key in keyof Answered]: Answered[Key] },
): Promise<void> {
  result.engine = answer.headers.get('x-firstlight-engine') ?? '-'
  result.cluster = answer.headers.get('x-firstlight-cluster') ?? '-'
  if (!answer.ok || answer.body === null) {
    result.problem = `status ${answer.status}`
    result.detail = detailIn(await answer.text())
    return
  }
  let lastAt = -1
  let isComplete = false
  for await (const event of eventsOf(answer.body)) {
    const now = performance.now()
    isComplete ||= event === DONE
    if (event.error !== undefined) result.problem = event.error.message ?? 'error event'
    if (event.usage?.completion_tokens !== undefined) {
      result.outputTokens = event.usage.completion_tokens
      result.cachedTokens = event.usage.prompt_tokens_details?.cached_tokens ?? 0
    }
    if ((event.choices?.[0]?.text ?? '') === '') continue
    if (result.firstTokenAt < 0) result.firstTokenAt = now
    else result.longestGapMs = Math.max(result.longestGapMs, now - lastAt)
    lastAt = now
  }
  if (result.firstTokenAt < 0) result.problem ??= 'no text'
  else if (!isComplete && result.problem === null) {
    result.problem = TRUNCATED
    result.detail = 'it ended without [DONE]'
  }
}

/** Extracts the message of an error in OpenAI's or FastAPI's form as one line. */
function detailIn(text: string): string | null {
  try {
    const { error, detail } = JSON.parse(text) as {
      readonly error?: { readonly message?: unknown }
      readonly detail?: unknown
    }
    const words = error?.message ?? detail
    return typeof words === 'string' ? words.replaceAll(/\s+/g, ' ').slice(0, 300) : null
  } catch {
    return null
  }
}

function headersOf({ key }: Target, session: string | null): Record<string, string> {
  return {
    'content-type': 'application/json',
    ...(key === null ? {} : { authorization: `Bearer ${key}` }),
    ...(session === null ? {} : { 'x-session-id': session }),
  }
}

function bodyOf(
  model: string,
  { prompt, outputTokens }: { readonly prompt: readonly number[]; readonly outputTokens: number },
): string {
  return JSON.stringify({
    model,
    prompt,
    max_tokens: outputTokens,
    ignore_eos: true,
    temperature: 0,
    stream: true,
    stream_options: { include_usage: true },
  })
}

/** The last event of a complete stream. */
const DONE: Event = {}

async function* eventsOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Event> {
  const text = new TextDecoder()
  let rest = ''
  for await (const bytes of body) {
    const lines = (rest + text.decode(bytes, { stream: true })).split('\n')
    rest = lines.pop()!
    for (const line of lines) {
      if (!line.startsWith('data:')) continue
      const data = line.slice(5).trim()
      yield data === '[DONE]' ? DONE : (JSON.parse(data) as Event)
    }
  }
}

/** First token id used. Ids above it exist in every usual vocabulary and are no special tokens. */
const FIRST_ID = 1000
const IDS = 20_000

/**
 * Builds token ids for a traced prompt. Equal blocks get equal tokens, and the tail that fills no block is unique, so
 * that an engine's cache hits exactly where the trace expects it.
 */
export function promptOf(request: TraceRequest, blockTokens: number, nonce: number): number[] {
  const tokens: number[] = []
  const { blocks, promptTokens } = request
  for (let at = 0; at * 2 < blocks.length; at += 1)
    fill(tokens, blocks[at * 2]! ^ blocks[at * 2 + 1]!, Math.min(promptTokens, (at + 1) * blockTokens))
  fill(tokens, rollHash(0x7a11, nonce), promptTokens)
  return tokens
}

function fill(tokens: number[], seed: number, until: number): void {
  while (tokens.length < until) tokens.push(FIRST_ID + (rollHash(seed, tokens.length) % IDS))
}

export interface DriveOptions {
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
  progress(done: number, of: number): void
}

export interface Driven {
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
export async function drive(trace: Trace, options: DriveOptions): Promise<Driven> {
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
    await Promise.all([...chains.values()].map((jobs) => this.#follow(jobs)))
  }

  driven(): Driven {
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
    const answer = await send(target, { prompt, outputTokens: job.outputTokens, session: job.request.session }, signal)
    this.#record(job, answer)
    this.#done += 1
    this.#options.progress(this.#done, this.#jobs.length)
    this.#letNext()
  }

  #record(job: Job, answer: Answered): void {
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

  #indexOf({ cluster, engine }: Answered): number {
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
