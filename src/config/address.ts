/** Addresses as HOST:PORT. */
import * as z from 'zod/mini'

/** @declared */
export interface Address {
  readonly host: string
  readonly port: number
}

const addressRule = 'must be HOST:PORT like 127.0.0.1:8080, or [::1]:8080'

/** Address to listen on or to connect to. Port 0: any free port. */
export const address = z.pipe(
  z.string({ error: addressRule }).check(z.refine((value) => parseAddress(value) !== null, { error: addressRule })),
  z.transform((value) => parseAddress(value)!),
)

/** Parses HOST:PORT; `:8080` listens on every interface. null: not an address. */
export function parseAddress(value: string): Address | null {
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]*)):(\d{1,5})$/.exec(value)
  if (match === null) return null
  const port = Number(match[3])
  if (port > 65_535) return null
  return { host: match[1] ?? (match[2] === '' || match[2] === undefined ? '0.0.0.0' : match[2]), port }
}

/** Formats an address as HOST:PORT. */
export const addressText = ({ host, port }: Address): string => `${host.includes(':') ? `[${host}]` : host}:${port}`

/** Whether only this machine can reach the host. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(?:\.\d{1,3}){3}$/.test(host)
}
