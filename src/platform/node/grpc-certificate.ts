/** Certificate of a gRPC listener: none, one of its own, or files that are read again when they change. */
import type { SecureContextOptions } from 'node:tls'
import type { EppConfig } from '../../config.ts'
import type { Log } from '../../ports/log.ts'
import type { GrpcServer } from './grpc/grpc-server.ts'
import { CertificateFiles } from './inbound/certificate-files.ts'
import { selfSigned } from './self-signed.ts'

export interface GrpcCertificate {
  /** null: without TLS. */
  readonly tls: SecureContextOptions | null
  /** Renews the certificate of a server when files change. Returns a function that stops it. */
  watch(server: GrpcServer, log: Log): () => void
}

/** Throws a ConfigError that names the file. @param folder folder of relative file names */
export function grpcCertificate(tls: EppConfig['tls'], folder: string): GrpcCertificate {
  if (typeof tls === 'string')
    return { tls: tls === 'off' ? null : selfSigned(Date.now()), watch: () => () => undefined }
  const files = new CertificateFiles({ ...tls, clientCa: null }, folder)
  return { tls: files.read(), watch: (server, log) => files.watch((renewed) => server.renew(renewed), log) }
}
