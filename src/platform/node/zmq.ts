/** ZeroMQ, loaded where it is used. */
import { UsageError } from './usage-error.ts'

/** Thrown if zeromq is not installed. It is an optional peer dependency, because gateways do not need it. */
class ZmqMissing extends UsageError {
  constructor(cause: unknown) {
    super(
      'The package "zeromq" is not installed or has no build for this platform. It is needed to read KV events.',
      'Run npm install zeromq@6.8.0 on a supported platform, in the folder where firstlight is installed.',
    )
    this.name = 'ZmqMissing'
    this.cause = cause
  }
}

export type Zmq = typeof import('zeromq')

/** Loads ZeroMQ. Throws ZmqMissing. */
export async function loadZmq(): Promise<Zmq> {
  try {
    return await import('zeromq')
  } catch (error) {
    throw new ZmqMissing(error)
  }
}
