import { OriginError } from '../../ports.ts'

/** What node:http and node:net call things, in the contract's words. `connected`: did a connection stand? */
export function originErrorOf(cause: unknown, connected: boolean, host: string): OriginError {
  if (cause instanceof OriginError) return cause
  const { code = '', message = String(cause) } = cause as { code?: string; message?: string }
  const options = { cause }
  if (code.startsWith('HPE_')) return new OriginError('malformed', `${host} sent what is not HTTP: ${message}`, options)
  if (!connected) return new OriginError('connect', `cannot connect to ${host}: ${message}`, options)
  return new OriginError('reset', `${host} broke the connection: ${message}`, options)
}
