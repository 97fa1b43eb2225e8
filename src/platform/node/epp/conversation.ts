/**
 * One request of a proxy that asks for an engine: the messages of one call of `ExternalProcessor/Process`. Messages
 * that do not fit end this call alone, with the status that says why.
 */
import { expectedOf } from '../../../origin/relay/answer-start.ts'
import { headersForTarget, headersOfAnswer } from '../../../origin/headers.ts'
import type { Delivery } from '../../../ports/delivery.ts'
import { type DeliveredRequest, OriginError, type ResponseHandler } from '../../../ports/origin.ts'
import type { RelayOptions } from '../../../ports/relay.ts'
import { PatientTimer } from '../patient-timer.ts'
import { WheelTimer } from '../wheel-timer.ts'
import type { CallHandler, GrpcCall } from '../grpc/grpc-call.ts'
import { GRPC, GrpcError } from '../grpc/grpc-status.ts'
import {
  memoryOf,
  type MessageKind,
  type ProcessingRequest,
  readProcessingRequest,
} from '../grpc/processing-request.ts'
import { headersAnswer, trailersAnswer } from '../grpc/processing-response.ts'
import { type BodyModes, bodyModesOf } from './body-modes.ts'
import { ConversationWriter } from './conversation-writer.ts'
import { servedOf, subsetOf } from './destination.ts'
import { HeaderMap, staysInRequest } from './header-map.ts'
import { InboundRequest } from './inbound-request.ts'
import { type AnswerMover, type BegunBody, ProxiedAnswer } from './proxied-answer.ts'
import { ProxiedRelay } from './proxied-relay.ts'

/** What conversations share. */
export interface ConversationParts {
  /** Answers the request; the delivery is the conversation itself. Never rejects. */
  readonly place: (request: InboundRequest, conversation: Conversation) => Promise<Response>
  readonly maxFallbacks: number
  /** Adds headers that follow from others, such as the class of an objective. */
  readonly prepare: (headers: HeaderMap) => void
  readonly now: () => number
  /** Called at the end of each conversation. */
  readonly ended: (conversation: Conversation) => void
}

/** How far the conversation is, and what it has by then. */
type State =
  /** `local`: the proxy answers the client itself, before it has got an engine. */
  | { readonly phase: 'head' | 'request' | 'local' }
  /** The request has an engine, which has not answered. */
  | { readonly phase: 'placed'; readonly delivered: DeliveredRequest; readonly handler: ResponseHandler }
  | AnsweredState

/**
 * The engine has answered. `judged`: the gateway decides whether the answer goes to the client, or has decided that it
 * does not. `streamed`: it goes there, and its body is read by a step that changes it. `relayed`: it goes there.
 */
type AnsweredState = { readonly head: HeaderMap; readonly answer: ProxiedAnswer } & (
  | { readonly phase: 'judged' | 'streamed' }
  | { readonly phase: 'relayed'; readonly relay: ProxiedRelay }
)

const NO_MODES: BodyModes = { request: 'duplex', response: 'duplex' }

export class Conversation implements CallHandler, Delivery, AnswerMover {
  readonly #call: GrpcCall
  readonly #parts: ConversationParts
  readonly #writer: ConversationWriter
  #state: State = { phase: 'head' }
  #modes = NO_MODES
  /** null: its head has not come. */
  #request: InboundRequest | null = null
  /** The last message of the response body has come. */
  #isAnswerEnded = false
  #subset: ReadonlySet<string> | null = null
  readonly #firstByte = new PatientTimer(() => this.#firstByteDue())
  readonly #patience = new WheelTimer(() => this.#patienceOver())

  constructor(call: GrpcCall, parts: ConversationParts) {
    this.#call = call
    this.#parts = parts
    this.#writer = new ConversationWriter(call)
  }

  get subset(): ReadonlySet<string> | null {
    return this.#subset
  }

  get maxFallbacks(): number {
    return this.#parts.maxFallbacks
  }

  get readsAnswer(): boolean {
    return this.#modes.response !== 'none'
  }

  get changesAnswer(): boolean {
    return this.#modes.response === 'duplex'
  }

  message(bytes: Buffer): void {
    const message = readProcessingRequest(bytes)
    HANDLERS[message.kind](this, message, bytes)
  }

  halfClosed(): void {
    this.#finish()
    this.#call.end(GRPC.ok)
  }

  closed(): void {
    this.#finish()
    this.#parts.ended(this)
  }

  /** Ends the call, because the picker shuts down. */
  abandon(): void {
    this.#finish()
    this.#call.end(GRPC.unavailable, 'The endpoint picker is shutting down.')
  }

  requestHeaders(message: ProcessingRequest): void {
    if (this.#state.phase !== 'head') throw outOfOrder(message.kind)
    this.#modes = bodyModesOf(message)
    this.#state = { phase: 'request' }
    this.#subset = subsetOf(message)
    const headers = new HeaderMap(message.headers)
    this.#parts.prepare(headers)
    const request = new InboundRequest(headers, () => this.#bodyWanted())
    this.#request = request
    this.#writer.hasRequestBody = !message.endOfStream
    if (message.endOfStream) request.end()
    void this.#run(request)
  }

  requestBody(message: ProcessingRequest, bytes: Buffer): void {
    if (this.#state.phase === 'local') return
    if (this.#request === null || this.#request.isComplete) throw outOfOrder(message.kind)
    this.#request.take(message.body, memoryOf(bytes))
    if (message.endOfStream) this.#request.end()
  }

  requestTrailers(message: ProcessingRequest): void {
    if (this.#state.phase === 'local') return this.#call.send(trailersAnswer('request_trailers'))
    if (this.#request === null || this.#request.isComplete) throw outOfOrder(message.kind)
    this.#writer.hasRequestTrailers = true
    this.#request.end()
  }

  /** In buffered modes the proxy sends the body only after this answer. */
  #bodyWanted(): void {
    if (this.#modes.request === 'buffered' && this.#writer.hasRequestBody)
      this.#call.send(headersAnswer('request_headers', null))
  }

  async #run(request: InboundRequest): Promise<void> {
    const response = await this.#parts.place(request, this)
    const state = this.#state
    if (state.phase === 'relayed' || state.phase === 'local') return
    if (state.phase !== 'streamed') return this.#writer.refuse(response)
    const headers: string[] = []
    response.headers.forEach((value, name) => headers.push(name, value))
    this.#writer.responseHead(state.head, headers)
    await this.#writer.pipe(response)
  }

  /** `Delivery`: the gateway has placed the request. */
  begin(request: DeliveredRequest, handler: ResponseHandler): void {
    const inbound = this.#request!
    if (inbound.signal.aborted) return handler.failed(inbound.signal.reason)
    this.#state = { phase: 'placed', delivered: request, handler }
    const { target, fallbacks, path } = request
    const changes = inbound.headers.changesTo(headersForTarget(request.headers, target), staysInRequest)
    this.#writer.placed({
      target,
      fallbacks,
      changes: path === inbound.url ? changes : { ...changes, set: [':path', path, ...changes.set] },
      body: request.body,
      isUnchanged: request.body?.length === 1 && request.body[0] === inbound.body,
      isDuplex: this.#modes.request === 'duplex',
    })
    if (request.firstByteMs > 0) this.#firstByte.limit(request.firstByteMs)
  }

  responseHeaders(message: ProcessingRequest): void {
    const state = this.#state
    if (state.phase === 'request') return this.#localAnswer()
    if (state.phase !== 'placed') throw outOfOrder(message.kind)
    const { delivered, handler } = state
    const head = new HeaderMap(message.headers)
    this.#isAnswerEnded = message.endOfStream
    const answer = new ProxiedAnswer({
      head: { status: Number(head.pseudo.get(':status') ?? 0), headers: headersOfAnswer(plain(message.headers)) },
      limits: { now: this.#parts.now, expected: expectedOf(delivered) },
      mover: this,
      served: servedOf(message),
    })
    this.#state = { phase: 'judged', head, answer }
    if (isUnreached(head)) return handler.failed(new OriginError('connect', 'the proxy could not reach the engine'))
    this.#judge(answer, handler, message.endOfStream)
  }

  /** Passes the answer to the gateway, which decides whether it goes to the client. */
  #judge(answer: ProxiedAnswer, handler: ResponseHandler, isEnded: boolean): void {
    const isDuplex = this.#modes.response === 'duplex'
    if (!handler.head(answer)) {
      // Without full duplex the body comes only after the answer to its head.
      if (isEnded || !isDuplex) answer.end()
      return
    }
    if (!isDuplex) return handler.firstByte(answer, true)
    answer.judge(handler)
    if (isEnded) answer.end()
    else if (answer.sse && handler.patienceMs > 0) this.#patience.set(handler.patienceMs)
  }

  responseBody(message: ProcessingRequest): void {
    const { body, endOfStream } = message
    const state = this.#state
    if (state.phase === 'local') return this.#writer.returnBody(body, endOfStream, this.#modes)
    const { response } = this.#modes
    if (!('answer' in state) || this.#isAnswerEnded || response === 'none') throw outOfOrder(message.kind)
    if (endOfStream) this.#isAnswerEnded = true
    if (response === 'each') return this.#answerEach(state, message)
    if (state.phase !== 'relayed') {
      if (body.length > 0) state.answer.take(body)
      // The step above may have started the relay.
      if (endOfStream) this.#answerEnded()
    } else if (endOfStream) state.relay.takeLast(body)
    else state.relay.take(body)
  }

  #answerEnded(): void {
    const state = this.#answered()
    if (state.phase === 'relayed') state.relay.end(true)
    else state.answer.end()
  }

  /** Each message of the body needs exactly one answer. */
  #answerEach(state: AnsweredState, { kind, body, endOfStream }: ProcessingRequest): void {
    if (state.phase !== 'relayed') throw outOfOrder(kind)
    this.#writer.collect(body, () => {
      state.relay.take(body)
      if (endOfStream) state.relay.end(true)
    })
  }

  responseTrailers({ kind }: ProcessingRequest): void {
    const state = this.#state
    if (state.phase !== 'local') {
      if (!('answer' in state)) throw outOfOrder(kind)
      this.#isAnswerEnded = true
      this.#writer.hasResponseTrailers = true
      if (state.phase !== 'relayed') state.answer.end()
      else if (this.#modes.response === 'none') state.relay.endUnread()
      else state.relay.end(false)
    }
    this.#call.send(trailersAnswer('response_trailers'))
  }

  /** The proxy answers the client itself: its limits, another filter. The request ends here. */
  #localAnswer(): void {
    this.#state = { phase: 'local' }
    this.#call.send(headersAnswer('response_headers', null))
    this.#request?.gone()
  }

  /** `AnswerMover`: the answer goes to the client as it is. */
  relay(options: RelayOptions, body: BegunBody): void {
    this.#firstByte.cancel()
    this.#patience.cancel()
    const { response } = this.#modes
    this.#writer.hasResponseBody = !(this.#isAnswerEnded && body.held.length === 0)
    const relay = new ProxiedRelay({
      options,
      body,
      outlet: response === 'duplex' ? this.#writer : this.#writer.collector,
      changes: response === 'duplex',
    })
    const { head, answer } = this.#answered()
    this.#state = { phase: 'relayed', head, answer, relay }
    this.#call.together(() => {
      this.#writer.responseHead(head, options.headers)
      if (response === 'none' && this.#isAnswerEnded) relay.endUnread()
      else if (response === 'duplex') relay.begin()
    })
  }

  get isWritten(): boolean {
    return this.#call.isWritten
  }

  /** `AnswerMover`: a step of the gateway reads the answer. */
  streams(): void {
    const { head, answer } = this.#answered()
    this.#state = { phase: 'streamed', head, answer }
    this.#firstByte.cancel()
    this.#patience.cancel()
  }

  /** `AnswerMover`: the answer does not go to the client. */
  stopped(): void {
    this.#firstByte.cancel()
    this.#patience.cancel()
  }

  #firstByteDue(): void {
    if (this.#firstByte.extend() > 0) return
    const error = new OriginError('first_byte_timeout', 'no output in time')
    const state = this.#state
    if (state.phase === 'placed') state.handler.failed(error)
    else if ('answer' in state) state.answer.fail(error)
  }

  #patienceOver(): void {
    const state = this.#state
    if ('answer' in state) state.answer.beginEarly()
  }

  /** The state as seen by calls of the answer. */
  #answered(): AnsweredState {
    if (!('answer' in this.#state)) throw new Error('the conversation has no answer')
    return this.#state
  }

  /** Releases what the request holds. The first call has effect. */
  #finish(): void {
    this.#firstByte.cancel()
    this.#patience.cancel()
    const state = this.#state
    if (state.phase === 'relayed') {
      if (this.#modes.response === 'none') state.relay.endUnread()
      else state.relay.gone()
    }
    const request = this.#request
    if (request === null || request.signal.aborted) return
    request.gone()
    const { reason } = request.signal
    if (state.phase === 'placed') state.handler.failed(reason)
    else if (state.phase === 'judged' || state.phase === 'streamed') {
      state.answer.abandon(reason)
      state.answer.fail(reason)
    }
  }
}

const HANDLERS: Readonly<Record<MessageKind, (to: Conversation, message: ProcessingRequest, bytes: Buffer) => void>> = {
  request_headers: (to, message) => to.requestHeaders(message),
  request_body: (to, message, bytes) => to.requestBody(message, bytes),
  request_trailers: (to, message) => to.requestTrailers(message),
  response_headers: (to, message) => to.responseHeaders(message),
  response_body: (to, message) => to.responseBody(message),
  response_trailers: (to, message) => to.responseTrailers(message),
}

/**
 * Whether a proxy made this response, because it could not connect: Envoy's 503 has neither of the two headers that
 * servers of engines send.
 */
const isUnreached = (head: HeaderMap): boolean =>
  head.pseudo.get(':status') === '503' &&
  head.get('server') === null &&
  head.get('date') === null &&
  head.get('content-type') === 'text/plain'

const outOfOrder = (kind: MessageKind): GrpcError =>
  new GrpcError(GRPC.invalidArgument, `The message ${kind} is out of order.`)

/** Headers without pseudo headers. */
function plain(flat: readonly string[]): readonly string[] {
  return flat.filter((_, at) => !flat[at - (at % 2)]!.startsWith(':'))
}
