/** Explains why a request failed, with a next step. */

export interface ConnectError {
  /** Error code of Node or OpenSSL. */
  readonly code: string
  readonly message: string
  readonly next: string
}

interface ConnectAttempt {
  readonly url: string
  /** True if a connection (and TLS, for https) was established before the failure. */
  readonly connected: boolean
  readonly limitMs: number
}

export function connectErrorOf(error: unknown, circumstances: ConnectAttempt): ConnectError {
  const { code = 'UNKNOWN', message = String(error) } = (error ?? {}) as { code?: string; message?: string }
  // A name with several addresses fails with an AggregateError.
  const inner =
    error instanceof AggregateError ? (error.errors[0] as { code?: string; message?: string } | undefined) : undefined
  const known = inner?.code ?? code
  return {
    code: known,
    ...(explain(known, inner?.message ?? message, circumstances) ?? {
      message: `request failed: ${message}`,
      next: 'Try curl from this host.',
    }),
  }
}

/** Explains the failure of a `fetch`, whose own message has no cause. */
export function explainFetchError(error: unknown, url: string): string {
  if (!(error instanceof Error)) return String(error)
  if (error.cause === undefined) return error.message
  const { code, message } = connectErrorOf(error.cause, { url, connected: false, limitMs: 10_000 })
  return code === 'UNKNOWN' && error.cause instanceof Error ? error.cause.message : message
}

type Explanation = Omit<ConnectError, 'code'>

function explain(code: string, message: string, circumstances: ConnectAttempt): Explanation | null {
  return (
    explainTls(code, message, circumstances.url) ??
    explainNetwork(code, circumstances) ??
    explainProtocol(code, circumstances)
  )
}

function explainNetwork(code: string, { url, connected, limitMs }: ConnectAttempt): Explanation | null {
  const { host, hostname } = new URL(url)
  switch (code) {
    case 'ECONNREFUSED':
      return {
        message: `connection refused by ${host}`,
        next: 'Check that it runs on this port. vllm serve listens only after the model is loaded.',
      }
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return {
        message: `the name ${hostname} cannot be resolved here`,
        next: 'Check the spelling, and the DNS server of this host.',
      }
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
      return {
        message: `there is no route to ${hostname}`,
        next: 'Check that this host is in the engine’s network, or that the tunnel is up.',
      }
    case 'ETIMEDOUT':
    case 'DOCTOR_TIMEOUT':
      return connected
        ? {
            message: `connected, but no answer within ${limitMs / 1000} s`,
            next: 'The HTTP server hangs, or it is not an engine: see its log, or raise --timeout-s.',
          }
        : {
            message: `no connection within ${limitMs / 1000} s`,
            next: 'A firewall drops packets, or the address is wrong: try from a host beside the engine.',
          }
    default:
      return null
  }
}

function explainProtocol(code: string, { url }: ConnectAttempt): Explanation | null {
  const https = url.replace(/^http:/, 'https:')
  if (code === 'ECONNRESET' || code === 'EPIPE') {
    return {
      message: 'the connection was reset',
      next: url.startsWith('http:')
        ? `If it uses TLS, use ${https}. Otherwise see its log.`
        : 'See its log, or the log of the proxy in front of it.',
    }
  }
  if (code.startsWith('HPE_')) {
    return {
      message: 'the server does not use HTTP/1.1',
      next: url.startsWith('http:')
        ? `Check that it is not another port of the engine (ZMQ, NIXL). If it uses TLS, use ${https}.`
        : 'Check that it is not another port of the engine.',
    }
  }
  if (code === 'ERR_INVALID_CHAR' || code === 'ERR_INVALID_HTTP_TOKEN')
    return {
      message: 'a header or the key contains a character that is invalid in HTTP',
      next: 'Check the key for a line break or a non-ASCII character.',
    }
  return code === 'DOCTOR_TOO_LONG'
    ? {
        message: 'the response is too large for an engine',
        next: 'Check that the URL is that of an engine, without a path.',
      }
    : null
}

const UNKNOWN_AUTHORITY: ReadonlySet<string> = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_GET_ISSUER_CERT',
])

function explainTls(code: string, message: string, url: string): Explanation | null {
  const { hostname } = new URL(url)
  if (UNKNOWN_AUTHORITY.has(code)) {
    return {
      message: `the certificate is not trusted (${code})`,
      next:
        'Set NODE_EXTRA_CA_CERTS=ca.pem, also for the gateway. Workers accept only public certificates: use a ' +
        'tunnel there.',
    }
  }
  if (code === 'CERT_HAS_EXPIRED')
    return {
      message: 'the certificate has expired',
      next: 'Renew it, restart the server if it was renewed, and check the clock of this host.',
    }
  if (code === 'CERT_NOT_YET_VALID')
    return { message: 'the certificate is not valid yet', next: 'Compare the clocks of both hosts.' }
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return {
      message: `the certificate is not for ${hostname}: ${namesIn(message)}`,
      next: 'Use a name of the certificate, or reissue it.',
    }
  if (
    code === 'ERR_SSL_WRONG_VERSION_NUMBER' ||
    (code === 'EPROTO' && /wrong version number|packet length/i.test(message))
  ) {
    return { message: 'the server does not use TLS', next: `Use ${url.replace(/^https:/, 'http:')}.` }
  }
  if (/^(CERT_|ERR_SSL_|ERR_TLS_|EPROTO)/.test(code))
    return { message: `TLS fails (${code})`, next: `Inspect it with: openssl s_client -connect ${new URL(url).host}` }
  return null
}

const namesIn = (message: string): string =>
  /altnames: (.*)$/.exec(message)?.[1] ?? /cert's CN: (.*)$/.exec(message)?.[1] ?? message
