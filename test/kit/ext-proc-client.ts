/** A proxy of the Gateway API Inference Extension for tests: sends a request through an endpoint picker, as Envoy does. */
import { type FieldList, bytesIn, fieldsOf, message, nested, textIn } from './protobuf.ts'
import type { CallEnd, GrpcTestCall, GrpcTestClient } from './grpc-client.ts'

const PROCESS = '/envoy.service.ext_proc.v3.ExternalProcessor/Process'

/** Values of `ProcessingMode.BodySendMode`. */
export const MODE = { none: 0, streamed: 1, buffered: 2, fullDuplex: 4 } as const

export interface ProxyModes {
  readonly request: number
  readonly response: number
}

export const FULL_DUPLEX: ProxyModes = { request: MODE.fullDuplex, response: MODE.fullDuplex }
export const BUFFERED: ProxyModes = { request: MODE.buffered, response: MODE.none }
export const HEADS: ProxyModes = { request: MODE.fullDuplex, response: MODE.none }
export const STREAMED_ANSWER: ProxyModes = { request: MODE.buffered, response: MODE.streamed }

/** An answer of the picker. */
export interface PickerAnswer {
  readonly kind: string
  readonly set: Readonly<Record<string, string>>
  readonly remove: readonly string[]
  readonly body: Buffer
  /** The body is in the answer. */
  readonly hasBody: boolean
  readonly endOfStream: boolean
  /** Destination in the metadata; '': none. */
  readonly metadata: string
  /** Status of an immediate response; 0: it is none. */
  readonly status: number
}

const KINDS: Readonly<Record<number, string>> = {
  1: 'request_headers',
  2: 'response_headers',
  3: 'request_body',
  4: 'response_body',
  5: 'request_trailers',
  6: 'response_trailers',
  7: 'immediate_response',
}

export function readAnswer(bytes: Buffer): PickerAnswer {
  const fields = fieldsOf(bytes)
  const field = [...fields.keys()].find((number) => KINDS[number] !== undefined)!
  const kind = KINDS[field]!
  const content = nested(fields, field)!
  const isImmediate = kind === 'immediate_response'
  const common = isImmediate || kind.endsWith('trailers') ? content : (nested(content, 1) ?? new Map())
  const changes = nested(common, 2)
  const mutation = isImmediate ? null : nested(common, 3)
  const streamed = mutation === null ? null : nested(mutation, 3)
  const struct = nested(fields, 8)
  return {
    kind,
    set: Object.fromEntries(
      (changes?.get(1) ?? []).map((option) => {
        const header = nested(fieldsOf(option as Buffer), 1)!
        return [textIn(header, 1), textIn(header, 3)]
      }),
    ),
    remove: (changes?.get(2) ?? []).map(String),
    body: isImmediate
      ? bytesIn(content, 3)
      : streamed === null
        ? bytesIn(mutation ?? new Map(), 1)
        : bytesIn(streamed, 1),
    hasBody: mutation !== null,
    endOfStream: streamed?.get(2)?.[0] === 1,
    metadata:
      struct === null ? '' : /x-gateway-destination-endpoint.*?([\d[].*)/s.exec(String(bytesIn(fields, 8)))![1]!,
    status: isImmediate ? Number(nested(content, 1)?.get(1)?.[0] ?? 0) : 0,
  }
}

export const headerMap = (headers: Readonly<Record<string, string>>): FieldList =>
  Object.entries(headers).map(
    ([name, value]) =>
      [
        1,
        [
          [1, name],
          [3, value],
        ],
      ] as const,
  )

/** Metadata { namespace: { name: value } }; a list is a list of texts. */
export function metadata(namespace: string, name: string, value: string | readonly string[]): FieldList {
  const written: FieldList =
    typeof value === 'string' ? [[3, value]] : [[6, value.map((text) => [1, [[3, text]]] as const)]]
  const inner: FieldList = [
    [
      1,
      [
        [1, name],
        [2, written],
      ],
    ],
  ]
  return [
    [
      1,
      [
        [1, namespace],
        [2, inner],
      ],
    ],
  ]
}

export const SUBSET_HINT = ['envoy.lb.subset_hint', 'x-gateway-destination-endpoint-subset'] as const
const SERVED = ['envoy.lb', 'x-gateway-destination-endpoint-served'] as const

export interface ProxyRequest {
  readonly body: string | Buffer
  readonly path?: string
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly modes?: ProxyModes
  readonly subset?: string | readonly string[]
  /** Bytes of one piece of the body. */
  readonly pieceBytes?: number
}

/** One request. Each method sends what a proxy sends next. */
export class ProxyCall {
  readonly call: GrpcTestCall
  readonly answers: PickerAnswer[] = []
  readonly modes: ProxyModes
  #changed: () => void = () => undefined

  constructor(client: GrpcTestClient, modes: ProxyModes = FULL_DUPLEX) {
    this.modes = modes
    this.call = client.call(PROCESS, (bytes) => {
      this.answers.push(readAnswer(bytes))
      this.#changed()
    })
    void this.call.ended.then(() => this.#changed())
  }

  get ended(): Promise<CallEnd> {
    return this.call.ended
  }

  send(fields: FieldList): void {
    this.call.send(message(fields))
  }

  /** Sends the head of a request. */
  head(
    { path = '/v1/chat/completions', method = 'POST', headers = {}, subset }: Omit<ProxyRequest, 'body'>,
    ends = false,
  ): void {
    const all = {
      ':method': method,
      ':path': path,
      ':authority': 'models.example',
      'content-type': 'application/json',
      ...headers,
    }
    this.send([
      [
        2,
        [
          [1, headerMap(all)],
          [3, ends],
        ],
      ],
      ...(subset === undefined ? [] : ([[8, metadata(...SUBSET_HINT, subset)]] as const)),
      [
        11,
        [
          [1, this.modes.request],
          [2, this.modes.response],
        ],
      ],
    ])
  }

  body(piece: Uint8Array, ends: boolean): void {
    this.send([
      [
        4,
        [
          [1, piece],
          [2, ends],
        ],
      ],
    ])
  }

  /** Sends a whole request, and waits for the answer that names an engine or refuses. */
  async request(request: ProxyRequest): Promise<PickerAnswer> {
    this.head(request)
    const bytes = Buffer.from(request.body)
    if (this.modes.request === MODE.buffered) {
      const first = await this.next(() => true)
      if (first.kind === 'immediate_response') return first
      this.body(bytes, true)
    } else {
      const size = request.pieceBytes ?? 64_000
      for (let at = 0; at < bytes.length || at === 0; at += size)
        this.body(bytes.subarray(at, at + size), at + size >= bytes.length)
    }
    return this.next(({ metadata: named, kind }) => named !== '' || kind === 'immediate_response')
  }

  /** Sends the head of the engine's response. `served`: where the proxy sent the request. */
  responseHead(status: number, headers: Readonly<Record<string, string>>, served?: string, ends = false): void {
    this.send([
      [
        3,
        [
          [1, headerMap({ ':status': String(status), ...headers })],
          [3, ends],
        ],
      ],
      ...(served === undefined ? [] : ([[8, metadata(...SERVED, served)]] as const)),
    ])
  }

  responseBody(piece: string | Uint8Array, ends: boolean): void {
    this.send([
      [
        5,
        [
          [1, piece],
          [2, ends],
        ],
      ],
    ])
  }

  /** Waits for an answer. Throws if the call ends without it. */
  async next(fits: (answer: PickerAnswer) => boolean): Promise<PickerAnswer> {
    for (;;) {
      const found = this.answers.find(fits)
      if (found !== undefined) return found
      if (this.call.isEnded) throw new Error(`the call ended: ${JSON.stringify(await this.ended)}`)
      await new Promise<void>((resolve) => (this.#changed = resolve))
    }
  }

  /** Text of the bodies in the answers of this kind. */
  text(kind: 'request_body' | 'response_body'): string {
    return Buffer.concat(this.answers.filter((answer) => answer.kind === kind).map(({ body }) => body)).toString()
  }
}
