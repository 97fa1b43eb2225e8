/** The HTTPS server of `tls`: handshakes within the limits of connections, and certificates that are rotated. */
import type { RequestListener, ServerOptions } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { Log } from '../../../ports/log.ts'
import type { CertificateFiles } from './certificate-files.ts'
import { LimitedLine } from './limited-line.ts'

interface TlsServerParts {
  readonly certificate: CertificateFiles
  /** Longest handshake. */
  readonly handshakeMs: number
  /** false: the connection was refused, and no handshake begins. */
  readonly admits: (socket: Socket) => boolean
  readonly log: Log
}

/** Throws a ConfigError if the certificate cannot be used. */
export function createTlsServer(parts: TlsServerParts, options: ServerOptions, listener: RequestListener): Server {
  const { certificate, handshakeMs, admits, log } = parts
  const { expires, ...context } = certificate.read()
  const server = createServer(
    {
      ...options,
      ...context,
      requestCert: context.ca !== undefined,
      rejectUnauthorized: context.ca !== undefined,
      handshakeTimeout: handshakeMs,
      ALPNProtocols: ['http/1.1'],
    },
    listener,
  )
  if (Date.parse(expires) < Date.now()) log.warn('certificate_expired', { expires })
  const [toTls] = server.listeners('connection')
  server.off('connection', toTls as () => void)
  server.on('connection', (socket: Socket) => {
    if (admits(socket)) toTls!.call(server, socket)
  })
  logFailedHandshakes(server, log)
  const stop = certificate.watch((renewed) => server.setSecureContext(renewed), log)
  server.once('close', stop)
  return server
}

/** Without an own listener, node:https answers a failed handshake as malformed HTTP. */
function logFailedHandshakes(server: Server, log: Log): void {
  const line = new LimitedLine((fields) => log.warn('tls_handshake_failed', fields))
  server.removeAllListeners('tlsClientError')
  server.on('tlsClientError', (error: NodeJS.ErrnoException, socket) => {
    const { remoteAddress: remote = null } = socket as TLSSocket
    socket.destroy()
    // Load balancers connect and leave to see whether the port is open.
    if (error.code === 'ECONNRESET') log.debug('tls_handshake_failed', { why: error.message, remote })
    else line.write({ why: error.code ?? error.message, remote })
  })
}
