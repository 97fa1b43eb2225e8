/** Status codes of gRPC that this server sends. */
export const GRPC = {
  ok: 0,
  invalidArgument: 3,
  notFound: 5,
  resourceExhausted: 8,
  failedPrecondition: 9,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
} as const

/** Error that ends one call with a status. The message goes to the proxy: it has no content of the request. */
export class GrpcError extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.name = 'GrpcError'
    this.status = status
  }
}
