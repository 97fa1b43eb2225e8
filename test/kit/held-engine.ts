/** An engine whose answers the test begins and ends. */
import type { FakeAnswer, Routes } from './fake-answer.ts'
import type { EngineRequest } from './engine-request.ts'
import { FakeEngine } from './fake-engine.ts'
import { completion, DONE, sseAnswer, token } from './sse.ts'

/** A request whose answer the test sends. */
export class HeldAnswer {
  readonly request: EngineRequest
  readonly #parts: string[] = []
  readonly #answer = Promise.withResolvers<FakeAnswer>()
  #isOver = false
  #news = Promise.withResolvers<void>()

  constructor(request: EngineRequest) {
    this.request = request
  }

  /** What the engine sends: nothing before `begin` or `send`. */
  get answer(): Promise<FakeAnswer> {
    return Promise.race([this.#answer.promise, this.request.ended.then(() => ({ raw: '' }))])
  }

  get isAborted(): boolean {
    return this.request.state === 'aborted'
  }

  /** Sends a whole answer. */
  send(answer: FakeAnswer): void {
    this.#answer.resolve(answer)
  }

  /** Sends the head of a stream and this text. */
  begin(text = ''): void {
    this.write(text)
    this.send(sseAnswer(this.#stream()))
  }

  write(text: string): void {
    this.#parts.push(text)
    this.#wake()
  }

  /** Ends the stream. */
  end(text: string = DONE): void {
    this.#isOver = true
    this.write(text)
  }

  /** Breaks the connection. */
  reset(): void {
    this.request.socket.resetAndDestroy()
  }

  async *#stream(): AsyncGenerator<string> {
    for (;;) {
      if (this.#parts.length > 0) yield this.#parts.splice(0).join('')
      if (this.#isOver || this.isAborted) return
      await Promise.race([this.#news.promise, this.request.ended])
      this.#news = Promise.withResolvers<void>()
    }
  }

  #wake(): void {
    this.#news.resolve()
  }
}

export interface HeldEngineOptions {
  /** Sent at once, as the beginning of a stream. Absent: a test begins or sends each answer. */
  readonly opening?: string
  /** Added to the routes, which hold each chat and completion. */
  readonly routes?: (engine: HeldEngine) => Routes
}

/** Streams that begin with `hello`. */
export const openSlowEngine = (): Promise<HeldEngine> => HeldEngine.open({ opening: token('hello') })

export class HeldEngine {
  /** Answers that have not ended, oldest first. */
  readonly held: HeldAnswer[] = []
  engine!: FakeEngine
  readonly #opening: string | undefined

  private constructor(opening: string | undefined) {
    this.#opening = opening
  }

  static async open({ opening, routes = () => ({}) }: HeldEngineOptions = {}): Promise<HeldEngine> {
    const held = new HeldEngine(opening)
    held.engine = await FakeEngine.open({
      'POST /v1/chat/completions': (request) => held.hold(request),
      'POST /v1/completions': (request) => held.hold(request),
      ...routes(held),
    })
    return held
  }

  get url(): string {
    return this.engine.url
  }

  /** Clients that disconnected before the end. */
  get aborted(): number {
    return this.engine.aborted
  }

  /** For routes: holds the answer to this request. */
  hold(request: EngineRequest): Promise<FakeAnswer> {
    // A held answer is overdue, so that the gateway tries the engine itself.
    if (request.isTrial) return Promise.resolve({ body: completion() })
    const answer = new HeldAnswer(request)
    this.held.push(answer)
    void request.ended.then(() => {
      const at = this.held.indexOf(answer)
      if (at >= 0) this.held.splice(at, 1)
    })
    if (this.#opening !== undefined) answer.begin(this.#opening)
    return answer.answer
  }

  /** Ends all streams. */
  finish(text: string = token(' world') + DONE): void {
    for (const answer of this.held.splice(0)) answer.end(text)
  }

  close(): Promise<void> {
    return this.engine.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}
