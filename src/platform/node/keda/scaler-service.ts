/** Methods of KEDA's external scaler. Each call ends on its own: a bad request is an error of its call. */
import type { RoleCapacity } from '../../../core/contract/pool-capacity.ts'
import type { CallHandler, GrpcCall } from '../grpc/grpc-call.ts'
import { GRPC, GrpcError } from '../grpc/grpc-status.ts'
import {
  activeFrame,
  metricFrame,
  readMetricsRequest,
  readScaledObject,
  type ScaledObject,
} from '../grpc/scaler-messages.ts'

/** Name of the metric in the HorizontalPodAutoscaler that KEDA makes. */
const METRIC = 'firstlight-replicas-needed'

/** The metric is the number of replicas, so each stands for 1. */
const TARGET = 1

/** Interval at which a stream looks for a change, ms: a pool at zero wakes within it. */
const LOOK_MS = 1_000

interface ScalerServiceParts {
  /** Rejects with a GrpcError for an unknown pool, or one without capacity. */
  capacity(object: ScaledObject): Promise<RoleCapacity>
  /** Throws a GrpcError for an unknown pool. */
  check(object: ScaledObject): void
}

export class ScalerService {
  readonly #parts: ScalerServiceParts
  readonly #streams = new Set<GrpcCall>()

  constructor(parts: ScalerServiceParts) {
    this.#parts = parts
  }

  /** `IsActive`: whether the pool needs any engine. */
  isActive(call: GrpcCall): CallHandler {
    return this.#once(call, async (bytes) => {
      const { replicas } = await this.#parts.capacity(readScaledObject(bytes))
      return activeFrame(replicas > 0)
    })
  }

  /** `GetMetricSpec`: name and target of the metric. */
  metricSpec(call: GrpcCall): CallHandler {
    return this.#once(call, async (bytes) => {
      this.#parts.check(readScaledObject(bytes))
      return metricFrame(METRIC, TARGET)
    })
  }

  /** `GetMetrics`: the replicas that the pool needs. */
  metrics(call: GrpcCall): CallHandler {
    return this.#once(call, async (bytes) => {
      const { replicas } = await this.#parts.capacity(readMetricsRequest(bytes))
      return metricFrame(METRIC, replicas)
    })
  }

  /** `StreamIsActive`: the state at once, and each change. */
  streamIsActive(call: GrpcCall): CallHandler {
    let timer: NodeJS.Timeout | null = null
    let sent: boolean | null = null
    const look = async (object: ScaledObject): Promise<void> => {
      const { replicas } = await this.#parts.capacity(object)
      const isActive = replicas > 0
      if (isActive !== sent) call.send(activeFrame(isActive))
      sent = isActive
      if (this.#streams.has(call)) timer = setTimeout(() => this.#guard(call, look(object)), LOOK_MS)
    }
    return {
      message: (bytes) => {
        if (this.#streams.has(call)) throw new GrpcError(GRPC.invalidArgument, 'The call has more than one message.')
        const object = readScaledObject(bytes)
        this.#streams.add(call)
        this.#guard(call, look(object))
      },
      halfClosed: () => {
        if (!this.#streams.has(call)) call.end(GRPC.invalidArgument, 'The call has no message.')
      },
      closed: () => {
        this.#streams.delete(call)
        if (timer !== null) clearTimeout(timer)
      },
    }
  }

  /** Ends the streams, which would keep their connections open. */
  close(): void {
    for (const call of this.#streams) call.end(GRPC.unavailable, 'The server is shutting down.')
  }

  /** A call with one message and one answer. */
  #once(call: GrpcCall, answer: (bytes: Buffer) => Promise<Buffer>): CallHandler {
    let hasMessage = false
    return {
      message: (bytes) => {
        if (hasMessage) throw new GrpcError(GRPC.invalidArgument, 'The call has more than one message.')
        hasMessage = true
        const sent = answer(bytes).then((frame) => {
          call.send(frame)
          call.end(GRPC.ok)
        })
        this.#guard(call, sent)
      },
      halfClosed: () => {
        if (!hasMessage) call.end(GRPC.invalidArgument, 'The call has no message.')
      },
      closed: () => undefined,
    }
  }

  #guard(call: GrpcCall, work: Promise<void>): void {
    work.catch((error: unknown) => call.fail(error))
  }
}
