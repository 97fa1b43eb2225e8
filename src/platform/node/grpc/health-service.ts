/** The health service of gRPC, `grpc.health.v1.Health`. */
import { FieldReader } from './field-reader.ts'
import type { CallHandler, GrpcCall } from './grpc-call.ts'
import { GRPC, GrpcError } from './grpc-status.ts'
import { MessageWriter } from './message-writer.ts'

const STATUS = { serving: 1, notServing: 2, serviceUnknown: 3 } as const

type HealthStatus = (typeof STATUS)[keyof typeof STATUS]

const writer = new MessageWriter()

function statusFrame(status: HealthStatus): Buffer {
  writer.number(1, status)
  writer.uint32(writer.length)
  writer.byte(0)
  return writer.take()
}

/** Service name of a `HealthCheckRequest`. */
function serviceOf(bytes: Buffer): string {
  const reader = new FieldReader({ bytes, from: 0, to: bytes.length })
  let service = ''
  while (reader.next()) {
    if (reader.field === 1) service = reader.utf8()
    else reader.skip()
  }
  return service
}

interface Watcher {
  readonly call: GrpcCall
  readonly service: string
}

/** Health of the named services. All of them change together, except those that are always healthy. */
export class HealthService {
  readonly #services: ReadonlyMap<string, { readonly isAlways: boolean }>
  readonly #watchers = new Set<Watcher>()
  #isServing = false

  constructor(services: readonly (readonly [name: string, isAlways: boolean])[]) {
    this.#services = new Map(services.map(([name, isAlways]) => [name, { isAlways }]))
  }

  /** Reports a change to watchers. */
  serving(isServing: boolean): void {
    if (isServing === this.#isServing) return
    this.#isServing = isServing
    for (const { call, service } of this.#watchers)
      if (this.#services.get(service)?.isAlways === false) call.send(statusFrame(this.#statusOf(service)))
  }

  /** Ends the calls of all watchers. */
  close(): void {
    for (const { call } of this.#watchers) call.end(GRPC.unavailable, 'The server is shutting down.')
  }

  /** `Check`: one answer. */
  check(call: GrpcCall): CallHandler {
    return {
      message: (bytes) => {
        const status = this.#statusOf(serviceOf(bytes))
        if (status === STATUS.serviceUnknown) throw new GrpcError(GRPC.notFound, 'This server has no such service.')
        call.send(statusFrame(status))
        call.end(GRPC.ok)
      },
      halfClosed: () => call.end(GRPC.invalidArgument, 'The call has no message.'),
      closed: () => undefined,
    }
  }

  /** `Watch`: an answer at once, and one for each change. */
  watch(call: GrpcCall): CallHandler {
    let watcher: Watcher | null = null
    return {
      message: (bytes) => {
        if (watcher !== null) throw new GrpcError(GRPC.invalidArgument, 'The call has more than one message.')
        watcher = { call, service: serviceOf(bytes) }
        this.#watchers.add(watcher)
        call.send(statusFrame(this.#statusOf(watcher.service)))
      },
      halfClosed: () => {
        if (watcher === null) call.end(GRPC.invalidArgument, 'The call has no message.')
      },
      closed: () => {
        if (watcher !== null) this.#watchers.delete(watcher)
      },
    }
  }

  #statusOf(service: string): HealthStatus {
    const known = this.#services.get(service)
    if (known === undefined) return STATUS.serviceUnknown
    return known.isAlways || this.#isServing ? STATUS.serving : STATUS.notServing
  }
}
