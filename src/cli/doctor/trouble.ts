/** Explains why a request failed, with a next step. */

export interface ConnectError {
  /** Error code of Node or OpenSSL. */
  readonly code: string
  readonly says: string
  readonly next: string
}

interface Circumstances {
  readonly url: string
  /** True if a connection (and TLS, for https) was established before the failure. */
  readonly connected: boolean
  readonly limitMs: number
}

export function troubleOf(error: unknown, circumstances: Circumstances): ConnectError {
  const { code = 'UNKNOWN', message = String(error) } = (error ?? {}) as { code?: string; message?: string }
  // A name with several addresses fails with an AggregateError.
  const inner =
    error instanceof AggregateError ? (error.errors[0] as { code?: string; message?: string } | undefined) : undefined
  const known = inner?.code ?? code
  return {
    code: known,
    ...(describe(known, inner?.message ?? message, circumstances) ?? {
      says: `it cannot be asked: ${message}`,
      next: 'See whether curl reaches it from this machine.',
    }),
  }
}

/** Explains the failure of a `fetch`, whose own message has no cause. */
export function fetchTrouble(error: unknown, url: string): string {
  if (!(error instanceof Error)) return String(error)
  if (error.cause === undefined) return error.message
  const { code, says } = troubleOf(error.cause, { url, connected: false, limitMs: 10_000 })
  return code === 'UNKNOWN' && error.cause instanceof Error ? error.cause.message : says
}

type Words = Omit<ConnectError, 'code'>

function describe(code: string, message: string, circumstances: Circumstances): Words | null {
  return ofTls(code, message, circumstances.url) ?? ofNetwork(code, circumstances) ?? ofProtocol(code, circumstances)
}

function ofNetwork(code: string, { url, connected, limitMs }: Circumstances): Words | null {
  const { host, hostname } = new URL(url)
  switch (code) {
    case 'ECONNREFUSED':
      return {
        says: `nobody listens on ${host}`,
        next: 'Is it running, and is this its port? vllm serve listens only when the model is loaded.',
      }
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return {
        says: `the name ${hostname} cannot be resolved here`,
        next: 'Check its spelling, and that this machine uses the DNS that knows it.',
      }
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
      return {
        says: `there is no route to ${hostname}`,
        next: 'Is this machine in the engine’s network, or its tunnel up?',
      }
    case 'ETIMEDOUT':
    case 'DOCTOR_TIMEOUT':
      return connected
        ? {
            says: `it took the connection and did not answer within ${limitMs / 1000} s`,
            next: 'Its HTTP server hangs, or what listens there is no engine: see its log. --timeout-s waits longer.',
          }
        : {
            says: `no connection within ${limitMs / 1000} s`,
            next: 'A firewall drops it, or the address is wrong: try from a machine beside the engine.',
          }
    default:
      return null
  }
}

function ofProtocol(code: string, { url }: Circumstances): Words | null {
  const https = url.replace(/^http:/, 'https:')
  if (code === 'ECONNRESET' || code === 'EPIPE') {
    return {
      says: 'it broke the connection',
      next: url.startsWith('http:')
        ? `If it speaks TLS, ask ${https}. Else see its log.`
        : 'See its log, or that of the proxy in front of it.',
    }
  }
  if (code.startsWith('HPE_')) {
    return {
      says: 'what listens there does not speak HTTP/1.1',
      next: url.startsWith('http:')
        ? `Is it another port of the engine (ZMQ, NIXL)? If it speaks TLS, ask ${https}.`
        : 'Is it another port of the engine?',
    }
  }
  if (code === 'ERR_INVALID_CHAR' || code === 'ERR_INVALID_HTTP_TOKEN')
    return {
      says: 'a header or the key holds a character that HTTP cannot carry',
      next: 'Is there a line break or an umlaut in the key?',
    }
  return code === 'DOCTOR_TOO_LONG'
    ? { says: 'its answer is longer than any engine’s', next: 'Is the URL that of an engine, without a path?' }
    : null
}

const UNKNOWN_AUTHORITY: ReadonlySet<string> = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_GET_ISSUER_CERT',
])

function ofTls(code: string, message: string, url: string): Words | null {
  const { hostname } = new URL(url)
  if (UNKNOWN_AUTHORITY.has(code)) {
    return {
      says: `nobody this machine trusts has signed its certificate (${code})`,
      next: 'Start with NODE_EXTRA_CA_CERTS=ca.pem, the gateway too. Workers take public certificates only: put a tunnel in front.',
    }
  }
  if (code === 'CERT_HAS_EXPIRED')
    return {
      says: 'its certificate has expired',
      next: 'Renew it; if it was renewed, restart what serves it. Is the clock of this machine right?',
    }
  if (code === 'CERT_NOT_YET_VALID')
    return { says: 'its certificate is not valid yet', next: 'Compare the clocks of both machines.' }
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return {
      says: `its certificate is not for ${hostname}: ${namesIn(message)}`,
      next: 'Use a name that is in it, or have it reissued.',
    }
  if (
    code === 'ERR_SSL_WRONG_VERSION_NUMBER' ||
    (code === 'EPROTO' && /wrong version number|packet length/i.test(message))
  ) {
    return { says: 'it speaks no TLS', next: `Ask ${url.replace(/^https:/, 'http:')}.` }
  }
  if (/^(CERT_|ERR_SSL_|ERR_TLS_|EPROTO)/.test(code))
    return { says: `TLS fails (${code})`, next: `See it with: openssl s_client -connect ${new URL(url).host}` }
  return null
}

const namesIn = (message: string): string =>
  /altnames: (.*)$/.exec(message)?.[1] ?? /cert's CN: (.*)$/.exec(message)?.[1] ?? message
