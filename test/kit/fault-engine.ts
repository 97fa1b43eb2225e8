/** An engine that fails in every way an engine can; it implements enough of vLLM's API. */
import { setTimeout } from 'node:timers/promises'
import { ownPorts } from '../own-ports.ts'
import { until } from '../wait.ts'
import { SILENCE, type Piece, type FakeAnswer } from './fake-answer.ts'
import type { EngineRequest } from './engine-request.ts'
import { FakeEngine } from './fake-engine.ts'
import { completion, DONE, FINISH, sseEvent, sseAnswer, token } from './sse.ts'

export type Mode =
  | 'ok'
  | '500'
  /** Healthy, but every request gets a 500. */
  | '500_but_healthy'
  | 'busy'
  | 'busy_inside'
  /** As in some versions: the code is a string. */
  | 'busy_inside_text'
  /** As vLLM in development mode: healthy in its checks and metrics, without responses. */
  | 'paused'
  /** Accepts the request and sends nothing. */
  | 'hang'
  /** Sends only the head. */
  | 'hang_after_head'
  /** Resets the connection after the request arrived. */
  | 'reset'
  /** Resets the connection in the middle of the stream. */
  | 'reset_midstream'
  | 'garbage'

const BUSY = {
  error: {
    message:
      'The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.',
    type: 'Service Unavailable',
    param: null,
    code: 503,
  },
}

export class FaultEngine {
  readonly id: string
  mode: Mode = 'ok'
  ttftMs = 5
  itlMs = 5
  tokens = 4
  #engine!: FakeEngine

  private constructor(id: string) {
    this.id = id
  }

  static async open(id: string): Promise<FaultEngine> {
    const fault = new FaultEngine(id)
    const routes = {
      'GET /is_paused': () => fault.#unlessHung({ body: { is_paused: fault.mode === 'paused' } }),
      'GET /metrics': () => fault.#unlessHung({ body: fault.#metrics() }),
      'GET *': () => fault.#unlessHung({ status: fault.mode === '500' ? 500 : 200 }),
      '*': (request: EngineRequest) => fault.#answer(request),
    }
    fault.#engine = await FakeEngine.open(routes, { port: ownPorts(1) })
    return fault
  }

  get url(): string {
    return this.#engine.url
  }

  /** Restarts the counts of requests and aborts. */
  forget(): void {
    this.#engine.posts.length = 0
  }

  /** Requests of clients since the start or `forget`. */
  get requests(): number {
    return this.#engine.posts.length
  }

  get running(): number {
    return this.#engine.running
  }

  /** Requests that ended before their response, through the client or this engine. */
  get aborts(): number {
    return this.#engine.posts.filter(({ state }) => state === 'aborted' || state === 'truncated').length
  }

  /** Resolves when no request runs. */
  async idle(): Promise<void> {
    await until(() => this.running === 0)
  }

  /** Resolves when `count` requests came since then. */
  async arrived(count: number): Promise<void> {
    await until(() => this.requests >= count)
  }

  /** Stops listening and breaks every connection, as when a process is killed. */
  kill(): Promise<void> {
    return this.#engine.kill()
  }

  /** Listens again on the same port, if it was killed. */
  revive(): Promise<void> {
    return this.#engine.revive()
  }

  close(): Promise<void> {
    return this.#engine.close()
  }

  #unlessHung(answer: FakeAnswer): FakeAnswer {
    return this.mode === 'hang' ? SILENCE : answer
  }

  #metrics(): string {
    return `vllm:num_requests_running{engine="0"} ${this.running}\nvllm:num_requests_waiting{engine="0"} 0\n`
  }

  #answer({ json }: EngineRequest): FakeAnswer | Promise<FakeAnswer> {
    const isStream = json['stream'] === true
    switch (this.mode) {
      case 'hang':
      case 'paused':
        return SILENCE
      case '500':
      case '500_but_healthy':
        return {
          status: 500,
          body: { error: { message: `secret of ${this.url}`, type: 'InternalServerError', param: null, code: 500 } },
        }
      case 'busy':
        return { status: 503, body: BUSY }
      case 'busy_inside':
        // vLLM has sent its head before it detects that it is full.
        return isStream ? sseAnswer([sseEvent(BUSY), DONE]) : { status: 503, body: BUSY }
      case 'busy_inside_text':
        return isStream
          ? sseAnswer([sseEvent({ error: { ...BUSY.error, code: '503' } }), DONE])
          : { status: 503, body: BUSY }
      case 'reset':
        return { raw: '', end: 'reset' }
      case 'garbage':
        return { raw: 'HTTP/1.1 OK\r\n\r\n', end: 'truncate' }
      case 'hang_after_head':
        if (isStream) return sseAnswer([], { end: 'hang' })
        break
      default:
    }
    if (!isStream) return this.#whole()
    const { include_usage: usage } = (json['stream_options'] ?? {}) as { include_usage?: boolean }
    return this.#stream(usage === true)
  }

  /** A response after the time of all its tokens. */
  async #whole(): Promise<FakeAnswer> {
    const body = completion('hello', this.#usage())
    await setTimeout(this.ttftMs + this.tokens * this.itlMs)
    return { body }
  }

  #stream(hasUsage: boolean): FakeAnswer {
    const pieces: Piece[] = [this.ttftMs]
    const isReset = this.mode === 'reset_midstream'
    const count = isReset ? Math.min(2, this.tokens) : this.tokens
    for (let at = 0; at < count; at++) pieces.push(token(`t${at} `), this.itlMs)
    if (isReset) return sseAnswer(pieces, { end: 'reset' })
    pieces.push(FINISH)
    if (hasUsage) pieces.push(sseEvent({ object: 'chat.completion.chunk', choices: [], usage: this.#usage() }))
    return sseAnswer([...pieces, DONE])
  }

  #usage() {
    return {
      prompt_tokens: 3,
      completion_tokens: this.tokens,
      total_tokens: 3 + this.tokens,
      prompt_tokens_details: { cached_tokens: 0 },
    }
  }
}
