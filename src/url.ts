/** Where an engine is, by its URL. */

/** An IPv6 address without its brackets, as sockets and resolvers take it. */
export const urlHost = ({ hostname }: Pick<URL, 'hostname'>): string => hostname.replace(/^\[|\]$/g, '')

/** The host of a base URL, as in `urlHost`. Throws for text that is not a URL. */
export const hostOf = (url: string): string => urlHost(new URL(url))

/**
 * Tells servers apart: headers do so with data-parallel ranks behind one address, and a `binding` leads into a network
 * of its own.
 */
export function hostPort(
  { url, headers }: { readonly url: string; readonly headers: Readonly<Record<string, unknown>> },
  binding: string | null = null,
): string {
  return JSON.stringify([new URL(url).href.replace(/\/+$/, ''), binding, Object.entries(headers).sort()])
}

/** Whether a host in lower case is the allowed one; `*.example.com` allows every host below `example.com`. */
export const matchesHost = (host: string, allowed: string): boolean =>
  allowed.startsWith('*.') ? host.endsWith(allowed.slice(1)) : host === allowed
